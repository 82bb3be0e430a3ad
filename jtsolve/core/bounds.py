"""Bounds that hold for every problem, for results of backends that prove none."""

from __future__ import annotations

import sys
from itertools import combinations, islice
from math import comb, inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.scores import Bounding, DenseScores, SparseScores, own_scores
from jtsolve.core.varset import members, neighbours_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem

_CHUNK = 1 << 18
"""Sets in a batch: tens of megabytes."""
_LOOK_UPS = 1 << 25
"""Look-ups of scores in about a second."""
_LATE = 0.5
"""Seconds granted to a weak bound after the time is over."""
_PATIENT = 10.0
"""Most seconds for the bound of scores on demand before the search."""
_SLOWER = 16
"""Cost of a look-up in a sparse table, relative to one in a batch of a dense table."""


def _proceed() -> None:
    """Never raises."""


def problem_bound(problem: Problem, seconds: float = 0.0, check_stop: Callable[[], None] = _proceed) -> float:
    """Returns the family bound if it is quick to compute, else the best of the others; in nats, finite.

    The time of the family bound is unlimited for scores on demand: they get the other bounds, and their own.

    Args:
        problem: the scores and constraints.
        seconds: remaining; bounds by families are computed if they need less, or at most half a second.
        check_stop: called many times a second; raises to stop.
    """
    n, width = problem.n, problem.max_clique_size
    if (needed := _family_seconds(problem)) < inf and needed <= max(_LATE, seconds):
        bound = family_bound(problem, check_stop)
    else:
        bound = min(range_bound(problem), ceiling_bound(problem), _first_bound(problem, seconds, check_stop))
    # Rounding must not put it below a tree's score: a sum of n gains, each of at most `width` scores.
    largest = max(map(abs, problem.scores.extremes()))
    return bound + 4 * n * width * sys.float_info.epsilon * largest


def early_bound(problem: Problem, seconds: float) -> float:
    """Returns a bound to begin with; inf for a table whose family bound is quick, and computed at the end.

    For other tables it is the family bound, for which no time might remain at the end; for scores on demand,
    the best of the other bounds.

    Args:
        problem: the scores and constraints.
        seconds: remaining for the whole run, or inf; the bound may use half of them.
    """
    needed, share = _family_seconds(problem), seconds / 2
    if needed == inf:
        return problem_bound(problem, min(_PATIENT, seconds / 10))
    if seconds == inf:
        return inf
    return problem_bound(problem, share) if _LATE < needed <= share else inf


def _family_seconds(problem: Problem) -> float:
    """Returns an upper bound of the time of the family bound; inf for scores on demand."""
    n, width = problem.n, problem.max_clique_size
    if not isinstance(problem.scores, DenseScores | SparseScores):
        return inf
    if isinstance(problem.scores, SparseScores):
        return 3 * width * len(problem.scores.table) * _SLOWER / _LOOK_UPS
    return sum(size * comb(n, size) for size in range(1, width + 1)) / _LOOK_UPS


def _first_bound(problem: Problem, seconds: float, check_stop: Callable[[], None]) -> float:
    """Returns the first of `Bounding.tree_bounds` if it is quick to compute; otherwise inf."""
    scores, size = problem.scores, problem.max_clique_size
    if not isinstance(scores, Bounding) or size < 2:  # noqa: PLR2004 - a pair
        return inf
    if scores.bounding_seconds(size, 1) > max(_LATE, seconds):
        return inf
    return next(scores.tree_bounds(size, -inf, 1, check_stop), inf)


def ceiling_bound(problem: Problem) -> float:
    """Returns the family bound with ceilings in place of best families, in nats; inf without all of them."""
    if problem.ceilings is None or inf in problem.ceilings:
        return inf
    singles = own_scores(problem.scores)
    best = np.maximum(singles, problem.ceilings) if problem.max_clique_size > 1 else singles.copy()
    return _rooted(problem, best, singles)


def _rooted(problem: Problem, best: NDArray[np.float64], singles: NDArray[np.float64]) -> float:
    """Returns the sum of the best families, in which one variable of each component has no parents.

    A perfect elimination order ends, in each connected part of the graph, with a variable without parents; a
    component is a part that no edge may join to others.
    """
    loss = best - singles
    total = float(best.sum())
    for part in _components(problem):
        total -= float(loss[part].min())
    return total


