"""Many small problems side by side: the group solver of `dp`."""

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
from jtsolve.solving import solve


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
