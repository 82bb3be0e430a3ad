"""Single tests of each candidate, given its neighbours in the superset.

`PairTests` takes one test, as PC does; `HeldOutTests` takes repeated cross-validation, as the authors' own
programs do for small regions: an edge stays if the Gaussian likelihood of held-out rows is higher with a
correlation of its ends than without, in every repetition, given all other columns, the neighbours of the one
end, and those of the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.errors import ChoiceError, InputError
from jtsolve.selection.choosing import Given
from jtsolve.selection.independence import dependence
from jtsolve.selection.method import Decision, Task
from jtsolve.selection.pc import PC
from jtsolve.selection.samples import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.selection.samples import Sample


@dataclass(frozen=True, slots=True)
class PairTests:
    """A test of each candidate given all neighbours of the end with fewer; for numbers and states.

    Args:
        test: fisher-z, correlation or bic for numbers, g, chi2 or bic for states; None for fisher-z and g.
        level: α, or the threshold of the test correlation.

    Raises:
        ChoiceError: as `PC`.
    """

    name: ClassVar[str] = "pairs"
    test: str | None = None
    level: float = 0.01

    def __post_init__(self) -> None:
        PC(test=self.test, criterion=Given(self.level))  # refuses what it refuses

    def objection(self, sample: Sample) -> str | None:
        """See `SelectionMethod`."""
        return PC(test=self.test, criterion=Given(self.level)).objection(sample)

    def decide(self, sample: Sample, task: Task, seed: int) -> Decision:
        """See `SelectionMethod`."""
        del seed  # nothing is random
        kept = np.zeros_like(task.candidates)
        for i, j in task.pairs:
            end = i if task.graph[i].sum() <= task.graph[j].sum() else j
            given = [int(v) for v in np.flatnonzero(task.graph[end]) if v not in (i, j)]
            kept[i, j] = kept[j, i] = dependence(sample, i, j, given, self.test, self.level) > 0
        return Decision(kept, None if self.test == "bic" else self.level)


@dataclass(frozen=True, slots=True)
class HeldOutTests:
    """Repeated cross-validation of each candidate; for numbers.

    Args:
        times: repetitions, all of which have to keep an edge.
        folds: of each repetition, at least 2.

    Raises:
        ChoiceError: a number is too small.
    """

    name: ClassVar[str] = "held-out"
    times: int = 50
    folds: int = 5

    def __post_init__(self) -> None:
        if self.times < 1 or self.folds < 2:  # noqa: PLR2004 - one to learn from, one to test on
            raise ChoiceError(f"{self.times} repetitions of {self.folds} folds; give at least 1 of 2")

    def objection(self, sample: Sample) -> str | None:
        """See `SelectionMethod`."""
        return None if isinstance(sample, Moments) else "held-out tests are for numbers, not for states"

    def decide(self, sample: Sample, task: Task, seed: int) -> Decision:
        """See `SelectionMethod`."""
        assert isinstance(sample, Moments), "asked before"
        folds = self.split(sample, seed)
        kept = np.zeros_like(task.candidates)
        everything = np.ones(sample.n, dtype=np.bool_)
        for i, j in task.pairs:
            kept[i, j] = kept[j, i] = all(
                self.passes(sample, i, j, around, folds)
                for around in (everything, task.graph[i], task.graph[j])
            )
        return Decision(kept)

    def split(self, sample: Moments, seed: int) -> NDArray[np.int64]:
        """Returns the fold of each row in each repetition, shape (times, rows).

        Raises:
            InputError: there are no rows, or too few.
        """
        if sample.values is None or sample.rows < 2 * self.folds:
            reason = f"{self.folds} folds need {2 * self.folds} or more"
            raise InputError("table", "rows", reason, "give more rows, or take another method")
        draw = np.random.default_rng(seed)
        order = np.arange(sample.rows) % self.folds
        return np.array([draw.permutation(order) for _ in range(self.times)])

    def passes(
        self, sample: Moments, i: int, j: int, around: NDArray[np.bool_], folds: NDArray[np.int64]
    ) -> bool:
        """Tells whether an edge passes every repetition given some columns.

        Raises:
            InputError: there are too few rows for as many columns.
        """
        from jtsolve.selection.kernels.independence import dependent_out_of_sample

        given = [v for v in np.flatnonzero(around) if v not in (i, j)]
        least = sample.rows * (self.folds - 1) // self.folds - 1
        if len(given) + 2 > least:
            reason = f"{sample.rows} are too few for a test given {len(given)} columns"
            raise InputError(
                "table", "rows", reason, "give more rows, or take another method or a sparser superset"
            )
        columns = np.array([i, j, *given], np.int64)
        return bool(dependent_out_of_sample(sample.values, columns, folds, self.folds))
