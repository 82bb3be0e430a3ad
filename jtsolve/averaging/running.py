"""What all that averages shares: the choice of the method, the best tree beside it, and how it ends early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.averaging.chains import CHAINS, MOVABLE, require_movable
from jtsolve.averaging.plan import Plan
from jtsolve.averaging.weights import EXACT, GRAPHS, MOST_VARIABLES, ROOTED, require_prior
from jtsolve.core.result import Stop
from jtsolve.errors import ChoiceError, LimitError, RefusedError
from jtsolve.scoring.problem import WHOLE, Tabulation
from jtsolve.solving import solve

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits, Run
    from jtsolve.core.tree import JunctionTree


FOR_CHAINS = Tabulation(seconds=60.0, share=0.25)
"""A table of millions of sets takes less time than the half of them one by one, as graphs meet them."""


def tabulation_to_average(
    n: int, largest: int, method: str, limits: Limits, prior: str = GRAPHS, *, drawn: bool = False
) -> Tabulation:
    """Returns when to tabulate the scores of all sets of at most `largest` of n variables; see `is_exact`."""
    if method == "chains" or (
        method == "auto" and prior == GRAPHS and not _fits(n, largest, limits, drawn=drawn)
    ):
        return FOR_CHAINS
    return WHOLE


def _fits(n: int, largest: int, limits: Limits, *, drawn: bool) -> bool:
    """Tells whether there are exact sums of n variables, and they fit the memory."""
    if n > MOST_VARIABLES:
        return False
    plan = Plan(n, min(largest, n), drawn=drawn)
    return plan.estimate(limits.workers).memory <= limits.memory_bytes


def is_exact(
    problem: Problem, method: str, limits: Limits, prior: str = GRAPHS, *, drawn: bool = False
) -> bool:
    """Tells whether the exact sums are to be used.

    Args:
        problem: scores and constraints.
        method: "auto", "exact" or "chains".
        limits: of memory, for "auto".
        prior: one of `PRIORS`.
        drawn: whether graphs are to be drawn, which takes more memory.

    Raises:
        ChoiceError: there is no such method or prior, or the method does not support the prior.
        RefusedError: the problem asks for what the method does not support.
    """
    if method not in ("auto", "exact", "chains"):
        raise ChoiceError(f"there is no method '{method}'; there are auto, exact, chains")
    require_prior(prior)
    if prior == ROOTED and method == "chains":
        raise ChoiceError(
            f"chains count each graph once, and do not support the prior over {prior}; take exact sums"
        )
    if method == "chains":
        require_movable(problem)
        return False
    if method == "auto" and prior == GRAPHS and not MOVABLE.objections(problem):
        fits = _fits(problem.n, problem.max_clique_size, limits, drawn=drawn)
        return fits and not EXACT.objections(problem)
    if objections := EXACT.objections(problem):
        raise RefusedError("exact sums", objections)
    return True


_PER_VERTEX = 200
"""Bytes of a drawn tree for each vertex."""


def require_room(count: int, n: int, limits: Limits) -> None:
    """Raises LimitError if `count` drawn trees of n variables exceed the memory limit."""
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


def first_tree(problem: Problem, run: Run) -> JunctionTree | None:
    """Returns a good tree for chains to start from, by a search that leaves them most of the time."""
    return best_tree(problem, run.part(min(CHAINS.search, 0.2 * run.left)))


def ended(run: Run) -> Exception | KeyboardInterrupt:
    """Returns the error of sums or chains that ended early: half of the sums are no answer."""
    if run.stop is Stop.INTERRUPTED:
        return KeyboardInterrupt()
    return LimitError(
        "the time limit came before there was anything to say: half of the sums are no answer, nor are "
        "chains of fewer than 100 rounds. Ways out: more time, a smaller treewidth, or fewer columns."
    )
