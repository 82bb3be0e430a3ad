"""Formulas as weighted MaxSAT: hard clauses, and literals that cost something where they hold.

The objective Σ w_i x_i is to be maximised, and MaxSAT minimises a cost. Of a group of which exactly one is 1,
variable i costs (the largest weight of the group) − w_i. A variable in no group costs w_i where it is 0, if
its weight is positive, and −w_i where it is 1, if it is negative. So the objective is a constant minus the
cost, and costs are whole multiples of a unit, which are never below 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jtsolve.encodings.cnf import clausal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.encodings.formula import Clause, Formula
    from jtsolve.encodings.rounding import Unit


class MaxSat(NamedTuple):
    """A weighted MaxSAT problem.

    Attributes:
        variables: how many there are: those of the formula, then auxiliary ones.
        hard: clauses that have to hold.
        costs: units by literal; each is paid if the literal does *not* hold. All are above 0.
        best: the objective of the formula, without its constant, is this minus the cost, in units.
    """

    variables: int
    hard: list[Clause]
    costs: dict[int, int]
    best: int

    def cost(self, values: Sequence[int]) -> int:
        """Returns the cost of values of the formula's variables."""
        return sum(
            weight
            for literal, weight in self.costs.items()
            if (values[abs(literal) - 1] == 1) != (literal > 0)
        )


def to_maxsat(formula: Formula, unit: Unit) -> MaxSat:
    """Returns the formula as weighted MaxSAT; its values are those of the first variables.

    Raises:
        ChoiceError: the formula has rows that are no clauses.
        ValueError: a weight is no multiple of the unit.
    """
    variables, hard = clausal(formula)
    weights = unit.whole(formula.weights)
    costs: dict[int, int] = {}
    best = 0
    for group in formula.exactly_one:
        top = max(weights[number - 1] for number in group)
        best += top
        for number in group:
            # Of a variable in several groups, all of the weight is counted in the first.
            costs[-number] = costs.get(-number, 0) + top - weights[number - 1]
            weights[number - 1] = 0
    for number, weight in enumerate(weights, start=1):
        if weight > 0:
            costs[number] = weight
            best += weight
        elif weight < 0:
            costs[-number] = -weight
    return MaxSat(variables, hard, {literal: cost for literal, cost in costs.items() if cost}, best)
