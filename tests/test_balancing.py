"""The balancing formula: its models are the chordal graphs that meet the constraints."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from enumeration import balanced_graphs, possible
from problems import FEATURES, Recording, gaussian, named, random_problem

from jtsolve.backends.brute import chordal_trees, meets_constraints
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.forward.backend import Forward
from jtsolve.backends.support.prepare import prepare
from jtsolve.core.problem import Constraints, Problem, ProblemFeature
from jtsolve.core.run import Limits
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import varset
from jtsolve.encodings.balancing import encode_balancing, predicted_memory
from jtsolve.families.families import Families, families_of

if TYPE_CHECKING:
    from jtsolve.encodings.formula import Encoding


def is_model(encoding: Encoding, tree: JunctionTree) -> bool:
    """Returns whether the values of a tree are a model, which then means the tree."""
    values = encoding.values_of(tree)
    if values is None or encoding.formula.broken(values.tolist()) is not None:
        return False
    assert encoding.tree_of(values.tolist()) == tree
    return True


@pytest.mark.parametrize(("n", "graphs"), [(1, 1), (2, 2), (3, 8), (4, 61)])
def test_the_models_are_the_chordal_graphs(n: int, graphs: int) -> None:
    families = families_of(named(gaussian(0, n)), n - 1)
    assert len(balanced_graphs(families)) == graphs


def test_the_822_chordal_graphs_of_five_are_models_and_no_other_is() -> None:
    families = families_of(named(gaussian(0, 5)), 3)
    encoding = encode_balancing(families)
    assert sum(is_model(encoding, tree) for tree in chordal_trees(5)) == 822
    chordal = {tree.graph_edges for tree in chordal_trees(5)}
    pairs = list(combinations(range(5), 2))
    graphs = [frozenset(pair for i, pair in enumerate(pairs) if graph >> i & 1) for graph in range(1024)]
    others = [graph for graph in graphs if tuple(sorted(graph)) not in chordal]
    assert len(others) == 202
    assert possible(families, [frozenset(pairs), *others[::4]]) == [frozenset(pairs)]


@pytest.mark.parametrize("treewidth", [0, 1, 2])
def test_the_models_are_those_of_bounded_treewidth(treewidth: int) -> None:
    problem = named(gaussian(0, 4)).with_treewidth(treewidth)
    expected = {frozenset(t.graph_edges) for t in chordal_trees(4) if t.treewidth <= treewidth}
    assert set(balanced_graphs(families_of(problem, 1))) == expected


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.value)
def test_the_models_are_those_that_meet_a_constraint(feature: ProblemFeature) -> None:
    counts = set()
    for seed in range(6):
        n = 2 + seed % 3
        problem = random_problem(seed, n, frozenset({feature}))
        expected = {frozenset(t.graph_edges) for t in chordal_trees(n) if meets_constraints(problem, t)}
        assert set(balanced_graphs(families_of(problem, seed % n))) == expected
        counts.add(len(expected))
    assert len(counts) > 2


def test_every_tree_has_values_that_mean_it_and_have_its_score() -> None:
    for n in range(1, 6):
        for seed in range(4 if n < 5 else 1):
            problem = named(gaussian(seed, n))
            encoding = encode_balancing(families_of(problem, seed % n))
            for tree in chordal_trees(n):
                assert is_model(encoding, tree)
                values = encoding.values_of(tree)
                assert values is not None
                score = encoding.formula.objective(values.tolist())
                assert score == pytest.approx(tree.score(problem.scores), abs=1e-9)


def test_values_are_a_model_iff_the_tree_meets_the_constraints() -> None:
    outcomes = set()
    for seed in range(60):
        n = 2 + seed % 3
        features = frozenset({FEATURES[seed % 10], FEATURES[seed // 10]})
        problem = random_problem(seed, n, features)
        encoding = encode_balancing(families_of(problem, seed % n))
        for tree in chordal_trees(n):
            assert is_model(encoding, tree) == meets_constraints(problem, tree)
            outcomes.add(meets_constraints(problem, tree))
    assert outcomes == {True, False}


def prepared(problem: Problem) -> tuple[Families, list[tuple[int, ...]]]:
    """Returns the families and the cuts that the clutter relaxation leaves, without the best trees."""
    tree = Forward().solve(problem, Limits(), Recording()).tree
    done = prepare(problem, Limits(), Recording(), tree=tree, relaxation=ClutterCuts())
    return done.families, list(done.clutters)


def test_the_families_left_by_a_relaxation_have_the_best_trees_as_models() -> None:
    cuts = 0
    for seed in range(12):
        problem = named(gaussian(seed, 5))
        families, clutters = prepared(problem)
        encoding = encode_balancing(families, clutters)
        best = max(chordal_trees(5), key=lambda tree: tree.score(problem.scores))
        assert is_model(encoding, best)
        assert len(encoding.formula.names) < len(encode_balancing(families_of(problem, 0)).formula.names)
        cuts += len(clutters)
    assert cuts > 0


def test_clutters_forbid_no_tree() -> None:
    sets = [[0b0001, 0b0110], [0b0010, 0b0100], [0b1000, 0b0111], [0b0001, 0b0010, 0b0100, 0b1000]]
    encoding = encode_balancing(families_of(named(gaussian(0, 4)), 2), sets)
    assert all(is_model(encoding, tree) for tree in chordal_trees(4))
    plain = encode_balancing(families_of(named(gaussian(0, 4)), 2))
    assert len(encoding.formula.clauses) == len(plain.formula.clauses) + len(sets)


def test_families_that_are_not_allowed_are_in_no_model() -> None:
    problem = named(gaussian(1, 4))
    everything = families_of(problem, 0)
    allowed = np.random.default_rng(3).random(everything.allowed.shape) < 0.6
    allowed |= (everything.sizes == 1)[:, None]
    families, _ = everything.restricted(allowed)
    masks = families.masks()
    listed = families.listing()
    kept = {(int(v), masks[p]) for v, p in zip(listed.vertex, listed.parents, strict=True)}
    encoding = encode_balancing(families)
    seen = set()
    for tree in chordal_trees(4):
        model = is_model(encoding, tree)
        seen.add(model)
        if all(family in kept for order in orders(tree, 0) for family in order):
            assert model
    assert seen == {True, False}


def orders(tree: JunctionTree, root: int) -> list[list[tuple[int, int]]]:
    """Returns all perfect orders of a tree's graph from a vertex, as families, in which parts hang together.

    Those are the orders in which every vertex but the first of a component has an earlier neighbour.
    """
    neighbours = [varset(u for e in tree.graph_edges if v in e for u in e if u != v) for v in range(tree.n)]
    complete = {varset(pair) for pair in tree.graph_edges}
    found: list[list[tuple[int, int]]] = []

    def extend(order: list[tuple[int, int]], placed: int) -> None:
        left = [v for v in range(tree.n) if not placed >> v & 1]
        if not left:
            found.append(order)
            return
        joined = [v for v in left if neighbours[v] & placed]
        for v in joined or left:
            parents = neighbours[v] & placed
            earlier = [u for u in range(tree.n) if parents >> u & 1]
            if all(varset(pair) in complete for pair in combinations(earlier, 2)):
                extend([*order, (v, parents)], placed | 1 << v)

    extend([(root, 0)], 1 << root)
    return found


def test_more_variables_than_a_word_has_bits() -> None:
    constraints = Constraints(
        required_edges=frozenset({1 | 1 << 69}), allowed_separators=frozenset({1, 1 << 69})
    )
    problem = named(gaussian(0, 70, 2), constraints)
    encoding = encode_balancing(families_of(problem, 69))
    star = JunctionTree.from_families([(69, 0), (0, 1 << 69), *((v, 1) for v in range(1, 69))])
    assert is_model(encoding, star)
    path = JunctionTree.from_families([(69, 0), (0, 1 << 69), *((v, 1 << v - 1) for v in range(1, 69))])
    assert not is_model(encoding, path)


def test_a_variable_without_a_clique_leaves_no_model() -> None:
    problem = named(gaussian(0, 2), Constraints(forbidden_cliques=frozenset({1, 3})))
    assert balanced_graphs(families_of(problem, 0)) == []


def test_memory_grows_with_the_pairs_of_cliques() -> None:
    small, large = (predicted_memory(named(gaussian(0, n, 3))) for n in (10, 20))
    assert 0 < 30 * small < large
