"""Local scores for the dynamic programming: normalised, in its number type, -inf where not permitted."""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp, inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.dp.kernels.recurrence import LocalTables
from jtsolve.core.scores import colex_table
from jtsolve.core.varset import VarSet, members

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.backends.dp.kernels.ranks import RankTables
    from jtsolve.backends.dp.plan import Precision
    from jtsolve.core.problem import Problem

_INT32_RANGE = 2**28
_INT32_LOWEST = -(2**30)
"""Fixed point: the largest value, and the number for -inf; see `local_scores`."""


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """The relation between the numbers of a run and scores.

    Attributes:
        unit: nats per unit of the run's numbers.
        constant: nats that normalising subtracted from the score of every tree.
        slack: nats by which rounding may have lowered the optimum.
    """

    unit: float
    constant: float
    slack: float

    def bound(self, optimum: float) -> float:
        """Returns an upper bound on the score of every tree, in nats."""
        return float(optimum) * self.unit + self.constant + self.slack


def local_scores(problem: Problem, ranks: RankTables, precision: Precision) -> tuple[LocalTables, ScoreScale]:
    """Returns the local scores and their scale.

    Normalised: Σ_{v∈A} s(v) is subtracted from every s(A), which changes the score of every tree by the same
    constant and makes the numbers small.

    float64: the slack covers the rounding of at most 4n additions; there is none where the scores are whole
    multiples of a number so large that every sum is exact.

    int32: the values f, g, h of a tree are sums of one s(A) and one s(P∪v) − s(P) per variable, so they lie
    within ±span, which is mapped to ±2^28. −2^30 stands for −inf: the sum of any two numbers still fits, and
    is below −2^29 exactly if one of them stood for −inf. A tree has at most n cliques and n − 1 separators,
    each rounded by at most half a unit; their sum is the slack.
    """
    n, m = problem.n, problem.n - 1
    own = np.array([problem.scores.score(1 << v) for v in range(n)])
    own[own == -inf] = 0.0
    table = colex_table(problem.scores, ranks.width)  # its second half: the sets with the last variable
    scores = _normalised(table, ranks, own)
    sets = np.stack([ranks.masks, ranks.masks | 1 << m])
    clique = np.where(_clique_permitted(problem, sets), scores, -inf)
    separator = np.where(_separator_permitted(problem, sets) & (scores > -inf), scores, inf)

    required = np.zeros(m, np.int64)
    for edge in problem.constraints.required_edges:
        for v in members(edge):
            if v < m:
                required[v] |= edge & ~(1 << v)

    span, constant = _span(ranks, scores), float(own.sum())
    noise = 0.0
    if not _sums_are_exact(table, 4 * n * (span + float(np.abs(own).sum()))):
        noise = 4 * n * float(np.finfo(np.float64).eps) * (span + abs(constant))
    if precision == "float64":
        lowest, threshold = np.float64(-inf), np.finfo(np.float64).min
        return LocalTables(clique, separator, required, lowest, threshold), ScoreScale(1.0, constant, noise)
    unit = max(span, 1e-9) / _INT32_RANGE
    local = LocalTables(
        _fixed_point(clique, unit),
        _fixed_point(separator, unit),
        required,
        np.int32(_INT32_LOWEST),
        np.int32(_INT32_LOWEST // 2),
    )
    return local, ScoreScale(unit, constant, (2 * n - 1) / 2 * unit + noise)


def _sums_are_exact(table: NDArray[np.float64], reach: float) -> bool:
    """Tells whether all scores are multiples of a power of two that divides every number below `reach`."""
    known = table[table > -inf]
    _, exponent = frexp(max(reach, float(np.abs(known).max())))
    units = np.ldexp(known, np.finfo(np.float64).nmant - exponent)
    return bool((units == np.rint(units)).all())


def _normalised(
    table: NDArray[np.float64], ranks: RankTables, own: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns s(A) − Σ_{v∈A} own(v), shape (2, K): A without the root variable, and with it."""
    m = own.size - 1
    colex = np.argsort(ranks.masks)
    smaller = colex[np.bitwise_count(ranks.masks[colex]) < ranks.width]
    scores = np.full((2, ranks.masks.size), -inf)
    scores[0, colex] = table[: colex.size]
    scores[1, smaller] = table[colex.size :]
    sums = np.zeros(ranks.masks.size)
    for v in range(m):
        sums[ranks.masks >> v & 1 == 1] += own[v]
    scores -= np.stack([sums, sums + own[m]])
    return scores


def _fixed_point(values: NDArray[np.float64], unit: float) -> NDArray[np.int32]:
    """Returns scores as multiples of the unit, rounded; ±inf as ±2^30."""
    finite = np.isfinite(values)
    scaled = np.rint(np.where(finite, values, 0.0) / unit)
    return np.where(finite, scaled, np.copysign(-_INT32_LOWEST, values)).astype(np.int32)


def _clique_permitted(problem: Problem, sets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tells for every set whether the constraints permit it as a clique, regardless of its score."""
    permitted: NDArray[np.bool_] = sets != 0
    for edge in problem.constraints.forbidden_edges:
        permitted &= sets & edge != edge
    return permitted & ~_among(sets, problem.constraints.forbidden_cliques)


def _separator_permitted(problem: Problem, sets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tells for every set whether the constraints permit it as a separator, regardless of its score."""
    limits = problem.constraints
    size = np.bitwise_count(sets)
    permitted: NDArray[np.bool_] = size >= limits.min_separator_size
    if limits.max_separator_size is not None:
        permitted &= size <= limits.max_separator_size
    if limits.allowed_separators is not None:
        permitted &= _among(sets, limits.allowed_separators)
    return permitted & ~_among(sets, limits.forbidden_separators)


def _among(sets: NDArray[np.int64], listed: frozenset[VarSet]) -> NDArray[np.bool_]:
    """Tells for every set whether it is in the list."""
    return np.isin(sets, np.array(sorted(listed), dtype=np.int64))


def _span(ranks: RankTables, scores: NDArray[np.float64]) -> float:
    """Returns max |s(A)| + Σ_v max_P |s(P∪v) − s(P)|, which no f, g or h of a tree exceeds.

    A set without a score is neither clique nor separator, so its terms cancel for any value; here 0.
    """
    m = ranks.first.shape[0] - 1
    filled = np.where(scores == -inf, 0.0, scores)
    span = float(np.abs(filled).max())
    size = np.bitwise_count(ranks.masks)
    for v in range(m):
        holds = np.flatnonzero(ranks.masks >> v & 1)
        steps = np.abs(filled[:, holds] - filled[:, ranks.position[ranks.masks[holds] ^ (1 << v)]])
        span += float(max(steps[0].max(), steps[1, size[holds] < ranks.width].max(initial=0.0)))
    return span + float(np.abs(filled[1] - filled[0])[size < ranks.width].max())
