"""The families: their meaning for trees, and that constraints and reduced costs keep the right ones."""

from __future__ import annotations

from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from problems import gaussian, named, random_problem, small_problems, with_holes

from jtsolve.backends.brute import chordal_trees, meets_constraints
from jtsolve.core.problem import LOCAL_FEATURES, Constraints, Problem, ProblemFeature
from jtsolve.core.pruning import prune
from jtsolve.core.scores import DenseScores, SparseScores, StoppedError
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members, subsets
from jtsolve.families.families import (
    Families,
    choose_root,
    families_of,
    families_of_tree,
    predicted_memory,
    predicted_sets,
    rows,
)

ROWS_AND_FILTERS = LOCAL_FEATURES


def positions(families: Families, tree: JunctionTree) -> list[int] | None:
    """Returns the places of a tree's families in the listing; None if one is not there."""
    masks = families.masks()
    listed = families.listing()
    at = {(int(v), masks[p]): i for i, (v, p) in enumerate(zip(listed.vertex, listed.parents, strict=True))}
    order = families_of_tree(tree, families.root)
    return [at[family] for family in order] if all(family in at for family in order) else None


def accepts(families: Families, tree: JunctionTree) -> bool:
    """Returns whether a tree's families are allowed and meet all rows."""
    used = positions(families, tree)
    if used is None:
        return False
    x = np.zeros(families.listing().vertex.size, dtype=np.int64)
    x[used] = 1
    connected = families.constraints.required_edges <= tree.edge_sets
    return connected and all(x[smaller].sum() <= x[larger].sum() for smaller, larger in rows(families))


def agrees(problem: Problem, root: int) -> None:
    """Compares the graphs of the families with the constraints' definition, on all chordal graphs."""
    families = families_of(problem, root)
    listed = families.listing()
    for tree in chordal_trees(problem.n):
        assert accepts(families, tree) == meets_constraints(problem, tree), tree.graph_edges
        if meets_constraints(problem, tree):
            total = families.offset + listed.weight[positions(families, tree)].sum()
            assert total == pytest.approx(tree.score(problem.scores), abs=1e-9)


@pytest.mark.parametrize("feature", [None, *sorted(ROWS_AND_FILTERS, key=lambda feature: feature.value)])
def test_a_tree_is_accepted_iff_it_meets_the_constraints(feature: ProblemFeature | None) -> None:
    for seed in range(12):
        n = 1 + seed % 4 if seed < 10 else 5
        problem = random_problem(seed, n, frozenset([feature] if feature else []))
        agrees(problem, seed % n)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problem=small_problems())
def test_the_same_with_ties_zeros_and_pairs_of_constraints(problem: Problem) -> None:
    if ProblemFeature.MAX_CLIQUES not in problem.constraints.features:
        agrees(problem, problem.n - 1)


def test_sets_are_ordered_by_size_and_mask_and_facets_are_correct() -> None:
    for scores in (gaussian(0, 6, 4), with_holes(1, gaussian(1, 6, 4), 0.5), gaussian(2, 3, 1)):
        families = families_of(named(scores), 2)
        masks = families.masks()
        assert masks == sorted(masks, key=lambda mask: (mask.bit_count(), mask))
        for at, mask in enumerate(masks):
            for j, v in enumerate(members(mask)):
                assert masks[families.facets[at, j]] == mask & ~(1 << v)


