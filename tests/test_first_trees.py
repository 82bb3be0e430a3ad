"""What every heuristic promises about its first tree: the forest comes first, and nothing holds it back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
from problems import Recording, from_network, gaussian, named, random_problem, repeatable

from jtsolve.backends.chowliu import ChowLiu
from jtsolve.backends.forward.backend import Forward
from jtsolve.backends.lns.backend import LargeNeighbourhoodSearch
from jtsolve.backends.lns.subsolver import RegionSolver
from jtsolve.backends.registry import REGISTRY
from jtsolve.backends.support.starts import best_start, problem_for
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import ChoiceError
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.bic import Bic
from jtsolve.solving import solve
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from jtsolve.core.varset import VarSet

HEURISTICS = ("forward", "lns", "search")


def chained(n: int, rows: int, seed: int) -> DataTable:
    """Returns binary columns, each a noisy copy of one of the three before it."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, 2, (n, rows))
    for v in range(1, n):
        noise = random.random(rows) < 0.2
        codes[v] = codes[random.integers(max(0, v - 3), v)] ^ noise
    return DataTable(tuple(f"V{v}" for v in range(n)), (("0", "1"),) * n, codes)


@dataclass(frozen=True)
class Slow:
    """A start that continues until it is stopped."""

    name: ClassVar[str] = "slow"
    capabilities: ClassVar[Capabilities] = Capabilities()

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:  # noqa: ARG002 - the protocol
        return Estimate(0, 0.0)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:  # noqa: ARG002
        while report.stop is None:
            pass
        return Outcome(None, stop=report.stop)


@pytest.mark.parametrize("name", HEURISTICS)
def test_the_forest_is_the_first_tree_and_no_answer_is_worse(name: str) -> None:
    table = chained(70, 200, 0)
    problem = Problem(tuple(map(Variable, table.names, table.states)), DataScores(table, Bic(), 3))
    forest = solve(problem.with_treewidth(1), REGISTRY["chowliu"])
    result = solve(problem, REGISTRY[name], Run(Limits(time=1.0, threads=1)))
    assert forest.score is not None
    assert result.score is not None
    trees = [one.score for one in result.trace if one.score is not None]
    assert trees[0] == forest.score
    assert result.score >= forest.score
    assert result.bound <= 0


@pytest.mark.parametrize("name", sorted(REGISTRY.keys() - {"brute", "chowliu", "consistent"}))
def test_a_run_that_begins_too_late_has_the_forest(name: str) -> None:
    table = chained(20, 200, 0)
    problem = Problem(tuple(map(Variable, table.names, table.states)), DataScores(table, Bic(), 3))
    forest = solve(problem.with_treewidth(1), REGISTRY["chowliu"])
    result = solve(problem, REGISTRY[name], Run(Limits(time=1e-9, threads=2)))
    assert result.stop is Stop.TIME
    assert forest.score is not None
    assert result.score is not None
    assert result.score >= forest.score


def test_a_run_that_is_stopped_at_once_has_the_forest() -> None:
    problem = named(from_network(0, 12, 3))
    forest = ChowLiu().solve(problem.with_treewidth(1), Limits(), Recording()).tree
    assert forest is not None

    class StopsAfterATree(Recording):
        @property
        def stop(self) -> Stop | None:
            return Stop.TIME if self.trees else None

    report = StopsAfterATree()
    outcome = REGISTRY["forward"].solve(problem, Limits(), report)
    assert report.trees[0] == forest
    assert outcome.tree is not None
    assert outcome.tree.score(problem.scores) >= forest.score(problem.scores)


@pytest.mark.parametrize("seed", range(20))
def test_forests_meet_the_constraints_of_the_problem(seed: int) -> None:
    problem = random_problem(seed, 5, REGISTRY["chowliu"].capabilities.features)
    own = problem_for(ChowLiu(), problem)
    tree = best_start((ChowLiu(),), problem, Limits(), Recording())
    if own is None:
        assert tree is None
    elif tree is not None:
        assert problem.permits(tree)


def test_no_start_holds_back_the_search() -> None:
    problem = named(gaussian(0, 6, 3))
    report = Recording()
    tree = best_start((Forward(), Slow(), ChowLiu()), problem, Limits(), report)
    assert tree is not None  # Slow would never have ended by itself
    assert report.trees[-1] == tree


def test_a_long_scan_of_pairs_reports_forests_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jtsolve.backends.chowliu.monotonic", count().__next__)  # a second a variable
    problem = named(from_network(1, 14, 2), Constraints(max_treewidth=1))
    report = Recording()
    last = ChowLiu().solve(problem, Limits(), report).tree
    assert last is not None
    scores = [tree.score(problem.scores) for tree in [*report.trees, last]]
    assert len(scores) > 2
    assert scores == sorted(scores)


def with_narrow_optimum(n: int) -> Problem:
    """Returns a problem whose best tree is a chain of pairs: larger sets lose more than they gain."""
    values: dict[VarSet, float] = {}
    random = repeatable(1)
    from jtsolve.core.scores import SparseScores
    from jtsolve.core.varset import bounded_subsets

    for mask in bounded_subsets(n, 5):
        pairs = sum(mask >> v & 3 == 3 for v in range(n - 1))
        values[mask] = pairs * 5.0 - 1.5 * mask.bit_count() ** 2 + 0.5 * random.random() if mask else 0.0
    return named(SparseScores(n, values))


def test_lns_begins_at_the_treewidth_of_its_start_and_widens(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = REGISTRY["lns"]
    assert isinstance(backend, LargeNeighbourhoodSearch)
    searched = []
    original = RegionSolver.__init__

    def remember(self: RegionSolver, problem: Problem, *more: Any) -> None:
        searched.append(problem.max_clique_size - 1)
        original(self, problem, *more)

    monkeypatch.setattr(RegionSolver, "__init__", remember)
    problem = with_narrow_optimum(15)
    chain = JunctionTree.from_families([(0, 0), *((v, 1 << v - 1) for v in range(1, 15))])
    short = replace(backend, kicks=4)
    result = solve(problem, short, Run(Limits(threads=1)))
    assert searched == [2, 3, 4]
    assert result.tree == chain
    searched.clear()
    few = solve(problem, replace(short, steps=40), Run(Limits(threads=1)))
    assert searched == [2, 3, 4]
    assert few.stats["steps"] <= 40
    searched.clear()
    solve(problem.with_treewidth(2), short, Run(Limits(threads=1)))
    assert searched == [2]
    wide = named(gaussian(0, 15, 4))
    searched.clear()
    started = best_start(short.start, wide, Limits(), Recording())
    solve(wide, replace(short, steps=20), Run(Limits(threads=1)))
    assert started is not None
    assert searched == [*range(max(2, started.treewidth), 3), 3]


def test_every_registered_heuristic_with_starts_begins_with_the_forest() -> None:
    def names(backend: Backend) -> list[str]:
        starts = getattr(backend, "start", ())
        return [backend.name, *(name for one in starts for name in names(one))]

    for name in HEURISTICS:
        assert "chowliu" in names(REGISTRY[name])


def test_starts_may_be_left_out_by_name() -> None:
    alone = REGISTRY.parse("forward:start=none")
    assert alone == Forward()
    assert REGISTRY.describe(alone).options[0][:3:2] == ("start", "none")
    assert REGISTRY.describe("forward").options[0][:3:2] == ("start", "chowliu")
    with pytest.raises(ChoiceError, match="there is no backend to start from"):
        REGISTRY.parse("lns:start=none")