def _components(problem: Problem) -> list[list[int]]:
    """Returns the components of the graph of all edges that are not forbidden."""
    forbidden = neighbours_of(problem.n, map(members, problem.constraints.forbidden_edges))
    left = (1 << problem.n) - 1
    parts = []
    while left:
        part = border = left & -left
        while border:
            v = border.bit_length() - 1
            reached = left & ~part & ~forbidden[v]
            part, border = part | reached, (border ^ 1 << v) | reached
        parts.append(list(members(part)))
        left &= ~part
    return parts


def range_bound(problem: Problem) -> float:
    """Returns n · max(0, max s) − (n − 1) · min(0, min s), in nats.

    A junction tree has at most n cliques and one separator fewer. One pass over the scores.
    """
    lowest, highest = problem.scores.extremes()
    return problem.n * max(0.0, highest) - (problem.n - 1) * min(0.0, lowest)


def family_bound(problem: Problem, check_stop: Callable[[], None] = _proceed) -> float:
    """Returns Σ_v max_P [s(P∪v) − s(P)] with P = ∅ for one v a component: no junction tree scores more.

    Along any perfect elimination order the score is Σ_v s(P_v∪v) − s(P_v), where P_v ∪ v is within a clique
    (`jtsolve.families.families`). A set without a score is neither a clique nor a separator, so its terms
    cancel for any value: here the sum of its variables' own scores, or 0 for a variable that has none.

    It looks up every set that may be a clique once per member, or only those in a sparse table; the bound is
    weak.
    """
    n, scores = problem.n, problem.scores
    singles = own_scores(problem.scores)
    assert isinstance(scores, DenseScores | SparseScores), "the time of scores on demand is unlimited"
    if isinstance(scores, SparseScores):
        sparse = _sparse_families(scores, problem.max_clique_size, singles.tolist())
        return _rooted(problem, np.array(sparse), singles)
    apart = np.zeros((n, n), dtype=bool) if problem.constraints.forbidden_edges else None
    if apart is not None:
        for a, b in map(members, problem.constraints.forbidden_edges):
            apart[a, b] = apart[b, a] = True

    best = singles.copy()
    for size in range(2, problem.max_clique_size + 1):
        for every in _all_sets(n, size):
            check_stop()
            sets = every
            if apart is not None:
                pairs = combinations(range(size), 2)
                sets = every[~np.any([apart[every[:, i], every[:, j]] for i, j in pairs], axis=0)]
            for position, gains in enumerate(scores.gains(sets)):
                np.maximum.at(best, sets[:, position], gains)
    return _rooted(problem, best, singles)


def _all_sets(n: int, size: int) -> Iterator[NDArray[np.intp]]:
    """Yields all sets of one size of at least 2, in batches of shape (count, size), members increasing."""
    starts = combinations(range(n - 1), size - 1)
    while batch := list(islice(starts, max(1, _CHUNK // n))):
        start = np.array(batch, dtype=np.intp)
        # Each start is continued by every larger variable.
        times = n - 1 - start[:, -1]
        ends = np.cumsum(times)
        sets = np.empty((int(ends[-1]), size), dtype=np.intp)
        sets[:, :-1] = np.repeat(start, times, axis=0)
        sets[:, -1] = np.arange(ends[-1]) + np.repeat(n - ends, times)
        yield sets


def _sparse_families(scores: SparseScores, width: int, singles: list[float]) -> list[float]:
    """Returns the best family of each variable from the sets of a sparse table, by cases.

    P∪v in the table: the gain is looked up. Only P: it is s(v) plus the excess of the scores of P's members
    over s(P), and the largest such excess counts. Neither: it is s(v).

    For each v, the search skips sets P that hold v, or with P∪v in the table: over all variables, at most
    twice the members of all sets.
    """
    table = {mask: score for mask, score in scores.table.items() if mask.bit_count() <= width}
    best = list(singles)
    excess = []
    for mask, score in table.items():
        within = list(members(mask))
        alone = sum([singles[v] for v in within])
        if len(within) < width:
            excess.append((alone - score, mask))
        for v in within:
            filled = table.get(mask ^ 1 << v)
            gain = score - (alone - singles[v] if filled is None else filled)
            best[v] = max(best[v], gain)
    excess.sort(reverse=True)
    for v, single in enumerate(singles):
        fitting = (over for over, mask in excess if not mask >> v & 1 and mask | 1 << v not in table)
        best[v] = max(best[v], single + next(fitting, 0.0))
    return best
