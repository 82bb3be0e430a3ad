"""`jtsolve average`: the posterior over all decomposable graphs."""

from dataclasses import replace
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
    SearchOptions,
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
from jtsolve.cli.scoring import DataFile, score_file
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.tables.suffixes import DATA_SUFFIXES

if TYPE_CHECKING:
    from jtsolve.averaging.bootstrap import Search, Strengths
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.cluster import Cluster
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Run
    from jtsolve.scoring.problem import Tabulation
    from jtsolve.scoring.score import LocalScore


@grouped
def average(
    context: typer.Context,
    *,
    instance: Instance,
    method: Annotated[str, typer.Option(metavar="NAME", help="auto, exact or chains.")] = "auto",
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
    treewidths: Annotated[
        bool, typer.Option("--treewidths", help="Also the posterior of the treewidth.")
    ] = False,
    draws: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Also the posterior of the number of edges, from N exact draws."
        ),
    ] = 0,
    bootstrap: Annotated[
        int, typer.Option(metavar="B", min=0, help="Also edge strengths in B resamples of the data.")
    ] = 0,
    search: SearchOptions,
    temperatures: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Of each chain; 1 for no tempering [by the scores]."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=100,
            help="The most rounds, of 100 proposals or 4 a variable at each temperature "
            "[40,000, or to the time limit].",
        ),
    ] = None,
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

    --bootstrap B searches B resamples of the rows for their best trees, by --backend, and says in which
    share each edge is. Ctrl-C and the time limit keep the resamples done. --executor dask takes chains and
    resamples as tasks, on --threads workers of this machine or on those of a scheduler.

    Exit codes: 3: no graph meets the constraints; 4: no resample was done within the limits, or the scheduler
    has gone; 5: the chains did not converge.
    """
    for path in (output, plot):
        if path is not None:
            require_writable(path, instance)
    kind = None if plot is None else plot.suffix.lower().removeprefix(".")
    if kind not in (None, "svg", "png"):
        raise ChoiceError(f"the plot '{plot}' is neither .svg nor .png; give it one of these names")
    if given := [] if bootstrap else flags_given(search):
        raise ChoiceError(f"{', '.join(given)}: for the trees of --bootstrap B only")
    if bootstrap and not _is_data(instance, scoring):
        raise ChoiceError("--bootstrap draws rows, and an instance has none; give data, and --score")
    backend = search.chosen()
    run = spend.run(context.obj, seed, quiet=quiet, say=None if json or quiet else emit)
    cluster = context.with_resource(held(cluster_named(executor, spend.threads)))
    problem = read_or_score(
        instance,
        scoring,
        table,
        treewidth,
        constrain,
        run,
        method=method,
        prior=prior,
        drawn=draws > 0,
    )

    from jtsolve.averaging.average import average as average_over
    from jtsolve.averaging.bootstrap import Search
    from jtsolve.averaging.chains import Ladder
    from jtsolve.averaging.document import posterior_to_json
    from jtsolve.cli.posterior import describe_posterior
    from jtsolve.core.files import write_atomically

    with run.phase("averaging"):
        posterior = average_over(
            problem,
            method=method,
            run=run,
            edge_odds=edge_odds,
            prior=prior,
            threshold=threshold,
            treewidths=treewidths,
            draws=draws,
            ladder=Ladder(temperatures=temperatures, rounds=rounds, cluster=cluster),
        )
    if posterior is None:
        complain("no graph meets the constraints")
        raise typer.Exit(INFEASIBLE)
    lost: LimitError | KeyboardInterrupt | None = None
    if bootstrap:
        file = DataFile.of(instance, _score(scoring), table)
        try:
            trees = Search(file.score, problem.max_clique_size - 1, backend, problem.constraints)
            posterior = replace(posterior, bootstrap=_strengths(file, bootstrap, trees, run, cluster))
        except (LimitError, KeyboardInterrupt) as error:  # the posterior is not to be lost
            lost = error
            complain(f"no resample was done, so that the posterior has no strengths beside it. {error}")
    lost = lost or _loss(posterior)
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
        raise typer.Exit(NO_TREE if isinstance(lost, LimitError) else INTERRUPTED)
    raise typer.Exit(FOUND if posterior.converged else NOT_CONVERGED)


def _loss(posterior: "GraphPosterior") -> LimitError | None:
    """Returns the error if chains or resamples ended with their cluster, and says so."""
    from jtsolve.cluster import lost
    from jtsolve.core.result import Stop

    resampled = posterior.bootstrap is not None and posterior.bootstrap.stop is Stop.LOST
    if not resampled and posterior.diagnostics.get("stop") != Stop.LOST.value:
        return None
    complain(str(error := lost()))
    return error


def _strengths(
    file: DataFile,
    count: int,
    search: "Search",
    run: "Run",
    cluster: "Cluster | None",
) -> "Strengths":
    """Returns the strengths of edges in resamples of a data file."""
    from jtsolve.averaging.bootstrap import bootstrap

    table = file.read(run)
    with run.phase("resampling"):
        return bootstrap(table, count, search, run, cluster=cluster)


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
    run: "Run",
    *,
    method: str,
    prior: str = "graphs",
    drawn: bool = False,
) -> "Problem":
    """Returns the problem in an instance file, or of a data file, scored for a method of averaging."""
    from jtsolve.averaging.running import tabulation_to_average
    from jtsolve.io.instance import read_problem

    if not _is_data(path, scoring):
        if given := [*flags_given(scoring), *flags_given(table)]:
            raise ChoiceError(f"{', '.join(given)}: for data files only; name a score, such as --score bdeu")
        return constrain.on(read_problem(path, run)).with_treewidth(treewidth)
    bound = constrain.treewidth if treewidth is None else treewidth
    max_size = scoring.max_size or (None if bound is None else bound + 1)
    if max_size is None:
        raise ChoiceError("nothing says how large the scored sets are; give --treewidth K or --max-size K")
    data = DataFile.of(path, _score(scoring), table)

    def rule(n: int, largest: int) -> "Tabulation":
        return tabulation_to_average(n, largest, method, run.limits, prior, drawn=drawn)

    problem = score_file(data, max_size, run, named=constrain.of, rule=rule)
    return constrain.on(problem).with_treewidth(treewidth)
