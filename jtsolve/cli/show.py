"""`jtsolve show`: a result, a model, a graph or a posterior as text, or drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from jtsolve.cli.options import JSON, OF_STATES, Options, file_argument, file_option, with_options
from jtsolve.cli.output import emit, json_text
from jtsolve.core.formats import PICTURE
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError, InputError
from jtsolve.options import MEMORY

if TYPE_CHECKING:
    from jtsolve.core.run import Run
    from jtsolve.io.graph import GraphDocument
    from jtsolve.models.goodness import Goodness
    from jtsolve.study.trees import NamedTree


@with_options(*OF_STATES, MEMORY, JSON)
def show(
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
    options: Options,
) -> None:
    """Show a result or a model and its tree, or draw it.

    For a model: the size of each table, and for each separator its entropy H, in nats, and the mutual
    information I of its two cliques' other members; a mixture cannot be drawn as one tree. For the results of
    solve --k-best: all scores, and the best tree. For a graph: its edges, and the tree of a triangulation.
    For a posterior: its edges, cliques and separators. For a feature tree: its splits and leaves; --graph is
    that of a junction tree of the same distribution.

    With --data, of a result or a model: G², X², degrees of freedom, AIC and BIC of its graph as a log-linear
    model, the cells with the largest adjusted residuals, and the cost of removing each edge.
    """
    claim_outputs(output, kind=PICTURE)
    if data is None and (idle := [*options.flags(OF_STATES), *["--posterior"] * (posterior is not None)]):
        raise ChoiceError(f"{', '.join(idle)}: for --data FILE only; leave it out, or give the data")
    if picture is not None and output is None:
        raise ChoiceError("--picture names the subject; name the file, too: --output FILE")
    if picture is not None and graph:
        raise ChoiceError("--graph shows the best tree's; leave it out, or --picture")

    options.silent = True
    run = options.run()
    if data is None:
        view = view_of(result, picture)
    else:
        view = of_fit(result, data, options, posterior, picture, run)
    if options.json:
        emit(json_text(view.facts))
    whole = view.of_graph or not graph
    if output is not None:
        if whole and view.draw is not None:
            view.draw(output)
        else:
            view.tree().show(output, graph=graph)
    elif not options.json:
        emit(view.text() if whole else view.tree().text(graph=True).encode())


@dataclass(frozen=True, slots=True)
class View:
    """The ways to show a file.

    Attributes:
        facts: as JSON values.
        text: returns the text for people.
        tree: returns the tree; raises a `JtsolveError` if there is none.
        draw: draws something else than the tree into a file; or None.
        of_graph: whether that is the graph of the variables.
    """

    facts: Any
    text: Callable[[], str]
    tree: "Callable[[], NamedTree]"
    draw: Callable[[Path], None] | None = None
    of_graph: bool = False


def file_kind(path: Path) -> str:
    """Returns the kind of a file: model, graph, posterior, results or result.

    Raises:
        InputError: it is a table, or no JSON.
    """
    from jtsolve.core.formats import GRAPH, MODEL, TABLE
    from jtsolve.io.documents import format_of

    if MODEL.format_to_read(path) not in (None, "json"):
        return "model"
    if GRAPH.format_to_read(path) not in (None, "json"):
        return "graph"
    if TABLE.format_to_read(path) is not None:
        raise MODEL.refusal(path)
    declared = str(format_of(path)).removeprefix("jtsolve-")
    return declared if declared in ("model", "graph", "posterior", "results") else "result"


def view_of(path: Path, picture: str | None) -> View:
    """Returns the view of a file.

    Args:
        path: of the file.
        picture: of a posterior; None for the heat map.

    Raises:
        ChoiceError: a picture is named, and the file holds no posterior.
        InputError: the file is malformed.
    """
    kind = file_kind(path)
    if picture is not None and kind != "posterior":
        raise ChoiceError("--picture is for posteriors, and with --data; leave it out")
    if kind == "graph":
        return _of_graph(path)
    if kind == "posterior":
        return _of_posterior(path, picture or "heat-map")
    if kind == "model":
        return _of_model(path)
    return _of_results(path, several=kind == "results")


def _of_results(path: Path, *, several: bool) -> View:
    """Returns the view of a result file, or of a file of several results; its tree is the best one."""
    from jtsolve.io.ranking import read_ranking
    from jtsolve.io.result import read_result, tree_of
    from jtsolve.io.summary import describe_ranking, result_text
    from jtsolve.study.trees import NamedTree

    document: Any = (read_ranking if several else read_result)(path)
    describe: Callable[..., str] = describe_ranking if several else result_text

    def best() -> NamedTree:
        if several and not document.results:
            raise InputError(str(path), "$.results", "there is no tree", "give results with one")
        return NamedTree(*tree_of(document.results[0] if several else document, str(path)))

    facts = {"backend": document.backend.name}
    return View(_values(path), lambda: describe(document, str(path), facts), best)


def _of_model(path: Path) -> View:
    """Returns the view of a model: its size, and notes on each clique and separator."""
    from jtsolve.models.framed import Model
    from jtsolve.models.views import model_text
    from jtsolve.study.trees import NamedTree

    found = Model.read(path)
    return View(
        {"model": path.name, **found.facts()},
        lambda: model_text(found.model.describe(), found.names, path.name),
        lambda: NamedTree(found.model.structure("a drawing"), found.names),
        found.show,
    )


def _of_posterior(path: Path, picture: str) -> View:
    """Returns the view of a posterior file, and one of its pictures; its tree is the best one."""
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.study.trees import NamedTree

    posterior = GraphPosterior.read(path)

    def best() -> NamedTree:
        if posterior.best is None:
            raise InputError(str(path), "$.diagnostics.best", "there is no best tree", "solve the problem")
        return NamedTree(posterior.best, posterior.names)

    return View(
        _values(path),
        lambda: str(posterior),
        best,
        lambda target: posterior.draw(target, picture),
    )


def _of_graph(path: Path) -> View:
    """Returns the view of a graph file; its tree is that of its min-fill triangulation."""
    import msgspec

    from jtsolve.io.graph import read_document
    from jtsolve.selection.framed import draw_document
    from jtsolve.study.trees import triangulate

    document = read_document(path)

    def text() -> str:
        found = triangulate(path)
        added = found.facts["fill"]
        filled = f", which adds {added} edge{'s' * (added != 1)}" if added else ""
        title = f"junction tree of its min-fill triangulation{filled}"
        return f"{_graph_text(document)}\n\n{title}\n{found.text()}"

    draw = partial(draw_document, document)
    return View(msgspec.to_builtins(document), text, partial(triangulate, path), draw, of_graph=True)


def _graph_text(document: "GraphDocument") -> str:
    """Returns a graph for people: its size, how it was found, and its edges, the strongest first."""
    from jtsolve.listing import table
    from jtsolve.selection.framed import selection_facts

    found = selection_facts(document).items()
    facts = [[name.replace("_", " "), fact] for name, fact in found if fact not in (None, "")]
    headings, rows = ["edge", ""], [list[Any](pair) for pair in document.edges]
    if document.strengths is not None:
        strongest = sorted(zip(rows, document.strengths, strict=True), key=lambda one: -abs(one[1]))
        headings, rows = [*headings, "partial correlation"], [[*pair, f"{x:+.4f}"] for pair, x in strongest]
    return f"{table(['', ''], facts)}\n\n{table(headings, rows)}"


def _values(path: Path) -> Any:
    """Returns the values in a JSON file."""
    import json

    from jtsolve.core.files import read_file

    return json.loads(read_file(path))


def of_fit(
    path: Path, data: Path, options: Options, posterior: Path | None, picture: str | None, run: "Run"
) -> View:
    """Returns the view of the goodness of fit of a tree to data: figures, worst cells and edges.

    Args:
        path: of the result or model.
        data: their path.
        options: how to read them.
        posterior: a posterior over the same variables, or None.
        picture: "mosaic:A,B", or None for the tree.
        run: limits, and findings of the data check.

    Raises:
        ChoiceError: there is no such picture.
        InputError: a file is malformed, or the posterior is over other variables.
    """
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.listing import table
    from jtsolve.models.edges import edge_frame
    from jtsolve.tables.frames import FrameStyle
    from jtsolve.tables.options import names_in

    named, goodness = _goodness(path, data, options, run)
    subject, _, variables = (picture or "").partition(":")
    if picture is not None and (subject != "mosaic" or not variables):
        raise ChoiceError(
            f"--picture {picture}: of data there is mosaic:A,B, the counts of variables A and B"
        )
    probabilities = None if posterior is None else GraphPosterior.read(posterior)
    edges = edge_frame(named.tree, named.names, FrameStyle(), table=goodness.table, posterior=probabilities)

    def text() -> str:
        rows = [
            [
                *row[:2],
                "yes" if row[2] else "no: in several cliques",
                *("" if isnan(x) else x for x in row[3:]),
            ]
            for row in edges.rows()
        ]
        return f"{goodness.text()}\n\n{table(edges.columns, rows)}"

    return View(
        {
            "name": path.name,
            **goodness.facts(),
            "residuals": goodness.residuals().to_dicts(),
            "edges": edges.to_dicts(),
        },
        text,
        lambda: named,
        None if picture is None else lambda target: goodness.mosaic(target, names_in(variables)),
    )


def _goodness(path: Path, data: Path, options: Options, run: "Run") -> "tuple[NamedTree, Goodness]":
    """Returns the tree of a result or a model, and its goodness of fit to data."""
    from jtsolve.models.goodness import Goodness, goodness_of
    from jtsolve.scoring.scores.bic import Bic
    from jtsolve.study.data import Data
    from jtsolve.study.trees import NamedTree
    from jtsolve.tables.reading import reading_of

    kind, given = file_kind(path), options.reading
    if kind == "model":
        from jtsolve.models.files.opening import open_model

        goodness = goodness_of(open_model(path), data, reading_of(given), given, run=run)
        return NamedTree(goodness.tree, goodness.table.names), goodness
    if kind not in ("result", "results"):
        raise ChoiceError(
            f"--data is for results and models, and {path} is a {kind}; fit a model to the data"
        )
    named = view_of(path, None).tree()
    table = Data(data, reading_of(given)).columns(named.names).read(Bic(), run, named.treewidth + 1)
    return named, Goodness(named.tree, cast("Any", table))
