"""`jtsolve impute`: rows with their missing values filled in by a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import LOCAL, Data, DataOptions, Executor, Model, Threads, cluster_named, grouped
from jtsolve.cli.output import emit, require_writable
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    import polars as pl

    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.frames import Frame


@grouped
def impute(
    *,
    model: Model,
    data: Data,
    output: Annotated[
        Path,
        typer.Option(
            readable=False, metavar="FILE", help="Write them here (.parquet, .csv); of partitions, a folder."
        ),
    ],
    columns: DataOptions,
    executor: Executor = LOCAL,
    threads: Threads = None,
) -> None:
    """Fill in the missing values of rows: the most probable completion of each, given its other values.

    Writes the columns of the model, as its states. A row that is impossible under the model keeps its gaps.
    --executor dask takes Parquet files by partitions, and writes one file for each into a folder.
    """
    from jtsolve.cli.models import load
    from jtsolve.core.files import write_atomically
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.parquet import parquet_bytes

    cluster = cluster_named(executor, threads)
    if cluster is None:
        require_writable(output, model, data)
        if output.suffix not in (".parquet", ".csv"):
            raise ChoiceError(f"{output}: rows are written as .parquet or .csv; give such a name")
    found = load(model)
    if not isinstance(found, JunctionTreeModel):
        raise ChoiceError(f"{model}: rows are completed by one junction tree of states; give such a model")
    if cluster is None:
        frame, filled = _completed(data, found, columns)
        if output.suffix == ".csv":
            write_atomically(output, frame.write_csv().encode())
        else:
            write_atomically(output, parquet_bytes(frame))
    else:
        from jtsolve.tables.partitions import over_frames

        filled = sum(over_frames(cluster, data, _of_partition, (found, columns), output))
    emit(f"{output}: {filled} values filled in")


def _of_partition(frame: Any, shared: "tuple[JunctionTreeModel, DataOptions]", place: str) -> int:
    """Writes the rows of a partition, and returns how many values were filled in; called on a worker."""
    from jtsolve.core.files import write_atomically
    from jtsolve.tables.parquet import parquet_bytes

    if not len(frame):
        return 0
    rows, filled = _completed(frame, *shared)
    write_atomically(place, parquet_bytes(rows))
    return filled


def _completed(data: "Frame", model: "JunctionTreeModel", options: DataOptions) -> "tuple[pl.DataFrame, int]":
    """Returns the completed rows, and how many values were filled in."""
    import numpy as np
    import polars as pl

    from jtsolve.models.columns import open_rows
    from jtsolve.models.inference.completion import completed

    how, gaps = options.reading(), options.gaps_for(model)
    file = open_rows(data, model.names, gaps=gaps, dialect=how.dialect, decimal=how.coding.decimal)
    codes = file.codes(model.columns)
    rows = completed(model, codes)
    series = [
        pl.Series(column.name, [*column.states, None], dtype=pl.String).gather(
            np.where(own < 0, column.arity, own)
        )
        for column, own in zip(model.columns, rows, strict=True)
    ]
    return pl.DataFrame(series), int((codes < 0).sum() - (rows < 0).sum())
