"""What the estimators share: reading of rows by the rules of `jt.learn`, the data check, learning, coding."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from jtsolve.backends.parse import parse_backend
from jtsolve.core.machine import memory_bytes
from jtsolve.core.version import __version__
from jtsolve.errors import ChoiceError
from jtsolve.estimator.rows import Weights, features_of
from jtsolve.models.learning.fit import fit
from jtsolve.models.learning.learner import Learner
from jtsolve.models.rows import open_rows
from jtsolve.scoring.registry import named_score
from jtsolve.scoring.score import is_discrete
from jtsolve.tables.check import require_none
from jtsolve.tables.frames import FrameStyle, is_pandas, label_of
from jtsolve.tables.gatherer import Intake
from jtsolve.tables.options import Coding, Discretisation
from jtsolve.tables.raw import GAP
from jtsolve.tables.reading import checked, read_declarations, read_raw
from jtsolve.tables.selection import with_gaps
from jtsolve.tables.table import DataTable
from jtsolve.wording import ESTIMATORS, in_python, python_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl
    from numpy.typing import NDArray

    from jtsolve.models.columns import Column
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.scoring.score import DiscreteScore
    from jtsolve.tables.check import Finding
    from jtsolve.tables.options import Missing
    from jtsolve.tables.raw import RawTable

UNSEEN = -2
"""Code of a value that training did not have."""

_MISSING = ("state", "drop-rows", "impute-mode", "refuse")


class DataWarning(UserWarning):
    """A finding of the data check in training data: what will spoil the answer, and how to fix it."""


class Classes(NamedTuple):
    """The classes of rows.

    Attributes:
        name: of their column.
        values: the different ones, sorted.
        codes: shape (rows,), the position of each row's.
    """

    name: str
    values: NDArray[Any]
    codes: NDArray[np.intp]

    def column(self) -> pl.Series:
        """Returns the column, of declared states."""
        import polars as pl

        labels = list(map(label_of, self.values))
        return pl.Series(labels, dtype=pl.Enum(labels)).gather(self.codes)


class Training(NamedTuple):
    """Rows to learn from.

    Attributes:
        raw: the columns as read.
        table: the same, coded; its weights are counts of `weights.unit`.
        weights: of the rows.
        style: how X held the values that are states.
    """

    raw: RawTable
    table: DataTable
    weights: Weights
    style: FrameStyle

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return self.table.total * self.weights.unit


class TreeEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators; `JunctionTreeDensity` explains the parameters."""

    def _read(
        self,
        X: Any,
        features: Mapping[str, Any],
        sample_weight: Any = None,
        classes: Classes | None = None,
        missing: Missing | None = None,
    ) -> Training:
        """Returns the rows to learn from; checks the parameters, and runs the data check.

        Args:
            X: shape (rows, features).
            features: its columns, by name.
            sample_weight: shape (rows,), or None.
            classes: of the rows, a further column; or None.
            missing: see `Coding`; None for the parameter of this name.
        """
        self._require_parameters()
        columns = values = dict(features)
        if classes is not None:
            columns = {**columns, classes.name: classes.column()}
            values = {**values, classes.name: classes.values}
        weights = Weights.of(sample_weight, len(next(iter(columns.values()))))
        cut = self.discretise
        schema, declared = read_declarations({} if self.schema is None else self.schema)
        coding = Coding(
            missing=missing or self.missing,
            discretise=Discretisation.parse(cut) if isinstance(cut, str) else cut,
            gaps=self._gaps,
            decimal=self.decimal,
            schema=schema,
            class_column=declared if classes is None else classes.name,
            max_states=self.max_states,
            states=(self.states,) if isinstance(self.states, str) else tuple(self.states),
        )
        raw = weights.applied(read_raw(columns, Intake(together=False)))
        raw = replace(raw, columns=tuple(with_gaps(column, raw, coding) for column in raw.columns))
        with python_words(ESTIMATORS):
            table = checked(raw, coding, "X", size=self.treewidth + 1, tell=self._heed)
        assert isinstance(table, DataTable), "of states"
        remarks = {"rows": table.total * weights.unit, **table.provenance}
        table = replace(table, provenance=MappingProxyType(remarks))
        cuts = table.provenance.get("cuts", {})
        labels = zip(table.names, table.states, strict=True)
        states = {name: own for name, own in labels if name not in cuts}
        style = replace(FrameStyle.of(values, states), pandas=is_pandas(X))
        return Training(raw, table, weights, style)

    def _heed(self, findings: Sequence[Finding]) -> None:
        """Warns of the findings of the data check, or refuses them."""
        if self.strict:
            require_none(findings, "X")
        for finding in findings:
            warnings.warn(in_python(str(finding), ESTIMATORS), DataWarning, stacklevel=5)

    def _require_parameters(self) -> None:
        if getattr(self, "missing", "state") not in _MISSING:
            raise ChoiceError(f"missing={self.missing!r}; choose among {', '.join(_MISSING)}")
        if getattr(self, "unseen", "share") not in ("share", "error"):
            raise ChoiceError(f"unseen={self.unseen!r}; choose share or error")
        if self.smoothing is not None and not self.smoothing > 0:
            raise ChoiceError(
                f"smoothing={self.smoothing}; give a number above 0, so that no row is impossible"
            )

    @property
    def _gaps(self) -> tuple[str, ...]:
        """The words for a missing value."""
        given = self.missing_values
        return tuple(map(label_of, (given,) if np.ndim(given) == 0 else given))

    @property
    def _smoothing(self) -> float:
        """The equivalent sample size of the tables' prior: as given, else that of the score, else 1."""
        return float(self.smoothing if self.smoothing is not None else getattr(self._score, "ess", 1.0))

    @property
    def _score(self) -> DiscreteScore:
        score = named_score(self.local_score) if isinstance(self.local_score, str) else self.local_score
        if not is_discrete(score):
            raise ChoiceError(
                f"the score '{score.name}' is of real numbers; choose a discrete one, such as bic"
            )
        return score

    def _learner(self, weights: Weights) -> Learner:
        """Returns the learner of trees."""
        named = isinstance(self.backend, str)
        backend = (None if self.backend == "auto" else parse_backend(self.backend)) if named else self.backend
        state = self.random_state
        return Learner(
            weights.score(self._score),
            backend,
            self.treewidth,
            self.time,
            threads=self.threads,
            seed=state if isinstance(state, int) else int(check_random_state(state).randint(1 << 31)),
            memory=memory_bytes(self.memory),
        )

    def _learned(self, training: Training) -> JunctionTreeModel:
        """Returns the model of the best tree for some rows."""
        table, unit, learner = training.table, training.weights.unit, self._learner(training.weights)
        with python_words(ESTIMATORS):
            result = learner.search(table)
        assert result.tree is not None, "the learner promises one"
        assert result.score is not None, "trees have one"
        facts = {
            "score": learner.score.name,
            "treewidth_allowed": self.treewidth,
            "backend": result.backend,
            "status": result.status.value,
            "tree_score": result.score * unit,
            "bound": result.bound * unit,
            "seed": learner.seed,
            "jtsolve": __version__,
        }
        plain = replace(table, weights=None, provenance=MappingProxyType({**table.provenance, **facts}))
        each = None if table.weights is None else table.weights * unit
        return fit(result.tree, plain, ess=self._smoothing, weights=each)

    def _codes(self, X: Any, columns: Sequence[Column]) -> NDArray[np.int32]:
        """Returns codes, shape (features, rows); `GAP` for missing values, `UNSEEN` for unseen ones."""
        check_is_fitted(self)
        given = features_of(self, X, reset=False).values()
        features = dict(zip([column.name for column in columns], given, strict=True))
        unseen = UNSEEN if getattr(self, "unseen", "share") == "share" else None
        rows = open_rows(features, list(features), gaps=self._gaps, decimal=self.decimal)
        codes: NDArray[np.int32] = rows.coded(columns, unseen=unseen)
        return codes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def known(codes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Returns codes with unseen values missing, to be summed over."""
    return np.maximum(codes, np.int32(GAP))
