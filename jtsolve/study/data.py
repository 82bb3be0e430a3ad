"""Data to learn from: a file, a folder of Parquet files or a frame, and how its cells become values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jtsolve.errors import ChoiceError
from jtsolve.models.learning.incomplete import imputed
from jtsolve.models.learning.validation import HeldOut
from jtsolve.options import EXECUTOR, SCORE, VALIDATE
from jtsolve.scoring.score import is_discrete, is_gaussian, is_mixed, require_counts
from jtsolve.tables.check import KINDS
from jtsolve.tables.frames import FRAME, FrameStyle, is_path, labels_in
from jtsolve.tables.options import MISSING, SCHEMA, Coding, Habits, Reading, title_of
from jtsolve.tables.partitions import IN_PARTITIONS, PartitionedTable, is_dask_frame, read_partitioned
from jtsolve.tables.reading import read_checked, read_covariance
from jtsolve.tables.table import DataTable, MixedTable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jtsolve.cluster import Cluster
    from jtsolve.core.run import Run
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.partitions import AnyTable

_IMPUTED = 3
"""Variables in the cliques under which gaps are drawn, where nothing bounds the treewidth."""
COVARIANCE_SCORE = "gaussian-bic"
"""The score of a covariance where none is named."""


@dataclass(frozen=True, slots=True)
class Data:
    """Data, and how to read them.

    Args:
        source: the path of a file, a folder or a pattern of Parquet files; or a frame, see `tables.frames`.
        reading: how text is written, how cells become states or numbers, and whether findings are errors.
        cluster: whose workers count Parquet files by partitions; None for this process.
    """

    source: Frame
    reading: Reading = Reading(Coding())  # noqa: RUF009 - a frozen value
    cluster: Cluster | None = None

    @property
    def place(self) -> str:
        """The data's name in messages: the path, or a phrase for a frame."""
        return str(self.source) if is_path(self.source) else FRAME

    @property
    def label(self) -> str:
        """The data's name in progress and findings: that of the file, or a phrase for a frame."""
        return Path(self.source).name if is_path(self.source) else FRAME

    @property
    def title(self) -> str:
        """The name of a problem made of the data."""
        return title_of(self.source) if is_path(self.source) else "data"

    def columns(self, names: Sequence[str]) -> Data:
        """Returns the data with these columns only, in this order."""
        coding = replace(self.reading.coding, columns=tuple(names))
        return replace(self, reading=replace(self.reading, coding=coding))

    def read(
        self,
        score: ScoreFunction,
        run: Run,
        size: int | None = None,
        kinds: Collection[str] = KINDS,
        *,
        impute: bool = True,
    ) -> AnyTable:
        """Returns the table, of states or of numbers as the score requires, after the data check.

        Args:
            score: of the columns.
            run: limits reading, and receives progress and the findings of the data check.
            size: of the largest clique, for the data check; None if unknown.
            kinds: kinds of findings to report, if the data are not read in partitions.
            impute: whether missing values that EM will estimate are drawn under trees, to learn a tree from.

        Raises:
            InputError: the data cannot be read, or there are findings and the reading is strict.
            LimitError: the time ended, or the memory does not suffice.
        """
        coding, strict = self.reading.coding, self.reading.strict
        if self.reading.rows is not None:
            if self.cluster is not None:
                raise ChoiceError(f"a covariance has no rows to count by partitions; leave out {EXECUTOR}")
            if not is_gaussian(score):
                raise ChoiceError(
                    f"a covariance has no score '{score.name}'; give {SCORE(COVARIANCE_SCORE)}, or the data"
                )
            with run.phase(f"reading {self.label}"):
                return read_covariance(self.source, coding, self.reading.dialect, self.reading.rows, run)
        if self.cluster is not None and is_mixed(score):
            score = score.discrete
        with run.phase(f"reading {self.label}"):
            if self.cluster is None:
                table = read_checked(
                    self.source,
                    coding,
                    self.reading.dialect,
                    cells="mixed" if is_mixed(score) else "states" if is_discrete(score) else "numbers",
                    size=size,
                    kinds=kinds,
                    strict=strict,
                    run=run,
                )
                if table.gaps is None or not impute:
                    return table
                with run.interruptible():
                    return imputed(table, score, (size or _IMPUTED) - 1, run.part(run.left / 2))
            require_counts(score)
            if coding.missing == "em":
                raise ChoiceError(f"{MISSING('em')} needs all rows in one place; leave out {EXECUTOR}")
            self.reading.dialect.refuse(self.place, IN_PARTITIONS)
            return read_partitioned(self.source, coding, self.cluster, size=size, strict=strict, run=run)

    @property
    def labels(self) -> dict[str, Any]:
        """The user's labels of columns, where they differ from the names here, by name."""
        return {} if self.cluster is not None else labels_in(self.source)

    def style(self, table: AnyTable) -> FrameStyle:
        """Returns how the data hold their values, for answers in the same form."""
        from jtsolve.models.columns import columns_of, states_by_name

        if isinstance(table, PartitionedTable):
            return FrameStyle(pandas=is_dask_frame(self.source))
        coded = table.discrete if isinstance(table, MixedTable) else table
        states = states_by_name(columns_of(coded)) if isinstance(coded, DataTable) else {}
        return FrameStyle.of(self.source, states)

    def validation(self, rows: Frame, table: AnyTable, run: Run) -> tuple[AnyTable, HeldOut]:
        """Returns the table with the states of rows for validation added, and these rows in its coding.

        A value that occurs only in these rows is a state, with the prior mass of one. The rows count as those
        of the table do: by the column of its weights, if they have it, or by columns of counts.

        Args:
            rows: a file or frame with the columns of the table.
            table: the training data.
            run: see `read`.

        Raises:
            InputError: the rows cannot be read, or a value is not among declared states.
            ChoiceError: the data are a covariance, or partitions that lack a state.
        """
        from jtsolve.models.columns import columns_of, states_by_name, variables_of
        from jtsolve.models.rows import open_rows
        from jtsolve.tables.coding import widened

        if self.reading.rows is not None:
            raise ChoiceError(
                f"a covariance has no means, which the likelihood of rows needs; leave out {VALIDATE}"
            )
        given, coding = replace(self, source=rows), self.reading.coding
        columns = variables_of(table)
        found = open_rows(
            rows,
            table.names,
            habits=Habits.of(table),
            counted=Coding(),
            states=states_by_name(columns),
            strict=self.reading.strict,
            run=run,
        )
        if more := found.new_states(columns, coding.schema):
            discrete = table.discrete if isinstance(table, MixedTable) else table
            if not isinstance(discrete, DataTable):
                raise ChoiceError(
                    f"{given.place} has states of '{next(iter(more))}' that the partitions lack; declare "
                    f"them in a {SCHEMA}"
                )
            wide = widened(discrete, {column.name: column.values for column in columns_of(discrete)}, more)
            facts = MappingProxyType({**table.provenance, "states_of_validation": more})
            table = replace(table, discrete=wide, provenance=facts) if isinstance(table, MixedTable) else wide
        counted = found.times > 0
        return table, HeldOut(found.coded(variables_of(table))[:, counted], found.times[counted])
