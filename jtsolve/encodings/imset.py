"""The imset formulation: which sets of vertices are complete, and what each adds to the score.

Variables: e_ab, adjacent; c_A for the sets A of three or more vertices that may be complete, with c_ab =
e_ab, and single vertices and ∅ always complete; a transitive order of the vertices. With the Möbius inverse

    r(A) = Σ_{B⊆A} (−1)^{|A∖B|} s(B)

the score of a chordal graph is Σ_A r(A) c_A: s(A) has the coefficient Σ_{B⊇A} (−1)^{|B∖A|} c_B, which is 1
for a clique, minus the multiplicity for a separator, and 0 otherwise. Maximise it under

    c_A → c_{A∖v}                                            for every v ∈ A,
    c_{A∖a} ∧ c_{A∖b} ∧ e_ab → c_A                           for every pair of A;
                                                             c_A is 0 where A is not kept and its facets are,
    e_av ∧ e_bv ∧ [a before v] ∧ [b before v] → e_ab         the order is perfect, the graph chordal.

Constraints are clauses:

- A is no clique: c_A → ⋁_v c_{A∪v}.
- A is no separator: the graph on {v : c_{A∪v}} with the edges {vw : c_{A∪vw}}, the link of A, is connected.
  For in a junction tree the cliques that hold A form a subtree, and an edge of it is labelled A iff the link
  falls apart there. The order is perfect on the link too, which has as many components as vertices without an
  earlier neighbour in it, its sources: at most one is allowed.
- At most so many cliques: each has a last vertex, and no two the same.

Size: one variable and |A|² clauses for every set kept, 5n³/6 clauses of the order; a link of k vertices has
up to k² variables.

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
from jtsolve.encodings.builder import Draft, edge, set_name
from jtsolve.families.families import predicted_sets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem
    from jtsolve.core.varset import VarSet
    from jtsolve.encodings.builder import Reading
    from jtsolve.encodings.formula import Encoding
    from jtsolve.families.families import Families

FEATURES = ALL_FEATURES
"""The constraints that this formulation expresses."""

_BYTES_A_SET = 1000
"""Bytes of a set's variable, name and meaning."""
_BYTES_A_CLAUSE = 150


def encode_imset(families: Families) -> Encoding:
    """Returns the imset formulation; see the module."""
    draft = Draft(families)
    draft.constant = families.offset
    complete = _add_sets(draft)
    before = draft.order()
    _make_perfect(draft, complete, before)
    larger = _larger(complete)
    masks = families.masks()
    for at in np.flatnonzero(families.not_clique[1:]) + 1:
        _forbid_clique(draft, masks[at], complete, larger)
    for at in np.flatnonzero(families.not_separator):
        _connect_link(draft, masks[at], complete, larger, before)
    ends = draft.bound_cliques()
    for mask in complete if ends else ():
        for v in members(mask):
            first = [before(v, u) for u in members(mask) if u != v]
            draft.clauses.append(
                (*_unless(mask, complete), *first, *_numbers(mask, complete, larger), ends[v])
            )
    return draft.encoding()


def predicted_memory(problem: Problem) -> int:
    """Returns the bytes that the imset formulation of a problem needs, at the most."""
    n, width = problem.n, problem.max_clique_size
    sets = predicted_sets(problem)
    tops = sets * n // (width + 1) if width < n else 0  # the sets one larger than those kept
    clauses = sets * (width + width * width) + tops * width * width + n**3
    restricted = Constraints(max_treewidth=problem.constraints.max_treewidth) != problem.constraints
    links = sets * width * width if restricted or isinstance(problem.scores, SparseScores) else 0
    return (sets + links) * _BYTES_A_SET + (clauses + 3 * links) * _BYTES_A_CLAUSE


def mobius(families: Families) -> NDArray[np.float64]:
    """Returns r(A) = Σ_{B⊆A} (−1)^{|A∖B|} s(B) of every set, of the normalised scores.

    Shape (count,), in nats. Vertex by vertex, s(A∖v) is subtracted for the sets that hold v: plain
    differences, which are exact where the scores are whole multiples of a unit (`encodings.rounding`).
    """
    inverse = families.values.copy()
    for v in range(families.n):
        at, slot = np.nonzero(families.members == v)
        inverse[at] -= inverse[families.facets[at, slot]]
    return inverse


def _add_sets(draft: Draft) -> dict[VarSet, int]:
    """Adds the variables of the sets, and what they have to do with one another.

    Returns:
        The sets kept, but for ∅, with their variables; 0 for single vertices, which are always complete.
    """
    families = draft.families
    masks = families.masks()
    weights = mobius(families)
    complete: dict[VarSet, int] = {}
    for mask, size, weight in zip(masks[1:], families.sizes[1:].tolist(), weights[1:].tolist(), strict=True):
        number = 0
        if size == 2:  # noqa: PLR2004 - an edge joins two
            number = edge(*members(mask))
        elif size > 2:  # noqa: PLR2004
            number = draft.variable(f"complete{set_name(mask)}", partial(_is_complete, mask))
            draft.clauses += [(-number, complete[mask ^ 1 << v]) for v in members(mask)]
            draft.clauses += [(*clause, number) for clause in _unless_complete(mask, complete)]
        complete[mask] = number
        if number:
            draft.weights[number] = weight
    for mask in _just_outside(complete):
        draft.clauses += _unless_complete(mask, complete)
    return complete


