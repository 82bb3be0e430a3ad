"""Formulas in conjunctive normal form, for SAT and MaxSAT solvers.

A row with coefficients ±1 over binary variables is a cardinality constraint on literals: ¬x is 1 − x. It
becomes clauses with new variables, numbered after those of the formula:

- at least one: the clause itself.
- at most one: the literals are divided into parts in which at most one holds anyway, those within a group
  with exactly one true. Every part of two or more literals gets a commander variable that each of them
  implies (Klieber and Kwon, CFV 2007). A few commanders exclude each other pairwise, many by a chain of
  variables.
- at most k: the sequential counter of Sinz, CP 2005: s_{i,j} is implied if j of the first i literals hold.

Rows with other coefficients, or over variables with more values, are refused (`balancing` has some).

Size: O(m) clauses for at most one of m literals, O(m·k) for at most k.

*Weighted MaxSAT.* The objective Σ w_i x_i is maximised, while MaxSAT minimises a cost. In a group with
exactly one variable true, variable i costs (the largest weight of the group) − w_i. A variable in no group
costs w_i if it is 0 and its weight is positive, −w_i if it is 1 and its weight negative. So the objective is
a constant minus the cost, and costs are non-negative whole multiples of a unit.
"""

from __future__ import annotations

from itertools import combinations, count, pairwise
from typing import TYPE_CHECKING, NamedTuple

from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.encodings.formula import Clause, Formula, LinearRow
    from jtsolve.encodings.rounding import Unit

_FEW = 6
"""Literals up to which their pairs, at most 15, are no more clauses than a chain."""


class Cnf(NamedTuple):
    """Clauses with the models of a formula over its variables.

    Attributes:
        variables: the number of variables; those of the formula come first.
        clauses: none is empty.
    """

    variables: int
    clauses: list[Clause]


def to_cnf(formula: Formula) -> Cnf:
    """Returns the conditions of a formula as clauses.

    Raises:
        ChoiceError: a row has coefficients other than ±1 or a variable that is not binary.
    """
    clauses = list(formula.clauses)
    cnf = _CnfBuilder(clauses, count(len(formula.names) + 1))
    for number, group in enumerate(formula.exactly_one):
        clauses.append(group)
        cnf.at_most_one(group)  # before the group counts as a part
        cnf.group_of.update(dict.fromkeys(group, number))
    for row in formula.rows:
        literals = _literals(formula, row)
        negative = sum(literal < 0 for literal in literals)
        if row.upper is not None:
            cnf.at_most(literals, row.upper + negative)
        if row.lower is not None:  # at least k of m hold: at most m − k of their complements
            cnf.at_most([-literal for literal in literals], len(literals) - row.lower - negative)
    return Cnf(next(cnf.numbers) - 1, clauses)


class Wcnf(NamedTuple):
    """A weighted MaxSAT problem.

    Attributes:
        variables: their number: those of the formula, then auxiliary ones.
        hard: the hard clauses.
        costs: units by literal, paid if the literal does *not* hold; all positive.
        best: the objective of the formula, without its constant, is this minus the cost, in units.
    """

    variables: int
    hard: list[Clause]
    costs: dict[int, int]
    best: int

    def cost(self, values: Sequence[int]) -> int:
        """Returns the cost at values of the formula's variables."""
        return sum(
            weight
            for literal, weight in self.costs.items()
            if (values[abs(literal) - 1] == 1) != (literal > 0)
        )


def to_wcnf(formula: Formula, unit: Unit) -> Wcnf:
    """Returns the formula as weighted MaxSAT; its variables come first.

    Raises:
        ChoiceError: the formula has rows that clauses cannot express.
        ValueError: a weight is not a multiple of the unit.
    """
    variables, hard = to_cnf(formula)
    weights = unit.whole(formula.weights)
    costs: dict[int, int] = {}
    best = 0
    for group in formula.exactly_one:
        top = max(weights[number - 1] for number in group)
        best += top
        for number in group:
            # The weight of a variable in several groups counts in the first.
            costs[-number] = costs.get(-number, 0) + top - weights[number - 1]
            weights[number - 1] = 0
    for number, weight in enumerate(weights, start=1):
        if weight > 0:
            costs[number] = weight
            best += weight
        elif weight < 0:
            costs[-number] = -weight
    return Wcnf(variables, hard, {literal: cost for literal, cost in costs.items() if cost}, best)


def _literals(formula: Formula, row: LinearRow) -> list[int]:
    """Returns the literals of a cardinality constraint."""
    for number, coefficient in zip(row.variables, row.coefficients, strict=True):
        if abs(coefficient) != 1 or formula.largest[number - 1] != 1:
            raise ChoiceError(
                f"clauses cannot express the coefficient {coefficient} of {formula.names[number - 1]}; "
                "for MaxSAT use the family formulation"
            )
    return [number * sign for number, sign in zip(row.variables, row.coefficients, strict=True)]


class _CnfBuilder:
    """Adds clauses, with new variables where needed."""

    def __init__(self, clauses: list[Clause], numbers: count[int]) -> None:
        self.clauses = clauses
        self.numbers = numbers
        self.group_of: dict[int, int] = {}

    def at_most(self, literals: Sequence[int], most: int) -> None:
        """At most `most` of the literals hold."""
        if most < 0:
            never = next(self.numbers)
            self.clauses += [(never,), (-never,)]
        elif most == 0:
            self.clauses += [(-literal,) for literal in literals]
        elif most == len(literals) - 1:
            self.clauses.append(tuple(-literal for literal in literals))
        elif most == 1:
            self.at_most_one(literals)
        elif most < len(literals):
            self._count(literals, most)

    def at_most_one(self, literals: Sequence[int]) -> None:
        """At most one of the literals holds."""
        parts: dict[int, list[int]] = {}
        for alone, literal in enumerate(literals, start=1):
            parts.setdefault(self.group_of.get(literal, -alone), []).append(literal)
        if len(parts) == 1:
            return
        heads = [part[0] if len(part) == 1 else self._commander(part) for part in parts.values()]
        if len(heads) <= _FEW:
            self.clauses += [(-a, -b) for a, b in combinations(heads, 2)]
        else:
            self._chain(heads)

    def _commander(self, part: list[int]) -> int:
        number = next(self.numbers)
        self.clauses += [(-literal, number) for literal in part]
        return number

    def _chain(self, literals: Sequence[int]) -> None:
        """At most one, by a variable per literal: s_i, one of the first i holds."""
        some = [next(self.numbers) for _ in literals]
        self.clauses += [(-literal, s) for literal, s in zip(literals, some, strict=True)]
        for (s, t), literal in zip(pairwise(some), literals[1:], strict=True):
            self.clauses += [(-s, t), (-s, -literal)]

    def _count(self, literals: Sequence[int], most: int) -> None:
        """At most `most`, by variables s_{i,j}: j of the first i literals hold."""
        before: list[int] = []
        for literal in literals:
            if len(before) == most:
                self.clauses.append((-before[-1], -literal))
            now = [next(self.numbers) for _ in range(min(most, len(before) + 1))]
            self.clauses += [(-old, new) for old, new in zip(before, now, strict=False)]
            self.clauses.append((-literal, now[0]))
            self.clauses += [(-old, -literal, new) for old, new in zip(before, now[1:], strict=False)]
            before = now
