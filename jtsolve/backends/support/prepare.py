"""Preparation of a problem before it is encoded for a solver: a first tree, a root, and pruning.

1. Pruning keeps all trees that score at least as much as the first tree T, T among them; without T there is
   none.
2. The root is a vertex of high degree in T; the families are built (`families`).
3. The relaxation (`support.relaxation.Relaxes`, such as `clutter`) gives a bound, fixes families at 0 by
   reduced cost (proof: `families`, pruning 2), and passes its cuts on.
4. Without a relaxation, the completion bound (`core.pruning`) drops sets, if there are few enough variables.

Who proves optimality? Where the relaxation's bound meets T's score, that bound is the proof, and little more
than T remains. The solver still runs on the rest and confirms the encoding and the score, but the pruning
rests on the relaxation. Without a relaxation the proof is the solver's, apart from the completion bound;
without a first tree it is entirely the solver's.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, TypeGuard

from jtsolve.backends.support.relaxation import Relaxes
from jtsolve.backends.support.report import ending_at
from jtsolve.core import pruning
from jtsolve.core.machine import base_memory
from jtsolve.families.families import choose_root, families_of, predicted_memory

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Stop
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet
    from jtsolve.families.families import Families

MOST_PRUNED = 20
"""Variables up to which the completion bound is computed: 19 take 1.5 s (2 shared cores of an Intel Xeon,
2.5 GHz), each further one doubles that, and it cannot be interrupted."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedProblem:
    """A problem that is ready to be encoded.

    Attributes:
        problem: without the sets that were dropped.
        families: without the families that were dropped.
        tree: the best known tree, or None; then nothing was dropped.
        bound: on the score of every tree of the original problem, in nats; inf if none is known.
        clutters: cuts of the relaxation, each a collection of sets.
        stop: why the run must stop now, or None.
        stats: the number of families, and the bound of the relaxation.
    """

    problem: Problem
    families: Families
    tree: JunctionTree | None
    bound: float
    clutters: tuple[tuple[VarSet, ...], ...]
    stop: Stop | None
    stats: dict[str, float]


def relaxes(relaxation: Backend | None, problem: Problem) -> TypeGuard[Relaxes]:
    """Returns whether there is a relaxation that accepts the problem."""
    return isinstance(relaxation, Relaxes) and not relaxation.capabilities.objections(problem)


def prepared_memory(problem: Problem, relaxation: Backend | None) -> int:
    """Returns the peak memory of preparing a problem in this process, without that of the start."""
    needed = predicted_memory(problem)
    if relaxes(relaxation, problem):
        needed += relaxation.relaxation_memory(problem)
    elif problem.n <= MOST_PRUNED:
        needed = max(needed, pruning.predicted_memory(problem))
    return base_memory(kernels=relaxes(relaxation, problem)) + needed


def prepare(
    problem: Problem,
    limits: Limits,
    report: Report,
    *,
    tree: JunctionTree | None,
    relaxation: Backend | None,
) -> PreparedProblem:
    """Returns the problem pruned, with the best tree; reports trees and bounds as they come.

    Args:
        problem: the problem to solve.
        limits: of the whole run.
        report: receives trees and bounds; ends the preparation.
        tree: the first one; None for none, and then neither relaxation nor pruning.
        relaxation: for a bound, cuts and pruning, if it accepts the problem. Without one the completion bound
            prunes problems of at most `MOST_PRUNED` variables.

    Raises:
        StoppedError: the report stopped it before the families were listed.
    """
    stats: dict[str, float] = {}
    completes = not relaxes(relaxation, problem) and problem.n <= MOST_PRUNED
    if completes and tree is not None and report.stop is None:
        report(note="pruning")
        problem = pruning.prune(problem, tree.score(problem.scores)).problem
    families = families_of(problem, choose_root(problem, tree), lambda: report.stop is not None)
    bound = inf
    clutters: tuple[tuple[VarSet, ...], ...] = ()
    if tree is not None and report.stop is None and relaxes(relaxation, problem):
        # Half of the time left is for the solver.
        end = inf if limits.time is None else (limits.time + limits.elapsed) / 2
        half = ending_at(report, limits, end)
        families, bound, tree, clutters = relaxation.relax(problem, families, tree, limits, half)
        report(tree=tree, bound=bound)
        stats["relaxation_bound"] = bound
    stats["families"] = int(families.allowed.sum())
    return PreparedProblem(problem, families, tree, bound, clutters, report.stop, stats)