def _unless_complete(mask: VarSet, complete: dict[VarSet, int]) -> list[tuple[int, ...]]:
    """Returns for every pair a, b of a set: A∖a is not complete, or A∖b, or a and b are not adjacent.

    Each says that A is not complete. Of a triangle all are the same.
    """
    clauses = (
        tuple(sorted({-complete[mask ^ 1 << a], -complete[mask ^ 1 << b], -edge(a, b)}))
        for a, b in combinations(members(mask), 2)
    )
    return list(dict.fromkeys(clauses))


def _just_outside(complete: dict[VarSet, int]) -> Iterator[VarSet]:
    """Yields the sets that are not kept, of three vertices or more, of which all facets are."""
    everything = sum(mask for mask in complete if mask.bit_count() == 1)
    for mask in list(complete):
        if mask.bit_count() > 1:
            above = everything >> mask.bit_length() << mask.bit_length()
            for v in members(above):
                whole = mask | 1 << v
                if whole not in complete and all(whole ^ 1 << u in complete for u in members(mask)):
                    yield whole


def _make_perfect(draft: Draft, complete: dict[VarSet, int], before: Callable[[int, int], int]) -> None:
    """States that neighbours before a vertex are adjacent."""
    for v in range(draft.families.n):
        near = [u for u in range(draft.families.n) if u != v and 1 << u | 1 << v in complete]
        for a, b in combinations(near, 2):
            draft.clauses.append((-edge(a, v), -edge(b, v), -before(a, v), -before(b, v), edge(a, b)))


def _larger(complete: dict[VarSet, int]) -> dict[VarSet, list[int]]:
    """Returns for every set, ∅ too, the vertices with which it is a set that is kept."""
    larger: dict[VarSet, list[int]] = {0: [], **{mask: [] for mask in complete}}
    for mask in complete:
        for v in members(mask):
            larger[mask ^ 1 << v].append(v)
    return larger


def _unless(mask: VarSet, complete: dict[VarSet, int]) -> tuple[int, ...]:
    """Returns the literal that a set is not complete; nothing for a single vertex, which always is."""
    number = complete[mask]
    return (-number,) if number else ()


def _numbers(mask: VarSet, complete: dict[VarSet, int], larger: dict[VarSet, list[int]]) -> list[int]:
    """Returns the variables of the sets of one vertex more than a set that is not ∅."""
    return [complete[mask | 1 << v] for v in larger[mask]]


def _forbid_clique(
    draft: Draft, mask: VarSet, complete: dict[VarSet, int], larger: dict[VarSet, list[int]]
) -> None:
    """States that a set is complete only within a larger one that is."""
    clause = (*_unless(mask, complete), *_numbers(mask, complete, larger))
    if clause:
        draft.clauses.append(clause)
    else:
        draft.impossible()


def _connect_link(
    draft: Draft,
    mask: VarSet,
    complete: dict[VarSet, int],
    larger: dict[VarSet, list[int]],
    before: Callable[[int, int], int],
) -> None:
    """States that the link of a set has at most one source."""
    name = set_name(mask)
    sources = []
    for v in larger[mask]:
        earlier = []
        for w in larger[mask | 1 << v]:
            number = draft.variable(f"link{name}_{w}_{v}", partial(_precedes, mask, w, v))
            draft.clauses += [(-number, complete[mask | 1 << v | 1 << w]), (-number, before(w, v))]
            earlier.append(number)
        source = draft.variable(f"source{name}_{v}", partial(_is_source, mask, v))
        draft.clauses.append((*_unless(mask | 1 << v, complete), *earlier, source))
        sources.append(source)
    if len(sources) > 1:
        draft.at_most(sources, 1)


def _is_complete(mask: VarSet, reading: Reading) -> int:
    return int(reading.is_complete(mask))


def _precedes(mask: VarSet, w: int, v: int, reading: Reading) -> int:
    """Tells whether w is before v in the link of a set, and adjacent there."""
    return int(reading.place[w] < reading.place[v] and reading.is_complete(mask | 1 << v | 1 << w))


def _is_source(mask: VarSet, v: int, reading: Reading) -> int:
    """Tells whether v is in the link of a set, without an earlier neighbour there."""
    earlier = reading.parents[v] & ~mask
    return int(
        reading.is_complete(mask | 1 << v)
        and not any(reading.is_complete(mask | 1 << v | 1 << w) for w in members(earlier))
    )
