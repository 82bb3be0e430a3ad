"""Contexts: the assignments left on a path of a feature tree.

A *literal* is "variable v has state a", a *feature* a conjunction of literals. A path that assumes F = 1
fixes the variables of F; a path that assumes F = 0 adds the *clause* ¬(l1 ∧ … ∧ lr). Units propagate: a
clause with one literal left removes that state from its variable; a variable with one state left is fixed.

Reference: V. Gogate, W. A. Webb and P. Domingos, Learning efficient Markov networks, NIPS 2010, section 3,
which does not treat clauses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from jtsolve.tables.raw import GAP

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
    """The assignments that a path leaves to its open variables.

    Attributes:
        domains: for each open variable, a bit mask of the states left, at least two.
        clauses: features of at least two literals, all open, that do not hold.

    >>> given = Context.of([2, 3]).assume(feature_of([(0, 1), (1, 2)]), holds=False)
    >>> given[0].assume(feature_of([(0, 1)]), holds=True)[0]
    Context(domains={1: 3}, clauses=frozenset())
    """

    domains: Mapping[int, int]
    clauses: frozenset[Feature] = frozenset()

    @classmethod
    def of(cls, arities: Sequence[int]) -> Context:
        """Returns the context of the root, with every assignment; a variable of one state is not open."""
        return cls({v: (1 << arity) - 1 for v, arity in enumerate(arities) if arity > 1})

    def allowed(self, v: int) -> list[int]:
        """Returns the states left to an open variable, increasing."""
        mask = self.domains[v]
        return [state for state in range(mask.bit_length()) if mask >> state & 1]

    def ranks(self, v: int, arity: int) -> NDArray[np.int32]:
        """Returns the rank of each state of an open variable among those left, shape (arity + 1,).

        It is -2 for other states. The last entry, which the code of a missing value indexes, is -1.
        """
        found = np.full(arity + 1, -2, dtype=np.int32)
        states = self.allowed(v)
        found[states], found[-1] = np.arange(len(states)), GAP
        return found

    def dims(self, variables: Iterable[int]) -> tuple[int, ...]:
        """Returns the numbers of states left to open variables."""
        return tuple(self.domains[v].bit_count() for v in variables)

    def restricted_to(self, variables: Collection[int]) -> Context:
        """Returns the context of some open variables that no clause ties to others."""
        kept = set(variables)
        return Context(
            {v: mask for v, mask in self.domains.items() if v in kept},
            frozenset(clause for clause in self.clauses if clause[0].variable in kept),
        )

    def assume(self, feature: Feature, *, holds: bool) -> tuple[Context, Feature]:
        """Returns the context in which a feature holds or fails, and the variables that this fixes.

        Raises:
            ValueError: a variable of the feature is not open, its state is not left, or no assignment
                remains.
        """
        domains = dict(self.domains)
        for v, state in feature:
            if not domains.get(v, 0) >> state & 1:
                raise ValueError(f"the context decides already whether variable {v} has state {state}")
        if not holds and len(feature) > 1:  # not a unit
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
        """Returns the open variables in groups that clauses tie together, by least member."""
        label = {v: v for v in sorted(self.domains)}
        members = {v: [v] for v in label}
        for clause in self.clauses:
            first, *others = (v for v, _ in clause)
            for v in others:
                old, new = label[v], label[first]
                if old != new:
                    for u in members.pop(old):
                        label[u] = new
                        members[new].append(u)
        return sorted(map(frozenset, members.values()), key=min)

    def is_allowed(self, variables: Sequence[int]) -> NDArray[np.bool_]:
        """Returns whether each joint state of all open variables satisfies the clauses.

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


def _left(clause: Feature, domains: Mapping[int, int]) -> Feature | None:
    """Returns the open literals of a clause; None if a literal is false, so that the clause is satisfied."""
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
