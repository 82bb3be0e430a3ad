"""Tables larger than memory: Parquet files and Dask DataFrames, read in partitions on a cluster.

A first pass surveys all partitions (`survey`), unless a schema declares all columns. After that, each
partition is coded alone: `PartitionedTable.map_parts` applies a function to every partition on the worker
that reads it. A partition is one of Dask, or consecutive rows of a file.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from jtsolve.core.run import Run
from jtsolve.errors import ChoiceError, InputError
from jtsolve.options import EXECUTOR
from jtsolve.tables.frames import FRAME, is_path, readable
from jtsolve.tables.gatherer import Intake
from jtsolve.tables.options import CROSSTAB, DISCRETISE, SCHEMA
from jtsolve.tables.parquet import height, require_same_columns, scanned
from jtsolve.tables.source import BLOCKS, files_of
from jtsolve.tables.survey import (
    CodedColumn,
    Part,
    PartitionSurvey,
    coded_part,
    column_codings,
    combined_surveys,
    part_coding,
    surveyed,
)
from jtsolve.tables.values import label_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.cluster import Cluster, Future, Workers
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.options import Coding
    from jtsolve.tables.table import Table

IN_PARTITIONS = "partitions are no text"
"""The reason why options of text files are refused."""


@dataclass(frozen=True, slots=True, eq=False)
class PartitionedTable:
    """A table of states in partitions, the distributed `DataTable`.

    Args:
        columns: codings of the columns.
        total: the number of rows, counting weights.
        parts: the partitions.
        coding: the user's choices.
        cluster: reads them.
        provenance: remarks on data and coding.
    """

    columns: tuple[CodedColumn, ...]
    total: int
    parts: tuple[Part, ...]
    coding: Coding
    cluster: Cluster
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def states(self) -> tuple[tuple[str, ...], ...]:
        """The labels of each column's states."""
        return tuple(column.states for column in self.columns)

    @property
    def n(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @property
    def arities(self) -> NDArray[np.int64]:
        """The number of states of each column, shape (n,)."""
        return np.array([len(column.states) for column in self.columns], dtype=np.int64)

    @property
    def largest(self) -> int:
        """An upper bound on the rows of a partition; the total if the size of a partition is unknown."""
        return max(self.total if part.rows is None else part.rows for part in self.parts)

    def digest(self) -> str:
        """Returns "sha256:…" over the coding, and the names and sizes of the partitions."""
        parts = [(part.name, part.start, part.rows) for part in self.parts]
        return f"sha256:{hashlib.sha256(repr((self.columns, self.total, parts)).encode()).hexdigest()}"

    def map_parts(
        self,
        workers: Workers,
        function: Callable[..., Any],
        *shared: Any,
        only: Sequence[int] | None = None,
    ) -> list[Future]:
        """Returns the futures of function(table, *shared) for the partitions; None for one without rows.

        Args:
            workers: of `self.cluster`.
            function: called with the partition as a `DataTable`.
            shared: further arguments; large ones as futures of `Workers.share`.
            only: positions of the partitions; None for all.
        """
        how = workers.share((part_coding(self.coding, self.columns), self.columns))
        places = range(len(self.parts)) if only is None else only
        return [_submitted(workers, self.parts[place], _applied, how, function, *shared) for place in places]


AnyTable: TypeAlias = "Table | PartitionedTable"


def is_dask_frame(data: Frame) -> TypeGuard[Any]:
    """Returns whether data are a Dask DataFrame, without importing Dask."""
    return hasattr(data, "to_delayed") and hasattr(data, "npartitions")


def read_partitioned(
    data: str | Path | Frame,
    coding: Coding,
    cluster: Cluster,
    *,
    size: int | None = None,
    strict: bool = False,
    run: Run | None = None,
    rows: int = BLOCKS.kept,
) -> PartitionedTable:
    """Returns the table of states in Parquet files or a Dask DataFrame.

    The data check examines one column at a time; it does not find copies and functions of other columns.

    Args:
        data: the path of a file, of a folder, or a pattern; or the frame.
        coding: how to code the cells.
        cluster: reads the partitions.
        size: see `check.examine`.
        strict: see `reading.read_checked`.
        run: see `reading.read_checked`.
        rows: maximum number of rows of a file in a partition.

    Raises:
        InputError: as `reading.read_checked`; a partition with other columns or types is named.
        ChoiceError: the data have no partitions, or the coding needs all rows in one place.
        LimitError: a column has too many different values, or the cluster is lost.
    """
    if coding.discretise is not None and coding.discretise.method == "mdlp":
        raise ChoiceError(
            "mdlp cuts by a class, which needs all rows in one place; "
            f"give {DISCRETISE('quantile:4')}, or cuts with {SCHEMA}"
        )
    if coding.crosstab is not None:
        raise ChoiceError(f"{CROSSTAB}: a table of counts is in one place; leave {EXECUTOR} out")
    source, parts = partitions_of(data, rows)
    found = _survey(
        parts, coding, cluster, Intake(run=run or Run(), source=str(data) if is_path(data) else FRAME)
    )
    if found.rows == 0:
        raise InputError(source, "", "there are no rows", "give a table with rows")
    columns, remarks = column_codings(found, coding, source, size, strict=strict, run=run)
    facts = {"data": source, "partitions": len(parts), "rows": found.rows, **remarks}
    return PartitionedTable(columns, found.rows, parts, coding, cluster, MappingProxyType(facts))


def partitions_of(data: str | Path | Frame, most: int) -> tuple[str, tuple[Part, ...]]:
    """Returns the name of the data, and their partitions of at most `most` rows, without reading rows.

    Raises:
        InputError: the files cannot be read, have different columns, or no rows.
        ChoiceError: the data have no partitions.
    """
    if is_dask_frame(data):
        kinds = {label_of(name): str(kind) for name, kind in data.dtypes.items()}
        frames = data.to_delayed()
        parts = [Part(f"partition {i}", None, 0, None, kinds, frame=frame) for i, frame in enumerate(frames)]
        return FRAME, tuple(parts)
    if not is_path(data):
        raise ChoiceError(
            "a data frame in memory has no partitions; give Parquet files or a Dask DataFrame, or leave out "
            f"{EXECUTOR}"
        )
    parts, schemas = [], []
    for file in files_of(data):
        if not file.name.endswith(".parquet"):
            raise ChoiceError(
                f"{data}: partitions are of Parquet files; write it as Parquet, or leave out {EXECUTOR}"
            )
        with readable(str(file), "parquet"):
            lazy = scanned(file, "parquet")
            rows = height(lazy)
        schemas.append((str(file), lazy.collect_schema()))
        kinds = {name: str(kind) for name, kind in schemas[-1][1].items()}
        parts += [
            Part(str(file), str(file.absolute()), start, min(most, rows - start), kinds)
            for start in range(0, rows, most)
        ]
    require_same_columns(schemas)
    if not parts:
        raise InputError(str(data), "", "there are no rows", "give a table with rows")
    return Path(data).name, tuple(parts)


def _submitted(workers: Workers, part: Part, function: Callable[..., Any], *arguments: Any) -> Future:
    """Returns the future of function(part, frame, *arguments)."""
    frame = None if part.frame is None else workers.client.compute(part.frame)
    return workers.submit(function, replace(part, frame=None), frame, *arguments)


def _survey(parts: Sequence[Part], coding: Coding, cluster: Cluster, intake: Intake) -> PartitionSurvey:
    """Returns the survey of all partitions, or only of the first if the schema declares everything."""
    rows = [part.rows for part in parts]
    declared = all(name in coding.schema for name in parts[0].kinds if coding.reads(name))
    skipped = declared and coding.missing == "refuse" and coding.weights is None and None not in rows
    surveys = parts[:1] if skipped else parts
    found: list[PartitionSurvey] = []
    with cluster.connected() as workers:
        futures = [_submitted(workers, part, surveyed, coding) for part in surveys]
        with closing(workers.as_completed(futures)) as finished:
            for future in finished:
                found = [combined_surveys([*found, workers.result_of(future)])]
                intake.require(found[0].rows)
    return replace(found[0], rows=sum(map(int, filter(None, rows)))) if skipped else found[0]


def _applied(
    part: Part,
    frame: Any,
    how: tuple[Coding, Sequence[CodedColumn]],
    function: Callable[..., Any],
    *shared: Any,
) -> Any:
    """Returns the result of a function of a partition; None for one without rows."""
    coding, columns = how
    table = coded_part(part, frame, coding, columns)
    return None if table is None else function(table, *shared)
