from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations, islice
from math import inf
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.forward.backend import Forward
from jtsolve.backends.support.starts import KnownTree
from jtsolve.core.bounds import ceiling_bound, early_bound, family_bound, problem_bound, range_bound
from jtsolve.core.machine import resident_memory
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.result import gap_in_words
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import bounded_subsets, count_bounded_subsets, members
from jtsolve.io.instance import read_problem, write_problem
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.problem import Tabulation, problem_from_table
from jtsolve.scoring.registry import REGISTRY
from jtsolve.scoring.score import is_discrete
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.scores.bge import Bge
from jtsolve.scoring.scores.gaussian_bic import GaussianBic
from jtsolve.solving import solve
from jtsolve.tables.table import ContinuousTable, DataTable

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.scoring.score import DiscreteScore


@cache
def trees(n: int) -> list[JunctionTree]:
    """The junction trees of all chordal graphs on n nodes."""
    pairs = list(combinations(range(n), 2))
    found = []
    for bits in range(1 << len(pairs)):
        graph = nx.empty_graph(n)
        graph.add_edges_from(pair for i, pair in enumerate(pairs) if bits >> i & 1)
        if nx.is_chordal(graph):
            found.append(JunctionTree.from_graph(graph))
    return found


def problem(n: int, max_size: int, seed: int) -> Problem:
    values = np.random.default_rng(seed).normal(scale=10, size=count_bounded_subsets(n, max_size))
    values[0] = 0
    return Problem(tuple(Variable(f"V{v}") for v in range(n)), DenseScores(n, max_size, values))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 10_000))
def test_no_tree_scores_more_than_the_bound(n: int, max_size: int, seed: int) -> None:
    dense = problem(n, min(n, max_size), seed)
    for bound in (family_bound(dense), range_bound(dense)):
        assert all(tree.score(dense.scores) <= bound + 1e-9 for tree in trees(n))


@given(st.integers(1, 4), st.floats(0, 1), st.integers(0, 10_000))
def test_the_bound_holds_for_sparse_scores(n: int, density: float, seed: int) -> None:
    dense = problem(n, n, seed)
    rng = np.random.default_rng(seed)
    table = {mask: dense.scores.score(mask) for mask in bounded_subsets(n, n) if rng.random() < density}
    table[0] = 0.0
    sparse = replace(dense, scores=SparseScores(n, table))
    for bound in (family_bound(sparse), range_bound(sparse)):
        assert all(tree.score(sparse.scores) <= bound + 1e-9 for tree in trees(n))


@given(st.integers(1, 5), st.integers(0, 4), st.floats(0, 1), st.integers(0, 10_000))
def test_the_bound_of_a_sparse_table_is_that_of_the_definition(
    n: int, treewidth: int, density: float, seed: int
) -> None:
    dense = problem(n, n, seed)
    rng = np.random.default_rng(seed)
    table = {mask: dense.scores.score(mask) for mask in bounded_subsets(n, n) if rng.random() < density}
    table[0] = 0.0
    sparse = replace(dense, scores=SparseScores(n, table), constraints=Constraints(max_treewidth=treewidth))

    def filled(mask: int) -> float:
        return table.get(mask, sum(table.get(1 << v, 0.0) for v in members(mask)))

    best = [
        max(
            filled(parents | 1 << v) - filled(parents)
            for parents in bounded_subsets(n, sparse.max_clique_size - 1)
            if not parents >> v & 1
        )
        for v in range(n)
    ]
    expected = sum(best) - min(best[v] - filled(1 << v) for v in range(n))  # one of them has no parents
    assert family_bound(sparse) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_rounding_of_large_scores_does_not_bring_the_bound_below_a_tree(seed: int) -> None:
    own = -1e12 * np.random.default_rng(seed).random(8)
    values = [own[list(members(mask))].sum() - 1e10 * mask.bit_count() ** 2 for mask in range(256)]
    large = Problem(
        tuple(Variable(f"V{v}") for v in range(8)), DenseScores(8, 8, np.array([0.0, *values[1:]]))
    )
    best = JunctionTree.from_neighbours([0] * 8)
    assert problem_bound(large) >= best.score(large.scores)


def test_a_sparse_table_over_many_variables_has_the_family_bound() -> None:
    chain = {1 << v: -1.0 for v in range(400)} | {7 << v: -2.0 for v in range(398)}
    sparse = Problem(tuple(Variable(f"V{v}") for v in range(400)), SparseScores(400, chain))
    assert problem_bound(sparse) == pytest.approx(family_bound(sparse), abs=1e-9)
    assert problem_bound(sparse) < range_bound(sparse)


def test_the_bound_is_the_sum_of_the_best_families() -> None:
    values = np.array([0.0, -1.0, -2.0, -2.5])
    base = Problem((Variable("A"), Variable("B")), DenseScores(2, 2, values))
    assert family_bound(base) == pytest.approx(-0.5 + -2.0)  # one of the two has no parents
    assert family_bound(replace(base, constraints=Constraints(max_treewidth=0))) == -3.0


