"""Reference dynamic programming: the recurrences of Kangas et al. (2014), equations 3 to 5, verbatim."""

from __future__ import annotations

from functools import cache
from math import inf
from typing import TYPE_CHECKING

from jtsolve.core.varset import VarSet, is_subset, subsets

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem


def optimum(problem: Problem) -> float:
    """Returns f(∅, V): the best score of a junction tree, in nats; -inf if there is none."""
    score = problem.scores.score
    clique_permitted = cache(problem.permits_clique)
    separator_permitted = cache(problem.permits_separator)

    def boundary(part: VarSet) -> VarSet:
        """Returns the required neighbours of a part that are outside it."""
        union = 0
        for edge in problem.constraints.required_edges:
            if edge & part:
                union |= edge
        return union & ~part

    @cache
    def f(separator: VarSet, rest: VarSet) -> float:
        return max(
            (
                score(separator | new) + g(separator | new, rest & ~new)
                for new in subsets(rest)
                if new and clique_permitted(separator | new)
            ),
            default=-inf,
        )

    @cache
    def g(clique: VarSet, rest: VarSet) -> float:
        if not rest:
            return 0.0
        largest = 1 << (rest.bit_length() - 1)
        others = rest ^ largest
        return max(h(clique, part | largest) + g(clique, others & ~part) for part in subsets(others))

    @cache
    def h(clique: VarSet, part: VarSet) -> float:
        return max(
            (
                f(separator, part) - score(separator)
                for separator in subsets(clique)
                if separator != clique
                and separator_permitted(separator)
                and is_subset(boundary(part), separator)
            ),
            default=-inf,
        )

    return f(0, (1 << problem.n) - 1)
