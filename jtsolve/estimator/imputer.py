"""`JunctionTreeImputer`: missing cells filled in from the observed cells of their row.

The tree and its tables are learned from rows whose gaps are filled in: at first by the most frequent value of
the column, then by the most probable completion of the row under the last model, until nothing changes. This
is the classification version of the EM algorithm (G. Celeux and G. Govaert, A classification EM algorithm for
clustering and two stochastic versions, Computational Statistics & Data Analysis 14, 1992). It overstates how
well columns with many gaps are predicted, since completions are never surprising.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from jtsolve.errors import ChoiceError
from jtsolve.estimator.base import TreeEstimator, known
from jtsolve.estimator.rows import features_of, is_frame
from jtsolve.estimator.values import as_pandas, values_of, with_fills
from jtsolve.models.framed import Model
from jtsolve.models.inference.prediction import state_log_probabilities
from jtsolve.scoring.score import is_mixed
from jtsolve.tables.frames import is_pandas
from jtsolve.tables.raw import GAP
from jtsolve.tables.table import DataTable, MixedTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.estimator.base import Training
    from jtsolve.models.protocol import Distribution
    from jtsolve.tables.options import Missing

STRATEGIES = ("mode", "joint", "mean")


@dataclass(kw_only=True, eq=False, repr=False)
class JunctionTreeImputer(OneToOneFeatureMixin, TransformerMixin, TreeEstimator):  # type: ignore[misc]
    """Fills in missing values (None, NaN, NA) given the observed values of their row.

    Observed values are returned as they are, in a frame if X is one. A range of a cut column stands for the
    median of its training rows. Real columns, of a mixed score, get conditional means, and training begins
    with the complete rows: states that occur in none of them are unseen.

    Args:
        treewidth: of the tree; at least 0.
        strategy: "mode": each missing value is the most probable one given the observed ones; "joint": those
            of a row are its most probable completion together; "mean": numbers are their expectation, other
            columns as by "mode".
        max_iter: most trees learned, one after another; 1 trains on the most frequent values only.
        local_score: see `JunctionTreeDensity`; so are the parameters below.
        smoothing: equivalent sample size.
        backend: its name, or itself.
        discretise: how numbers are cut.
        states: columns that are not cut.
        schema: declared states or cuts.
        max_states: their largest number.
        strict: whether findings of the data check are errors.
        missing_values: further values that mean a missing value.
        decimal: mark of fractions in columns of text, point or comma.
        time: seconds for the whole fit; the best model so far is taken.
        memory: gigabytes.
        threads: their number.
        random_state: seed.

    Attributes:
        model_: the `jtsolve.Model` of the features.
        n_iter_: number of trees learned.
        n_features_in_: number of features.
        feature_names_in_: their names, if X has names.

    >>> import numpy as np
    >>> X = np.array([[0, 0], [1, 1], [0, 0], [1, 1], [0, 1]] * 10, dtype=float)
    >>> imputer = JunctionTreeImputer().fit(X)
    >>> imputer.transform([[np.nan, 1], [0, np.nan]]).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """

    strategy: Literal["mode", "joint", "mean"] = "mode"
    max_iter: int = 10

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> JunctionTreeImputer:
        """Learns the tree and fits its tables.

        Args:
            X: shape (rows, features): an array or a frame.
            y: ignored.
            sample_weight: shape (rows,): how often each row counts; fractions only for bic, aic, mdl and ml.

        Raises:
            ValueError: a shape or a weight is invalid.
            InputError: a column cannot be read as states, or has no value.
            ChoiceError: a parameter is invalid.
            LimitError: the backend found no tree within the limits.
        """
        del y
        if self.strategy not in STRATEGIES or self.max_iter < 1:
            raise ChoiceError(
                f"strategy={self.strategy!r}, max_iter={self.max_iter}; choose among "
                f"{', '.join(STRATEGIES)}, and a number of at least 1"
            )
        features = features_of(self, X, reset=True)
        with self._running() as run:
            missing: Missing = "drop-rows" if is_mixed(self._score) else "impute-mode"
            training = self._read(X, features, run, sample_weight, missing=missing)
            model: Distribution = self._learned(training, run)
            # States that no complete row has are no evidence.
            observed = training.rows.coded(model.columns, unseen=GAP)
            previous = observed if isinstance(training.table, MixedTable) else training.table.codes
            self.n_iter_ = 1
            while self.n_iter_ < self.max_iter and run.stop is None:
                filled = model.complete(observed)
                if np.array_equal(filled, previous):
                    break
                previous = filled
                training = training._replace(table=_filled(training, filled))
                model = self._learned(training, run)
                self.n_iter_ += 1
        self.model_, self._model = Model(model, training.style), model
        self._values = values_of(training)
        return self

    def transform(self, X: Any) -> Any:
        """Returns X with its missing values filled in, shape (rows, features)."""
        check_is_fitted(self)
        model = self._model
        codes = self._codes(X, model.columns)
        gaps = (codes == GAP) if codes.dtype.kind == "i" else np.isnan(codes)
        codes = known(codes, model.columns)
        filled = model.complete(codes) if self.strategy == "joint" else None
        fills: dict[int, tuple[NDArray[np.intp], NDArray[Any]]] = {}
        for v in np.flatnonzero(gaps.any(axis=1)).tolist():
            at, values = np.flatnonzero(gaps[v]), self._values[v]
            if filled is not None:
                fills[v] = at, values.at(filled[v, at])
                continue
            if model.columns[v].states is None:
                fills[v] = at, model.predict(codes[:, at], v)
                continue
            logs = state_log_probabilities(model, codes[:, at], v)
            if self.strategy == "mean" and values.means is not None:
                fills[v] = at, np.exp(logs) @ values.means
            else:
                fills[v] = at, values.at(np.argmax(logs, axis=1))
        out = with_fills(X, fills)
        # scikit-learn would make object columns of a polars frame.
        wants_pandas = _get_output_config("transform", self)["dense"] == "pandas"
        return as_pandas(out) if wants_pandas and is_frame(out) and not is_pandas(out) else out


def _filled(training: Training, rows: NDArray[Any]) -> DataTable | MixedTable:
    """Returns the table with other rows, in its coding."""
    table = training.table
    if isinstance(table, DataTable):
        return replace(table, codes=rows, weights=training.times)
    real = np.array([states is None for states in table.states])
    discrete = table.discrete and replace(table.discrete, codes=rows[~real].astype(np.int32))
    return replace(table, discrete=discrete, real=replace(table.real, values=rows[real]))
