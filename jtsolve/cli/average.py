"""`jtsolve average`: the posterior over all decomposable graphs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jtsolve.cli.options import (
    LOCAL,
    ConstraintOptions,
    DataOptions,
    Executor,
    Instance,
    Json,
    LimitOptions,
    PosteriorScoringOptions,
    Quiet,
    ResultFile,
    Seed,
    Treewidth,
    cluster_named,
    flags_given,
    grouped,
    held,
    make_score,
)
from jtsolve.cli.output import (
    FOUND,
    INFEASIBLE,
    INTERRUPTED,
    NO_TREE,
    NOT_CONVERGED,
    complain,
    emit,
    require_writable,
)
from jtsolve.cli.scoring import DataFile, score_file, silent
from jtsolve.errors import ChoiceError
from jtsolve.progress import is_watched
from jtsolve.tables.options import DATA_SUFFIXES

if TYPE_CHECKING:
    from jtsolve.averaging.method import AveragingMethod, Rows
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.cli.scoring import Say
    from jtsolve.core.backend import Limits
    from jtsolve.core.problem import Problem
    from jtsolve.scoring.problem import Tabulation
    from jtsolve.scoring.score import LocalScore


AveragingMethodText = Annotated[
    str, typer.Option(metavar="METHOD", help="auto, exact, chains or bootstrap; options: chains:rounds=400.")
]


@grouped
def average(
    context: typer.Context,
    *,
    instance: Instance,
    method: AveragingMethodText = "auto",
    treewidth: Treewidth = None,
    edge_odds: Annotated[
        float, typer.Option(metavar="X", help="Prior odds of an edge; 1: all graphs are equally likely.")
    ] = 1.0,
    prior: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="graphs: each counts once; rooted-junction-trees: once for each of them.",
        ),
    ] = "graphs",
    threshold: Annotated[
        float, typer.Option(metavar="P", help="Least probability of the cliques that are listed.")
    ] = 0.01,
    spend: LimitOptions,
    executor: Executor = LOCAL,
    seed: Seed = 0,
    output: ResultFile = None,
    plot: Annotated[
        Path | None,
        typer.Option(readable=False, metavar="FILE", help="Draw the heat map of the edges (.svg, .png)."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    constrain: ConstraintOptions,
    scoring: PosteriorScoringOptions,
    table: DataOptions,
) -> None:
    """Average over all decomposable graphs of an instance, or of a data file.

    Data are scored by bdeu unless --score names another; a file whose name does not say that it holds data
    is read as such with --score.

    Each graph counts once, weighted by its score and the prior. The exact sums give probabilities of edges,
    cliques and separators without samples; chains serve where the tables do not fit, and say whether they
    converged.

    --method bootstrap:200 searches 200 resamples of the rows for their best trees, and says in which share
    each edge is. Ctrl-C and the time limit keep the resamples done. --executor dask runs chains and resamples
    as tasks, on --threads workers of this machine or on those of a scheduler.

    Exit codes: 3: no graph meets the constraints; 4: no resample was done within the limits, or the scheduler
    has gone; 5: the chains did not converge.
    """
    for path in (output, plot):
        if path is not None:
            require_writable(path, instance)
    kind = None if plot is None else plot.suffix.lower().removeprefix(".")
    if kind not in (None, "svg", "png"):
        raise ChoiceError(f"the plot '{plot}' is neither .svg nor .png; give it one of these names")
    from jtsolve.averaging.registry import METHODS

    limits, how = spend.limits(context.obj, seed), METHODS.parse(method)
    cluster = context.with_resource(held(cluster_named(executor, spend.threads)))
    shown = not quiet and is_watched()
    problem = read_or_score(
        instance,
        scoring,
        table,
        treewidth,
        constrain,
        limits,
        silent if json or quiet else emit,
        method=how,
        prior=prior,
        shown=shown,
    )

    from jtsolve.averaging.average import average as average_over
    from jtsolve.averaging.document import posterior_to_json
    from jtsolve.cli.posterior import describe_posterior
    from jtsolve.core.files import write_atomically
    from jtsolve.progress import progress

    with progress("averaging", shown=shown) as listener:
        posterior = average_over(
            problem,
            method=how,
            limits=limits,
            listener=listener,
            edge_odds=edge_odds,
            prior=prior,
            threshold=threshold,
            cluster=cluster,
            rows=_rows(instance, scoring, table, limits),
        )
    if posterior is None:
        complain("no graph meets the constraints")
        raise typer.Exit(INFEASIBLE)
    lost = _loss(posterior)
    data = posterior_to_json(posterior)
    if output is not None:
        write_atomically(output, data)
    if plot is not None:
        posterior.draw(plot, "svg" if kind == "svg" else "png")
    if json:
        emit(data)
    elif not quiet:
        emit(describe_posterior(posterior))
    if not posterior.converged:
        complain("the chains have not converged: their figures must not be used")
    if lost is not None:
        raise typer.Exit(lost)
    raise typer.Exit(FOUND if posterior.converged else NOT_CONVERGED)


def _loss(posterior: "GraphPosterior") -> int | None:
    """Returns the exit code if chains or resamples ended early, and says why; None if they did not."""
    from jtsolve.cluster import lost
    from jtsolve.core.result import Stop

    if (why := posterior.diagnostics.get("no_bootstrap")) is not None:
        complain(f"no resample was done, so the posterior has no strengths beside it. {why['reason']}")
        return INTERRUPTED if why["stop"] == Stop.INTERRUPTED.value else NO_TREE
    resampled = posterior.bootstrap is not None and posterior.bootstrap.stop is Stop.LOST
    if not resampled and posterior.diagnostics.get("stop") != Stop.LOST.value:
        return None
    complain(str(lost()))
    return NO_TREE


def _rows(
    path: Path, scoring: PosteriorScoringOptions, table: DataOptions, limits: "Limits"
) -> "Rows | None":
    """Returns the rows of a data file, which are read again; None for an instance."""
    from jtsolve.averaging.method import Rows

    if not _is_data(path, scoring):
        return None
    file = DataFile.of(path, _score(scoring), table.reading(), quiet=True)
    return Rows(file.score, lambda: file.read(limits))


def _is_data(path: Path, scoring: PosteriorScoringOptions) -> bool:
    return scoring.score is not None or path.name.lower().endswith(DATA_SUFFIXES)


def _score(scoring: PosteriorScoringOptions) -> "LocalScore":
    """Returns the score of data: a log marginal likelihood by default, so that weights are probabilities."""
    return make_score(scoring.score or "bdeu", scoring.ess)


def read_or_score(
    path: Path,
    scoring: PosteriorScoringOptions,
    table: DataOptions,
    treewidth: int | None,
    constrain: ConstraintOptions,
    limits: "Limits",
    say: "Say",
    *,
    method: "AveragingMethod",
    prior: str = "graphs",
    drawn: bool = False,
    shown: bool,
) -> "Problem":
    """Returns the problem in an instance file, or of a data file, scored for a method of averaging."""
    from jtsolve.io.instance import read_problem

    if not _is_data(path, scoring):
        if given := [*flags_given(scoring), *flags_given(table)]:
            raise ChoiceError(f"{', '.join(given)}: for data files only; name a score, such as --score bdeu")
        return constrain.on(read_problem(path)).with_treewidth(treewidth)
    bound = constrain.treewidth if treewidth is None else treewidth
    max_size = scoring.max_size or (None if bound is None else bound + 1)
    if max_size is None:
        raise ChoiceError("nothing says how large the scored sets are; give --treewidth K or --max-size K")
    data = DataFile.of(path, _score(scoring), table.reading())

    def rule(n: int, largest: int) -> "Tabulation":
        return method.tabulation(n, largest, limits, prior, drawn=drawn)

    problem = score_file(data, max_size, limits, say, named=constrain.of, rule=rule, shown=shown)
    return constrain.on(problem).with_treewidth(treewidth)
