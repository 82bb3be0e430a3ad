from __future__ import annotations

from itertools import combinations, permutations
from math import inf, isclose

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.core.tree import JunctionTree, maximum_cardinality_search
from jtsolve.core.varset import members, varset


def graphs(n: int) -> list[nx.Graph]:
    """All labelled graphs on n nodes."""
    pairs = list(combinations(range(n), 2))
    found = []
    for bits in range(1 << len(pairs)):
        graph = nx.Graph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from(pair for i, pair in enumerate(pairs) if bits >> i & 1)
        found.append(graph)
    return found


@pytest.mark.parametrize("n", range(1, 6))
def test_every_chordal_graph_has_its_tree_and_no_other_graph_has_one(n: int) -> None:
    count = 0
    for graph in graphs(n):
        if not nx.is_chordal(graph):
            with pytest.raises(ValueError, match="not chordal"):
                JunctionTree.from_graph(graph)
            continue
        count += 1
        tree = JunctionTree.from_graph(graph)
        assert nx.utils.edges_equal(tree.to_graph().edges, graph.edges)
        assert tree.edge_sets == {varset(edge) for edge in graph.edges}
        assert {frozenset(members(clique)) for clique in tree.cliques} == set(
            map(frozenset, nx.find_cliques(graph))
        )
        assert tree.treewidth == max(len(clique) for clique in nx.find_cliques(graph)) - 1
    assert count == [1, 2, 8, 61, 822][n - 1]


def families(n: int, seed: int) -> list[tuple[int, int]]:
    """A random chordal graph: every vertex is joined to a subset of an earlier family."""
    rng = np.random.default_rng(seed)
    order = [int(v) for v in rng.permutation(n)]
    found: list[tuple[int, int]] = []
    for v in order:
        parents = 0
        if found:
            u, earlier = found[int(rng.integers(len(found)))]
            family = list(members(earlier | 1 << u))
            parents = varset(w for w in family if rng.random() < 0.6)
        found.append((v, parents))
    return found


@given(st.integers(1, 12), st.integers(0, 10_000))
def test_any_way_to_build_a_graph_gives_the_same_tree(n: int, seed: int) -> None:
    tree = JunctionTree.from_families(families(n, seed))
    assert JunctionTree.from_graph(tree.to_graph()) == tree
    rng = np.random.default_rng(seed)
    order = [int(i) for i in rng.permutation(len(tree.cliques))]
    place = {old: new for new, old in enumerate(order)}
    shuffled = JunctionTree(
        n, tuple(tree.cliques[i] for i in order), tuple((place[j], place[i]) for i, j in reversed(tree.edges))
    )
    assert shuffled == tree
    # Another junction tree of the graph: a maximum spanning tree with other ties.
    weights = nx.Graph()
    weights.add_nodes_from(range(len(tree.cliques)))
    for i, j in combinations(range(len(tree.cliques)), 2):
        size = (tree.cliques[i] & tree.cliques[j]).bit_count()
        weights.add_edge(i, j, weight=size + 0.4 * rng.random())
    other = JunctionTree(n, tree.cliques, tuple(nx.maximum_spanning_tree(weights).edges))
    assert other == tree
    assert sorted(other.separators) == sorted(tree.separators)


@given(st.integers(1, 7), st.integers(0, 10_000))
def test_the_score_is_the_same_along_every_elimination_order(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=2**n)
    values[0] = 0
    scores = DenseScores(n, n, values)
    order = families(n, seed)
    by_families = sum(scores.score(p | 1 << v) - scores.score(p) for v, p in order)
    assert isclose(JunctionTree.from_families(order).score(scores), by_families, abs_tol=1e-9)


def test_without_a_score_a_clique_or_separator_costs_everything() -> None:
    tree = JunctionTree(3, (0b011, 0b110), ((0, 1),))
    assert tree.score(SparseScores(3, {0b011: 1.0, 0b110: 2.0, 0b010: 0.5})) == 2.5
    assert tree.score(SparseScores(3, {0b011: 1.0, 0b110: 2.0})) == -inf
    assert tree.score(SparseScores(3, {0b011: 1.0, 0b010: 0.5})) == -inf


@given(st.integers(1, 10), st.integers(0, 10_000))
def test_from_nodes_contracts_nodes_within_others(n: int, seed: int) -> None:
    tree = JunctionTree.from_families(families(n, seed))
    rng = np.random.default_rng(seed)
    nodes, edges = list(tree.cliques), list(tree.edges)
    for _ in range(4):  # hang subsets on nodes, and subdivide edges by their separators
        at = int(rng.integers(len(nodes)))
        edges.append((at, len(nodes)))
        nodes.append(varset(v for v in members(nodes[at]) if rng.random() < 0.7))
    for i, j in tree.edges:
        edges.remove((i, j))
        edges.extend([(i, len(nodes)), (len(nodes), j)])
        nodes.append(tree.cliques[i] & tree.cliques[j])
    rng.shuffle(edges)
    assert JunctionTree.from_nodes(n, nodes, edges) == tree


@pytest.mark.parametrize(
    ("n", "cliques", "edges", "reason"),
    [
        (0, (), (), "at least one variable"),
        (1, (), (), "at least one variable and one clique"),
        (3, (0b011,), (), "not exactly the variables 0 to 2"),
        (2, (0b111,), (), "not exactly the variables 0 to 1"),
        (2, (0b01, 0b10), (), "2 cliques need 1 tree edges, not 0"),
        (2, (0b01, 0b10), ((0, 2),), "names clique 2, which does not exist"),
        (4, (0b0001, 0b0010, 0b0100, 0b1000), ((0, 1), (1, 2), (2, 0)), "do not connect"),
        (3, (0b011, 0b100, 0b110), ((0, 1), (1, 2)), "hold variable 1 are not connected"),
        (2, (0b01, 0b11), ((0, 1),), "is within the other"),
        (2, (0b11, 0b11), ((0, 1),), "is within the other"),
        (2, (0b11, 0b10), ((0, 1),), "is within the other"),
    ],
)
def test_an_invalid_junction_tree_is_refused(
    n: int, cliques: tuple[int, ...], edges: tuple[tuple[int, int], ...], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        JunctionTree(n, cliques, edges)


def test_families_must_come_after_their_parents_and_form_cliques() -> None:
    with pytest.raises(ValueError, match="arrives later"):
        JunctionTree.from_families([(0, 0b10), (1, 0)])
    with pytest.raises(ValueError, match="not chordal"):
        JunctionTree.from_families([(0, 0), (1, 0), (2, 0b11)])
    with pytest.raises(ValueError, match="not exactly the variables"):
        JunctionTree.from_families([(0, 0), (2, 0)])


def test_a_graph_must_have_the_nodes_from_zero() -> None:
    with pytest.raises(ValueError, match=r"must be 0\.\.n-1"):
        JunctionTree.from_graph(nx.path_graph([1, 2]))


def test_maximum_cardinality_search_breaks_ties_by_the_lowest() -> None:
    path = [0b10, 0b101, 0b10]
    assert maximum_cardinality_search(path) == [0, 1, 2]
    star = [0b1000, 0b1000, 0b1000, 0b0111]
    assert maximum_cardinality_search(star) == [0, 3, 1, 2]


def test_trees_of_equal_graphs_are_equal_values_for_any_labels() -> None:
    for order in permutations(range(4)):
        forest = JunctionTree(4, tuple(1 << v for v in order), ((0, 1), (0, 2), (0, 3)))
        assert forest.edges == ((0, 1), (0, 2), (0, 3))
        assert forest.separators == (0, 0, 0)
        assert forest.graph_edges == ()
