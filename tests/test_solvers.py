"""The backends `maxsat`, `ilp` and `cpsat`: the preparation of problems, and the processes of solvers.

`tests/test_contract.py` runs them on a sample of its problems, every constraint among them. Most runs here
have no relaxation, so that the proof is the solver's.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pulp
import pytest
from problems import Recording, from_data, gaussian, named, random_problem
from processes import ended
from runs import ReportingRun

from jtsolve.backends.ilp import process as ilp_solver
from jtsolve.backends.maxsat import process as maxsat_solver
from jtsolve.backends.registry import REGISTRY
from jtsolve.backends.support.prepare import PreparedProblem, prepare
from jtsolve.backends.support.solver import SolverBackend, SolverInput, SolverMessage, encoded
from jtsolve.core.problem import Constraints, ProblemFeature
from jtsolve.core.result import Status, Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import SparseScores
from jtsolve.encodings.cnf import to_wcnf
from jtsolve.encodings.rounding import rounded
from jtsolve.errors import ChoiceError, InternalError, LimitError
from jtsolve.families.families import families_of, families_of_tree
from jtsolve.solving import Recorder, solve

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree

ALONE = "start=none,relaxation=none"
UNRELAXED = "relaxation=none"
VARIANTS = [
    f"cpsat:{ALONE}",
    f"maxsat:{ALONE}",
    f"maxsat:{UNRELAXED}",
    f"ilp:{ALONE}",
    f"ilp:{UNRELAXED}",
    f"ilp:solver=pulp_cbc_cmd,{UNRELAXED}",
]
ALL = ["maxsat", "ilp", "cpsat"]


def work_on(problem: Problem, tree: JunctionTree | None = None, **options: Any) -> SolverInput:
    """Returns the work of a solver's process, to be done in this one."""
    return SolverInput(families_of(problem), (), tree, options, threads=1, seed=0, seconds=None)


def pretender(function: str) -> SolverBackend:
    """Returns a backend on top of a function of `pretenders`."""
    names = {"name": "pretender", "module": "pretenders", "process": f"pretenders:{function}"}
    made: SolverBackend = type("Pretender", (SolverBackend,), names)()
    return made


def prepared(problem: Problem, report: Any, *, relaxation: str | None) -> PreparedProblem:
    relaxing = None if relaxation is None else REGISTRY[relaxation]
    tree = REGISTRY["forward"].solve(problem, Limits(), report).tree
    return prepare(problem, Limits(), report, tree=tree, relaxation=relaxing)


# Agreement


@pytest.mark.parametrize("text", VARIANTS)
def test_proves_the_optimum_alone(text: str) -> None:
    backend = REGISTRY.parse(text)
    for scores in (gaussian(1, 5), from_data(2, 5, 4)):
        problem = named(scores)
        result = solve(problem, backend)
        assert result.status is Status.OPTIMAL
        assert result.score == pytest.approx(solve(problem, REGISTRY["dp"]).score, abs=1e-6)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("options", ["", ":relaxation=none"])
def test_proves_the_optimum_with_any_help(name: str, options: str) -> None:
    backend = REGISTRY.parse(name + options)
    for seed in range(4):
        problem = random_problem(seed, 5, frozenset({ProblemFeature.MAX_TREEWIDTH}))
        result = solve(problem, backend)
        assert result.status is Status.OPTIMAL
        assert result.score == pytest.approx(solve(problem, REGISTRY["dp"]).score, abs=1e-6)


@pytest.mark.parametrize("text", VARIANTS)
def test_proves_that_there_is_no_tree(text: str) -> None:
    constraints = Constraints(max_treewidth=1, required_edges=frozenset({0b011, 0b101, 0b110}))
    assert solve(named(gaussian(0, 5), constraints), REGISTRY.parse(text)).status is Status.INFEASIBLE


