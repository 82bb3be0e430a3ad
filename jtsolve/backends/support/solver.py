"""The common part of `cpsat`, `ilp` and `maxsat`: a prepared problem in a solver's process.

The process receives the families, encodes and solves them, and sends trees and bounds as it finds them; so
encoding can be killed like solving. Trees come from the solver's values, not from its objective: the report
recomputes their scores, and `solve` checks the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from jtsolve.backends.support.prepare import prepare, prepared_memory, relaxes
from jtsolve.backends.support.relaxation import Relaxes
from jtsolve.backends.support.worker import BASE_MEMORY, Call, in_worker
from jtsolve.core.backend import Backend, Estimate
from jtsolve.core.estimates import estimate_of, objections_of
from jtsolve.core.result import Outcome, Stop, optimality_tolerance
from jtsolve.core.scores import StoppedError
from jtsolve.encodings.balancing import encode_balancing
from jtsolve.encodings.family import encode_family
from jtsolve.encodings.rounding import FINEST, rounded
from jtsolve.errors import ChoiceError, InternalError
from jtsolve.families.families import predicted_sets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jtsolve.backends.support.prepare import PreparedProblem
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet
    from jtsolve.encodings.formula import Encoding
    from jtsolve.encodings.rounding import Unit
    from jtsolve.families.families import Families


@dataclass(frozen=True, slots=True)
class _SolverCosts:
    """Predicted costs of encoding and solving."""

    family: int = 2500  # bytes: the formula as Python objects, the solver's copy, and learned clauses
    triple: int = 300  # bytes per three variables: their two transitivity clauses
    most_proved: int = 20  # variables beyond which no proof is expected
    start: float = 3.0  # seconds
    families_per_second: float = 100.0  # the slowest of five random networks, 12 variables at treewidth 3


_COSTS = _SolverCosts()

_MOST_ASKED = 10
"""Maximum number of solver runs where rounding leaves a gap."""

Clutters: TypeAlias = "tuple[tuple[VarSet, ...], ...]"


_ENCODERS: Mapping[str, Callable[[Families, Clutters], Encoding]] = {
    "balancing": encode_balancing,
    "family": encode_family,
}


class SolverBackend(Backend, Protocol):
    """A backend on top of a solver, with the options that all of them have."""

    @property
    def start(self) -> Backend | None:
        """The backend that finds the first tree, or None; without a tree nothing is pruned."""

    @property
    def relaxation(self) -> Backend | None:
        """A backend that `Relaxes` the problem, for a bound, cuts and pruning; or None."""

    @property
    def prune(self) -> bool:
        """Whether to drop the sets that no tree at least as good as the first one uses."""


class SolverMessage(NamedTuple):
    """A message of a solver's process: a tree, or a bound in nats."""

    tree: JunctionTree | None = None
    bound: float | None = None


Send: TypeAlias = "Callable[[SolverMessage], None]"
"""Sends a message from the solver's process."""


class SolverInput(NamedTuple):
    """The input of a solver's process.

    Attributes:
        families: of the problem.
        clutters: known cuts.
        tree: the best known one, or None.
        model: the formulation: a key of `_ENCODERS`.
        options: of the backend, for the solver.
        threads: the number allowed.
        seed: for everything random.
        seconds: the time left when the input is sent; None for no limit.
    """

    families: Families
    clutters: Clutters
    tree: JunctionTree | None
    model: str
    options: Mapping[str, Any]
    threads: int
    seed: int
    seconds: float | None


class SolverCall(NamedTuple):
    """How a problem is solved.

    Attributes:
        kind: of the process, such as the name of the solver library.
        function: "module:function", called with a function that sends a `SolverMessage`, and a `SolverInput`.
            It returns a bound in nats on the trees that preparation left: -inf if there are none, inf if it
            ended without a proof.
        model: the formulation.
        options: for the function.
    """

    kind: str
    function: str
    model: str
    options: Mapping[str, Any]


def encoded(work: SolverInput, finest: int = FINEST) -> tuple[Encoding, Unit]:
    """Returns the formula of a solver's input, with weights that are multiples of the unit; see `rounded`."""
    families, unit = rounded(work.families, finest)
    return _ENCODERS[work.model](families, work.clutters), unit


def require_relaxation(backend: SolverBackend) -> None:
    """Refuses a relaxation that is not one; for constructors.

    Raises:
        ChoiceError: the backend given as relaxation does not relax problems.
    """
    relaxation = backend.relaxation
    if relaxation is not None and not isinstance(relaxation, Relaxes):
        raise ChoiceError(
            f"backend '{backend.name}' does not support '{relaxation.name}' as its relaxation, since that "
            "only solves whole problems; give relaxation=clutter or relaxation=none"
        )


