"""Formulas as clauses alone: what solvers for SAT and MaxSAT take.

A row with coefficients ±1 over variables that are 0 or 1 says how many of some literals hold: ¬x is 1 − x. It
becomes clauses with new variables, numbered after those of the formula:

- at least one: the clause itself.
- at most one: the literals are divided into parts of which at most one holds anyway, since they are in one
  group of which exactly one does. Every part with two literals or more is given a variable that follows from
  each of them (Klieber and Kwon, CFV 2007, commanders). Of these, each two exclude each other; of many, a
  chain of variables does it.
- at most k: the sequential counter of Sinz, CP 2005: s_{i,j} follows where j of the first i literals hold.

Rows with other coefficients or variables with more values, such as positions in an order, are refused: the
transitive order has none.

Size: at most one of m literals takes O(m) clauses, at most k O(m·k).
"""

from __future__ import annotations

from itertools import combinations, count, pairwise
from typing import TYPE_CHECKING, NamedTuple

from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.encodings.formula import Clause, Formula, LinearRow

_FEW = 6
"""Literals of which 15 pairs are not more than the clauses of a chain."""


class Clausal(NamedTuple):
    """Clauses with the same models over the first variables as a formula.

    Attributes:
        variables: their number; those of the formula come first.
        clauses: none is empty.
    """

    variables: int
    clauses: list[Clause]


def clausal(formula: Formula) -> Clausal:
    """Returns a formula's conditions as clauses.

    Raises:
        ChoiceError: a row has coefficients other than ±1, or a variable has more values than 0 and 1.
    """
    clauses = list(formula.clauses)
    maker = _Maker(clauses, count(len(formula.names) + 1))
    for number, group in enumerate(formula.exactly_one):
        clauses.append(group)
        maker.at_most_one(group)  # before the group is known as one
        maker.group_of.update(dict.fromkeys(group, number))
    for row in formula.rows:
        literals = _literals(formula, row)
        negative = sum(literal < 0 for literal in literals)
        if row.upper is not None:
            maker.at_most(literals, row.upper + negative)
        if row.lower is not None:  # at least k of m hold: at most m − k of their complements
            maker.at_most([-literal for literal in literals], len(literals) - row.lower - negative)
    return Clausal(next(maker.numbers) - 1, clauses)


def _literals(formula: Formula, row: LinearRow) -> list[int]:
    """Returns the literals whose number a row bounds."""
    for number, coefficient in zip(row.variables, row.coefficients, strict=True):
        if abs(coefficient) != 1 or formula.largest[number - 1] != 1:
            raise ChoiceError(
                f"clauses cannot express the coefficient {coefficient} of {formula.names[number - 1]}; "
                "for MaxSAT take the order 'transitive'"
            )
    return [number * sign for number, sign in zip(row.variables, row.coefficients, strict=True)]


class _Maker:
    """Adds clauses, and new variables where they need some."""

    def __init__(self, clauses: list[Clause], numbers: count[int]) -> None:
        self.clauses = clauses
        self.numbers = numbers
        self.group_of: dict[int, int] = {}

    def at_most(self, literals: Sequence[int], most: int) -> None:
        """States that at most so many of the literals hold."""
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
        """States that at most one of the literals holds."""
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
        """States it with a variable a literal: s_i, that one of the first i holds."""
        some = [next(self.numbers) for _ in literals]
        self.clauses += [(-literal, s) for literal, s in zip(literals, some, strict=True)]
        for (s, t), literal in zip(pairwise(some), literals[1:], strict=True):
            self.clauses += [(-s, t), (-s, -literal)]

    def _count(self, literals: Sequence[int], most: int) -> None:
        """States it with s_{i,j}, j ≤ most, that j of the first i literals hold."""
        before: list[int] = []
        for literal in literals:
            if len(before) == most:
                self.clauses.append((-before[-1], -literal))
            now = [next(self.numbers) for _ in range(min(most, len(before) + 1))]
            self.clauses += [(-old, new) for old, new in zip(before, now, strict=False)]
            self.clauses.append((-literal, now[0]))
            self.clauses += [(-old, -literal, new) for old, new in zip(before, now[1:], strict=False)]
            before = now
