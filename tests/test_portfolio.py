from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from dataclasses import replace
from math import inf
from multiprocessing import Pipe
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
from members import Member
from problems import Recording, from_network, gaussian, named, with_holes
from processes import ended

from jtsolve.backends.brute import Brute
from jtsolve.backends.chowliu import ChowLiu
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.forward.backend import Forward
from jtsolve.backends.lns.backend import LargeNeighbourhoodSearch
from jtsolve.backends.portfolio.backend import Portfolio
from jtsolve.backends.portfolio.member import Assignment, _MemberReport, main, pack_problem, unpack
from jtsolve.backends.portfolio.pool import Pool
from jtsolve.backends.registry import REGISTRY
from jtsolve.backends.search.backend import LocalSearch
from jtsolve.backends.support.report import NewIncumbents
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.result import Status, Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import InternalError, LimitError
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.bic import Bic
from jtsolve.solving import Recorder, choose_backend, solve
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jtsolve.core.backend import Backend
    from jtsolve.core.scores import LocalScores

N = 14
"""Variables from which on members are processes; see `portfolio.backend._MOST_IN_PROCESS`."""


def wide(n: int = N, size: int = 2) -> Problem:
    return named(gaussian(0, n, size))


def does(*tasks: str, **fields: Any) -> Portfolio:
    return Portfolio(tuple(Member(task, **fields) for task in tasks))


LNS = LargeNeighbourhoodSearch(exact=DynamicProgramming(), start=(ChowLiu(),), region=4, kicks=1)
SEARCH = LocalSearch(start=(ChowLiu(),), steps=20_000)
"""Two that improve trees, but not much."""


def edgeless(n: int) -> JunctionTree:
    return JunctionTree(n, tuple(1 << v for v in range(n)), tuple((v, v + 1) for v in range(n - 1)))


def path_of(n: int) -> JunctionTree:
    return JunctionTree(n, tuple(0b11 << v for v in range(n - 1)), tuple((v, v + 1) for v in range(n - 2)))


def far_better(problem: Problem) -> JunctionTree:
    tree = replace(LNS, region=10, kicks=20).solve(problem, Limits(), Recording()).tree
    assert tree is not None
    return tree


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    before = set(psutil.Process().children(recursive=True))
    yield
    assert set(psutil.Process().children(recursive=True)) <= before


# The outcomes of members.


def test_the_best_of_the_members_is_returned_and_named() -> None:
    problem = named(from_network(1, N, 3))
    alone = solve(problem, LNS, Run(Limits(seed=1))).score
    result = solve(problem, Portfolio((Forward(), LNS)), Run(Limits(threads=2)))
    assert alone is not None
    assert result.score is not None
    assert result.score >= alone
    assert set(result.stats["members"]) == {"forward 0", "lns 1"}
    assert result.stats["best"] in result.stats["members"]
    assert result.stats["at_a_time"] == 2


@pytest.mark.parametrize(("n", "threads"), [(N, 2), (6, 2), (N, 1)], ids=["processes", "few", "one thread"])
def test_a_member_that_fails_is_named_and_the_others_answer_is_kept(n: int, threads: int) -> None:
    failing = [
        "raise",
        "raise oddly",
        "break",
        "break at the end",
        *(["crash"] if threads == 2 and n == N else []),
    ]
    outcome = does(*failing, "answer").solve(wide(n), Limits(threads=threads), Recording())
    assert outcome.tree is not None
    assert len(outcome.tree.cliques) == n
    failed = outcome.stats["failed"]
    assert len(failed) == len(failing)
    assert "nothing to divide by" in failed["member 0"]
    assert "1 and 2" in failed["member 1"]
    assert "breaks a constraint" in failed["member 2"]
    assert "breaks a constraint" in failed["member 3"]
    if "crash" in failing:
        assert "exit code 3" in failed["member 4"]
    assert outcome.stop is Stop.STEPS


def test_if_all_fail_it_is_an_error_that_names_all() -> None:
    with pytest.raises(InternalError, match=r"all members .* member 0: .*exit code 3.* member 1: Zero"):
        does("crash", "raise").solve(wide(), Limits(threads=2), Recording())
    with pytest.raises(LimitError, match="too little"):
        does("refuse", "refuse").solve(wide(), Limits(threads=2), Recording())


