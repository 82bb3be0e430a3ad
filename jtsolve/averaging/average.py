"""The posterior over the decomposable graphs of a problem, and draws from it."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from jtsolve.averaging.method import Query, require_room
from jtsolve.averaging.registry import method_of
from jtsolve.core.run import Run
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.averaging.method import AveragingMethod, Draws, SourceRows
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.cluster import Cluster
    from jtsolve.core.problem import Problem

THRESHOLD = 0.01
"""Cliques and separators below it are not listed."""


def average(
    problem: Problem,
    *,
    method: str | AveragingMethod = "auto",
    run: Run | None = None,
    edge_odds: float = 1.0,
    threshold: float = THRESHOLD,
    cluster: Cluster | None = None,
    rows: SourceRows | None = None,
) -> GraphPosterior | None:
    """Averages over all decomposable graphs that meet the constraints, each weighted by e^score · odds^edges.

    Args:
        problem: scores and constraints.
        method: see `registry`; "auto" chooses exact sums, certified sums or chains.
        run: limits and seed, progress and interruption; None for the defaults.
        edge_odds: prior odds of an edge; 1 makes all graphs equally likely.
        threshold: cliques and separators of a smaller probability or expectation are not listed.
        cluster: runs chains and resamples as tasks, with the same result; None for this process.
        rows: the data of the problem, for the method "bootstrap".

    Returns:
        The posterior, which records whether chains have converged; None if no graph meets the constraints.

    Raises:
        ChoiceError: the method does not exist, or the odds or the threshold are out of range.
        RefusedError: the method does not support the problem; with every reason.
        LimitError: the tables or draws exceed the memory limit, or the time limit is reached before any
            result.
        KeyboardInterrupt: Ctrl-C or SIGTERM before any result.
    """
    if not 0 <= threshold <= 1:
        raise ChoiceError(f"the threshold is {threshold}; give a probability, from 0 to 1")
    _require_odds(edge_odds)
    query = Query(problem, run or Run(), edge_odds, threshold, cluster, rows)
    with query.run.phase("averaging"):
        return method_of(method).average(query)


def draw_trees(
    problem: Problem,
    count: int,
    *,
    method: str | AveragingMethod = "auto",
    run: Run | None = None,
    edge_odds: float = 1.0,
) -> Draws | None:
    """Draws graphs from the posterior, and returns their canonical junction trees.

    Args:
        problem: scores and constraints.
        count: number of trees.
        method: as in `average`.
        run: limits and seed, progress and interruption; None for the defaults.
        edge_odds: prior odds of an edge.

    Returns:
        The draws, or None if no graph meets the constraints.

    Raises:
        ChoiceError: the method does not exist, or the odds or the count are out of range.
        RefusedError: draws do not support the problem; with every reason.
        NotConvergedError: the chains disagree.
        LimitError: the tables exceed the memory limit, or the time limit is reached.
        KeyboardInterrupt: Ctrl-C or SIGTERM.
    """
    if count < 1:
        raise ChoiceError(f"the number of trees is {count}; draw at least 1")
    _require_odds(edge_odds)
    query = Query(problem, run or Run(), edge_odds, THRESHOLD)
    require_room(count, problem.n, query.run.limits)
    with query.run.phase("drawing trees"):
        return method_of(method).draw(query, count)


def _require_odds(edge_odds: float) -> None:
    if not 0 < edge_odds < inf:
        raise ChoiceError(f"the odds of an edge are {edge_odds}; give a finite number above 0")
