"""The rows that an estimator is given: features by name, and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from jtsolve.tables.frames import column_texts, is_pandas, named_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.base import BaseEstimator


def is_frame(X: Any) -> bool:
    """Returns whether X is a table of named columns: of pandas, polars, or Arrow."""
    two_axes = len(getattr(X, "shape", ())) == 2  # noqa: PLR2004
    return two_axes and (is_pandas(X) or hasattr(X, "__arrow_c_stream__"))


def checked_features(estimator: BaseEstimator, X: Any, *, reset: bool) -> dict[str, Any]:
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
    originals, columns = named_columns(X)
    names = column_texts(originals)
    if len(set(names)) < len(names):
        raise ValueError(f"two columns of X have the same name; the names are {', '.join(names)}")
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return {name or f"x{i}": column for i, (name, column) in enumerate(zip(names, columns, strict=True))}


def checked_weights(sample_weight: Any, rows: int) -> NDArray[np.float64] | None:
    """Returns the weights of rows, shape (rows,), checked; None for 1 each.

    Raises:
        ValueError: they are not finite, none negative and not all 0, or not one for each row.
    """
    if sample_weight is None:
        return None
    weights: NDArray[np.float64] = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has the shape {weights.shape}; give one weight for each row, {rows}")
    if weights.min() < 0 or not weights.any():
        raise ValueError("sample_weight must contain at least one non-zero number, and none below 0")
    return weights
