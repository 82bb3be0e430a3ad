"""`JunctionTreeRegressor`: E(y | x) by one conditional Gaussian tree over features and target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from jtsolve.errors import ChoiceError
from jtsolve.estimator.base import Further, Running, TreeEstimator, known, unused_name
from jtsolve.estimator.rows import checked_features
from jtsolve.models.framed import Model
from jtsolve.scoring.score import MIXED_SCORE, is_mixed

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        n_features_in_: number of features.
        feature_names_in_: their names, if X has names.

    >>> import numpy as np
    >>> x, noise = np.random.default_rng(0).normal(size=(2, 200))
    >>> regressor = JunctionTreeRegressor().fit(x[:, None], 2 * x + 1 + 0.1 * noise)
    >>> regressor.predict([[1.0]]).round(1).tolist()
    [3.0]
    """

    local_score: str | ScoreFunction = MIXED_SCORE
    discretise: str | Discretisation | None = None
    missing: Literal["state", "em", "drop-rows", "impute-mode", "refuse"] = "drop-rows"

    def fit(self, X: Any, y: Any) -> JunctionTreeRegressor:
        """Learns the tree and fits its parameters.

        Args:
            X: shape (rows, features): an array or a frame.
            y: shape (rows,): a number for each row.

        Raises:
            ValueError: a shape or a target is invalid.
            InputError: a column cannot be read, or columns are linearly dependent.
            ChoiceError: a parameter is invalid.
            LimitError: the backend found no tree within the limits.
        """
        features = checked_features(self, X, reset=True)
        target = self._target(features, y)
        with Running(self) as run:
            if not is_mixed(self._score):
                raise ChoiceError(f"the score '{self._score.name}' is of states; choose cg")
            training = self._read(X, features, run, further=target)
            self._model = self._learned(training, run)
        self.target_name_, self.model_ = target.name, Model(self._model, training.style)
        return self

    def _target(self, features: dict[str, Any], y: Any) -> Further:
        """Returns the target, checked.

        Raises:
            ValueError: there is none, not one for each row, or it has missing values.
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; give numbers"
            )
        values = check_array(
            column_or_1d(y, dtype=np.float64, warn=True),
            ensure_2d=False,
            ensure_min_samples=2,
            input_name="y",
        )
        check_consistent_length(next(iter(features.values())), values)
        own = getattr(y, "name", None)
        name = unused_name(own if isinstance(own, str) and own else TARGET, features)
        return Further(name, values, values, {"real": (name,)})

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Returns the posterior mean of the target in every row, shape (rows,)."""
        check_is_fitted(self)
        columns = self._model.columns[:-1]
        codes = known(self._codes(X, columns), columns)
        gaps = np.full((1, codes.shape[1]), np.nan)
        means: NDArray[np.float64] = self._model.predict(np.vstack([codes, gaps]), len(codes))
        return means
