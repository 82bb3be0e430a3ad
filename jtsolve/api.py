"""The functions of `import jtsolve`: thin layers over one study, in the words of the shell.

Data frames come in and go out; variables and values are called by their names.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jtsolve import options as rows
from jtsolve.core.outputs import claim_outputs
from jtsolve.core.problem import Problem
from jtsolve.core.ranking import Ranking
from jtsolve.core.run import LOGGER
from jtsolve.errors import ChoiceError, InputError, at
from jtsolve.options import Door
from jtsolve.scoring.score import MARGINAL_SCORE, MIXED_SCORE
from jtsolve.study.arguments import (
    LIMITS,
    OF_RUN,
    OF_TREE,
    Given,
    backend_of,
    data_of,
    data_score,
    held_cluster,
    treewidth_of,
    with_options,
)
from jtsolve.study.graphs import selected_graph
from jtsolve.study.solution import Solution, Solutions
from jtsolve.study.solving import answer
from jtsolve.study.study import Study
from jtsolve.study.trees import NamedTree
from jtsolve.tables.options import is_data

if TYPE_CHECKING:
    from jtsolve.averaging.method import AveragingMethod
    from jtsolve.averaging.population import PopulationPosterior
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.core.run import Run
    from jtsolve.selection.framed import SelectedGraph
    from jtsolve.selection.method import SelectionMethod
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.partitions import AnyTable


_SEARCH = (rows.BACKEND, rows.PROOF, rows.K_BEST, rows.WITHIN)


@with_options(rows.SCORE, *_SEARCH, *OF_TREE, rows.EXECUTOR, *OF_RUN, reading=True)
def learn(data: Frame = None, treewidth: int | None = 2, *, given: Given) -> Solution | Solutions:
    """Learns the best junction tree of the columns of a table, or the best ones in order.

    A score or backend is a name with options, as in "bdeu:ess=10", or a value. Constraints are pairs of
    names, and further ones in the vocabulary of the instance format: {"max_cliques": 5}, or a file of them;
    "within_graph" and "require_graph" are a graph of jtsolve or networkx, or the path of one. An executor is
    also a client of Dask. If a certificate cannot be written, `uncertified` gives the reason.

    Args:
        data: a DataFrame of pandas or polars, an Arrow table, a dictionary of columns, an array of shape
            (rows, columns), the path of a data file, or of a folder of Parquet files; or a Dask DataFrame.
            None with `covariance`, the matrix of the columns in any of these forms, and its number of `rows`.
        treewidth: the largest clique size minus one; None for any, with up to 26 columns.
        given: options of the table.

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
    run = given.run()
    claim_outputs(given.certificate)
    with held_cluster(given.executor, given.threads, data) as cluster:
        source = data_of(data, given.reading, cluster)
        study = Study(
            source,
            data_score(given.score, source, MIXED_SCORE),
            treewidth_of(treewidth),
            given.restrictions(),
            backend_of(given.backend),
        )
        return _solved(study.prepared(run), run, given)


@with_options(*_SEARCH, *OF_TREE, *OF_RUN)
def solve(
    problem: Problem | str | Path, treewidth: int | None = None, *, given: Given
) -> Solution | Solutions:
    """Finds the best junction tree of a problem, or the best ones in order.

    Args:
        problem: as `read` returns it, or the path of an instance file.
        treewidth: a bound besides that of the problem; None for none.
        given: options of the table.

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
    run = given.run()
    claim_outputs(given.certificate)
    task = given.restrictions().on(_problem(problem, run)).with_treewidth(treewidth_of(treewidth))
    return _solved((task, None, None), run, given)


def _problem(given: Problem | str | Path, run: Run) -> Problem:
    if isinstance(given, Problem):
        return given
    if not isinstance(given, str | Path):
        reason = f"a value of type {type(given).__name__} is no problem"
        raise InputError("problem", "", reason, "give a path, or learn from a table: jt.learn(data).problem")
    from jtsolve.io.instance import read_problem

    return read_problem(given, run)


def _solved(
    task: tuple[Problem, Study | None, AnyTable | None], run: Run, given: Given
) -> Solution | Solutions:
    """Returns the best tree of a problem with its study and table, or the best ones."""
    problem, backend = task[0], backend_of(given.backend)
    found = answer(
        problem, run, backend=backend, certificate=given.certificate, k=given.k_best, within=given.within
    )
    if isinstance(found.found, Ranking):
        return Solutions(found.found, *task, found.uncertified)
    return Solution(found.found, *task, found.uncertified)


@with_options(rows.KIND, rows.SCREEN, rows.OVER, rows.SUPERSET, *OF_RUN, reading=True)
def select(data: Frame, method: str | SelectionMethod | None = None, *, given: Given) -> SelectedGraph:
    """Selects the undirected graph of the columns of a table.

    Args:
        data: see `learn`.
        method: glasso, neighbourhood or pc, with options as in "pc:depth=1,test=bic", or the method itself;
            None for pc if the kind is states, else for glasso.
        given: options of the table.

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
    return selected_graph(data_of(data, given.reading, None), given.run(), method, given)


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


