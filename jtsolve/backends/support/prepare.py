"""What the backends on top of a solver do before they encode a problem: a tree, a root, and pruning.

1. A backend gives the first tree T. Pruning keeps all trees that are worth as much, T among them.
2. The root is a vertex of high degree in T, and the families are made (`families`).
3. A backend that relaxes the problem (`support.relaxation.Relaxes`, such as `clutter`) gives a bound, drops families by
   its reduced costs (proof: `families`, pruning 2), and hands its cuts on.
4. Without one, the completion bound (`jtsolve.core.pruning`) drops sets, if the variables are few enough.

On whose word is a tree optimal? Where the relaxation meets T's score, its bound is the proof, and what is
left of the problem is little more than T. The solver is run on that all the same: it is a witness of the
encoding, of the score, and of what is left, but what is gone rests on the relaxation. Without a relaxation,
the proof is the solver's but for the completion bound; without pruning, all of it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, TypeGuard

from jtsolve.backends.support.relaxation import Relaxes
from jtsolve.backends.support.report import with_deadline
from jtsolve.core import pruning
from jtsolve.core.machine import resident_memory
from jtsolve.core.scores import SparseScores
from jtsolve.errors import ChoiceError
from jtsolve.families.families import choose_root, families_of, predicted_memory

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend, Limits, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Stop
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet
    from jtsolve.families.families import Families

MOST_PRUNED = 20
"""Variables up to which the completion bound is computed: with 19 it takes 1.5 s (2 shared cores of an Intel
Xeon, 2.5 GHz), with each further one twice as long, and no question is answered meanwhile."""


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A problem that is ready to be encoded.

    Attributes:
        problem: without the sets that were dropped.
        families: without the families that were dropped.
        tree: the best tree that is known, or None; then nothing was dropped.
        bound: no tree of the problem as it was scores more, in nats; inf if none is known.
        clutters: cuts of the relaxation that are worth handing on, each a collection of sets.
        stop: why the work has to end now, or None.
        stats: how many families there are, and what the relaxation proved.
    """

    problem: Problem
    families: Families
    tree: JunctionTree | None
    bound: float
    clutters: tuple[tuple[VarSet, ...], ...]
    stop: Stop | None
    stats: dict[str, float]

    def left(self) -> Problem:
        """Returns the problem with scores for those sets only that may be complete by the families."""
        known = self.families.scores > -inf
        scores = zip(self.families.masks(), self.families.scores.tolist(), known.tolist(), strict=True)
        table = {mask: score for mask, score, has_one in scores if has_one}
        return replace(self.problem, scores=SparseScores(self.problem.n, table))


def require_relaxation(backend: str, relaxation: Backend | None) -> None:
    """Refuses a backend that does not relax problems; for constructors.

    Raises:
        ChoiceError: it does not.
    """
    if relaxation is not None and not isinstance(relaxation, Relaxes):
        raise ChoiceError(
            f"backend '{backend}' cannot take '{relaxation.name}' as its relaxation, since that only solves "
            "whole problems; give relaxation=clutter or relaxation=none"
        )


def relaxes(relaxation: Backend | None, problem: Problem) -> TypeGuard[Relaxes]:
    """Tells whether there is a relaxation, and it takes the problem."""
    return isinstance(relaxation, Relaxes) and not relaxation.capabilities.objections(problem)


def prepared_memory(problem: Problem, relaxation: Backend | None) -> int:
    """Returns the bytes that this process holds at most while a problem is prepared, but for the start's."""
    needed = predicted_memory(problem)
    if relaxes(relaxation, problem):
        needed += relaxation.relaxation_memory(problem)
    elif problem.n <= MOST_PRUNED:
        needed = max(needed, pruning.predicted_memory(problem))
    return resident_memory() + needed


def prepare(
    problem: Problem,
    limits: Limits,
    report: Report,
    *,
    start: Backend | None,
    relaxation: Backend | None,
    prune: bool,
) -> Prepared:
    """Returns the problem with a first tree, pruned; reports trees and bounds as they come.

    Args:
        problem: what to solve.
        limits: of the whole run.
        report: is asked whether to go on.
        start: gives the first tree; None for none, and then neither relaxation nor pruning.
        relaxation: gives a bound, cuts, and what to prune (`require_relaxation`), if it takes the problem;
            None for none.
        prune: whether to drop what is in no tree worth the first: by the relaxation if there is one, else by
            the completion bound, with at most `MOST_PRUNED` variables.
    """
    tree = None
    if start is not None and not start.capabilities.objections(problem):
        tree = start.solve(problem, limits, report).tree
    stats: dict[str, float] = {}
    completes = prune and not relaxes(relaxation, problem) and problem.n <= MOST_PRUNED
    if completes and tree is not None and report.stop is None:
        report(note="pruning")
        problem = pruning.prune(problem, tree.score(problem.scores))
    families = families_of(problem, choose_root(problem, tree))
    bound = inf
    clutters: tuple[tuple[VarSet, ...], ...] = ()
    if tree is not None and report.stop is None and relaxes(relaxation, problem):
        half = with_deadline(report, limits, _half_time(limits))
        left, bound, tree, clutters = relaxation.relax(problem, families, tree, limits, half)
        report(tree=tree, bound=bound)
        families = left if prune else families
        stats["relaxation_bound"] = bound
    stats["families"] = int(families.allowed.sum())
    return Prepared(problem, families, tree, bound, clutters, report.stop, stats)


def _half_time(limits: Limits) -> float:
    """Returns the end of the relaxation: what it does not close until then is the solver's; in seconds."""
    return inf if limits.time is None else (limits.time + limits.elapsed) / 2
