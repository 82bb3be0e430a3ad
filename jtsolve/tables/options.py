"""User options for reading data: columns, missing values, discretisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
"""Words that mean a missing value in text formats, which have no null."""


def gap_words(gaps: Sequence[str], *, typed: bool) -> tuple[str, ...]:
    """Returns the words that mean a missing value: in typed tables, which have null, only chosen ones.

    >>> gap_words(GAPS, typed=True), gap_words(["-9"], typed=True)
    ((), ('-9',))
    """
    return () if typed and tuple(gaps) == GAPS else tuple(gaps)


def gaps_of(data: Any) -> tuple[str, ...]:
    """Returns the words for a missing value that a table, or the model of one, has in its provenance."""
    return tuple(getattr(data, "provenance", {}).get("missing_value_words", GAPS))


Decimal: TypeAlias = Literal["point", "comma"]
DECIMALS: tuple[str, ...] = get_args(Decimal)


def decimal_of(data: Any) -> Decimal:
    """Returns the decimal mark that a table, or the model of one, has in its provenance."""
    return "comma" if getattr(data, "provenance", {}).get("decimal") == "comma" else "point"


Schema: TypeAlias = Mapping[str, "tuple[str, ...] | tuple[float, ...]"]
"""States (strings) or increasing cuts (numbers) by column name."""


_MOST_BINS = 1_000_000


@dataclass(frozen=True, slots=True)
class Discretisation:
    """How to cut numbers into ranges; a number equal to a cut lies below it.

    Args:
        method: "quantile": ranges with equally many rows, cut at observed values; "width": ranges of equal
            width; "mdlp": entropy-based cuts by a class column, see `mdlp`.
        bins: number of ranges, from 2 to a million; ties can leave fewer. 0 for mdlp, which determines it.
        by: class column of mdlp; None for that of the coding.

    Raises:
        ChoiceError: an invalid method, number of bins, or combination.
    """

    method: Literal["quantile", "width", "mdlp"]
    bins: int = 0
    by: str | None = None

    def __post_init__(self) -> None:
        if self.method == "mdlp":
            fits = self.bins == 0
        else:
            fits = self.method in ("quantile", "width") and 1 < self.bins <= _MOST_BINS and self.by is None
        if not fits:
            raise ChoiceError(
                f"no discretisation '{self.method}:{self.bins}'; give quantile:B or width:B with B from 2 to "
                f"{_MOST_BINS}, or mdlp:CLASS, where CLASS is a column"
            )

    @classmethod
    def parse(cls, text: str) -> Discretisation:
        """Parses "quantile:4", "width:4", "mdlp:CLASS" or "mdlp".

        >>> Discretisation.parse("quantile:4")
        Discretisation(method='quantile', bins=4, by=None)
        >>> Discretisation.parse("mdlp:ill").by
        'ill'
        """
        method, _, rest = text.partition(":")
        if method == "mdlp":
            return cls("mdlp", by=rest or None)
        bins = int(rest) if rest.isdecimal() and len(rest) <= len(str(_MOST_BINS)) else 0
        return cls(method, bins)  # type: ignore[arg-type]  # __post_init__ checks

    def cuts(
        self,
        numbers: NDArray[np.float64],
        times: NDArray[np.int64] | None = None,
        classes: NDArray[np.integer[Any]] | None = None,
    ) -> tuple[float, ...]:
        """Returns the cuts between the ranges of a column, increasing, all below the largest number.

        Args:
            numbers: shape (rows,).
            times: shape (rows,), multiplicity of each row; None for 1.
            classes: shape (rows,), codes from 0; required by mdlp.
        """
        if self.method == "mdlp":
            assert classes is not None, "the coding passes them"
            return mdlp_cuts(numbers, classes, times)
        if self.method == "quantile":
            values, place = np.unique(numbers, return_inverse=True)
            counts = np.bincount(place) if times is None else _summed(times, place, values.size)
            up_to = np.cumsum(counts)
            # Cut i is the least value with at least i/bins of the rows up to it; exact in integers.
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
    """How to code the cells of a file.

    Args:
        columns: columns to keep, in this order; None for all, in file order.
        drop: columns to leave out.
        weights: column with the multiplicity of each row, or None.
        missing: treatment of missing values: "refuse" reports the counts; "state" adds a state; "drop-rows"
            and "drop-columns" leave out rows or columns with gaps; "impute-mode" fills in the column's most
            frequent state, the first of ties.
        gaps: words that mean a missing value; the default ones only in text formats.
        discretise: how to cut continuous columns into states; None rejects them.
        schema: declared states or cuts of some columns.
        class_column: class column for mdlp, or None; otherwise a column like any other.
        max_states: most states of a column without declared states.
        states: columns whose values are states even if they look like quantities; never cut.
        decimal: mark of fractions in text, of files and of frames; with "comma", 1.234,5 is 1234.5.

    Raises:
        ChoiceError: an invalid value or combination.
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
    states: tuple[str, ...] = ()
    decimal: Decimal = "point"

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            raise ChoiceError(
                f"'{self.missing}' is not a treatment of missing values; choose among {', '.join(MISSING)}"
            )
        if self.discretise is not None and self.discretise.method == "mdlp" and self.classes is None:
            raise ChoiceError(
                "mdlp needs a class column, and none is named; give --discretise mdlp:CLASS or --class"
            )
        if self.decimal not in DECIMALS:
            raise ChoiceError(f"'{self.decimal}' is not a decimal mark; choose among {', '.join(DECIMALS)}")
        if self.max_states < 1:
            raise ChoiceError(f"the largest number of states is {self.max_states}; give 1 or more")
        for word in self.gaps:  # which models remember, in files
            if word != word.encode(errors="replace").decode():
                raise ChoiceError(f"the missing value '{word}' is not valid text; give words in UTF-8")

    @property
    def classes(self) -> str | None:
        """The column by which mdlp cuts, or else the class column, if any."""
        by = None if self.discretise is None else self.discretise.by
        return by or self.class_column

    def declares(self, name: str) -> bool:
        """Tells whether the states, or cuts, of a column are the user's own choice."""
        return name in self.schema or name in self.states

    def reads(self, name: str) -> bool:
        """Tells whether a column of the file is needed."""
        if name in (self.weights, self.classes):
            return True
        return name not in self.drop and (self.columns is None or name in self.columns)
