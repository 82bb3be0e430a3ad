"""`JunctionTreeDensity`: P(x) by a junction tree, or by another kind of model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from jtsolve.estimator.base import UNSEEN, Training, Treatment, TreeEstimator, known
from jtsolve.estimator.values import values_of
from jtsolve.options import MODEL
from jtsolve.study.kinds import MODELS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.models.columns import Column, RealColumn
    from jtsolve.models.learning.task import ModelKind


@dataclass(kw_only=True, eq=False, repr=False)
class JunctionTreeDensity(DensityMixin, TreeEstimator):  # type: ignore[misc]
    """Density estimation by a junction tree, by a mixture, or by another kind of model.

    Columns become states by the rules of `jt.learn`. The defaults are those of `jtsolve fit --treewidth 2`,
    with `--discretise quantile:4 --missing state`. A value that does not occur in training has the share that
    the prior gives to one more state, for any rest of the row, a / ((states + 1) (rows + a)). States that a
    categorical column declares are not unseen.

    Args:
        treewidth: of the trees; at least 0.
        local_score: name of a discrete score ("bic", "bdeu", …) or a mixed one ("cg"), or the score itself;
            `score` is a method.
        smoothing: equivalent sample size a of the prior of the tables, above 0; None for that of the score,
            else 1.
        backend: a name as on the command line, or a `Backend`; "auto" stands for "forward" where a model has
            many trees.
        model: the kind of model with options, as in "mixture:components=4", or the kind itself; `jtsolve
            models` lists them. Kinds without trees of a treewidth ignore `treewidth`.
        discretise: "quantile:4", "width:4", "mdlp:COLUMN"; None to refuse columns of many different numbers,
            or to keep them real with a mixed score.
        states: names of columns of numbers that are not cut. Without names, columns are x0, x1, ….
        schema: declared states (texts, in order) or cuts (numbers) by column, {"x0": ["no", "yes"]}, or a
            file of them.
        max_states: columns with more states are refused.
        strict: whether findings of the data check are errors; otherwise they are a `DataWarning` each.
        missing_values: a value, or several, that mean a missing value, besides None, NaN and NA.
        decimal: mark of fractions in columns of text, point or comma.
        missing: in training, "state", "em", "drop-rows", "impute-mode" or "refuse". Elsewhere, missing values
            without a state are summed over.
        time: seconds for the whole fit, which then keeps the best model so far; None for no limit.
        memory: gigabytes; None for 80 % of the free memory.
        threads: None for all cores.
        random_state: seed of everything random; see scikit-learn.

    Attributes:
        model_: the `jtsolve.Model`, with queries by names and values.
        n_features_in_: number of features.
        feature_names_in_: their names, if X has names.

    >>> import numpy as np
    >>> X = np.array([[0, 0], [0, 0], [1, 1], [1, 1], [1, 1], [0, 1]])
    >>> density = JunctionTreeDensity(treewidth=1).fit(X)
    >>> density.score_samples(X).shape
    (6,)
    """

    model: str | ModelKind = MODEL.default
    missing: Treatment = "state"

    @property
    def _kind(self) -> ModelKind:
        return MODELS.chosen(self.model, "fit")

    def _fit(self, training: Training, run: Run) -> None:
        super()._fit(training, run)
        self._values, self._is_frame = values_of(training), training.is_frame
        a, rows = self._smoothing, training.table.total
        self._log_shares = np.array(
            [
                0.0 if column.states is None else np.log(a / ((len(column.states) + 1) * (rows + a)))
                for column in self._model.columns
            ]
        )

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Returns ln P(x) for every row, in nats, shape (rows,)."""
        check_is_fitted(self)
        codes = self._codes(X, self._model.columns)
        logs: NDArray[np.float64] = self._model.log_likelihood(known(codes, self._model.columns))
        logs += self._log_shares @ (codes == UNSEEN)
        return logs

    def score(self, X: Any, y: Any = None) -> float:
        """Returns the mean of ln P(x), in nats; y is ignored."""
        del y
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Returns sampled rows, shape (n_samples, features): a frame if X was one.

        Values of cut columns are uniform within their range.

        Args:
            n_samples: at least 0.
            random_state: see scikit-learn.
        """
        check_is_fitted(self)
        generator = check_random_state(random_state)
        codes = self._model.sample(n_samples, int(generator.randint(1 << 31)))
        visible = [place for place, column in enumerate(self._model.columns) if not column.hidden]
        codes = codes[visible]
        drawn = [values.drawn(row, generator) for values, row in zip(self._values, codes, strict=True)]
        if self._is_frame:
            columns = [self._model.columns[place] for place in visible]
            return self._framed(columns, codes, drawn)
        kinds = {column.dtype.kind for column in drawn}
        return np.column_stack(drawn if kinds <= set("biuf") else [column.astype(object) for column in drawn])

    def _framed(
        self, columns: list[Column | RealColumn], codes: NDArray[Any], drawn: list[NDArray[Any]]
    ) -> Any:
        """Returns drawn rows as a frame."""
        style = self.model_.style
        made = []
        for column, values, row, numbers in zip(columns, self._values, codes, drawn, strict=True):
            if values.edges is None:
                made.append(column.series(style, row))
            else:
                made.append(style.numbers(column.name, numbers))
        return style.frame(made)
