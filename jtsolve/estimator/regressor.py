"""`JunctionTreeRegressor`: E(y | x) by one conditional Gaussian tree over features and target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from jtsolve.errors import ChoiceError, at
from jtsolve.estimator.base import Further, Training, Treatment, TreeEstimator, known, name_of
from jtsolve.options import Door
from jtsolve.scoring.score import MIXED_SCORE, is_mixed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.tables.options import Discretisation

TARGET = "target"
"""Name of the target, unless y has a name."""


@dataclass(kw_only=True, eq=False, repr=False)
class JunctionTreeRegressor(RegressorMixin, TreeEstimator):  # type: ignore[misc]
    """Regression by the posterior mean of a real target in a conditional Gaussian junction tree.

    Missing and unseen values are summed over, or integrated out. `score` is R².

    Args:
        treewidth: of the tree; at least 0.
        local_score: a mixed score; see `JunctionTreeDensity`, which explains the other parameters, too.
        discretise: how numbers among the features are cut; None for real ones.
        missing: treatment of missing values in training; of real columns "em", "drop-rows", "refuse".

    Attributes:
        model_: the `jtsolve.Model` of features and target, whose `posterior` has quantiles.
        target_name_: the name of the target: that of y, or "target".

    >>> import numpy as np
    >>> x, noise = np.random.default_rng(0).normal(size=(2, 200))
    >>> regressor = JunctionTreeRegressor().fit(x[:, None], 2 * x + 1 + 0.1 * noise)
    >>> regressor.predict([[1.0]]).round(1).tolist()
    [3.0]
    """

    local_score: str | ScoreFunction = MIXED_SCORE
    discretise: str | Discretisation | None = None
    missing: Treatment = "drop-rows"

    def require_parameters(self) -> None:
        """Checks the parameters, and that the score is mixed.

        Raises:
            ChoiceError: one is invalid.
        """
        super().require_parameters()
        if not is_mixed(self._score):
            raise ChoiceError(f"the score '{self._score.name}' is of states; choose cg")

    @at(Door.ESTIMATOR)
    def fit(self, X: Any, y: Any) -> Self:  # type: ignore[override]
        """Learns the tree from rows that count once each; see `TreeEstimator.fit`."""
        return self._fitted(X, y)

    def _fit(self, training: Training, run: Run) -> None:
        super()._fit(training, run)
        self.target_name_ = training.table.names[-1]

    def _further(self, features: Mapping[str, Any], y: Any) -> Further:
        """Returns the target, checked.

        Raises:
            ValueError: there is none, not one for each row, or it has missing values.
        """
        name = name_of(y, TARGET, features)
        values = check_array(
            column_or_1d(y, dtype=np.float64, warn=True),
            ensure_2d=False,
            ensure_min_samples=2,
            input_name="y",
        )
        check_consistent_length(next(iter(features.values())), values)
        return Further(name, values, values, {"real": (name,)})

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Returns the posterior mean of the target in every row, shape (rows,)."""
        check_is_fitted(self)
        columns = self._model.columns[:-1]
        codes = known(self._codes(X, columns), columns)
        gaps = np.full((1, codes.shape[1]), np.nan)
        means: NDArray[np.float64] = self._model.predict(np.vstack([codes, gaps]), len(codes))
        return means
