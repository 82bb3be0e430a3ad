"""`JunctionTreeImputer`: missing cells filled in from the observed cells of their row.

The tree is learned, and its parameters fitted, with `missing="em"`: see `models.learning.incomplete`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from jtsolve.estimator.base import Training, Treatment, TreeEstimator, known
from jtsolve.estimator.values import values_of, with_fills
from jtsolve.models.inference.prediction import state_log_probabilities
from jtsolve.tables.raw import GAP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.run import Run


@dataclass(kw_only=True, eq=False, repr=False)
class JunctionTreeImputer(OneToOneFeatureMixin, TransformerMixin, TreeEstimator):  # type: ignore[misc]
    """Fills in missing values (None, NaN, NA) given the observed values of their row.

    Each missing value is the most probable one. Observed values are returned unchanged, in a frame if X is
    one. A range of a cut column stands for the median of its training rows. Real columns, of a mixed score,
    get conditional means.

    Args:
        treewidth: of the tree; at least 0.
        local_score: see `JunctionTreeDensity`, which explains the other parameters and the attributes, too.

    >>> import numpy as np
    >>> X = np.array([[0, 0], [1, 1], [0, 0], [1, 1], [0, 1]] * 10, dtype=float)
    >>> imputer = JunctionTreeImputer().fit(X)
    >>> imputer.transform([[np.nan, 1], [0, np.nan]]).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """

    missing: ClassVar[Treatment] = "em"

    def _fit(self, training: Training, run: Run) -> None:
        super()._fit(training, run)
        self._values = values_of(training)

    def transform(self, X: Any) -> Any:
        """Returns X with its missing values filled in, shape (rows, features)."""
        check_is_fitted(self)
        model = self._model
        codes = self._codes(X, model.columns)
        gaps = (codes == GAP) if codes.dtype.kind == "i" else np.isnan(codes)
        codes = known(codes, model.columns)
        fills: dict[int, tuple[NDArray[np.intp], NDArray[Any]]] = {}
        for v in np.flatnonzero(gaps.any(axis=1)).tolist():
            at, values = np.flatnonzero(gaps[v]), self._values[v]
            if model.columns[v].states is None:
                fills[v] = at, model.predict(codes[:, at], v)
                continue
            fills[v] = at, values.at(np.argmax(state_log_probabilities(model, codes[:, at], v), axis=1))
        return with_fills(X, fills)
