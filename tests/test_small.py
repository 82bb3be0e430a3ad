"""Many small problems side by side: the group solver of `dp`, and the counting of bits."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from problems import from_data, gaussian, integers, named, repeatable, small_problems, with_holes

from jtsolve.backends.brute import Brute, chordal_trees
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.dp.batch import SmallDynamicProgramming
from jtsolve.backends.dp.kernels.lanes import LANES, SHIFT
from jtsolve.core.backend import SmallTask, SolvesSmall
from jtsolve.core.problem import Constraints, Problem
from jtsolve.core.scores import colex_table
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, bounded_subsets, is_subset
from jtsolve.scoring.colex import ColexOrder
from jtsolve.scoring.registry import REGISTRY
from jtsolve.scoring.score import Entropy, is_discrete
from jtsolve.scoring.scorer import WIDEST, BitColumns, CountingScorer
from jtsolve.scoring.scorers import make_scorer
from jtsolve.solving import solve
from jtsolve.tables.table import DataTable


def task(problem: Problem, covered: tuple[VarSet, ...] = (), target: float = -inf) -> SmallTask:
    width = problem.max_clique_size
    masks = np.array(list(bounded_subsets(problem.n, width)))
    return SmallTask(problem.n, masks, colex_table(problem.scores, width), covered, target)


def test_the_group_is_the_number_of_lanes() -> None:
    solver = DynamicProgramming().small_solver(3)
    assert solver.group == LANES == 1 << SHIFT
    assert solver.most >= 12
    assert isinstance(DynamicProgramming(), SolvesSmall)
    assert not isinstance(Brute(), SolvesSmall)
    assert solver.memory(8) < solver.memory(9) < SmallDynamicProgramming(4).memory(9)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7])
def test_a_group_of_any_sizes_has_the_optima_of_dp(width: int) -> None:
    solver = DynamicProgramming().small_solver(width)
    for seed in range(12):
        random = repeatable(100 * width + seed)
        problems = []
        for i in range(random.randint(1, LANES)):
            n = random.randint(1, 9)
            make = random.choice([gaussian, integers, from_data])
            problems.append(named(make(97 * seed + i, n, min(n, width))))
        for problem, answer in zip(problems, solver([task(problem) for problem in problems]), strict=True):
            expected = solve(problem, DynamicProgramming()).score
            assert answer.value == pytest.approx(expected, rel=1e-12, abs=1e-9)
            tree = JunctionTree(problem.n, answer.cliques, answer.edges)
            assert tree.treewidth < width
            assert tree.score(problem.scores) == pytest.approx(expected, rel=1e-12, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(small_problems(max_n=4))
def test_ties_and_missing_scores_are_as_in_brute_force(problem: Problem) -> None:
    problem = replace(problem, constraints=Constraints())
    expected = solve(problem, Brute()).score
    answer = DynamicProgramming().small_solver(problem.max_clique_size)([task(problem)])[0]
    if expected is None:
        assert answer == (-inf, (), ())
    else:
        assert answer.value == pytest.approx(expected, abs=1e-9)
        tree = JunctionTree(problem.n, answer.cliques, answer.edges)
        assert tree.score(problem.scores) == pytest.approx(expected, abs=1e-9)


def test_covered_sets_are_held_at_no_other_cost() -> None:
    for seed in range(30):
        random = repeatable(seed)
        problem = named(with_holes(seed, gaussian(seed, 5, 3), 0.1, singles=False))
        covered = tuple(random.sample([mask for mask in bounded_subsets(5, 3) if mask.bit_count() > 1], 2))
        best = max(
            (
                tree.score(problem.scores)
                for tree in chordal_trees(5)
                if all(any(is_subset(one, clique) for clique in tree.cliques) for one in covered)
            ),
            default=-inf,
        )
        answer = DynamicProgramming().small_solver(3)([task(problem, covered)])[0]
        if best > -inf:
            assert answer.value == pytest.approx(best, abs=1e-8)
            assert all(any(is_subset(one, clique) for clique in answer.cliques) for one in covered)


def test_a_tree_is_made_only_above_the_target() -> None:
    problem = named(gaussian(1, 6, 3))
    solver = DynamicProgramming().small_solver(3)
    best = solver([task(problem)])[0].value
    below, above = solver([task(problem, target=best - 1e-6), task(problem, target=best + 1e-6)])
    assert below.cliques
    assert above.value == pytest.approx(best)
    assert not above.cliques


# Bits.


def binary(rows: int, n: int, seed: int, arities: tuple[int, ...] | None = None) -> DataTable:
    generator = np.random.default_rng(seed)
    codes = (generator.random((n, rows)) < generator.random((n, 1))).astype(np.uint8)
    codes[1] ^= codes[0]
    given = arities or (2,) * n
    for v in range(n):
        codes[v] %= given[v]
    return DataTable(tuple(f"v{v}" for v in range(n)), tuple(tuple("01"[:k]) for k in given), codes)


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 700])
def test_bits_give_the_sums_of_rows_to_the_bit(rows: int) -> None:
    table = binary(rows, 7, rows, (2, 2, 1, 2, 2, 2, 2))
    sets = ColexOrder(7, 5).sets(0, 120)
    shuffled = sets[np.random.default_rng(0).permutation(120)]
    for score in filter(is_discrete, REGISTRY.values()):
        scorer = make_scorer(table, score, 5)
        assert isinstance(scorer, CountingScorer)
        entropy = isinstance(score.cell_terms, Entropy)
        bits = BitColumns(table.codes, entropy, 5)
        by_bits, by_rows = replace(scorer, bits=bits), replace(scorer, bits=None)
        for some in (sets, shuffled, sets[-1:]):
            assert by_bits.values(some).tobytes() == by_rows.values(some).tobytes()


def test_bits_are_for_two_values_small_sets_and_plain_rows() -> None:
    table = binary(400, 10, 1)
    bic = REGISTRY["bic"]

    def has_bits(table: DataTable, size: int) -> bool:
        scorer = make_scorer(table, bic, size)
        assert isinstance(scorer, CountingScorer)
        return scorer.bits is not None

    assert has_bits(table, 3)
    assert not has_bits(table, WIDEST + 1)
    assert not has_bits(replace(table, weights=np.full(400, 2)), 3)
    assert not has_bits(replace(table, states=(*table.states[:-1], ("0", "1", "2"))), 3)
    assert not has_bits(binary(8, 10, 1), WIDEST)  # a handful of rows is counted sooner than 128 cells
    assert (
        make_scorer(table, bic, 3).steps < make_scorer(replace(table, weights=np.full(400, 2)), bic, 3).steps
    )
