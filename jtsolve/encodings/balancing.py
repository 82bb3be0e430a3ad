"""Balancing: a junction tree as chosen cliques and tree edges, each variable in one more clique than edges.

Corander et al. write a junction tree as x_C = "C is a maximal clique" and t_DC = "DC is a tree edge", with
the separator D∩C. A forest of cliques has the running intersection property iff for every v the cliques that
contain v are connected, that is, iff it is balanced:

    Σ_{C∋v} x_C = 1 + Σ_{D∩C∋v} t_DC    for every variable v,                                            (1)

and the objective is Σ_C s(C) x_C − Σ_{DC} s(D∩C) t_DC, separators counted with multiplicity. Further parts:

- *Maximality.* c_A = "A is complete", that is, within a chosen clique, for all sets A that families keep.
  x_C excludes c_{C∪v}.
- *Forest.* Edges point away from the root of their component. y(C,S) = "C is attached by the separator S",
  S = ∅ for roots: x_C = Σ_S y(C,S), and y(C,S) = Σ_{D∩C=S} t_DC for S ≠ ∅. The position p_C is 0 for roots
  and above that of the parent for others.
- *Constraints.* A clique or separator that is not permitted has no variable; if ∅ may not be a separator,
  there is one root. Σ_C x_C ≤ max_cliques; c_{ab} for required edges; a clause over all c_{ab} for a
  forbidden graph.

Beyond the paper, for stronger relaxations and fewer solutions per graph:

- (1) for every set A, not only single variables: Σ_{C⊇A} x_C − Σ_{S⊇A} y(C,S) = c_A, since the cliques that
  contain A form a subtree if there are any. (By Möbius inversion, c determines the separators.)
- A clique is attached to the topmost one that contains its separator, t_DC + Σ_{S'⊇D∩C} y(D,S') ≤ x_D: moved
  there, it keeps its separator by running intersection.
- In the component of the families' root r, the topmost clique contains r, so a clique with r is attached by a
  separator with r, or is a root.
- The members of C∖S may be added to S in any order: every order is perfect. So y(C,S) needs all families
  (v,Q) with S ⊆ Q and Q∪v ⊆ C to be allowed; for the topmost clique in the component of r, those with r ∈ Q.
- Clutter cuts: for the up-set F of the sets that contain one of a collection, some clique is the first in F
  from the roots down, Σ {y(C,S) : C ∈ F, S ∉ F} ≥ 1, since S lies within the parent.

Time and memory: quadratic in the number of candidate cliques, plus 3^w per candidate of w variables for (1).

References:
    Corander, Janhunen, Rintanen, Nyman and Pensar, Learning chordal Markov networks by constraint
    satisfaction, NIPS 2013.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, combinations
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, is_subset, members, subsets, varset
from jtsolve.encodings.formula import Encoding, Formula, LinearRow
from jtsolve.families.families import predicted_sets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem
    from jtsolve.encodings.formula import Clause
    from jtsolve.families.families import Families

_PAIR = 2
_TREE_EDGE, _PART = 1500, 20
"""Bytes, as Python objects, of a tree edge with its rows, and of an entry of a separator in (1)."""


def encode_balancing(families: Families, clutters: Sequence[Sequence[VarSet]] = ()) -> Encoding:
    """Returns the formula of cliques and tree edges; see the module.

    Args:
        families: the sets that may be complete, a clique, a separator.
        clutters: collections of sets, one of them a single variable; each gives a cut.
    """
    variables = _Variables.of(families)
    formula = Formula(
        names=tuple(variables.names),
        largest=tuple(variables.largest),
        clauses=(*_maximality(variables), *_constraints(variables), *_cuts(variables, clutters)),
        exactly_one=(),
        rows=(*_forest(variables), *_balance(variables), *_counts(variables)),
        weights=np.array(variables.weights),
        constant=families.offset,
    )
    return Encoding(formula, variables.tree_of, variables.values_of)


def predicted_memory(problem: Problem) -> int:
    """Returns an upper bound on the bytes of a problem's formula, tight without pruning."""
    cliques, width = predicted_sets(problem), problem.max_clique_size
    parts: int = 3**width
    return _TREE_EDGE * cliques**2 + _PART * cliques * parts


