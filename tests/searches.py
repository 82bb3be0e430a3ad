"""Searches of branch and cut with other constants than those of the backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from problems import Recording

from jtsolve.backends.clutter.branch_and_bound import BRANCHING, BranchAndBound
from jtsolve.backends.forward.backend import Forward
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits
from jtsolve.families.families import families_of

if TYPE_CHECKING:
    from jtsolve.backends.clutter.branch_and_bound import BranchingConstants
    from jtsolve.core.problem import Problem


def begun(problem: Problem, few: int, constants: BranchingConstants = BRANCHING) -> BranchAndBound:
    """Returns a search with the tree of `forward` if there is one; see `BranchAndBound`."""
    report = Recording()
    search = BranchAndBound.for_problem(
        problem, families_of(problem, 0), Limits(), report, keep_stages=False, few=few, constants=constants
    )
    if not Forward().capabilities.objections(problem):
        tree = Forward().solve(problem, Limits(), report).tree
        if tree is not None:
            search.best.offer(tree)
    return search


def searched(problem: Problem, few: int, constants: BranchingConstants) -> BranchAndBound:
    """Returns the same search, finished."""
    search = begun(problem, few, constants)
    assert search.run() is Stop.FINISHED
    return search
