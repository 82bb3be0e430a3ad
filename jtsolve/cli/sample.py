"""`jtsolve sample`: rows drawn from a model, given evidence."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.options import DrawSeed, Given, Likelihood, Model, Rows
from jtsolve.cli.output import emit, require_rows
from jtsolve.core.outputs import claim_outputs


def sample(
    model: Model,
    rows: Rows,
    seed: DrawSeed = 0,
    given: Given = None,
    likelihood: Likelihood = None,
    output: Annotated[
        Path | None,
        typer.Option(
            readable=False, metavar="FILE", help="Write them here (.csv, .csv.gz) instead of printing."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON: states by column.")] = False,
) -> None:
    """Draw rows from a model, as CSV with a header; with evidence, from the distribution given it."""
    claim_outputs(output)

    from jtsolve.cli.models import csv_bytes, evidence, json_text, labelled
    from jtsolve.core.files import write_atomically
    from jtsolve.errors import ChoiceError
    from jtsolve.models.files.opening import open_model

    if json and output is not None:
        raise ChoiceError("--json prints the rows, and --output writes them; give one of the two")
    found = open_model(model)
    require_rows(len(found.columns), rows)
    frame = labelled(found, found.sample(rows, seed, evidence(found, given, likelihood)))
    if json:
        emit(json_text(frame.to_dict(as_series=False)))
        return
    content = csv_bytes(found, frame)
    if output is None:
        emit(content)
    else:
        write_atomically(output, content)
