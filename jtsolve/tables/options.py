"""What to make of the cells of a data file: the choices of the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from jtsolve.errors import ChoiceError
from jtsolve.tables.mdlp import mdlp_cuts

if TYPE_CHECKING:
    from numpy.typing import NDArray

Missing: TypeAlias = Literal["refuse", "state", "drop-rows", "drop-columns", "impute-mode"]
MISSING: tuple[str, ...] = get_args(Missing)

GAPS = ("", "?", "NA", "N/A", "NaN", "nan", "null")
"""Words that stand for a missing value in text that has no mark of its own for it."""

Schema: TypeAlias = Mapping[str, "tuple[str, ...] | tuple[float, ...]"]
"""States (texts) or cuts (numbers, increasing) by the name of a column."""


@dataclass(frozen=True, slots=True)
class Discretisation:
    """How to cut numbers into ranges; a number that equals a cut lies below it.

    Args:
        method: "quantile": cuts are the observed values at equal shares of the rows; "width": ranges of equal
            width between the least and the largest value; "mdlp": cuts that tell of a class; see `mdlp`.
        bins: the number of ranges, at least 2; ties can leave fewer. 0 for mdlp, which finds it.
        by: of mdlp: the name of the column of classes; None for the class column of the coding.

    Raises:
        ChoiceError: a value is not on offer.
    """

    method: Literal["quantile", "width", "mdlp"]
    bins: int = 0
    by: str | None = None

    def __post_init__(self) -> None:
        if self.method == "mdlp":
            fits = self.bins == 0
        else:
            fits = self.method in ("quantile", "width") and self.bins > 1 and self.by is None
        if not fits:
            raise ChoiceError(
                f"no discretisation '{self.method}:{self.bins}'; give quantile:B or width:B with B > 1, or "
                "mdlp:CLASS, CLASS being the name of a column"
            )

    @classmethod
    def parse(cls, text: str) -> Discretisation:
        """Returns what "quantile:4", "width:4", "mdlp:CLASS" or "mdlp" stands for.

        >>> Discretisation.parse("quantile:4")
        Discretisation(method='quantile', bins=4, by=None)
        >>> Discretisation.parse("mdlp:ill").by
        'ill'
        """
        method, _, rest = text.partition(":")
        if method == "mdlp":
            return cls("mdlp", by=rest or None)
        return cls(method, int(rest) if rest.isdecimal() else 0)  # type: ignore[arg-type]  # checked there

    def cuts(
        self,
        numbers: NDArray[np.float64],
        times: NDArray[np.int64] | None = None,
        classes: NDArray[np.integer[Any]] | None = None,
    ) -> tuple[float, ...]:
        """Returns the cuts between the ranges of a column, increasing, all below the largest number.

        Args:
            numbers: shape (rows,).
            times: shape (rows,): how often each row counts; None for once.
            classes: shape (rows,), from 0: for mdlp.
        """
        if self.method == "mdlp":
            assert classes is not None, "the coding sees to it"
            return mdlp_cuts(numbers, classes, times)
        if self.method == "quantile":
            values, place = np.unique(numbers, return_inverse=True)
            counts = np.bincount(place) if times is None else _summed(times, place, values.size)
            up_to = np.cumsum(counts)
            # The least value that at least i of `bins` shares of the rows do not exceed; in whole numbers.
            shares = np.arange(1, self.bins) * up_to[-1]
            cuts = values[np.searchsorted(up_to * self.bins, shares)]
        else:
            shares = np.arange(1, self.bins) / self.bins
            cuts = numbers.min() + shares * (numbers.max() - numbers.min())
        return tuple(float(cut) for cut in np.unique(cuts) if cut < numbers.max())


def _summed(times: NDArray[np.int64], place: NDArray[np.intp], size: int) -> NDArray[np.int64]:
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, place, times)
    return sums


@dataclass(frozen=True, slots=True)
class Coding:
    """What to make of the cells of a file.

    Args:
        columns: names of the columns to keep, in this order; None for all in the order of the file.
        drop: names of columns to leave out.
        weights: the name of a column that tells how often each row occurs, or None.
        missing: what to do about missing values: "refuse" with the counts; a "state" of its own; "drop-rows"
            that have one; "drop-columns" that have one; "impute-mode": put in the column's most frequent
            state, the first in order among equals.
        gaps: words that stand for a missing value in files that have no mark for it.
        discretise: how to cut continuous columns into states, or None to refuse them.
        schema: declared states or cuts of some columns.
        class_column: the name of the column of classes, by which mdlp cuts, or None; it is a column like
            others otherwise.
        max_states: the largest number of states of a column whose states are not declared.

    Raises:
        ChoiceError: a value is not on offer.
    """

    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    weights: str | None = None
    missing: Missing = "refuse"
    gaps: tuple[str, ...] = GAPS
    discretise: Discretisation | None = None
    schema: Schema = field(default_factory=lambda: MappingProxyType({}))
    class_column: str | None = None
    max_states: int = 1000

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            raise ChoiceError(
                f"missing values cannot be handled by '{self.missing}', but by {', '.join(MISSING)}"
            )
        if self.discretise is not None and self.discretise.method == "mdlp" and self.classes is None:
            raise ChoiceError(
                "mdlp cuts columns so that they tell of a class, and none is named; give --discretise "
                "mdlp:CLASS or --class"
            )
        if self.max_states < 1:
            raise ChoiceError(f"at most {self.max_states} states leave no column; give a number of 1 or more")

    @property
    def classes(self) -> str | None:
        """The column by which mdlp cuts; else the class column, if there is one."""
        by = None if self.discretise is None else self.discretise.by
        return by or self.class_column

    def reads(self, name: str) -> bool:
        """Tells whether a column of a file is needed."""
        if name in (self.weights, self.classes):
            return True
        return name not in self.drop and (self.columns is None or name in self.columns)
