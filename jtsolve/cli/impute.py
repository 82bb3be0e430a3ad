"""`jtsolve impute`: rows with their missing values filled in by a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import LOCAL, Data, DataOptions, Executor, Model, Threads, grouped
from jtsolve.cli.output import emit
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    import polars as pl

    from jtsolve.models.protocol import Distribution
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
    from jtsolve.cli.models import csv_bytes
    from jtsolve.cluster import Cluster
    from jtsolve.core.files import write_atomically
    from jtsolve.core.machine import cores
    from jtsolve.models.files.opening import open_model
    from jtsolve.tables.parquet import parquet_bytes

    cluster = Cluster.of(executor, threads or cores())
    if cluster is None:
        claim_outputs(output)
        if output.suffix not in (".parquet", ".csv"):
            raise ChoiceError(f"{output}: rows are written as .parquet or .csv; give such a name")
    found = open_model(model)
    if cluster is None:
        is_text = output.suffix == ".csv"
        frame, filled = _completed(data, found, columns, typed=not is_text)
        write_atomically(output, csv_bytes(found, frame) if is_text else parquet_bytes(frame))
    else:
        from jtsolve.tables.partitions import over_frames

        filled = sum(over_frames(cluster, data, _of_partition, (found, columns), output))
    emit(f"{output}: {filled} values filled in")


def _of_partition(frame: Any, shared: "tuple[Distribution, DataOptions]", place: str) -> int:
    """Writes the rows of a partition, and returns how many values were filled in; called on a worker."""
    from jtsolve.core.files import write_atomically
    from jtsolve.tables.parquet import parquet_bytes

    if not len(frame):
        return 0
    rows, filled = _completed(frame, *shared, typed=True)
    write_atomically(place, parquet_bytes(rows))
    return filled


def _completed(
    data: "Frame", model: "Distribution", options: DataOptions, *, typed: bool
) -> "tuple[pl.DataFrame, int]":
    """Returns the completed rows, and how many values were filled in."""
    import numpy as np

    from jtsolve.cli.models import labelled
    from jtsolve.models.rows import open_rows

    dialect = options.reading().dialect
    file = open_rows(data, model.names, habits=options.habits(model), dialect=dialect)
    rows = file.coded(model.columns)
    filled = model.complete(rows)
    before, left = (np.isnan(one) if model.is_continuous else one < 0 for one in (rows, filled))
    return labelled(model, filled, typed=typed), int(before.sum() - left.sum())
