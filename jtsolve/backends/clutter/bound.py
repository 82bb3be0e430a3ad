"""Bounds of the clutter LP in exact arithmetic, from any multipliers.

Every row of the LP is a set function g with a limit: Σ x(v,P) (g(P∪v) − g(P)) ≥ limit holds for the families
of every tree of the problem. For multipliers λ ≥ 0 and t = s + Σ λ g, the Lagrangian bound

    D(λ) = Σ_v max_P [t(P∪v) − t(P)] − Σ λ·limit,                   (max over all allowed families of v)

is at least every tree's score. The *reduced cost* r(v,P) ≥ 0 of a family is the difference between its
vertex's maximum and t(P∪v) − t(P); a tree with (v,P) in a perfect order from the root scores at most
D(λ) − r(v,P).

Arithmetic: scores and multipliers are rounded to integers, in units of 2^-shift nats, and all sums are exact
in int64, which limits the shift. Rounding changes each of the at most 2n − 1 terms of a tree's score by half
a unit at most, which `slack` covers; rounding multipliers needs no cover, since all λ ≥ 0 are valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb, floor, frexp, fsum, inf, nextafter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.backends.clutter.inequalities import CutRows, RowVector
    from jtsolve.core.threads import Pool
    from jtsolve.families.families import Families

_BITS = 61
"""Bits of a sum: int64 less the sign and one for a difference of two sums."""
_SLACK_BITS = 23
"""Units are just fine enough for a slack of n units below 2^-23 nats, a tenth of the tolerance of "optimal".
The other bits are left to multipliers, which grow large in proofs of infeasibility."""
_RELATIVE_BITS = 46
"""Bits of the largest score, if scores are large, for a relative tolerance of 2^-40. Multipliers up to a
hundred times as large still fit; larger ones are scaled down, and bounds stay far too high."""
NO_FAMILY = -(1 << 62)
"""Maximum of a vertex without a family."""


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Scores as integers, in units of 2^-shift nats.

    Attributes:
        shift: negative for huge scores.
        offset: the sum of the scores of single variables, which normalisation subtracts, in units.
        slack: units by which a tree's score may exceed the sum of its rounded weights.
        room: the largest sum of multipliers, in units, that cannot overflow.
    """

    shift: int
    offset: int
    slack: int
    room: int

    @property
    def unit(self) -> float:
        """The size of a unit in nats."""
        return 2.0**-self.shift

    def target(self, nats: float) -> int:
        """Returns the largest sum of normalised weights, in units, that implies a score of at most `nats`."""
        return floor(Fraction(nats) * _power(self.shift)) - self.offset - self.slack

    def nats(self, units: int) -> float:
        """Returns the largest score that a sum of normalised weights allows, rounded up."""
        exact = Fraction(units + self.offset + self.slack) / _power(self.shift)
        rounded = float(exact)
        return rounded if rounded >= exact else nextafter(rounded, inf)

    def units_of(self, nats: NDArray[np.float64]) -> NDArray[np.int64]:
        """Returns multipliers, shape (m,), in units: none below 0, scaled down where sums would overflow."""
        # All λ ≥ 0 are valid, and both clipping and scaling down keep this.
        units = np.ldexp(np.maximum(nats, 0.0), self.shift)
        if float(units.sum()) > 0.9 * self.room:
            # Summed exactly: rows without a weight, which certificates omit, must not change the scaling.
            total = fsum(units.tolist())
            if total > self.room:
                units *= 0.99 * self.room / total
        return np.floor(units).astype(np.int64)


def _power(shift: int) -> Fraction:
    return Fraction(1 << shift) if shift >= 0 else Fraction(1, 1 << -shift)


def scaled(families: Families) -> tuple[FixedPoint, NDArray[np.int64]]:
    """Returns the scale and the normalised s(A) of every set in units, shape (K,); 0 without a score."""
    known = families.scores > -inf
    n = families.n
    _, exponent = frexp(float(np.abs(families.scores[known]).max()))
    # A normalised score sums at most width + 1 scores, and a bound sums n differences of two of these.
    # A row's function is at most 1, or for forbidden graphs the number of pairs in a set.
    reach = max(1, comb(families.width, 2)) if families.constraints.forbidden_graphs else 1
    headroom = (4 * n * (families.width + 1) * reach).bit_length()
    needed = n.bit_length() + min(_SLACK_BITS, _RELATIVE_BITS - exponent)
    shift = min(needed, _BITS - 1 - exponent - headroom)
    units = np.zeros(families.sizes.size, dtype=np.int64)
    units[known] = np.rint(np.ldexp(families.scores[known], shift)).astype(np.int64)
    # Normalised: s(A) − Σ_{v∈A} s({v}). All trees' scores shift by the same offset, and sums are smaller.
    single = np.flatnonzero(families.sizes == 1)
    own = np.zeros(n + 1, dtype=np.int64)
    own[families.members[single, 0]] = units[single]
    # The member n is padding: own[n] = 0.
    normalised = np.where(known, units - own[families.members].sum(axis=1), 0)
    scale = FixedPoint(shift, int(own.sum()), n, (1 << (_BITS - 1 - (2 * n).bit_length())) // reach)
    return scale, normalised


class Bound(NamedTuple):
    """D(λ) in units, the set function t, and for each vertex the maximum and a family that attains it."""

    units: int
    values: NDArray[np.int64]
    best: NDArray[np.int64]
    union: NDArray[np.int64]
    slot: NDArray[np.int64]

    def reduced_costs(self, families: Families) -> NDArray[np.int64]:
        """Returns r(v,P) of the families in units, shape (K, width); the padding has any values."""
        best = np.append(self.best, 0)  # the padding is member n
        costs: NDArray[np.int64] = (
            best[families.members] - self.values[:, None] + self.values[families.facets]
        )
        return costs


def bound_of(
    families: Families,
    scores: NDArray[np.int64],
    rows: CutRows,
    multipliers: RowVector,
    *,
    pool: Pool | None = None,
) -> Bound:
    """Returns D(λ); every vertex must have a family.

    Args:
        families: of the problem.
        scores: s of every set in units, shape (K,).
        rows: the dualised inequalities.
        multipliers: λ in units.
        pool: threads that share the sets; None for this thread alone.
    """
    return best_bound(families, *rows.weighted(scores, multipliers, pool))


def best_bound(families: Families, values: NDArray[np.int64], price: int) -> Bound:
    """Returns the bound of a set function t, less Σ λ·limit; every vertex must have a family.

    Args:
        families: of the problem.
        values: t of every set in units, shape (K,).
        price: Σ λ·limit in units.
    """
    from jtsolve.backends.clutter.kernels.clutters import best_families

    best, union, slot = best_families(
        values, families.members, families.facets, families.sizes, families.allowed, families.n, NO_FAMILY
    )
    return Bound(sum(best.tolist()) - price, values, best, union, slot)


def within_reduced_cost(families: Families, bound: Bound, most: int) -> NDArray[np.bool_]:
    """Returns which families have a reduced cost of at most `most` units, shape (K, width).

    Args:
        families: of the problem.
        bound: t and the maxima of the vertices.
        most: largest reduced cost, in units.
    """
    from jtsolve.backends.clutter.kernels.clutters import within_reduced_cost as within

    return within(  # type: ignore[no-any-return]  # numba is untyped
        families.allowed, bound.values, families.members, families.facets, families.sizes, bound.best, most
    )