def test_the_family_bound_is_computed_where_it_is_cheap() -> None:
    small, large = problem(4, 4, 0), problem(21, 21, 0)
    assert problem_bound(small) == pytest.approx(family_bound(small), abs=1e-9)
    by_families = pytest.approx(family_bound(large), rel=1e-9)
    seconds = 21 * 2**20 / 2**25  # 2^20 sets have any of the 21 members
    assert problem_bound(large) == pytest.approx(range_bound(large), rel=1e-9)
    assert problem_bound(large, 1.01 * seconds) == by_families
    # At the end no time may be left: twice its need suffices at the start.
    assert early_bound(large, 1.99 * seconds) == inf
    assert early_bound(large, 2.01 * seconds) == by_families
    result = solve(large, KnownTree(JunctionTree.from_neighbours([0] * 21)), Run(Limits(time=90)))
    assert result.bound == by_families
    assert result.trace[0].score is None


@pytest.mark.parametrize("score", [*filter(is_discrete, REGISTRY.values())], ids=lambda score: score.name)
def test_an_instance_file_is_bounded_no_worse_than_its_data(score: DiscreteScore, tmp_path: Path) -> None:
    codes = np.random.default_rng(1).integers(0, 3, (6, 40))
    table = DataTable(tuple("abcdef"), (tuple("012"),) * 6, codes)
    at_once = problem_from_table(table, score, treewidth=2, tabulation=Tabulation(seconds=-1.0, share=0.5))
    write_problem(problem_from_table(table, score, treewidth=2), tmp_path / "a.json.gz")
    later = read_problem(tmp_path / "a.json.gz")
    assert isinstance(at_once.scores, DataScores)
    assert later.ceilings is None
    assert problem_bound(later) <= problem_bound(at_once)


def test_provenance_bounds_nothing(tmp_path: Path) -> None:
    claimed = replace(problem(4, 4, 0), provenance={"score": "bdeu", "ceilings": [-50.0] * 4, "bound": -9e9})
    write_problem(claimed, tmp_path / "a.json")
    assert problem_bound(read_problem(tmp_path / "a.json")) == problem_bound(problem(4, 4, 0))


def test_scores_on_demand_know_their_ceilings() -> None:
    codes = np.array([[0, 0, 1, 1], [0, 1, 1, 1]])
    table = DataTable(("a", "b"), (("no", "yes"),) * 2, codes)
    lazy = Problem((Variable("a"), Variable("b")), DataScores(table, Bdeu(), max_size=2))
    assert lazy.ceilings is not None
    assert lazy.scores.score(0b11) <= problem_bound(lazy) <= 0 < range_bound(lazy)