def solve_prepared(
    backend: SolverBackend, call: SolverCall, problem: Problem, limits: Limits, report: Report
) -> Outcome:
    """Prepares a problem by the options of a backend and hands it to a solver.

    Args:
        backend: its options.
        call: runs the solver.
        problem: to solve.
        limits: time, memory and threads.
        report: receives trees and bounds; ends the run.

    Raises:
        LimitError: the run needs more memory than the limit.
    """
    backend.estimate(problem, limits).require_memory(backend.name, limits)
    start, relaxation, prune = backend.start, backend.relaxation, backend.prune
    tree = None
    if start is not None and not start.capabilities.objections(problem):
        tree = start.solve(problem, limits, report).tree
    try:
        prepared = prepare(problem, limits, report, tree=tree, relaxation=relaxation, prune=prune)
    except StoppedError:
        return Outcome(tree, stop=report.stop or Stop.TIME)
    outcome = hand_over(call, prepared, limits, report)
    if outcome.tree is None or outcome.stop is not Stop.FINISHED or not relaxes(relaxation, problem):
        return outcome
    tree, ties = relaxation.sparsest(problem, prepared.families, outcome.tree, limits, report)
    return replace(outcome, tree=tree, stats={**outcome.stats, "ties": ties})


def hand_over(call: SolverCall, prepared: PreparedProblem, limits: Limits, report: Report) -> Outcome:
    """Runs a solver on a prepared problem; reports trees and bounds as it finds them.

    The bound of a finished solver exceeds its best tree by the possible rounding error. Where large scores
    cancel, that is more than the tolerance of "optimal": the solver runs again without the trees found, as
    their scores are known, and the best of the rest is worse by more than rounding, or tied.

    Args:
        call: runs the solver.
        prepared: the problem, with the families that are left.
        limits: time, memory and threads.
        report: receives trees and bounds; ends the run.

    Raises:
        InternalError: the solver contradicts a known tree.
    """
    scores = prepared.problem.scores
    best, bound, families = prepared.tree, prepared.bound, prepared.families
    found: set[frozenset[VarSet]] = set()
    least = -inf  # the largest score of the trees that the solver's problem excludes

    def record(message: SolverMessage) -> None:
        nonlocal best, bound
        if message.tree is not None:
            found.add(message.tree.edge_sets)
            if best is None or message.tree.score(scores) > best.score(scores):
                best = message.tree
        valid = None if message.bound is None else max(message.bound, least)
        if valid is not None:
            bound = min(bound, valid)
        report(tree=message.tree, bound=valid)

    if prepared.stop is not None:
        return Outcome(best, bound, prepared.stop, prepared.stats)
    report(note=f"{int(prepared.stats['families'])} families are given to {call.kind}")
    stop = None
    for _ in range(_MOST_ASKED):
        left = None if limits.time is None else limits.time - limits.elapsed
        known = families, prepared.clutters, prepared.tree
        work = SolverInput(*known, call.model, call.options, limits.workers, limits.seed, left)
        final, stop = in_worker(Call(call.kind, call.function, (work,)), record, report, limits)
        if final is None:
            break
        if final == inf:
            stop = None if limits.time is None else Stop.TIME
            break
        if final == -inf and best is not None and least == -inf:
            raise InternalError(f"the solver '{call.kind}' found no tree, but one is known")
        bound = min(bound, max(final, least))
        if best is None or bound - best.score(scores) <= optimality_tolerance(best.score(scores)):
            break
        least = best.score(scores)
        found.add(best.edge_sets)
        graphs = families.constraints.forbidden_graphs | found
        families = replace(families, constraints=replace(families.constraints, forbidden_graphs=graphs))
    return Outcome(best, bound, stop or Stop.FINISHED, prepared.stats)


def estimated_cost(backend: SolverBackend, problem: Problem, limits: Limits) -> Estimate:
    """Returns the predicted cost of a run, in this process and the solver's.

    The seconds are a rough guess, above those of the relaxation alone: the time for a proof depends on the
    scores more than on the sizes. They are infinite where no proof is expected.

    Args:
        backend: its options.
        problem: to solve.
        limits: of the run.
    """
    families = predicted_sets(problem) * problem.max_clique_size
    memory = prepared_memory(problem, backend.relaxation) + BASE_MEMORY
    memory += _COSTS.family * families + _COSTS.triple * problem.n**3
    seconds = inf
    if problem.n <= _COSTS.most_proved:
        seconds = _COSTS.start + families * (problem.n / 12) ** 2 / _COSTS.families_per_second
    for other in (backend.start, backend.relaxation):
        if other is not None and not objections_of(other, problem):
            cost = estimate_of(other, problem, limits)
            memory, seconds = max(memory, cost.memory), seconds + cost.seconds
    return Estimate(memory, seconds)
