"""The clutter LP of the whole problem, for others: its bound, the families that it leaves, its cuts.

What is dropped differs from branch and bound in one point: trees that are as good as the best one are kept,
so that another solver finds at least that one, and cannot take a closed gap on trust.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from math import ulp
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter.branch_and_bound import Search
from jtsolve.backends.support.relaxation import Relaxation
from jtsolve.core.varset import varset

if TYPE_CHECKING:
    from jtsolve.core.backend import Limits, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree
    from jtsolve.families.families import Families

_TIE = 1e-6
"""Nats below the best tree's score down to which trees are kept: they count as equal."""


def solve_root(
    problem: Problem, families: Families, tree: JunctionTree, limits: Limits, report: Report
) -> Relaxation:
    """Returns what the LP says of the problem, of which a tree is known; see `support.relaxation.Relaxes`."""
    search = Search(problem, families, limits, report, keep_stages=False)
    # Where scores are huge, a difference of 10^-6 is lost in rounding.
    search.incumbent.margin = max(_TIE, 4 * ulp(tree.score(problem.scores)))
    search.incumbent.offer(tree)
    with ThreadPoolExecutor(search.threads) if search.threads > 1 else nullcontext() as pool:
        search.relax(pool)
    state = search.root.state
    best = search.incumbent.tree
    assert best is not None, "one was offered"
    found = state.families
    clutters = tuple(
        tuple(varset(found.members[at, : found.sizes[at]].tolist()) for at in state.rows.clutters[k])
        for k in np.flatnonzero(state.cuts > 0)
        if (found.sizes[list(state.rows.clutters[k])] == 1).any()  # not that a required edge is there
    )
    return Relaxation(found, search.scale.nats(state.units), best, clutters)