def test_a_member_with_a_forbidden_graph_fails() -> None:
    forbidden = Constraints(forbidden_graphs=frozenset({edgeless(N).edge_sets}))
    with pytest.raises(InternalError, match="breaks a constraint"):
        does("answer").solve(named(gaussian(0, N, 2), forbidden), Limits(), Recording())


def test_a_proof_ends_the_others() -> None:
    problem, limits = wide(), Limits(threads=2)
    recorder = Recorder(problem, Run(limits))  # the proof comes after the first tree
    # A member that writes a certificate has enough time to stop.
    outcome = does("wait", "follow", "hang", certificate="proof.json").solve(problem, limits, recorder)
    assert outcome.tree is not None
    assert outcome.bound == outcome.tree.score(wide().scores)
    assert outcome.stop is Stop.FINISHED
    assert outcome.stats["members"]["member 0"] == {"stopped": True}
    assert "member 2" not in outcome.stats["members"]  # its turn has not come
    assert recorder.trace


def test_a_proof_that_there_is_no_tree_ends_the_others() -> None:
    problem = named(gaussian(0, N, 2), Constraints(min_separator_size=1))
    outcome = does("prove none", "hang").solve(problem, Limits(threads=1), Recording())
    assert outcome.tree is None
    assert outcome.bound == float("-inf")


def test_exact_members_prove_trees_of_heuristics() -> None:
    problem = named(gaussian(2, N, 3))
    result = solve(problem, Portfolio((Forward(), DynamicProgramming())), Run(Limits(time=600.0, threads=2)))
    assert result.status is Status.OPTIMAL


def test_more_threads_than_members_repeat_the_heuristics_with_other_seeds() -> None:
    members = (Member("answer"), Member("answer", exact=True))
    outcome = Portfolio(members).solve(wide(), Limits(threads=4, seed=7, time=600.0), Recording())
    seen = outcome.stats["members"]
    assert [seen[f"member {i}"]["seed"] for i in range(4)] == [7, 8, 9, 10]
    assert len(seen) == 4
    assert seen["member 0"]["threads"] == 1
    assert seen["member 0"]["timed"] is True


def test_members_that_object_are_left_out() -> None:
    problem = wide()
    assert "brute: It supports at most 5" in Portfolio((Brute(),)).capabilities.objections(problem)[0]
    outcome = Portfolio((Brute(), Forward())).solve(problem, Limits(threads=2), Recording())
    assert list(outcome.stats["members"]) == ["forward 0"]


# The best tree of all.


@pytest.mark.parametrize(("n", "threads"), [(N, 2), (6, 2), (N, 1)], ids=["processes", "few", "one thread"])
def test_members_receive_the_best_tree_of_all(n: int, threads: int) -> None:
    problem = wide(n)
    first = "answer" if n != N or threads == 1 else "wait"
    recorder = Recorder(problem, Run(Limits(600.0)))  # without the news it would wait forever
    outcome = does(first, "follow").solve(problem, Limits(600.0, threads=threads), recorder)
    assert outcome.tree == recorder.incumbent == edgeless(n)
    assert outcome.bound == edgeless(n).score(problem.scores)  # proved by the member that follows
    assert len(outcome.stats["members"]) == 2


def test_a_portfolio_in_a_portfolio_passes_the_best_tree_on() -> None:
    problem = wide()
    inner = does("follow", "follow")
    recorder = Recorder(problem, Run(Limits(600.0)))
    outcome = Portfolio((Member("wait"), inner)).solve(problem, Limits(600.0, threads=4), recorder)
    assert outcome.bound == edgeless(N).score(problem.scores)
    assert not outcome.stats.get("failed")


