"""`jtsolve select`: the undirected graph of the columns of a data file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import (
    Data,
    DataOptions,
    Json,
    LimitOptions,
    Quiet,
    Seed,
    TimeLimit,
    grouped,
)
from jtsolve.cli.output import emit, require_writable
from jtsolve.cli.scoring import DataFile
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.core.selection import Selection


@grouped
def select(
    context: typer.Context,
    *,
    data: Data,
    output: Annotated[
        Path,
        typer.Option(
            readable=False, metavar="GRAPH", help="Write it here (.json, .json.gz, .graphml, .csv)."
        ),
    ],
    method: Annotated[str, typer.Option(metavar="NAME", help="glasso, neighbourhood or pc.")] = "glasso",
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="gaussian, nonparanormal or states; default: as the test needs."),
    ] = None,
    criterion: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="Chooses the parameter: ebic[:GAMMA], bic, stars[:BETA], cv[:FOLDS], or its value.",
        ),
    ] = None,
    rule: Annotated[str | None, typer.Option(metavar="RULE", help="Of neighbourhood: and, or.")] = None,
    depth: Annotated[int | None, typer.Option(metavar="K", help="Of pc: the largest separating set.")] = None,
    direct: Annotated[
        bool,
        typer.Option("--direct", help="Of pc: direct the edges as far as they can be; the graph is a CPDAG."),
    ] = False,
    test: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of pc: fisher-z, correlation, bic; of states: g, chi2, bic."),
    ] = None,
    screen: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="complete, correlation:R or pc[:DEPTH[:LEVEL]] (default)."),
    ] = None,
    superset: Annotated[
        Path | None,
        typer.Option(
            readable=False,
            metavar="FILE",
            help="Seek edges within this graph, result, results or posterior, in place of a screen.",
        ),
    ] = None,
    above: Annotated[
        float | None, typer.Option(metavar="P", help="Of a posterior: the least probability of an edge.")
    ] = None,
    over: Annotated[
        str | None, typer.Option(metavar="WAY", help="junction-tree (default), or plain, as with --direct.")
    ] = None,
    separator_size: Annotated[
        int | None, typer.Option(metavar="K", help="Merge clusters joined by a larger separator.")
    ] = None,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    columns: DataOptions,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Select the edges of an undirected graph over the columns of a data file.

    A screen gives a superset of the graph; a method decides its edges region by region over a junction tree
    of it, or with --over plain at once. Every decision is kept in the graph file, which 'jtsolve check'
    verifies, 'jtsolve show' draws, 'jtsolve fit --graph' takes, and 'jtsolve solve --within-graph' refines.
    At the end of the time limit nothing is written.
    """
    inputs = [path for path in (superset, columns.schema) if path is not None]
    require_writable(output, data, *inputs)

    from jtsolve.io.graph import selection_to_document, suffix_of, write_graph
    from jtsolve.scoring.registry import named_score
    from jtsolve.selection.framework import select as select_graph
    from jtsolve.selection.request import Request
    from jtsolve.selection.running import within_limits
    from jtsolve.selection.supersets import read_superset

    suffix_of(output, arcs=direct)
    request = Request(
        method=method,
        kind=kind,  # type: ignore[arg-type]  # checked there
        criterion=criterion,
        rule=rule,
        depth=depth,
        direct=direct,
        test=test,
        screen=screen,
        over=over,  # type: ignore[arg-type]  # checked there
        separator_size=separator_size,
    )
    run = LimitOptions(time_limit).run(context.obj, seed, quiet=quiet)
    known = None if superset is None else read_superset(superset, above)
    screening = request.screening(known, str(superset))
    if above is not None and superset is None:
        raise ChoiceError("--above is for the edges of a posterior; give --superset POSTERIOR")
    score = named_score("bic" if request.data_kind == "states" else "gaussian-bic")
    file = DataFile.of(data, score, columns)
    table = file.read(run)
    with run.phase("selecting"):
        found = within_limits(
            lambda: select_graph(
                table,
                request.selection_method(),
                screening,
                request.framework(),
                margins=request.margins,
                run=run,
            ),
            run,
        )
    write_graph(selection_to_document(found), output)
    _report(found, output, json=json, quiet=quiet)


def _report(found: "Selection", output: Path, *, json: bool, quiet: bool) -> None:
    """Prints a summary."""
    from jtsolve.cli.models import json_text, table
    from jtsolve.selection.framed import selection_facts

    facts: dict[str, Any] = {"graph": str(output), **selection_facts(found)}
    if json:
        emit(json_text(facts))
    elif not quiet:
        shown = [[key.replace("_", " "), _words(fact)] for key, fact in facts.items()]
        emit(table(["selected", ""], shown))


def _words(fact: Any) -> str:
    return f"{fact:.3g}" if isinstance(fact, float) else str(fact)
