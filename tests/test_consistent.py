from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import comb, inf
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from problems import (
    Recording,
    from_data,
    from_network,
    gaussian,
    integers,
    named,
    random_problem,
    with_holes,
)
from readers import tabulate
from reference_lpacjt import (
    Components,
    algorithm_1,
    algorithm_2,
    decomposable,
    distribution,
    information,
    random_tree,
    sides,
    strength,
)

from jtsolve.backends.brute import meets_constraints
from jtsolve.backends.consistent.backend import FindConsistentTree
from jtsolve.backends.consistent.kernels.least_cuts import least_cut
from jtsolve.backends.consistent.ltci import LTCI, unrank
from jtsolve.backends.consistent.search import ConsistentTrees
from jtsolve.backends.portfolio.backend import Portfolio
from jtsolve.core.problem import LOCAL_FEATURES, Constraints, Problem, ProblemFeature
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import DenseScores
from jtsolve.core.varset import is_subset, members, varset
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.ml import MaximumLikelihood
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from jtsolve.core.scores import LocalScores
    from jtsolve.core.tree import JunctionTree

EPSILON = 1e-9
"""Nats; above the rounding of sums of entropies, below every dependence in the distributions used here."""


def searched(problem: Problem, k: int, q: int) -> ConsistentTrees:
    """Returns a search among trees with separators of k variables and tests of up to q."""
    return ConsistentTrees(problem, k, LTCI(problem.scores, q, Recording()))


def ltci(scores: LocalScores, S: int, delta: float, q: int) -> list[int]:
    """Returns the components given S by Algorithm 2."""
    others = np.array([v for v in range(scores.n) if not S >> v & 1], dtype=np.int64)
    labels = np.arange(others.size)
    separator = np.array(list(members(S)), dtype=np.int64)
    LTCI(scores, q, Recording()).merge(separator, others, labels, 2, delta)
    return sorted(varset(others[labels == label].tolist()) for label in set(labels.tolist()))


def run(problem: Problem, **options: Any) -> Outcome:
    """Solves with some options."""
    return FindConsistentTree(**options).solve(problem, Limits(), Recording())


def parts_of(trees: ConsistentTrees) -> tuple[Components, set[tuple[int, int]]]:
    """Returns the components of a search as they are now, and those that it holds decomposable."""
    state, components, decomposable = trees.state, dict[int, list[int]](), set[tuple[int, int]]()
    for s in trees.permitted.tolist():
        S = varset(trees.graphs.sets[s].tolist())
        components[S] = []
        for q in np.flatnonzero(state.size[s]).tolist():
            Q = int.from_bytes(state.members[s, q].astype("<i8").tobytes(), "little")
            components[S].append(Q)
            if state.value[s, q] > -inf:
                decomposable.add((S, Q))
    return components, decomposable


def by_positions(components: Components) -> Components:
    """Returns components in the order in which the kernel has them: the largest first."""
    return {S: sorted(parts, key=lambda Q: (-Q.bit_count(), Q & -Q)) for S, parts in components.items()}


# Least cuts and LTCI


def test_least_cuts_agree_with_the_definition_on_entropies() -> None:
    for seed in range(20):
        k = seed % 3
        scores = distribution(seed, random_tree(seed, 7, 2), noise=0.3)
        for size in range(2, 8 - k):
            S, A = (1 << k) - 1, ((1 << size) - 1) << k
            gain = np.array([scores.score(S | X << k) for X in range(1 << size)])
            expected = strength(scores, A, S)
            assert least_cut(gain, size, -inf) == pytest.approx(expected, abs=1e-12)


def test_where_cuts_are_not_submodular_it_finds_some_cut() -> None:
    above = 0
    for seed in range(40):
        scores = gaussian(seed, 6)
        expected = strength(scores, 0b111111, 0)
        found = least_cut(scores.values, 6, -inf)
        assert found >= expected - 1e-12
        above += found > expected + 1e-6
    assert above > 0


def test_a_search_for_a_cut_ends_with_one_that_is_low_enough() -> None:
    scores = gaussian(1, 5)
    least = strength(scores, 0b11111, 0)
    assert least - 1e-12 <= least_cut(scores.values, 5, 10.0) <= 10.0


def test_ltci_equals_algorithm_2() -> None:
    for seed in range(12):
        scores = distribution(seed, random_tree(seed, 6, 1 + seed % 2), noise=0.2)
        for S in (0b0, 0b100, 0b1010):
            for delta in (0.0, 0.003, 0.02, 0.1, 1.0):
                expected = algorithm_2(scores, S, delta, 4)
                assert ltci(scores, S, delta, 4) == expected


