"""Formulas as plain data: variables, clauses, linear rows, a linear objective to maximise; and the way back.

One form for all formulations and solvers. Variables are numbered from 1, as in DIMACS files, so a clause is a
tuple of literals: 3 is "variable 3 is 1", -3 "variable 3 is 0". Most variables are binary; positions of
cliques (`encodings.balancing`) have more values. An `Encoding` is a formula with the maps from values to
trees and back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree


Clause: TypeAlias = tuple[int, ...]
"""Literals, at least one of which must hold."""


class LinearRow(NamedTuple):
    """A condition lower ≤ Σ coefficient · variable ≤ upper.

    Attributes:
        variables: numbers from 1, each at most once.
        coefficients: one for each.
        lower: None for no bound; not both are None.
        upper: likewise.
    """

    variables: tuple[int, ...]
    coefficients: tuple[int, ...]
    lower: int | None
    upper: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """Variables, conditions, and an objective to maximise.

    Args:
        names: of the variables 1, 2, …: letters, digits and underscores, the first a letter; unique.
        largest: the largest value of each variable, 1 for binary ones. The smallest is 0.
        clauses: over binary variables.
        exactly_one: groups of variables, in each of which exactly one is 1.
        rows: further conditions.
        weights: shape (m,), in nats: the objective.
        constant: of the objective, in nats.

    Raises:
        ValueError: shapes do not fit, a number names no variable, or a condition on binary variables names
            another.
    """

    names: tuple[str, ...]
    largest: tuple[int, ...]
    clauses: tuple[Clause, ...]
    exactly_one: tuple[tuple[int, ...], ...]
    rows: tuple[LinearRow, ...]
    weights: NDArray[np.float64]
    constant: float = 0.0

    def __post_init__(self) -> None:
        count = len(self.names)
        if len(self.largest) != count or self.weights.shape != (count,):
            raise ValueError(f"{count} names, {len(self.largest)} domains, {self.weights.shape} weights")
        if len(set(self.names)) < count:
            raise ValueError("two variables have the same name")
        if not np.isfinite(self.weights).all() or not np.isfinite(self.constant):
            raise ValueError("a weight is not finite")
        logical = {
            abs(literal) for part in (self.clauses, self.exactly_one) for one in part for literal in one
        }
        used = logical.union(*(row.variables for row in self.rows))
        if used and not 1 <= min(used) <= max(used) <= count:
            raise ValueError(f"a condition names a variable beyond 1 to {count}")
        if any(self.largest[number - 1] != 1 for number in logical):
            raise ValueError("a clause names a variable that is not 0 or 1")

    def linear_rows(self) -> Iterator[LinearRow]:
        """Yields all conditions as linear rows: ¬x is 1 − x, so k negated literals lower the bound by k."""
        for clause in self.clauses:
            signs = tuple(1 if literal > 0 else -1 for literal in clause)
            yield LinearRow(tuple(map(abs, clause)), signs, 1 - signs.count(-1), None)
        for group in self.exactly_one:
            yield LinearRow(group, (1,) * len(group), 1, 1)
        yield from self.rows

    def objective(self, values: Sequence[int]) -> float:
        """Returns the objective at values of all variables, in nats, whether or not they are feasible."""
        return self.constant + float(self.weights @ np.asarray(values, dtype=np.float64))

    def broken(self, values: Sequence[int]) -> str | None:
        """Returns in words a condition that the values violate; None if all hold."""
        if len(values) != len(self.names):
            return f"there are {len(values)} values for {len(self.names)} variables"
        for name, value, most in zip(self.names, values, self.largest, strict=True):
            if not 0 <= value <= most:
                return f"{name} = {value} is not within 0 to {most}"
        for clause in self.clauses:
            if not any((values[abs(literal) - 1] == 1) == (literal > 0) for literal in clause):
                return f"no literal of {self._named(clause)} holds"
        for group in self.exactly_one:
            if sum(values[number - 1] for number in group) != 1:
                return f"not exactly one of {self._named(group)} is 1"
        for row in self.rows:
            total = sum(
                c * values[number - 1] for number, c in zip(row.variables, row.coefficients, strict=True)
            )
            if (row.lower is not None and total < row.lower) or (row.upper is not None and total > row.upper):
                return (
                    f"a sum over {self._named(row.variables)} is {total}, not in {row.lower} to {row.upper}"
                )
        return None

    def _named(self, literals: Sequence[int]) -> str:
        signs = {True: "", False: "not "}
        shown = [signs[literal > 0] + self.names[abs(literal) - 1] for literal in literals[:8]]
        return ", ".join(shown) + (", …" if len(literals) > len(shown) else "")


class Encoding(NamedTuple):
    """A formula of a problem, and the way back.

    Attributes:
        formula: its objective at feasible values is the score of their tree.
        tree_of: returns the tree of feasible values; raises ValueError if there is none.
        values_of: returns the values of a tree that meets the problem's constraints; None if the formula has
            none, for example after families were removed.
    """

    formula: Formula
    tree_of: Callable[[Sequence[int]], JunctionTree]
    values_of: Callable[[JunctionTree], NDArray[np.int64] | None]
