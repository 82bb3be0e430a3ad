"""What `jtsolve fit` fits, and to which data."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jtsolve.scoring.score import LocalScore
    from jtsolve.tables.options import Coding
    from jtsolve.tables.table import Table


@dataclass(frozen=True, slots=True)
class Fit:
    """What to fit, and how."""

    data: Path
    score: "LocalScore"
    coding: "Coding"
    header: bool
    smoothing: float | None
    validate: Path | None

    def read(self, coding: "Coding") -> "Table":
        """Returns the data, as states or as numbers."""
        from jtsolve.scoring.score import is_discrete
        from jtsolve.tables.reading import read_numbers, read_states

        read = read_states if is_discrete(self.score) else read_numbers
        return read(self.data, coding, header=self.header)
