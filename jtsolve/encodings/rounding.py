"""Families whose weights are whole multiples of a unit, so that every solver adds them exactly.

The scores of sets are rounded to multiples of a unit of 2^-shift nats, the finest for which all sums over the
subsets of a set are exact in float64. The weights of every formulation, differences for families or the
Möbius inverse, are then multiples of the unit too: `whole` returns them as integers without further rounding.
A tree's score is a sum of at most 2n − 1 scores of sets in any formulation, so all rounding together,
including that of the scores themselves, moves it by at most `slack`.
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
        """Returns weights, in nats, as multiples of the unit.

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
    # A sum over the subsets of a set has 2^width terms.
    _, exponent = frexp(float(np.abs(families.values).max()))
    shift = min(finest, _BITS - 1 - exponent - width)
    values = np.ldexp(np.rint(np.ldexp(families.values, shift)), -shift)
    known = families.scores[families.scores > -inf]
    largest = float(np.abs(known).max())
    # The constant is a sum of n scores; a normalised score is one of at most width + 1.
    floats = n * (n + width * (width + 1)) * sys.float_info.epsilon * largest
    return replace(families, values=values), Unit(shift, n * ldexp(1.0, -shift) + 2 * floats)
