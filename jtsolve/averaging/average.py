"""The one verb: from a problem to the posterior over its decomposable graphs."""

from __future__ import annotations

from collections import Counter
from math import exp, inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.averaging.chains import Ladder, run_chains
from jtsolve.averaging.draws import arrange, draw_graphs
from jtsolve.averaging.features import features_of
from jtsolve.averaging.junction_trees import trees_of
from jtsolve.averaging.posterior import ROUNDING, GraphPosterior
from jtsolve.averaging.running import best_tree, ended, first_tree, is_exact, require_room
from jtsolve.averaging.sums import compute
from jtsolve.averaging.weights import GRAPHS, ROOTED, weights_of
from jtsolve.core.machine import describe
from jtsolve.core.run import Run
from jtsolve.core.scores import StoppedError
from jtsolve.errors import ChoiceError, InternalError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.averaging.features import Features
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet

THRESHOLD = 0.01
"""Cliques and separators below it are not listed."""

MARGINAL_LIKELIHOODS = ("bdeu", "bdj", "bge")
"""Scores that are logarithms of marginal likelihoods."""


def average(
    problem: Problem,
    *,
    method: str = "auto",
    run: Run | None = None,
    edge_odds: float = 1.0,
    threshold: float = THRESHOLD,
    treewidths: bool = False,
    draws: int = 0,
    ladder: Ladder | None = None,
    prior: str = GRAPHS,
) -> GraphPosterior | None:
    """Averages over all decomposable graphs that meet the constraints, each weighted by e^score · odds^edges.

    Args:
        problem: scores and constraints.
        method: "exact" sums; "chains"; "auto": exact where the problem and the memory allow it, else chains.
        run: limits and seed, progress and interruption; None for the defaults.
        edge_odds: prior odds of an edge against none; 1 makes all graphs equally likely.
        threshold: the least probability of the cliques, and the least expectation of the separators, to list.
        treewidths: also the posterior of the treewidth; of exact sums, by one more sum for each.
        draws: exact draws that give a posterior of the number of edges, which exact sums do not, and one of
            the treewidth unless it is summed, each with its Monte Carlo error. Chains have both in any case.
        ladder: how chains run; None for the defaults.
        prior: "graphs": each counts once; "rooted-junction-trees": once for each of its junction trees with
            each of their cliques as the root, for exact sums without draws.

    Returns:
        The posterior, or None if no graph meets the constraints. Chains may not have converged: it says so.

    Raises:
        ChoiceError: the method, the prior, the odds or the threshold make no sense.
        RefusedError: the problem asks for what the method does not support; with every reason.
        LimitError: the tables or draws need more memory than allowed, or the time ended before any result.
        KeyboardInterrupt: a signal came before any result.
    """
    if not 0 <= threshold <= 1:
        raise ChoiceError(f"the threshold is {threshold}; give a probability, from 0 to 1")
    if not 0 < edge_odds < inf:
        raise ChoiceError(f"the odds of an edge are {edge_odds}; give a finite number above 0")
    if draws < 0:
        raise ChoiceError(f"{draws} draws cannot be made; give a number of 0 or more")
    if draws and prior == ROOTED:
        raise ChoiceError(f"draws count each graph once, not as the prior over {prior}; leave one out")
    run = run or Run()
    require_room(draws, problem.n, run.limits)
    query = _Query(problem, run, edge_odds, prior, threshold, treewidths, draws)
    with run.interruptible():
        try:
            if is_exact(problem, method, run.limits, prior, drawn=draws > 0):
                parts = _by_sums(query)
                best = None if parts is None else best_tree(problem, run)
            else:
                best = first_tree(problem, run)
                parts = _by_chains(query, ladder or Ladder(), best)
        except StoppedError:
            raise ended(run) from None
    if parts is None:
        return None
    if (remark := remark_on_scores(problem)) is not None:
        parts["diagnostics"]["remark"] = remark
    parts["seconds"]["total"] = run.elapsed
    return GraphPosterior(
        instance=problem.name,
        digest=problem.digest(),
        names=problem.names,
        threshold=threshold,
        prior={"over": prior, "edge_odds": edge_odds},
        best=best,
        environment=describe(run.threads),
        **parts,
    )


class _Query(NamedTuple):
    """The options of an average."""

    problem: Problem
    run: Run
    edge_odds: float
    prior: str
    threshold: float
    treewidths: bool
    draws: int


