"""What to make of the cells of a data file: the choices of the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from jtsolve.errors import ChoiceError

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
        method: "quantile": cuts are the observed values at equal shares of the file's rows; "width": ranges
            of equal width between the least and the largest value.
        bins: the number of ranges, at least 2; ties can leave fewer.

    Raises:
        ChoiceError: a value is not on offer.
    """

    method: Literal["quantile", "width"]
    bins: int

    def __post_init__(self) -> None:
        if self.method not in ("quantile", "width") or self.bins < 2:  # noqa: PLR2004 - one range tells nothing
            raise ChoiceError(
                f"no discretisation '{self.method}:{self.bins}'; give quantile:B or width:B with B > 1"
            )

    @classmethod
    def parse(cls, text: str) -> Discretisation:
        """Returns what "quantile:4" or "width:4" stands for.

        >>> Discretisation.parse("quantile:4")
        Discretisation(method='quantile', bins=4)
        """
        method, _, bins = text.partition(":")
        return cls(method, int(bins) if bins.isdecimal() else 0)  # type: ignore[arg-type]  # checked there

    def cuts(self, numbers: NDArray[np.float64]) -> tuple[float, ...]:
        """Returns the cuts between the ranges of a column, increasing, all below the largest number."""
        shares = np.arange(1, self.bins) / self.bins
        if self.method == "quantile":
            cuts = np.quantile(numbers, shares, method="inverted_cdf")
        else:
            cuts = numbers.min() + shares * (numbers.max() - numbers.min())
        return tuple(float(cut) for cut in np.unique(cuts) if cut < numbers.max())


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
    max_states: int = 1000

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            raise ChoiceError(
                f"missing values cannot be handled by '{self.missing}', but by {', '.join(MISSING)}"
            )
        if self.max_states < 1:
            raise ChoiceError(f"at most {self.max_states} states leave no column; give a number of 1 or more")
