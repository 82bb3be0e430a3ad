"""Data to learn from: a file, a folder of Parquet files or a frame, and how its cells become values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from jtsolve.errors import ChoiceError
from jtsolve.scoring.score import is_discrete, require_counts
from jtsolve.tables.check import require_none
from jtsolve.tables.dialect import Dialect
from jtsolve.tables.frames import FRAME, FrameStyle, is_path
from jtsolve.tables.options import Coding
from jtsolve.tables.partitions import IN_PARTITIONS, PartitionedTable, is_dask_frame, read_partitioned
from jtsolve.tables.reading import read_checked
from jtsolve.tables.suffixes import DATA_SUFFIXES, title_of
from jtsolve.tables.table import ContinuousTable, DataTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.cluster import Cluster
    from jtsolve.core.run import Run
    from jtsolve.scoring.score import LocalScore
    from jtsolve.tables.check import Finding
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import Codes

UNSEEN = ("share", "error")


@dataclass(frozen=True, slots=True)
class Data:
    """Data, and how to read them.

    Args:
        source: the path of a file, a folder or a pattern of Parquet files; or a frame, see `tables.frames`.
        coding: how cells become states or numbers.
        dialect: how text is written.
        strict: whether findings of the data check are errors.
        cluster: whose workers count Parquet files by partitions; None for this process.
        keep: a folder for these counts, from which the same call resumes; None for none.

    Raises:
        ChoiceError: there is a folder for counts but no cluster.
    """

    source: Frame
    coding: Coding = Coding()  # noqa: RUF009 - a frozen value
    dialect: Dialect = Dialect()  # noqa: RUF009 - a frozen value
    strict: bool = False
    cluster: Cluster | None = None
    keep: Path | None = None

    def __post_init__(self) -> None:
        if self.keep is not None and self.cluster is None:
            raise ChoiceError("--keep is for counts by partitions; give --executor dask, or leave it out")

    @property
    def place(self) -> str:
        """The data's name in messages: the path, or a phrase for a frame."""
        return str(self.source) if is_path(self.source) else FRAME

    @property
    def title(self) -> str:
        """The name of a problem made of the data."""
        return title_of(self.source) if is_path(self.source) else "data"

    def read(self, score: LocalScore, run: Run, size: int | None = None) -> AnyTable:
        """Returns the table, of states or of numbers as the score requires, after the data check.

        Args:
            score: of the columns.
            run: limits reading, and receives progress and the findings of the data check.
            size: of the largest clique, for the data check; None if unknown.

        Raises:
            InputError: the data cannot be read, or there are findings and the reading is strict.
            LimitError: the time ended, or the memory does not suffice.
        """
        with run.phase(f"reading {self.title}"):
            if self.cluster is None:
                return read_checked(
                    self.source,
                    self.coding,
                    self.dialect,
                    discrete=is_discrete(score),
                    size=size,
                    tell=self.findings(run),
                    run=run,
                )
            require_counts(score)
            self.dialect.refuse(self.place, IN_PARTITIONS)
            return read_partitioned(
                self.source,
                self.coding,
                self.cluster,
                size=size,
                folder=self.keep,
                tell=self.findings(run),
                run=run,
            )

    def findings(self, run: Run) -> Callable[[tuple[Finding, ...]], None]:
        """Returns a handler for findings of the data check: it passes them on, or refuses them if strict."""

        def handle(findings: tuple[Finding, ...]) -> None:
            if self.strict:
                require_none(findings, self.place)
            run.warn(f"data check of {self.title}", findings)

        return handle

    def style(self, table: AnyTable) -> FrameStyle:
        """Returns how the data hold their values, for answers in the same form."""
        labelled = not isinstance(table, ContinuousTable)
        states = dict(zip(table.names, table.states, strict=True)) if labelled else {}
        if isinstance(table, PartitionedTable):
            return replace(FrameStyle.of("partitions", states), pandas=is_dask_frame(self.source))
        return FrameStyle.of(self.source, states)

    def validation(
        self, rows: Frame, table: AnyTable, run: Run, *, unseen: str = "share"
    ) -> tuple[AnyTable, Codes]:
        """Returns the table with the states of rows for validation added, and the codes of these rows.

        Args:
            rows: a file or frame with the columns of the table.
            table: the training data.
            run: see `read`.
            unseen: treatment of a value that occurs only in these rows: "share": it is a state, with the
                prior mass of one; "error".

        Raises:
            InputError: the rows cannot be read, or a value is not among declared states.
            ChoiceError: the data are numbers, or partitions that lack a state.
        """
        from jtsolve.models.columns import columns_of, open_rows, states_of
        from jtsolve.tables.coding import widened

        if unseen not in UNSEEN:
            raise ChoiceError(f"--unseen {unseen}: choose among {', '.join(UNSEEN)}")
        if isinstance(table, ContinuousTable):
            raise ChoiceError("--validate is for models of states; give --smoothing A, or 0 for none")
        given = replace(self, source=rows)
        found = open_rows(
            rows,
            table.names,
            gaps=self.coding.gaps,
            dialect=self.dialect,
            decimal=self.coding.decimal,
            states=states_of(columns_of(table)),
            tell=given.findings(run),
        )
        if unseen == "share" and (more := found.new_states(table, self.coding.schema)):
            if not isinstance(table, DataTable):
                raise ChoiceError(
                    f"{given.place} has states of '{next(iter(more))}' that the partitions lack; declare "
                    "them in a --schema, or give --unseen error"
                )
            remarks = {**table.provenance, "states_of_validation": more}
            table = replace(widened(table, more), provenance=MappingProxyType(remarks))
        return table, found.codes(columns_of(table))


def is_data(source: Frame, score: object) -> bool:
    """Tells whether a source is data rather than an instance: by its suffix, or since a score is named."""
    if not is_path(source) or score is not None or Path(source).is_dir():
        return True
    return str(source).lower().endswith(DATA_SUFFIXES)


def named_columns(names: Sequence[str], coding: Coding) -> Coding:
    """Returns the coding that reads these columns only, in this order."""
    return replace(coding, columns=tuple(names))
