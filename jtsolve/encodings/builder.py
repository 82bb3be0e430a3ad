"""A builder of formulas that begin with the edges of the graph, and may have an order of the vertices.

*Edges first.* The variable of the pair a < b has the number b(b−1)/2 + a + 1 and the name adjacent_a_b: the
first n(n−1)/2 values are the graph, and the way back needs nothing else. Pairs that lie
in no set kept are 0 by a unit clause.

*The order.* before_a_b, a < b: a comes before b. Forbidding cycles of three makes it a total order; the root
is first.

*Every variable has a meaning*: a function of a tree with one of its perfect orders (`OrderedTree`). It gives
the values of a tree without a solver, for all formulations alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, members, neighbours_of
from jtsolve.encodings.formula import Encoding, Formula, LinearRow
from jtsolve.families.families import families_of_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from jtsolve.encodings.formula import Clause
    from jtsolve.families.families import Families


class OrderedTree(NamedTuple):
    """A tree with a perfect order of its graph from the root.

    Attributes:
        position: the position of each vertex in the order, from 0.
        parents: the earlier neighbours of each vertex.
        neighbours: the neighbours of each vertex.
        cliques: the maximal cliques.
    """

    position: tuple[int, ...]
    parents: tuple[VarSet, ...]
    neighbours: tuple[VarSet, ...]
    cliques: frozenset[VarSet]


Meaning: TypeAlias = "Callable[[OrderedTree], int]"


def ordered_tree(tree: JunctionTree, root: int) -> OrderedTree:
    """Returns the tree with the perfect order that `families_of_tree` gives."""
    parents = [0] * tree.n
    neighbours = [0] * tree.n
    position = [0] * tree.n
    for at, (v, before) in enumerate(families_of_tree(tree, root)):
        position[v], parents[v] = at, before
        neighbours[v] |= before
        for u in members(before):
            neighbours[u] |= 1 << v
    return OrderedTree(tuple(position), tuple(parents), tuple(neighbours), frozenset(tree.cliques))


def edge(a: int, b: int) -> int:
    """Returns the number of the variable adjacent_a_b.

    >>> [edge(0, 1), edge(2, 0), edge(1, 2), edge(0, 3)]
    [1, 2, 3, 4]
    """
    low, high = min(a, b), max(a, b)
    return high * (high - 1) // 2 + low + 1


def tree_of_edges(n: int, values: Sequence[int]) -> JunctionTree:
    """Returns the tree of the graph given by the first n(n−1)/2 values.

    Raises:
        ValueError: the graph is not chordal.
    """
    edges = (pair for pair in combinations(range(n), 2) if values[edge(*pair) - 1])
    return JunctionTree.from_neighbours(neighbours_of(n, edges))


def set_name(mask: VarSet) -> str:
    """Returns the members of a set as the end of a variable's name.

    >>> set_name(0b100101)
    '_0_2_5'
    """
    return "".join(f"_{v}" for v in members(mask))


@dataclass(slots=True)
class FormulaBuilder:
    """A formula under construction: variables with meanings, conditions, weights; begins with the edges."""

    families: Families
    names: list[str] = field(default_factory=list)
    largest: list[int] = field(default_factory=list)
    meanings: list[Meaning] = field(default_factory=list)
    weights: dict[int, float] = field(default_factory=dict)
    clauses: list[Clause] = field(default_factory=list)
    exactly_one: list[tuple[int, ...]] = field(default_factory=list)
    rows: list[LinearRow] = field(default_factory=list)
    constant: float = 0.0

    def __post_init__(self) -> None:
        families = self.families
        pairs = families.members[families.sizes == 2, :2].tolist()  # noqa: PLR2004 - an edge joins two
        kept = {edge(a, b) for a, b in pairs}
        for b in range(families.n):
            for a in range(b):
                number = self.variable(f"adjacent_{a}_{b}", partial(_are_adjacent, a, b))
                if number not in kept:
                    self.clauses.append((-number,))
        limits = families.constraints
        self.clauses += [(edge(*members(pair)),) for pair in sorted(limits.required_edges)]
        self._forbid(limits.forbidden_graphs)

    def _forbid(self, graphs: Iterable[frozenset[VarSet]]) -> None:
        """Excludes each of the graphs: some pair must differ."""
        pairs = [(edge(a, b), 1 << a | 1 << b) for a, b in combinations(range(self.families.n), 2)]
        for graph in graphs:
            self.clauses.append(tuple(-number if pair in graph else number for number, pair in pairs))

    def variable(self, name: str, meaning: Meaning, largest: int = 1) -> int:
        """Adds a variable and returns its number.

        Args:
            name: as written to files.
            meaning: the statement about a tree that the variable expresses.
            largest: its upper bound; the lower is 0.
        """
        self.names.append(name)
        self.largest.append(largest)
        self.meanings.append(meaning)
        return len(self.names)

    def at_most(self, literals: Sequence[int], most: int) -> None:
        """Adds the row that at most `most` literals hold; ¬x counts as 1 − x."""
        signs = tuple(1 if literal > 0 else -1 for literal in literals)
        self.rows.append(
            LinearRow(tuple(map(abs, literals)), signs, None, most - sum(sign < 0 for sign in signs))
        )

    def impossible(self) -> None:
        """Makes the formula infeasible, with clauses that every solver accepts."""
        if "never" not in self.names:
            never = self.variable("never", _never)
            self.clauses += [(never,), (-never,)]

    def order(self) -> Callable[[int, int], int]:
        """Adds a total order of the vertices, the root first.

        Returns:
            A function of a and b that returns the literal [a before b].
        """
        n, root = self.families.n, self.families.root
        first = len(self.names)
        for b in range(n):
            for a in range(b):
                self.variable(f"before_{a}_{b}", partial(_is_before, a, b))

        def before(a: int, b: int) -> int:
            return first + edge(a, b) if a < b else -(first + edge(a, b))

        for a, b, c in combinations(range(n), 3):
            self.clauses.append((-before(a, b), -before(b, c), -before(c, a)))
            self.clauses.append((-before(b, a), -before(c, b), -before(a, c)))
        self.clauses += [(before(root, v),) for v in range(n) if v != root]
        return before

    def bound_cliques(self) -> list[int]:
        """Adds Σ_v ends_v ≤ max_cliques, if that is bounded.

        Every maximal clique has a last vertex, and no two have the same.

        Returns:
            The variables ends_v = "P∪v is a maximal clique", which the formulation must define; empty without
            a bound.
        """
        most = self.families.constraints.max_cliques
        if most is None:
            return []
        ends = [self.variable(f"ends_{v}", partial(_ends_clique, v)) for v in range(self.families.n)]
        self.at_most(ends, most)
        return ends

    def encoding(self) -> Encoding:
        """Returns the finished formula and the way back."""
        count = len(self.names)
        weights = np.zeros(count)
        for number, weight in self.weights.items():
            weights[number - 1] = weight
        formula = Formula(
            tuple(self.names),
            tuple(self.largest),
            tuple(self.clauses),
            tuple(self.exactly_one),
            tuple(self.rows),
            weights,
            self.constant,
        )
        n, root, meanings = self.families.n, self.families.root, tuple(self.meanings)

        def tree_of(values: Sequence[int]) -> JunctionTree:
            return tree_of_edges(n, values)

        def values_of(tree: JunctionTree) -> NDArray[np.int64] | None:
            ordered = ordered_tree(tree, root)
            values = [meaning(ordered) for meaning in meanings]
            return np.array(values, dtype=np.int64) if formula.broken(values) is None else None

        return Encoding(formula, tree_of, values_of)


def _are_adjacent(a: int, b: int, ordered: OrderedTree) -> int:
    return ordered.neighbours[a] >> b & 1


def _is_before(a: int, b: int, ordered: OrderedTree) -> int:
    return int(ordered.position[a] < ordered.position[b])


def _ends_clique(v: int, ordered: OrderedTree) -> int:
    return int(ordered.parents[v] | 1 << v in ordered.cliques)


def _never(_reading: OrderedTree) -> int:
    return 0
