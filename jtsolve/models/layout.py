"""Memory layout of the clique tables: side by side in one array, from the root down."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import pairwise
from math import prod
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.core.run import Run
from jtsolve.core.tree import JunctionTree, adjacency
from jtsolve.core.varset import VarSet, is_subset, members, renumbered
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BYTES_PER_CELL = 40
"""Working memory for each cell: probability, logarithm, a copy with evidence, and temporaries."""


class CellGroups(NamedTuple):
    """The cells of a clique for each of m subsets, such as separators, grouped by the cells of the subset.

    Attributes:
        cells: positions in the array of all tables, shape (cells of these cliques,).
        sizes: of the groups, shape (cells of all subsets,).
        starts: in `cells`, of each subset, shape (m + 1,).
        firsts: in `sizes`, of each subset, shape (m + 1,).
    """

    cells: NDArray[np.int64]
    sizes: NDArray[np.int64]
    starts: NDArray[np.int64]
    firsts: NDArray[np.int64]

    def between(self, a: int, b: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns cells and sizes of the subsets from a to b - 1, of shapes as above."""
        return self.cells[self.starts[a] : self.starts[b]], self.sizes[self.firsts[a] : self.firsts[b]]


class Projection(NamedTuple):
    """The projection of a clique's table onto a separator.

    Attributes:
        axes: of the members outside the separator.
        dims: of the projection, an axis for each member: 1 outside the separator.
    """

    axes: tuple[int, ...]
    dims: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Layout:
    """A rooted junction tree over discrete variables.

    Attributes:
        arities: number of states of each variable.
        order: indices in `tree.cliques`, each clique after its parent; the attributes below have this order.
        parent: place in this order of each clique's parent; -1 at the root.
        cliques: members of each clique, increasing.
        separators: members of each separator to the parent, increasing; () at the root.
        offset: shape (m + 1,), start of each table in the array, and the end.
        home: for each variable, the place of the clique nearest to the root that contains it.
    """

    arities: tuple[int, ...]
    order: tuple[int, ...]
    parent: tuple[int, ...]
    cliques: tuple[tuple[int, ...], ...]
    separators: tuple[tuple[int, ...], ...]
    offset: NDArray[np.int64]
    home: tuple[int, ...]

    @cached_property
    def inward(self) -> CellGroups:
        """The cells of each clique, grouped by the separator to its parent."""
        return _groups(self, range(len(self.cliques)), self.separators)

    @cached_property
    def outward(self) -> CellGroups:
        """The cells of the parent of each clique, grouped by their separator; the root is its own parent."""
        return _groups(self, (0, *self.parent[1:]), self.separators)

    @cached_property
    def single(self) -> CellGroups:
        """The cells of the home of each variable, grouped by its states."""
        return _groups(self, self.home, [(v,) for v in range(len(self.home))])

    @cached_property
    def levels(self) -> list[tuple[int, int]]:
        """The cliques at each distance from the root, as the first place and that after the last."""
        depth = [0] * len(self.cliques)
        for place, above in enumerate(self.parent[1:], 1):
            depth[place] = depth[above] + 1
        ends = np.searchsorted(depth, np.arange(depth[-1] + 2)).tolist()
        return list(pairwise(ends))

    @cached_property
    def own(self) -> tuple[Projection, ...]:
        """The projection of each clique onto its separator to the parent."""
        pairs = zip(self.cliques, self.separators, strict=True)
        return tuple(_projection(clique, separator, self.arities) for clique, separator in pairs)

    @cached_property
    def above(self) -> tuple[Projection, ...]:
        """The projection of each clique's parent onto their separator; of the root, all axes of itself."""
        triples = zip(self.cliques, self.separators, self.parent, strict=True)
        return tuple(
            _projection(clique if above < 0 else self.cliques[above], separator, self.arities)
            for clique, separator, above in triples
        )

    @property
    def cells(self) -> int:
        """The total number of cells."""
        return int(self.offset[-1])

    @property
    def separator_cells(self) -> int:
        """The total number of cells of the tables of separators; the empty separator of the root has one."""
        return sum(prod(own.dims) for own in self.own)

    def dims(self, place: int) -> tuple[int, ...]:
        """Returns the numbers of states of the members of a clique."""
        return tuple(self.arities[v] for v in self.cliques[place])

    def table(self, values: NDArray[np.float64], place: int) -> NDArray[np.float64]:
        """Returns the table of a clique, shape (states, …), as a view of all tables, shape (cells,)."""
        return values[self.offset[place] : self.offset[place + 1]].reshape(self.dims(place))

    def normalised(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the tables with given logarithms, shape (cells,), each scaled to sum to 1."""
        values: NDArray[np.float64] = np.exp(logs)
        values /= np.repeat(np.add.reduceat(values, self.offset[:-1]), np.diff(self.offset))
        return values


def table_cells(tree: JunctionTree, arities: tuple[int, ...]) -> int:
    """Returns the total number of cells of the clique tables."""
    return sum(prod(arities[v] for v in members(clique)) for clique in tree.cliques)


def require_room(cells: int, what: str, remedy: str, bytes_per_cell: int = BYTES_PER_CELL) -> None:
    """Checks that tables of this many cells fit in memory, within the limit of the call.

    Args:
        cells: their number.
        what: name of the tables, for the message.
        remedy: for the message.
        bytes_per_cell: working memory.

    Raises:
        LimitError: they do not fit.
    """
    Run().require_memory(cells * bytes_per_cell, f"{what}: {cells:.3g} cells need", remedy)


def require_draws(rows: int, seed: int, variables: int, bytes_per_cell: int = 4) -> None:
    """Checks the number of rows to draw, and the seed.

    Args:
        rows: their number.
        seed: of the draws.
        variables: of a row.
        bytes_per_cell: of the rows.

    Raises:
        ChoiceError: a number is negative.
        LimitError: the rows do not fit in memory.
    """
    if rows < 0 or seed < 0:
        raise ChoiceError(f"{rows} rows with the seed {seed} cannot be drawn; give numbers of 0 or more")
    require_room(variables * rows, f"{rows} rows", "fewer rows, in several files", bytes_per_cell)


@lru_cache(maxsize=64)
def table_layout(tree: JunctionTree, arities: tuple[int, ...]) -> Layout:
    """Returns the layout of a tree's tables, rooted at the first clique.

    Raises:
        ValueError: the number of variables does not match, or a variable has no state.
        LimitError: the tables do not fit in memory.
    """
    if tree.n != len(arities) or min(arities) < 1:
        raise ValueError(
            f"the tree has {tree.n} variables, but numbers of states are given for {len(arities)}"
        )
    require_room(table_cells(tree, arities), "the tables of the cliques", "a smaller treewidth, fewer states")
    order, parent = rooted(tree)
    cliques = tuple(tuple(members(tree.cliques[i])) for i in order)
    separators = tuple(
        tuple(members(tree.cliques[order[place]] & tree.cliques[order[above]])) if above >= 0 else ()
        for place, above in enumerate(parent)
    )
    sizes = [prod(arities[v] for v in clique) for clique in cliques]
    offset = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    home: dict[int, int] = {}
    for place, clique in enumerate(cliques):
        for v in clique:
            home.setdefault(v, place)
    homes = tuple(home[v] for v in range(tree.n))
    return Layout(arities, tuple(order), tuple(parent), cliques, separators, offset, homes)


def rooted(tree: JunctionTree) -> tuple[list[int], list[int]]:
    """Returns the cliques from the first one outwards, and the place of each one's parent in this order."""
    adjacent = adjacency(len(tree.cliques), tree.edges)
    order, parent, seen = [0], [-1], {0}
    for place, i in enumerate(order):  # the list grows during the iteration
        for j in adjacent[i]:
            if j not in seen:
                seen.add(j)
                order.append(j)
                parent.append(place)
    return order, parent


def subtree(tree: JunctionTree, cliques: Sequence[int]) -> tuple[list[int], JunctionTree]:
    """Returns the variables of some cliques, which are connected in the tree, and their junction tree."""
    number = {c: k for k, c in enumerate(cliques)}
    inside = list(members(reduce(or_, (tree.cliques[c] for c in cliques))))
    place = {v: k for k, v in enumerate(inside)}
    nodes = tuple(renumbered(tree.cliques[c], place) for c in cliques)
    edges = tuple((number[a], number[b]) for a, b in tree.edges if a in number and b in number)
    return inside, JunctionTree(len(inside), nodes, edges)


def host_cliques(scopes: Sequence[VarSet], cliques: Sequence[VarSet]) -> list[int]:
    """Returns for each set of variables the first clique that contains it.

    Raises:
        ValueError: a set lies within no clique.
    """
    holding: dict[int, list[int]] = {}
    for place, clique in enumerate(cliques):
        for v in members(clique):
            holding.setdefault(v, []).append(place)
    found = []
    for scope in scopes:
        rarest = min((holding[v] for v in members(scope)), key=len, default=[0])
        places = [place for place in rarest if is_subset(scope, cliques[place])]
        if not places:
            raise ValueError(f"no clique contains the variables {list(members(scope))}")
        found.append(places[0])
    return found


def spread(table: NDArray[np.float64], variables: Sequence[int], scope: Sequence[int]) -> NDArray[np.float64]:
    """Returns a view of a table with an axis for each variable of a scope, of length 1 for those it lacks.

    Args:
        table: shape (states, …).
        variables: of its axes.
        scope: contains the variables.
    """
    places = [scope.index(v) for v in variables]
    turned = np.transpose(table, np.argsort(places))
    shape = [1] * len(scope)
    for place, length in zip(sorted(places), turned.shape, strict=True):
        shape[place] = length
    return turned.reshape(shape)


def _projection(clique: tuple[int, ...], separator: tuple[int, ...], arities: tuple[int, ...]) -> Projection:
    axes = tuple(k for k, v in enumerate(clique) if v not in separator)
    return Projection(axes, tuple(arities[v] if v in separator else 1 for v in clique))


def _groups(layout: Layout, places: Sequence[int], subsets: Sequence[tuple[int, ...]]) -> CellGroups:
    """Returns the cells of cliques grouped by their subsets, one clique for each subset."""
    found, sizes = [], []
    for place, inner in zip(places, subsets, strict=True):
        clique, (first, last) = layout.cliques[place], layout.offset[place : place + 2]
        axes = [*map(clique.index, inner), *(k for k, v in enumerate(clique) if v not in inner)]
        found.append(np.arange(first, last).reshape(layout.dims(place)).transpose(axes).ravel())
        groups = prod(layout.arities[v] for v in inner)
        sizes.append(np.full(groups, (last - first) // groups))
    starts, firsts = (np.cumsum([0, *map(len, each)]) for each in (found, sizes))
    return CellGroups(np.concatenate(found), np.concatenate(sizes), starts, firsts)
