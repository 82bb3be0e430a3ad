"""`jtsolve select`: the undirected graph of the columns of a data file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from jtsolve.cli.options import (
    Data,
    DataOptions,
    Json,
    LimitOptions,
    Quiet,
    Seed,
    declared,
    expand_option_groups,
    file_option,
)
from jtsolve.cli.output import emit_facts, emit_json
from jtsolve.core.formats import GRAPH
from jtsolve.core.outputs import claim_outputs
from jtsolve.options import KIND, OVER, SCREEN, SUPERSET


@expand_option_groups
def select(
    context: typer.Context,
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
    kind: Annotated[str | None, declared(KIND)] = None,
    screen: Annotated[str | None, declared(SCREEN)] = None,
    superset: Annotated[Path | None, declared(SUPERSET)] = None,
    over: Annotated[str | None, declared(OVER)] = None,
    spend: LimitOptions,
    seed: Seed = 0,
    columns: DataOptions,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Select the edges of an undirected graph over the columns of a data file.

    A screen gives a superset of the graph; a method decides its edges region by region over a junction tree
    of it, or with --over plain at once. The file keeps every decision: 'jtsolve check' verifies it, 'jtsolve
    show' draws it, 'fit --graph' and 'solve --constraint within_graph=GRAPH' use it.
    """
    claim_outputs(output, kind=GRAPH)

    from jtsolve.study.data import Data as StudyData
    from jtsolve.study.graphs import selected_graph

    run = spend.run(context.obj, seed, silent=json, quiet=quiet)
    found = selected_graph(StudyData(data, columns.reading()), run, method, kind, screen, over, superset)  # type: ignore[arg-type]  # the kind is checked there
    found.write(output)
    facts: dict[str, Any] = {"graph": str(output), **found.facts()}
    if json:
        emit_json(facts)
    elif not quiet:
        emit_facts("selected", {key: f"{x:.3g}" if isinstance(x, float) else x for key, x in facts.items()})
