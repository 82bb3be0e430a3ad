"""`jtsolve sample`: rows drawn from a model, given evidence."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.options import DrawSeed, Given, Likelihood, Model, Rows
from jtsolve.cli.output import emit, require_rows, require_writable


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
    if output is not None:
        require_writable(output, model)

    import polars as pl

    from jtsolve.cli.models import evidence, json_text, numbers
    from jtsolve.core.files import write_atomically
    from jtsolve.errors import ChoiceError
    from jtsolve.models.files.opening import open_model
    from jtsolve.models.gaussian import GaussianTreeModel
    from jtsolve.models.inference.gaussian import condition_gaussian, sample_gaussian
    from jtsolve.models.queries import columns_of_states, sample_given

    if json and output is not None:
        raise ChoiceError("--json prints the rows, and --output writes them; give one of the two")
    found = open_model(model)
    width = len(found.names if isinstance(found, GaussianTreeModel) else columns_of_states(found))
    require_rows(width, rows)
    if not isinstance(found, GaussianTreeModel):
        codes = sample_given(found, evidence(found, given, likelihood), rows, seed)
        series = [
            pl.Series(column.name, column.states, dtype=pl.String).gather(codes[v])
            for v, column in enumerate(columns_of_states(found))
        ]
    else:
        values = numbers(found, given, likelihood)
        known = condition_gaussian(found, values)[0]
        drawn = dict(zip(known.names, sample_gaussian(known, rows, seed), strict=True))
        constant = {name: [value] * rows for name, value in values.items()}
        series = [pl.Series(name, drawn.get(name, constant.get(name))) for name in found.names]
    frame = pl.DataFrame(series)
    if json:
        emit(json_text(frame.to_dict(as_series=False)))
        return
    content = frame.write_csv().encode()
    if output is None:
        emit(content)
    else:
        write_atomically(output, content)
