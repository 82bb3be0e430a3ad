"""`jtsolve select`: the undirected graph of the columns of a data file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from jtsolve.cli.options import JSON, LIMITS, OF_STATES, QUIET, Data, Options, file_option, with_options
from jtsolve.cli.output import facts_table
from jtsolve.core.formats import GRAPH
from jtsolve.core.outputs import claim_outputs
from jtsolve.options import KIND, OVER, SCREEN, SEED, SUPERSET


@with_options(KIND, SCREEN, SUPERSET, OVER, *LIMITS, SEED, *OF_STATES, JSON, QUIET)
def select(
    *,
    data: Data,
    output: Annotated[Path, file_option("Write it here (.json, .json.gz, .graphml, .csv).", metavar="GRAPH")],
    method: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="glasso, neighbourhood or pc, as in pc:depth=1; default: pc of states, else glasso.",
        ),
    ] = None,
    options: Options,
) -> None:
    """Select the edges of an undirected graph over the columns of a data file.

    A screen gives a superset of the graph; a method decides its edges region by region over a junction tree
    of it, or with --over plain at once. The file keeps every decision: 'jtsolve check' verifies it, 'jtsolve
    show' draws it, 'fit --graph' and 'solve --constraint within_graph=GRAPH' use it.
    """
    claim_outputs(output, kind=GRAPH)

    from jtsolve.study.arguments import data_of
    from jtsolve.study.graphs import selected_graph

    found = selected_graph(data_of(data, options.reading, None), options.run(), method, options)
    found.write(output)
    facts: dict[str, Any] = {"graph": str(output), **found.facts()}
    words = {key: f"{x:.3g}" if isinstance(x, float) else x for key, x in facts.items()}
    options.show(facts, lambda: facts_table("selected", words))