@pytest.mark.parametrize("text", [f"maxsat:{ALONE}", f"ilp:{ALONE}"])
def test_more_variables_than_a_word_has_bits(text: str) -> None:
    n = 65
    table = {0: 0.0} | {1 << v: -1.0 for v in range(n)}
    table |= {3 << v: -2.0 + (v % 3) for v in range(n - 1)}  # a path: every third edge is worth nothing
    problem = named(SparseScores(n, table))
    result = solve(problem, REGISTRY.parse(text))
    assert result.status is Status.OPTIMAL
    assert result.score == pytest.approx(sum(v % 3 for v in range(n - 1)) - n, abs=1e-6)


# The solvers, in this process


@pytest.mark.parametrize("hinted", [False, True])
def test_maxsat_sends_bounds_that_are_never_below_the_optimum(*, hinted: bool) -> None:
    problem = named(from_data(5, 6), Constraints(max_treewidth=2))
    best = solve(problem, REGISTRY["dp"])
    assert best.score is not None
    reported: list[SolverMessage] = []
    tree = solve(problem, REGISTRY["forward"]).tree if hinted else None
    bound = maxsat_solver.solve(reported.append, work_on(problem, tree))
    bounds = [news.bound for news in reported if news.bound is not None]
    scores = [news.tree.score(problem.scores) for news in reported if news.tree is not None]
    assert min(*bounds, bound) >= best.score
    assert bounds == sorted(bounds, reverse=True)
    assert scores == sorted(scores)
    assert bound == pytest.approx(best.score, abs=1e-6)
    assert hinted or scores[-1] == pytest.approx(best.score)


@pytest.mark.parametrize("solver", ["HiGHS", "PULP_CBC_CMD"])
@pytest.mark.parametrize("hinted", [False, True])
def test_ilp_sends_bounds_that_are_never_below_the_optimum(
    solver: str, tmp_path: Path, *, hinted: bool
) -> None:
    problem = named(from_data(5, 6), Constraints(max_treewidth=2))
    best = solve(problem, REGISTRY["dp"])
    assert best.score is not None
    reported: list[SolverMessage] = []
    tree = solve(problem, REGISTRY["forward"]).tree if hinted else None
    work = work_on(problem, tree, solver=solver, folder=str(tmp_path))
    bound = ilp_solver.solve(reported.append, work)
    bounds = [news.bound for news in reported if news.bound is not None]
    scores = [news.tree.score(problem.scores) for news in reported if news.tree is not None]
    assert min([*bounds, bound]) >= best.score
    assert bound == pytest.approx(best.score, abs=1e-6)
    assert scores[-1] == pytest.approx(best.score)


@pytest.mark.parametrize("solver", ["HiGHS", "PULP_CBC_CMD"])
def test_ilp_finds_that_there_is_no_solution(solver: str, tmp_path: Path) -> None:
    constraints = Constraints(max_treewidth=1, required_edges=frozenset({0b011, 0b101, 0b110}))
    work = work_on(named(gaussian(0, 4), constraints), solver=solver, folder=str(tmp_path))
    assert ilp_solver.solve(lambda _news: None, work) == -inf


def test_maxsat_without_costs_still_has_a_tree() -> None:
    problem = named(SparseScores(3, {0: 0.0, 1: -1.0, 2: -1.0, 4: -1.0}))
    reported: list[SolverMessage] = []
    assert maxsat_solver.solve(reported.append, work_on(problem)) >= -3
    assert [news.tree.cliques for news in reported if news.tree is not None] == [(1, 2, 4)]


def test_a_solver_with_no_time_left_is_not_started(tmp_path: Path) -> None:
    work = work_on(named(gaussian(0, 5)), solver="PULP_CBC_CMD", folder=str(tmp_path))._replace(seconds=0.5)
    assert ilp_solver.solve(lambda _news: None, work) == inf
    assert not list(tmp_path.iterdir())


