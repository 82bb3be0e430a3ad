"""Clutter cuts and multipliers for the relaxed sums, from the linear program of the backend `clutter`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.averaging.relaxed import Lattice
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.clutter.branch_and_bound import BranchAndBound
from jtsolve.backends.clutter.inequalities import CutRows
from jtsolve.backends.clutter.subproblem import set_positions
from jtsolve.backends.registry import QUICK, REGISTRY
from jtsolve.core.result import Status
from jtsolve.core.scores import StoppedError
from jtsolve.core.threads import Pool
from jtsolve.core.varset import varset
from jtsolve.families.families import choose_root, families_of, predicted_memory
from jtsolve.solving import Recorder, solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree

MARGIN = 25.0
"""Nats below the best tree down to which the program keeps families: cuts that only separate the best tree
from its rivals leave 34 nats of alarm (10,000 rows, treewidth 2) in place of 13."""
_SHARE, _SECONDS = 0.4, 120.0
"""Of the time left, and seconds, that the program takes at most."""


class Start(NamedTuple):
    """All families with the cuts of the program.

    Attributes:
        tree: the best one known.
        lattice: all families, with the cuts.
        stages: each of shape (cuts,): the multipliers of the stages of the program.
    """

    tree: JunctionTree
    lattice: Lattice
    stages: tuple[NDArray[np.float64], ...]


def bytes_of_start(problem: Problem) -> int:
    """Returns the bytes that the program needs besides those held."""
    return predicted_memory(problem) + ClutterCuts().relaxation_memory(problem)


def start_of(problem: Problem, run: Run) -> Start | None:
    """Returns where the relaxed sums begin, or None if no graph meets the constraints.

    Raises:
        StoppedError: the run has to stop.
        LimitError: the time ended before there was a tree.
    """
    quick = REGISTRY.parse(QUICK)
    backend = None if quick.capabilities.objections(problem) else quick
    outcome = solve(problem, backend, run.part(_SHARE * run.left))
    if outcome.tree is None and outcome.status is not Status.INFEASIBLE:
        outcome = solve(problem, None, run.part(_SHARE * run.left))
    if outcome.status is Status.INFEASIBLE:
        return None
    if (first := outcome.tree) is None:
        raise StoppedError
    families = families_of(problem, choose_root(problem, first), lambda: run.stop is not None)
    part = run.part(min(_SECONDS, _SHARE * run.left))
    recorder = Recorder(problem, part)
    search = BranchAndBound.for_problem(problem, families, part.limits, recorder, keep_stages=True)
    search.best.margin = lambda _: MARGIN
    search.best.offer(first)
    with Pool(run.threads) if run.threads > 1 else nullcontext() as pool:
        search.relax(pool)
    root, tree = search.root.subproblem, search.best.tree
    assert tree is not None, "one was offered"
    assert root.stages is not None, "they are kept"
    # Later stages have fewer sets; cuts and multipliers are extended to all of them, where any are valid.
    # A cut holds for every graph if one of its sets is complete in every graph.
    complete = {1 << v for v in range(families.n)} | problem.constraints.required_edges
    numbers: dict[tuple[int, ...], int] = {}
    weights: list[dict[int, float]] = []
    for stage in (*root.stages, root.stage()):
        weights.append({})
        for sets, units in stage.cuts:
            masks = sorted(map(varset, sets))
            if units > 0 and not complete.isdisjoint(masks):
                number = numbers.setdefault(tuple(masks), len(numbers))
                weights[-1][number] = units * search.scale.unit
    position = set_positions(families, sorted({mask for cut in numbers for mask in cut}))
    rows = CutRows(families, [tuple(sorted(position[mask] for mask in cut)) for cut in numbers])
    n = families.n
    rank = np.arange(n)
    rank[families.root] = -1
    stages = np.zeros((len(weights), len(numbers)))
    for cuts, found in zip(stages, weights, strict=True):
        cuts[list(found)] = list(found.values())
    lattice = Lattice(families, rows, stages[0], np.zeros(n), search.best.score, 0.0, rank)
    return Start(tree, lattice, tuple(stages))
