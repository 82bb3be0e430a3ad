"""Traces an optimal tree back from a finished g: recomputes each maximum, and follows its first maximiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from jtsolve.core.renaming import rename, renaming_tables, subsets_of
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import InternalError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.backends.dp.ranks import RankTables
    from jtsolve.backends.dp.scores import LocalTables
    from jtsolve.core.backend import Report
    from jtsolve.core.varset import VarSet

    Sets = NDArray[np.int64]


class Tables(Protocol):
    """The table g of a problem, on the processor or on a device."""

    @property
    def offset(self) -> Sets:
        """Where g(C,·) begins, shape (2, K)."""
        ...

    @property
    def step(self) -> Sets:
        """The distance from U to U + 1 in g(C,·), shape (K,)."""
        ...

    def fill(self, report: Report) -> None:
        """Runs the recurrence.

        Raises:
            StoppedError: the report stops it.
        """
        ...

    def gather(self, cells: Sets) -> NDArray[Any]:
        """Returns the numbers of some cells, in their shape."""
        ...


@dataclass(frozen=True, slots=True)
class Trace:
    """Follows the paper's recurrences down from f(∅,V).

    Args:
        ranks: of the sets C.
        local: the local scores.
        tables: g.
    """

    ranks: RankTables
    local: LocalTables
    tables: Tables

    def optimum(self) -> tuple[float, VarSet]:
        """Returns the maximum of s(C) + g(C, V∖C) over the cliques C with the root, and C."""
        everything = (1 << self.ranks.m) - 1
        inside = _subsets(everything)
        inside = inside[np.bitwise_count(inside) < self.ranks.width]
        value, best = _best(self._below(1, inside, everything))
        return value.item(), int(inside[best]) | 1 << self.ranks.m

    def tree(self, root: VarSet) -> JunctionTree:
        """Returns an optimal tree whose first clique is `root`.

        Raises:
            InternalError: no step attains the optimum of the tables.
        """
        m = self.ranks.m
        full = (1 << m) - 1
        nodes = [root]
        edges: list[tuple[int, int]] = []
        open_parts = [(0, full & ~root)]  # (a clique C, the variables U below it)
        while open_parts:
            node, u = open_parts.pop()
            if not u:
                continue
            attached, clique, new = self._attachment(nodes[node], u)
            split, part = self._split(nodes[node], u)
            if max(attached, split) < self.local.threshold:
                raise InternalError(
                    f"backend 'dp' cannot follow its own optimum below clique {nodes[node]:b}"
                )
            if attached >= split:
                edges.append((node, len(nodes)))
                open_parts.append((len(nodes), u ^ new))
                nodes.append(clique)
            else:
                open_parts += [(node, part), (node, u ^ part)]
        return JunctionTree.from_nodes(m + 1, nodes, edges)

    def _attachment(self, clique: VarSet, u: VarSet) -> tuple[Any, VarSet, VarSet]:
        """Returns h(C,U) = max over S ⊆ C ⊂ D ⊆ S∪U, S ⊊ D, of s(D) + g(D, U∖D) − s(S), with D and D ∩ U."""
        m = self.ranks.m
        new = _subsets(u)[1:]
        new = new[np.bitwise_count(new) <= self.ranks.width]
        found = []
        for root in range((clique >> m) + 1):
            inside = _subsets(clique & (1 << m) - 1)
            sets = (inside[:, None] | new).ravel()
            fit = np.flatnonzero(np.bitwise_count(sets) + root <= self.ranks.width)
            if not fit.size:
                continue
            separators, parts = inside[fit // new.size], new[fit % new.size]
            values = (
                self._below(root, sets[fit], u) - self.local.separator[root, self.ranks.position[separators]]
            )
            value, best = _best(values)
            found.append((value, int(separators[best] | parts[best]) | root << m, int(parts[best])))
        return max(found, key=lambda one: one[0], default=(self.local.lowest, 0, 0))

    def _split(self, clique: VarSet, u: VarSet) -> tuple[Any, VarSet]:
        """Returns the maximum of g(C,R) + g(C, U∖R) over the R ⊊ U with the largest member of U, and R."""
        m = self.ranks.m
        largest = 1 << u.bit_length() - 1
        parts = _subsets(u ^ largest)[:-1] | largest
        if not parts.size:
            return self.local.lowest, 0
        sets = np.full(parts.size, clique & (1 << m) - 1)
        root = clique >> m
        value, best = _best(self._g(root, sets, parts) + self._g(root, sets, u ^ parts))
        return value, int(parts[best])

    def _g(self, root: int, sets: Sets, us: Sets) -> NDArray[Any]:
        """Returns g(C,U) of many pairs, given ρ of all C, the C without the root, and the U."""
        renamed = rename(us, ~sets & (1 << self.ranks.m) - 1, renaming_tables())
        own = self.ranks.position[sets]
        return self.tables.gather(self.tables.offset[root, own] + self.tables.step[own] * renamed)

    def _below(self, root: int, sets: Sets, u: VarSet) -> NDArray[Any]:
        """Returns s(C) + g(C, U∖C) of many C."""
        scores = self.local.clique[root, self.ranks.position[sets]]
        values: NDArray[Any] = np.maximum(scores + self._g(root, sets, u & ~sets), self.local.lowest)
        return values


def _best(values: NDArray[Any]) -> tuple[Any, int]:
    best = int(values.argmax())
    return values[best], best


def _subsets(mask: VarSet) -> Sets:
    """Returns all subsets, the empty one first and the whole set last."""
    return subsets_of(np.array(mask, np.int64), mask.bit_count())
