from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from problems import Recording, named, repeatable
from scipy.stats import chi2

from jtsolve.backends.brute import meets_constraints
from jtsolve.backends.forward.backend import Forward
from jtsolve.backends.forward.pairs import SortedPairs, gaining_pairs
from jtsolve.backends.forward.significance import significance_of
from jtsolve.core.backend import Limits
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.result import Stop
from jtsolve.core.scores import DenseScores
from jtsolve.core.varset import members
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.bic import Bic
from jtsolve.scoring.scores.ml import MaximumLikelihood
from jtsolve.scoring.tabulate import tabulate
from jtsolve.solving import solve
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from jtsolve.core.tree import JunctionTree


def data(seed: int, n: int, rows: int, *, linked: bool) -> DataTable:
    generator = np.random.default_rng(seed)
    arities = generator.integers(2, 4, n)
    codes = generator.integers(0, arities[:, None], (n, rows))
    for v in range(1, n) if linked else ():
        copied = generator.random(rows) < 0.5
        codes[v, copied] = codes[v - 1, copied] % arities[v]
    states = tuple(tuple(map(str, range(arity))) for arity in arities)
    return DataTable(tuple(f"v{v}" for v in range(n)), states, codes)


def tree_of(problem: Problem, level: float | None = None) -> JunctionTree:
    tree = solve(problem, Forward(significance=level)).tree
    assert tree is not None
    return tree


def problem_of(table: DataTable, width: int = 3) -> Problem:
    variables = tuple(map(Variable, table.names, table.states))
    return Problem(variables, tabulate(table, MaximumLikelihood(), width))


def test_parameters_grow_with_the_states_of_all() -> None:
    variables = (Variable("a", 2), Variable("b", 3), Variable("c", ("x", "y", "z", "w")), Variable("d", 1))
    test = significance_of(Problem(variables, DenseScores(4, 1, np.zeros(5))), 0.05)
    assert test.level == pytest.approx(0.05 / 6)
    for u, v, shared, freedom in ((0, 1, 0, 2), (0, 2, 0, 3), (0, 1, 0b100, 8), (1, 2, 0b001, 12)):
        edge = chi2.isf(0.05 / 6, freedom) / 2
        assert test.accepts(u, v, shared, edge * 1.001)
        assert not test.accepts(u, v, shared, edge * 0.999)
    assert not test.accepts(0, 3, 0, 1e6)  # a constant tells nothing
    assert not test.accepts(0, 1, 0, 0.0)


def test_independent_variables_stay_apart_and_dependent_ones_do_not() -> None:
    apart = [problem_of(data(seed, 8, 300, linked=False)) for seed in range(40)]
    assert sum(bool(tree_of(problem, 0.05).graph_edges) for problem in apart) <= 8  # 2 are expected
    assert len(tree_of(apart[0]).graph_edges) > 10
    linked = tree_of(problem_of(data(1, 8, 300, linked=True)), 0.05)
    assert {(v, v + 1) for v in range(7)} <= set(linked.graph_edges)


def test_a_stricter_level_takes_fewer_edges_and_only_significant_ones() -> None:
    problem = problem_of(data(3, 9, 200, linked=True))
    trees = [tree_of(problem, level) for level in (1e-9, 1e-3, 0.5)]
    sizes = [len(tree.graph_edges) for tree in trees]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    test = significance_of(problem, 1e-9)
    for clique in trees[0].cliques:
        if clique.bit_count() == 2:  # of these, the test is between the two alone
            u, v = members(clique)
            score = problem.scores.score
            assert test.accepts(u, v, 0, score(clique) - score(1 << u) - score(1 << v))


def test_constraints_come_before_significance() -> None:
    table = data(5, 7, 100, linked=False)
    constraints = Constraints(min_separator_size=1)
    problem = replace(problem_of(table), constraints=constraints)
    tree = solve(problem, Forward(significance=1e-6)).tree
    assert tree is not None
    assert meets_constraints(problem, tree)


def test_unknown_states_and_levels_out_of_range_are_refused() -> None:
    problem = named(DenseScores(3, 1, np.zeros(4)))
    assert Forward(significance=0.05).capabilities.objections(problem) == (
        "A test of significance needs the number of states of every variable, and 'A' has none.",
    )
    assert Forward().capabilities.objections(problem) == ()
    for level in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="above 0 and below 1"):
            Forward(significance=level)


# The gains of all pairs.


def test_pairs_come_by_gain_and_only_those_that_gain() -> None:
    scores = tabulate(data(2, 12, 200, linked=True), Bic(), 2)
    pairs = gaining_pairs(scores, 2, Recording())
    expected = sorted(
        (loss, u, v)
        for v in range(12)
        for u in range(v)
        if (loss := scores.score(1 << v) - (scores.score(1 << u | 1 << v) - scores.score(1 << u))) < 0
    )
    found = []
    while not pairs.exhausted:
        u, v, loss = pairs.next()
        found.append((loss, u, v))
        pairs.take()
    assert found == expected
    assert 0 < len(found) < 66
    assert gaining_pairs(scores, 1, Recording()).exhausted
    assert SortedPairs.none().exhausted


def test_stops_while_the_pairs_are_scored() -> None:
    table = data(4, 300, 20, linked=True)
    problem = named(DataScores(table, Bic(), 3))
    report = Recording(3, Stop.INTERRUPTED)
    outcome = Forward().solve(problem, Limits(), report)
    assert outcome.stop is Stop.INTERRUPTED
    assert outcome.tree is not None
    assert report.asked <= 10


def test_lazy_scores_give_the_tree_of_a_table() -> None:
    table = data(repeatable(1).randrange(100), 30, 150, linked=True)
    trees = [
        solve(named(scores), Forward()).tree
        for scores in (DataScores(table, Bic(), 3), tabulate(table, Bic(), 3))
    ]
    assert trees[0] == trees[1]
