"""`jtsolve sample-trees`: independent junction trees from the posterior."""

from typing import Annotated

import typer

from jtsolve.cli.average import read_or_score
from jtsolve.cli.options import (
    ConstraintOptions,
    DataOptions,
    Instance,
    LimitOptions,
    PosteriorScoringOptions,
    ResultFile,
    Seed,
    Treewidth,
    grouped,
)
from jtsolve.cli.output import INFEASIBLE, complain, emit, require_writable


@grouped
def sample_trees(
    context: typer.Context,
    *,
    instance: Instance,
    count: Annotated[int, typer.Option("-n", "--count", metavar="N", min=1, help="How many trees.")] = 1,
    method: Annotated[str, typer.Option(metavar="NAME", help="auto, exact or chains.")] = "auto",
    treewidth: Treewidth = None,
    edge_odds: Annotated[
        float, typer.Option(metavar="X", help="Prior odds of an edge; 1: all graphs are equally likely.")
    ] = 1.0,
    spend: LimitOptions,
    seed: Seed = 0,
    output: ResultFile = None,
    constrain: ConstraintOptions,
    scoring: PosteriorScoringOptions,
    table: DataOptions,
) -> None:
    """Draw graphs from the posterior, and print their junction trees, one line of JSON each.

    Exact draws are independent: there is no burn-in, and all have the same weight. Where their tables do not
    fit, the draws are graphs of chains, equally spaced, and none if these have not converged. Each graph
    comes with its score and the cliques and separators of its canonical junction tree.

    Exit codes: 3: no graph meets the constraints; 5: the chains did not converge.
    """
    import json
    from functools import cache, partial

    if output is not None:
        require_writable(output, instance)
    run = spend.run(context.obj, seed)
    problem = read_or_score(instance, scoring, table, treewidth, constrain, run, method=method, drawn=True)

    from jtsolve.averaging.sampling import draw_trees
    from jtsolve.core.files import write_atomically
    from jtsolve.io.documents import names_of

    with run.phase("drawing"):
        draws = draw_trees(problem, count, method=method, run=run, edge_odds=edge_odds)
    if draws is None:
        complain("no graph meets the constraints")
        raise typer.Exit(INFEASIBLE)
    named, encode = cache(partial(names_of, names=problem.names)), json.JSONEncoder(ensure_ascii=False).encode
    lines = {}
    for tree in set(draws.trees):
        entry = {
            "score": tree.score(problem.scores),
            "treewidth": tree.treewidth,
            "cliques": list(map(named, tree.cliques)),
            "separators": list(map(named, tree.separators)),
            "tree_edges": tree.edges,
        }
        lines[tree] = encode(entry)
    text = "".join(f"{lines[tree]}\n" for tree in draws.trees).encode()
    if output is None:
        emit(text)
    else:
        write_atomically(output, text)
