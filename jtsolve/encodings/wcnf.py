"""Formulas as weighted MaxSAT: hard clauses, and soft literals with costs.

The objective Σ w_i x_i is maximised, while MaxSAT minimises a cost. In a group with exactly one variable
true, variable i costs (the largest weight of the group) − w_i. A variable in no group costs w_i if it is 0
and its weight is positive, −w_i if it is 1 and its weight negative. So the objective is a constant minus the
cost, and costs are non-negative whole multiples of a unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jtsolve.encodings.cnf import to_cnf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.encodings.formula import Clause, Formula
    from jtsolve.encodings.rounding import Unit


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