@dataclass(slots=True)
class _Variables:
    """The numbers of the variables x, y, t, c and p of the module.

    Attributes:
        families: of the problem.
        names: of all variables.
        largest: the largest value of each variable.
        weights: of each variable in the objective, in nats.
        x: by clique.
        y: by clique, then separator.
        t: by tree edge, parent first.
        c: by set of two or more variables.
        p: by clique.
    """

    families: Families
    names: list[str] = field(default_factory=list)
    largest: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    x: dict[VarSet, int] = field(default_factory=dict)
    y: dict[VarSet, dict[VarSet, int]] = field(default_factory=dict)
    t: dict[tuple[VarSet, VarSet], int] = field(default_factory=dict)
    c: dict[VarSet, int] = field(default_factory=dict)
    p: dict[VarSet, int] = field(default_factory=dict)

    @classmethod
    def of(cls, families: Families) -> _Variables:
        """Returns the variables of a problem."""
        new = cls(families)
        masks = families.masks()
        value = dict(zip(masks, families.values.tolist(), strict=True))
        kinds = _kinds(families, masks)
        for clique in kinds:
            new.x[clique] = new._add(f"x_{_label(clique)}", value[clique])
        complete = {part for clique in kinds for part in subsets(clique)}
        for mask in masks:
            if mask in complete and mask.bit_count() >= _PAIR:
                new.c[mask] = new._add(f"c_{_label(mask)}")
        above = {clique: _above(clique, own, kinds) for clique, own in kinds.items()}
        for clique, own in kinds.items():
            new.y[clique] = {
                kind: new._add(f"y_{_label(clique)}_by_{_label(kind)}", -value[kind])
                for kind in own
                if not kind or kind in above[clique]
            }
        for clique, over in above.items():
            for one in chain.from_iterable(over.values()):
                new.t[one, clique] = new._add(f"t_{_label(one)}_to_{_label(clique)}")
        new.p = {clique: new._add(f"p_{_label(clique)}", largest=families.n - 1) for clique in kinds}
        return new

    def _add(self, name: str, weight: float = 0.0, largest: int = 1) -> int:
        """Returns the number of a new variable."""
        self.names.append(name)
        self.weights.append(weight)
        self.largest.append(largest)
        return len(self.names)

    def tree_of(self, values: Sequence[int]) -> JunctionTree:
        """Returns the tree of the chosen cliques and edges; see `Encoding`."""
        chosen = [clique for clique, number in self.x.items() if values[number - 1]]
        at = {clique: i for i, clique in enumerate(chosen)}
        below = {c for (_, c), number in self.t.items() if values[number - 1]}
        roots = [at[clique] for clique in chosen if clique not in below]
        edges = [(at[d], at[c]) for (d, c), number in self.t.items() if values[number - 1]]
        joined = [(roots[0], other) for other in roots[1:]]
        return JunctionTree(self.families.n, tuple(chosen), (*edges, *joined))

    def values_of(self, tree: JunctionTree) -> NDArray[np.int64] | None:
        """Returns the values of a tree, its cliques attached as high as possible; see `Encoding`."""
        values = np.zeros(len(self.names), dtype=np.int64)
        position: dict[VarSet, int] = {}
        for clique, above in _attached(tree, self.families.root):
            separator = clique & above
            position[clique] = position[above] + 1 if separator else 0
            used = [self.x.get(clique), self.y.get(clique, {}).get(separator)]
            if separator:
                used.append(self.t.get((above, clique)))
            known = [number for number in used if number is not None]
            if len(known) < len(used):
                return None
            values[[number - 1 for number in known]] = 1
            values[self.p[clique] - 1] = position[clique]
        for mask, number in self.c.items():
            values[number - 1] = any(is_subset(mask, clique) for clique in tree.cliques)
        return values


def _label(mask: VarSet) -> str:
    """Returns the members of a set as part of a name."""
    return "_".join(map(str, members(mask))) or "none"


def _kinds(families: Families, masks: list[VarSet]) -> dict[VarSet, list[VarSet]]:
    """Returns the candidate cliques, each with its possible separators, ∅ if it may be a root."""
    listed = families.listing()
    parents = [masks[at] for at in listed.parents.tolist()]
    steps = set(zip(listed.vertex.tolist(), parents, strict=True))
    root = 1 << families.root
    separator = {mask: not no for mask, no in zip(masks, families.not_separator.tolist(), strict=True)}

    @cache
    def grows(small: VarSet, large: VarSet) -> bool:
        """Returns whether all families on all paths from one set to a larger one are allowed."""
        return all(
            (v, large & ~(1 << v)) in steps and grows(small, large & ~(1 << v))
            for v in members(large & ~small)
        )

    def hangs(kind: VarSet, clique: VarSet) -> bool:
        if kind & root or not clique & root:
            return separator[kind] and grows(kind, clique)
        return not kind and grows(root, clique)

    found = {}
    for clique, no in zip(masks, families.not_clique.tolist(), strict=True):
        kinds = [] if no else [kind for kind in subsets(clique) if kind != clique and hangs(kind, clique)]
        if kinds:
            found[clique] = kinds
    return found


def _above(clique: VarSet, kinds: Sequence[VarSet], cliques: Iterable[VarSet]) -> dict[VarSet, list[VarSet]]:
    """Returns the possible parents of a clique, by separator."""
    wanted = set(kinds) - {0}
    found = defaultdict(list)
    for other in cliques:
        if other & clique in wanted and other & clique != other:
            found[other & clique].append(other)
    return found


