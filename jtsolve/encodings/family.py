"""The family formulation: one family per vertex, no v-structures, and an order.

Variables: e_ab, a and b are adjacent; x(v,P), the families of `families`; [a before b], an order of the
vertices. Maximise Σ w(v,P) x(v,P) subject to

    Σ_P x(v,P) = 1                                                              for every v,          (1)
    Σ_{P∋u} x(v,P) + Σ_{P∋v} x(u,P) = e_uv                                      for every pair,       (2)
    Σ_{P⊇{a,b}} x(v,P) ≤ e_ab                    no v-structure                 for every v, a, b,    (3)
    Σ_{P∋u} x(v,P) ≤ [u before v]                                               for every u, v,       (4)

the rows of `families` for cliques and separators that are not permitted, required edges, a bound on the
number of cliques, and forbidden graphs. The order has no cycle of three, which makes it total, and the root
is first. All conditions are clauses or rows with coefficients ±1, which `encodings.cnf` turns into clauses:
the MaxSAT form.

By (1) and (4) the families are an acyclic directed graph, by (3) without v-structures. So parent sets are
complete, the order is perfect and the skeleton is chordal; every chordal graph has such an order. Sums over
families of which only one can hold make the linear relaxation tighter than one clause for each would.

*Edges first.* The variable of the pair a < b has the number b(b−1)/2 + a + 1 and the name adjacent_a_b: the
first n(n−1)/2 values are the graph, and the way back needs nothing else.

*Clutter cuts.* A clutter is a collection of sets, none within another; F is the up-set of the sets that
contain one of them. If F has a set that is complete in every tree, a single vertex or a required edge, but
not ∅, then some family of every tree enters it (Studený and Cussens, IJAR 2017),

    Σ { x(v,P) : P ∉ F, P∪v ∈ F } ≥ 1,

since the complete sets of a perfect order grow from ∅ one vertex at a time. A linear relaxation finds the
cuts by separation (`backends.clutter`); here they are clauses, added on request.

Size: m families, Σ |P|² literals in (2)–(4), n³/3 clauses of the order.

References:
    Cussens, Bayesian network learning with cutting planes, UAI 2011 (family variables). Berg, Järvisalo and
    Malone, Learning optimal bounded treewidth Bayesian networks via maximum satisfiability, AISTATS 2014
    (families and an order as MaxSAT). Corander, Janhunen, Rintanen, Nyman and Pensar, Learning chordal Markov
    networks by constraint satisfaction, NIPS 2013.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, key_of, members, neighbours_of
from jtsolve.encodings.formula import Encoding, Formula, LinearRow
from jtsolve.families.families import families_of_tree, predicted_sets, rows
from jtsolve.families.sets import groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem
    from jtsolve.encodings.formula import Clause
    from jtsolve.families.families import Families, Listing

_PAIR = 2
_CLAUSE, _FAMILY, _PAIR_OF_PARENTS = 150, 1000, 20
"""Bytes, as Python objects, of a clause; of a family with its name and rows; and of an entry in (3)."""


def encode_family(families: Families, clutters: Sequence[Sequence[VarSet]] = ()) -> Encoding:
    """Returns the family formulation; see the module.

    The weight of a family is its difference to the best one of its vertex, and the constant has the sum of
    the best: MaxSAT solvers start from cost 0, where every vertex has its best family.

    Args:
        families: the families that a tree may use.
        clutters: minimal sets of up-sets, whose cuts are added; see `clutter_clauses`.
    """
    variables = _Variables.of(families)
    listed, x = variables.listed, variables.x
    best = np.full(families.n, -np.inf)
    np.maximum.at(best, listed.vertex, listed.weight)
    weights = np.zeros(len(variables.names))
    weights[x - 1] = listed.weight - best[listed.vertex]
    choices = [_numbers(x[listed.vertex == v]) for v in range(families.n)]
    cuts = (_numbers(x[list(cut)]) for cut in clutter_clauses(families, clutters))
    formula = Formula(
        names=variables.names,
        largest=(1,) * weights.size,
        clauses=(*_clauses(variables), *cuts),
        exactly_one=tuple(choice for choice in choices if choice),
        rows=tuple(_rows(variables)),
        weights=weights,
        constant=families.offset + float(best[np.isfinite(best)].sum()),
    )

    def values_of(tree: JunctionTree) -> NDArray[np.int64] | None:
        values = variables.values_of(tree)
        return None if values is None or formula.broken(values.tolist()) is not None else values

    return Encoding(formula, partial(tree_of_edges, families.n), values_of)


def predicted_memory(problem: Problem) -> int:
    """Returns an upper bound on the bytes of a problem's family formulation."""
    width = problem.max_clique_size
    families = predicted_sets(problem) * width
    return families * (_FAMILY + _PAIR_OF_PARENTS * width**2) + problem.n**3 // 3 * _CLAUSE


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


