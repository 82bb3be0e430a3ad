"""The weights of cliques and separators, from a problem and a prior.

The weight of a graph is Π c(C) over its cliques divided by Π s(S) over its separators, where c = s = e^score
except under constraints: 1/s(A) = 0 where A may not be a separator, and c(A) = 0 besides where it may not be
complete. All weights are relative to those of the single variables: this divides the weight of every graph
by the same factor and keeps the numbers small.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.backend import Capabilities
from jtsolve.core.permitted import Masks, permitted_cliques, permitted_separators
from jtsolve.core.problem import ALL_FEATURES, ProblemFeature
from jtsolve.core.scores import DenseScores, colex_table, own_scores
from jtsolve.core.varset import members

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem

MOST_VARIABLES = 26
"""Renaming tables have up to 27 bits; the memory is exhausted long before."""

_WIDEST = 1e10
"""Maximum range of the sum of scores, in nats: exponents then need 36 of 63 bits, and 8 digits remain."""


def _is_within_range(problem: Problem) -> str | None:
    low, high = problem.scores.extremes()
    if problem.n * (high - low) <= _WIDEST:
        return None
    return f"Scores from {low:.3g} to {high:.3g} nats exceed the range of exact sums; use chains."


def _has_star(problem: Problem) -> str | None:
    return "A device does not support real variables; use device=cpu." if problem.star else None


EXACT = Capabilities(
    features=ALL_FEATURES
    - {ProblemFeature.MAX_CLIQUES, ProblemFeature.FORBIDDEN_CLIQUES, ProblemFeature.FORBIDDEN_GRAPHS},
    exact=True,
    max_variables=MOST_VARIABLES,
    needs_table=True,
    rules=(_is_within_range,),
)
"""Constraints that exact sums support. A maximum number of cliques would need a sum for each number. The
weight of a forbidden graph could be subtracted, but where it is most of the sum, no digits would remain. Sets
that may be separators but not cliques would need a second table."""

ON_DEVICE = replace(EXACT, rules=(*EXACT.rules, _has_star))
"""Constraints that a device supports."""

_GRAPHS_SLACK = 128


@dataclass(frozen=True, slots=True)
class SetWeights:
    """The weights of all sets, as logarithms to base 2, relative to those of the single variables.

    Attributes:
        n: the number of variables.
        width: the largest size of a clique.
        clique: shape (2^n,): log2 c(A); -inf where A may not be complete.
        separator: shape (2^n,): log2 s(A); inf where A may not be a separator.
        required: the required neighbours of each variable.
        offset: ln of the divisor of every graph's weight, in nats.
        lowest: every sum of the recurrence that is not 0 is at least 2^lowest.
        highest: every sum is at most 2^highest.
        star: whether the last variable is the star of marks (`core.marks`).
    """

    n: int
    width: int
    clique: NDArray[np.float64]
    separator: NDArray[np.float64]
    required: tuple[int, ...]
    offset: float
    lowest: int
    highest: int
    star: bool = False


def set_weights(problem: Problem, edge_odds: float = 1.0) -> SetWeights:
    """Returns the weights of a problem that `EXACT` supports.

    Args:
        problem: scores and constraints.
        edge_odds: prior odds of an edge: the weight of a graph is multiplied by odds^edges.
    """
    n, width = problem.n, problem.max_clique_size
    masks = np.arange(1 << n)
    sizes = np.bitwise_count(masks).astype(np.int64)
    score = np.full(1 << n, -inf)
    score[sizes <= width] = colex_table(problem.scores, width)
    singles = own_scores(problem.scores).tolist()
    for v, value in enumerate(singles):
        score[masks >> v & 1 > 0] -= value
    ends = sizes - (masks >> (n - 1) if problem.star else 0)  # edges at the star are not edges of the graph
    score = score / log(2) + log(edge_odds) / log(2) * (ends * (ends - 1) // 2)
    lowest, highest = _range(problem, score, sizes)
    clique, separator = score.copy(), np.where(score > -inf, score, inf)
    _constrain(problem, clique, separator, masks)
    required = [0] * n
    for edge in problem.constraints.required_edges:
        for v in members(edge):
            required[v] |= edge ^ (1 << v)
    return SetWeights(
        n, width, clique, separator, tuple(required), sum(singles), lowest, highest, problem.star
    )


def _constrain(
    problem: Problem,
    clique: NDArray[np.float64],
    separator: NDArray[np.float64],
    masks: NDArray[np.int64],
) -> None:
    """Removes the sets that the constraints forbid as cliques or as separators."""
    sets = Masks(masks)
    clique[~permitted_cliques(problem, sets)] = -inf
    separator[~permitted_separators(problem, sets)] = inf
    # A set within no permitted clique is never complete: its 1/s is not used, and set to 0.
    covered = clique > -inf
    for v in range(problem.n):
        lower = masks[masks >> v & 1 == 0]
        covered[lower] |= covered[lower | 1 << v]
    separator[~covered] = inf
    clique[0] = 0.0  # no clique, but complete: c(∅) P(∅,R) is the sum over all graphs on R


def _range(problem: Problem, score: NDArray[np.float64], sizes: NDArray[np.int64]) -> tuple[int, int]:
    """Returns bounds of the binary exponents of all sums that are not 0.

    They are sums over graphs of Π_v c(P_v∪v)/s(P_v) over some variables v, along a perfect elimination order.
    Where every set of the table has a score, each factor is between the least and the greatest for v.
    """
    n, width = problem.n, problem.max_clique_size
    low = high = 0.0
    if isinstance(problem.scores, DenseScores):
        smaller = np.flatnonzero(sizes < width)
        for v in range(n):
            before = smaller[smaller >> v & 1 == 0]
            gain = score[before | 1 << v] - score[before]
            low, high = low + min(0.0, float(gain.min())), high + max(0.0, float(gain.max()))
    else:  # n cliques and as many separators at most
        known = score[score > -inf]
        spread = n * (max(0.0, float(known.max())) - min(0.0, float(known.min())))
        low, high = -spread, spread
    graphs = n * (n - 1) // 2  # 2^graphs of them
    return int(low) - _GRAPHS_SLACK, int(high) + graphs + _GRAPHS_SLACK
