"""The imset formulation: which sets of vertices are complete, and what each adds to the score.

Variables: e_ab, adjacent; c_A for the sets A of three or more vertices that may be complete, with c_ab =
e_ab, and single vertices and ∅ always complete; a transitive order of the vertices. With the Möbius inverse

    r(A) = Σ_{B⊆A} (−1)^{|A∖B|} s(B)

the score of a chordal graph is Σ_A r(A) c_A: the coefficient of s(A) is Σ_{B⊇A} (−1)^{|B∖A|} c_B, which is 1
for a maximal clique, minus its multiplicity for a separator, and 0 otherwise. Maximise it subject to

    c_A → c_{A∖v}                                            for every v ∈ A,
    c_{A∖a} ∧ c_{A∖b} ∧ e_ab → c_A                           for every pair of A; c_A is 0 where A is not
                                                             kept but its facets are,
    e_av ∧ e_bv ∧ [a before v] ∧ [b before v] → e_ab         the order is perfect, the graph chordal.

Constraints are clauses:

- A is not a maximal clique: c_A → ⋁_v c_{A∪v}.
- A is not a separator: the link of A, the graph on {v : c_{A∪v}} with the edges {vw : c_{A∪vw}}, is
  connected. In a junction tree the cliques that contain A form a subtree, one of whose edges is labelled A
  iff the link is disconnected. The order is perfect on the link too, so its components are as many as its
  sources, the vertices without an earlier neighbour in it: at most one is allowed.
- max_cliques: every maximal clique has a last vertex, and no two have the same.

Size: one variable and |A|² clauses per set kept, 5n³/6 clauses of the order, up to k² variables for a link of
k vertices.

References:
    Studený and Cussens, Towards using the chordal graph polytope in learning decomposable models, IJAR 2017
    (characteristic imsets of chordal graphs).
"""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.problem import ALL_FEATURES, Constraints
from jtsolve.core.scores import SparseScores
from jtsolve.core.varset import members
from jtsolve.encodings.builder import FormulaBuilder, edge, set_name
from jtsolve.encodings.formula import BYTES
from jtsolve.families.families import predicted_sets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem
    from jtsolve.core.varset import VarSet
    from jtsolve.encodings.builder import OrderedTree
    from jtsolve.encodings.formula import Encoding
    from jtsolve.families.families import Families

FEATURES = ALL_FEATURES
"""The constraints that this formulation expresses."""


def encode_imset(families: Families) -> Encoding:
    """Returns the imset formulation; see the module."""
    builder = FormulaBuilder(families)
    builder.constant = families.offset
    complete = _add_sets(builder)
    before = builder.order()
    _make_perfect(builder, complete, before)
    larger = _larger(complete)
    masks = families.masks()
    for at in np.flatnonzero(families.not_clique[1:]) + 1:
        _forbid_clique(builder, masks[at], complete, larger)
    for at in np.flatnonzero(families.not_separator):
        _connect_link(builder, masks[at], complete, larger, before)
    ends = builder.bound_cliques()
    for mask in complete if ends else ():
        for v in members(mask):
            first = [before(v, u) for u in members(mask) if u != v]
            builder.clauses.append(
                (*_unless(mask, complete), *first, *_extensions(mask, complete, larger), ends[v])
            )
    return builder.encoding()


def predicted_memory(problem: Problem) -> int:
    """Returns an upper bound on the bytes of a problem's imset formulation."""
    n, width = problem.n, problem.max_clique_size
    sets = predicted_sets(problem)
    tops = sets * n // (width + 1) if width < n else 0  # the sets one larger than those kept
    clauses = sets * (width + width * width) + tops * width * width + n**3
    restricted = Constraints(max_treewidth=problem.constraints.max_treewidth) != problem.constraints
    links = sets * width * width if restricted or isinstance(problem.scores, SparseScores) else 0
    return (sets + links) * BYTES.set + (clauses + 3 * links) * BYTES.clause


def mobius(families: Families) -> NDArray[np.float64]:
    """r(A) = Σ_{B⊆A} (−1)^{|A∖B|} s(B) for every set, with the normalised scores; shape (count,), in nats.

    Vertex by vertex, s(A∖v) is subtracted from the sets that contain v: differences that are exact if the
    scores are multiples of a unit (`encodings.rounding`).
    """
    inverse = families.values.copy()
    for v in range(families.n):
        at, slot = np.nonzero(families.members == v)
        inverse[at] -= inverse[families.facets[at, slot]]
    return inverse


def _add_sets(builder: FormulaBuilder) -> dict[VarSet, int]:
    """Adds the variables c_A and the clauses between a set and its facets.

    Returns:
        The sets kept, without ∅, and their variables; 0 for single vertices, which are always complete.
    """
    families = builder.families
    masks = families.masks()
    weights = mobius(families)
    complete: dict[VarSet, int] = {}
    for mask, size, weight in zip(masks[1:], families.sizes[1:].tolist(), weights[1:].tolist(), strict=True):
        number = 0
        if size == 2:  # noqa: PLR2004 - an edge joins two
            number = edge(*members(mask))
        elif size > 2:  # noqa: PLR2004
            number = builder.variable(f"complete{set_name(mask)}", partial(_is_complete, mask))
            builder.clauses += [(-number, complete[mask ^ 1 << v]) for v in members(mask)]
            builder.clauses += [(*clause, number) for clause in _unless_complete(mask, complete)]
        complete[mask] = number
        if number:
            builder.weights[number] = weight
    for mask in _just_outside(complete):
        builder.clauses += _unless_complete(mask, complete)
    return complete


