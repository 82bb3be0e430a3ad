"""What `import jtsolve` offers: data frames in and out, names in place of bit masks, around one `solve`."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from jtsolve import backends
from jtsolve.api.arguments import (
    backend_of,
    cluster_of,
    coding_of,
    joined_constraints,
    read_table,
    run_of,
    style_of,
    superset_of,
    treewidth_of,
)
from jtsolve.api.solution import Solution
from jtsolve.averaging.average import average as average_problem
from jtsolve.averaging.bootstrap import Search
from jtsolve.averaging.bootstrap import bootstrap as strengths_in_resamples
from jtsolve.averaging.chains import Ladder
from jtsolve.averaging.running import tabulation_to_average
from jtsolve.averaging.sampling import draw_trees
from jtsolve.cluster import Cluster
from jtsolve.core.problem import Constraints, Problem
from jtsolve.core.run import LOGGER
from jtsolve.data.examples import example
from jtsolve.errors import ChoiceError, InputError, JtsolveError, LimitError
from jtsolve.io.instance import read_problem
from jtsolve.models.framed import Model
from jtsolve.scoring.problem import problem_from_table
from jtsolve.scoring.registry import named_score
from jtsolve.scoring.score import DEFAULT_SCORE, is_discrete
from jtsolve.selection.framed import SelectedGraph
from jtsolve.selection.framework import select as select_graph
from jtsolve.selection.request import Request
from jtsolve.selection.running import within_limits
from jtsolve.solving import solve as solve_problem
from jtsolve.tables.dialect import Dialect
from jtsolve.tables.frames import is_path
from jtsolve.tables.partitions import IN_PARTITIONS, PartitionedTable, read_partitioned
from jtsolve.tables.suffixes import title_of
from jtsolve.wording import python_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import networkx as nx

    from jtsolve.api.arguments import GraphLike, Pairs
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.core.backend import Backend
    from jtsolve.core.graph import UndirectedGraph
    from jtsolve.scoring.score import LocalScore
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import Table

__all__ = [
    "ChoiceError",
    "InputError",
    "JtsolveError",
    "LimitError",
    "Model",
    "Problem",
    "Solution",
    "average",
    "backends",
    "example",
    "learn",
    "read",
    "select",
    "solve",
]


_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def _worded(function: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """Rewords the errors of a function for its caller; a wrapper of this module, so that doctest sees it."""

    @wraps(function)
    def call(*args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        with python_words():
            return function(*args, **kwargs)

    return call


@_worded
def learn(
    data: Frame,
    treewidth: int | None = 2,
    *,
    score: str | LocalScore | None = None,
    ess: float | None = None,
    backend: str | Backend = "auto",
    average: int | None = None,
    time: float | None = None,
    memory: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    forbid: Pairs = (),
    require: Pairs = (),
    within_graph: GraphLike | None = None,
    require_graph: GraphLike | None = None,
    constraints: Mapping[str, Any] | None = None,
    header: bool = True,
    separator: str | None = None,
    encoding: str = "utf-8",
    strict: bool = False,
    executor: str | Any | None = None,
    keep: str | Path | None = None,
    show_progress: bool | None = None,
    **coding: Any,
) -> Solution:
    """Learns the best junction tree of the columns of a table.

    Args:
        data: a DataFrame of pandas or polars, an Arrow table, a dictionary of columns, an array of shape
            (rows, columns), the path of a data file, or of a folder of Parquet files; or a Dask DataFrame.
        treewidth: the largest clique size minus one; None for any, with up to 26 columns.
        score: the name of a score or the score itself; gaussian-bic and bge are for real numbers. None for
            bdeu if `ess` or `average` is given, and bic otherwise.
        ess: the equivalent sample size of bdeu; None for 1.
        backend: a name, with options as in "lns:exact=dp", or the backend itself; "auto" chooses.
        average: the number of trees drawn from the posterior beside the best one, which `fit` mixes.
        time: seconds from start to finish, reading included; None for no limit.
        memory: gigabytes; None for 80 % of the free memory.
        threads: None for all cores.
        seed: of everything random.
        forbid: pairs of variables that are not to be adjacent.
        require: pairs of variables that are to be adjacent.
        within_graph: a graph of jtsolve or networkx, or the path of one, a result, results or posterior: no
            edge outside a triangulation of it; of a selection, what its screen left.
        require_graph: a graph in the same forms, all of whose edges are to be there.
        constraints: further ones, as an instance file has them: {"max_cliques": 5}.
        header: whether the first line of a text file names the columns; otherwise they are V1, V2, ….
        separator: of a text file: comma, semicolon, tab, pipe, blank, or the mark itself; None to guess.
        encoding: of a text file.
        strict: whether warnings of the data check are errors; otherwise they are logged, and kept with the
            result.
        executor: "dask", "dask=ADDRESS" or a client of Dask, to count Parquet files or a Dask DataFrame by
            partitions, as `docs/dask.md` says; None for this process, but for Dask's own client if it is one
            of its frames.
        keep: a folder for the counts of Parquet files by partitions, from which the same call goes on.
        show_progress: on standard error; None for in terminals and notebooks.
        coding: the fields of `tables.options.Coding`, most named as on the command line: columns, drop,
            weights, missing, gaps, discretise, schema (a mapping, or a file), class_column, max_states.

    Raises:
        InputError: the data cannot be read as states, or as numbers for a Gaussian score.
        ChoiceError: an option does not exist, or the backend refuses the problem.
        LimitError: the work does not fit the limits, or the chains that draw do not converge within them.

    >>> import jtsolve as jt
    >>> survey = {"Age": ["young", "old"] * 20, "Smoker": [True, False] * 20, "Coin": [0, 0, 1, 1] * 10}
    >>> jt.learn(survey, treewidth=1).cliques
    [('Age', 'Smoker'), ('Coin',)]
    >>> jt.learn(survey, treewidth=1, forbid=[("Age", "Smoker")]).cliques
    [('Age',), ('Smoker',), ('Coin',)]
    """
    run = run_of(time, memory, threads, seed, show_progress)
    treewidth, searcher = treewidth_of(treewidth), backend_of(backend)
    score = score or (DEFAULT_SCORE if ess is None and average is None else "bdeu")
    of = named_score(score, ess) if isinstance(score, str) else score
    if average is not None and not is_discrete(of):
        raise ChoiceError(f"average mixes models of states, and '{of.name}' scores real numbers; take bdeu")
    name = title_of(data) if is_path(data) else "data"
    cluster = cluster_of(data, executor, of, threads)
    if keep is not None and cluster is None:
        raise ChoiceError('keep= is for counts by partitions; give executor="dask", or leave it out')
    with (
        run.phase("reading the data"),
        nullcontext() if cluster is None else cluster.held() as held,
    ):
        dialect = Dialect(header, separator, encoding)
        size = None if treewidth is None else treewidth + 1
        table: AnyTable
        if held is None:
            table = read_table(data, of, coding_of(coding), dialect, size=size, strict=strict, run=run)
        else:
            dialect.refuse(name, IN_PARTITIONS)
            folder = None if keep is None else Path(keep)
            table = read_partitioned(
                data, coding_of(coding), held, size=size, folder=folder, strict=strict, run=run
            )
        facts = {key: value for key, value in table.provenance.items() if key != "states"}
        LOGGER.info("%d rows of %d variables; %s", table.total, table.n, facts)
        run.progress(note="scoring")
        rule = None
        if average is not None:
            rule = tabulation_to_average(table.n, size or table.n, "auto", run.limits, drawn=True)
        problem = problem_from_table(
            table,
            of,
            treewidth=treewidth,
            constraints=joined_constraints(
                Constraints(), table.names, forbid, require, constraints, (within_graph, require_graph)
            ),
            run=run,
            backend=searcher,
            tabulation=rule,
            name=name,
        )
        result = solve_problem(problem, searcher, run)
        draws = None if average is None else draw_trees(problem, average, run=run)
    trees = () if draws is None else draws.trees
    if isinstance(table, PartitionedTable) and cluster is not None:
        table = replace(table, cluster=cluster)  # the connection ends here; `fit` makes another
    return Solution(problem, result, table, style_of(data, table), of, trees)


@_worded
def select(
    data: Frame,
    method: str = "glasso",
    *,
    superset: UndirectedGraph | nx.Graph | str | Path | None = None,
    time: float | None = None,
    seed: int = 0,
    header: bool = True,
    separator: str | None = None,
    encoding: str = "utf-8",
    strict: bool = False,
    show_progress: bool | None = None,
    **options: Any,
) -> SelectedGraph:
    """Selects the undirected graph of the columns of a table.

    Args:
        data: see `learn`.
        method: glasso, neighbourhood or pc.
        superset: a graph that holds all edges, of jtsolve or networkx, or the path of a file that
            `selection.supersets.read_superset` reads; None for a screen.
        time: seconds from start to finish, reading included; None for no limit.
        seed: of everything random.
        header: see `learn`.
        separator: see `learn`.
        encoding: see `learn`.
        strict: see `learn`.
        show_progress: on standard error; None for in terminals and notebooks.
        options: the other fields of `selection.request.Request`: kind, criterion, rule, depth, direct, test,
            screen, over, separator_size; and those of `tables.options.Coding`, see `learn`.

    Raises:
        InputError: the data cannot be read as numbers, or for the kind states as states; columns are
            linearly dependent; or the superset is not a graph over the columns.
        ChoiceError: an option does not exist, or is not one of the method.
        LimitError: the time is over.

    >>> import numpy as np
    >>> import jtsolve as jt
    >>> rows = np.random.default_rng(0).normal(size=(400, 3))
    >>> rows[:, 1] += rows[:, 0]
    >>> jt.select(rows).edges
    [('V1', 'V2')]
    """
    asked = {entry.name for entry in fields(Request)} - {"method"}
    coding = coding_of({key: value for key, value in options.items() if key not in asked})
    run = run_of(time, None, None, seed, show_progress)
    with run.phase("reading the data"):
        named = {key: value for key, value in options.items() if key in asked}
        request = Request(method, **named)
        screen = request.screening(superset_of(superset), str(superset) if is_path(superset) else "superset")
        of = named_score("bic" if request.data_kind == "states" else "gaussian-bic")
        table = read_table(data, of, coding, Dialect(header, separator, encoding), strict=strict, run=run)
        run.progress(note="selecting")
        found = within_limits(
            lambda: select_graph(
                table,
                request.selection_method(),
                screen,
                request.framework(),
                margins=request.margins,
                run=run,
            ),
            run,
        )
    return SelectedGraph(found, table, style_of(data, table))


@_worded
def solve(
    problem: Problem | str | Path,
    treewidth: int | None = None,
    *,
    backend: str | Backend = "auto",
    time: float | None = None,
    memory: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    executor: str | Any | None = None,
    forbid: Pairs = (),
    require: Pairs = (),
    within_graph: GraphLike | None = None,
    require_graph: GraphLike | None = None,
    constraints: Mapping[str, Any] | None = None,
    show_progress: bool | None = None,
) -> Solution:
    """Finds the best junction tree of a problem.

    Args:
        problem: as `read` returns it, or the path of an instance file.
        treewidth: a bound besides that of the problem; None for none.
        backend: see `learn`; so are the others.
        time: seconds.
        memory: gigabytes.
        threads: their number.
        seed: of everything random.
        executor: "dask", "dask=ADDRESS" or a client of Dask, whose workers search (`--executor` of `jtsolve
            solve`); None or "local" for this process.
        forbid: pairs of variables.
        require: pairs of variables.
        within_graph: see `learn`.
        require_graph: see `learn`.
        constraints: further ones, besides those of the problem.
        show_progress: on standard error.

    Raises:
        InputError: the instance is malformed, or the constraints contradict each other.
        ChoiceError: the backend does not exist, or refuses the problem.
        LimitError: the work does not fit the limits.

    >>> import jtsolve as jt
    >>> solution = jt.solve("instances/uci/zoo.json.gz", treewidth=1, backend="chowliu")
    >>> solution.status, round(solution.score, 3)
    ('optimal', -689.216)
    """
    run = run_of(time, memory, threads, seed, show_progress)
    searcher = backend_of(backend)
    task = problem if isinstance(problem, Problem) else read_problem(problem, run)
    graphs = (within_graph, require_graph)
    limited = joined_constraints(task.constraints, task.names, forbid, require, constraints, graphs)
    task = replace(task, constraints=limited).with_treewidth(treewidth_of(treewidth))
    with run.phase(f"solving {task.name}"):
        cluster = Cluster.of(executor, run.threads)
        return Solution(task, solve_problem(task, searcher, run, cluster))


@_worded
def average(
    problem: Problem | Solution | str | Path,
    treewidth: int | None = None,
    *,
    method: str = "auto",
    edge_odds: float = 1.0,
    prior: str = "graphs",
    treewidths: bool = False,
    draws: int = 0,
    bootstrap: int = 0,
    backend: str | Backend = "auto",
    executor: str | Any | None = None,
    time: float | None = None,
    memory: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    show_progress: bool | None = None,
) -> GraphPosterior:
    """Averages over all decomposable graphs, each weighted by e^score: probabilities of edges and cliques.

    Args:
        problem: as `read` returns it, the path of an instance file, or what `learn` returns.
        treewidth: a bound besides that of the problem; None for none.
        method: "exact" sums; "chains"; "auto": exact where the problem and the memory allow it, else chains.
        edge_odds: prior odds of an edge against none.
        prior: "graphs": each counts once; "rooted-junction-trees": once for each of them.
        treewidths: whether to sum the posterior of the treewidth too.
        draws: exact draws for the posterior of the number of edges; see `averaging.average.average`.
        bootstrap: resamples of the rows of what `learn` returned: the share of their best trees that has an
            edge stands beside its probability, in the field `bootstrap`; see `averaging.bootstrap`.
        backend: that finds the tree of each resample; see `learn`.
        executor: "dask", "dask=ADDRESS" or a client of Dask, to run chains and resamples as tasks; None for
            this process.
        time: see `learn`; so are the others.
        memory: gigabytes.
        threads: their number.
        seed: of everything random.
        show_progress: on standard error.

    Returns:
        The posterior. Chains that disagree are logged, and it says that they have not converged.

    Raises:
        InputError: the instance is malformed.
        ChoiceError: no graph meets the constraints, a method refuses them, or there are no rows to resample.
        LimitError: the work does not fit the limits.

    >>> import jtsolve as jt
    >>> survey = {"Age": ["young", "old"] * 20, "Smoker": [True, False] * 20, "Coin": [0, 0, 1, 1] * 10}
    >>> posterior = jt.average(jt.learn(survey, score="bdeu"), bootstrap=10)
    >>> posterior.edges.round(2).tolist()
    [[0.0, 1.0, 0.1], [1.0, 0.0, 0.1], [0.1, 0.1, 0.0]]
    >>> float(posterior.bootstrap.edges[0, 1])
    1.0
    """
    run = run_of(time, memory, threads, seed, show_progress)
    learned = problem if isinstance(problem, Solution) else None
    task = problem.problem if isinstance(problem, Solution) else problem
    task = (task if isinstance(task, Problem) else read_problem(task, run)).with_treewidth(
        treewidth_of(treewidth)
    )
    cluster = Cluster.of(executor, run.threads)
    resampling = _resampling(learned, task, backend) if bootstrap else None
    with (
        run.phase(f"averaging {task.name}"),
        nullcontext() if cluster is None else cluster.held() as held,
    ):
        posterior = average_problem(
            task,
            method=method,
            run=run,
            edge_odds=edge_odds,
            prior=prior,
            treewidths=treewidths,
            draws=draws,
            ladder=None if held is None else Ladder(cluster=held),
        )
        if posterior is None:
            raise ChoiceError("no graph meets the constraints; leave some out")
        if resampling is not None:
            table, search = resampling
            strengths = strengths_in_resamples(table, bootstrap, search, run, cluster=held)
            posterior = replace(posterior, bootstrap=strengths)
    if not posterior.converged:
        LOGGER.warning("the chains have not converged: their figures must not be used")
    return posterior


def _resampling(learned: Solution | None, problem: Problem, backend: str | Backend) -> tuple[Table, Search]:
    """Returns the rows that were learned from, and the search for the tree of each resample."""
    if learned is None or learned.table is None or learned.local_score is None:
        raise ChoiceError("bootstrap draws rows, and a problem has none; give what learn returns")
    if isinstance(learned.table, PartitionedTable):
        raise ChoiceError("bootstrap draws rows in one place, and these are in partitions; read them as one")
    width = problem.max_clique_size - 1
    return learned.table, Search(learned.local_score, width, backend_of(backend), problem.constraints)


@_worded
def read(path: str | Path) -> Problem:
    """Returns the problem in an instance file: jtsolve's own (.json, .json.gz), or one of another program.

    Raises:
        InputError: the file cannot be read, or is malformed.

    >>> import jtsolve as jt
    >>> jt.read("instances/uci/zoo.json.gz")
    Problem('zoo': 17 variables, scores of at most 5)
    """
    return read_problem(path)
