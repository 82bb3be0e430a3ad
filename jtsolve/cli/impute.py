"""`jtsolve impute`: rows with their missing values filled in by a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import LOCAL, Data, Executor, Model, RowOptions, Threads, grouped
from jtsolve.cli.output import emit, murmur
from jtsolve.core.formats import TABLE
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.models.protocol import Distribution
    from jtsolve.tables.frames import Frame


@grouped
def impute(
    *,
    model: Model,
    data: Data,
    output: Annotated[
        Path | None,
        typer.Option(
            readable=False,
            metavar="FILE",
            help="Write them here (.csv, .tsv, .parquet, .arrow); of partitions, a folder; default: print.",
        ),
    ] = None,
    columns: RowOptions,
    executor: Executor = LOCAL,
    threads: Threads = None,
) -> None:
    """Fill in the missing values of rows: the most probable completion of each, given its other values.

    Writes the columns of the model, as its states, or prints them as CSV. A row that is impossible under the
    model keeps its gaps. A missing value that is a state remains one, unless --missing sum fills it in, too.
    --executor dask reads Parquet files by partitions, and writes one file for each into a folder.
    """
    from jtsolve.cli.models import put_rows
    from jtsolve.cluster import Cluster
    from jtsolve.core.machine import cores
    from jtsolve.models.files.opening import open_model

    if columns.missing not in (None, "sum", "state"):
        raise ChoiceError(f"--missing {columns.missing}: every row is completed; give sum or state")
    cluster = Cluster.of(executor, threads or cores())
    if cluster is None:
        claim_outputs(output, kind=TABLE)
    found = open_model(model)
    if cluster is None:
        completed, filled = _completed(data, found, columns)
        put_rows(found, completed, output)
        if output is None:
            murmur(f"{filled} values filled in")
            return
    elif output is None:
        raise ChoiceError("partitions are written into a folder; give --output FOLDER")
    else:
        from jtsolve.tables.partitions import over_frames

        filled = sum(over_frames(cluster, data, _of_partition, (found, columns), output))
    emit(f"{output}: {filled} values filled in")


def _of_partition(frame: Any, shared: "tuple[Distribution, RowOptions]", place: str) -> int:
    """Writes the rows of a partition, and returns how many values were filled in; called on a worker."""
    from jtsolve.cli.models import put_rows

    if not len(frame):
        return 0
    completed, filled = _completed(frame, *shared)
    put_rows(shared[0], completed, place)
    return filled


def _completed(data: "Frame", model: "Distribution", options: RowOptions) -> tuple[Any, int]:
    """Returns the completed rows in the coding of the model, and how many values were filled in."""
    import numpy as np

    from jtsolve.models.rows import open_rows

    file = open_rows(data, model.names, habits=options.habits(model))
    rows = file.coded(model.columns, sums=options.sums)
    filled = model.complete(rows)
    before, left = (np.isnan(one) if model.is_continuous else one < 0 for one in (rows, filled))
    return filled, int(before.sum() - left.sum())
