"""`jtsolve average`: the posterior over all decomposable graphs, or trees drawn from it."""

from typing import TYPE_CHECKING

import typer

from jtsolve.cli.options import JSON, QUIET, Instance, Options, ResultFile, with_options
from jtsolve.cli.output import (
    FOUND,
    INFEASIBLE,
    INTERRUPTED,
    NO_TREE,
    NOT_CONVERGED,
    print_error,
    print_note,
    put,
)
from jtsolve.cli.problems import PROBLEM, read_task
from jtsolve.core.formats import DRAWS, POSTERIOR
from jtsolve.core.outputs import claim_outputs
from jtsolve.options import EDGE_ODDS, METHOD, TREES
from jtsolve.scoring.score import MARGINAL_SCORE

if TYPE_CHECKING:
    from jtsolve.averaging.method import AveragingMethod, Draws
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.core.problem import Problem
    from jtsolve.scoring.problem import Tabulation


@with_options(*PROBLEM, METHOD, EDGE_ODDS, TREES, JSON, QUIET)
def average(
    *,
    instance: Instance,
    output: ResultFile = None,
    options: Options,
) -> None:
    """Average over all decomposable graphs of an instance, or of a data file.

    Data are scored by niw, states alone by bdeu, unless --score names another; with --score, a file of any
    name is read as data.

    Each graph counts once, weighted by its score. Exact sums need no samples. Where their tables do not fit,
    certified sums give proved intervals, and chains report whether they converged; 'jtsolve methods' explains
    them and the bootstrap. 'jtsolve show' draws the posterior. With --trees, graphs are drawn, independently
    or from chains that have converged.

    Exit codes: 3: no graph meets the constraints; 4: no resample was done within the limits, or the scheduler
    was lost; 5: the chains did not converge, or an interval is wider than the tolerance.
    """
    trees, edge_odds = options.trees, options.edge_odds
    claim_outputs(output, kind=DRAWS if trees else POSTERIOR)

    from jtsolve.averaging.average import average as averaged
    from jtsolve.averaging.average import draw_trees
    from jtsolve.averaging.method import SourceRows
    from jtsolve.averaging.registry import METHODS
    from jtsolve.study.arguments import held_cluster

    how: AveragingMethod = METHODS.chosen(options.method, "tabulation")
    options.silent = trees > 0
    run = options.run()

    def rule(n: int, largest: int) -> "Tabulation":
        return how.tabulation(n, largest, run.limits, drawn=trees > 0)

    problem, study, data = read_task(options, instance, run, MARGINAL_SCORE, rule=rule)
    if trees:
        draws = draw_trees(problem, trees, method=how, run=run, edge_odds=edge_odds)
        if draws is None:
            print_error("no graph meets the constraints")
            raise typer.Exit(INFEASIBLE)
        if (off := draws.diagnostics.get("total_variation")) is not None and not options.quiet:
            print_note(f"the draws are off the posterior by {off:.2g} at most, in total variation")
        put(_lines(problem, draws), output)
        return
    with held_cluster(options.executor, options.threads) as cluster:
        rows = None if study is None or data is None else SourceRows(study.score, data)
        found = averaged(problem, method=how, run=run, edge_odds=edge_odds, cluster=cluster, rows=rows)
    if found is None:
        print_error("no graph meets the constraints")
        raise typer.Exit(INFEASIBLE)

    from jtsolve.averaging.document import posterior_to_json

    lost, document = _early_end(found), posterior_to_json(found)
    options.deliver(document, lambda: str(found), output)
    if (warning := found.warning) is not None:
        print_error(warning)
    if lost is not None:
        raise typer.Exit(lost)
    raise typer.Exit(FOUND if found.converged else NOT_CONVERGED)


def _early_end(posterior: "GraphPosterior") -> int | None:
    """Prints why chains or resamples ended early, and returns the exit code; None if they did not."""
    from jtsolve.cluster import lost
    from jtsolve.core.result import Stop

    if (why := posterior.diagnostics.get("no_bootstrap")) is not None:
        print_error(f"no resample was done, so the posterior has no strengths beside it. {why['reason']}")
        return INTERRUPTED if why["stop"] == Stop.INTERRUPTED.value else NO_TREE
    resampled = posterior.bootstrap is not None and posterior.bootstrap.stop is Stop.LOST
    if not resampled and posterior.diagnostics.get("stop") != Stop.LOST.value:
        return None
    print_error(str(lost()))
    return NO_TREE


def _lines(problem: "Problem", draws: "Draws") -> bytes:
    """Returns a line of JSON for each drawn tree."""
    import json
    from functools import cache, partial

    from jtsolve.io.documents import names_of

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
    return "".join(f"{lines[tree]}\n" for tree in draws.trees).encode()
