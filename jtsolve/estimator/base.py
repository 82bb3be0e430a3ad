"""Shared by the estimators: a study of their rows, its run, the data check, and the coding of other rows."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, get_args

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from jtsolve.core.machine import allow_memory, memory_bytes, memory_of_call
from jtsolve.core.run import Console, Limits, Run
from jtsolve.errors import ChoiceError, at
from jtsolve.estimator.rows import checked_features, checked_weights, is_frame
from jtsolve.models.answers import unused
from jtsolve.models.columns import hidden_of
from jtsolve.models.framed import Model
from jtsolve.models.learning.tree import Tree
from jtsolve.models.rows import open_rows
from jtsolve.options import BACKEND, Door
from jtsolve.scoring.registry import REGISTRY as SCORES
from jtsolve.scoring.score import DEFAULT_SCORE, is_gaussian
from jtsolve.study.arguments import backend_of, treewidth_of
from jtsolve.study.data import Data
from jtsolve.study.fitting import fitted
from jtsolve.study.study import Study
from jtsolve.tables.frames import FrameStyle, is_pandas
from jtsolve.tables.options import DATA, MAX_STATES, Habits
from jtsolve.tables.raw import GAP
from jtsolve.tables.reading import reading_of
from jtsolve.tables.selection import in_units
from jtsolve.tables.table import DataTable, MixedTable
from jtsolve.tables.values import label_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.core.backend import Backend
    from jtsolve.models.columns import Column, RealColumn
    from jtsolve.models.learning.task import ModelKind
    from jtsolve.models.rows import FileRows
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.tables.options import Decimal, Discretisation

UNSEEN = -2
"""Code of a value that does not occur in training."""

Treatment: TypeAlias = Literal["state", "em", "drop-rows", "impute-mode", "refuse"]
"""Treatments of missing values in training."""
_WEIGHTS = "sample_weight"


class DataWarning(UserWarning):
    """A finding of the data check in training data: a fault that will spoil the answer, and its remedy."""


class Further(NamedTuple):
    """A variable to predict, a column besides the features.

    Attributes:
        name: of the column.
        column: shape (rows,), as it is read.
        values: shape (m,), the different values that it represents, or its numbers.
        role: the option of data that declares the column.
    """

    name: str
    column: Any
    values: NDArray[Any]
    role: dict[str, Any]


class Training(NamedTuple):
    """Rows to learn from.

    Attributes:
        study: of the features, and of the classes or target if there are any.
        table: the rows of positive weight, merged if they are many.
        rows: their features, uncoded and never merged.
        times: shape (rows,), their weights as counts of `table.unit`; None for 1 each.
        style: how X held the values that are states.
        is_frame: whether X is a frame.
        further: the variable to predict; None for none.
    """

    study: Study
    table: DataTable | MixedTable
    rows: FileRows
    times: NDArray[np.int64] | None
    style: FrameStyle
    is_frame: bool
    further: Further | None


@dataclass(kw_only=True, eq=False, repr=False)
class TreeEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators, whose fields are parameters of all; `JunctionTreeDensity` explains them."""

    treewidth: int = field(default=2, kw_only=False)
    local_score: str | ScoreFunction = DEFAULT_SCORE
    smoothing: float | None = None
    backend: str | Backend = BACKEND.default
    discretise: str | Discretisation | None = "quantile:4"
    states: str | tuple[str, ...] = ()
    schema: str | Path | Mapping[str, Any] | None = None
    max_states: int = MAX_STATES.default
    strict: bool = False
    missing_values: Any = ()
    decimal: Decimal = "point"
    time: float | None = None
    memory: float | None = None
    threads: int | None = None
    random_state: Any = 0

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {"missing": get_args(Treatment)}
    """The values of parameters that have few."""

    @at(Door.ESTIMATOR)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learns the tree and fits its parameters.

        Args:
            X: shape (rows, features): an array or a frame.
            y: shape (rows,): the class of each row, or its target, a number; ignored where nothing is
                predicted.
            sample_weight: shape (rows,): how often each row counts; fractions only for bic, aic, mdl and ml.

        Raises:
            ValueError: a shape, a class, a target or a weight is invalid.
            InputError: a column cannot be read as states, or as numbers.
            ChoiceError: a parameter is invalid.
            LimitError: the backend found no tree within the limits.
        """
        return self._fitted(X, y, sample_weight)

    def _fitted(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        features = checked_features(self, X, reset=True)
        further = self._further(features, y)
        with running(self) as run:
            self.require_parameters()
            self._fit(self._read(X, features, run, sample_weight, further), run)
        return self

    def _further(self, features: Mapping[str, Any], y: Any) -> Further | None:  # noqa: ARG002
        """Returns the variable to predict, checked; None for none."""
        return None

    def _fit(self, training: Training, run: Run) -> None:
        """Sets the attributes of a fitted estimator."""
        self._model = self._learned(training, run)
        self.model_ = Model(self._model, training.style)

    def _read(
        self, X: Any, features: Mapping[str, Any], run: Run, sample_weight: Any, further: Further | None
    ) -> Training:
        """Returns the rows to learn from, after the data check; see `fit`."""
        given = {option.name: getattr(self, option.name) for option in DATA if hasattr(self, option.name)}
        given["missing_values"] = self._gaps
        columns = values = dict(features)
        if further is not None:
            given |= further.role
            columns = {**columns, further.name: further.column}
            values = {**values, further.name: further.values}
        weights = checked_weights(sample_weight, len(next(iter(features.values()))))
        if weights is not None:
            given["weights"] = unused(_WEIGHTS, columns)
            columns = {**columns, given["weights"]: weights}
        data = Data(columns, reading_of(given))
        width = treewidth_of(self.treewidth) if "treewidth" in self._kind.uses else None
        study = Study(data, self._score, width, backend=backend_of(self.backend))
        table = study.read(run)
        assert isinstance(table, DataTable | MixedTable), "the score is of states, or mixed"
        self._habits = Habits.of(table)
        rows, times = open_rows(features, list(features), habits=self._habits), None
        if weights is not None:
            times, _ = in_units(weights)
            rows = replace(rows, columns=tuple(column.where(times > 0) for column in rows.columns))
            times = times[times > 0]
        names = FrameStyle.of(X, {}).names if is_frame(X) else {}
        style = replace(replace(data, source=values).style(table), pandas=is_pandas(X), names=names)
        return Training(study, table, rows, times, style, is_frame(X), further)

    def require_parameters(self) -> None:
        """Checks the parameters.

        Raises:
            ChoiceError: one is invalid.
        """
        for name, known in self.CHOICES.items():
            if getattr(self, name) not in known:
                raise ChoiceError(f"{name}={getattr(self, name)!r}; choose among {', '.join(known)}")
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
    def _score(self) -> ScoreFunction:
        score = SCORES.chosen(self.local_score, "name")
        if is_gaussian(score):
            raise ChoiceError(
                f"the score '{score.name}' is of real numbers alone; choose a discrete one, such as bic, or "
                "a mixed one, such as cg"
            )
        return score

    @property
    def _kind(self) -> ModelKind:
        """The kind of model, which may learn no trees of a treewidth."""
        return Tree()

    def _learned(self, training: Training, run: Run) -> Any:
        """Returns the model of some rows."""
        table, smoothing = training.table, self.smoothing
        return fitted(self._kind, training.study, run, table=table, smoothing=smoothing).model

    @at(Door.ESTIMATOR)
    def _codes(self, X: Any, columns: Sequence[Column | RealColumn]) -> NDArray[Any]:
        """Returns codes and real numbers, shape (columns, rows).

        Missing and hidden values are `GAP`, or NaN beside real numbers; unseen states are `UNSEEN`.
        """
        check_is_fitted(self)
        given, hidden = checked_features(self, X, reset=False).values(), hidden_of(columns)
        names = [column.name for column in columns]
        features = dict(zip([name for name in names if name not in hidden], given, strict=True))
        rows = open_rows(features, names, habits=self._habits, hidden=hidden)
        codes: NDArray[Any] = rows.coded(columns, unseen=UNSEEN)
        return codes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


@contextmanager
def running(estimator: Any) -> Iterator[Run]:
    """Yields the run of a fit; findings of the data check become warnings where `fit` was called."""
    state, found = estimator.random_state, list[object]()
    seed = state if isinstance(state, int) else int(check_random_state(state).randint(1 << 31))
    most = memory_bytes(estimator.memory)
    try:
        with memory_of_call():
            allow_memory(most)
            limits = Limits(estimator.time, most, estimator.threads, seed)
            yield Run(limits, Console(warn=lambda _title, findings: found.extend(findings)))
    finally:
        for finding in found:
            warnings.warn(
                str(finding), DataWarning, stacklevel=6
            )  # above `fit`, `_fitted`, and a context of each


def name_of(y: Any, default: str, features: Mapping[str, Any]) -> str:
    """Returns the name of a variable to predict, different from those of the features.

    Args:
        y: the variable, perhaps with a name; None if there is none.
        default: its name otherwise.
        features: by name.

    Raises:
        ValueError: there is no variable.
    """
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None; give a value for each row")
    own = getattr(y, "name", None)
    return unused(own if isinstance(own, str) and own else default, features)


def known(codes: NDArray[Any], columns: Sequence[Column | RealColumn]) -> NDArray[Any]:
    """Returns codes, shape (columns, rows), with unseen values as missing, to be summed over."""
    coded = np.array([[column.states is not None] for column in columns])
    return np.where(coded, np.maximum(codes, np.int32(GAP)), codes)