def _unless_complete(mask: VarSet, complete: dict[VarSet, int]) -> list[tuple[int, ...]]:
    """Returns ¬c_{A∖a} ∨ ¬c_{A∖b} ∨ ¬e_ab for every pair of A: each says that A is not complete.

    For a triangle they are all the same.
    """
    clauses = (
        tuple(sorted({-complete[mask ^ 1 << a], -complete[mask ^ 1 << b], -edge(a, b)}))
        for a, b in combinations(members(mask), 2)
    )
    return list(dict.fromkeys(clauses))


def _just_outside(complete: dict[VarSet, int]) -> Iterator[VarSet]:
    """Yields the sets of three or more vertices that are not kept while all their facets are."""
    everything = sum(mask for mask in complete if mask.bit_count() == 1)
    for mask in list(complete):
        if mask.bit_count() > 1:
            above = everything >> mask.bit_length() << mask.bit_length()
            for v in members(above):
                whole = mask | 1 << v
                if whole not in complete and all(whole ^ 1 << u in complete for u in members(mask)):
                    yield whole


def _make_perfect(
    builder: FormulaBuilder, complete: dict[VarSet, int], before: Callable[[int, int], int]
) -> None:
    """e_av ∧ e_bv ∧ [a before v] ∧ [b before v] → e_ab."""
    for v in range(builder.families.n):
        near = [u for u in range(builder.families.n) if u != v and 1 << u | 1 << v in complete]
        for a, b in combinations(near, 2):
            builder.clauses.append((-edge(a, v), -edge(b, v), -before(a, v), -before(b, v), edge(a, b)))


def _larger(complete: dict[VarSet, int]) -> dict[VarSet, list[int]]:
    """Returns for every kept set, and ∅, the vertices v for which A∪v is kept."""
    larger: dict[VarSet, list[int]] = {0: [], **{mask: [] for mask in complete}}
    for mask in complete:
        for v in members(mask):
            larger[mask ^ 1 << v].append(v)
    return larger


def _unless(mask: VarSet, complete: dict[VarSet, int]) -> tuple[int, ...]:
    """Returns ¬c_A as part of a clause; nothing for a single vertex, which is always complete."""
    number = complete[mask]
    return (-number,) if number else ()


def _extensions(mask: VarSet, complete: dict[VarSet, int], larger: dict[VarSet, list[int]]) -> list[int]:
    """Returns the variables c_{A∪v} of a set A ≠ ∅."""
    return [complete[mask | 1 << v] for v in larger[mask]]


def _forbid_clique(
    builder: FormulaBuilder, mask: VarSet, complete: dict[VarSet, int], larger: dict[VarSet, list[int]]
) -> None:
    """c_A → ⋁_v c_{A∪v}."""
    clause = (*_unless(mask, complete), *_extensions(mask, complete, larger))
    if clause:
        builder.clauses.append(clause)
    else:
        builder.impossible()


def _connect_link(
    builder: FormulaBuilder,
    mask: VarSet,
    complete: dict[VarSet, int],
    larger: dict[VarSet, list[int]],
    before: Callable[[int, int], int],
) -> None:
    """The link of A has at most one source."""
    name = set_name(mask)
    sources = []
    for v in larger[mask]:
        earlier = []
        for w in larger[mask | 1 << v]:
            number = builder.variable(f"link{name}_{w}_{v}", partial(_precedes, mask, w, v))
            builder.clauses += [(-number, complete[mask | 1 << v | 1 << w]), (-number, before(w, v))]
            earlier.append(number)
        source = builder.variable(f"source{name}_{v}", partial(_is_source, mask, v))
        builder.clauses.append((*_unless(mask | 1 << v, complete), *earlier, source))
        sources.append(source)
    if len(sources) > 1:
        builder.at_most(sources, 1)


def _is_complete(mask: VarSet, ordered: OrderedTree) -> int:
    return int(ordered.is_complete(mask))


def _precedes(mask: VarSet, w: int, v: int, ordered: OrderedTree) -> int:
    """Tells whether w precedes v in the link of a set and is adjacent there."""
    return int(ordered.place[w] < ordered.place[v] and ordered.is_complete(mask | 1 << v | 1 << w))


def _is_source(mask: VarSet, v: int, ordered: OrderedTree) -> int:
    """Tells whether v is in the link of a set without an earlier neighbour there."""
    earlier = ordered.parents[v] & ~mask
    return int(
        ordered.is_complete(mask | 1 << v)
        and not any(ordered.is_complete(mask | 1 << v | 1 << w) for w in members(earlier))
    )
