"""Local scores for the dynamic programming: normalised, in its number type, -inf where not permitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import frexp, inf, nextafter, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.permitted import Masks, permitted_cliques, permitted_separators
from jtsolve.core.result import OPTIMALITY_TOLERANCE
from jtsolve.core.scores import colex_table, own_scores
from jtsolve.core.sparsity import SetSizes, arities_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.backends.dp.plan import Precision
    from jtsolve.backends.dp.ranks import RankTables
    from jtsolve.core.problem import Problem
    from jtsolve.core.varset import VarSet


class LocalTables(NamedTuple):
    """The local scores in the number type of g, and the constraints; K sets."""

    clique: NDArray[Any]
    """Shape (2, K): s(C), `lowest` where C may not be a clique."""
    separator: NDArray[Any]
    """Shape (2, K): s(S), minus `lowest` where S may not be a separator."""
    lowest: Any
    """Stands for -inf."""
    threshold: Any
    """A sum below it contains `lowest`, and is reset to it."""


_INT32_RANGE = 2**28
_INT32_LOWEST = np.int32(-(2**30))
"""Fixed point: the largest value, and the number for -inf; see `local_scores`."""
_BITS: dict[Precision, int] = {"float64": 51, "int64": 59, "int48": 44}
_LOOSE = OPTIMALITY_TOLERANCE / 4
"""Nats of rounding in a bound above which more bits are worthwhile."""
_FOR_PARAMETERS, _FOR_EDGES = OPTIMALITY_TOLERANCE / 10, OPTIMALITY_TOLERANCE / 2
"""Maximum penalty of a tree in nats, for breaking ties: by edges and parameters, and by edges alone."""


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """The relation between the numbers of a run and scores.

    Attributes:
        unit: nats per unit of the run's numbers.
        constant: nats that normalising subtracted from the score of every tree.
        slack: nats by which rounding may have lowered the optimum.
        penalties: the largest penalty of a tree for its edges and parameters, in units.
        ties: the measure that decides between trees of equal score.
        decisive: whether it is the finest measure that the problem has.
        grid: units that divide the score of every tree before penalties.
        least: units below which no tree has all required edges.
    """

    unit: float
    constant: Fraction
    slack: float
    penalties: int = 0
    ties: str = ""
    decisive: bool = True
    grid: int = 1
    least: float = -inf

    @property
    def is_coarse(self) -> bool:
        """Whether rounding leaves the bound loose, or no room to break ties."""
        return self.slack > _LOOSE or not self.decisive

    def bound(self, optimum: float) -> float:
        """Returns an upper bound on the score of every tree, in nats; rounded up."""
        units = Fraction(optimum) + self.penalties
        if self.penalties:
            units = Fraction(units // self.grid * self.grid)
        exact = units * Fraction(self.unit) + self.constant + Fraction(self.slack)
        rounded = float(exact)
        return rounded if rounded >= exact else nextafter(rounded, inf)


def local_scores(problem: Problem, ranks: RankTables, precision: Precision) -> tuple[LocalTables, ScoreScale]:
    """Returns the local scores and their scale.

    Normalised: Σ_{v∈A} s(v) is subtracted from every s(A), which changes the score of every tree by the same
    constant and makes the numbers small. The values f, g, h of a tree are sums of one s(A) and one
    s(P∪v) − s(P) per variable, so they lie within ±span. A tree has at most n cliques and n − 1 separators,
    each rounded by at most half a unit; their sum is the slack.

    float64, int64 and int48: fixed point. The unit is a power of two, and scores are rounded before they are
    normalised, so that nothing else is rounded: float64 has 51 bits for ±span, int64 has 59 and −2^62 for
    −inf, int48 has 44 and −2^46.

    int32: ±span is mapped to ±2^28. −2^30 stands for −inf: the sum of any two numbers still fits, and is
    below −2^29 exactly if one of them stood for −inf.

    Required edges: every set gains, for each required edge within it, more than the largest difference of two
    trees. A tree gains this once for each required edge that it has.

    Ties: in fixed point, every set A pays a penalty for each of its |A|(|A| − 1)/2 pairs and for each of its
    cells but one, and so a tree pays for its edges and its parameters; an edge costs more than all parameters
    that any tree has. Rounding parts two trees of equal score by less than the smallest penalty, 2n units
    (one if nothing is rounded): of all trees of the best score, only one with the fewest edges, and among
    those with the fewest parameters, can be the optimum. Parameters are left out where the states are
    unknown or all might cost more than `_FOR_PARAMETERS`, and edges where these might cost `_FOR_EDGES`; and
    either where it might cost half the span, which would exceed the gain of a required edge.

    Args:
        problem: its scores and constraints.
        ranks: of the sets.
        precision: of the numbers.
    """
    n, m = problem.n, problem.n - 1
    own = own_scores(problem.scores)
    given = _scores(problem, ranks)
    known = given > -inf
    given[~known] = 0.0
    scores = given - _sums(ranks, own)
    span = _span(ranks, np.where(known, scores, 0.0))
    rounding = (2 * n - 1) / 2
    sets = np.stack([ranks.masks, ranks.masks | 1 << m])
    required = problem.constraints.required_edges
    spare = 2 + len(required).bit_length() if required else 0  # bits of the gains

    numbers: NDArray[Any]
    lowest: Any
    threshold: Any
    if precision == "int32":
        reach = _INT32_RANGE >> spare
        unit = max(span, 1e-9) / reach
        noise = 4 * n * (span + float(np.abs(own).sum())) * float(np.finfo(np.float64).eps)
        numbers, lowest = np.rint(np.where(known, scores, 0.0) / unit).astype(np.int32), _INT32_LOWEST
        threshold = lowest // 2
        scale = ScoreScale(unit, Fraction(float(own.sum())), rounding * unit + noise)
    else:
        most = np.sort(np.abs(own))[-ranks.width :].sum()
        _, exponent = frexp(max(span, float(most), float(np.abs(given).max())))
        bits = _BITS[precision] - spare
        reach, shift = 1 << bits, bits - exponent
        units, own_units = (np.ldexp(values, shift) for values in (given, own))
        whole = bool((units == np.rint(units)).all() and (own_units == np.rint(own_units)).all())
        units, own_units = (np.rint(values).astype(np.int64) for values in (units, own_units))
        unit = 2.0**-shift
        penalty = 1 if whole else 2 * n
        choices = _SizeCounts.of(problem, ranks.width)
        costs = next(
            (one for one in choices if one.most * penalty * unit <= min(one.room, reach * unit / 2)), None
        )
        numbers = units - _sums(ranks, own_units)
        if costs is not None:
            numbers -= penalty * costs.sizes.of_masks(sets)
        grid = int(np.bitwise_or.reduce(units, axis=None) | np.bitwise_or.reduce(own_units))
        constant = Fraction(sum(own_units.tolist())) * Fraction(unit)
        slack = 0.0 if whole else rounding * unit
        most, ties = (0, "") if costs is None else (penalty * costs.most, costs.ties)
        scale = ScoreScale(unit, constant, slack, most, ties, costs is choices[0], grid & -grid or 1)
        lowest = np.int64(-(2 ** (_BITS[precision] + (2 if precision == "int48" else 3))))
        threshold = lowest // 2
        if precision == "float64":
            numbers, lowest, threshold = numbers.astype(float), np.float64(-inf), np.finfo(np.float64).min

    scale = _reward(sets, required, 4 * reach, numbers, scale)
    clique = known & permitted_cliques(problem, Masks(sets))
    separator = known & permitted_separators(problem, Masks(sets))
    # s(S) is subtracted, so that a forbidden separator is +∞.
    scores = np.where(clique, numbers, lowest), np.where(separator, numbers, -lowest)
    return LocalTables(*scores, lowest, threshold), scale


def is_closed(ranks: RankTables, local: LocalTables) -> bool:
    """Returns whether all proper subsets of permitted cliques may be cliques and separators, also ∅."""
    clique = local.clique > local.threshold
    inner = clique & (local.separator < -local.threshold)
    inner[0, 0] = local.separator[0, 0] < -local.threshold
    if (clique[1] & ~inner[0]).any():
        return False
    for v in range(ranks.m):
        holds = np.flatnonzero(ranks.masks >> v & 1)
        if (clique[:, holds] & ~inner[:, ranks.position[ranks.masks[holds] ^ (1 << v)]]).any():
            return False
    return True


def _reward(
    sets: NDArray[np.int64], edges: frozenset[VarSet], gain: int, numbers: NDArray[Any], scale: ScoreScale
) -> ScoreScale:
    """Adds the gain to every set for each of the edges in it; returns the scale with it."""
    if not edges:
        return scale
    for edge in edges:
        numbers[sets & edge == edge] += gain
    constant = scale.constant - len(edges) * gain * Fraction(scale.unit)
    return replace(scale, constant=constant, least=(len(edges) - 0.5) * gain)


@dataclass(frozen=True, slots=True)
class _SizeCounts:
    """A measure of the size of a tree that breaks ties.

    Attributes:
        ties: its name.
        room: the largest penalty of a tree, in nats.
        sizes: of sets.
        most: an upper bound on the size of a tree.
    """

    ties: str
    room: float
    sizes: SetSizes
    most: int

    @classmethod
    def of(cls, problem: Problem, width: int) -> tuple[_SizeCounts, ...]:
        """Returns edges and parameters together, unless the states are unknown; then edges alone."""
        edges = (width - 1) * problem.n - width * (width - 1) // 2
        alone = cls("edges", _FOR_EDGES, SetSizes(), edges)
        arities = arities_of(problem)
        if arities is None:
            return (alone,)
        # Along an elimination order, v adds (states − 1) · (combinations of its parents) parameters.
        parameters = sum(arity - 1 for arity in arities) * prod(sorted(arities)[-width:][1:])
        edge = parameters + 1
        sizes = SetSizes(edge, tuple(arities))
        return cls("edges, parameters", _FOR_PARAMETERS, sizes, edges * edge + parameters), alone


def _scores(problem: Problem, ranks: RankTables) -> NDArray[np.float64]:
    """Returns s(A), shape (2, K): A without the root variable, and with it; -inf for none."""
    table = colex_table(problem.scores, ranks.width)  # its second half: the sets with the last variable
    colex = np.argsort(ranks.masks)
    smaller = colex[np.bitwise_count(ranks.masks[colex]) < ranks.width]
    scores = np.full((2, ranks.masks.size), -inf)
    scores[0, colex] = table[: colex.size]
    scores[1, smaller] = table[colex.size :]
    return scores


def _sums(ranks: RankTables, own: NDArray[Any]) -> NDArray[Any]:
    """Returns Σ_{v∈A} own(v), shape (2, K)."""
    sums = np.zeros(ranks.masks.size, own.dtype)
    for v in range(own.size - 1):
        sums[ranks.masks >> v & 1 == 1] += own[v]
    return np.stack([sums, sums + own[-1]])


def _span(ranks: RankTables, scores: NDArray[np.float64]) -> float:
    """Returns max |s(A)| + Σ_v max_P |s(P∪v) − s(P)|, which no f, g or h of a tree exceeds.

    A set without a score is neither clique nor separator, so its terms cancel for any value.
    """
    span = float(np.abs(scores).max())
    size = np.bitwise_count(ranks.masks)
    for v in range(ranks.m):
        holds = np.flatnonzero(ranks.masks >> v & 1)
        steps = np.abs(scores[:, holds] - scores[:, ranks.position[ranks.masks[holds] ^ (1 << v)]])
        span += float(max(steps[0].max(), steps[1, size[holds] < ranks.width].max(initial=0.0)))
    return span + float(np.abs(scores[1] - scores[0])[size < ranks.width].max())
