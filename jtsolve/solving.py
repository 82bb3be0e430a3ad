"""`solve`: checks the capabilities, runs the backend, verifies its claim, and returns a `Result`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields, is_dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from jtsolve.backends.registry import REGISTRY
from jtsolve.backends.support.starts import best_start, problem_for
from jtsolve.core.backend import MOST_COMPUTED
from jtsolve.core.bounds import early_bound, problem_bound
from jtsolve.core.estimates import cached_estimates, estimate_of, objections_of
from jtsolve.core.machine import describe_machine
from jtsolve.core.marks import without_star
from jtsolve.core.result import Incumbent, Outcome, Result, Status, Stop, optimality_tolerance
from jtsolve.core.run import LOGGER, Run
from jtsolve.core.scores import DenseScores, SparseScores, StoppedError
from jtsolve.core.sparsity import sparser, tree_size
from jtsolve.core.varset import members
from jtsolve.errors import InternalError, LimitError, RefusedError
from jtsolve.options import MEMORY, TREEWIDTH
from jtsolve.verify.result import check

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend, Estimate, News
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree
    from jtsolve.tables.check import Finding


_WORTH_A_FORECAST = 3.0
"""Seconds of a proof by another backend from which on a first ascent is worth its time. For 18 random
variables at treewidth 4, 46,888 of 54,639 families remain: `dp` needs 9 s, and the portfolio keeps a gap for
longer. For zoo's 17, 121 of 40,273 remain: `dp` needs 3 s, and the portfolio 0.1 s."""
_FORECAST_SECONDS, _FORECAST_SETS = 5.0, 300_000
"""Maximum seconds of the first ascent, and number of sets, which take about a second to list."""
_FOREST_SECONDS = 0.1
"""Maximum seconds for the forest that checks a bound: enough for about 1,400 variables."""
_WIDE, _FIRST = 5, 1 << 10
"""Size of cliques scored on demand from which on a single local search gets all the time, and a rank above
all others. With pairs of 60 to 100 variables, after 12 s on a thread, the portfolio was 2 to 5 % behind it.
Where the completion bound may still prove an optimum, a proof runs beside the search."""
_FEW_SCORES = 1 << 14
"""Scores on demand that may be computed after the end of the time: a few tenths of a second."""


class Recorder:
    """The `Report` of a solve, a view of its run: keeps the best tree, the bound and the trace.

    Args:
        problem: that of the trees.
        run: receives the progress, and decides when to stop.
    """

    def __init__(self, problem: Problem, run: Run) -> None:
        self.tree: JunctionTree | None = None
        self.score: float | None = None
        self.bound = inf
        self.trace: list[Incumbent] = []
        self._independence: float | None = None
        self.problem = problem
        self._run = run
        self._lock = threading.Lock()

    @property
    def stop(self) -> Stop | None:
        """Why the backend has to stop now, or None."""
        return self._run.stop

    @property
    def incumbent(self) -> JunctionTree | None:
        """The best tree so far, or None."""
        return self.tree

    def __call__(self, **news: Unpack[News]) -> bool:
        """See `backend.Report`."""
        tree, bound = news.get("tree"), news.get("bound")
        tree = None if tree is self.tree else tree
        score = None if tree is None else tree.score(self.problem.scores)
        with self._lock:
            better = False
            if score is not None and (self.score is None or score > self.score):
                self.tree, self.score, better = tree, score, True
            elif tree is not None and score == self.score and self._is_larger_than(tree):
                self.tree = tree
            if bound is not None and bound < self.bound:
                self.bound, better = bound, True
            if better:
                bound = None if self.bound == inf else self.bound
                self.trace.append(step := Incumbent(self._run.elapsed, self.score, bound))
        if better:
            self._run.improved(step)
        return self._run.progress(
            note=news.get("note"), done=news.get("done"), score=self.score, bound=self.bound, gain=self.gain
        )

    @property
    def gain(self) -> float | None:
        """Gain of the best tree over the graph without edges, in nats; None if unknown."""
        if self.score is None:
            return None
        if self._independence is None:
            self._independence = independence(self.problem)
        return self.score - self._independence if isfinite(self._independence) else None

    def drop_useless_edges(self) -> None:
        """Removes the edges of the best tree that add nothing to its score; see `core.sparsity`.

        Skipped if the time is up and the scores are many and computed on demand.
        """
        if self.tree is None:
            return
        sets = sum(clique.bit_count() ** 2 for clique in self.tree.cliques)
        is_table = isinstance(self.problem.scores, DenseScores | SparseScores)
        if not is_table and sets > _FEW_SCORES and self.stop is not None:
            return
        self(tree=sparser(self.problem, self.tree))

    def prefer_tie_breaking_tree(self, tree: JunctionTree) -> None:
        """Replaces the best tree by that of a backend that broke ties, which may score less by rounding."""
        score = tree.score(self.problem.scores)
        if self.bound - score <= optimality_tolerance(score):
            self.tree, self.score = tree, score
            self.trace = [
                step if step.score is None else replace(step, score=min(step.score, score))
                for step in self.trace
            ]

    def _is_larger_than(self, tree: JunctionTree) -> bool:
        return self.tree is not None and tree_size(self.problem, self.tree) > tree_size(self.problem, tree)


