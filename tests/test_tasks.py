"""Tests of a solve on Dask workers: members of the portfolio, and nodes of clutter's branch and bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest
from problems import Recording, gaussian, many_ties, named
from runs import ReportingRun

from jtsolve.backends.clutter import spread
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.clutter.branch_and_bound import BranchAndBound
from jtsolve.backends.clutter.subproblem import Subproblem
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.portfolio.backend import Portfolio
from jtsolve.backends.registry import REGISTRY
from jtsolve.backends.support import tasks as tasks_module
from jtsolve.backends.support.tasks import Tasks, tasks_on
from jtsolve.cli import run
from jtsolve.cluster import Cluster, ClusterLostError, Workers, local_workers
from jtsolve.core.problem import Constraints, Problem
from jtsolve.core.result import Outcome, Status, Stop
from jtsolve.core.run import Limits
from jtsolve.core.sparsity import size_of
from jtsolve.errors import LimitError
from jtsolve.families.families import families_of
from jtsolve.io.certificate import read_certificate
from jtsolve.io.instance import write_problem
from jtsolve.io.result import result_to_document
from jtsolve.solving import solve
from jtsolve.verify.certificate import verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jtsolve.core.backend import Capabilities, Report
    from jtsolve.core.result import Result

ALONE = ClutterCuts()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets workers join as soon as there is work for them."""
    monkeypatch.setattr(tasks_module, "_ALONE", 0.0)


@pytest.fixture
def workers() -> Iterator[Workers]:
    """Two workers in this process, of which a test may lose one."""
    pytest.importorskip("distributed")
    with local_workers(2, processes=False) as found:
        yield found


@pytest.fixture(scope="module")
def branching() -> tuple[Problem, Result]:
    """A problem whose proof needs branches even from the best tree, and its result in one process."""
    problem = named(gaussian(1, 7, 3), Constraints(max_cliques=3))
    here = solve(problem, ALONE)
    assert here.stats["nodes"] > 1
    return problem, here


def agrees(here: Result, there: Result) -> bool:
    """Tells whether both are the optimum."""
    assert here.status is there.status is Status.OPTIMAL, there.stop
    return there.score == pytest.approx(here.score, abs=1e-6)


def proved_by(problem: Problem, path: Path, workers: Workers) -> Result:
    """Solves a problem on workers, and verifies the certificate."""
    found = solve(problem, ClutterCuts(certificate=str(path)), cluster=Cluster(client=workers.client))
    assert verify(problem, result_to_document(found), read_certificate(path)) == ()
    return found


