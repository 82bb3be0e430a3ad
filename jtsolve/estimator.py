"""`JunctionTreeDensity`: a junction tree model as a scikit-learn density estimator and classifier.

The states of a column are its values if these are strings or few numbers. Other numbers are discretised at
quantiles of the training rows, and probabilities are those of the ranges. A class column y is one more
variable, so that P(y | x) is a query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from jtsolve.backends.parse import parse_backend
from jtsolve.errors import ChoiceError
from jtsolve.models.learning.coder import Coder
from jtsolve.models.learning.fit import fit
from jtsolve.models.learning.learner import Learner
from jtsolve.models.learning.mixture_em import EmOptions, fit_mixture
from jtsolve.models.queries import log_likelihood, sample, state_log_probabilities
from jtsolve.scoring.registry import DISCRETE
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.backend import Backend
    from jtsolve.models.mixture import Mixture
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.scoring.score import DiscreteScore

CLASS = "class"
"""Name of the class column, unless a feature has it."""


def _has_classes(estimator: JunctionTreeDensity) -> bool:
    return hasattr(estimator, "classes_")


class JunctionTreeDensity(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """Density estimation by a junction tree, or by a mixture of junction trees.

    Args:
        treewidth: of the trees; at least 0.
        local_score: name of a discrete score ("bic", "bdeu", …), or the score itself.
        backend: searches for the tree: a name as on the command line ("forward", "dp", "lns", "auto"), or a
            `Backend`.
        ess: equivalent sample size of the prior of the tables, above 0, so that unseen cells are possible.
        components: 1 for a single tree, more for a mixture.
        bins: number of ranges of a discretised column, at least 2.
        max_states: numeric columns with fractions or with more distinct values are discretised.
        missing: treatment of missing values (NaN, None). "state": they are a state of columns with missing
            values in training; "sum": training omits their rows, and queries sum over them. Columns without
            missing values in training are summed over in either case.
        unseen: treatment in queries of values that no training row has: "error", or "sum" to sum over them.
        time_limit: seconds for each tree; None for no limit.
        random_state: seed of backends and mixtures; see scikit-learn.

    Attributes:
        model_: a `JunctionTreeModel`, or a `Mixture` of several components.
        coders_: the coding of each column, that of y last, if given.
        classes_: the values of y, if given.
        n_features_in_: number of features.
        feature_names_in_: their names, if X has names.

    >>> import numpy as np
    >>> X = np.array([[0, 0], [0, 0], [1, 1], [1, 1], [1, 1], [0, 1]])
    >>> density = JunctionTreeDensity(treewidth=1).fit(X)
    >>> density.score_samples(X).shape
    (6,)
    """

    def __init__(
        self,
        treewidth: int = 2,
        *,
        local_score: str | DiscreteScore = "bic",
        backend: str | Backend = "forward",
        ess: float = 1.0,
        components: int = 1,
        bins: int = 4,
        max_states: int = 20,
        missing: Literal["state", "sum"] = "state",
        unseen: Literal["error", "sum"] = "error",
        time_limit: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.treewidth = treewidth
        self.local_score = local_score
        self.backend = backend
        self.ess = ess
        self.components = components
        self.bins = bins
        self.max_states = max_states
        self.missing = missing
        self.unseen = unseen
        self.time_limit = time_limit
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> JunctionTreeDensity:
        """Learns the tree and fits its tables.

        Args:
            X: shape (rows, features): an array or a frame.
            y: shape (rows,): the class of each row, or None.

        Raises:
            ValueError: no row is complete, or a parameter or shape is invalid.
            ChoiceError: the score or backend, or an option of it, is invalid.
            LimitError: the backend found no tree in time.
        """
        data = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan")
        names = self._names()
        columns = list(data.T)
        if y is not None:
            classes = column_or_1d(y, warn=True)
            check_consistent_length(data, classes)
            columns.append(classes)
            names.append(CLASS if CLASS not in names else f"{CLASS}_")
        bins = [self.bins] * data.shape[1] + [None]  # classes are not discretised
        coders = [
            Coder.of(name, column, into, self.max_states, gap_state=self.missing == "state")
            for name, column, into in zip(names, columns, bins, strict=False)
        ]
        codes = np.array([coder.codes(column) for coder, column in zip(coders, columns, strict=True)])
        complete = (codes >= 0).all(axis=0)
        if not complete.any():
            raise ValueError("every row has a missing value; leave out columns, or set missing='state'")
        codes = codes[:, complete]
        table = DataTable(tuple(names), tuple(coder.labels for coder in coders), codes)
        self.coders_ = tuple(coders)
        if y is not None:
            self.classes_ = np.array(coders[-1].values)
        elif hasattr(self, "classes_"):
            del self.classes_
        self.model_ = self._fitted(table)
        return self

    def _names(self) -> list[str]:
        if hasattr(self, "feature_names_in_"):
            return [str(name) for name in self.feature_names_in_]
        return [f"x{i}" for i in range(self.n_features_in_)]

    def _fitted(self, table: DataTable) -> JunctionTreeModel | Mixture:
        """Returns the model fitted to a table."""
        score = self.local_score
        if isinstance(score, str) and score not in DISCRETE:
            raise ChoiceError(f"there is no discrete score '{score}'; choose among {', '.join(DISCRETE)}")
        if self.missing not in ("state", "sum") or self.unseen not in ("error", "sum"):
            raise ValueError(
                f"missing={self.missing!r} and unseen={self.unseen!r}: the first must be 'state' or 'sum', "
                "the second 'error' or 'sum'"
            )
        if not self.ess > 0:
            raise ValueError(f"ess={self.ess} must be above 0")
        backend = self.backend
        named = parse_backend(backend) if isinstance(backend, str) and backend != "auto" else None
        seed = int(check_random_state(self.random_state).randint(1 << 31))
        learner = Learner(
            DISCRETE[score] if isinstance(score, str) else score,
            named if isinstance(backend, str) else backend,
            self.treewidth,
            self.time_limit,
            seed=seed,
        )
        if self.components > table.rows:
            raise ValueError(f"{self.components} components for n_samples={table.rows}; give fewer")
        if self.components == 1:
            return fit(learner(table), table, ess=self.ess)
        return fit_mixture(table, self.components, EmOptions(learner, ess=self.ess, seed=seed))

    def _codes(self, X: Any) -> NDArray[np.int32]:
        """Returns the codes of rows, shape (features, rows), -1 for missing values to sum over."""
        check_is_fitted(self)
        data = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=False)
        pairs = zip(self.coders_, data.T, strict=False)  # ignores the coder of classes
        return np.array([coder.codes(column, unseen=self.unseen) for coder, column in pairs])

    def _log_likelihood(self, codes: NDArray[np.int32]) -> NDArray[np.float64]:
        return log_likelihood(self.model_, codes)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Returns ln P(x) for every row, in nats, shape (rows,), summed over classes."""
        codes = self._codes(X)
        missing = np.full((len(self.coders_) - codes.shape[0], codes.shape[1]), -1, dtype=np.int32)
        return self._log_likelihood(np.vstack([codes, missing]))

    def score(self, X: Any, y: Any = None) -> float:
        """Returns the mean of ln P(x), in nats; of ln P(x, y) if y is given and was in training."""
        if y is None or not hasattr(self, "classes_"):
            return float(self.score_samples(X).mean())
        codes = self._codes(X)
        classes = self.coders_[-1].codes(column_or_1d(y))
        return float(self._log_likelihood(np.vstack([codes, classes[None]])).mean())

    @available_if(_has_classes)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns ln P(y | x), shape (rows, classes), in the order of `classes_`."""
        codes = self._codes(X)
        unknown = np.full((1, codes.shape[1]), -1, dtype=np.int32)
        return state_log_probabilities(self.model_, np.vstack([codes, unknown]), len(codes))

    @available_if(_has_classes)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns P(y | x), shape (rows, classes), in the order of `classes_`."""
        probabilities: NDArray[np.float64] = np.exp(self.predict_log_proba(X))
        return probabilities

    @available_if(_has_classes)  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> NDArray[Any]:
        """Returns the most probable class of every row; ties go to the first."""
        best: NDArray[Any] = self.classes_[np.argmax(self.predict_log_proba(X), axis=1)]
        return best

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Returns sampled rows, shape (n_samples, features), without classes.

        Values of discretised columns are uniform within their range.

        Args:
            n_samples: at least 0.
            random_state: see scikit-learn.
        """
        check_is_fitted(self)
        generator = check_random_state(random_state)
        seed = int(generator.randint(1 << 31))
        drawn = sample(self.model_, n_samples, seed)
        features = self.coders_[: self.n_features_in_]
        columns = [coder.decoded(row, generator) for coder, row in zip(features, drawn, strict=False)]
        kinds = {column.dtype.kind for column in columns}
        if not kinds <= set("biuf"):
            columns = [column.astype(object) for column in columns]
        return np.column_stack(columns)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