def _attached(tree: JunctionTree, root: int) -> Iterator[tuple[VarSet, VarSet]]:
    """Yields each clique and the topmost one that contains its separator, 0 for roots; parents first."""
    adjacent = defaultdict(list)
    for i, j in tree.edges:
        if tree.cliques[i] & tree.cliques[j]:
            adjacent[tree.cliques[i]].append(tree.cliques[j])
            adjacent[tree.cliques[j]].append(tree.cliques[i])
    above: dict[VarSet, VarSet] = {}
    for top in sorted(tree.cliques, key=lambda clique: not clique >> root & 1):
        if top in above:
            continue
        above[top] = 0
        waiting = [top]
        while waiting:
            clique = waiting.pop()
            yield clique, above[clique]
            for below in adjacent[clique]:
                if below in above:
                    continue
                separator, highest = below & clique, clique
                while is_subset(separator, above[highest]):
                    highest = above[highest]
                above[below] = highest
                waiting.append(below)


def _maximality(variables: _Variables) -> Iterator[Clause]:
    """c_A ↔ x_A ∨ ⋁_v c_{A∪v}, and x_C → ¬c_{C∪v}."""
    x, c = variables.x, variables.c
    larger = defaultdict(list)
    for mask, number in c.items():
        for v in members(mask):
            facet = mask & ~(1 << v)
            larger[facet].append(number)
            if facet in c:
                yield -number, c[facet]
    for mask in dict.fromkeys((*x, *c)):
        if mask in x:
            yield from ((-x[mask], -number) for number in larger[mask])
            if mask in c:
                yield -x[mask], c[mask]
        if mask in c:
            yield (-c[mask], *([x[mask]] if mask in x else []), *larger[mask])


def _forest(variables: _Variables) -> Iterator[LinearRow]:
    """x_C = Σ_S y(C,S); y(C,S) = Σ_{D∩C=S} t_DC; p_D < p_C on edges; attached to the topmost clique."""
    n, x, y, p = variables.families.n, variables.x, variables.y, variables.p
    by_separator = defaultdict(list)
    for (d, c), number in variables.t.items():
        by_separator[c, d & c].append(number)
        topmost = [y_number for kind, y_number in y[d].items() if is_subset(d & c, kind)]
        yield _row([number, *topmost], [x[d]], None, 0)
        yield LinearRow((p[d], p[c], number), (1, -1, n), None, n - 1)
    for clique, kinds in y.items():
        hanging = [number for kind, number in kinds.items() if kind]
        yield _row([*kinds.values()], [x[clique]], 0, 0)
        yield from (_row(by_separator[clique, kind], [kinds[kind]], 0, 0) for kind in kinds if kind)
        bounds = (1, *[1 - n] * len(hanging))
        yield LinearRow((p[clique], *hanging), bounds, None, 0)


def _balance(variables: _Variables) -> Iterator[LinearRow]:
    """Σ_{C∋v} x_C = 1 + Σ_{D∩C∋v} t_DC for every v; and Σ_{C⊇A} x_C = c_A + Σ_{S⊇A} y(C,S) for every A."""
    families = variables.families
    plus, minus = defaultdict(list), defaultdict(list)
    for clique, number in variables.x.items():
        for mask in subsets(clique):
            plus[mask].append(number)
        for kind, y_number in variables.y[clique].items():
            for mask in subsets(kind):
                minus[mask].append(y_number)
    for v in range(families.n):
        yield _row(plus[1 << v], minus[1 << v], 1, 1)
    for mask, number in variables.c.items():
        yield _row(plus[mask], [*minus[mask], number], 0, 0)


def _counts(variables: _Variables) -> Iterator[LinearRow]:
    """Yields the rows for the number of cliques and of components."""
    families = variables.families
    if families.not_separator[0]:
        yield _row([kinds[0] for kinds in variables.y.values() if 0 in kinds], [], 1, 1)
    if families.constraints.max_cliques is not None:
        yield _row([*variables.x.values()], [], None, families.constraints.max_cliques)


def _constraints(variables: _Variables) -> Iterator[Clause]:
    """Yields the clauses for required edges and forbidden graphs."""
    constraints, c = variables.families.constraints, variables.c
    for edge in constraints.required_edges:
        yield (c[edge],) if edge in c else ()
    pairs = {varset(pair): c.get(varset(pair)) for pair in combinations(range(variables.families.n), 2)}
    for graph in constraints.forbidden_graphs:
        if all(pairs[edge] is not None for edge in graph):
            yield tuple(
                -number if edge in graph else number for edge, number in pairs.items() if number is not None
            )


def _cuts(variables: _Variables, clutters: Sequence[Sequence[VarSet]]) -> Iterator[Clause]:
    """Σ {y(C,S) : C ∈ F, S ∉ F} ≥ 1 for the up-set F of each clutter."""
    for clutter in clutters:
        yield tuple(
            number
            for clique, kinds in variables.y.items()
            if any(is_subset(one, clique) for one in clutter)
            for kind, number in kinds.items()
            if not any(is_subset(one, kind) for one in clutter)
        )


def _row(plus: Sequence[int], minus: Sequence[int], lower: int | None, upper: int | None) -> LinearRow:
    """Lower ≤ Σ plus − Σ minus ≤ upper."""
    return LinearRow((*plus, *minus), (*[1] * len(plus), *[-1] * len(minus)), lower, upper)
