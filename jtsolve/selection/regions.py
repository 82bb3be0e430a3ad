"""Region graphs of junction trees (Vats and Nowak, JMLR 15, 2014, Algorithm 1).

Row 1 holds the clusters of a junction tree, row 2 its separators, one for each edge of the tree, and row
l + 1 the distinct intersections of two regions of row l; sets of fewer than two vertices, which hold no edge,
are left out. The children of a region R of row l are the regions of row l + 1 within it. R̄ is the union
of R and its ancestors.

From row 3 on, sets are distinct, and an intersection of two is smaller than one of them: the graph has
finitely many rows. If two separators are equal, row 3 has the same set as their common child, and its edges
are decided from all clusters around. The paper leaves this case open.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from jtsolve.core.varset import VarSet, is_subset, members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.tree import JunctionTree


@dataclass(frozen=True, slots=True)
class ClusterTree:
    """A junction tree of clusters, which need not be cliques.

    Args:
        clusters: sets of vertices.
        edges: pairs of positions: a forest with running intersection.
    """

    clusters: tuple[VarSet, ...]
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, tree: JunctionTree, separator_size: int | None = None) -> ClusterTree:
        """Returns the clusters of a tree after merging those joined by a separator above a size.

        Contracting an edge of the tree keeps the running intersection and all other separators. Empty
        separators join nothing and are left out.

        >>> from jtsolve.core.tree import JunctionTree
        >>> tree = JunctionTree(4, [0b0111, 0b1110], [(0, 1)])
        >>> ClusterTree.of(tree, 1).clusters
        (15,)
        """
        merged = list(range(len(tree.cliques)))

        def place(i: int) -> int:
            while merged[i] != i:
                i = merged[i]
            return i

        kept = []
        for (i, j), separator in zip(tree.edges, tree.separators, strict=True):
            if separator_size is not None and separator.bit_count() > separator_size:
                merged[place(j)] = place(i)
            elif separator:
                kept.append((i, j))
        unions: dict[int, VarSet] = {}
        for i, clique in enumerate(tree.cliques):
            unions[place(i)] = unions.get(place(i), 0) | clique
        position = {root: k for k, root in enumerate(unions)}
        edges = tuple((position[place(i)], position[place(j)]) for i, j in kept)
        return cls(tuple(unions.values()), edges)

    @property
    def separators(self) -> tuple[VarSet, ...]:
        """The intersections of the clusters joined, aligned with `edges`."""
        return tuple(self.clusters[i] & self.clusters[j] for i, j in self.edges)


@dataclass(frozen=True, slots=True)
class RegionGraph:
    """The rows of a region graph; its edges are the containments between neighbouring rows.

    Args:
        rows: regions by row; made by `region_graph`.

    Raises:
        ValueError: a region below row 1 has no parent or fewer than two vertices, or a row from the third on
            has duplicates.
    """

    rows: tuple[tuple[VarSet, ...], ...]

    def __post_init__(self) -> None:
        for above, row in zip(self.rows, self.rows[1:], strict=False):
            for region in row:
                if region.bit_count() < 2:  # noqa: PLR2004 - an edge joins two
                    raise ValueError("a region below row 1 has fewer than two vertices")
                if not any(is_subset(region, parent) for parent in above):
                    raise ValueError("a region is within none of the row above it")
        if any(len(set(row)) < len(row) for row in self.rows[2:]):
            raise ValueError("a row below the second has a region twice")

    def children(self, row: int, place: int) -> list[VarSet]:
        """Returns the regions of the next row within a region; rows count from 0."""
        if row + 1 == len(self.rows):
            return []
        region = self.rows[row][place]
        return [child for child in self.rows[row + 1] if is_subset(child, region)]

    def ancestry(self, row: int, place: int) -> VarSet:
        """Returns R̄, the union of a region and its ancestors; rows count from 0."""
        region = self.rows[row][place]
        layer = {region}
        union = region
        for above in reversed(self.rows[:row]):
            layer = {parent for parent in above if any(is_subset(child, parent) for child in layer)}
            for parent in layer:
                union |= parent
        return union

    def own_edges(self, row: int, place: int, neighbours: Sequence[VarSet]) -> list[tuple[int, int]]:
        """Returns the edges (u, v), u < v, of a graph within a region but within no child of it: H'_R.

        Args:
            row: of the region, 0 for the cliques.
            place: of the region in its row.
            neighbours: of each vertex.
        """
        region = self.rows[row][place]
        children = self.children(row, place)
        found = []
        for u in members(region):
            around = neighbours[u] & region & ~((1 << u + 1) - 1)
            for child in children:
                if child >> u & 1:
                    around &= ~child
            found += [(u, v) for v in members(around)]
        return found


def region_graph(tree: ClusterTree) -> RegionGraph:
    """Returns the region graph of a junction tree (Algorithm 1).

    >>> path = ClusterTree((0b0111, 0b1110), ((0, 1),))
    >>> region_graph(path).rows
    ((7, 14), (6,))
    """
    rows = [tree.clusters]
    row = tuple(separator for separator in tree.separators if separator.bit_count() > 1)
    while row:
        rows.append(row)
        meets = (one & other for one, other in combinations(row, 2))
        row = tuple(dict.fromkeys(meet for meet in meets if meet.bit_count() > 1))
    return RegionGraph(tuple(rows))
