"""`jtsolve show`: a result, a model, a graph or a posterior as text, or drawn."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.options import (
    DataOptions,
    LimitOptions,
    TableMemory,
    expand_option_groups,
    file_argument,
    file_option,
    flags_given,
    limit_tables,
)
from jtsolve.cli.output import emit, emit_json
from jtsolve.core.formats import PICTURE
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError


@expand_option_groups
def show(
    context: typer.Context,
    *,
    result: Annotated[Path, file_argument("RESULT", "A result, model, network, graph or posterior.")],
    graph: Annotated[
        bool, typer.Option("--graph", help="Show the graph of the variables instead of the tree.")
    ] = False,
    output: Annotated[
        Path | None,
        file_option("Draw it here: .svg, .png, .dot (Graphviz), or .html, the graph as a page that zooms."),
    ] = None,
    picture: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Posteriors: heat-map (default), graph, cliques or traces; with --data: mosaic:A,B.",
        ),
    ] = None,
    data: Annotated[Path | None, file_option("Show the goodness of fit to these data.")] = None,
    posterior: Annotated[Path | None, file_option("With --data: of 'average', for the edges.")] = None,
    columns: DataOptions,
    memory_limit: TableMemory = None,
    json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Show a result or a model and its tree, or draw it.

    For a model: the size of each table, and for each separator its entropy H, in nats, the information that
    the two sides of the tree share, and the mutual information I of its two cliques' other members. For a
    mixture: the weights and the components' trees; it cannot be drawn as one tree. For the results of solve
    --k-best: all scores, and the best tree. For a posterior: its edges, cliques and separators; --picture
    chooses among the heat map of the edges, the graph with edges as wide as they are probable, bars of the
    likeliest cliques, and the traces of the chains. For a graph: its edges, drawn by sign and strength,
    regions in colour; its tree is that of a triangulation. For a feature tree: its splits and leaves; --graph
    is that of a junction tree of the same distribution, which is refused with its size if that is too large.

    With --data, of a result or a model: G², X², degrees of freedom, AIC and BIC of its graph as a log-linear
    model, the cells with the largest adjusted residuals, and the cost of removing each edge;
    --picture mosaic:A,B draws a table of counts.
    """
    claim_outputs(output, kind=PICTURE)
    if data is None and (idle := [*flags_given(columns), *["--posterior"] * (posterior is not None)]):
        raise ChoiceError(f"{', '.join(idle)}: for --data FILE only; leave it out, or give the data")
    if picture is not None and output is None:
        raise ChoiceError("--picture names the subject; name the file, too: --output FILE")
    if picture is not None and graph:
        raise ChoiceError("--graph shows the best tree's; leave it out, or --picture")

    limit_tables(memory_limit)
    from jtsolve.cli.views import of_fit, view_of

    if data is None:
        view = view_of(result, picture)
    else:
        run = LimitOptions().run(context.obj, silent=True)
        view = of_fit(result, data, columns, posterior, picture, run)
    if json:
        emit_json(view.facts)
    whole = view.of_graph or not graph
    if output is not None:
        if whole and view.draw is not None:
            view.draw(output)
        else:
            view.tree().show(output, graph=graph)
    elif not json:
        emit(view.text() if whole else view.tree().text(graph=True).encode())
