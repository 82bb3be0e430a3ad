"""The data and the prior of a fit: shared by one tree and mixtures."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jtsolve.cli.scoring import DataFile

if TYPE_CHECKING:
    from jtsolve.tables.table import Codes, DataTable


@dataclass(frozen=True, slots=True)
class FitTask:
    """The data, the prior of the tables, and the rows that choose it.

    Attributes:
        data: the file.
        smoothing: the equivalent sample size of the prior, or None.
        validate: a file of rows that choose the prior, or None.
    """

    data: DataFile
    smoothing: float | None
    validate: Path | None

    @property
    def ess(self) -> float:
        """The equivalent sample size where no rows choose it: as given, else that of the score, else 1."""
        return self.smoothing if self.smoothing is not None else getattr(self.data.score, "ess", 1.0)

    def validation_rows(self, table: "DataTable") -> "Codes":
        """Returns the codes of the validation rows, by the columns of the data."""
        from jtsolve.models.columns import columns_of, read_codes

        assert self.validate is not None, "asked where rows are given"
        return read_codes(
            self.validate,
            columns_of(table),
            gaps=self.data.coding.gaps,
            header=self.data.header,
            separator=self.data.separator,
        )
