from __future__ import annotations

from itertools import product
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pytest
from problems import dense, from_data, gaussian, with_holes

from jtsolve.backends.merging.lifting import lifted
from jtsolve.backends.merging.starts import PerturbedScores, favouring, grown_tree
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import bounded_subsets, varset

if TYPE_CHECKING:
    from jtsolve.core.scores import LocalScores
    from jtsolve.core.varset import VarSet


def trees_with_labels(scores: LocalScores, tree: JunctionTree, largest: int) -> list[JunctionTree]:
    """Returns the junction trees of all labels with scores, by the definition: with running intersection."""
    n = scores.n
    found = []
    for labels in product(range(n + 1), repeat=len(tree.cliques)):
        joined: list[VarSet] = []
        for one, label in zip(tree.cliques, labels, strict=True):
            if label < n and (one >> label & 1 or one.bit_count() == largest):
                break
            joined.append(one | 1 << label if label < n else one)
        else:
            shared = [joined[i] & joined[j] for i, j in tree.edges]
            # The nodes that hold a variable are connected if and only if they have one edge less.
            counts = [
                sum(part >> v & 1 for part in joined) - sum(part >> v & 1 for part in shared)
                for v in range(n)
            ]
            if counts == [1] * n and all(scores.score(part) > -inf for part in (*joined, *shared)):
                found.append(JunctionTree.from_nodes(n, joined, tree.edges))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_a_lift_is_the_best_of_all_labels(seed: int) -> None:
    complete = from_data(seed, 6, 4) if seed % 2 else gaussian(seed, 6, 4)
    for scores in (complete, with_holes(seed, complete, 0.3)):
        tree = grown_tree(complete, 3, np.random.default_rng(seed))
        for largest in (3, 4):
            every = trees_with_labels(scores, tree, largest)
            best = max((one.score(scores) for one in every), default=-inf)
            found = lifted(scores, tree, largest)
            assert best == -inf or found in every
            assert found.score(scores) == pytest.approx(best)


def test_single_variables_are_lifted_to_edges_and_one_node_to_itself() -> None:
    scores = dense(3, 2, np.array([0.0, 0.0, 0.0, 1.0, 0.0, -1.0, 2.0]))
    singles = JunctionTree(3, (0b001, 0b010, 0b100), ((0, 1), (1, 2)))
    assert lifted(scores, singles, 2).cliques == (0b011, 0b110)
    assert lifted(scores, singles, 1).cliques == singles.cliques
    assert lifted(gaussian(1, 1, 1), JunctionTree(1, (1,), ()), 1).cliques == (1,)


def test_a_lift_finds_hubs() -> None:
    # A chain of 1 to 8: each link gains 1 by itself, 4 with 9, and 6 with 0.
    links = [varset((v, v + 1)) for v in range(1, 8)]
    gains = dict.fromkeys(links, 1.0)
    gains |= {link | 1 << 9: 4.0 for link in links} | {link | 1: 6.0 for link in links}
    scores = dense(10, 3, np.array([gains.get(mask, 0.0) for mask in bounded_subsets(10, 3)]))
    ends, edges = [1, 1 << 9], [(i, i + 1) for i in range(len(links) - 1)]
    chain = JunctionTree(10, (*links, *ends), (*edges, (0, 7), (6, 8)))
    assert lifted(scores, chain, 3).score(scores) == 6.0 * len(links)
    favoured = PerturbedScores(scores, 4.0 * (np.arange(10) == 9) * (np.arange(10)[:, None] != 9))
    other = lifted(PerturbedScores(scores, favoured.bonus + favoured.bonus.T), chain, 3)
    assert other.score(scores) == 4.0 * len(links)


def test_favoured_variables_have_the_mean_of_their_bonuses() -> None:
    noisy = favouring(gaussian(1, 6, 3), 2.0, np.random.default_rng(0))
    assert np.array_equal(noisy.bonus, noisy.bonus.T)
    assert not noisy.bonus.diagonal().any()
    # b_ij − b_ik is (b_j − b_k) / 2 for every i.
    differences = noisy.bonus[:4, 4] - noisy.bonus[:4, 5]
    assert differences == pytest.approx(np.full(4, differences[0]))
    assert np.std(noisy.bonus[np.triu_indices(6, 1)]) > 0.3