def test_a_solver_that_is_out_of_time_claims_no_bound(tmp_path: Path) -> None:
    problem = named(gaussian(0, 12, 6, scale=100.0))
    tree = solve(problem, REGISTRY["forward"]).tree
    work = work_on(problem, tree, solver="PULP_CBC_CMD", folder=str(tmp_path))._replace(seconds=6.0)
    reported: list[SolverMessage] = []
    assert ilp_solver.solve(reported.append, work) == inf
    assert all(news.bound is None for news in reported)


def test_optimal_of_a_solver_whose_gap_cannot_be_set_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WithoutGap(pulp.COIN_CMD):  # type: ignore[misc]  # pulp has no types
        def __init__(self, msg: bool = True, timeLimit: float | None = None) -> None:  # noqa: FBT001, FBT002
            super().__init__(path=pulp.PULP_CBC_CMD.pulp_cbc_path, msg=msg, timeLimit=timeLimit)

    monkeypatch.setattr(pulp, "getSolver", lambda _name, **options: WithoutGap(**options))
    problem = named(from_data(5, 5))
    reported: list[SolverMessage] = []
    work = work_on(problem, solver="WITHOUT_GAP", folder=str(tmp_path))
    assert ilp_solver.solve(reported.append, work) == inf
    assert reported[-1].tree is not None
    assert reported[-1].tree.score(problem.scores) == pytest.approx(solve(problem, REGISTRY["dp"]).score)


def test_a_solver_that_ends_without_a_proof_leaves_the_bound_as_it_is() -> None:
    found = prepared(named(from_data(0, 5)), Recording(), relaxation=None)
    for limits, stop in ((Limits(), Stop.FINISHED), (Limits(time=600.0), Stop.TIME)):
        outcome = pretender("proves_nothing").run_solver({}, found, limits, Recording())
        assert (outcome.tree, outcome.bound, outcome.stop) == (found.tree, found.bound, stop)


def test_a_solver_that_is_not_installed_is_refused_with_those_that_are() -> None:
    with pytest.raises(ChoiceError, match=r"'gurobi': PuLP finds no such .*; it finds PULP_CBC_CMD, HiGHS"):
        solve(named(gaussian(0, 4)), REGISTRY.parse("ilp:solver=gurobi"))


def test_solutions_that_break_the_formula_are_rejected() -> None:
    work = work_on(named(from_data(0, 4)))
    encoding, unit = encoded(work)
    program = ilp_solver.IntegerProgram(lambda _news: None, encoding, unit)
    with pytest.raises(RuntimeError, match="wrong solution"):
        program.conclude()  # nothing was solved
    with pytest.raises(ValueError, match="violates the formula: "):
        program.solution([0.0] * len(program.variables))
    task = to_wcnf(encoding.formula, unit)
    reporter = maxsat_solver.Reporter(lambda _news: None, encoding, unit, task, None)
    with pytest.raises(ValueError, match="violates the formula: "):
        reporter.model([-number for number in range(1, task.variables + 1)])


# Rounding


def test_rounded_weights_are_whole_units_and_their_sums_are_scores_within_the_slack() -> None:
    for seed in range(20):
        problem = named(from_data(seed, 6) if seed % 2 else gaussian(seed, 6, 4, scale=1e3))
        _, unit = rounded(families_of(problem))
        encoding, own = encoded(work_on(problem))
        assert own == unit
        tree = solve(problem, REGISTRY["forward"]).tree
        assert tree is not None
        values = encoding.values_of(tree)
        assert values is not None
        total = int(np.dot(np.array(unit.whole(encoding.formula.weights), dtype=object), values))
        score = encoding.formula.constant + unit.nats(total)
        assert abs(score - tree.score(problem.scores)) <= unit.slack
        assert unit.slack < 1e-6


@pytest.mark.parametrize("power", [5, 9, 15])
def test_whole_scores_are_not_rounded(power: int) -> None:
    scores = gaussian(0, 5)
    whole = replace(scores, values=np.rint(10 * scores.values) * 10.0**power)
    assert rounded(families_of(named(whole)))[1].slack == 0


