"""`solve`: refusals, the choice of a backend, limits, traces, interruption, and wrong answers."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, ClassVar
from unittest.mock import patch

import numpy as np
import pytest
from problems import gaussian, named
from runs import ReportingRun

from jtsolve import solving as solve_module
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.core.problem import ALL_FEATURES, Constraints, Problem, ProblemFeature, Variable
from jtsolve.core.result import Incumbent, Outcome, Status, Stop, gap_in_words
from jtsolve.core.run import Console, Limits, Run
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import InternalError, LimitError, RefusedError
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.solving import Recorder, backend_options, choose_backend, forecast_of, independence, solve
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jtsolve.core.choices import Registry

ISOLATED = JunctionTree(3, (0b001, 0b010, 0b100), ((0, 1), (1, 2)))
CHAIN = JunctionTree(3, (0b011, 0b110), ((0, 1),))
ANYTHING = Capabilities()
CHEAP = Estimate(memory=1000, seconds=1.0)
FULL = JunctionTree(3, (0b111,), ())


class Scripted:
    """A backend scripted by a test; no dataclass, since a script is no option."""

    def __init__(
        self,
        script: Callable[[Problem, Limits, Report], Outcome],
        capabilities: Capabilities = ANYTHING,
        cost: Estimate = CHEAP,
        name: str = "scripted",
    ) -> None:
        self.script, self.capabilities, self.cost, self.name = script, capabilities, cost, name

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:  # noqa: ARG002 - the protocol
        return self.cost

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        return self.script(problem, limits, report)


def claims(outcome: Outcome) -> Scripted:
    return Scripted(lambda _problem, _limits, _report: outcome)


@pytest.fixture
def problem() -> Problem:
    """A problem whose best tree is CHAIN."""
    return named(gaussian(6, 3), name="three")


IMPOSSIBLE = named(gaussian(3, 3), Constraints(max_treewidth=1, min_separator_size=2))


@pytest.fixture
def registry() -> Iterator[Registry[Backend]]:
    """The registry, with the entries of a test only."""
    with patch.dict(REGISTRY, clear=True):
        yield REGISTRY


# Recorder


def test_the_recorder_keeps_the_best_tree_and_the_least_bound(problem: Problem) -> None:
    recorder = Recorder(problem, Run())
    trees = sorted((ISOLATED, CHAIN, FULL), key=lambda tree: tree.score(problem.scores))
    scores = [tree.score(problem.scores) for tree in trees]
    assert recorder.incumbent is None
    assert recorder(tree=trees[1], done=0.1, note="begin")
    assert recorder(tree=trees[0])
    assert recorder.incumbent == trees[1]
    assert recorder(bound=scores[2] + 5)
    assert recorder(bound=scores[2] + 7)
    assert recorder(tree=trees[2], bound=scores[2] + 1)
    assert recorder(tree=trees[2])
    assert (recorder.tree, recorder.score, recorder.bound) == (trees[2], scores[2], scores[2] + 1)
    assert recorder.incumbent == trees[2]
    steps = [(step.score, step.bound) for step in recorder.trace]
    assert steps == [(scores[1], None), (scores[1], scores[2] + 5), (scores[2], scores[2] + 1)]
    seconds = [step.seconds for step in recorder.trace]
    assert seconds == sorted(seconds)


def test_the_recorder_stops_at_the_time_limit_and_when_interrupted(problem: Problem) -> None:
    late = Recorder(problem, Run(Limits(time=5.0, started=time.monotonic() - 6.0)))
    assert late.stop is Stop.TIME
    assert not late(done=0.5)
    run = Run(Limits(time=1e6))
    early = Recorder(problem, run)
    assert early.stop is None
    assert early(done=0.5)
    run.interrupt()
    assert early.stop is Stop.INTERRUPTED
    assert not early()


def test_the_run_receives_all_reports_and_every_improvement(problem: Problem) -> None:
    heard: list[dict[str, object]] = []
    steps: list[Incumbent] = []
    run = ReportingRun(lambda **news: heard.append(news), console=Console(improved=steps.append))
    recorder = Recorder(problem, run)
    recorder(note="reading", done=0.25)
    recorder(tree=FULL, bound=100.0)
    recorder(bound=100.0)
    score = FULL.score(problem.scores)
    assert heard[:2] == [
        {"score": None, "bound": inf, "gain": None, "done": 0.25, "note": "reading"},
        {
            "score": score,
            "bound": 100.0,
            "gain": score - independence(problem),
            "done": None,
            "note": None,
        },
    ]
    assert [(step.score, step.bound) for step in steps] == [(score, 100.0)]


def test_many_threads_may_report(problem: Problem) -> None:
    recorder = Recorder(problem, Run())

    def work(offset: int) -> None:
        for step in range(200):
            recorder(bound=1000.0 - step - offset / 10, tree=FULL)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.bound == 1000.0 - 199 - 0.3
    bounds = [step.bound for step in recorder.trace if step.bound is not None]
    assert bounds == sorted(bounds, reverse=True)


# solve


def test_a_proved_tree_is_optimal(problem: Problem) -> None:
    score = CHAIN.score(problem.scores)
    result = solve(problem, claims(Outcome(CHAIN, bound=score, stats={"k": 1}, seconds={"part": 0.5})))
    assert (result.status, result.stop, result.tree, result.score) == (
        Status.OPTIMAL,
        Stop.FINISHED,
        CHAIN,
        score,
    )
    assert result.gap == 0.0
    assert (result.instance, result.digest, result.names) == ("three", problem.digest(), ("A", "B", "C"))
    assert (result.backend, result.stats["k"], result.seed) == ("scripted", 1, 0)
    assert result.seconds["part"] == 0.5
    assert result.seconds["total"] > 0
    assert [step.score for step in result.trace] == [score]


def test_a_bound_just_below_the_score_is_lifted_to_it(problem: Problem) -> None:
    score = CHAIN.score(problem.scores)
    result = solve(problem, claims(Outcome(CHAIN, bound=score - 1e-9)))
    assert result.bound == result.score == score


def test_a_bound_far_above_leaves_the_tree_feasible(problem: Problem) -> None:
    result = solve(problem, claims(Outcome(CHAIN, bound=CHAIN.score(problem.scores) + 1)))
    assert result.status is Status.FEASIBLE
    assert result.gap == pytest.approx(1.0)


def test_without_a_bound_the_family_bound_is_used(problem: Problem) -> None:
    best = solve(problem, REGISTRY["brute"]).score
    assert best is not None
    result = solve(problem, claims(Outcome(ISOLATED)))
    assert best - 1e-9 <= result.bound < inf


def test_the_trace_ends_with_the_last_score_and_bound(problem: Problem) -> None:
    score = CHAIN.score(problem.scores)
    found = solve(problem, claims(Outcome(CHAIN, bound=score + 0.5)))
    assert [(step.score, step.bound) for step in found.trace] == [(score, score + 0.5)]
    proved = solve(IMPOSSIBLE, claims(Outcome(None, bound=-inf)))
    assert [(step.score, step.bound) for step in proved.trace] == [(None, -inf)]
    assert solve(problem, claims(Outcome(None))).trace == ()


def test_a_reported_tree_and_bound_count_though_the_outcome_forgets_them(problem: Problem) -> None:
    score = CHAIN.score(problem.scores)

    def script(_problem: Problem, _limits: Limits, report: Report) -> Outcome:
        report(tree=CHAIN, bound=score + 2)
        return Outcome(None, stop=Stop.STEPS)

    result = solve(problem, Scripted(script))
    assert (result.tree, result.bound, result.status, result.stop) == (
        CHAIN,
        score + 2,
        Status.FEASIBLE,
        Stop.STEPS,
    )


def test_no_tree_is_unknown_or_proved_infeasible(problem: Problem) -> None:
    unknown = solve(problem, claims(Outcome(None, stop=Stop.MEMORY)))
    assert (unknown.status, unknown.tree, unknown.score, unknown.gap) == (Status.UNKNOWN, None, None, inf)
    assert unknown.bound < inf
    proved = solve(IMPOSSIBLE, claims(Outcome(None, bound=-inf)))
    assert (proved.status, proved.bound, proved.gap) == (Status.INFEASIBLE, -inf, 0.0)


def test_the_time_limit_reaches_the_backend(problem: Problem) -> None:
    def script(_problem: Problem, _limits: Limits, report: Report) -> Outcome:
        while report(tree=ISOLATED):
            pass
        return Outcome(None, stop=report.stop or Stop.FINISHED)

    result = solve(problem, Scripted(script), Run(Limits(time=0.05)))
    assert (result.stop, result.tree, result.status) == (Stop.TIME, ISOLATED, Status.FEASIBLE)


def test_a_batch_of_scores_that_is_cut_short_ends_the_run_with_the_best_tree() -> None:
    codes = np.random.default_rng(0).integers(0, 2, (30, 40_000))
    table = DataTable(tuple(f"v{i}" for i in range(30)), (("0", "1"),) * 30, codes)
    lazy = Problem(tuple(map(Variable, table.names)), DataScores(table, Bdeu(), 5))
    rows = np.array(list(combinations(range(30), 5)), dtype=np.intp)
    forest = JunctionTree.from_families([(v, 0) for v in range(30)])

    def script(problem: Problem, limits: Limits, report: Report) -> Outcome:
        report(tree=forest)
        while limits.elapsed < 0.01:
            pass
        problem.scores.batch(rows)
        raise AssertionError("the batch takes a second, and the limit was over")

    result = solve(lazy, Scripted(script), Run(Limits(time=0.01)))
    assert (result.stop, result.tree, result.status) == (Stop.TIME, forest, Status.FEASIBLE)


def test_every_reason_to_refuse_is_given_at_once() -> None:
    constraints = Constraints(max_cliques=2, min_separator_size=1)
    asked = named(gaussian(1, 3), constraints)
    capabilities = Capabilities(
        features=ALL_FEATURES - {ProblemFeature.MAX_CLIQUES, ProblemFeature.MIN_SEPARATOR_SIZE},
        max_variables=2,
        rules=(lambda _problem: "It never works on this machine.", lambda _problem: None),
    )

    def never(_problem: Problem, _limits: Limits, _report: Report) -> Outcome:
        raise AssertionError("a refused problem is never solved")

    with pytest.raises(RefusedError) as caught:
        solve(asked, Scripted(never, capabilities))
    assert caught.value.backend == "scripted"
    assert caught.value.reasons == (
        "It does not support the constraint max_cliques.",
        "It does not support the constraint min_separator_size.",
        "It supports at most 2 variables, not 3.",
        "It never works on this machine.",
    )
    assert all(reason in str(caught.value) for reason in caught.value.reasons)


@pytest.mark.parametrize(
    ("constraints", "outcome", "message"),
    [
        (Constraints(), Outcome(FULL, bound=-1e6), "claims the bound -1000000.0, but its own tree scores"),
        (Constraints(max_treewidth=1), Outcome(FULL), "treewidth"),
        (Constraints(forbidden_edges=frozenset({0b011})), Outcome(CHAIN), "forbidden"),
        (Constraints(min_separator_size=1), Outcome(ISOLATED), "separator"),
        (Constraints(), Outcome(JunctionTree(2, (0b11,), ())), "variables"),
    ],
)
def test_a_wrong_answer_of_a_backend_is_detected(
    constraints: Constraints, outcome: Outcome, message: str
) -> None:
    asked = named(gaussian(3, 3), constraints)
    with pytest.raises(InternalError, match=message) as caught:
        solve(asked, claims(outcome))
    assert "'scripted'" in str(caught.value)


def test_a_wrong_report_is_detected(problem: Problem) -> None:
    def script(_problem: Problem, _limits: Limits, report: Report) -> Outcome:
        report(tree=CHAIN)
        report(bound=CHAIN.score(problem.scores) - 3)
        return Outcome(None)

    with pytest.raises(InternalError, match="claims the bound"):
        solve(problem, Scripted(script))


# Interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_the_best_tree(problem: Problem, number: signal.Signals) -> None:
    before = signal.getsignal(number)

    def script(_problem: Problem, _limits: Limits, report: Report) -> Outcome:
        report(tree=ISOLATED)
        os.kill(os.getpid(), number)
        while report():
            pass
        return Outcome(None, stop=report.stop or Stop.FINISHED)

    result = solve(problem, Scripted(script))
    assert (result.stop, result.tree) == (Stop.INTERRUPTED, ISOLATED)
    assert signal.getsignal(number) is before


def test_a_signal_during_the_final_check_does_not_lose_the_answer(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_problem: Problem, _result: object) -> tuple[str, ...]:
        signal.raise_signal(signal.SIGINT)
        return ()

    monkeypatch.setattr(solve_module, "check", interrupted)
    assert solve(problem, claims(Outcome(CHAIN))).tree == CHAIN


def test_a_second_ctrl_c_is_not_held_back(problem: Problem) -> None:
    def script(_problem: Problem, _limits: Limits, report: Report) -> Outcome:
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        while report():
            pass
        raise AssertionError("the second signal ends the run")

    with pytest.raises(KeyboardInterrupt):
        solve(problem, Scripted(script))


def test_handlers_are_restored_after_an_error(problem: Problem) -> None:
    before = signal.getsignal(signal.SIGINT)

    def script(_problem: Problem, _limits: Limits, _report: Report) -> Outcome:
        raise LimitError("too small")

    with pytest.raises(LimitError):
        solve(problem, Scripted(script))
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_may_solve(problem: Problem) -> None:
    results = []
    thread = threading.Thread(target=lambda: results.append(solve(problem, claims(Outcome(CHAIN)))))
    thread.start()
    thread.join()
    assert results[0].tree == CHAIN


# choose


def backend(
    name: str, seconds: float, memory: int = 1000, *, exact: bool = True, most: int = 9, rank: int = 0
) -> Scripted:
    capabilities = Capabilities(exact=exact, max_variables=most, rank=rank)
    return Scripted(
        lambda _problem, _limits, _report: Outcome(CHAIN), capabilities, Estimate(memory, seconds), name
    )


def test_the_fastest_exact_backend_is_chosen(problem: Problem, registry: Registry[Backend]) -> None:
    for one in (backend("quick", 0.1, exact=False), backend("slow", 9), backend("good", 2)):
        registry[one.name] = one
    choice = choose_backend(problem, Run())
    assert (choice.backend.name, choice.estimate.seconds) == ("good", 2)
    assert "'good', the exact backend" in choice.reason
    assert solve(problem).backend == "good"


def test_a_heuristic_is_chosen_if_no_exact_backend_fits(
    problem: Problem, registry: Registry[Backend]
) -> None:
    for one in (
        backend("big", 1, memory=10**12),
        backend("slow", 1e6),
        backend("small", 1, most=2),
        backend("rough", 1e6, exact=False),
    ):
        registry[one.name] = one
    choice = choose_backend(problem, Run(Limits(time=10, memory=10**9)))
    assert choice.backend.name == "rough"
    assert "which searches on" in choice.reason
    for part in (
        "big: It would need 1e+03 GB",
        "slow: It would take about 1e+06 s",
        "at most 2",
    ):
        assert part in " ".join(choice.refusals)


def test_elapsed_time_does_not_count_as_time_left(problem: Problem, registry: Registry[Backend]) -> None:
    for one in (backend("exact", 6), backend("rough", 1, exact=False)):
        registry[one.name] = one
    assert choose_backend(problem, Run(Limits(time=10))).backend.name == "exact"
    reading_took = Limits(time=10, started=time.monotonic() - 5)
    assert choose_backend(problem, Run(reading_took)).backend.name == "rough"


def test_the_heuristic_of_the_highest_rank_is_chosen(problem: Problem, registry: Registry[Backend]) -> None:
    for one in (
        backend("quick", 0.1, exact=False),
        backend("slow", 1e6, exact=False, rank=1),
        backend("good", 1e5, exact=False, rank=1),
    ):
        registry[one.name] = one
    assert choose_backend(problem, Run(Limits(time=1))).backend.name == "good"
    registry["exact"] = backend("exact", 0.5)
    assert choose_backend(problem, Run(Limits(time=1))).backend.name == "exact"


def test_if_nothing_fits_every_reason_is_given(problem: Problem, registry: Registry[Backend]) -> None:
    for one in (backend("big", 1, memory=10**12), backend("small", 1, most=2)):
        registry[one.name] = one
    with pytest.raises(LimitError) as caught:
        choose_backend(problem, Run(Limits(memory=10**9)))
    assert "big: It would need 1e+03 GB, above the limit of 1 GB." in str(caught.value)
    assert "small: It supports at most 2 variables, not 3." in str(caught.value)


# The record of the run in a result


@dataclass(frozen=True, slots=True)
class Outer:
    """A backend with another one within it."""

    inner: Backend | None = None
    steps: int = 3
    sizes: tuple[int, ...] = field(default=(1, 2))

    name: ClassVar[str] = "outer"
    capabilities: ClassVar[Capabilities] = Capabilities()
    estimate = Scripted.estimate

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        raise NotImplementedError


def test_options_are_the_fields_and_a_backend_within_is_an_object() -> None:
    assert backend_options(Outer(inner=Outer(steps=4))) == {
        "inner": {"name": "outer", "inner": None, "steps": 4, "sizes": (1, 2)},
        "steps": 3,
        "sizes": (1, 2),
    }


def test_a_backend_that_is_no_dataclass_has_no_options() -> None:
    assert backend_options(claims(Outcome(None))) == {}


def test_the_gap_is_reported_per_row_and_as_a_share_of_the_gain() -> None:
    problem = replace(named(gaussian(0, 3, 3)), rows=50)
    independence = sum(problem.scores.score(1 << v) for v in range(3))
    best = solve(problem, REGISTRY["brute"])
    assert best.tree is not None
    assert best.remarks == []
    assert best.stats["rows"] == 50
    assert best.stats["independence"] == pytest.approx(independence)
    assert gap_in_words(0.0, best.score, best.stats) == "0.000000 nats"
    assert gap_in_words(None, None, {}) == "none"
    found = replace(best, status=Status.FEASIBLE, bound=best.bound + 0.5)
    share = 100 * 0.5 / ((best.score or 0.0) - independence)
    said = f"0.500000 nats, 0.01 nats per row, {share:.3g} % of the gain over independence"
    assert found.remarks == [f"gap: {said}"]
    assert said in str(found._repr_html_())
    vacuous = replace(best, status=Status.FEASIBLE, bound=best.bound + 5.0)
    assert vacuous.remarks == [
        "gap: 5.000000 nats, 0.1 nats per row, more than the gain over independence: no useful bound is known"
    ]


def test_auto_has_a_search_run_beside_a_proof_whose_time_is_a_guess() -> None:
    problem = named(gaussian(0, 30, 3))
    choice = choose_backend(problem, Run())
    assert choice.backend.name == "portfolio"
    assert any("clutter: Its time is a guess" in reason for reason in choice.refusals)
    assert choose_backend(problem, Run(), search=False).backend.name == "clutter"
    assert choose_backend(named(gaussian(0, 9, 3)), Run()).backend.name == "dp"


@pytest.mark.parametrize(("seconds", "taken"), [(1.0, "portfolio"), (1e6, "dp")])
def test_auto_predicts_the_time_of_clutter_by_the_first_ascent_where_dp_is_slow(
    seconds: float, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = named(gaussian(0, 18, 5))
    asked = []

    def predict(*arguments: object) -> float:
        asked.append(arguments)
        return seconds

    monkeypatch.setattr("jtsolve.solving.forecast_of", predict)
    assert choose_backend(problem, Run()).backend.name == taken
    choose_backend(problem, Run(), search=False)
    choose_backend(problem, Run(Limits(time=0.1)))  # `dp` is out of the question
    assert len(asked) == 1


def test_a_forecast_of_a_problem_takes_seconds_or_is_left_out(
    registry: Registry[Backend],
) -> None:
    problem = named(gaussian(0, 7, 3))
    assert forecast_of(problem, Run()) is None  # without clutter
    registry["clutter"] = ClutterCuts()
    seconds = forecast_of(problem, Run(Limits(time=60.0)))
    assert seconds is not None
    assert 0 < seconds < 60
    assert forecast_of(problem, Run(Limits(memory=1))) is None
    assert forecast_of(named(gaussian(0, 54, 4)), Run(Limits(memory=10**15))) is None