@pytest.mark.parametrize("improver", [LNS, SEARCH], ids=lambda one: one.name)
def test_a_search_that_restarts_continues_from_a_better_tree_of_another(improver: Backend) -> None:
    problem = named(from_network(5, 20, 3))
    alone = improver.solve(problem, Limits(), Recording()).tree
    assert alone is not None
    worse, better = edgeless(20), far_better(problem)
    assert worse.score(problem.scores) < alone.score(problem.scores) < better.score(problem.scores)
    for other, expected in ((worse, alone), (alone, alone), (better, better)):
        recording = Recording(incumbent=other)
        found = improver.solve(problem, Limits(), recording).tree
        assert found is not None
        assert found.score(problem.scores) >= expected.score(problem.scores) - 1e-9
        if other is worse:
            assert found == alone  # as without an incumbent
        assert other not in recording.trees or other is not better  # it is not reported again


def test_each_incumbent_is_returned_once() -> None:
    recording = Recording()
    incumbents = NewIncumbents(recording)
    assert incumbents.new() is None
    for tree in (edgeless(N), path_of(N)):
        recording.incumbent = tree
        assert incumbents.new() is tree
        assert incumbents.new() is None


def test_a_member_reads_the_best_tree_as_its_incumbent(tmp_path: Path) -> None:
    problem = wide()
    trees = edgeless(N), path_of(N), far_better(problem)
    ours, theirs = Pipe()
    line = _MemberReport(theirs, Limits(), tmp_path / "best")
    jobs = Pool(problem, Limits(), (), 1)
    assert line.incumbent is None
    jobs.share(None, tmp_path / "best")
    assert line.incumbent is None
    jobs.share(trees[0], tmp_path / "best")
    assert line.incumbent == trees[0]
    jobs.next_share = inf
    jobs.share(trees[2], tmp_path / "best")
    assert line.incumbent == trees[0]  # too soon after the last one
    jobs.next_share = 0.0
    before = (tmp_path / "best").stat().st_mtime_ns
    jobs.share(trees[2], tmp_path / "best")
    os.utime(tmp_path / "best", ns=(before, before))  # as if written within a tick of the clock
    assert line.incumbent == trees[2]
    (tmp_path / "best").unlink()
    jobs.share(trees[2], tmp_path / "best")  # known: it is not written again
    assert line.incumbent == trees[2]
    ours.close()
    theirs.close()


# Limits.


def test_the_memory_is_divided_by_need_and_the_rest_waits() -> None:
    own = psutil.Process().memory_info().rss
    members = (Member("answer", bytes=3 * own), Member("answer", bytes=own))
    seen = Portfolio(members).solve(wide(), Limits(threads=2, memory=9 * own), Recording()).stats
    assert seen["at_a_time"] == 2
    first, second = (seen["members"][f"member {i}"]["memory"] for i in range(2))
    assert first == pytest.approx(3 * second, rel=0.01)
    assert first + second < 9 * own
    tight = Portfolio(members).solve(wide(), Limits(threads=2, memory=int(4.5 * own)), Recording())
    assert tight.stats["at_a_time"] == 1
    assert len(tight.stats["members"]) == 2
    frugal = replace(members[0], frugal=own)  # does with less where others need the rest
    both = Portfolio((frugal, members[1])).solve(
        wide(), Limits(threads=2, memory=int(4.5 * own)), Recording()
    )
    assert both.stats["at_a_time"] == 2
    with pytest.raises(LimitError, match="memory limit"):
        Portfolio(members).solve(wide(), Limits(threads=2, memory=own), Recording())