@dataclass(frozen=True, slots=True)
class _Variables:
    """The variables, numbered in the order e, x, [a before b].

    Two kinds follow where they are needed: with a bound on the number of cliques, ends_v, "P∪v is a maximal
    clique"; and "never", which makes the formula infeasible, where a vertex has no family.

    Attributes:
        families: of the problem.
        listed: the families as a list.
        parents: P of each family.
        x: shape (m,): the number of each family.
        ends: the number of each ends_v; empty without a bound.
        names: of all variables.
    """

    families: Families
    listed: Listing
    parents: list[VarSet]
    x: NDArray[np.int64]
    ends: range
    names: tuple[str, ...]

    @classmethod
    def of(cls, families: Families) -> _Variables:
        """Returns the variables of a problem."""
        n, listed, masks = families.n, families.listing(), families.masks()
        parents = [masks[at] for at in listed.parents.tolist()]
        pairs = [f"_{a}_{b}" for b in range(n) for a in range(b)]
        names = [f"adjacent{pair}" for pair in pairs]
        x = np.arange(len(names) + 1, len(names) + 1 + len(parents))
        own = zip(listed.vertex.tolist(), parents, strict=True)
        names += ["_".join(map(str, ("family", v, *members(mask)))) for v, mask in own]
        names += [f"before{pair}" for pair in pairs]
        bounded = families.constraints.max_cliques is not None
        ends = range(len(names) + 1, len(names) + 1 + n * bounded)
        names += [f"ends_{v}" for v, _ in enumerate(ends)]
        names += ["never"] * (np.unique(listed.vertex).size < n)
        return cls(families, listed, parents, x, ends, tuple(names))

    def before(self, a: int, b: int) -> int:
        """Returns the literal [a before b]."""
        number = self.families.n * (self.families.n - 1) // 2 + self.x.size + edge(a, b)
        return number if a < b else -number

    def values_of(self, tree: JunctionTree) -> NDArray[np.int64] | None:
        """Returns the values of a tree in a perfect order; None if a family has no variable."""
        key = key_of(tree.n)
        own = zip(self.listed.vertex.tolist(), map(key, self.parents), self.x.tolist(), strict=True)
        number = {(v, parents): x for v, parents, x in own}
        true: list[int] = []
        placed: list[int] = []
        for v, parents in families_of_tree(tree, self.families.root):
            family = number.get((v, key(parents)))
            if family is None:
                return None
            true += [family, *(edge(u, v) for u in members(parents)), *(self.before(u, v) for u in placed)]
            if self.ends and parents | 1 << v in tree.cliques:
                true.append(self.ends[v])
            placed.append(v)
        values = np.zeros(len(self.names), dtype=np.int64)
        values[[literal - 1 for literal in true if literal > 0]] = 1
        return values


