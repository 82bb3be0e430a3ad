"""The clutter LP of the whole problem for other backends: its bound, the remaining families, and its cuts.

Branch and bound keeps the families of better trees only. Here those of equally good trees stay too, so that
another solver finds at least the best tree, and proves its optimality itself.
"""

from __future__ import annotations

from contextlib import nullcontext
from math import ulp
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter.branch_and_bound import BranchAndBound
from jtsolve.backends.support.relaxation import Relaxation
from jtsolve.core.threads import Pool
from jtsolve.core.varset import varset

if TYPE_CHECKING:
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree
    from jtsolve.families.families import Families

_TIE = 1e-6
"""Trees whose score is at most this many nats below the best one count as equally good."""


def solve_root(
    problem: Problem, families: Families, tree: JunctionTree, limits: Limits, report: Report
) -> Relaxation:
    """Solves the linear relaxation of a problem with a known tree; see `support.relaxation.Relaxes`.

    Args:
        problem: to relax.
        families: of the problem.
        tree: the incumbent.
        limits: time, memory and threads.
        report: receives trees and bounds; ends the work.
    """
    search = BranchAndBound.for_problem(problem, families, limits, report, keep_stages=False)
    # Rounding of huge scores exceeds 10^-6.
    search.best.margin = lambda score: max(_TIE, 4 * ulp(score))
    search.best.offer(tree)
    with Pool(search.threads) if search.threads > 1 else nullcontext() as pool:
        search.relax(pool)
    root = search.root.subproblem
    best = search.best.tree
    assert best is not None, "a tree was offered above"
    left = root.families
    clutters = tuple(
        tuple(varset(left.members_of(at)) for at in root.rows.clutters[k])
        for k in np.flatnonzero(root.multipliers.cuts > 0)
        if (left.sizes[list(root.rows.clutters[k])] == 1).any()  # leaves out cuts of required edges
    )
    return Relaxation(left, search.scale.nats(root.units), best, clutters)
