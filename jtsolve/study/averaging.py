"""Averaging over all decomposable graphs of a problem, for any door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.averaging.average import average, draw_trees
from jtsolve.averaging.method import SourceRows
from jtsolve.averaging.registry import METHODS

if TYPE_CHECKING:
    from jtsolve.averaging.method import AveragingMethod, Draws
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.cluster import Cluster
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Run
    from jtsolve.study.study import Study
    from jtsolve.tables.partitions import AnyTable

__all__ = ["METHODS", "drawn", "posterior"]


def posterior(
    problem: Problem,
    method: AveragingMethod,
    run: Run,
    *,
    edge_odds: float = 1.0,
    cluster: Cluster | None = None,
    study: Study | None = None,
    table: AnyTable | None = None,
) -> GraphPosterior | None:
    """Returns the posterior over all decomposable graphs; None if no graph meets the constraints.

    Args:
        problem: scores and constraints.
        method: exact sums, chains, or resamples beside one of them.
        run: limits, progress and interruption.
        edge_odds: prior odds of an edge against none.
        cluster: runs chains and resamples as tasks; None for this process.
        study: of the data behind the problem, for resamples; None for an instance.
        table: the data behind the problem; None for an instance.

    Raises: as `averaging.average.average`.
    """
    rows = None if study is None or table is None else SourceRows(study.score, lambda: table)
    with run.phase("averaging"):
        return average(
            problem,
            method=method,
            run=run,
            edge_odds=edge_odds,
            cluster=cluster,
            rows=rows,
        )


def drawn(
    problem: Problem, count: int, method: AveragingMethod, run: Run, *, edge_odds: float = 1.0
) -> Draws | None:
    """Returns trees drawn from the posterior; None if no graph meets the constraints.

    Args:
        problem: its scores and constraints.
        count: number of trees.
        method: of averaging.
        run: limits, seed and progress.
        edge_odds: prior odds of each edge.
    """
    with run.phase("drawing trees"):
        return draw_trees(problem, count, method=method, run=run, edge_odds=edge_odds)
