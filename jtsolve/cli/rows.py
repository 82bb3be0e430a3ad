"""`jtsolve impute`, `loglik`: rows of a data file under a model; and rows of a model as a table."""

from collections.abc import Iterable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from jtsolve.cli.options import (
    CountedRowOptions,
    Data,
    Json,
    LimitOptions,
    MemoryLimit,
    Model,
    RowOptions,
    expand_option_groups,
    file_option,
)
from jtsolve.cli.output import emit_facts, emit_json, put
from jtsolve.core.formats import TABLE
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.models.framed import Model as Framed
    from jtsolve.models.protocol import Distribution


@expand_option_groups
def impute(
    *,
    model: Model,
    data: Data,
    output: Annotated[
        Path | None, file_option("Write them here (.csv, .tsv, .parquet, .arrow); default: print.")
    ] = None,
    rows: RowOptions,
    memory_limit: MemoryLimit = None,
) -> None:
    """Fill in the missing values of rows: the most probable completion of each, given its other values.

    Writes the columns of the model, as its states, or prints them as CSV. A row that is impossible under the
    model keeps its gaps. A missing value that is a state remains one, unless --missing sum fills it in, too.
    """
    claim_outputs(output, kind=TABLE)

    from jtsolve.models.rows import read_rows
    from jtsolve.models.tables import require_rows

    found = read_model(model, memory_limit).model
    given = read_rows(data, found.columns, habits=rows.habits(found), sums=rows.sums)
    require_rows(found, given.shape[1])
    put_rows(found, found.complete(given), output)


@expand_option_groups
def loglik(
    *,
    model: Model,
    data: Data,
    output: Annotated[
        Path | None,
        file_option("Write ln P of each row here (.csv, .tsv, .parquet, .arrow)."),
    ] = None,
    rows: CountedRowOptions,
    memory_limit: MemoryLimit = None,
    json: Json = False,
) -> None:
    """Compute the log-likelihood of the rows of a data file, in nats.

    Missing values, unless they are a state, and the columns that --drop leaves out are summed out; --missing
    sum sums over all missing values. --weights counts the rows. States and cuts are those of the model.
    """
    claim_outputs(output, kind=TABLE)

    logs, times = _log_likelihood(read_model(model, memory_limit).model, data, rows)
    if output is not None:
        import polars as pl

        from jtsolve.tables.writing import write_rows

        write_rows(pl.DataFrame({"loglik": logs}), output)
    total, count = float(logs @ times), times.sum().item()
    facts = {
        "rows": count,
        "mean": total / count,
        "total": total,
        "least": float(logs.min()),
        "impossible_rows": times[logs == float("-inf")].sum().item(),
    }
    if json:
        emit_json(facts)
    else:
        emit_facts("ln P(row), nats", facts)


def _log_likelihood(model: "Distribution", data: Path, options: CountedRowOptions) -> tuple[Any, Any]:
    """Returns ln P of each row of positive weight, and its weight."""
    import numpy as np

    from jtsolve.models.columns import hidden_of, states_by_name
    from jtsolve.models.rows import open_rows

    how, hidden = options.reading(), hidden_of(model.columns)
    out = {*how.coding.drop, *hidden}
    kept = np.array([name not in out for name in model.names])
    if not kept.any():
        raise ChoiceError("--drop leaves out every variable of the model; keep one")
    file = open_rows(
        data,
        model.names,
        habits=options.habits(model),
        counted=how.coding,
        drop=[name for name in model.names if name in out],
        states=states_by_name(model.columns),
        hidden=hidden,
        strict=how.strict,
        run=LimitOptions().run(monotonic()),
    )
    values = file.coded(model.columns, sums=options.sums)
    counted = file.times > 0
    values = values[:, counted]
    values[~kept] = np.nan if model.is_continuous else -1
    return model.log_likelihood(values), file.times[counted]


def read_model(path: Path, gigabytes: float | None) -> "Framed":
    """Returns the model in a file; the command may hold so much memory."""
    from jtsolve.core.machine import allow_memory, memory_bytes
    from jtsolve.models.framed import Model

    allow_memory(memory_bytes(gigabytes))
    return Model.read(path)


def put_rows(model: "Distribution", rows: Iterable[Any], output: Path | None) -> None:
    """Writes rows of a model to a file in the format of its suffix, or prints them as CSV.

    Args:
        model: whose columns the rows have.
        rows: codes or numbers.
        output: the file; None to print.
    """
    from jtsolve.models.tables import rows_in_format

    put(rows_in_format(model, rows, "csv" if output is None else TABLE.format_to_write(output)), output)
