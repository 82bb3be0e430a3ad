"""The rows that an estimator is given: features by name, and weights as whole counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log2
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from jtsolve.errors import ChoiceError
from jtsolve.scoring.score import Entropy
from jtsolve.scoring.scores.qnml import Qnml
from jtsolve.tables.frames import is_pandas, named_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.base import BaseEstimator

    from jtsolve.scoring.score import DiscreteScore, Marginal
    from jtsolve.tables.raw import RawTable

_STEPS = 40
"""Fractional weights are counted in 2^-40 of their sum, rounded up to a power of two."""


def is_frame(X: Any) -> bool:
    """Tells whether X is a table of named columns: of pandas, polars, or Arrow."""
    two_axes = len(getattr(X, "shape", ())) == 2  # noqa: PLR2004
    return two_axes and (is_pandas(X) or hasattr(X, "__arrow_c_stream__"))


def features_of(estimator: BaseEstimator, X: Any, *, reset: bool) -> dict[str, Any]:
    """Returns the columns of X by name, after scikit-learn's checks; those of an array are x0, x1, ….

    Args:
        estimator: remembers number and names of the features, or checks them.
        X: shape (rows, features).
        reset: whether to remember; otherwise to check.

    Raises:
        ValueError: X is not a table, or has other columns than in training.
    """
    if not is_frame(X):
        data = validate_data(estimator, X, dtype=None, ensure_all_finite="allow-nan", reset=reset)
        return {f"x{i}": column for i, column in enumerate(data.T)}
    names, columns = named_columns(X)
    if len(set(names)) < len(names):
        raise ValueError(f"two columns of X have the same name; the names are {', '.join(names)}")
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return {name or f"x{i}": column for i, (name, column) in enumerate(zip(names, columns, strict=True))}


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of rows as whole counts of a unit.

    Attributes:
        times: shape (rows,), the weight of each row over the unit.
        unit: 1 if all weights are whole.
    """

    times: NDArray[np.int64]
    unit: float

    @classmethod
    def of(cls, sample_weight: Any, rows: int) -> Weights:
        """Returns the weights of rows; None for 1 each.

        Raises:
            ValueError: they are not finite, none negative and not all 0, or not one for each row.
        """
        if sample_weight is None:
            return cls(np.ones(rows, dtype=np.int64), 1.0)
        weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
        if weights.shape != (rows,):
            raise ValueError(
                f"sample_weight has the shape {weights.shape}; give one weight for each row, {rows}"
            )
        if weights.min() < 0 or not weights.any():
            raise ValueError("sample_weight must contain at least one non-zero number, and none below 0")
        whole = bool((weights % 1 == 0).all())
        unit = 1.0 if whole else 2.0 ** (ceil(log2(weights.sum())) - _STEPS)
        return cls(np.rint(weights / unit).astype(np.int64), unit)

    def applied(self, raw: RawTable) -> RawTable:
        """Returns the rows of positive weight, with their counts."""
        kept = self.times > 0
        times = self.times[kept]
        columns = tuple(column.where(kept) for column in raw.columns)
        return replace(raw, columns=columns, times=None if (times == 1).all() else times)

    def score(self, score: DiscreteScore) -> DiscreteScore:
        """Returns the score of rows counted in units.

        Raises:
            ChoiceError: some weights are fractions, and the score is of whole counts only.
        """
        if self.unit == 1:
            return score
        if not isinstance(score.cell_terms, Entropy) or isinstance(score, Qnml):
            raise ChoiceError(
                f"the score '{score.name}' is of whole counts, but sample_weight has fractions; give whole "
                "weights, or local_score='bic'"
            )
        return PerUnit(score, self.unit)


@dataclass(frozen=True, slots=True)
class PerUnit:
    """A score of counts in units u: s'(A) = s(A) / u, so that the same trees are best.

    With m = u m' and N = u N', Σ m ln m = u (Σ m' ln m' + N' ln u).
    """

    of: DiscreteScore
    unit: float

    @property
    def name(self) -> str:
        """See `DiscreteScore`."""
        return self.of.name

    @property
    def cell_terms(self) -> Entropy:
        """See `DiscreteScore`."""
        return Entropy()

    def rest(self, marginal: Marginal) -> float:
        """See `DiscreteScore`."""
        total = marginal.rows * float(np.log(self.unit))
        return total + self.of.rest(replace(marginal, rows=marginal.rows * self.unit)) / self.unit
