"""`jtsolve impute`, `loglik`: rows of a data file under a model; and rows of a model as a table."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from jtsolve.cli.options import JSON, Data, Model, Options, file_option, with_options
from jtsolve.cli.output import facts_table, put
from jtsolve.core.formats import TABLE
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError
from jtsolve.options import MEMORY, field_options
from jtsolve.tables import options as of_data

if TYPE_CHECKING:
    from jtsolve.models.framed import Model as Framed
    from jtsolve.models.protocol import Distribution

_ROWS = (
    *(of_data.MISSING_IN_ROWS, of_data.MISSING_VALUES, of_data.DECIMAL),
    *field_options(of_data.Dialect),
)
"""How to read other rows for a model, which has its own coding of the columns."""
_COUNTS = (of_data.DROP, of_data.WEIGHTS, of_data.CROSSTAB, of_data.STRICT)


@with_options(*_ROWS, MEMORY)
def impute(
    *,
    model: Model,
    data: Data,
    output: Annotated[
        Path | None, file_option("Write them here (.csv, .tsv, .parquet, .arrow); default: print.")
    ] = None,
    options: Options,
) -> None:
    """Fill in the missing values of rows: the most probable completion of each, given its other values.

    Writes the columns of the model, as its states, or prints them as CSV. A row that is impossible under the
    model keeps its gaps. A missing value that is a state remains one, unless --missing sum fills it in, too.
    """
    claim_outputs(output, kind=TABLE)
    words, sums = _words(options)
    found = read_model(model, options.memory).model

    from jtsolve.models.rows import read_rows
    from jtsolve.models.tables import require_rows
    from jtsolve.tables.reading import reading_of

    habits = of_data.Habits.over(found, reading_of(words), words)
    given = read_rows(data, found.columns, habits=habits, sums=sums)
    require_rows(found, given.shape[1])
    put_rows(found, found.complete(given), output)


@with_options(*_ROWS, *_COUNTS, MEMORY, JSON)
def loglik(
    *,
    model: Model,
    data: Data,
    output: Annotated[
        Path | None,
        file_option("Write ln P of each row here (.csv, .tsv, .parquet, .arrow)."),
    ] = None,
    options: Options,
) -> None:
    """Compute the log-likelihood of the rows of a data file, in nats.

    Missing values, unless they are a state, and the columns that --drop leaves out are summed out; --missing
    sum sums over all missing values. --weights counts the rows. States and cuts are those of the model.
    """
    claim_outputs(output, kind=TABLE)

    logs, times = _log_likelihood(read_model(model, options.memory).model, data, options)
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
    options.show(facts, lambda: facts_table("ln P(row), nats", facts))


def _words(options: Options) -> tuple[dict[str, Any], bool]:
    """Returns the options of all data, and whether missing values that are a state are summed over, too."""
    words = options.reading
    missing = words.pop("missing", "state")
    if missing not in ("state", "sum"):
        raise ChoiceError(f"--missing {missing}: rows are not changed here; give sum or state")
    return words, missing == "sum"


def _log_likelihood(model: "Distribution", data: Path, options: Options) -> tuple[Any, Any]:
    """Returns ln P of each row of positive weight, and its weight."""
    import numpy as np

    from jtsolve.models.columns import hidden_of, states_by_name
    from jtsolve.models.rows import open_rows
    from jtsolve.tables.reading import reading_of

    words, sums = _words(options)
    how, hidden = reading_of(words), hidden_of(model.columns)
    out = {*how.coding.drop, *hidden}
    kept = np.array([name not in out for name in model.names])
    if not kept.any():
        raise ChoiceError("--drop leaves out every variable of the model; keep one")
    file = open_rows(
        data,
        model.names,
        habits=of_data.Habits.over(model, how, words),
        counted=how.coding,
        drop=[name for name in model.names if name in out],
        states=states_by_name(model.columns),
        hidden=hidden,
        strict=how.strict,
        run=options.run(),
    )
    values = file.coded(model.columns, sums=sums)
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
