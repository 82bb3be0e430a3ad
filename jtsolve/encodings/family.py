"""The family formulation: one family per vertex, no v-structures, and an order.

Variables: x(v,P), the families of `families`; e_ab, adjacent; [a before b], an order of the vertices.
Maximise Σ w(v,P) x(v,P) subject to

    Σ_P x(v,P) = 1                                                              for every v,          (1)
    Σ_{P∋u} x(v,P) + Σ_{P∋v} x(u,P) = e_uv                                      for every pair,       (2)
    Σ_{P⊇{a,b}} x(v,P) ≤ e_ab                    no v-structure                 for every v, a, b,    (3)
    Σ_{P∋u} x(v,P) ≤ [u before v]                                               for every u, v,       (4)

the rows of `families` for cliques and separators that are not permitted, a bound on the number of cliques,
and forbidden graphs. The order has no cycle of three. All conditions are clauses or rows with coefficients
±1, which `encodings.cnf` turns into clauses: the MaxSAT form.

By (1) and (4) the families are an acyclic directed graph, by (3) without v-structures. So parent sets are
complete, the order is perfect and the skeleton is chordal; every chordal graph has such an order. Sums over
families of which only one can hold make the linear relaxation tighter than one clause for each would.

Clutter cuts (`clutter_clauses`) may be added; they are clauses over x.

Size: m families, Σ |P|² literals in (2)–(4), n³/3 clauses of the order.

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
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.problem import ALL_FEATURES
from jtsolve.encodings.builder import FormulaBuilder, edge, set_name
from jtsolve.encodings.clutter_clauses import clutter_clauses
from jtsolve.encodings.formula import BYTES, LinearRow
from jtsolve.families.families import predicted_sets, rows
from jtsolve.families.sets import groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.problem import Problem
    from jtsolve.core.varset import VarSet
    from jtsolve.encodings.builder import OrderedTree
    from jtsolve.encodings.formula import Encoding
    from jtsolve.families.families import Families, Listing

FEATURES = ALL_FEATURES
"""The constraints that this formulation expresses."""


def encode_family(families: Families, clutters: Sequence[Sequence[VarSet]] = ()) -> Encoding:
    """Returns the family formulation; see the module.

    Args:
        families: the families that a tree may use.
        clutters: minimal sets of up-sets, whose cuts are added; see `clutter_clauses`.
    """
    builder = FormulaBuilder(families)
    listed = families.listing()
    first = _add_families(builder, listed)
    _add_order(builder, listed, first)
    for row in rows(families):
        used = tuple(first + at for at in row.families.tolist())
        builder.rows.append(LinearRow(used, tuple(row.coefficients.tolist()), None, row.limit))
    ends = builder.bound_cliques()
    if ends:
        _bound_cliques(builder, listed, first, ends)
    builder.clauses += [tuple(first + at for at in clause) for clause in clutter_clauses(families, clutters)]
    return builder.encoding()


def predicted_memory(problem: Problem) -> int:
    """Returns an upper bound on the bytes of a problem's family formulation."""
    width = problem.max_clique_size
    families = predicted_sets(problem) * width
    return families * (BYTES.family + BYTES.family_pair * width**2) + problem.n**3 // 3 * BYTES.clause


def _add_families(builder: FormulaBuilder, listed: Listing) -> int:
    """Adds x(v,P), their weights, and (1); returns the number of the first.

    The weight of a family is its difference to the best one of its vertex, and the constant has the sum of
    the best: MaxSAT solvers start from cost 0, where every vertex has its best family.
    """
    masks = builder.families.masks()
    first = len(builder.names) + 1
    best = np.full(builder.families.n, -np.inf)
    np.maximum.at(best, listed.vertex, listed.weight)
    of: dict[int, list[int]] = {v: [] for v in range(builder.families.n)}
    for v, at, weight in zip(listed.vertex.tolist(), listed.parents.tolist(), listed.weight, strict=True):
        parents = masks[at]
        number = builder.variable(f"family_{v}{set_name(parents)}", partial(_has_parents, v, parents))
        builder.weights[number] = float(weight - best[v])
        of[v].append(number)
    for numbers in of.values():
        if numbers:
            builder.exactly_one.append(tuple(numbers))
        else:
            builder.impossible()
    builder.constant = builder.families.offset + float(best[np.isfinite(best)].sum())
    return first


def _add_order(builder: FormulaBuilder, listed: Listing, first: int) -> None:
    """Adds the order and (2) to (4)."""
    families = builder.families
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
        builder.rows.append(LinearRow((*both, edge(u, v)), (1,) * len(both) + (-1,), 0, 0))
    for (_, a, b), numbers in pairs.items():
        builder.at_most((*numbers, -edge(a, b)), 1)
    before = builder.order()
    for (u, v), numbers in arcs.items():
        if numbers:
            builder.at_most((*numbers, -before(u, v)), 1)


def _bound_cliques(builder: FormulaBuilder, listed: Listing, first: int, ends: list[int]) -> None:
    """ends_v: P∪v is a maximal clique unless it is the parent set of another vertex."""
    with_parents = groups(listed.parents, builder.families.sizes.size)
    for at, (v, union) in enumerate(zip(listed.vertex.tolist(), listed.union.tolist(), strict=True)):
        larger = (first + other for other in with_parents(union).tolist())
        builder.clauses.append((-(first + at), ends[v], *larger))


def _has_parents(v: int, parents: VarSet, ordered: OrderedTree) -> int:
    return int(ordered.parents[v] == parents)
