"""`jtsolve sample-trees`: independent junction trees from the posterior."""

from typing import Annotated

import typer

from jtsolve.cli.average import read_or_score
from jtsolve.cli.options import (
    DataOptions,
    Instance,
    LimitOptions,
    ResultFile,
    ScoringOptions,
    Seed,
    Treewidth,
    grouped,
)
from jtsolve.cli.output import INFEASIBLE, complain, emit, require_writable
from jtsolve.cli.scoring import silent
from jtsolve.progress import is_watched


@grouped
def sample_trees(
    context: typer.Context,
    *,
    instance: Instance,
    count: Annotated[int, typer.Option("-n", "--count", metavar="N", min=1, help="How many trees.")] = 1,
    treewidth: Treewidth = None,
    edge_odds: Annotated[
        float, typer.Option(metavar="X", help="Prior odds of an edge; 1: all graphs are equally likely.")
    ] = 1.0,
    spend: LimitOptions,
    seed: Seed = 0,
    output: ResultFile = None,
    scoring: ScoringOptions,
    table: DataOptions,
) -> None:
    """Draw graphs from the posterior exactly, and print their junction trees, one line of JSON each.

    The draws are independent: there is no burn-in, and all have the same weight. Each graph comes with its
    score and the cliques and separators of its canonical junction tree.

    Exit code 3: no graph meets the constraints.
    """
    import json

    if output is not None:
        require_writable(output, instance)
    limits = spend.limits(context.obj, seed)
    shown = is_watched()
    problem = read_or_score(instance, scoring, table, treewidth, limits, silent, shown=shown)

    from jtsolve.averaging.average import draw_trees
    from jtsolve.core.files import write_atomically
    from jtsolve.io.documents import names_of
    from jtsolve.progress import progress

    with progress("drawing", shown=shown) as listener:
        trees = draw_trees(problem, count, limits=limits, listener=listener, edge_odds=edge_odds)
    if trees is None:
        complain("no graph meets the constraints")
        raise typer.Exit(INFEASIBLE)
    lines = {}
    for tree in set(trees):
        entry = {
            "score": tree.score(problem.scores),
            "treewidth": tree.treewidth,
            "cliques": [names_of(clique, problem.names) for clique in tree.cliques],
            "separators": [names_of(separator, problem.names) for separator in tree.separators],
            "tree_edges": [list(edge) for edge in tree.edges],
        }
        lines[tree] = json.dumps(entry, ensure_ascii=False)
    text = "".join(f"{lines[tree]}\n" for tree in trees).encode()
    if output is None:
        emit(text)
    else:
        write_atomically(output, text)