def test_larger_tests_join_more_than_pairs() -> None:
    # C is the exclusive or of A and B: independent in pairs, not together.
    joint = np.zeros((2, 2, 2))
    for a in range(2):
        for b in range(2):
            joint[a, b, a ^ b] = 0.25
    from reference_lpacjt import entropies

    assert ltci(entropies(joint), 0, 0.1, 2) == [0b1, 0b10, 0b100]
    assert ltci(entropies(joint), 0, 0.1, 3) == [0b111]


@pytest.mark.parametrize("k", [1, 2])
def test_ltci_is_correct_and_weak_in_the_sense_of_lemma_7(k: int) -> None:
    split = 0
    for seed in range(10):
        n = 7
        tree = random_tree(seed, n, k)
        scores = distribution(seed, tree, noise=0.003)
        epsilon = max(information(scores, one, other, S) for S, one, other in sides(tree))
        assert epsilon > 0
        for S, one, other in sides(tree):
            parts = ltci(scores, S, epsilon, k + 1)
            assert all(is_subset(Q, one) or is_subset(Q, other) for Q in parts), "not correct"
            everything = (1 << n) - 1
            alpha = n * (epsilon + (k - 1) * epsilon)
            assert all(information(scores, Q, everything & ~S & ~Q, S) <= alpha + 1e-12 for Q in parts), (
                "not weak"
            )
            split += len(parts) > 1
    assert split > 0


# Trees


@pytest.mark.parametrize(("k", "n"), [(1, 6), (1, 8), (2, 7), (3, 7)])
def test_finds_the_true_tree_of_strongly_connected_distributions(k: int, n: int) -> None:
    for seed in range(6):
        tree = random_tree(seed, n, k)
        problem = named(distribution(seed, tree), Constraints(max_treewidth=k))
        outcome = run(problem, smaller=False)
        assert outcome.tree == tree  # Lemma 10 with ε = 0
        assert outcome.stats["deltas"][str(k)] < EPSILON
        assert run(problem, smaller=False, delta=EPSILON).tree == tree  # Algorithm 3


def test_agrees_with_algorithm_1_on_known_trees() -> None:
    for seed in range(4):
        tree = random_tree(seed, 7, 2)
        scores = distribution(seed, tree)
        everything = algorithm_1(scores, 2, EPSILON)
        good, roots = decomposable(7, everything, greedy=False)
        assert all((S, side) in good for S, *both in sides(tree) for side in both)
        assert set(roots) == set(tree.cliques)
        found = run(named(scores, Constraints(max_treewidth=2)), smaller=False).tree
        assert found is not None
        assert all(Q in everything[S] for S, *both in sides(found) for Q in both)


