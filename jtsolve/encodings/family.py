"""The family formulation: one family a vertex, no v-structures, and an order.

Variables: x(v,P), the families of `families`; e_ab, adjacent; an order of the vertices. Maximise
Σ w(v,P) x(v,P) under

    Σ_P x(v,P) = 1                                                              for every v,          (1)
    Σ_{P∋u} x(v,P) + Σ_{P∋v} x(u,P) = e_uv                                      for every pair,       (2)
    Σ_{P⊇{a,b}} x(v,P) ≤ e_ab                    no v-structure                 for every v, a, b,    (3)
    Σ_{P∋u} x(v,P) ≤ [u before v]                                               for every u, v,       (4)

the rows of `families` for cliques and separators that are not permitted, a bound on the number of
cliques, and forbidden graphs. The order is one of two:

- transitive: [u before v] are variables, of which no three are in a cycle. All conditions are then clauses,
  or rows with coefficients ±1, which `encodings.cnf` turns into clauses: the MaxSAT form.
- positions: (4) is n·Σ_{P∋u} x(v,P) + position_u − position_v ≤ n − 1 (Miller, Tucker, Zemlin, J. ACM 1960):
  n variables for n²/2, and a weaker relaxation. The lifting of Desrochers and Laporte, which is for tours, is
  not valid here.

The acyclic directed graph that (1) and (4) leave has no v-structure by (3), so that its parent sets are
complete and the order is perfect: its skeleton is chordal, and every chordal graph has such an order. Sums
over families of which only one can hold make the linear relaxation tighter than a clause for each would.

Clutter cuts (`clutter_clauses`) may be added; they are clauses over x.

Size: m families, Σ |P|² literals in (2)–(4), n³/3 clauses of the transitive order.

References:
    Cussens, Bayesian network learning with cutting planes, UAI 2011 (family variables). Berg, Järvisalo and
    Malone, Learning optimal bounded treewidth Bayesian networks via maximum satisfiability, AISTATS 2014
    (families and an order as MaxSAT). Corander, Janhunen, Rintanen, Nyman and Pensar, Learning chordal Markov
    networks by constraint satisfaction, NIPS 2013.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from jtsolve.core.problem import ALL_FEATURES
from jtsolve.encodings.builder import Draft, edge, set_name
from jtsolve.encodings.clutter_clauses import clutter_clauses
from jtsolve.encodings.formula import LinearRow
from jtsolve.families.families import predicted_sets, rows
from jtsolve.families.sets import groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.problem import Problem
    from jtsolve.core.varset import VarSet
    from jtsolve.encodings.builder import Reading
    from jtsolve.encodings.formula import Encoding
    from jtsolve.families.families import Families, Listing

FEATURES = ALL_FEATURES
"""The constraints that this formulation expresses."""

Order: TypeAlias = Literal["transitive", "positions"]

_BYTES_A_FAMILY = 1000
"""Bytes of a family's variable, name and meaning, and of the rows and clauses in which it is."""
_BYTES_A_CLAUSE = 150


def encode_family(
    families: Families, order: Order = "transitive", clutters: Sequence[Sequence[VarSet]] = ()
) -> Encoding:
    """Returns the family formulation; see the module.

    Args:
        families: what a tree may use.
        order: how the vertices are ordered.
        clutters: minimal sets of up-sets, whose cuts are added; see `clutter_clauses`.
    """
    draft = Draft(families)
    listed = families.listing()
    first = _add_families(draft, listed)
    _join(draft, listed, first, order)
    for row in rows(families):
        used = tuple(first + at for at in row.families.tolist())
        draft.rows.append(LinearRow(used, tuple(row.coefficients.tolist()), None, row.limit))
    ends = draft.bound_cliques()
    if ends:
        _end(draft, listed, first, ends)
    draft.clauses += [tuple(first + at for at in clause) for clause in clutter_clauses(families, clutters)]
    return draft.encoding()


def predicted_memory(problem: Problem) -> int:
    """Returns the bytes that the family formulation of a problem needs, at the most."""
    width = problem.max_clique_size
    families = predicted_sets(problem) * width
    return families * (_BYTES_A_FAMILY + 20 * width * width) + problem.n**3 // 3 * _BYTES_A_CLAUSE


def _add_families(draft: Draft, listed: Listing) -> int:
    """Adds x(v,P), their weights, and (1); returns the number of the first.

    A weight is what the family falls short of the best one of its vertex: the constant has the rest. Solvers
    for MaxSAT begin at what all vertices would like best.
    """
    masks = draft.families.masks()
    first = len(draft.names) + 1
    best = np.full(draft.families.n, -np.inf)
    np.maximum.at(best, listed.vertex, listed.weight)
    of: dict[int, list[int]] = {v: [] for v in range(draft.families.n)}
    for v, at, weight in zip(listed.vertex.tolist(), listed.parents.tolist(), listed.weight, strict=True):
        parents = masks[at]
        number = draft.variable(f"family_{v}{set_name(parents)}", partial(_has_parents, v, parents))
        draft.weights[number] = float(weight - best[v])
        of[v].append(number)
    for numbers in of.values():
        if numbers:
            draft.exactly_one.append(tuple(numbers))
        else:
            draft.impossible()
    draft.constant = draft.families.offset + float(best[np.isfinite(best)].sum())
    return first


def _join(draft: Draft, listed: Listing, first: int, order: Order) -> None:
    """Adds the order and (2) to (4)."""
    families = draft.families
    arcs: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # (u, v): the x(v,P) with u ∈ P
    pairs: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)  # (v, a, b): those with a, b ∈ P
    parents = families.members[listed.parents].tolist()
    sizes = families.sizes[listed.parents].tolist()
    for at, (v, row, size) in enumerate(zip(listed.vertex.tolist(), parents, sizes, strict=True)):
        for u in row[:size]:
            arcs[u, v].append(first + at)
        for a, b in combinations(row[:size], 2):
            pairs[v, a, b].append(first + at)
    for u, v in combinations(range(families.n), 2):
        both = (*arcs[u, v], *arcs[v, u])
        draft.rows.append(LinearRow((*both, edge(u, v)), (1,) * len(both) + (-1,), 0, 0))
    for (_, a, b), numbers in pairs.items():
        draft.at_most((*numbers, -edge(a, b)), 1)
    used = {arc: numbers for arc, numbers in arcs.items() if numbers}
    if order == "transitive":
        before = draft.order()
        for (u, v), numbers in used.items():
            draft.at_most((*numbers, -before(u, v)), 1)
        return
    n = families.n
    position = [draft.variable(f"position_{v}", partial(_place, v), n - 1) for v in range(n)]
    for (u, v), numbers in used.items():
        coefficients = (n,) * len(numbers) + (1, -1)
        draft.rows.append(LinearRow((*numbers, position[u], position[v]), coefficients, None, n - 1))


def _end(draft: Draft, listed: Listing, first: int, ends: list[int]) -> None:
    """States that P∪v is a maximal clique unless it is the parent set of another vertex."""
    with_parents = groups(listed.parents, draft.families.sizes.size)
    for at, (v, union) in enumerate(zip(listed.vertex.tolist(), listed.union.tolist(), strict=True)):
        larger = (first + other for other in with_parents(union).tolist())
        draft.clauses.append((-(first + at), ends[v], *larger))


def _has_parents(v: int, parents: VarSet, reading: Reading) -> int:
    return int(reading.parents[v] == parents)


def _place(v: int, reading: Reading) -> int:
    return reading.place[v]
