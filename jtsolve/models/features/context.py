"""Contexts: the assignments that are left on a path of a feature tree.

A *literal* is "variable v has state a", a *feature* a conjunction of literals. On a path that assumes F = 1
the variables of F are fixed; one that assumes F = 0 leaves the *clause* ¬(l1 ∧ … ∧ lr). Units propagate: a
clause with one literal left removes that state from its variable; a variable with one state left is fixed.

Reference: V. Gogate, W. A. Webb and P. Domingos, Learning efficient Markov networks, NIPS 2010, section 3,
which leaves the clauses open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray


class Literal(NamedTuple):
    """The statement that a variable has a state.

    Attributes:
        variable: its position.
        state: its code.
    """

    variable: int
    state: int


Feature: TypeAlias = tuple[Literal, ...]
"""A conjunction of literals of different variables, in increasing order; at least one."""


def feature_of(literals: Iterable[tuple[int, int]]) -> Feature:
    """Returns a conjunction in order.

    Raises:
        ValueError: it is empty, or a variable occurs twice.

    >>> feature_of([(3, 0), (1, 1)])
    (Literal(variable=1, state=1), Literal(variable=3, state=0))
    """
    feature = tuple(sorted(Literal(*literal) for literal in literals))
    if not feature or len({v for v, _ in feature}) < len(feature):
        raise ValueError("a feature needs literals of distinct variables, at least one")
    return feature


@dataclass(frozen=True, slots=True)
class Context:
    """The assignments that a path leaves to the variables that it leaves open.

    Attributes:
        domains: of each open variable, the states left as a bit mask, at least two.
        clauses: features of at least two literals, all open, that do not hold.

    >>> given = Context.of([2, 3]).assume(feature_of([(0, 1), (1, 2)]), holds=False)
    >>> given[0].assume(feature_of([(0, 1)]), holds=True)[0]
    Context(domains={1: 3}, clauses=frozenset())
    """

    domains: Mapping[int, int]
    clauses: frozenset[Feature] = frozenset()

    @classmethod
    def of(cls, arities: Sequence[int]) -> Context:
        """Returns the context of the root: every assignment; a variable of one state is not open."""
        return cls({v: (1 << arity) - 1 for v, arity in enumerate(arities) if arity > 1})

    def allowed(self, v: int) -> list[int]:
        """Returns the states left to an open variable, increasing."""
        mask = self.domains[v]
        return [state for state in range(mask.bit_length()) if mask >> state & 1]

    def dims(self, variables: Iterable[int]) -> tuple[int, ...]:
        """Returns the numbers of states left to open variables."""
        return tuple(self.domains[v].bit_count() for v in variables)

    def restricted_to(self, variables: Collection[int]) -> Context:
        """Returns the context of some open variables, which no clause ties to others."""
        kept = set(variables)
        return Context(
            {v: mask for v, mask in self.domains.items() if v in kept},
            frozenset(clause for clause in self.clauses if clause[0].variable in kept),
        )

    def assume(self, feature: Feature, *, holds: bool) -> tuple[Context, Feature]:
        """Returns the context in which a feature holds or not, and the variables fixed by that.

        Raises:
            ValueError: a variable of the feature is not open, its state not left, or no assignment remains.
        """
        domains = dict(self.domains)
        for v, state in feature:
            if not domains.get(v, 0) >> state & 1:
                raise ValueError(f"the context decides already whether variable {v} has state {state}")
        if not holds and len(feature) > 1:  # no unit
            return Context(self.domains, self.clauses | {feature}), ()
        clauses = set(self.clauses)
        if holds:
            domains.update((v, 1 << state) for v, state in feature)
        else:
            clauses.add(feature)
        changed = {v for v, _ in feature}
        while clauses:
            left = [_left(clause, domains) for clause in clauses]
            clauses = {rest for rest in left if rest is not None and len(rest) != 1}
            units = [rest[0] for rest in left if rest is not None and len(rest) == 1]
            for v, state in units:
                domains[v] &= ~(1 << state)
                changed.add(v)
            if () in clauses or not all(domains[v] for v in changed):
                raise ValueError("no assignment remains")
            if not units:
                break
        units = [Literal(v, domains[v].bit_length() - 1) for v in sorted(changed) if _is_unit(domains[v])]
        for v, _ in units:
            del domains[v]
        return Context(domains, frozenset(clauses)), tuple(units)

    def groups(self) -> list[frozenset[int]]:
        """Returns the open variables in the parts that clauses tie together, by least member."""
        return closed([], self)

    def is_allowed(self, variables: Sequence[int]) -> NDArray[np.bool_]:
        """Returns which joint states of all open variables meet the clauses, one axis each, states left.

        The result has shape (states left of the first variable, …).
        """
        dims = self.dims(variables)
        out = np.ones(dims, dtype=np.bool_)
        for clause in self.clauses:
            at: list[int | slice] = [slice(None)] * len(dims)
            for v, state in clause:
                at[variables.index(v)] = self.allowed(v).index(state)
            out[tuple(at)] = False
        return out


def closed(parts: Iterable[Iterable[int]], context: Context) -> list[frozenset[int]]:
    """Returns the finest partition of the open variables that splits no part and no clause."""
    label = {v: v for v in sorted(context.domains)}
    members = {v: [v] for v in label}
    for part in (*parts, *([v for v, _ in clause] for clause in context.clauses)):
        first, *others = part
        for v in others:
            old, new = label[v], label[first]
            if old != new:
                for u in members.pop(old):
                    label[u] = new
                    members[new].append(u)
    return sorted((frozenset(part) for part in members.values()), key=min)


def _left(clause: Feature, domains: Mapping[int, int]) -> Feature | None:
    """Returns the literals of a clause that are open; None if one is false, so that the clause is met."""
    rest = []
    for literal in clause:
        mask = domains[literal.variable]
        if not mask >> literal.state & 1:
            return None
        if mask & (mask - 1):
            rest.append(literal)
    return tuple(rest)


def _is_unit(mask: int) -> bool:
    return mask & (mask - 1) == 0
