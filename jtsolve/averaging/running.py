"""Parts of all methods: the best tree, the memory of draws, and the errors of interrupted runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.core.result import Stop
from jtsolve.errors import LimitError
from jtsolve.solving import solve

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits, Run
    from jtsolve.core.tree import JunctionTree

_PER_VERTEX = 200
"""Bytes of a drawn tree per vertex."""


def require_room(count: int, n: int, limits: Limits) -> None:
    """Checks that drawn trees fit the memory limit.

    Args:
        count: number of trees.
        n: number of variables.
        limits: the memory limit.

    Raises:
        LimitError: the trees exceed the limit.
    """
    needed = count * n * _PER_VERTEX
    if needed > limits.memory_bytes:
        raise LimitError(
            f"{count} trees of {n} variables need more than the memory limit of "
            f"{limits.memory_bytes / 1e9:.3g} GB. Fix: draw fewer"
        )


def best_tree(problem: Problem, run: Run) -> JunctionTree | None:
    """Returns the tree of the highest score that `auto` finds within the limits, or None."""
    try:
        return solve(problem, None, run).tree
    except LimitError:
        return None


def ended(run: Run) -> Exception | KeyboardInterrupt:
    """Returns the error of an interrupted run without a result."""
    if run.stop is Stop.INTERRUPTED:
        return KeyboardInterrupt()
    return LimitError(
        "the time limit was reached before the first result: partial sums, or chains of fewer than 100 "
        "rounds, are none. Ways out: more time, a smaller treewidth, or fewer columns."
    )