def test_a_time_limit_ends_all_and_kills_unresponsive_members(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    members = (Member("wait"), Member("hang", str(path)))
    limits = Limits(threads=2, time=None)
    problem = wide()

    class UntilBothTalk(Recording):
        @property
        def stop(self) -> Stop | None:
            return Stop.INTERRUPTED if path.is_file() and path.read_text() and self.trees else None

    outcome = Portfolio(members).solve(problem, limits, UntilBothTalk())
    assert outcome.tree is not None
    assert outcome.stop is Stop.INTERRUPTED
    assert ended(*map(int, path.read_text(encoding="utf-8").split()))


def test_a_time_limit_that_is_over_starts_no_member() -> None:
    outcome = does("answer", "answer").solve(
        wide(), Limits(threads=2), Recording(patience=0, reason=Stop.TIME)
    )
    assert outcome.tree is None
    assert outcome.stop is Stop.TIME


def test_members_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    script = (
        "import sys; sys.path[:] = eval(sys.argv[1])\n"
        "from test_portfolio import does, wide\n"
        "from problems import Recording\n"
        "from jtsolve.core.run import Limits\n"
        f"does('hang', 'wait', path={str(path)!r}).solve(wide(), Limits(threads=2), Recording())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, repr(sys.path)])  # noqa: S603
    while not (path.is_file() and path.read_text(encoding="utf-8")):
        assert parent.poll() is None
    pids = [process.pid for process in psutil.Process(parent.pid).children(recursive=True)]
    parent.kill()
    parent.wait()
    assert len(pids) >= 2
    assert ended(*pids)


# Transfer to members.


def test_scores_arrive_equal_mapped_and_read_only(tmp_path: Path) -> None:
    several: list[LocalScores] = [gaussian(0, 8, 3), with_holes(0, gaussian(0, 8, 3), 0.3)]
    for number, scores in enumerate(several):
        problem = named(scores, Constraints(max_treewidth=2))
        other = unpack(pack_problem(problem, tmp_path / str(number)))
        assert other.constraints == problem.constraints
        assert other.digest() == problem.digest()
    dense = unpack(pack_problem(wide(), tmp_path / "dense")).scores
    assert not dense.values.flags.writeable  # type: ignore[attr-defined]
    assert not dense.values.flags.owndata  # type: ignore[attr-defined]


def test_scores_on_demand_arrive_with_their_data(tmp_path: Path) -> None:
    codes = np.random.default_rng(0).integers(0, 2, (N, 50)).astype(np.uint8)
    names = tuple(f"V{v}" for v in range(N))
    table = DataTable(names, (("0", "1"),) * N, codes)
    scores = DataScores(table, Bic(), 3, cache=100)
    problem = Problem(
        tuple(Variable(name) for name in names), scores, provenance=MappingProxyType({"a": {1: 2}})
    )
    other = unpack(pack_problem(problem, tmp_path / "scores"))
    assert other.scores.score(0b111) == scores.score(0b111)
    assert repr(other.scores) == repr(scores)
    assert other.scores.stats["cached"] == 1  # type: ignore[attr-defined]
    result = solve(problem, Portfolio((Forward(), LNS)), Run(Limits(threads=2)))
    assert result.status is Status.FEASIBLE


def test_a_member_reports_and_obeys(tmp_path: Path) -> None:
    ours, theirs = Pipe()
    line = _MemberReport(theirs, Limits(time=1000.0), tmp_path / "best")
    assert line.stop is None
    assert line(done=0.5)
    assert line(bound=3.0)
    assert ours.recv() == ("news", {"tree": None, "bound": 3.0})
    ours.send(Stop.INTERRUPTED)
    ours.close()
    line.await_stop()
    assert line.stop is Stop.INTERRUPTED
    line.send("ended", None)  # no parent is left to forward it
    assert _MemberReport(theirs, Limits(time=1e-9), tmp_path / "best").stop is Stop.TIME
    theirs.close()


@pytest.mark.parametrize(
    ("task", "kind"), [("answer", "ended"), ("raise", "failed"), ("raise oddly", "failed")]
)
def test_a_process_always_answers(task: str, kind: str, tmp_path: Path) -> None:
    ours, theirs = Pipe()
    ours.send_bytes(pack_problem(wide(), tmp_path / "scores"))
    ours.send_bytes(pickle.dumps(Assignment(Member(task), 60.0, 10**11, 1, 5, str(tmp_path / "incumbent"))))
    main(theirs)
    sent, content = ours.recv()
    ours.close()
    assert sent == kind
    if kind == "ended":
        assert content.stats["seed"] == 5
    else:  # where a library has extended pickle to any error, `Odd` itself arrives
        assert isinstance(content, Exception)
        assert "1 and 2" in str(content) or task == "raise"


def test_an_assignment_that_cannot_be_read_is_an_error() -> None:
    ours, theirs = Pipe()
    ours.send_bytes(b"")
    ours.send_bytes(b"no assignment")
    main(theirs)
    assert ours.recv()[0] == "failed"


# In the library.


def test_no_members_are_refused() -> None:
    with pytest.raises(ValueError, match="no member"):
        Portfolio(())


def test_members_are_written_with_plus_signs() -> None:
    portfolio: Any = REGISTRY.parse("portfolio:members=forward+chowliu")
    assert [member.name for member in portfolio.members] == ["forward", "chowliu"]


def test_auto_selects_it_above_the_exact_range() -> None:
    assert choose_backend(named(gaussian(0, 45, 3)), Run(Limits(threads=2))).backend.name == "portfolio"
    assert REGISTRY["portfolio"].capabilities.rank > REGISTRY["merging"].capabilities.rank
    assert REGISTRY["merging"].capabilities.rank > REGISTRY["lns"].capabilities.rank


def test_auto_selects_it_on_one_thread_too() -> None:
    assert choose_backend(named(gaussian(0, 45, 3)), Run(Limits(threads=1))).backend.name == "portfolio"


# Turns on one thread.


def test_members_take_turns_and_share_trees() -> None:
    problem = wide()
    recorder = Recorder(problem, Run(Limits(600.0)))  # one after the other, the first would never end
    outcome = does("follow", "answer").solve(problem, Limits(600.0, threads=1), recorder)
    assert outcome.bound == edgeless(N).score(problem.scores)
    assert outcome.stats["at_a_time"] == 2


def test_a_proof_out_of_reach_costs_a_search_no_turns() -> None:
    members = Member("answer"), Member("wait", exact=True)
    for seconds, memory, turns in ((1.0, 1, 2), (1e9, 1, 1), (1.0, 1 << 60, 1)):
        distant = replace(members[1], seconds=seconds, bytes=memory)
        portfolio = Portfolio((members[0], distant, Member("answer")))
        outcome = portfolio.solve(wide(), Limits(0.5, threads=1), Recording(reason=Stop.TIME, patience=50))
        assert outcome.stats["at_a_time"] == turns


def test_a_member_that_stops_while_it_scores_has_not_failed() -> None:
    outcome = does("stop", "answer").solve(wide(), Limits(threads=1), Recording())
    assert outcome.tree == edgeless(N)
    assert "failed" not in outcome.stats


def test_a_run_that_breaks_off_leaves_no_member_running() -> None:
    class Broken(Recording):
        asked = 0

        @property
        def stop(self) -> Stop | None:
            if threading.current_thread() is threading.main_thread():
                self.asked += 1
                if self.asked > 2:
                    raise KeyboardInterrupt
            return None

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        does("answer", "wait", "answer", "answer").solve(wide(), Limits(threads=1), Broken())
    members = set(threading.enumerate()) - before
    for thread in members:
        thread.join(10.0)
    assert not any(thread.is_alive() for thread in members)


def test_with_few_variables_one_that_searches_comes_before_a_proof() -> None:
    portfolio = Portfolio((Member("wait", exact=True), Member("answer")))
    outcome = portfolio.solve(wide(6), Limits(threads=1), Recording(reason=Stop.TIME, patience=50))
    assert outcome.tree == edgeless(6)


# Without a time limit.


def test_a_proof_continues_for_a_while_after_the_search() -> None:
    class Hurried(Limits):
        __slots__ = ()

        @property
        def elapsed(self) -> float:
            return 100 * super().elapsed

    members = (Member("answer"), Member("wait", exact=True))
    outcome = Portfolio(members).solve(wide(6), Hurried(threads=1), Recording())
    assert outcome.stop is Stop.STEPS
    assert outcome.stats["members"]["member 1"] == {"stopped": True}
    with pytest.raises(ValueError, match="patience"):
        Portfolio(members, patience=-1.0)


def test_auto_selects_it_where_its_first_member_does_not_support_the_problem() -> None:
    problem = replace(named(gaussian(0, 45, 3)), constraints=Constraints(max_cliques=20))
    assert choose_backend(problem, Run(Limits(threads=2))).backend.name == "portfolio"


def test_it_is_exact_if_all_members_are() -> None:
    assert Portfolio((Brute(), DynamicProgramming())).capabilities.exact
    assert not Portfolio((Brute(), Forward())).capabilities.exact
