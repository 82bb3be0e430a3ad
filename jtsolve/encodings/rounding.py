"""Families whose weights are whole multiples of a unit, so that every solver adds them exactly.

The scores of sets are rounded to multiples of a unit of 2^-shift nats, the finest for which all sums over the
subsets of a set are exact in float64. The weights of every formulation, differences of scores, are then
multiples of the unit too: `whole` returns them as integers without further rounding.

A tree's score is a sum of at most 2n − 1 scores of sets in any formulation, so all rounding together changes
it by at most `slack`: not at all where all scores are multiples of the unit, as whole scores are.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from math import frexp, inf, ldexp
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.families.families import Families

_BITS = 53
"""Bits of the integers that float64 represents exactly."""
FINEST = 45
"""The largest shift: 3·10^-14 nats, finer than the scores themselves."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of rounded weights.

    Attributes:
        shift: the unit is 2^-shift nats.
        slack: the largest difference of a tree's score and the objective of a formula, in nats.
    """

    shift: int
    slack: float

    def whole(self, weights: NDArray[np.float64]) -> list[int]:
        """Returns weights, in nats, shape (m,), as multiples of the unit.

        Raises:
            ValueError: one is not, so the weights do not come from rounded families.
        """
        units = np.ldexp(weights, self.shift)
        if (units != np.rint(units)).any():
            raise ValueError("a weight is not a multiple of the unit")
        return [int(unit) for unit in units.tolist()]

    def nats(self, units: float) -> float:
        """Returns multiples of the unit in nats."""
        return ldexp(units, -self.shift)


def rounded(families: Families, finest: int = FINEST) -> tuple[Families, Unit]:
    """Returns the families with values that are multiples of a unit, and the unit; see the module.

    Args:
        families: with the scores to round.
        finest: the unit is at least 2^-finest nats, for solvers that add many integers in one word.

    >>> from jtsolve.families.families import families_of
    >>> from jtsolve.core.problem import Problem, Variable
    >>> from jtsolve.core.scores import DenseScores
    >>> scores = DenseScores(2, 2, np.array([0.0, -5.0, -5.0, -7.1]))
    >>> families, unit = rounded(families_of(Problem((Variable("A"), Variable("B")), scores)))
    >>> unit.whole(families.listing().weight) == [0, 0, round(2.9 * 2**unit.shift)]
    True
    """
    n, width = families.n, families.width
    known = families.scores > -inf
    largest, most = (float(np.abs(part).max()) for part in (families.scores[known], families.values))
    # A sum over the subsets of a set has 2^width terms; a normalised score is one of at most width + 1.
    spare = min(-frexp(most)[1] - width, -frexp(largest)[1] - (width + 1).bit_length())
    shift = min(finest, _BITS - 1 + spare)
    exact = np.ldexp(np.where(known, families.scores, 0.0), shift)
    units = np.rint(exact)
    single = np.flatnonzero(families.sizes == 1)
    own = np.zeros(n + 1)
    own[families.members[single, 0]] = units[single]
    values = np.ldexp(np.where(known, units - own[families.members].sum(axis=1), 0.0), -shift)
    slack = (2 * n - 1) * ldexp(float(np.abs(exact - units).max()), -shift)
    total = n * (largest + 2 * most)  # of constants and bounds, which are sums in floats
    if ldexp(total, shift) >= 1 << _BITS:
        slack += 2 * sys.float_info.epsilon * total
    rounded_families = replace(families, values=values, offset=ldexp(float(own.sum()), -shift))
    return rounded_families, Unit(shift, slack)