@pytest.mark.parametrize("text", [f"cpsat:{UNRELAXED}", f"ilp:{UNRELAXED}", f"maxsat:{UNRELAXED}"])
def test_solvers_prove_optima_of_large_scores(text: str) -> None:
    for seed in range(3):
        scores = gaussian(seed, 4)
        problem = named(replace(scores, values=scores.values * 1e9))
        assert solve(problem, REGISTRY.parse(text), Run(Limits(threads=1))).status is Status.OPTIMAL


def test_weights_that_are_not_rounded_are_refused() -> None:
    _, unit = rounded(families_of(named(from_data(0, 4))))
    with pytest.raises(ValueError, match="not a multiple"):
        unit.whole(np.array([0.1]))


# Preparing


def test_the_relaxation_keeps_the_trees_that_are_as_good_as_the_best_one() -> None:
    for seed in range(6):
        problem = named(from_data(seed, 7, 4))
        report = Recording()
        found = prepared(problem, report, relaxation="clutter")
        assert all(any(mask.bit_count() == 1 for mask in clutter) for clutter in found.clutters)
        best = solve(problem, REGISTRY["dp"])
        assert best.tree is not None
        assert best.score is not None
        assert found.bound >= best.score - 1e-9
        assert found.bound == min(call["bound"] for call in report.calls if call.get("bound") is not None)
        kept = {
            (int(v), found.families.masks()[at])
            for v, at in zip(found.families.listing().vertex, found.families.listing().parents, strict=True)
        }
        assert set(families_of_tree(best.tree, found.families.root)) <= kept
        assert found.stats["families"] < families_of(problem).allowed.sum()
        left = dict(zip(found.families.masks(), found.families.scores.tolist(), strict=True))
        scores = SparseScores(problem.n, {mask: score for mask, score in left.items() if score > -inf})
        assert solve(replace(problem, scores=scores), REGISTRY["dp"]).score == pytest.approx(
            best.score, abs=1e-9
        )


def test_without_a_relaxation_the_completion_bound_prunes() -> None:
    problem = named(from_data(1, 7, 4))
    found = prepared(problem, Recording(), relaxation=None)
    assert found.bound == inf
    assert found.stats["families"] < families_of(problem).allowed.sum()
    whole = prepare(problem, Limits(), Recording(), tree=None, relaxation=None)
    assert whole.stats["families"] == families_of(problem).allowed.sum()


def test_a_relaxation_that_does_not_support_the_problem_is_left_out() -> None:
    class Refusing(type(REGISTRY["clutter"])):  # type: ignore[misc]
        @property
        def capabilities(self) -> Any:
            return replace(super().capabilities, max_variables=2)

    problem = named(from_data(1, 5))
    tree = REGISTRY["forward"].solve(problem, Limits(), Recording()).tree
    found = prepare(problem, Limits(), Recording(), tree=tree, relaxation=Refusing())
    assert found.bound == inf
    assert found.clutters == ()


def test_a_backend_that_does_not_relax_is_refused_as_relaxation() -> None:
    for name in ALL:
        with pytest.raises(ChoiceError, match="give relaxation=clutter or relaxation=none"):
            REGISTRY.parse(f"{name}:relaxation=dp")


# Limits


def killed(problem: Problem, limits: Limits, report: Any) -> Any:
    found = prepared(problem, Recording(), relaxation=None)
    return found, pretender("never_ends").run_solver({}, found, limits, report)


class UntilBound(Recording):
    """Stops once a bound arrives, however slowly the process starts."""

    @property
    def stop(self) -> Stop | None:
        return self.reason if any(call.get("bound") is not None for call in self.calls) else None


