"""`jtsolve population`: the size of a population from overlapping lists."""

from pathlib import Path
from typing import Annotated

from jtsolve.cli.options import JSON, LIMITS, OF_STATES, QUIET, Data, Options, file_option, with_options
from jtsolve.cli.output import json_text, put
from jtsolve.core.formats import ESTIMATE
from jtsolve.core.outputs import claim_outputs
from jtsolve.options import DELTA, MOST, STRATA


@with_options(MOST, DELTA, STRATA, *OF_STATES, *LIMITS, JSON, QUIET)
def population(
    *,
    data: Data,
    output: Annotated[
        Path | None, file_option("Write the posterior here (.json), or draw it (.svg, .png).")
    ] = None,
    options: Options,
) -> None:
    """Estimate the size of a population from overlapping lists.

    A row is a case, or a set of lists with its count (--weights); a column is a list, 1 where it has the
    case, else 0. The estimate averages over all decomposable graphs of dependence between the lists.
    """
    claim_outputs(output, kind=ESTIMATE)

    from jtsolve.study.arguments import data_of
    from jtsolve.study.population import population_of

    run, source = options.run(), data_of(data, options.reading, None)
    found = population_of(source, run, options.most, options.delta, options.strata)
    document = found.to_document()
    if output is not None and ESTIMATE.format_to_write(output) == "json":
        put(json_text(document).encode(), output)
    elif output is not None:
        found.draw(output)
    options.show(document, lambda: str(found))
