"""The one verb: from a problem to the posterior over its decomposable graphs."""

from __future__ import annotations

from math import exp, inf
from typing import TYPE_CHECKING, Any

from jtsolve.averaging.features import features_of
from jtsolve.averaging.posterior import ROUNDING, GraphPosterior
from jtsolve.averaging.sums import StoppedError, compute
from jtsolve.averaging.weights import require_exact, weights_of
from jtsolve.core.backend import Limits
from jtsolve.core.machine import describe
from jtsolve.core.result import Stop
from jtsolve.errors import ChoiceError, InternalError, LimitError
from jtsolve.solve import Recorder, choose, interruptible, verified

if TYPE_CHECKING:
    from jtsolve.averaging.features import Features
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree
    from jtsolve.solve import Listener

THRESHOLD = 0.01
"""Cliques and separators below it are not listed."""

MARGINAL_LIKELIHOODS = ("bdeu", "bdj", "bge")
"""Scores that are logarithms of marginal likelihoods."""


def average(
    problem: Problem,
    *,
    limits: Limits | None = None,
    listener: Listener | None = None,
    edge_odds: float = 1.0,
    threshold: float = THRESHOLD,
    treewidths: bool = False,
) -> GraphPosterior | None:
    """Averages over all decomposable graphs that meet the constraints, each weighted by e^score · odds^edges.

    Args:
        problem: scores and constraints.
        limits: time, memory and threads; None for the defaults.
        listener: is told of progress.
        edge_odds: prior odds of an edge against none; 1 makes all graphs equally likely.
        threshold: the least probability of the cliques, and the least expectation of the separators, to list.
        treewidths: also the posterior of the treewidth, by one more sum for each.

    Returns:
        The posterior, or None if no graph meets the constraints.

    Raises:
        ChoiceError: the odds or the threshold make no sense.
        RefusedError: the problem asks for what the sums do not support; with every reason.
        LimitError: the tables need more memory than allowed, or the time limit came first.
        KeyboardInterrupt: Ctrl-C or SIGTERM came first.
    """
    if not 0 <= threshold <= 1:
        raise ChoiceError(f"the threshold is {threshold}; give a probability, from 0 to 1")
    limits = limits or Limits()
    require_exact(problem)
    weights = weights_of(problem, edge_odds)
    with interruptible() as interruption:
        recorder = Recorder(problem, limits, listener, interruption)
        try:
            sums = compute(weights, limits, recorder)
            if sums.log_total == -inf:
                return None
            began = limits.elapsed
            features = features_of(sums, limits, recorder)
            seconds = {**sums.seconds, "features": limits.elapsed - began}
            log_total, rounding = sums.log_total, sums.precision
            del sums  # gigabytes
            _require_identity(features)
            diagnostics: dict[str, Any] = {
                "rounding": rounding,
                "expected_cliques": float(features.clique.sum()),
            }
            if treewidths:
                diagnostics["treewidth"] = _treewidths(problem, edge_odds, limits, recorder, log_total)
        except StoppedError:
            raise _ended(recorder) from None
        best = _best(problem, limits, Recorder(problem, limits, listener, interruption))
    if (remark := remark_on_scores(problem)) is not None:
        diagnostics["remark"] = remark
    return GraphPosterior(
        instance=problem.name,
        digest=problem.digest(),
        names=problem.names,
        log_evidence=log_total,
        edges=features.edges(problem.n),
        cliques=features.listed(features.clique, threshold),
        separators=features.listed(features.separator, threshold),
        connected=features.connected,
        method="exact",
        threshold=threshold,
        prior=prior_of(edge_odds),
        best=best,
        diagnostics=diagnostics,
        seconds={**seconds, "total": limits.elapsed},
        environment=describe(limits.workers),
    )


def prior_of(edge_odds: float) -> dict[str, Any]:
    """Returns the prior over graphs as JSON values."""
    return {"over": "graphs", "edge_odds": edge_odds}


def remark_on_scores(problem: Problem) -> str | None:
    """Returns a warning if the scores are known not to be log marginal likelihoods."""
    score = problem.provenance.get("score")
    if not isinstance(score, str) or score in MARGINAL_LIKELIHOODS:
        return None
    return (
        f"the score {score} is no log marginal likelihood: e^{score} is averaged in its place, and the "
        "probabilities are approximations"
    )


def _require_identity(features: Features) -> None:
    """Raises InternalError unless the expected number of cliques is one more than that of separators."""
    surplus = float(features.clique.sum() - features.separator.sum())
    if not abs(surplus - 1.0) <= ROUNDING:
        raise InternalError(f"expected cliques exceed expected separators by {surplus}, which has to be 1")


def _treewidths(
    problem: Problem, edge_odds: float, limits: Limits, recorder: Recorder, log_total: float
) -> list[float]:
    """Returns P(treewidth = k), k = 0, 1, …: differences of sums with a bound."""
    below = 0.0
    found = []
    for width in range(1, problem.max_clique_size):
        weights = weights_of(problem.with_treewidth(width - 1), edge_odds)
        upto = exp(min(0.0, compute(weights, limits, recorder).log_total - log_total))
        found.append(max(0.0, upto - below))
        below = upto
    return [*found, max(0.0, 1.0 - below)]


def _best(problem: Problem, limits: Limits, recorder: Recorder) -> JunctionTree | None:
    """Returns the tree of the highest score that `auto` finds within the limits, or None."""
    try:
        backend = choose(problem, limits).backend
        return verified(problem, backend, limits, recorder).tree
    except LimitError:
        return None


def _ended(recorder: Recorder) -> Exception | KeyboardInterrupt:
    """Returns what to raise where the sums were ended: half of them say nothing."""
    if recorder.stop is Stop.INTERRUPTED:
        return KeyboardInterrupt()
    return LimitError(
        "the time limit ended the exact sums, and half of them say nothing. Ways out: more time, a smaller "
        "treewidth, or --method chains."
    )