def solve(problem: Problem, backend: Backend | None = None, run: Run | None = None) -> Result:
    """Solves a problem and returns the verified result.

    Ctrl-C, SIGTERM and SIGHUP end the search with the best tree so far (stop "interrupted"); a second signal
    ends the process as usual.

    Args:
        problem: the scores and constraints.
        backend: solves it; None for the choice of `choose_backend`.
        run: limits and seed, progress and interruption; None for the defaults.

    Raises:
        RefusedError: the backend cannot accept the problem; with every reason.
        LimitError: the work needs more memory than allowed, and there is no tree.
        InternalError: the backend's answer is wrong.
    """
    run = run or Run()
    if backend is None:
        choice = choose_backend(problem, run)
        LOGGER.info("%s", choice.reason)
        backend = choice.backend
    require_backend(problem, backend)
    with run.interruptible():  # includes the check: a Ctrl-C then must not lose the answer
        return _verified(problem, backend, run)


def require_backend(problem: Problem, backend: Backend) -> None:
    """Checks that a backend can solve a problem.

    Raises:
        RefusedError: it cannot; with every reason.
    """
    objections = backend.capabilities.objections(problem.with_star())
    if objections:
        raise RefusedError(backend.name, objections)


def _verified(problem: Problem, backend: Backend, run: Run) -> Result:
    """Runs a backend that accepts the problem, and returns the verified result."""
    given, problem = problem, problem.with_star()
    recorder = Recorder(problem, run)
    recorder(bound=early_bound(problem, run.left))
    ours = recorder.bound
    try:
        guarded = problem.guarded(run)
        outcome = backend.solve(guarded, run.limits, recorder)
    except StoppedError:
        outcome = Outcome(None, stop=run.stop or Stop.TIME)
    except LimitError as error:
        if recorder.tree is None:
            raise
        run.say(str(error))
        outcome = Outcome(None, stop=Stop.MEMORY)
    recorder(tree=outcome.tree, bound=outcome.bound)
    if recorder.tree is None and outcome.stop in (Stop.TIME, Stop.INTERRUPTED):  # a forest comes in any case
        best_start((REGISTRY["chowliu"],), problem, run.limits, recorder)
    if outcome.tree is not None and outcome.stats.get("ties"):
        recorder.prefer_tie_breaking_tree(outcome.tree)
    recorder.drop_useless_edges()
    result = _result(given, backend, run, recorder, outcome)
    if recorder.bound < ours:
        _require_forest_below(problem, backend, recorder.bound)
    faults = check(given, result)
    if faults:
        raise InternalError(f"backend '{backend.name}' returned a wrong answer: " + " ".join(faults))
    LOGGER.info("%s", result)
    return result


