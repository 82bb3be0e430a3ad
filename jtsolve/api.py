"""The functions of `import jtsolve`: thin layers over one study, in the words of the shell.

Data frames come in and go out; variables and values are called by their names.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtsolve.core.outputs import claim_outputs, one_call
from jtsolve.core.problem import Problem
from jtsolve.core.ranking import Ranking
from jtsolve.core.run import LOGGER
from jtsolve.errors import ChoiceError, InputError, at
from jtsolve.options import Door
from jtsolve.scoring.score import MIXED_SCORE
from jtsolve.study.arguments import (
    backend_of,
    data_of,
    data_score,
    held_cluster,
    run_of,
    score_argument,
    treewidth_of,
)
from jtsolve.study.graphs import graph_in
from jtsolve.study.restrictions import Restrictions
from jtsolve.study.solution import Solution, Solutions
from jtsolve.study.solving import answer
from jtsolve.study.study import Study

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jtsolve.averaging.method import AveragingMethod
    from jtsolve.averaging.population import PopulationPosterior
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.core.backend import Backend
    from jtsolve.core.run import Run
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.selection.choices import ColumnKind
    from jtsolve.selection.framed import SelectedGraph
    from jtsolve.selection.framework import Framework, Screen
    from jtsolve.selection.method import SelectionMethod
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.partitions import AnyTable

    Pairs = Iterable[tuple[str, str]]
    Constraints = Mapping[str, Any] | str | Path | None


@at(Door.PYTHON)
@one_call()
def learn(
    data: Frame = None,
    treewidth: int | None = 2,
    *,
    score: str | ScoreFunction | None = None,
    backend: str | Backend = "auto",
    certificate: str | Path | None = None,
    k_best: int | None = None,
    within: float | None = None,
    forbid: Pairs = (),
    require: Pairs = (),
    constraints: Constraints = None,
    executor: str | Any | None = None,
    time: float | None = None,
    memory: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    show_progress: bool | None = None,
    **reading: Any,
) -> Solution | Solutions:
    """Learns the best junction tree of the columns of a table, or the best ones in order.

    Args:
        data: a DataFrame of pandas or polars, an Arrow table, a dictionary of columns, an array of shape
            (rows, columns), the path of a data file, or of a folder of Parquet files; or a Dask DataFrame.
            None with `covariance`, the matrix of the columns in any of these forms, and its number of `rows`.
        treewidth: the largest clique size minus one; None for any, with up to 26 columns.
        score: a name with options, as in "bdeu:ess=10", or the score itself; `jtsolve scores` lists them;
            None for bic of states, or cg where columns of numbers are real.
        backend: a name with options, as in "lns:exact=dp", or the backend itself; "auto" chooses.
        certificate: a file for a proof of the bound; without one, `uncertified` gives the reason.
        k_best: the number of trees, in order; None for one.
        within: the largest gap to the best score, in nats: all such trees, or at most `k_best`.
        forbid: pairs of variables that must not be adjacent.
        require: pairs of variables that must be adjacent.
        constraints: further ones, in the vocabulary of the instance format: {"max_cliques": 5}, or a file of
            them; "within_graph" and "require_graph" are a graph of jtsolve or networkx, or the path of one.
        executor: "dask", "dask=ADDRESS" or a client of Dask, to count Parquet files or a Dask DataFrame by
            partitions; None for this process, or for the client of a Dask DataFrame.
        time: seconds from start to finish, reading included; None for no limit.
        memory: gigabytes; None for 80 % of the free memory.
        threads: None for all cores.
        seed: of everything random.
        show_progress: on standard error; None shows it in terminals and notebooks.
        reading: how the data are read: the options of data in docs/commands.md, such as columns, weights,
            missing, discretise.

    Raises:
        InputError: the data cannot be read as the score requires.
        ChoiceError: an option does not exist, or the backend refuses the problem.
        LimitError: the work does not fit the limits.

    >>> import jtsolve as jt
    >>> survey = {"Age": ["young", "old"] * 20, "Smoker": [True, False] * 20, "Coin": [0, 0, 1, 1] * 10}
    >>> jt.learn(survey, treewidth=1).cliques
    [('Age', 'Smoker'), ('Coin',)]
    >>> jt.learn(survey, treewidth=1, forbid=[("Age", "Smoker")]).cliques
    [('Age',), ('Smoker',), ('Coin',)]
    """
    run = run_of(time, memory, threads, seed, show_progress)
    claim_outputs(certificate)
    with held_cluster(executor, threads, data) as cluster:
        source = data_of(data, reading, cluster)
        study = Study(
            source,
            data_score(score, source, MIXED_SCORE),
            treewidth_of(treewidth),
            Restrictions.given(forbid, require, constraints),
            backend_of(backend),
        )
        return _solved(study.prepared(run), run, study.backend, certificate, k_best, within)


@at(Door.PYTHON)
@one_call()
def solve(
    problem: Problem | str | Path,
    treewidth: int | None = None,
    *,
    backend: str | Backend = "auto",
    certificate: str | Path | None = None,
    k_best: int | None = None,
    within: float | None = None,
    forbid: Pairs = (),
    require: Pairs = (),
    constraints: Constraints = None,
    time: float | None = None,
    memory: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    show_progress: bool | None = None,
) -> Solution | Solutions:
    """Finds the best junction tree of a problem, or the best ones in order.

    Args:
        problem: as `read` returns it, or the path of an instance file.
        treewidth: a bound besides that of the problem; None for none.
        backend: see `learn`, also for those below.
        certificate: a file.
        k_best: the number of trees.
        within: nats.
        forbid: pairs of variables.
        require: pairs of variables.
        constraints: further ones, besides those of the problem.
        time: seconds.
        memory: gigabytes.
        threads: their number.
        seed: of everything random.
        show_progress: on standard error.

    Raises:
        InputError: the instance is malformed, or the constraints contradict each other.
        ChoiceError: the backend does not exist, or refuses the problem.
        LimitError: the work does not fit the limits.

    >>> import jtsolve as jt
    >>> solution = jt.solve(jt.example("zoo"), treewidth=1, backend="chowliu")
    >>> solution.status, round(solution.score, 3)
    ('optimal', -689.216)
    >>> [round(one.score, 1) for one in jt.solve(jt.example("zoo"), treewidth=1, k_best=2)]
    [-689.2, -689.7]
    """
    run = run_of(time, memory, threads, seed, show_progress)
    claim_outputs(certificate)
    task = Restrictions.given(forbid, require, constraints).on(_problem(problem, run))
    task = task.with_treewidth(treewidth_of(treewidth))
    return _solved((task, None, None), run, backend_of(backend), certificate, k_best, within)


def _problem(given: Problem | str | Path, run: Run) -> Problem:
    if isinstance(given, Problem):
        return given
    if not isinstance(given, str | Path):
        reason = f"a value of type {type(given).__name__} is no problem"
        raise InputError("problem", "", reason, "give a path, or learn from a table: jt.learn(data).problem")
    from jtsolve.io.instance import read_problem

    return read_problem(given, run)


def _solved(  # noqa: PLR0917 - one for each argument of `answer`
    task: tuple[Problem, Study | None, AnyTable | None],
    run: Run,
    backend: Backend | None,
    certificate: str | Path | None,
    k: int | None,
    within: float | None,
) -> Solution | Solutions:
    """Returns the best tree of a problem with its study and table, or with `k` or `within` the best ones."""
    found = answer(task[0], run, backend=backend, certificate=certificate, k=k, within=within)
    if isinstance(found.found, Ranking):
        return Solutions(found.found, *task, found.uncertified)
    return Solution(found.found, *task, found.uncertified)


@at(Door.PYTHON)
@one_call()
def select(
    data: Frame,
    method: str | SelectionMethod | None = None,
    *,
    kind: ColumnKind | None = None,
    screen: str | Screen | None = None,
    over: str | Framework | None = None,
    superset: Any = None,
    time: float | None = None,
    memory: float | None = None,
    seed: int = 0,
    show_progress: bool | None = None,
    **reading: Any,
) -> SelectedGraph:
    """Selects the undirected graph of the columns of a table.

    Args:
        data: see `learn`.
        method: glasso, neighbourhood or pc, with options as in "pc:depth=1,test=bic", or the method itself;
            None for pc if the kind is states, else for glasso.
        kind: gaussian, nonparanormal or states; None for the kind that the method's test needs, else
            gaussian.
        screen: complete, "correlation:R", or pc with options as in "pc:1,level=0.1", or the screen itself;
            None for pc, or for all columns at once complete.
        over: "junction-tree:K", with separators of at most K variables, or "plain": all columns at once; None
            for the junction tree without a limit.
        superset: a graph that holds all edges, of jtsolve or networkx, or the path of a graph, result or
            posterior; None for a screen.
        time: seconds; see `learn`, also for those below.
        memory: gigabytes.
        seed: of everything random.
        show_progress: on standard error.
        reading: how the data are read.

    Raises:
        InputError: the data cannot be read as numbers, or for the kind states as states; columns are
            linearly dependent; or the superset is not a graph over the columns.
        ChoiceError: a choice, or one of its options, does not exist.
        LimitError: the time is over, or the memory does not suffice.

    >>> import numpy as np
    >>> import jtsolve as jt
    >>> rows = np.random.default_rng(0).normal(size=(400, 3))
    >>> rows[:, 1] += rows[:, 0]
    >>> jt.select(rows).edges
    [('V1', 'V2')]
    """
    from jtsolve.selection.choices import SelectionPlan
    from jtsolve.selection.framed import SelectedGraph
    from jtsolve.tables.table import ContinuousTable, DataTable

    run = run_of(time, memory, None, seed, show_progress)
    known, _, source = (None, False, "superset") if superset is None else graph_in(superset)
    plan = SelectionPlan.of(method, kind, screen, over, superset=known, source=source)
    file = data_of(data, reading, None)
    table = file.read(score_argument(plan.score), run, kinds=plan.kinds)
    assert isinstance(table, DataTable | ContinuousTable), "no cluster reads it, and no mixed score"
    return SelectedGraph(plan.run(table, run), table, file.style(table))


@at(Door.PYTHON)
def read(path: str | Path) -> Problem:
    """Returns the problem in an instance file: jtsolve's own (.json, .json.gz), or one of another program.

    Raises:
        InputError: the file cannot be read, or is malformed.

    >>> import jtsolve as jt
    >>> jt.read(jt.example("zoo"))
    Problem('zoo': 17 variables, scores of at most 5)
    """
    from jtsolve.io.instance import read_problem

    return read_problem(path)


@at(Door.PYTHON)
@one_call()
def average(
    problem: Problem | Solution | str | Path,
    treewidth: int | None = None,
    *,
    method: str | AveragingMethod = "auto",
    edge_odds: float = 1.0,
    executor: str | Any | None = None,
    time: float | None = None,
    memory: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    show_progress: bool | None = None,
) -> GraphPosterior:
    """Averages over all decomposable graphs, each weighted by e^score: probabilities of edges and cliques.

    Args:
        problem: the problem of `read`, the path of an instance file, or the solution of `learn`.
        treewidth: a bound besides that of the problem; None for none.
        method: a name with options, as in "chains:rounds=400", or the method itself; "auto" uses exact sums
            where the problem and the memory allow it, else chains; "bootstrap:200" finds the best trees of
            200 resamples of the rows of the solution of `learn`: the share with an edge accompanies its
            probability, in the field `bootstrap`. `jtsolve methods` lists them.
        edge_odds: prior odds of an edge against none.
        executor: "dask", "dask=ADDRESS" or a client of Dask, to run chains and resamples as tasks; None for
            this process.
        time: see `learn`, also for those below.
        memory: gigabytes.
        threads: their number.
        seed: of everything random.
        show_progress: on standard error.

    Returns:
        The posterior. Chains that disagree are logged, and marked as not converged.

    Raises:
        InputError: the instance is malformed.
        ChoiceError: no graph meets the constraints, a method refuses them, or there are no rows to resample.
        LimitError: the work does not fit the limits.

    >>> import jtsolve as jt
    >>> survey = {"Age": ["young", "old"] * 20, "Smoker": [True, False] * 20, "Coin": [0, 0, 1, 1] * 10}
    >>> posterior = jt.average(jt.learn(survey, score="bdeu"), method="bootstrap:10")
    >>> posterior.edges.round(2).tolist()
    [[0.0, 1.0, 0.1], [1.0, 0.0, 0.1], [0.1, 0.1, 0.0]]
    >>> float(posterior.bootstrap.edges[0, 1])
    1.0
    """
    from jtsolve.averaging.average import average as averaged
    from jtsolve.averaging.method import SourceRows
    from jtsolve.averaging.registry import METHODS

    run = run_of(time, memory, threads, seed, show_progress)
    rows = None
    if isinstance(problem, Solution):
        task = problem.problem
        if problem.study is not None and problem.table is not None:
            rows = SourceRows(problem.study.score, problem.table)
    else:
        task = _problem(problem, run)
    if task is None:
        raise ChoiceError("a solution read from a file alone has no scores to average; give its problem")
    with held_cluster(executor, threads) as cluster:
        found = averaged(
            task.with_treewidth(treewidth_of(treewidth)),
            method=METHODS.chosen(method, "average"),
            run=run,
            edge_odds=edge_odds,
            cluster=cluster,
            rows=rows,
        )
    if found is None:
        raise ChoiceError("no graph meets the constraints; leave some out")
    if (warning := found.warning) is not None:
        LOGGER.warning(warning)
    return found


@at(Door.PYTHON)
@one_call()
def population(
    lists: Frame,
    *,
    most: int | None = None,
    delta: float | None = None,
    strata: str | None = None,
    time: float | None = None,
    memory: float | None = None,
    show_progress: bool | None = None,
    **reading: Any,
) -> PopulationPosterior:
    """Estimates the size of a population from overlapping lists, averaged over all decomposable graphs.

    Args:
        lists: data as in `learn`: a row for each case, or for each set of lists, counted by the column
            `weights`; a column for each list, 1 where it has the case, else 0.
        most: the largest number of unobserved cases; None for the number of observed ones, at least 300.
        delta: the prior cases of each set of lists; None for 2^-lists, one case in all.
        strata: the column that divides the cases into strata, with a posterior each; None for one population.
        time: see `learn`, also for those below.
        memory: gigabytes.
        show_progress: on standard error.
        reading: how the data are read.

    Returns:
        The posterior of the size, and the probability that two lists are dependent; of strata that of the sum
        of their sizes, with the posterior of each.

    Raises:
        InputError: the data cannot be read, or a column is no list.
        ChoiceError: a number is out of range, or there is only one list.
        LimitError: the sums do not fit the limits.

    >>> import jtsolve as jt
    >>> hares = {"May": [1, 1, 0], "June": [1, 0, 1], "count": [20, 30, 40]}
    >>> jt.population(hares, weights="count").interval()
    (91, 187)
    """
    from jtsolve.study.population import population_of

    run = run_of(time, memory, None, 0, show_progress)
    return population_of(data_of(lists, reading, None), run, most, delta, strata)
