"""The common part of `cpsat`, `ilp` and `maxsat`: a prepared problem in a solver's process.

The process receives the families, encodes and solves them, and sends trees and bounds as it finds them; so
encoding can be killed like solving. Trees come from the solver's values, not from its objective: the report
recomputes their scores, and `solve` checks the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from jtsolve.backends.support.prepare import prepare, prepared_memory, relaxes
from jtsolve.backends.support.relaxation import Relaxes
from jtsolve.backends.support.worker import BASE_MEMORY, Call, in_worker
from jtsolve.core.backend import Backend, Capabilities, Estimate
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

_MOST_RUNS = 10
"""Maximum number of runs of the solver where rounding leaves a gap."""


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
        options: of the backend, for the solver.
        threads: the number allowed.
        seed: for everything random.
        seconds: the time left when the input is sent; None for no limit.
    """

    families: Families
    clutters: tuple[tuple[VarSet, ...], ...]
    tree: JunctionTree | None
    options: Mapping[str, Any]
    threads: int
    seed: int
    seconds: float | None


def encoded(work: SolverInput, finest: int = FINEST) -> tuple[Encoding, Unit]:
    """Returns the formula of a solver's input, with weights that are multiples of the unit; see `rounded`.

    It is the family formulation, unless the option "model" is "balancing".
    """
    families, unit = rounded(work.families, finest)
    encode = encode_balancing if work.options.get("model") == "balancing" else encode_family
    return encode(families, work.clutters), unit


@dataclass(frozen=True, slots=True)
class SolverBackend:
    """A backend on top of a solver, which runs in its own process; abstract.

    Args:
        start: the backend that finds the first tree, or None; without a tree nothing is pruned.
        relaxation: a backend that relaxes the problem, for a bound, cuts and pruning, or None. Where its
            bound is the tree's score, that bound is the proof of optimality: see `support.prepare`.

    Attributes:
        module: the Python module of the solver, which also names the kind of process.
        package: the package that provides the module.
        process: "module:function", called with a function that sends a `SolverMessage`, and a `SolverInput`.
            It returns a bound in nats on the trees that preparation left: -inf if there are none, inf if it
            ended without a proof.

    Raises:
        ChoiceError: `relaxation` does not relax problems.
    """

    start: Backend | None = None
    relaxation: Backend | None = None

    name: ClassVar[str]
    module: ClassVar[str]
    package: ClassVar[str]
    process: ClassVar[str]

    def __post_init__(self) -> None:
        if self.relaxation is not None and not isinstance(self.relaxation, Relaxes):
            raise ChoiceError(
                f"backend '{self.name}' does not support '{self.relaxation.name}' as its relaxation, since "
                "that only solves whole problems; give relaxation=clutter or relaxation=none"
            )

    @property
    def capabilities(self) -> Capabilities:
        """All constraints; the package of the solver has to be installed."""
        return Capabilities(exact=True, needs_table=True, predictable=False, rules=(self._lacks_package,))

    def _lacks_package(self, _problem: Problem) -> str | None:
        if find_spec(self.module) is not None:
            return None
        return f"It needs {self.package}, which is not installed: pip install {self.package}."

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`: of this process and the solver's.

        The seconds are a rough guess, above those of the relaxation alone: the time for a proof depends on
        the scores more than on the sizes. They are infinite where no proof is expected.
        """
        families = predicted_sets(problem) * problem.max_clique_size
        memory = prepared_memory(problem, self.relaxation) + BASE_MEMORY
        memory += _COSTS.family * families + _COSTS.triple * problem.n**3
        seconds = inf
        if problem.n <= _COSTS.most_proved:
            seconds = _COSTS.start + families * (problem.n / 12) ** 2 / _COSTS.families_per_second
        for other in (self.start, self.relaxation):
            if other is not None and not objections_of(other, problem):
                cost = estimate_of(other, problem, limits)
                memory, seconds = max(memory, cost.memory), seconds + cost.seconds
        return Estimate(memory, seconds)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        return self.solve_with({}, problem, limits, report)

    def solve_with(
        self, options: Mapping[str, Any], problem: Problem, limits: Limits, report: Report
    ) -> Outcome:
        """Prepares a problem and runs the solver on it.

        Args:
            options: for the solver.
            problem: to solve.
            limits: time, memory and threads.
            report: receives trees and bounds; ends the run.

        Raises:
            LimitError: the run needs more memory than the limit.
        """
        self.estimate(problem, limits).require_memory(self.name, limits)
        tree = None
        if self.start is not None and not self.start.capabilities.objections(problem):
            tree = self.start.solve(problem, limits, report).tree
        try:
            prepared = prepare(problem, limits, report, tree=tree, relaxation=self.relaxation)
        except StoppedError:
            return Outcome(tree, stop=report.stop or Stop.TIME)
        outcome = self.run_solver(options, prepared, limits, report)
        if outcome.tree is None or outcome.stop is not Stop.FINISHED or not relaxes(self.relaxation, problem):
            return outcome
        tree, ties = self.relaxation.sparsest(problem, prepared.families, outcome.tree, limits, report)
        return replace(outcome, tree=tree, stats={**outcome.stats, "ties": ties})

    def run_solver(
        self, options: Mapping[str, Any], prepared: PreparedProblem, limits: Limits, report: Report
    ) -> Outcome:
        """Runs a solver on a prepared problem; reports trees and bounds as it finds them.

        The bound of a finished solver exceeds its best tree by the possible rounding error. Where large
        scores cancel, that is more than the tolerance of "optimal": the solver runs again without the trees
        found, as their scores are known, and the best of the rest is worse by more than rounding, or tied.

        Args:
            options: for the solver.
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
        report(note=f"{int(prepared.stats['families'])} families are given to {self.module}")
        stop = None
        for _ in range(_MOST_RUNS):
            left = None if limits.time is None else limits.time - limits.elapsed
            known = families, prepared.clutters, prepared.tree
            work = SolverInput(*known, options, limits.workers, limits.seed, left)
            final, stop = in_worker(Call(self.module, self.process, (work,)), record, report, limits)
            if final is None:
                break
            if final == inf:
                stop = None if limits.time is None else Stop.TIME
                break
            if final == -inf and best is not None and least == -inf:
                raise InternalError(f"the solver '{self.module}' found no tree, but one is known")
            bound = min(bound, max(final, least))
            if best is None or bound - best.score(scores) <= optimality_tolerance(best.score(scores)):
                break
            least = best.score(scores)
            found.add(best.edge_sets)
            graphs = families.constraints.forbidden_graphs | found
            families = replace(families, constraints=replace(families.constraints, forbidden_graphs=graphs))
        return Outcome(best, bound, stop or Stop.FINISHED, prepared.stats)