def _require_forest_below(problem: Problem, backend: Backend, bound: float) -> None:
    """Raises an InternalError if the bound of a backend is below the score of a forest.

    Chow and Liu's best forest needs the scores of pairs only, and no part of the backend. The comparison is
    omitted where the constraints may exclude that forest, or where it would be slow.
    """
    forest = REGISTRY.get("chowliu")
    is_table = isinstance(problem.scores, DenseScores | SparseScores)
    if forest is None or backend == forest or not (is_table or problem.n**2 // 2 <= _FEW_SCORES):
        return
    own, run = problem_for(forest, problem), Run()
    if own is None or forest.estimate(own, run.limits).seconds > _FOREST_SECONDS:
        return
    tree = forest.solve(own, run.limits, Recorder(own, run)).tree
    if tree is None or not problem.permits(tree):
        return
    score = tree.score(problem.scores)
    if bound < score - optimality_tolerance(score):
        raise InternalError(
            f"backend '{backend.name}' claims the bound {bound}, but the best forest scores {score}"
        )


def _result(problem: Problem, backend: Backend, run: Run, recorder: Recorder, outcome: Outcome) -> Result:
    """Builds the result from the recorded trees and bounds and the backend's claim, without a star."""
    tree = recorder.tree
    if tree is not None and recorder.problem.star:
        tree = without_star(tree)
    score = recorder.score
    bound = recorder.bound
    if bound == inf:
        bound = problem_bound(problem, run.left)
    if score is not None:
        tolerance = optimality_tolerance(score)
        if bound < score - tolerance:
            raise InternalError(
                f"backend '{backend.name}' claims the bound {bound}, but its own tree scores {score}"
            )
        bound = max(bound, score)
        status = Status.OPTIMAL if bound - score <= tolerance else Status.FEASIBLE
    else:
        status = Status.INFEASIBLE if bound == -inf else Status.UNKNOWN
    counters = getattr(problem.scores, "stats", None)  # of scores computed on demand
    return Result(
        instance=problem.name,
        digest=problem.digest(),
        names=problem.names,
        constraints=problem.constraints,
        backend=backend.name,
        options=backend_options(backend),
        status=status,
        stop=outcome.stop,
        tree=tree,
        score=score,
        bound=bound,
        seconds={**outcome.seconds, "total": run.elapsed},
        trace=tuple(recorder.trace),
        seed=run.seed,
        environment=describe_machine(run.threads),
        stats={
            **outcome.stats,
            **_references(problem, tree),
            **({} if counters is None else {"scores": counters}),
            **_warnings(problem, tree),
        },
    )


def independence(problem: Problem) -> float:
    """Returns the score of the graph without edges, in nats; -inf if a variable has none alone."""
    return float(problem.scores.batch(np.arange(problem.n)[:, None]).sum())


def _references(problem: Problem, tree: JunctionTree | None) -> dict[str, Any]:
    """Returns the references for a gap: the rows, and the score of independence, where known."""
    if tree is None:
        return {}
    alone = independence(problem)
    found = {"rows": problem.rows, "independence": alone if isfinite(alone) else None}
    return {name: value for name, value in found.items() if value is not None}


def findings_of(problem: Problem, tree: JunctionTree | None) -> tuple[Finding, ...]:
    """Returns warnings about an answer: cliques whose tables have more cells than there are rows.

    Empty where the rows or states of the problem are unknown, as in files of other programs.
    """
    rows = problem.provenance.get("rows")
    arities = [len(s) if isinstance(s, tuple) else s for s in (v.states for v in problem.variables)]
    if tree is None or not isinstance(rows, int):
        return ()
    cliques, names = [], problem.names
    for clique in tree.cliques:
        sizes = [arity for v in members(clique) if (arity := arities[v]) is not None]
        if len(sizes) == clique.bit_count():
            cliques.append(([names[v] for v in members(clique)], sizes))
    from jtsolve.tables.check import sparse_cliques  # not loaded for instances without rows

    finding = sparse_cliques(cliques, rows)
    return () if finding is None else (finding,)


def _warnings(problem: Problem, tree: JunctionTree | None) -> dict[str, Any]:
    """Returns the findings of the data check and of the answer, under "warnings"; nothing without any."""
    found = list(problem.provenance.get("warnings", ()))
    if findings := findings_of(problem, tree):
        from jtsolve.tables.check import plain_finding

        found += map(plain_finding, findings)
    return {"warnings": found} if found else {}


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of `auto`: the backend, its predicted cost, the reason, and why others were not chosen."""

    backend: Backend
    estimate: Estimate
    reason: str
    refusals: tuple[str, ...] = ()


def forecast_of(problem: Problem, run: Run) -> float | None:
    """Returns the seconds of a proof by `clutter`, after its first ascent; None if its sets are too many."""
    problem, clutter = problem.with_star(), cast("Any", REGISTRY.get("clutter"))
    if clutter is None or objections_of(clutter, problem):
        return None
    from jtsolve.families.families import predicted_sets  # not loaded where a backend is named

    fits = estimate_of(clutter, problem, run.limits).memory <= run.memory
    if not fits or predicted_sets(problem) > _FORECAST_SETS:
        return None
    try:
        part = run.part(min(_FORECAST_SECONDS, run.left / 4), silent=True)
        seconds: float = clutter.forecast(problem, part.limits, Recorder(problem, part))
    except StoppedError:
        return None
    return seconds


def choose_backend(problem: Problem, run: Run, *, search: bool = True) -> Choice:
    """Returns the backend that `auto` selects.

    This is the fastest exact backend that accepts the problem with predicted memory and time within limits,
    if its time is predictable. Otherwise a search runs beside the proof: it is a heuristic, which may prove,
    as the portfolio does: one with enough threads, then of the highest rank, then of the least
    predicted time, which may exceed the limit, since heuristics return the best tree so far.

    The times of all but `clutter` follow from sizes. Where another exact backend would take longer than a
    first ascent, the families that this leaves predict the time of `clutter`.

    Args:
        problem: the problem to solve.
        run: its limits of time, memory and threads.
        search: whether a heuristic may replace an exact backend without a predictable time.

    Raises:
        LimitError: no backend accepts the problem within the limits; with every backend's reason.
    """
    problem, limits, time_left = problem.with_star(), run.limits, run.left
    estimates, refusals = _estimates(problem, limits)
    fitting: list[tuple[bool, bool, int, float, Backend, Estimate]] = []
    proofs = [
        estimate.seconds
        for name, estimate in estimates.items()
        if (can := REGISTRY[name].capabilities).exact and can.predictable
        if estimate.memory <= limits.memory_bytes
    ]
    sure = min(proofs, default=inf)  # the least time of a proof that is predictable
    if search and _WORTH_A_FORECAST < sure <= time_left:
        if (forecast := forecast_of(problem, run)) is not None:
            estimates["clutter"] = replace(estimates["clutter"], seconds=forecast)
        time_left = run.left
    for name, estimate in estimates.items():
        backend = REGISTRY[name]
        if (obstacle := obstacle_to(backend, estimate, limits, time_left)) is not None:
            refusals.append(f"{name}: {obstacle}")
        else:
            heuristic = not backend.capabilities.exact
            rank = backend.capabilities.rank if heuristic else 0
            if heuristic and backend.capabilities.searches_wide and _is_wide_on_demand(problem):
                rank = _FIRST
            cramped = heuristic and limits.workers < backend.capabilities.threads
            fitting.append((heuristic, cramped, -rank, estimate.seconds, backend, estimate))
    if not fitting:
        raise LimitError(
            f"no backend accepts this problem within the limits: {' '.join(refusals)} "
            f"Ways out: a larger {MEMORY}, a smaller {TREEWIDTH}."
        )
    ordered = sorted(fitting, key=lambda entry: entry[:4])
    guess = not ordered[0][0] and not ordered[0][4].capabilities.predictable
    if guess and search:
        refusals.append(f"{ordered[0][4].name}: Its time is a guess, so a search runs beside it.")
        ordered = [entry for entry in ordered if entry[0]] or ordered
    heuristic, _, _, seconds, backend, estimate = ordered[0]
    if heuristic:
        on = "1 thread" if limits.workers == 1 else f"{limits.workers} threads"
        reason = (
            f"auto chose '{backend.name}', which searches on {on}, since no exact backend is sure to end "
            "within the limits."
        )
    else:
        reason = (
            f"auto chose '{backend.name}', the exact backend with the least predicted time "
            f"({seconds:.2g} s, {estimate.memory / 1e9:.2g} GB)."
        )
    return Choice(backend, estimate, reason, tuple(refusals))


def obstacle_to(backend: Backend, estimate: Estimate, limits: Limits, left: float) -> str | None:
    """Returns why a backend will not finish within the limits, in a sentence; None if it is predicted to.

    Args:
        backend: a heuristic always finishes in time.
        estimate: its predicted cost.
        limits: of memory.
        left: seconds.
    """
    if estimate.memory > limits.memory_bytes:
        most = limits.memory_bytes / 1e9
        return f"It would need {estimate.memory / 1e9:.3g} GB, above the limit of {most:.3g} GB."
    if backend.capabilities.exact and estimate.seconds == inf:
        return "No proof is expected."
    if not backend.capabilities.exact or estimate.seconds <= left:
        return None
    return f"It would take about {estimate.seconds:.3g} s to prove its answer; {left:.3g} s are left."


def _is_wide_on_demand(problem: Problem) -> bool:
    """Returns whether cliques of five or more are scored on demand, too many for a table or a proof."""
    from jtsolve.core.pruning import MOST_VARIABLES
    from jtsolve.families.families import predicted_sets  # not loaded where a backend is named

    if isinstance(problem.scores, DenseScores | SparseScores) or problem.n <= MOST_VARIABLES:
        return False
    return problem.max_clique_size >= _WIDE and predicted_sets(problem) > MOST_COMPUTED


def _estimates(problem: Problem, limits: Limits) -> tuple[dict[str, Estimate], list[str]]:
    """Returns the estimates of backends that accept a problem, by name, and the objections of the others."""
    estimates, refusals = {}, []
    with cached_estimates():
        for name, backend in REGISTRY.items():
            if objections := objections_of(backend, problem):
                refusals.append(f"{name}: {' '.join(objections)}")
            else:
                estimates[name] = estimate_of(backend, problem, limits)
    return estimates, refusals


def backend_options(backend: Backend) -> dict[str, Any]:
    """Returns a backend's options as JSON values; a nested backend is an object with its name.

    These are its fields, except data that it holds, which `repr` omits too.
    """
    if not is_dataclass(backend):
        return {}

    def plain(value: Any) -> Any:
        if is_dataclass(value) and hasattr(value, "capabilities"):
            inner: Any = value
            return {"name": inner.name, **backend_options(inner)}
        return tuple(map(plain, value)) if isinstance(value, tuple) else value

    return {entry.name: plain(getattr(backend, entry.name)) for entry in fields(backend) if entry.repr}
