"""Choice by validation rows, around any learner: of a prior, or among candidates, until one is no better."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

import numpy as np

from jtsolve.core.scores import StoppedError
from jtsolve.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.models.answers import Rows
    from jtsolve.tables.table import DataTable

Model = TypeVar("Model")
Candidate = TypeVar("Candidate")

PRIORS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""Equivalent sample sizes among which validation rows choose: half a decade apart, from almost none to 1000
rows."""


class HeldOut(NamedTuple):
    """Validation rows, and how often each counts.

    Attributes:
        rows: codes and numbers, shape (columns, rows); see `protocol.Distribution`.
        weights: shape (rows,), positive; None for 1.
    """

    rows: Rows
    weights: NDArray[Any] | None = None


def likeliest(
    models: Iterable[Model], rows: DataTable | Rows, weights: NDArray[Any] | None = None
) -> tuple[Model, float]:
    """Returns the model under which rows are likeliest, the first of equals, and their mean log-likelihood.

    Args:
        models: at least one.
        rows: as for `log_likelihood`.
        weights: of the rows, shape (rows,); None for 1.
    """
    best: Any = None
    most = -inf
    for model in models:
        mean = float(np.average(cast("Any", model).log_likelihood(rows), weights=weights))
        if best is None or mean > most:
            best, most = model, mean
    return best, most


@dataclass(slots=True)
class Best(Generic[Model]):
    """The model under which validation rows are likeliest, among those tried so far.

    Attributes:
        model: the model; None before the first trial.
        mean: its mean log-likelihood per validation row, in nats.
        tried: the facts and the mean of every trial, in order, as JSON values.
    """

    model: Model | None = None
    mean: float = -inf
    tried: list[dict[str, Any]] = field(default_factory=list)

    def search(
        self,
        candidates: Iterable[Candidate],
        learn: Callable[[Candidate], tuple[Model, float]],
        facts: Callable[[Candidate], Mapping[str, Any]],
        run: Run,
    ) -> bool:
        """Tries candidates in order, until one is no better than the best or the run stops.

        Args:
            candidates: at least one, the most promising or the cheapest first.
            learn: returns the model of a candidate, and its mean log-likelihood per validation row, in nats.
            facts: of a candidate, for the record and for the display.
            run: its end ends the trials; the best model so far is kept.

        Returns:
            Whether the best model is a new one.

        Raises:
            LimitError: the run ended before the first model, or a candidate exceeds another limit.
            StoppedError: the run was interrupted before the first model.
        """
        before = self.mean
        for candidate in candidates:
            try:
                model, mean = learn(candidate)
            except (LimitError, StoppedError):
                if self.model is None or run.stop is None:
                    raise
                break
            known = facts(candidate)
            self.tried.append({**known, "validation_log_likelihood": mean})
            words = ", ".join(f"{name} {value}" for name, value in known.items())
            run.progress(note=f"{words}: {mean:.4f} nats per validation row")
            is_better = self.model is None or mean > self.mean
            if is_better:
                self.model, self.mean = model, mean
            if not is_better or run.stop is not None:
                break
        return self.mean > before
