"""`JunctionTreeClassifier`: P(class | x) by one tree over features and class, or by a tree for each class.

The trees of all classes together are a multinet: P(c) P_c(x), each P_c with its own tree (D. Geiger and
D. Heckerman, Artificial Intelligence 82, 1996; N. Friedman, D. Geiger and M. Goldszmidt, Machine Learning 29,
1997, section 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from jtsolve.errors import ChoiceError
from jtsolve.estimator.base import Further, Training, Treatment, TreeEstimator, known, name_of
from jtsolve.models.framed import Model
from jtsolve.models.inference.prediction import state_log_probabilities
from jtsolve.models.messages import log_sum
from jtsolve.tables.raw import GAP
from jtsolve.tables.table import MixedTable
from jtsolve.tables.values import is_missing, label_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.models.mixed import MixedTreeModel
    from jtsolve.models.model import JunctionTreeModel

CLASS = "class"
"""Name of the class column, unless y has a name."""


@dataclass(kw_only=True, eq=False, repr=False)
class JunctionTreeClassifier(ClassifierMixin, TreeEstimator):  # type: ignore[misc]
    """Classification by Bayes' rule from junction trees.

    Missing and unseen values are summed over: they change the probability of a row, but not that of its
    class, unless missing values are a state.

    Args:
        treewidth: of the trees; at least 0.
        trees: "joint": one tree over features and class, with class priors and all else in one score;
            "class-conditional": a tree over the features for each class, learned from its rows.
        discretise: see `JunctionTreeDensity`, which explains the other parameters, too; "mdlp" cuts by the
            class.

    Attributes:
        classes_: the values of y, sorted.
        class_log_prior_: shape (classes,), ln P(class), in nats.
        model_: the `jtsolve.Model` of features and class, of a joint tree.
        models_: the model of the features in each class, of class-conditional trees.
        class_name_: the name of the class column: that of y, or "class".

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = JunctionTreeClassifier(discretise="mdlp").fit(X, y)
    >>> classifier.predict_proba(X[:1]).round(2).tolist()
    [[1.0, 0.0, 0.0]]
    """

    trees: Literal["joint", "class-conditional"] = "joint"
    missing: Treatment = "state"

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **TreeEstimator.CHOICES,
        "trees": ("joint", "class-conditional"),
    }

    def _fit(self, training: Training, run: Run) -> None:
        assert training.further is not None, "y is required"
        self.class_name_, _, self.classes_, _ = training.further
        if self.trees == "joint":
            super()._fit(training, run)
            self._models: tuple[JunctionTreeModel | MixedTreeModel, ...] = (self._model,)
            (shares,) = self._model.posterior([self._model.names[-1:]], {}).tables
        else:
            shares = self._fit_each(training, run)
        self.class_log_prior_ = np.log(shares)

    def _further(self, features: Mapping[str, Any], y: Any) -> Further:
        """Returns the classes of the rows, checked.

        Raises:
            ValueError: there are none, not one for each row, missing ones, or continuous ones.
        """
        name = name_of(y, CLASS, features)
        import polars as pl

        labels = column_or_1d(y, warn=True)
        check_consistent_length(next(iter(features.values())), labels)
        assert_all_finite(labels, input_name="y")
        if labels.dtype == object and any(map(is_missing, labels)):
            raise ValueError("y has missing values; leave out their rows")
        check_classification_targets(labels)
        values, codes = np.unique(labels, return_inverse=True)
        texts = list(map(label_of, values))
        column = pl.Series(texts, dtype=pl.Enum(texts)).gather(codes)
        return Further(name, column, values, {"class_column": name})

    def _fit_each(self, training: Training, run: Run) -> NDArray[np.float64]:
        """Fits a model for each class; returns P(class), smoothed like the tables."""
        table = training.table
        if isinstance(table, MixedTable):
            raise ChoiceError(
                'trees="class-conditional" is for states; cut real columns, or use trees="joint"'
            )
        *rest, classes = table.codes
        times = np.ones(table.rows, dtype=np.int64) if table.weights is None else table.weights
        models: list[JunctionTreeModel] = []
        for code, label in enumerate(table.states[-1]):
            inside = classes == code
            if not inside.any():
                raise ValueError(
                    f"no row of class '{label}' counts; give one a weight, or leave out the class"
                )
            part = replace(
                table,
                names=table.names[:-1],
                states=table.states[:-1],
                codes=np.array(rest)[:, inside],
                gaps=None if table.gaps is None else table.gaps[:-1, inside],
                weights=times[inside],
                provenance=MappingProxyType({**table.provenance, self.class_name_: label}),
            )
            seconds = run.left / (self.classes_.size - code)
            models.append(self._learned(training._replace(table=part), run.part(seconds)))
        self._models = tuple(models)
        self.models_ = tuple(Model(model, training.style) for model in models)
        a = self._smoothing
        counts = np.bincount(classes, times, minlength=self.classes_.size) * table.unit
        shares: NDArray[np.float64] = (counts + a / counts.size) / (counts.sum() + a)
        return shares

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns ln P(class | x), shape (rows, classes), in the order of `classes_`."""
        check_is_fitted(self)
        if self.trees == "joint":
            (model,) = self._models
            columns = model.columns[:-1]
            codes = known(self._codes(X, columns), columns)
            gaps = np.full((1, codes.shape[1]), GAP, dtype=np.int32)
            logs = state_log_probabilities(model, np.vstack([codes, gaps]), len(codes))
        else:
            codes = known(self._codes(X, self._models[0].columns), self._models[0].columns)
            each = [model.log_likelihood(codes) for model in self._models]
            logs = np.array(each).T + self.class_log_prior_
        normalised: NDArray[np.float64] = logs - log_sum(logs, axis=1)[:, None]
        return normalised

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns P(class | x), shape (rows, classes), in the order of `classes_`."""
        probabilities: NDArray[np.float64] = np.exp(self.predict_log_proba(X))
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """Returns the most probable class of every row, shape (rows,); ties go to the first."""
        check_is_fitted(self)
        best: NDArray[Any] = self.classes_[np.argmax(self.predict_log_proba(X), axis=1)]
        return best