def _by_sums(query: _Query) -> dict[str, Any] | None:
    """Returns the fields of the posterior, or None if no graph meets the constraints."""
    problem, run = query.problem, query.run
    weights = weights_of(problem, query.edge_odds, query.prior)
    sums = compute(weights, run, drawn=query.draws > 0)
    log_total, rounding, seconds = sums.log_total, sums.precision, dict(sums.seconds)
    if log_total == -inf:
        return None
    began = run.elapsed
    features = features_of(sums, run)
    seconds["features"] = run.elapsed - began
    graphs = None
    if query.draws:
        graphs = draw_graphs(arrange(sums, run), query.draws, run)
    del sums  # gigabytes
    _require_identity(features)
    diagnostics: dict[str, Any] = {"rounding": rounding, "expected_cliques": float(features.clique.sum())}
    if graphs is not None:
        edges = np.bitwise_count(graphs).sum(axis=1, dtype=np.int64) // 2
        diagnostics |= _shares("edges_in_graph", edges, query.draws)
        widths = np.array([tree.treewidth for tree in trees_of(map(tuple, graphs.tolist()))])
        diagnostics |= _shares("treewidth", widths, query.draws)
    if query.treewidths:
        diagnostics.pop("treewidth_errors", None)
        diagnostics["treewidth"] = _treewidths(query, log_total)
    return {
        "log_evidence": log_total,
        "edges": features.edges(problem.n),
        "cliques": features.listed(features.clique, query.threshold),
        "separators": features.listed(features.separator, query.threshold),
        "connected": features.connected,
        "method": "exact",
        "diagnostics": diagnostics,
        "seconds": seconds,
    }


def _by_chains(query: _Query, ladder: Ladder, start: JunctionTree | None) -> dict[str, Any]:
    """Returns the fields of the posterior."""
    began = query.run.elapsed
    sample = run_chains(query.problem, query.edge_odds, query.run, ladder=ladder, start=start)
    trees = sample.trees()
    cliques = Counter(clique for tree in trees for clique in tree.cliques)
    separators = Counter(separator for tree in trees for separator in tree.separators)
    diagnostics = dict(sample.diagnostics)
    diagnostics["expected_cliques"] = sum(cliques.values()) / len(trees)
    diagnostics |= _shares("edges_in_graph", sample.sizes, sample.diagnostics["effective_sample_size"])
    independent = min(float(len(trees)), sample.diagnostics["effective_sample_size"])
    diagnostics |= _shares("treewidth", np.array([tree.treewidth for tree in trees]), independent)
    edges = sample.edges()

    def listed(counts: Counter[VarSet]) -> tuple[tuple[VarSet, float], ...]:
        shares = [(mask, count / len(trees)) for mask, count in counts.items()]
        chosen = [pair for pair in shares if pair[1] >= query.threshold]
        return tuple(sorted(chosen, key=lambda pair: (-pair[1], pair[0])))

    return {
        "log_evidence": None,
        "edges": edges,
        "cliques": listed(cliques),
        "separators": listed(separators),
        "connected": sum(0 not in tree.separators for tree in trees) / len(trees),
        "method": "chains",
        "converged": sample.converged,
        "traces": sample.traces(),
        "diagnostics": diagnostics,
        "seconds": {"chains": query.run.elapsed - began},
    }


def _shares(name: str, values: NDArray[np.int64], independent: float) -> dict[str, Any]:
    """Returns the shares of the values 0, 1, …, and their errors for a number of independent draws."""
    shares = np.bincount(values.ravel()) / values.size
    errors = np.sqrt(shares * (1 - shares) / independent)
    return {name: shares.tolist(), f"{name}_errors": errors.tolist()}


def remark_on_scores(problem: Problem) -> str | None:
    """Returns a warning if the scores are known not to be log marginal likelihoods."""
    score = problem.provenance.get("score")
    if not isinstance(score, str) or score in MARGINAL_LIKELIHOODS:
        return None
    return (
        f"the score {score} is not a log marginal likelihood: e^{score} is averaged in its place, and the "
        "probabilities are approximations"
    )


def _require_identity(features: Features) -> None:
    """Raises InternalError unless the expected number of cliques is one more than that of separators."""
    surplus = float(features.clique.sum() - features.separator.sum())
    if not abs(surplus - 1.0) <= ROUNDING:
        raise InternalError(f"expected cliques exceed expected separators by {surplus}, which has to be 1")


def _treewidths(query: _Query, log_total: float) -> list[float]:
    """Returns P(treewidth = k), k = 0, 1, …: differences of sums with a bound."""
    below = 0.0
    found = []
    for width in range(1, query.problem.max_clique_size):
        weights = weights_of(query.problem.with_treewidth(width - 1), query.edge_odds, query.prior)
        upto = exp(min(0.0, compute(weights, query.run).log_total - log_total))
        found.append(max(0.0, upto - below))
        below = upto
    return [*found, max(0.0, 1.0 - below)]