@pytest.mark.parametrize("maker", [gaussian, integers, from_data])
def test_components_at_a_threshold_equal_ltci_and_definition_8(maker: Any) -> None:
    for seed in range(9):
        n, k = 5 + seed % 3, 1 + seed % 2
        problem = named(maker(seed, n))
        strengths = sorted(strength(problem.scores, 1 << u | 1 << v, 0) for u in range(n) for v in range(u))
        for threshold in (strengths[0], strengths[len(strengths) // 2], strengths[-1] * 1.5, inf):
            trees = searched(problem, k, k + 2)
            tree = trees.at(threshold)
            components, good = parts_of(trees)
            for S, parts in components.items():
                assert sorted(parts) == ltci(problem.scores, S, threshold, k + 2)
            expected, roots = decomposable(n, by_positions(components), greedy=True)
            assert good == expected
            assert (tree is not None) == bool(roots)


def test_rising_thresholds_give_decompositions() -> None:
    found = 0
    for seed in range(16):
        n, k = 6 + seed % 3, 1 + seed % 3
        trees = searched(named(from_network(seed, n, n) if seed % 2 else gaussian(seed, n)), k, k + 2)
        for tree, _ in trees.rising():
            found += 1
            components, good = parts_of(trees)
            expected, roots = decomposable(n, by_positions(components), greedy=True)
            assert good == expected
            assert roots
            assert tree.n == n
    assert found >= 16


def test_the_threshold_never_falls_and_the_last_tree_is_consistent() -> None:
    rose = 0
    for seed in range(8):
        problem = named(from_network(seed, 9, 9, rows=60))
        trees = searched(problem, 2, 4)
        thresholds = []
        last: JunctionTree | None = None
        consistent = False
        for tree, answer in trees.rising():
            thresholds.append(trees.threshold)
            last, consistent = tree, answer
        assert consistent
        assert all(before <= after for before, after in pairwise(thresholds))
        rose += len(set(thresholds)) > 1
        assert last is not None
        for S, one, other in sides(last):
            for Q in ltci(problem.scores, S, trees.threshold, 4):
                assert is_subset(Q, one) or is_subset(Q, other)
    assert rose > 0


def test_the_tree_is_the_best_of_the_greedy_ones() -> None:
    # At an infinite threshold every component is one variable: any clique of k + 1 is a root.
    for seed in range(5):
        problem = named(gaussian(seed, 7))
        tree = searched(problem, 0, 2).at(inf)
        assert tree is not None
        assert [clique.bit_count() for clique in tree.cliques] == [1] * 7
        tree = searched(problem, 1, 2).at(inf)
        assert tree is not None
        s = problem.scores.score
        stars = [
            sum(s(1 << v | 1 << u) - s(1 << v) for u in range(7) if u != v) + s(1 << v) for v in range(1, 7)
        ]  # of equal components, those that hang on the clique's larger vertex come first: no star at 0
        assert tree.score(problem.scores) >= max(stars) - 1e-9


MISSED_BY_GREED = {
    # The clique {0,1} is the only root. Greed takes {2,3,4}, which hangs on 0, before {2,3} and {4,5}, which
    # hang on 1, and never covers 5.
    0: [[2, 3, 4], [6, 7], [1, 5]],
    1: [[2, 3], [4, 5], [0, 6], [7]],
    2: [[0, 1, 3, 4, 5, 6, 7]],
    3: [[2], [4], [0, 1, 5, 6, 7]],
    4: [[5], [0, 1, 2, 3, 6, 7]],
    5: [[0, 1, 2, 3, 4, 6, 7]],
    6: [[7], [0, 1, 2, 3, 4, 5]],
    7: [[0, 1, 2, 3, 4, 5, 6]],
}


def test_covers_are_greedy_and_are_incomplete() -> None:
    trees = searched(named(gaussian(0, 8, 3)), 1, 2)
    for v, parts in MISSED_BY_GREED.items():
        joins = [(part[0], following[0]) for part, following in pairwise(parts)]
        paths = [edge for part in parts for edge in pairwise(part)]
        trees.graphs.forest[v] = [*joins, *paths]
        trees.graphs.strengths[v] = [-1.0] * len(joins) + [1.0] * len(paths)
    assert trees.at(0.0) is None
    components, good = parts_of(trees)
    assert (good, []) == decomposable(8, by_positions(components), greedy=True)
    assert decomposable(8, components, greedy=False)[1] == [0b11]


# The backend


@pytest.mark.parametrize(
    "feature", [one for one in ProblemFeature if one in LOCAL_FEATURES], ids=lambda feature: feature.value
)
def test_meets_every_constraint_that_it_declares(feature: ProblemFeature) -> None:
    found = 0
    backend = FindConsistentTree(q=3)
    for seed in range(40):
        problem = random_problem(seed, 6, frozenset({feature}))
        limits = problem.constraints
        treewidth = min(3, 3 if limits.max_treewidth is None else limits.max_treewidth)
        problem = replace(problem, constraints=replace(limits, max_treewidth=treewidth))
        if backend.capabilities.objections(problem):
            continue
        report = Recording()
        backend.solve(problem, Limits(), report)
        assert all(meets_constraints(problem, tree) for tree in report.trees)
        found += bool(report.trees)
    assert found >= 5


def test_refuses_a_table_that_is_too_small_with_the_size_that_it_needs() -> None:
    constraints = Constraints(max_treewidth=2)
    for q, needed, enough in (
        (None, 6, "for q = 3 or for treewidth 1 with q = 3;"),
        (2, 4, "for treewidth 1 with q = 2;"),
        (3, 5, "for q = 2 or for treewidth 1 with q = 3;"),
    ):
        backend = FindConsistentTree(q=q)
        (objection,) = backend.capabilities.objections(named(gaussian(0, 9, needed - 1), constraints))
        assert f"up to {needed} variables" in objection
        assert f"--max-size {needed}`" in objection
        assert enough in objection
        assert backend.capabilities.objections(named(gaussian(0, 9, needed), constraints)) == ()
    assert FindConsistentTree().capabilities.objections(named(gaussian(0, 5), constraints)) == ()


def test_refuses_scores_with_gaps() -> None:
    problem = named(with_holes(0, gaussian(0, 5), 0.2), Constraints(max_treewidth=1))
    (objection,) = FindConsistentTree(q=2).capabilities.objections(problem)
    assert "have none" in objection


@pytest.mark.parametrize("options", [{"q": 1}, {"delta": float("nan")}])
def test_wrong_options_are_errors(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        FindConsistentTree(**options)


def test_smaller_treewidths_come_first_and_count_too() -> None:
    problem = named(from_network(3, 8, 8, rows=30), Constraints(max_treewidth=3))
    outcome = run(problem)
    assert list(outcome.stats["deltas"]) == ["0", "1", "2", "3"]
    alone = run(problem, smaller=False)
    assert list(alone.stats["deltas"]) == ["3"]
    assert outcome.tree is not None
    assert alone.tree is not None
    assert outcome.tree.score(problem.scores) >= alone.tree.score(problem.scores)


def test_one_clique_where_nothing_bounds_it() -> None:
    assert run(named(gaussian(0, 1))).tree is not None
    problem = named(dense_of_one_clique(), Constraints(max_separator_size=1))
    outcome = run(problem)
    assert outcome.tree is not None
    assert outcome.tree.cliques == (0b1111,)
    forbidden = Constraints(forbidden_cliques=frozenset({0b1}))
    assert run(named(gaussian(0, 1), forbidden)).tree is None


def dense_of_one_clique() -> DenseScores:
    """Returns scores of four variables under which they are best together."""
    return DenseScores(4, 4, np.array([0.0] * 15 + [1.0]))


def test_no_tree_is_claimed_where_none_is_found() -> None:
    constraints = Constraints(max_treewidth=1, allowed_separators=frozenset({0b1}), min_separator_size=1)
    outcome = run(named(gaussian(0, 5), replace(constraints, forbidden_edges=frozenset({0b11}))))
    assert outcome.tree is None
    assert outcome.bound == inf
    assert run(named(gaussian(0, 5), constraints), delta=-1e9).tree is None


def test_a_stop_returns_the_best_tree_so_far() -> None:
    problem = named(from_network(0, 9, 6), Constraints(max_treewidth=2))
    patient = Recording()
    FindConsistentTree().solve(problem, Limits(), patient)
    for patience in range(0, patient.asked, max(1, patient.asked // 40)):
        report = Recording(patience, Stop.TIME)
        outcome = FindConsistentTree().solve(problem, Limits(), report)
        assert outcome.stop is Stop.TIME
        assert outcome.tree == max(report.trees, key=lambda tree: tree.score(problem.scores), default=None)


def data_table(n: int = 7, rows: int = 80) -> DataTable:
    """Returns binary data of dependent columns, some rows of weight 2."""
    generator = np.random.default_rng(5)
    codes = generator.integers(0, 2, (n, rows))
    for v in range(1, n):
        copied = generator.random(rows) < 0.7
        codes[v, copied] = codes[v - 1, copied]
    names = tuple(f"V{v}" for v in range(n))
    return DataTable(names, (("0", "1"),) * n, codes, generator.integers(1, 3, rows))


def test_scores_on_demand_and_tables_give_the_same_tree_and_threshold() -> None:
    table = data_table()
    constraints = Constraints(max_treewidth=2)
    lazy = named(DataScores(table, MaximumLikelihood(), 6), constraints)
    tabled = replace(named(tabulate(table, MaximumLikelihood(), 6), constraints), rows=int(table.total))
    assert run(lazy).stats["rows"] == table.total
    assert run(lazy).tree == run(tabled).tree
    assert run(lazy).stats == run(tabled).stats


def test_the_threshold_means_the_same_in_a_member_of_a_portfolio() -> None:
    table = data_table(14)  # wide enough for members in processes
    problem = named(tabulate(table, MaximumLikelihood(), 3), Constraints(max_treewidth=1))
    problem = replace(problem, rows=int(table.total))
    member = FindConsistentTree(q=2, delta=0.1, smaller=False)
    alone = member.solve(problem, Limits(), Recording())
    assert alone.tree is not None
    assert member.solve(replace(problem, rows=None), Limits(), Recording()).tree != alone.tree
    both = Portfolio((member, member)).solve(problem, Limits(threads=2), Recording())
    assert both.tree == alone.tree


def test_more_than_64_variables() -> None:
    scores = gaussian(0, 70, 3)
    problem = named(scores, Constraints(max_treewidth=1))
    trees = searched(problem, 1, 2)
    tree = trees.at(2.0)
    components, good = parts_of(trees)
    expected, roots = decomposable(70, by_positions(components), greedy=True)
    assert good == expected
    assert (tree is not None) == bool(roots)
    outcome = run(problem, q=2)
    assert outcome.tree is not None
    assert len(outcome.tree.cliques) == 69


def test_ranks_are_the_positions_in_colex_order() -> None:
    for n, size in ((6, 0), (6, 1), (6, 3), (5, 5)):
        sets = unrank(np.arange(comb(n, size)), n, size)
        masks = [varset(row) for row in sets.tolist()]
        assert masks == sorted(masks)
        assert len(set(masks)) == comb(n, size)
        assert all(mask.bit_count() == size for mask in masks)