@with_options(
    rows.SCORE, rows.METHOD, rows.EDGE_ODDS, rows.TREES, *OF_TREE, rows.EXECUTOR, *OF_RUN, reading=True
)
def average(
    data: Frame | Problem | Solution = None, treewidth: int | None = None, *, given: Given
) -> GraphPosterior | list[NamedTree]:
    """Averages over all decomposable graphs, each weighted by e^score: probabilities of edges and cliques.

    A method is a name with options, as in "chains:rounds=400", or a value. "auto" uses exact sums where the
    problem and the memory allow it, else certified sums or chains. "bootstrap:200" finds the best trees of
    200 resamples of the rows: the share with an edge accompanies its probability, in the field `bootstrap`.

    Args:
        data: as in `learn`; or the problem of `read`, the path of an instance file, or the solution of
            `learn`, whose constraints hold too.
        treewidth: a bound besides that of the problem; None for none.
        given: options of the table.

    Returns:
        The posterior, or the drawn trees. Chains that disagree are logged, and marked as not converged.

    Raises:
        InputError: the instance is malformed, or the data cannot be read as the score requires.
        ChoiceError: no graph meets the constraints, a method refuses them, or there are no rows to resample.
        LimitError: the work does not fit the limits.

    >>> import jtsolve as jt
    >>> survey = {"Age": ["young", "old"] * 20, "Smoker": [True, False] * 20, "Coin": [0, 0, 1, 1] * 10}
    >>> posterior = jt.average(survey, method="bootstrap:10")
    >>> posterior.edges.round(2).tolist()
    [[0.0, 1.0, 0.1], [1.0, 0.0, 0.1], [0.1, 0.1, 0.0]]
    >>> float(posterior.bootstrap.edges[0, 1])
    1.0
    >>> [tree.cliques for tree in jt.average(survey, trees=2)]
    [[('Age', 'Smoker'), ('Coin',)], [('Age', 'Smoker'), ('Coin',)]]
    """
    from jtsolve.averaging.average import average as averaged
    from jtsolve.averaging.average import draw_trees
    from jtsolve.averaging.method import SourceRows
    from jtsolve.averaging.registry import METHODS

    run, how = given.run(), METHODS.chosen(given.method, "average")
    problem, study, table = _task(data, treewidth_of(treewidth), how, run, given)
    found: Any
    if given.trees:
        found = draw_trees(problem, given.trees, method=how, run=run, edge_odds=given.edge_odds)
    else:
        rows = None if study is None or table is None else SourceRows(study.score, table)
        with held_cluster(given.executor, given.threads) as cluster:
            found = averaged(
                problem, method=how, run=run, edge_odds=given.edge_odds, cluster=cluster, rows=rows
            )
    if found is None:
        raise ChoiceError("no graph meets the constraints; leave some out")
    if given.trees:
        return [NamedTree(tree, problem.names) for tree in found.trees]
    if (warning := found.warning) is not None:
        LOGGER.warning(warning)
    return cast("GraphPosterior", found)


def _task(
    data: Frame | Problem | Solution, treewidth: int | None, how: AveragingMethod, run: Run, given: Given
) -> tuple[Problem, Study | None, AnyTable | None]:
    """Returns the problem to average over, with its study and table if it has data."""
    restrictions = given.restrictions()
    if isinstance(data, Problem | Solution) or not (data is None or is_data(data, given.score)):
        if options := [*["score"] * (given.score is not None), *given.reading]:
            raise ChoiceError(f"{options[0]}=… applies to data, not to a problem; leave it out")
        study, table = (data.study, data.table) if isinstance(data, Solution) else (None, None)
        problem = data.problem if isinstance(data, Solution) else _problem(data, run)
        if problem is None:
            raise ChoiceError("a solution read from a file alone has no scores to average; give its problem")
        return restrictions.on(problem).with_treewidth(treewidth), study, table
    source = data_of(data, given.reading, None)
    study = Study(source, data_score(given.score, source, MARGINAL_SCORE), treewidth, restrictions)
    return study.prepared(
        run, lambda n, largest: how.tabulation(n, largest, run.limits, drawn=given.trees > 0)
    )


@with_options(rows.MOST, rows.DELTA, rows.STRATA, *LIMITS, reading=True)
def population(lists: Frame, *, given: Given) -> PopulationPosterior:
    """Estimates the size of a population from overlapping lists, averaged over all decomposable graphs.

    Args:
        lists: data as in `learn`: a row for each case, or for each set of lists, counted by the column
            `weights`; a column for each list, 1 where it has the case, else 0.
        given: options of the table.

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

    data = data_of(lists, given.reading, None)
    return population_of(data, given.run(), given.most, given.delta, given.strata)
