"""`jtsolve show`: a result, a model or a posterior as text, in the DOT language, or drawn."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from jtsolve.cli.options import DataOptions, LimitOptions, flags_given, grouped
from jtsolve.cli.output import emit
from jtsolve.core.formats import GRAPH, MODEL, PICTURE
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.cli.views import View
    from jtsolve.core.run import Run
    from jtsolve.models.goodness import Goodness
    from jtsolve.study.trees import NamedTree
    from jtsolve.tables.table import DataTable


@grouped
def show(
    context: typer.Context,
    *,
    result: Annotated[
        Path,
        typer.Argument(
            readable=False, metavar="RESULT", help="A result, model, network, graph or posterior."
        ),
    ],
    graph: Annotated[
        bool, typer.Option("--graph", help="Show the graph of the variables instead of the tree.")
    ] = False,
    dot: Annotated[bool, typer.Option("--dot", help="Print it in the DOT language.")] = False,
    svg: Annotated[Path | None, typer.Option(readable=False, metavar="FILE", help="Draw it as SVG.")] = None,
    png: Annotated[Path | None, typer.Option(readable=False, metavar="FILE", help="Draw it as PNG.")] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            readable=False, metavar="FILE", help="Draw the graph as a page that zooms, at any size."
        ),
    ] = None,
    picture: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of a posterior: heat-map (default), graph, cliques or traces; with --data: mosaic:A,B.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(readable=False, metavar="FILE", help="Show the goodness of fit to these data."),
    ] = None,
    posterior: Annotated[
        Path | None,
        typer.Option(readable=False, metavar="FILE", help="With --data: of 'average', for the edges."),
    ] = None,
    columns: DataOptions,
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
    pictures = [(path, kind) for path, kind in ((svg, "svg"), (png, "png")) if path is not None]
    for path, kind in (*pictures, (html, "html")):
        claim_outputs(path, kind=PICTURE, to=kind)
    if data is None and (idle := [*flags_given(columns), *["--posterior"] * (posterior is not None)]):
        raise ChoiceError(f"{', '.join(idle)}: for --data FILE only; leave it out, or give the data")
    if picture is not None and svg is None and png is None:
        raise ChoiceError("--picture names the subject; say where to draw it: --svg FILE or --png FILE")
    if picture is not None and graph:
        raise ChoiceError("--graph shows the best tree's; leave it out, or --picture")
    if data is None:
        view = _view(result, picture)
    else:
        from jtsolve.cli.views import of_fit

        run = LimitOptions().run(context.obj, silent=True)
        view = of_fit(result, *_goodness(result, data, columns, run), posterior, picture)
    if json:
        from jtsolve.cli.models import json_text

        emit(json_text(view.facts))
    if html is not None:
        _draw_page(view, html)
    if not (dot or svg or png or html or json or graph):
        emit(view.text())
    if not (dot or svg or png or (graph and html is None)):
        return

    from jtsolve.draw.picture import draw_graph, draw_tree
    from jtsolve.draw.text import graph_dot, graph_text, tree_dot

    own = view.of_graph or not graph
    if own and dot and view.dot is not None:
        emit(view.dot().encode())
        dot = False
    if own and view.picture is not None:
        for path, kind in pictures:
            view.picture(path, kind)
        if not dot:
            return
    tree, names = view.tree()
    for path, kind in pictures:
        if graph:
            draw_graph(tree, names, path, format=kind)
        elif view.picture is None:
            draw_tree(tree, names, path, format=kind, notes=view.notes)
    if dot:
        emit((graph_dot(tree, names) if graph else tree_dot(tree, names, view.notes)).encode())
    elif graph and not (svg or png or json):
        emit(graph_text(tree, names).encode())


def _draw_page(view: "View", path: Path) -> None:
    """Draws the graph of the variables as a page."""
    from jtsolve.draw.picture import draw_graph

    if view.of_graph:
        assert view.picture is not None, "of a graph"
        view.picture(path, "html")
    else:
        tree, names = view.tree()
        draw_graph(tree, names, path, format="html")


def _kind(path: Path) -> str:
    """Returns the kind of a file: model, graph, posterior, results or result."""
    from jtsolve.core.files import read_file
    from jtsolve.io.documents import format_of

    if MODEL.format_to_read(path) not in (None, "json"):
        return "model"
    if GRAPH.format_to_read(path) not in (None, "json"):
        return "graph"
    declared = str(format_of(read_file(path))).removeprefix("jtsolve-")
    return declared if declared in ("model", "graph", "posterior", "results") else "result"


def _view(path: Path, picture: str | None) -> "View":
    """Returns the view of a file."""
    from jtsolve.cli.views import of_model, of_ranking, of_result

    kind = _kind(path)
    if picture is not None and kind != "posterior":
        raise ChoiceError("--picture is for posteriors, and with --data; leave it out")
    if kind == "model":
        from jtsolve.models.framed import Model

        return of_model(Model.read(path), path.name)
    if kind == "graph":
        from jtsolve.cli.graphs import of_graph

        return of_graph(path)
    if kind == "posterior":
        from jtsolve.cli.posterior import of_posterior

        return of_posterior(path, picture or "heat-map")
    return of_ranking(path) if kind == "results" else of_result(path)


def _goodness(path: Path, data: Path, columns: DataOptions, run: "Run") -> "tuple[NamedTree, Goodness]":
    """Returns the tree of a result or a model, and its goodness of fit to data."""
    from jtsolve.models.goodness import Goodness, goodness_of
    from jtsolve.scoring.scores.bic import Bic
    from jtsolve.study.data import Data
    from jtsolve.study.trees import NamedTree

    kind = _kind(path)
    if kind == "model":
        from jtsolve.models.files.opening import open_model

        goodness = goodness_of(open_model(path), data, columns.reading(), columns.given(), run=run)
        return NamedTree(goodness.tree, goodness.table.names), goodness
    if kind not in ("result", "results"):
        raise ChoiceError(
            f"--data is for results and models, and {path} is a {kind}; fit a model to the data"
        )
    tree, names = _view(path, None).tree()
    table = Data(data, columns.reading()).columns(names).read(Bic(), run, tree.treewidth + 1)
    return NamedTree(tree, names), Goodness(tree, cast("DataTable", table))
