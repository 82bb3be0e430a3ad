"""Normal scores of columns of numbers, and margins: monotone maps from values to normal scores.

A margin is linear between its knots, and beyond the outer ones. If the score is normal, the density of the
value, its quantiles, mean and variance have closed forms, piece by piece.

The candidate knots of a column are the midpoints of consecutive values u < v, with the score
Φ⁻¹((M + ½)/(N + 1)) if M of the N rows are at most u; and the least and the greatest value, with their normal
scores. A margin has the candidates nearest to evenly spaced scores. Hence a value with many rows lies between
two knots. Midpoints of values that differ only by rounding are no candidates: densities would be unbounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST_GAP = 1e-6
"""Least distance of the values on both sides of a knot, relative to the distance of the outer deciles."""


def mean_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the rank of each value, from 1, shape (N,); ties share their mean rank.

    `scipy.stats` has this, too, but takes 75 MB.

    Args:
        values: shape (N,).

    >>> mean_ranks(np.array([5.0, 2.0, 5.0, 7.0])).tolist()
    [2.5, 1.0, 2.5, 4.0]
    """
    _, position, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[position]
    return ranks


def normal_scores(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns Φ⁻¹(rank / (N + 1)) of each value within its column; ties share their mean rank.

    Args:
        values: shape (columns, rows).
    """
    from scipy.special import ndtri

    ranks = np.array([mean_ranks(column) for column in values]).reshape(values.shape)
    scores: NDArray[np.float64] = ndtri(ranks / (values.shape[1] + 1))
    return scores


@dataclass(frozen=True, slots=True)
class Margin:
    """A monotone map between values and normal scores, linear between its knots and beyond them.

    Args:
        values: of the knots, increasing, at least two.
        scores: of the knots, increasing.

    Raises:
        ValueError: a condition above is violated, or a slope or its inverse overflows.

    >>> Margin((0.0, 1.0, 3.0), (-1.0, 0.0, 1.0)).to_scores(np.array([-1.0, 2.0])).tolist()
    [-2.0, 0.5]
    """

    values: tuple[float, ...]
    scores: tuple[float, ...]

    def __post_init__(self) -> None:
        knots = len(self.values)
        if len(self.scores) != knots or knots < 2:  # noqa: PLR2004 - of a line
            raise ValueError("a margin needs two knots or more, each with a value and a score")
        with np.errstate(all="ignore"):
            steps = np.array([np.diff(self.values), np.diff(self.scores)])
            slopes = steps[1] / steps[0]
            fine = (steps > 0).all() and (slopes > 0).all() and np.isfinite([slopes, 1 / slopes]).all()
        if not fine:
            raise ValueError("the knots of a margin are not finite and increasing")

    @classmethod
    def of(cls, column: NDArray[np.float64], segments: int) -> Margin | None:
        """Returns the margin of a column; None for a single segment, or a column of too few values.

        Args:
            column: shape (rows,).
            segments: their number, at least 1; there are fewer if knots coincide.
        """
        from scipy.special import ndtr, ndtri

        values, counts = np.unique(column, return_counts=True)
        rows, gaps = column.size, np.diff(values)
        middle = np.subtract(*np.quantile(column, [0.9, 0.1])) or values[-1] - values[0]
        apart = gaps > _LEAST_GAP * middle
        inner, below = values[:-1][apart] + gaps[apart] / 2, np.cumsum(counts)[:-1][apart] + 0.5
        if segments < 2 or inner.size < 2:  # noqa: PLR2004 - a line, or three values
            return None
        least, greatest = ndtri(np.array([counts[0] + 1, 2 * rows - counts[-1] + 1]) / (2 * (rows + 1)))
        aims = (rows + 1) * ndtr(np.linspace(least, greatest, segments + 1)[1:-1])
        after = np.clip(np.searchsorted(below, aims), 1, below.size - 1)
        nearest = np.unique(np.where(aims - below[after - 1] < below[after] - aims, after - 1, after))
        knots = [float(values[0]), *inner[nearest].tolist(), float(values[-1])]
        scores = [float(least), *ndtri(below[nearest] / (rows + 1)).tolist(), float(greatest)]
        return cls(tuple(knots), tuple(scores))

    @property
    def slopes(self) -> NDArray[np.float64]:
        """The derivative of the scores by the values, shape (segments,)."""
        return np.diff(self.scores) / np.diff(self.values)

    def segment_of(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Returns the segment of each score, of the same shape; the outer segments are unbounded."""
        return np.searchsorted(self.scores[1:-1], scores, "right").astype(np.int64)

    def scored(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns scores and their `log_slopes`, of the shape of the values; NaN and 0 for NaN."""
        at = np.searchsorted(self.values[1:-1], values, "right")
        slopes = self.slopes
        scores = np.array(self.scores)[at] + slopes[at] * (values - np.array(self.values)[at])
        return scores, np.where(np.isnan(values), 0.0, np.log(slopes)[at])

    def to_scores(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the score of each value, of the same shape; NaN for NaN."""
        return self.scored(values)[0]

    def to_values(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the value of each score, of the same shape; NaN for NaN."""
        at = self.segment_of(scores)
        found: NDArray[np.float64] = (
            np.array(self.values)[at] + (scores - np.array(self.scores)[at]) / self.slopes[at]
        )
        return found

    def log_slopes(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns ln of the slope at each score, of the same shape; 0 for NaN."""
        return np.where(np.isnan(scores), 0.0, np.log(self.slopes)[self.segment_of(scores)])

    def moments(
        self, means: NDArray[np.float64], variances: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns means and variances of the values of normal scores, of the shape of the arguments.

        On each segment the value is linear in the score, which has the moments of a truncated normal
        variable.

        Args:
            means: of the scores.
            variances: of the scores, above 0.
        """
        mass, first, second = self._pieces(means, variances)
        centre = self.to_values(means)[..., None]
        start = np.array(self.values[:-1]) - (np.array(self.scores[:-1]) - means[..., None]) / self.slopes
        start, rate = start - centre, np.sqrt(variances)[..., None] / self.slopes
        shift = (start * mass + rate * first).sum(axis=-1)
        squares = (start * start * mass + 2 * start * rate * first + rate * rate * second).sum(axis=-1)
        return centre[..., 0] + shift, squares - shift * shift

    def _pieces(
        self, means: NDArray[np.float64], variances: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Returns ∫ φ(t), ∫ t φ(t) and ∫ t² φ(t) dt over each segment, t the standardised score."""
        from scipy.special import ndtr

        inner = (np.array(self.scores[1:-1]) - means[..., None]) / np.sqrt(variances)[..., None]
        height = np.exp(-0.5 * inner * inner) / np.sqrt(2 * pi)
        ends = [(0, 0)] * means.ndim + [(1, 1)]
        lower, upper = (
            np.pad(ndtr(sign * inner), ends, constant_values=one) for sign, one in ((1, (0, 1)), (-1, (1, 0)))
        )
        # In the upper half, differences of upper tail probabilities keep their digits.
        mass = np.where(lower[..., :-1] < 0.5, np.diff(lower), -np.diff(upper))  # noqa: PLR2004
        height, tilted = (np.pad(one, ends) for one in (height, inner * height))
        return mass, -np.diff(height), mass - np.diff(tilted)