def _clauses(variables: _Variables) -> Iterator[Clause]:
    """Yields required edges, forbidden graphs, the order, and the last vertices of maximal cliques."""
    families, before = variables.families, variables.before
    n, constraints = families.n, families.constraints
    kept = {edge(a, b) for a, b in families.members[families.sizes == _PAIR, :_PAIR].tolist()}
    pairs = list(combinations(range(n), _PAIR))
    yield from ((-edge(a, b),) for a, b in pairs if edge(a, b) not in kept)
    yield from ((edge(*members(pair)),) for pair in sorted(constraints.required_edges))
    for graph in constraints.forbidden_graphs:  # some pair must differ
        yield tuple(-edge(a, b) if 1 << a | 1 << b in graph else edge(a, b) for a, b in pairs)
    for a, b, c in combinations(range(n), 3):
        yield -before(a, b), -before(b, c), -before(c, a)
        yield -before(b, a), -before(c, b), -before(a, c)
    yield from ((before(families.root, v),) for v in range(n) if v != families.root)
    if ends := variables.ends:  # P∪v is a maximal clique unless it is the parent set of another vertex
        with_parents = groups(variables.listed.parents, families.sizes.size)
        own = zip(variables.x.tolist(), variables.listed.vertex, variables.listed.union, strict=True)
        yield from ((-x, ends[v], *variables.x[with_parents(union)].tolist()) for x, v, union in own)
    if variables.names[-1] == "never":  # as clauses that every solver accepts
        yield from ((len(variables.names),), (-len(variables.names),))


def _rows(variables: _Variables) -> Iterator[LinearRow]:
    """Yields (2) to (4), the rows of `families`, and the bound on the number of cliques."""
    families, listed = variables.families, variables.listed
    arcs: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # (u, v): the x(v,P) with u ∈ P
    pairs: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)  # (v, a, b): those with a, b ∈ P
    for x, v, parents in zip(variables.x.tolist(), listed.vertex.tolist(), variables.parents, strict=True):
        for u in members(parents):
            arcs[u, v].append(x)
        for a, b in combinations(members(parents), _PAIR):
            pairs[v, a, b].append(x)
    for u, v in combinations(range(families.n), _PAIR):
        both = (*arcs[u, v], *arcs[v, u])
        yield LinearRow((*both, edge(u, v)), (1,) * len(both) + (-1,), 0, 0)
    yield from (_at_most(1, *numbers, -edge(a, b)) for (_, a, b), numbers in pairs.items())
    yield from (_at_most(1, *numbers, -variables.before(*arc)) for arc, numbers in arcs.items() if numbers)
    for smaller, larger in rows(families):
        signs = (1,) * smaller.size + (-1,) * larger.size
        yield LinearRow(tuple(variables.x[np.concatenate((smaller, larger))].tolist()), signs, None, 0)
    if families.constraints.max_cliques is not None:  # every maximal clique has one last vertex
        yield _at_most(families.constraints.max_cliques, *variables.ends)


def _at_most(most: int, *literals: int) -> LinearRow:
    """Returns the row that at most `most` literals hold; ¬x counts as 1 − x."""
    signs = tuple(1 if literal > 0 else -1 for literal in literals)
    return LinearRow(tuple(map(abs, literals)), signs, None, most - signs.count(-1))


def clutter_clauses(families: Families, clutters: Sequence[Sequence[VarSet]]) -> list[tuple[int, ...]]:
    """Returns for each clutter the families that enter its up-set, as positions in the listing.

    Args:
        families: the families that a tree may use.
        clutters: the minimal sets of each up-set; sets unknown to the families are never complete and do not
            change the up-set.

    Raises:
        ValueError: a clutter has ∅, or no set that is complete in every tree: its cut may be invalid.
    """
    if not clutters:
        return []
    listed = families.listing()
    position = {mask: at for at, mask in enumerate(families.masks())}
    by_size = [np.flatnonzero(families.sizes == size) for size in range(1, families.width + 1)]
    required = families.constraints.required_edges
    clauses = []
    for clutter in clutters:
        if 0 in clutter or not any(mask.bit_count() == 1 or mask in required for mask in clutter):
            raise ValueError("a clutter holds a single vertex or a required edge, and not the empty set")
        above = np.zeros(families.sizes.size, dtype=np.bool_)
        above[[position[mask] for mask in clutter if mask in position]] = True
        for size, at in enumerate(by_size, start=1):
            above[at] |= above[families.facets[at, :size]].any(axis=1)
        entering = np.flatnonzero(above[listed.union] & ~above[listed.parents])
        clauses.append(tuple(entering.tolist()))
    return clauses


def _numbers(numbers: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(numbers.tolist())