@pytest.mark.parametrize("score", [*filter(is_discrete, REGISTRY.values())], ids=lambda score: score.name)
@pytest.mark.parametrize("seed", range(4))
def test_no_family_of_data_exceeds_its_ceiling(score: DiscreteScore, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arities = rng.integers(1, 5, 5)
    codes = np.array([rng.integers(0, arity, 9 + 20 * seed) for arity in arities])
    codes[1] = codes[0] % arities[1]
    states = tuple(tuple(map(str, range(arity))) for arity in arities)
    table = DataTable(tuple("abcde"), states, codes)
    found = problem_from_table(table, score, max_size=4)
    assert found.ceilings is not None
    for mask in bounded_subsets(5, 4):
        for v in members(mask):
            if mask != 1 << v:
                gain = found.scores.score(mask) - found.scores.score(mask ^ 1 << v)
                assert gain <= found.ceilings[v] + 1e-9
    best = max(tree.score(found.scores) for tree in trees(5) if tree.treewidth < 4)
    on_demand = replace(found, scores=DataScores(table, score, 4))
    assert best - 1e-9 <= problem_bound(on_demand) <= 1e-9


def real_table(columns: int, rows: int, seed: int) -> ContinuousTable:
    """Columns that share a factor, on very different scales."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(columns, rows)) + rng.normal(size=rows)
    scales = 10.0 ** rng.integers(-4, 5, columns)
    return ContinuousTable(tuple(f"x{v}" for v in range(columns)), values * scales[:, None])


@pytest.mark.parametrize("score", [GaussianBic(), Bge()], ids=lambda score: score.name)
@pytest.mark.parametrize("seed", range(4))
def test_no_family_of_real_numbers_exceeds_its_ceiling(score: GaussianBic | Bge, seed: int) -> None:
    found = problem_from_table(real_table(5, 7 + 20 * seed, seed), score, max_size=4)
    assert found.ceilings is not None
    for mask in bounded_subsets(5, 4):
        for v in members(mask):
            if mask != 1 << v:
                gain = found.scores.score(mask) - found.scores.score(mask ^ 1 << v)
                assert gain <= found.ceilings[v] + 1e-6


def test_the_bound_of_many_real_columns_is_useful_if_there_are_more_rows() -> None:
    on_demand = Tabulation(seconds=-1.0, share=0.5)
    found = problem_from_table(real_table(60, 500, 0), GaussianBic(), treewidth=3, tabulation=on_demand)
    result = solve(found, Forward(), Run())
    assert result.bound < range_bound(found)
    assert "% of the gain" in gap_in_words(result.gap, result.score, result.stats)
    few = problem_from_table(real_table(60, 50, 0), GaussianBic(), treewidth=3, tabulation=on_demand)
    assert ceiling_bound(few) == inf
    result = solve(few, Forward(), Run())
    assert "% of the gain" in gap_in_words(result.gap, result.score, result.stats)


@pytest.mark.parametrize("score", [GaussianBic(), Bge()], ids=lambda score: score.name)
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_no_tree_of_real_numbers_exceeds_a_priced_bound(score: GaussianBic | Bge, size: int) -> None:
    fitting = [tree for tree in trees(5) if max(one.bit_count() for one in tree.cliques) <= size]
    for rows, lead in ((40, 0.0), (7, 5.0)):
        table = real_table(5, rows, size)
        scores = DataScores(table, score, size)
        best = max(tree.score(scores) for tree in fitting)
        bounds = list(islice(scores.tree_bounds(size, best - lead, 1, lambda: None), 8))
        assert bounds == sorted(bounds, reverse=True)
        assert bounds[-1] >= best - 1e-6
        if score == GaussianBic():
            assert bounds[0] <= family_bound(problem_from_table(table, score, max_size=size)) + 1e-6


def test_prices_improve_the_bound_of_the_best_families() -> None:
    scores = DataScores(real_table(12, 60, 0), GaussianBic(), 3)
    tree = solve(Problem(tuple(Variable(f"V{v}") for v in range(12)), scores), Forward(), Run()).tree
    assert tree is not None
    without = next(scores.tree_bounds(3, -inf, 1, lambda: None))
    *_, last = scores.tree_bounds(3, tree.score(scores), 2, lambda: None)
    assert last - tree.score(scores) < 0.3 * (without - tree.score(scores))


def test_a_bound_of_real_numbers_needs_neither_rows_nor_memory() -> None:
    scores = DataScores(real_table(120, 50, 0), GaussianBic(), 3)
    found = Problem(tuple(Variable(f"V{v}") for v in range(120)), scores)
    first = solve(found, Forward(), Run())  # it loads the compiler
    small = Limits(time=5.0, memory=resident_memory() + 118_000_000)
    result = solve(found, ClutterCuts(start=Forward()), Run(small))
    assert result.bound < first.bound


def test_one_column_is_its_own_bound() -> None:
    table = DataTable(("a",), (("0", "1"),), np.array([[0, 1, 1]]))
    found = problem_from_table(table, Bdeu(), max_size=1)
    assert ceiling_bound(found) == pytest.approx(found.scores.score(1))


@given(st.integers(2, 4), st.integers(0, 2**6 - 1), st.integers(0, 10_000))
def test_forbidden_edges_decompose_the_bound_by_component(n: int, bits: int, seed: int) -> None:
    pairs = [1 << a | 1 << b for a, b in combinations(range(n), 2)]
    forbidden = frozenset(pair for i, pair in enumerate(pairs) if bits >> i & 1)
    constrained = replace(problem(n, n, seed), constraints=Constraints(forbidden_edges=forbidden))
    bound = family_bound(constrained)
    assert bound <= family_bound(problem(n, n, seed)) + 1e-9
    assert (
        bound >= max(tree.score(constrained.scores) for tree in trees(n) if constrained.permits(tree)) - 1e-9
    )
    if len(forbidden) == len(pairs):
        assert bound == pytest.approx(sum(constrained.scores.score(1 << v) for v in range(n)))


def test_the_bound_of_many_columns_is_not_vacuous() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (300, 50))
    table = DataTable(tuple(f"v{i}" for i in range(300)), (("0", "1"),) * 300, codes)
    scores = DataScores(table, Bdeu(), 3)
    assert range_bound(Problem(tuple(map(Variable, table.names)), scores)) > 0
    on_demand = Tabulation(seconds=-1.0, share=0.5)
    found = problem_from_table(table, Bdeu(), treewidth=2, tabulation=on_demand)
    assert problem_bound(found) == pytest.approx(-300 * np.log(2) - min(_losses(found)), rel=1e-6)


def _losses(found: Problem) -> list[float]:
    assert found.ceilings is not None
    return [ceiling - found.scores.score(1 << v) for v, ceiling in enumerate(found.ceilings)]