def test_more_variables_than_a_word_has_bits() -> None:
    problem = named(gaussian(0, 70, 2), Constraints(required_edges=frozenset({1 | 1 << 69})))
    families = families_of(problem, 69)
    assert families.masks()[-1] == 0b11 << 68
    assert families.listing().vertex.size == 70 + 2 * (70 * 69 // 2) - 69 - 69  # 0 has the parent 69


def exact_limits(problem: Problem, families: Families) -> np.ndarray:
    """Returns, by brute force, of every family the best score of a tree with a perfect order that uses it."""
    masks = families.masks()
    best: dict[tuple[int, int], float] = {}
    for tree in chordal_trees(problem.n):
        if meets_constraints(problem, tree):
            score = tree.score(problem.scores)
            for order in orders_from(tree, families.root):
                for family in order:
                    best[family] = max(best.get(family, -inf), score)
    limits = np.full(families.allowed.shape, -inf)
    for at, j in product(range(len(masks)), range(families.width)):
        if families.allowed[at, j]:
            v = int(families.members[at, j])
            limits[at, j] = best.get((v, masks[at] & ~(1 << v)), -inf)
    return limits


def orders_from(tree: JunctionTree, root: int) -> list[list[tuple[int, int]]]:
    """Returns every perfect order of the tree's graph from the root, as families."""
    neighbours = [0] * tree.n
    for u, v in tree.graph_edges:
        neighbours[u] |= 1 << v
        neighbours[v] |= 1 << u
    found: list[list[tuple[int, int]]] = []

    def extend(order: list[tuple[int, int]], placed: int) -> None:
        if len(order) == tree.n:
            found.append(order)
        for v in range(tree.n):
            parents = neighbours[v] & placed
            clique = all(parents & ~(1 << u) & ~neighbours[u] == 0 for u in members(parents))
            if not placed >> v & 1 and clique and (placed or v == root):
                extend([*order, (v, parents)], placed | 1 << v)

    extend([], 0)
    return found


def test_sets_outside_the_closure_are_in_no_tree_worth_the_incumbent() -> None:
    dropped = 0
    for seed in range(12):
        problem = named(gaussian(seed, 4, 4))
        families = families_of(problem, seed % 4)
        limits = exact_limits(problem, families)
        scores = sorted(tree.score(problem.scores) for tree in chordal_trees(4))
        least = scores[-1 - seed % 3]
        # Some of the families that may go are given, and the closure has to find no wrong one.
        hidden = np.random.default_rng(seed).random(limits.shape) < 0.3
        left, _ = families.restricted((limits >= least) | hidden)
        kept = {
            (left.masks()[at], int(left.members[at, j]))
            for at, j in zip(*np.nonzero(left.allowed), strict=True)
        }
        for at, j in zip(*np.nonzero(families.allowed), strict=True):
            if limits[at, j] >= least:
                assert (families.masks()[at], int(families.members[at, j])) in kept
        given = int((families.allowed & ((limits >= least) | hidden)).sum())
        dropped += given - int(left.allowed.sum())
    assert dropped > 0


def closed_by_the_rules(
    families: Families, allowed: set[tuple[int, int]]
) -> tuple[set[int], set[tuple[int, int]]]:
    """Returns the sets and families that rules (a) to (c) of the module leave, as they are written there."""
    masks = families.masks()
    parents = {(at, v): masks[at] & ~(1 << v) for at, v in allowed}
    alive = set(masks)
    while True:
        reached = {
            mask
            for mask in alive
            if mask.bit_count() < 2
            or any(mask >> v & 1 and mask & ~(1 << v) & ~parents[at, v] == 0 for at, v in allowed)
        }
        left = {mask for mask in reached if not any(sub not in reached for sub in subsets(mask))}
        kept = {(at, v) for at, v in allowed if masks[at] in left}
        if (left, kept) == (alive, allowed):
            return left, kept
        alive, allowed = left, kept


def test_the_closure_follows_its_rules() -> None:
    lost = 0
    for seed in range(60):
        families = families_of(named(gaussian(seed, 5, 2 + seed % 3)), seed % 5)
        drawn = np.random.default_rng(seed).random(families.allowed.shape) < (0.05, 0.1, 0.2, 0.5)[seed % 4]
        given = {
            (int(at), int(families.members[at, j]))
            for at, j in zip(*np.nonzero(families.allowed & drawn), strict=True)
        }
        alive, kept = closed_by_the_rules(families, given)
        left, position = families.restricted(drawn)
        assert set(left.masks()) == alive
        assert {(int(position[at]), v) for at, v in kept} == {
            (int(at), int(left.members[at, j])) for at, j in zip(*np.nonzero(left.allowed), strict=True)
        }
        lost += len(given) - len(kept)
    assert lost > 0


def test_nothing_is_left_out_without_a_reason() -> None:
    families = families_of(named(gaussian(0, 5, 3)), 1)
    same, position = families.restricted(np.ones_like(families.allowed))
    assert np.array_equal(same.members, families.members)
    assert position.tolist() == list(range(families.sizes.size))
    assert np.array_equal(same.allowed, families.allowed)


def test_a_pruned_problem_has_the_families_of_its_trees() -> None:
    problem = named(gaussian(3, 5, 3))
    best = max(tree.score(problem.scores) for tree in chordal_trees(5) if tree.treewidth <= 2)
    pruned = families_of(prune(problem, best).problem, 0)
    assert pruned.sizes.size < families_of(problem, 0).sizes.size
    assert any(accepts(pruned, tree) for tree in chordal_trees(5) if tree.score(problem.scores) == best)


def test_the_root_is_where_the_edges_are() -> None:
    problem = named(gaussian(0, 4, 3))
    star = JunctionTree(4, (0b0101, 0b0110, 0b1100), ((0, 1), (1, 2)))
    assert choose_root(problem, star) == 2
    assert choose_root(named(gaussian(0, 3, 1)), None) == 0
    values = np.zeros(11)
    values[[3, 5]] = 7.0  # colex: {0,1} and {0,2}
    assert choose_root(named(DenseScores(4, 2, values)), None) == 0


def test_the_memory_needed_is_known_before() -> None:
    dense, sparse = named(gaussian(0, 6, 3)), named(with_holes(0, gaussian(0, 6, 3), 0.5))
    assert predicted_sets(dense) == families_of(dense).sizes.size == 42
    assert predicted_sets(sparse) >= families_of(sparse).sizes.size
    closed = named(SparseScores(6, {mask: float(mask) for mask in range(1 << 5)}))
    assert predicted_sets(closed) == 32  # not 3^5
    assert predicted_memory(dense) > families_of(dense).members.nbytes


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_listing_the_sets_ends_on_request(holes: float) -> None:
    scores = with_holes(0, gaussian(0, 5), holes) if holes else gaussian(0, 5)
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) == 3

    with pytest.raises(StoppedError):
        families_of(named(scores), 0, stop)
    assert len(asked) == 3
