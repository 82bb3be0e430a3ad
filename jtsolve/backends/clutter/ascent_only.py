"""Bounds for problems whose clutter LP does not fit into memory: one dual ascent, or bounds of the scores.

Unlike the volume algorithm, the ascent (`ascent`) needs no bit for each set and cut. On 500 words of text at
treewidth 2 (20.8 million sets), it leaves half a per cent. The multipliers of its cuts are the certificate.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from jtsolve.backends.clutter.ascent import bound_alone
from jtsolve.backends.clutter.branch_and_bound import BETWEEN_BOUNDS, BranchAndBound, ProofNode
from jtsolve.backends.clutter.certificate import Proof
from jtsolve.backends.clutter.subproblem import Stage
from jtsolve.core.bounds import range_bound
from jtsolve.core.machine import resident_memory
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import Bounding, StoppedError
from jtsolve.families.families import families_of, predicted_memory, predicted_sets

if TYPE_CHECKING:
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree

_BYTES_PER_SET, _BYTES_PER_FAMILY = 20, 32
"""Memory of a set and of each of its families, besides `predicted_memory`, a bit for each set and vertex, and
the lists of entering families."""


def memory_of_ascent(problem: Problem) -> int:
    """Returns the predicted bytes of an ascent over all families."""
    each = _BYTES_PER_SET + _BYTES_PER_FAMILY * problem.max_clique_size
    return predicted_memory(problem) + predicted_sets(problem) * (each + problem.n // 8)


def bound_by_ascent(
    problem: Problem, root: int, first: JunctionTree | None, limits: Limits, report: Report
) -> tuple[Outcome, Proof]:
    """Returns the first tree with the bound of an ascent guided by it, and the proof of the bound.

    The outcome stops with "finished" if the bound proves the tree optimal or the problem infeasible, and with
    "memory" if the ascent ended earlier: further progress needs more memory.

    Args:
        problem: with any scores.
        root: the variable that comes first.
        first: a tree that meets the constraints, or None.
        limits: of the run.
        report: of the run.

    Raises:
        StoppedError: the report stopped it before the families were listed.
    """
    families = families_of(problem, root, lambda: report.stop is not None)
    search = BranchAndBound.for_problem(problem, families, limits, report, keep_stages=False)
    if first is not None:
        search.best.offer(first)
    subproblem = search.root.subproblem
    stats = {"families": int(families.allowed.sum()), "root": problem.names[root]}
    if not subproblem.feasible:  # a vertex has no family, or a required edge is no permitted set
        empty = ProofNode([], Stage([], [], []))
        return Outcome(None, -inf, Stop.FINISHED, stats), Proof(root, search.shift, empty)
    subproblem.set_centre()
    reported = limits.elapsed

    def on_fall(units: int) -> bool:
        nonlocal reported
        if limits.elapsed < reported + BETWEEN_BOUNDS:
            return report.stop is None
        reported = limits.elapsed
        bound = max(search.best.score, search.scale.nats(units))
        fits = resident_memory() <= limits.memory_bytes
        return report(bound=bound, note="dual ascent") and fits

    stage = bound_alone(subproblem, on_fall)
    bound = max(search.best.score, search.scale.nats(subproblem.units))
    stop = Stop.FINISHED if subproblem.closed else report.stop or Stop.MEMORY
    if subproblem.closed and search.best.tree is None:  # infeasible
        bound = -inf
    return Outcome(search.best.tree, bound, stop, stats), Proof(root, search.shift, ProofNode([], stage))


def bound_by_scores(problem: Problem, first: JunctionTree | None, limits: Limits, report: Report) -> Outcome:
    """Returns the first tree, and reports bounds that its scores provide; see `core.scores.Bounding`.

    Args:
        problem: its scores are `Bounding`.
        first: a tree, or None.
        limits: the number of threads.
        report: receives each bound; ends the computation.

    Raises:
        StoppedError: the report stopped it.
    """

    def proceed() -> None:
        if report.stop is not None:
            raise StoppedError

    assert isinstance(problem.scores, Bounding), "checked by the caller"
    target = range_bound(problem) if first is None else first.score(problem.scores)
    for bound in problem.scores.tree_bounds(problem.max_clique_size, target, limits.workers, proceed):
        report(bound=bound, note="prices of families")
    return Outcome(first, inf, Stop.MEMORY)
