"""Formulas as weighted MaxSAT: hard clauses, and literals that cost something where they hold.

The objective Σ w_i x_i is to be maximised, and MaxSAT minimises a cost. Of a group of which exactly one is 1,
variable i costs (the largest weight of the group) − w_i. A variable in no group costs w_i where it is 0, if
its weight is positive, and −w_i where it is 1, if it is negative. So the objective is a constant minus the
cost, and costs are whole multiples of a unit, which are never below 0.

At most one of a group: pairwise for few variables; for many, the sequential counter of Sinz with one
auxiliary variable each, y_i ≥ x_i, y_i ≥ y_{i−1}, and x_i excludes y_{i−1}.

Reference: Sinz, Towards an optimal CNF encoding of Boolean cardinality constraints, CP 2005.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jtsolve.encodings.formula import Clause, Formula
    from jtsolve.encodings.rounding import Unit

_PAIRWISE = 6
"""Members of a group up to which pairwise clauses are fewer than those of the counter, or about as many."""


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
        ValueError: it has linear rows, or variables of more values than 0 and 1; or weights that are no
            multiples of the unit.
    """
    if formula.rows or max(formula.largest, default=1) > 1:
        raise ValueError("linear rows and numbers are no clauses: this formula cannot be a MaxSAT problem")
    weights = unit.whole(formula.weights)
    hard = list(formula.clauses)
    costs: dict[int, int] = {}
    best = 0
    count = len(formula.names)
    for group in formula.exactly_one:
        hard.append(group)
        hard.extend(_at_most_one(group, count))
        count += len(group) - 1 if len(group) > _PAIRWISE else 0
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
            costs[-number] = costs.get(-number, 0) - weight
    return MaxSat(count, hard, {literal: cost for literal, cost in costs.items() if cost}, best)


def _at_most_one(group: Sequence[int], count: int) -> Iterator[Clause]:
    """Yields the clauses of a group; auxiliary variables begin after `count`."""
    if len(group) <= _PAIRWISE:
        yield from ((-a, -b) for a, b in combinations(group, 2))
        return
    for place, number in enumerate(group):
        aux = count + 1 + place
        if place < len(group) - 1:
            yield (-number, aux)
        if place > 0:
            yield (-number, 1 - aux)
            if place < len(group) - 1:
                yield (1 - aux, aux)
