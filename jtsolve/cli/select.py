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
from jtsolve.core.outputs import claim_outputs
from jtsolve.options import KIND


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
    screen: Annotated[
        str | None, typer.Option(metavar="TEXT", help="complete, correlation:R, or pc as in pc:1,level=0.1.")
    ] = None,
    superset: Annotated[
        Path | None, file_option("A graph, result or posterior in place of a screen.")
    ] = None,
    over: Annotated[
        str | None, typer.Option(metavar="TEXT", help="junction-tree[:LARGEST SEPARATOR], or plain.")
    ] = None,
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
    claim_outputs(output)

    from jtsolve.core.formats import GRAPH
    from jtsolve.io.graph import selection_to_document, write_graph
    from jtsolve.selection.choices import SelectionPlan
    from jtsolve.selection.framed import selection_facts
    from jtsolve.study.arguments import score_argument
    from jtsolve.study.data import Data as StudyData
    from jtsolve.study.graphs import graph_in

    known = None if superset is None else graph_in(superset)[0]
    plan = SelectionPlan.of(method, kind, screen, over, superset=known, source=str(superset))  # type: ignore[arg-type]  # checked there
    GRAPH.format_to_write(output)
    run = spend.run(context.obj, seed, silent=json, quiet=quiet)
    file = StudyData(data, columns.reading())
    table = file.read(score_argument(plan.score), run, kinds=plan.kinds)
    found = plan.run(table, run)  # type: ignore[arg-type]  # not in partitions
    document = selection_to_document(found)
    write_graph(document, output)
    facts: dict[str, Any] = {"graph": str(output), **selection_facts(document)}
    if json:
        emit_json(facts)
    elif not quiet:
        emit_facts("selected", {key: f"{x:.3g}" if isinstance(x, float) else x for key, x in facts.items()})
