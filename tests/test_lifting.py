from __future__ import annotations

from itertools import product
from math import comb, inf
from typing import TYPE_CHECKING

import numpy as np
import pytest
from problems import dense, from_data, gaussian, repeatable, with_holes

from jtsolve.backends.merging.lifting import Nodes, lifted, lowered
from jtsolve.backends.merging.starts import favouring, grown_tree
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import bounded_subsets, is_subset, varset

if TYPE_CHECKING:
    from jtsolve.core.varset import VarSet


def trees_with_labels(nodes: Nodes, n: int, largest: int) -> list[JunctionTree]:
    """Returns the junction trees of all labels, by the definition: those with running intersection."""
    found = []
    for labels in product(range(n + 1), repeat=len(nodes.sets)):
        joined: list[VarSet] = []
        for one, label in zip(nodes.sets, labels, strict=True):
            if label < n and (one >> label & 1 or one.bit_count() == largest):
                break
            joined.append(one | 1 << label if label < n else one)
        else:
            try:
                found.append(JunctionTree.from_nodes(n, joined, nodes.edges))
            except ValueError:
                continue
    return found


@pytest.mark.parametrize("seed", range(12))
def test_a_lift_is_the_best_of_all_labels(seed: int) -> None:
    complete = from_data(seed, 6, 4) if seed % 2 else gaussian(seed, 6, 4)
    for scores in (complete, with_holes(seed, complete, 0.3)):
        tree = grown_tree(complete, 3, np.random.default_rng(seed))
        cliques = Nodes(tree.cliques, tree.edges)
        for nodes, largest in ((cliques, 4), (cliques, 3), (lowered(tree, 3, repeatable(seed)), 3)):
            every = trees_with_labels(nodes, 6, largest)
            best = max(one.score(scores) for one in every)
            found = lifted(scores, nodes, largest)
            assert best == -inf or found in every
            assert found.score(scores) == pytest.approx(best)


def test_single_variables_are_lifted_to_edges_and_one_node_to_itself() -> None:
    scores = dense(3, 2, np.array([0.0, 0.0, 0.0, 1.0, 0.0, -1.0, 2.0]))
    singles = Nodes((0b001, 0b010, 0b100), ((0, 1), (1, 2)))
    assert lifted(scores, singles, 2).cliques == (0b011, 0b110)
    assert lifted(scores, singles, 1).cliques == singles.sets
    assert lifted(gaussian(1, 1, 1), Nodes((1,), ()), 1).cliques == (1,)


@pytest.mark.parametrize("seed", range(20))
def test_lifts_lead_back_from_lowered_trees_or_to_better_ones(seed: int) -> None:
    # Each edge gains some nats, so that most cliques are as large as may be.
    edges = np.array([comb(mask.bit_count(), 2) for mask in bounded_subsets(12, 4)])
    scores = dense(12, 4, gaussian(seed, 12, 4).values + 3.0 * edges)
    tree = grown_tree(scores, 4, np.random.default_rng(seed))
    random = repeatable(seed)
    better = 0
    for _ in range(20):
        nodes = lowered(tree, 4, random)
        assert sum(one.bit_count() == 4 for one in nodes.sets) <= 2
        assert sum(clique.bit_count() == 4 for clique in tree.cliques) > 4
        assert all(any(is_subset(one, clique) for clique in tree.cliques) for one in nodes.sets)
        found = lifted(scores, nodes, 4)
        assert found.treewidth <= 3
        assert found.score(scores) >= tree.score(scores) - 1e-9
        better += found.score(scores) > tree.score(scores) + 1e-6
        tree = found
    assert better


def test_a_lift_exchanges_a_hub() -> None:
    # A chain of 1 to 8, each link of which gains 1 by itself, 4 with hub 9 and 6 with hub 0.
    links = [varset((v, v + 1)) for v in range(1, 8)]
    gains = dict.fromkeys(links, 1.0)
    gains |= {link | 1 << 9: 4.0 for link in links} | {link | 1: 6.0 for link in links}
    scores = dense(10, 3, np.array([gains.get(mask, 0.0) for mask in bounded_subsets(10, 3)]))
    edges = tuple((i, i + 1) for i in range(len(links)))
    tree = JunctionTree.from_nodes(10, [*(link | 1 << 9 for link in links), 0b11], (*edges[:-1], (0, 7)))
    assert tree.score(scores) == 4.0 * len(links)
    random = repeatable(0)
    found = [lifted(scores, lowered(tree, 3, random), 3) for _ in range(9)]
    assert max(one.score(scores) for one in found) == 6.0 * (len(links) - 1) + 4.0  # 9 stays in a clique


def test_favoured_variables_have_the_mean_of_their_bonuses() -> None:
    noisy = favouring(gaussian(1, 6, 3), 2.0, np.random.default_rng(0))
    assert np.array_equal(noisy.bonus, noisy.bonus.T)
    assert not noisy.bonus.diagonal().any()
    # b_ij − b_ik is (b_j − b_k) / 2, whatever i is.
    differences = noisy.bonus[:4, 4] - noisy.bonus[:4, 5]
    assert differences == pytest.approx(np.full(4, differences[0]))
    assert np.std(noisy.bonus[np.triu_indices(6, 1)]) > 0.3
