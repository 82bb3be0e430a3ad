"""Rows of probabilities in files: their sums are rounded."""

from __future__ import annotations

from jtsolve.core.run import LOGGER

LARGEST_TABLE = 1 << 27
"""Most cells of a table, 1 GiB: a short file must not exhaust the memory."""

_USUAL = 1e-4
"""How far from 1 sums are by rounding to four digits or more."""
MOST = 1e-2
"""How far from 1 a sum may be; beyond, it is a mistake."""


class RowSums:
    """The sums of the rows of a file, which are normalised, and a warning if they are far from 1."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._far: list[float] = []

    def accepts(self, total: float) -> bool:
        """Returns whether the sum of a row is 1 up to rounding."""
        if abs(total - 1) > _USUAL:
            self._far.append(total)
        return abs(total - 1) <= MOST

    def report(self) -> None:
        """Warns if rows were changed by more than usual."""
        if self._far:
            worst = max(self._far, key=lambda total: abs(total - 1))
            LOGGER.warning(
                "%s: the probabilities of %d %s sum to %.6g at worst, not to 1; they are normalised",
                self._source,
                len(self._far),
                "row" if len(self._far) == 1 else "rows",
                worst,
            )
