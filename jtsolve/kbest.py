"""The k best trees, or all within a gap of the best.

After each solve, the graph of its tree is forbidden, and the rest is solved. A graph G is forbidden by a
linear condition on edges, Σ_{ab∈G} (1 − e_ab) + Σ_{ab∉G} e_ab ≥ 1 (a no-good cut), which a backend implements
as the constraint `forbidden_graphs`. All junction trees of a graph have the same score; one is returned for
each graph.

Trees with equal scores are in no particular order; scores within `optimality_tolerance` count as equal.

Time and memory: those of one solve per tree, which grow with the number of forbidden graphs.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.problem import ProblemFeature
from jtsolve.core.ranking import Ranking, score_of
from jtsolve.core.result import Result, Stop, optimality_tolerance
from jtsolve.core.run import Run
from jtsolve.errors import ChoiceError, LimitError, RefusedError
from jtsolve.options import PROOF
from jtsolve.solving import Choice, choose_backend, solve

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Problem
    from jtsolve.core.varset import VarSet


def k_best(
    problem: Problem,
    backend: Backend | None = None,
    run: Run | None = None,
    *,
    k: int | None = None,
    within: float | None = None,
) -> Ranking:
    """Returns the best trees of a problem, verified and in order.

    Signals, as in `solve`, and the limits, which apply to all solves together, end it with the trees found so
    far, the last perhaps unproved; see `Ranking.proved` and `Ranking.bound`.

    Args:
        problem: the scores and constraints.
        backend: solves it; None for the choice of `choose_ranker`.
        run: limits and seed, progress and interruption; None for the defaults.
        k: the number of trees; None for no limit.
        within: the largest gap to the best score, in nats; None for no limit.

    Raises:
        ChoiceError: see `require_number`; or a certificate is requested of the backend.
        RefusedError: the backend cannot accept the problem, or does not support `forbidden_graphs`.
        LimitError: the first tree needs more memory than allowed; refused before the work starts.
        InternalError: the backend's answer is wrong.
    """
    require_number(k, within)
    if getattr(backend, "certificate", None) is not None:
        raise ChoiceError(
            "the option 'certificate' is for one tree, and each tree's would replace the last; for one of "
            f"all trees, use {PROOF}, or jtsolve.proving.prove_ranking"
        )
    run = run or Run()
    backend = choose_ranker(problem, run).backend if backend is None else backend
    require_ranker(problem, backend)
    results: list[Result] = []
    with run.interruptible():
        while True:
            rest = without(problem, {result.tree.edge_sets for result in results if result.tree is not None})
            try:
                last = solve(rest, backend, run)
            except LimitError:
                if not results:
                    raise
                return Ranking(tuple(results), results[-1], problem.constraints, Stop.MEMORY, k, within)
            found = last.tree is not None and _near(last, results, within)
            if found:
                results.append(last)
            stop = run.stop if last.stop is Stop.FINISHED else last.stop
            ranking = Ranking(tuple(results), last, problem.constraints, stop or Stop.FINISHED, k, within)
            if not found or len(results) == k or ranking.exhausted or stop is not None:
                return ranking


def _near(result: Result, results: list[Result], within: float | None) -> bool:
    """Returns whether a result is within the gap of the first, up to the tolerance of "optimal"."""
    if within is None or not results:
        return True
    best = score_of(results[0])
    return score_of(result) >= best - within - optimality_tolerance(best)


def without(problem: Problem, graphs: set[frozenset[VarSet]]) -> Problem:
    """Returns the problem with further graphs forbidden."""
    forbidden = problem.constraints.forbidden_graphs | graphs
    return replace(problem, constraints=replace(problem.constraints, forbidden_graphs=forbidden))


def require_number(k: int | None, within: float | None) -> None:
    """Refuses numbers of trees that are out of range.

    Raises:
        ChoiceError: neither k nor within is given, k is below 1, or within is below 0 or not finite.
    """
    if k is None and within is None:
        raise ChoiceError("the number of trees is missing; give k, or within, or both")
    if k is not None and k < 1:
        raise ChoiceError(f"k is {k}; it must be 1 or more")
    if within is not None and not 0 <= within < inf:
        raise ChoiceError(f"within is {within}; it must be a number of nats, 0 or more")


def choose_ranker(problem: Problem, run: Run) -> Choice:
    """Returns the backend that `auto` selects when several trees are requested; see `choose_backend`."""
    return choose_backend(_with_forbidden_graph(problem), run, search=False)


def require_ranker(problem: Problem, backend: Backend) -> None:
    """Refuses a backend that cannot forbid graphs, or does not accept the problem.

    Raises:
        RefusedError: with every reason, and the backends that can.
    """
    objections = backend.capabilities.objections(_with_forbidden_graph(problem).with_star())
    if ProblemFeature.FORBIDDEN_GRAPHS not in backend.capabilities.features:
        able = [
            name
            for name, one in REGISTRY.items()
            if ProblemFeature.FORBIDDEN_GRAPHS in one.capabilities.features
        ]
        objections += (
            f"The next best trees are found by forbidding better ones, which these can: {', '.join(able)}.",
        )
    if objections:
        raise RefusedError(backend.name, objections)


def _with_forbidden_graph(problem: Problem) -> Problem:
    """Returns the problem with a forbidden graph, as all solves but the first have."""
    return without(problem, {frozenset()})
