"""`jtsolve sample`: rows drawn from a model, given evidence."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.options import Given, Likelihood, Model, TableMemory, file_option, limit_tables
from jtsolve.cli.output import emit_json, require_rows
from jtsolve.core.formats import TABLE
from jtsolve.core.outputs import claim_outputs


def sample(
    model: Model,
    rows: Annotated[int, typer.Option(metavar="N", min=1, help="The number of rows to draw.")] = 10,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="The same seed draws the same rows.")] = 0,
    given: Given = None,
    likelihood: Likelihood = None,
    output: Annotated[
        Path | None, file_option("Write them here (.csv, .tsv, .parquet, .arrow) instead of printing.")
    ] = None,
    memory_limit: TableMemory = None,
    json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON: states by column.")] = False,
) -> None:
    """Draw rows from a model; with evidence, from the distribution given it. They are printed as CSV."""
    claim_outputs(output, kind=TABLE)

    from jtsolve.cli.models import evidence, labelled, put_rows
    from jtsolve.errors import ChoiceError
    from jtsolve.models.files.opening import open_model

    if json and output is not None:
        raise ChoiceError("--json prints the rows, and --output writes them; give one of the two")
    limit_tables(memory_limit)
    found = open_model(model)
    require_rows(len(found.columns), rows)
    drawn = found.sample(rows, seed, evidence(found, given, likelihood))
    if json:
        emit_json(labelled(found, drawn).to_dict(as_series=False))
    else:
        put_rows(found, drawn, output)
