"""Suspicious names and values: codes for a missing value, counts, their margins, a row read as the header."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.tables.distinct import DistinctRows
from jtsolve.tables.options import GAPS, is_count
from jtsolve.tables.values import number_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.raw import RawColumn, RawTable

_NO_ANSWER = re.compile(
    r"(?:i )?(?:don'?t|do not) know|dk|d/k|(?:not |un)known|n\.? ?[ak]\.?|refused|missing|unspecified"
    r"|[-.]{1,3}|not (?:applicable|available|stated|asked|answered)|no (?:answer|response)",
    re.IGNORECASE,
)
_CODE = re.compile(r"9{2,}|8{2,}|7{2,}|9+[78]")
_NEGATIVE = re.compile(r"-(?:[7-9]|9+[0-9]?|8{2,}|7{2,})")
_FAR = 2
"""A code such as 99 is suspicious above this multiple of the largest other number."""
MARGIN = re.compile(
    "all|sum|totals?|grand total|summe|(ins)?gesamt(ergebnis)?|somme|suma|soma|total (général|general|geral)|"
    "totale|totaal|итого|合計|总计",
    re.IGNORECASE,
)
"""Labels of sums over the other states, in the languages of spreadsheets."""
_COUNT = re.compile(r"freq|frequency|counts?(\(\*\))?|n|len|cases|weights?|total", re.IGNORECASE)


def missing_codes(labels: Sequence[str], numbers: NDArray[np.float64]) -> list[str]:
    """Returns the labels that usually mean a missing value, such as "don't know", -9 and 99.

    Args:
        labels: of a column; all occur.
        numbers: the labels as numbers, shape (labels,); NaN for a word.

    >>> missing_codes(["1", "2", "3", "99"], np.array([1, 2, 3, 99.0]))
    ['99']
    >>> missing_codes(["yes", "no", "."], np.array([np.nan] * 3))
    ['.']
    """
    found = [label for label in labels if label in GAPS or _NO_ANSWER.fullmatch(label)]
    codes = [bool(_CODE.fullmatch(label) or _NEGATIVE.fullmatch(label)) for label in labels]
    others = numbers[~np.array(codes, dtype=bool) & ~np.isnan(numbers)]
    if others.size > 1 and others.min() >= 0:
        far = max(_FAR * others.max(), 1)
        found += [
            label
            for label, number, code in zip(labels, numbers.tolist(), codes, strict=True)
            if code and (number < 0 or number > far)
        ]
    return found if len(found) < len(labels) else []


def counts_rows(name: str, numbers: NDArray[np.float64], others: Iterable[RawColumn]) -> bool:
    """Returns whether a column seems to count how often each row occurs, by its name and the other columns.

    Args:
        name: of the column. Some names suffice; others only if no two rows agree in the other columns.
        numbers: its distinct values, shape (m,).
        others: the other columns.
    """
    whole = numbers.size > 1 and (numbers % 1 == 0).all() and numbers.min() >= 0
    if not whole or not _COUNT.fullmatch(name):
        return False
    if is_count(name):
        return True
    codes = [column.codes for column in others]
    if not codes:
        return False
    rows = DistinctRows()
    rows.add(codes)
    return rows.distinct_rows()[1].size == codes[0].size


def margins_in(column: RawColumn, weights: NDArray[np.int64]) -> list[str]:
    """Returns the labels of a column in a table of counts that sum the others, as `addmargins` adds in R.

    `weights` has the count of each row, shape (rows,).
    """
    named = [at for at, label in enumerate(column.labels) if MARGIN.fullmatch(label)]
    if not named:
        return []
    known = column.codes >= 0
    sums = np.bincount(column.codes[known], weights[known], len(column.labels))
    return [column.labels[at] for at in named if sums[at] > 0 and 2 * sums[at] == sums.sum()]


def header_is_row(raw: RawTable) -> bool:
    """Returns whether the column names of a text file seem to be values, and are not just 0, 1, …."""
    if raw.typed or not raw.columns:
        return False
    names = [column.name for column in raw.columns]
    if names in ([str(at) for at in range(first, first + len(names))] for first in (0, 1)):
        return False
    return all(
        column.name in column.labels
        or (number_in(column.name) is not None and not np.isnan(column.occurring_numbers()).any())
        for column in raw.columns
    )
