"""The junction trees of graphs: the canonical one, how many there are, and one of them drawn uniformly.

For a separator S, the m cliques that hold S are a subtree of any junction tree. Without its edges labelled S,
it falls into the same parts, of m_1, …, m_c cliques, in every junction tree. They can be joined in m^(c−2) Π
m_i ways, independently for each distinct S.

References:
    Thomas and Green, Enumerating the junction trees of a decomposable graph, J. Comput. Graph. Stat. 18,
    2009.
"""

from __future__ import annotations

from math import fsum, log
from typing import TYPE_CHECKING

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import is_subset

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from jtsolve.core.varset import VarSet


def trees_of(graphs: Iterable[tuple[VarSet, ...]]) -> list[JunctionTree]:
    """Returns the canonical junction trees of graphs, given as neighbours; equal graphs share one."""
    found: dict[tuple[VarSet, ...], JunctionTree] = {}
    trees = []
    for graph in graphs:
        if graph not in found:
            found[graph] = JunctionTree.from_neighbours(graph)
        trees.append(found[graph])
    return trees


def log_junction_trees(tree: JunctionTree) -> float:
    """Returns ln of the number of junction trees of the tree's graph.

    >>> from jtsolve.core.tree import JunctionTree
    >>> star = JunctionTree(4, (0b0011, 0b0101, 0b1001), ((0, 1), (0, 2)))
    >>> round(2.718281828459045 ** log_junction_trees(star), 9)
    3.0
    """
    terms = []
    for separator in set(tree.separators):
        sizes = [len(part) for part in parts_of(tree, separator)]
        terms.append((len(sizes) - 2) * log(sum(sizes)))
        terms += map(log, sizes)
    return fsum(terms)


def parts_of(tree: JunctionTree, separator: VarSet) -> list[list[int]]:
    """Returns the parts of the cliques that hold a separator, by positions in `tree.cliques`."""
    holders = [i for i, clique in enumerate(tree.cliques) if is_subset(separator, clique)]
    part_of = {i: i for i in holders}

    def representative(i: int) -> int:
        while part_of[i] != i:
            i = part_of[i]
        return i

    for (i, j), joint in zip(tree.edges, tree.separators, strict=True):
        if joint != separator and is_subset(separator, joint):
            part_of[representative(i)] = representative(j)
    parts: dict[int, list[int]] = {}
    for i in holders:
        parts.setdefault(representative(i), []).append(i)
    return list(parts.values())


def draw_junction_tree(tree: JunctionTree, random: Random) -> tuple[tuple[int, int], ...]:
    """Returns the edges of a uniformly drawn junction tree of the graph, as positions in `tree.cliques`.

    The parts of a separator are joined by a tree with probability in proportion to Π m_i^degree: its Prüfer
    sequence is c − 2 draws of a part in proportion to its size. Then the ends are drawn within the parts.
    """
    edges = []
    for separator in sorted(set(tree.separators)):
        parts = parts_of(tree, separator)
        sizes = [len(part) for part in parts]
        sequence = random.choices(range(len(parts)), weights=sizes, k=len(parts) - 2)
        for one, other in _tree_of(sequence, len(parts)):
            ends = random.choice(parts[one]), random.choice(parts[other])
            edges.append((min(ends), max(ends)))
    return tuple(sorted(edges))


def _tree_of(sequence: list[int], count: int) -> list[tuple[int, int]]:
    """Returns the edges of the tree on 0..count-1 with a Prüfer sequence."""
    degree = [1 + sequence.count(i) for i in range(count)]
    edges = []
    for i in sequence:
        leaf = degree.index(1)
        edges.append((leaf, i))
        degree[leaf] -= 1
        degree[i] -= 1
    one, other = (i for i in range(count) if degree[i] == 1)
    return [*edges, (one, other)]
