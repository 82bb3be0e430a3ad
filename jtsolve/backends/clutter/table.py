"""Tabulation of scores on demand, since `clutter` reads the score of every set."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from jtsolve.core.bounds import problem_bound
from jtsolve.core.machine import base_memory
from jtsolve.core.scores import DenseScores, StoppedError, Tabulating
from jtsolve.families.families import predicted_sets

if TYPE_CHECKING:
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits

_BYTES = 8
"""Bytes of a score."""


def bytes_of_table(problem: Problem) -> int:
    """Returns the bytes of a table of scores that are computed on demand; 0 for others."""
    return predicted_sets(problem) * _BYTES if isinstance(problem.scores, Tabulating) else 0


def tabulated(problem: Problem, limits: Limits, report: Report, need: int = 0) -> Problem:
    """Returns the problem with its scores tabulated, which is far cheaper than computing each on demand.

    Args:
        problem: returned unchanged if its scores are a table, or no table fits.
        limits: of memory and threads.
        report: ends the work.
        need: bytes of memory to leave free.

    Raises:
        StoppedError: the report stopped it.
    """
    # Tabulation polls the report, since members of a portfolio take turns when they poll.
    scores, size = problem.guarded(report).scores, problem.max_clique_size
    room = limits.memory_bytes - base_memory(kernels=True) - need
    if not isinstance(scores, Tabulating) or bytes_of_table(problem) > room:
        return problem
    report(note=f"scoring {predicted_sets(problem)} sets")
    return replace(problem, scores=DenseScores(problem.n, size, scores.tabulated(size, limits.workers)))


def tabulated_and_bounded(problem: Problem, limits: Limits, report: Report, need: int) -> Problem:
    """Returns `tabulated`, and reports the bound of the best families before the sets are listed.

    The bound uses up to half of the remaining time.

    Args:
        problem: to tabulate.
        limits: time, memory and threads.
        report: receives the bound; ends the work.
        need: bytes of memory to leave free.
    """

    def check_stop() -> None:
        if report.stop is not None:
            raise StoppedError

    table = tabulated(problem, limits, report, need)
    if table is not problem:
        left = inf if limits.time is None else limits.time - limits.elapsed
        report(bound=problem_bound(table, left / 2, check_stop))
    return table
