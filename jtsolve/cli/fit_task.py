"""The data and the prior of a fit: shared by one tree and mixtures."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from jtsolve.cli.scoring import DataFile, heeding
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.core.backend import Limits
    from jtsolve.solving import Listener
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import Codes

UNSEEN = ("share", "error")


@dataclass(frozen=True, slots=True)
class FitTask:
    """The data, the prior of the tables, and the rows that choose it.

    Attributes:
        data: the file.
        smoothing: the equivalent sample size of the prior, or None.
        validate: a file of rows that choose the prior, or None.
        unseen: treatment of a value that only the rows for validation have: "share": it is a state, to which
            the prior gives its share; "error".

    Raises:
        ChoiceError: `unseen` is neither.
    """

    data: DataFile
    smoothing: float | None
    validate: Path | None
    unseen: str = "share"

    def __post_init__(self) -> None:
        if self.unseen not in UNSEEN:
            raise ChoiceError(f"--unseen {self.unseen}: choose among {', '.join(UNSEEN)}")

    @property
    def ess(self) -> float:
        """The equivalent sample size where no rows choose it: as given, else that of the score, else 1."""
        return self.smoothing if self.smoothing is not None else getattr(self.data.score, "ess", 1.0)

    def read(
        self, limits: "Limits", listener: "Listener | None" = None, size: int | None = None
    ) -> "tuple[AnyTable, Codes | None]":
        """Returns the data, with the states of both files, and the codes of the rows for validation, if any.

        Raises:
            InputError: a file cannot be read, or a value for validation is not among declared states.
            ChoiceError: there are rows for validation, but the data are numbers, or partitions without their
                states.
        """
        from jtsolve.models.columns import columns_of, states_of
        from jtsolve.models.rows import open_rows
        from jtsolve.tables.coding import widened
        from jtsolve.tables.table import ContinuousTable, DataTable

        table = self.data.surveyed(limits, listener, size)
        if self.validate is None:
            return table, None
        if isinstance(table, ContinuousTable):
            raise ChoiceError("--validate is for models of states; give --smoothing A, or 0 for none")
        coding = self.data.coding
        rows = open_rows(
            self.validate,
            table.names,
            gaps=coding.gaps,
            dialect=self.data.dialect,
            decimal=coding.decimal,
            states=states_of(columns_of(table)),
            tell=heeding(self.validate, strict=self.data.strict, quiet=self.data.quiet),
        )
        if self.unseen == "share":
            more = rows.new_states(table, coding.schema)
            if more and not isinstance(table, DataTable):
                raise ChoiceError(
                    f"{self.validate} has states of '{next(iter(more))}' that the partitions lack; declare "
                    "them in a --schema, or give --unseen error"
                )
            if more and isinstance(table, DataTable):
                remarks = {**table.provenance, "states_of_validation": more}
                table = replace(widened(table, more), provenance=MappingProxyType(remarks))
        return table, rows.coded(columns_of(table))
