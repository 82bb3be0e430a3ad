"""`jtsolve loglik`: the log-likelihood of rows under a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import (
    Data,
    Json,
    MissingValues,
    Model,
    NoHeader,
    Separator,
    names_in,
    separator_named,
)
from jtsolve.cli.output import emit, require_writable

if TYPE_CHECKING:
    from jtsolve.models.files.document import AnyModel


def loglik(
    model: Model,
    data: Data,
    output: Annotated[
        Path | None,
        typer.Option(readable=False, metavar="FILE", help="Write ln P of each row here, one per line."),
    ] = None,
    missing_values: MissingValues = None,
    no_header: NoHeader = False,
    separator: Separator = None,
    json: Json = False,
) -> None:
    """Compute the log-likelihood of the rows of a data file, in nats; missing values are summed out."""
    if output is not None:
        require_writable(output, model, data)

    from jtsolve.cli.models import json_text, load, table
    from jtsolve.core.files import write_atomically
    from jtsolve.tables.options import GAPS

    gaps = GAPS if missing_values is None else names_in(missing_values)
    rows = _log_likelihood(
        load(model), data, gaps, header=not no_header, separator=separator_named(separator)
    )
    if output is not None:
        write_atomically(output, "".join(f"{value!r}\n" for value in rows.tolist()).encode())
    facts = {
        "rows": rows.size,
        "mean": float(rows.mean()),
        "total": float(rows.sum()),
        "least": float(rows.min()),
        "impossible_rows": int((rows == -float("inf")).sum()),
    }
    if json:
        emit(json_text(facts))
    else:
        emit(table(["ln P(row), nats", ""], [[name.replace("_", " "), fact] for name, fact in facts.items()]))


def _log_likelihood(
    model: "AnyModel", data: Path, gaps: tuple[str, ...], *, header: bool, separator: str | None
) -> Any:
    from jtsolve.models.columns import read_codes, read_values
    from jtsolve.models.gaussian import GaussianTreeModel, gaussian_log_likelihood
    from jtsolve.models.queries import log_likelihood

    if isinstance(model, GaussianTreeModel):
        values = read_values(data, model.names, gaps=gaps, header=header, separator=separator)
        return gaussian_log_likelihood(model, values)
    codes = read_codes(data, model.columns, gaps=gaps, header=header, separator=separator)
    return log_likelihood(model, codes)