@pytest.mark.parametrize("reason", [Stop.TIME, Stop.INTERRUPTED])
def test_a_solver_that_never_ends_is_killed_and_its_messages_count(reason: Stop) -> None:
    report = UntilBound(reason=reason)
    found, outcome = killed(named(from_data(0, 5)), Limits(), report)
    assert outcome.stop is reason
    assert outcome.bound == 1000.0
    assert outcome.tree == found.tree
    assert report.trees == [found.tree]


def test_memory_of_both_processes_is_limited() -> None:
    _, outcome = killed(named(from_data(0, 5)), Limits(memory=1), Recording())
    assert outcome.stop is Stop.MEMORY


def test_a_solver_that_denies_a_known_tree_is_a_bug() -> None:
    found = prepared(named(from_data(0, 5)), Recording(), relaxation=None)
    with pytest.raises(InternalError, match="one is known"):
        pretender("finds_nothing").run_solver({}, found, Limits(), Recording())


@pytest.mark.parametrize("text", ["maxsat:relaxation=none", "ilp:relaxation=none", "ilp:solver=pulp_cbc_cmd"])
def test_ctrl_c_while_the_solver_works_leaves_the_first_tree(text: str) -> None:
    problem = named(from_data(0, 9, 4))

    def interrupt(*, note: str | None, **_: object) -> None:
        if note is not None and "are given to" in note:
            signal.raise_signal(signal.SIGINT)

    result = solve(problem, REGISTRY.parse(text), ReportingRun(interrupt))
    assert result.stop is Stop.INTERRUPTED
    assert result.tree is not None
    assert result.bound >= solve(problem, REGISTRY["dp"]).bound - 1e-6


def test_a_solver_does_not_outlive_the_process_that_it_works_for() -> None:
    program = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from test_solvers import Recording, killed, from_data, named, Limits\n"
        "killed(named(from_data(0, 5)), Limits(), Recording())"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as parent:  # noqa: S603 - our own program
        while not (workers := psutil.Process(parent.pid).children()):
            assert parent.poll() is None
        parent.kill()
        parent.wait()
    assert ended(*(worker.pid for worker in workers))


@pytest.mark.parametrize("name", ALL)
def test_the_time_limit_ends_the_solver_and_the_bound_is_one(name: str) -> None:
    problem = named(gaussian(0, 13, 7, scale=100.0))
    backend: Backend = REGISTRY.parse(f"{name}:relaxation=none,start=forward")
    report = Recorder(problem, Run(limits := Limits(time=4.0)))
    outcome = backend.solve(problem, limits, report)
    assert outcome.stop is Stop.TIME
    assert outcome.tree is not None
    assert outcome.bound >= outcome.tree.score(problem.scores)


@pytest.mark.parametrize("name", ALL)
def test_problems_beyond_the_memory_are_refused_before_the_work(name: str) -> None:
    with pytest.raises(LimitError, match=f"backend '{name}' needs"):
        solve(named(gaussian(0, 8)), REGISTRY[name], Run(Limits(memory=10**6)))


@pytest.mark.parametrize(
    ("name", "package"), [("maxsat", "python-sat"), ("ilp", "pulp"), ("cpsat", "ortools")]
)
def test_a_missing_package_is_an_objection(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jtsolve.backends.support.solver.find_spec", lambda _name: None)
    (objection,) = REGISTRY[name].capabilities.objections(named(gaussian(0, 4)))
    assert objection == f"It needs {package}, which is not installed: pip install {package}."


@pytest.mark.parametrize("name", ALL)
def test_no_proof_is_predicted_for_many_variables(name: str) -> None:
    few, many = (named(gaussian(0, n, 2)) for n in (8, 25))
    assert REGISTRY[name].estimate(few, Limits()).seconds < inf
    assert REGISTRY[name].estimate(many, Limits()).seconds == inf
    alone = REGISTRY.parse(f"{name}:{ALONE}")
    assert alone.estimate(few, Limits()).seconds < REGISTRY[name].estimate(few, Limits()).seconds
