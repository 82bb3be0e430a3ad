"""`jtsolve loglik`: the log-likelihood of rows under a model."""

import math
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import (
    LOCAL,
    Data,
    Executor,
    Json,
    LimitOptions,
    Model,
    RowOptions,
    Threads,
    grouped,
)
from jtsolve.cli.output import emit, murmur
from jtsolve.core.formats import LIKELIHOODS
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError, InputError
from jtsolve.tables.options import CLASS_COLUMN, DISCRETISE, MAX_STATES, MISSING_IN_ROWS, SCHEMA, STATES

if TYPE_CHECKING:
    from jtsolve.cluster import Cluster
    from jtsolve.models.protocol import Distribution
    from jtsolve.models.rows import FileRows
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.options import Coding


@grouped
def loglik(
    *,
    model: Model,
    data: Data,
    output: Annotated[
        Path | None,
        typer.Option(
            readable=False,
            metavar="FILE",
            help="Write ln P of each row here: .txt, a number a line; .csv, .tsv, .parquet, .arrow, a column;"
            " of partitions, a folder of Parquet files.",
        ),
    ] = None,
    columns: RowOptions,
    executor: Executor = LOCAL,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Compute the log-likelihood of the rows of a data file, in nats.

    Missing values are summed out, unless they are a state, and so are the columns that --drop or --columns
    leaves out; --missing sum sums over all of them, drop-rows leaves out rows with some, and refuse refuses
    them. --weights counts the rows. States, and how numbers are cut, are those of the model.

    --executor dask reads Parquet files by partitions.
    """
    from jtsolve.cluster import Cluster
    from jtsolve.core.machine import cores

    cluster = Cluster.of(executor, threads or cores())
    if output is not None and cluster is None:
        claim_outputs(output, kind=LIKELIHOODS)
    if columns.missing not in (None, *MISSING_IN_ROWS.choices):
        known = ", ".join(MISSING_IN_ROWS.choices)
        raise ChoiceError(f"--missing {columns.missing}: rows are not changed here; give {known}")
    given = columns.given()
    unused = [
        f"{option.within} {option.name}" if option.within else option.flag
        for option in (DISCRETISE, CLASS_COLUMN, SCHEMA, STATES, MAX_STATES)
        if option.name in given
    ]
    if unused:
        murmur(f"{', '.join(unused)}: the model has its own coding of the columns, which is used instead")

    from jtsolve.cli.models import json_text
    from jtsolve.listing import table
    from jtsolve.models.files.opening import open_model

    found = open_model(model)
    if cluster is None:
        rows, times = _log_likelihood(found, data, columns)
        sums = _sums(rows, times)
        if output is not None and sums.rows:
            _write(rows, output)
    else:
        sums = _by_partitions(cluster, found, data, columns, output)
    if not sums.rows:
        raise InputError(str(data), "missing values", "every row has some", "leave out --missing")
    facts = {
        "rows": sums.rows,
        "mean": sums.total / sums.rows,
        "total": sums.total,
        "least": sums.least,
        "impossible_rows": sums.impossible,
    }
    if json:
        emit(json_text(facts))
    else:
        emit(table(["ln P(row), nats", ""], [[name.replace("_", " "), fact] for name, fact in facts.items()]))


@dataclass(frozen=True, slots=True)
class LikelihoodSums:
    """A summary of the log-likelihoods of rows: their number and sum, counting weights, and the least."""

    rows: int
    total: float
    least: float
    impossible: int


def _sums(rows: Any, times: Any) -> LikelihoodSums:
    """Returns the sums over rows, each with its multiplicity."""
    impossible = int(times[rows == -math.inf].sum())
    return LikelihoodSums(
        int(times.sum()), float(rows @ times), float(rows.min(initial=math.inf)), impossible
    )


def _by_partitions(
    cluster: "Cluster", model: "Distribution", data: Path, options: RowOptions, output: Path | None
) -> LikelihoodSums:
    """Returns the sums over all partitions; writes a file for each into a folder."""
    from jtsolve.tables.partitions import over_frames

    found = over_frames(cluster, data, _of_partition, (model, options), output)
    # Summed exactly, so that the order in which partitions come does not matter.
    return LikelihoodSums(
        sum(one.rows for one in found),
        math.fsum(one.total for one in found),
        min(one.least for one in found),
        sum(one.impossible for one in found),
    )


def _of_partition(frame: Any, shared: "tuple[Distribution, RowOptions]", place: str | None) -> LikelihoodSums:
    """Returns the sums over a partition, and writes ln P of its rows; called on a worker."""
    model, options = shared
    if not len(frame):
        return LikelihoodSums(0, 0.0, math.inf, 0)
    rows, times = _log_likelihood(model, frame, options)
    if place is not None:
        _write(rows, place)
    return _sums(rows, times)


def _write(rows: Any, path: str | Path) -> None:
    """Writes ln P of each row."""
    import polars as pl

    from jtsolve.core.files import write_atomically
    from jtsolve.tables.writing import write_rows

    if LIKELIHOODS.format_to_write(path) == "txt":
        write_atomically(path, "".join(f"{value!r}\n" for value in rows.tolist()).encode())
    else:
        write_rows(pl.DataFrame({"loglik": rows}), path)


def _log_likelihood(model: "Distribution", data: "Frame", options: RowOptions) -> tuple[Any, Any]:
    """Returns ln P of each row that counts, and how often it does."""
    import numpy as np

    from jtsolve.models.columns import hidden_of, states_of
    from jtsolve.models.rows import open_rows

    how = options.reading()
    coding = how.coding
    hidden = hidden_of(model.columns)
    kept = _kept(model.names, coding, hidden)
    file = open_rows(
        data,
        model.names,
        habits=options.habits(model),
        weights=coding.weights,
        crosstab=coding.crosstab,
        drop=[name for name, stays in zip(model.names, kept, strict=True) if not stays],
        states=states_of(model.columns),
        hidden=hidden,
        strict=how.strict,
        run=LimitOptions().run(monotonic()) if isinstance(data, Path) else None,
    )
    values = file.coded(model.columns, sums=options.sums)
    times = file.times
    counted = (times > 0) & _complete(values[kept], file, options)
    values, times = values[:, counted], times[counted]
    values[~kept] = np.nan if model.is_continuous else -1
    return model.log_likelihood(values), times


def _kept(names: tuple[str, ...], coding: "Coding", hidden: list[str]) -> Any:
    """Returns which variables are not summed out: none that is hidden."""
    import numpy as np

    chosen, out = coding.columns, {*coding.drop, *hidden}
    kept = np.array([name not in out and (chosen is None or name in chosen) for name in names])
    if not kept.any():
        raise ChoiceError("--columns and --drop leave out every variable of the model; keep one")
    return kept


def _complete(values: Any, file: "FileRows", options: RowOptions) -> Any:
    """Returns which rows count as far as missing values are concerned; refuses them if asked to."""
    import numpy as np

    missing = (values < 0 if values.dtype.kind == "i" else np.isnan(values)).any(axis=0)
    if options.missing == "refuse" and missing.any():
        raise InputError(
            file.source,
            "missing values",
            f"{int(missing.sum())} rows have some",
            "leave out --missing to sum them out, or give --missing drop-rows",
        )
    return ~missing if options.missing == "drop-rows" else np.ones(missing.size, dtype=bool)