def test_nodes_on_workers_make_one_certificate(
    branching: tuple[Problem, Result],
    workers: Workers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, here = branching
    share, shared = Workers.share, []

    def watched(self: Workers, value: Any, patience: float | None = None) -> Any:
        shared.append(value)
        return share(self, value, patience)

    monkeypatch.setattr(Workers, "share", watched)
    monkeypatch.setattr(spread, "_SECONDS", 0.0)
    there = proved_by(problem, tmp_path / "c.json", workers)
    assert len(shared) == 1, "the scores travel once, not with each task"
    assert agrees(here, there)
    assert there.stats["tasks"] == there.stats["nodes"] - 1 > 1, "the first is bounded here"


def test_a_proof_by_workers_ends_with_the_sparsest_tree(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "_SECONDS", 0.0)
    problem = many_ties(9, 7)
    there = solve(problem, ALONE, cluster=Cluster(client=workers.client))
    here = solve(problem, DynamicProgramming("int64"))
    assert there.stats["tasks"] > 1
    assert there.stats["ties"] == here.stats["ties"] == "edges, parameters"
    assert here.tree is not None
    assert there.tree is not None
    assert (there.score, size_of(problem, there.tree)) == (here.score, size_of(problem, here.tree))


def test_workers_prove_that_there_is_no_tree(workers: Workers, tmp_path: Path) -> None:
    random = gaussian(0, 6, 6)
    constraints = Constraints(max_cliques=1, forbidden_edges=frozenset({3}))
    problem = named(replace(random, values=1e13 * random.values), constraints)
    found = proved_by(problem, tmp_path / "c.json", workers)
    assert found.status is Status.INFEASIBLE


def test_a_worker_that_dies_costs_its_node(
    branching: tuple[Problem, Result],
    workers: Workers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import distributed

    problem, here = branching
    explored = spread._explored
    dead: list[str] = []

    def deadly(*arguments: Any) -> spread.Explored:
        found = explored(*arguments)
        if not dead:
            worker = distributed.get_worker()
            dead.append(worker.address)
            worker.loop.add_callback(worker.close, executor_wait=False)
            while worker.status.name != "closed":
                sleep(0.01)
        return found

    monkeypatch.setattr(spread, "_SECONDS", 0.0)
    monkeypatch.setattr(spread, "_explored", deadly)
    assert agrees(here, proved_by(problem, tmp_path / "c.json", workers))
    assert dead
    assert workers.threads == 1


def test_an_interrupted_proof_has_a_bound_and_its_certificate(
    branching: tuple[Problem, Result],
    workers: Workers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, here = branching
    monkeypatch.setattr(spread, "_SECONDS", 0.0)
    path = tmp_path / "c.json"

    def listen(*, note: str | None, **_news: object) -> None:
        if note is not None and "on workers" in note:
            reporting.interrupt()

    reporting = ReportingRun(listen)
    backend = ClutterCuts(certificate=str(path))
    found = solve(problem, backend, reporting, Cluster(client=workers.client))
    assert found.stop is Stop.INTERRUPTED
    assert found.bound >= here.bound - 1e-6
    assert found.bound < inf
    assert verify(problem, result_to_document(found), read_certificate(path)) == ()


def test_members_of_a_portfolio_are_tasks(branching: tuple[Problem, Result], workers: Workers) -> None:
    problem, here = branching
    backend = Portfolio((REGISTRY["forward"], ALONE), patience=1e9)
    there = solve(problem, backend, cluster=Cluster(client=workers.client))
    assert agrees(here, there)
    assert set(there.stats["members"]) <= {"forward 0", "clutter 1"}
    assert "failed" not in there.stats or "forward 0" in there.stats["failed"]
    none = Portfolio((REGISTRY["dp"],))
    plain = named(gaussian(1, 5))
    assert agrees(solve(plain, none), solve(plain, none, cluster=Cluster(client=workers.client)))


def test_a_member_that_fails_is_named(workers: Workers) -> None:
    problem = named(gaussian(1, 5))
    backend = Portfolio((Failing(), ALONE), patience=1e9)
    found = solve(problem, backend, cluster=Cluster(client=workers.client))
    assert found.status is Status.OPTIMAL
    assert found.stats["failed"] == {"failing 0": "LimitError: too large"}


@dataclass(frozen=True)
class Failing:
    """A backend that fails."""

    name: ClassVar[str] = "failing"
    capabilities: ClassVar[Capabilities] = REGISTRY["forward"].capabilities
    estimate: ClassVar[Any] = REGISTRY["forward"].estimate

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        del problem, limits, report
        raise LimitError("too large")


def test_any_other_backend_is_one_task(workers: Workers) -> None:
    problem, cluster = named(gaussian(2, 6)), Cluster(client=workers.client)
    assert agrees(solve(problem, REGISTRY["dp"]), solve(problem, REGISTRY["dp"], cluster=cluster))
    priced = ClutterCuts(columns=5)
    assert agrees(solve(problem, priced), solve(problem, priced, cluster=cluster))
    with pytest.raises(LimitError, match="too large"):
        solve(problem, Failing(), cluster=cluster)


def test_a_node_that_no_worker_survives_ends_the_proof(
    branching: tuple[Problem, Result], workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, here = branching

    def out_of_memory(*_arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Subproblem, "unpacked", out_of_memory)
    found = solve(problem, ALONE, cluster=Cluster(client=workers.client))
    assert found.stop is Stop.MEMORY
    assert found.bound >= here.bound - 1e-6


def test_the_best_tree_survives_the_scheduler(workers: Workers) -> None:
    problem = named(gaussian(0, 10, 4), Constraints(max_cliques=5))

    def listen(*, score: float | None, **_news: object) -> None:
        if score is not None and workers.client.status == "running":
            workers.client.cluster.close()

    found = solve(problem, ALONE, ReportingRun(listen), Cluster(client=workers.client))
    assert found.stop is Stop.LOST
    assert found.tree is not None


def test_nodes_that_no_worker_gets_stay_open(
    branching: tuple[Problem, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, here = branching

    def failed(**_: object) -> None:
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr("distributed.LocalCluster", failed)
    found = solve(problem, ALONE, cluster=Cluster())
    assert found.stop is Stop.LOST
    assert found.tree is not None
    assert here.bound - 1e-6 <= found.bound < inf


def until_stopped(_problem: Problem, _limits: Limits, report: Report) -> Stop | None:
    """Runs until it has to stop; a task."""
    end = monotonic() + 10
    while report.stop is None and monotonic() < end:
        sleep(0.01)
    return report.stop


def test_a_scheduler_that_goes_as_a_task_ends_costs_no_node() -> None:
    problem = named(gaussian(2, 9))
    search = BranchAndBound.whole(
        problem, families_of(problem, 0), Limits(threads=1), Recording(), keep_stages=False
    )

    class Going:
        """The tasks of a cluster whose scheduler goes just as the first task ends without a result."""

        def __init__(self) -> None:
            self.site, self.workers, self.gone = self, self, False

        @property
        def threads(self) -> int:
            if self.gone:
                raise ClusterLostError("gone")
            return 1

        def submit(self, *_arguments: Any, **_keywords: Any) -> int:
            return 7

        def drive(self, work: Any, _report: Any) -> None:
            work.start()
            self.gone = True
            work.ended(7, None)

    work = spread.Spread(cast("Any", Going()), search, Limits(threads=1), Recording())
    before = work.bound
    assert work.run() is not Stop.FINISHED
    assert work.bound == before


def test_a_task_that_nobody_wants_any_more_stops(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_module, "_LOOK", 0.01)
    problem = named(gaussian(0, 3))

    cluster = Cluster(client=workers.client)

    def result(tasks: Tasks) -> Any:
        return workers.result(tasks.running[tasks.submit(until_stopped, limits=Limits())])

    with monkeypatch.context() as hurried, tasks_on(cluster, problem) as tasks:
        hurried.setattr(tasks_module, "_FORSAKEN", 0.05)
        assert result(tasks) is Stop.INTERRUPTED, "nobody renews the variable"
    with monkeypatch.context() as hurried, tasks_on(cluster, problem) as tasks:
        hurried.setattr(tasks_module, "_FORSAKEN", 0.5)
        tasks._open()
        tasks._variable.delete()
        assert result(tasks) is Stop.INTERRUPTED, "it is withdrawn"
    with tasks_on(cluster, problem) as tasks:
        tasks._open()
        tasks._post(Stop.TIME, None)
        assert result(tasks) is Stop.TIME
        number = tasks.submit(until_stopped, limits=Limits(time=0.05))
        assert workers.result(tasks.running[number]) is Stop.TIME


def test_the_command_solves_on_workers(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    instance, result = str(tmp_path / "i.json"), tmp_path / "r.json"
    write_problem(named(gaussian(2, 5)), instance)
    executor = ["--executor", f"dask={workers.client.scheduler.address}"]
    assert run(["solve", instance, *executor, "--quiet", "--output", str(result)], monotonic()) == 0
    assert run(["solve", instance, *executor, "--k-best", "2"], monotonic()) == 2
    assert "in one process" in capsys.readouterr().err

    def gone(*_arguments: object) -> None:
        raise ClusterLostError("gone")

    monkeypatch.setattr("jtsolve.solving.tasks_on", gone)
    result.unlink()
    assert run(["solve", instance, *executor, "--quiet", "--output", str(result)], monotonic()) == 4
    assert '"lost"' in result.read_text()
    assert "its scheduler or all" in capsys.readouterr().err
