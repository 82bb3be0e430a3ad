"""`jtsolve population`: the size of a population from overlapping lists."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.options import (
    Data,
    DataOptions,
    Json,
    LimitOptions,
    Quiet,
    declared,
    expand_option_groups,
    file_option,
)
from jtsolve.cli.output import emit, json_text
from jtsolve.core.formats import ESTIMATE
from jtsolve.core.outputs import claim_outputs
from jtsolve.options import DELTA, MOST, STRATA


@expand_option_groups
def population(
    context: typer.Context,
    *,
    data: Data,
    most: Annotated[int | None, declared(MOST)] = None,
    delta: Annotated[float | None, declared(DELTA)] = None,
    strata: Annotated[str | None, declared(STRATA)] = None,
    table: DataOptions,
    spend: LimitOptions,
    output: Annotated[
        Path | None, file_option("Write the posterior here (.json), or draw it (.svg, .png).")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Estimate the size of a population from overlapping lists.

    A row is a case, or a set of lists with its count (--weights); a column is a list, 1 where it has the
    case, else 0. The estimate averages over all decomposable graphs of dependence between the lists.
    """
    claim_outputs(output, kind=ESTIMATE)

    from jtsolve.core.files import write_atomically
    from jtsolve.study.data import Data as StudyData
    from jtsolve.study.population import population_of

    run = spend.run(context.obj, silent=json, quiet=quiet)
    found = population_of(StudyData(data, table.reading()), run, most, delta, strata)
    document = json_text(found.to_document())
    if output is not None and ESTIMATE.format_to_write(output) == "json":
        write_atomically(output, document.encode())
    elif output is not None:
        found.draw(output)
    if json:
        emit(document)
    elif not quiet:
        emit(str(found))
