"""Candidate pruning for junction trees: drops sets that are in no tree as good as the incumbent.

Claim. Let L be the score of some tree of the problem, or less. A set A that is complete (a clique, a
separator, or a part of one) in some tree T with score(T) ≥ L has s(A) + B(A) ≥ L, where B(U) is the best
completion of a Bayesian network when the set U is placed first:

    B(V) = 0,    B(U) = max_{v∉U} [ max_{P⊆U} w(v,P) + B(U∪v) ],    w(v,P) = s(P∪v) − s(P).

Proof. A is complete in the chordal graph of T, which therefore has a perfect order (the reverse of a perfect
elimination order) that begins with A: maximum cardinality search may visit any complete set first (Blair and
Peyton 1993). Along it score(T) = Σ_v w(v,P_v), where P_v, the earlier neighbours of v, and P_v∪v are
complete. Over A the sum is s(A), since it telescopes; over the others, each with P_v among the vertices
before it, it is one of those that B(A) maximises. ∎

So if s(A) + B(A) < L, no tree that scores at least L has A complete, and A is dropped. No superset of A has a
larger bound, since s(A∪v) = s(A) + w(v,A): the supersets go with it, and the sets kept are closed downwards.
B then needs only the families P∪v that are kept, since all complete sets of a tree that scores at least L
are; fewer families lower B, and the step is repeated until it drops hardly any.

Sets without a score are neither cliques nor separators, but may lie within a clique. The sum over a perfect
order is Σ s(C) − Σ s(S) for *every* function s of sets, so that it does not depend on the values of sets that
are neither: they get the sum of the variables' own scores, and are bounded and dropped like all others. A set
within no possible clique is complete in no tree, with or without a score.

Constraints only remove trees, so that the claim holds for those left; sizes, forbidden edges and forbidden
cliques limit the possible cliques from the start.

Pruning as for Bayesian networks (drop a parent set that a subset beats) is *not* valid here: docs/scores.md.

Time: n²·2^n per round, few rounds; memory: (n + 12)·2^n numbers and the table.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from math import inf, isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.machine import free_memory
from jtsolve.core.permitted import Masks, permitted_cliques
from jtsolve.core.scores import UNSTOPPABLE, SparseScores, Stoppable, StoppedError, colex_table
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.errors import InputError, LimitError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem

MOST_VARIABLES = 26
"""With more, a round takes minutes and over 20 GB."""

_TIE = 1e-6
"""Nats by which the incumbent's score may be rounded up: scores this close count as equal."""
_BYTES_A_SET = 200
"""Bytes of a set and its score in the pruned table, and during look-up."""
_SHARE_OF_MEMORY = 0.8
_FEW = 0.01
"""Share of the sets: a round that drops fewer is the last. With 22 variables, a round takes 3.5 s."""


class Pruned(NamedTuple):
    """A problem without sets that are in no tree as good as an incumbent, and the number of rounds."""

    problem: Problem
    rounds: int


def predicted_memory(problem: Problem) -> int:
    """Returns an upper bound on the bytes that `prune` needs besides the problem."""
    tables = 8 * (problem.n + 12) << problem.n
    return tables + _BYTES_A_SET * count_bounded_subsets(problem.n, problem.max_clique_size)


def prune(problem: Problem, incumbent_score: float, report: Stoppable = UNSTOPPABLE) -> Pruned:
    """Returns the problem without the sets that are in no tree as good as the incumbent.

    Every tree of the problem that scores at least `incumbent_score` is a tree of the pruned problem, with the
    same score. So all optimal trees stay if some tree attains that score. This holds under the constraints
    of the problem, and under tighter ones.

    Args:
        problem: at most `MOST_VARIABLES` variables; with or without a score for every set.
        incumbent_score: nats; at most the score of some tree of the problem, up to 10⁻⁶.
        report: polled many times in each round.

    Returns:
        The problem with sparse scores, and `pruned_below`, the incumbent's score, in its provenance.

    Raises:
        InputError: the score is not finite, or provably above every tree's.
        LimitError: too many variables or too little memory; raised before any work.
        StoppedError: the work has to stop.

    >>> from jtsolve.core.problem import Problem, Variable
    >>> from jtsolve.core.scores import DenseScores
    >>> scores = DenseScores(3, 3, np.array([0.0, -5.0, -5.0, -7.0, -5.0, -12.0, -12.0, -15.0]))
    >>> pruned = prune(Problem((Variable("A"), Variable("B"), Variable("C")), scores), -12.0)  # A - B and C
    >>> sorted(pruned.problem.scores.table)
    [0, 1, 2, 3, 4]
    """
    if not isfinite(incumbent_score):
        reason = f"{incumbent_score} is not a finite number"
        raise InputError("pruning", "incumbent_score", reason, "give the score of a known tree")
    _require_room(problem)
    n = problem.n
    scores = _score_table(problem)
    filled = _filled(scores, n)
    candidates = (scores > -inf) & permitted_cliques(problem, Masks(np.arange(1 << n)))
    least = incumbent_score - _TIE - _rounding(problem)
    kept = candidates.copy()
    _close_downwards(kept, n)
    before, count, rounds = 1 << 62, int(kept.sum()), 0
    while before - count > _FEW * count:
        before, rounds = count, rounds + 1
        kept &= filled + best_completions(filled, kept, n, report) >= least
        if not kept[0]:
            reason = f"no tree of the problem scores {incumbent_score:.10g}"
            remedy = "give the score of a tree of this problem, under its constraints"
            raise InputError("pruning", "incumbent_score", reason, remedy)
        candidates &= kept  # sets without a score go with the last clique that contains them
        kept = candidates.copy()
        _close_downwards(kept, n)
        count = int(kept.sum())
    sets = np.flatnonzero(kept & (scores > -inf))
    table = dict(zip(sets.tolist(), scores[sets].tolist(), strict=True))
    provenance = MappingProxyType({**problem.provenance, "pruned_below": incumbent_score})
    return Pruned(replace(problem, scores=SparseScores(n, table), provenance=provenance), rounds)


def best_completions(
    filled: NDArray[np.float64], kept: NDArray[np.bool_], n: int, report: Stoppable = UNSTOPPABLE
) -> NDArray[np.float64]:
    """Returns B(U) = max_{v∉U} [max_{P⊆U} w(v,P) + B(U∪v)] over the kept families P∪v; B(V) = 0.

    Args:
        filled: shape (2^n,), indexed by bit mask: a finite score for every kept set, in nats.
        kept: shape (2^n,), closed downwards.
        n: the number of variables.
        report: polled for each variable and each size of sets.

    Returns:
        Shape (2^n,), in nats; -inf where some variable has no family left.

    Raises:
        StoppedError: the work has to stop.
    """
    gains = _best_gains(filled, kept, n, report)
    sizes = np.bitwise_count(np.arange(1 << n))
    by_size = np.argsort(sizes, kind="stable")
    layers = np.split(by_size, np.cumsum(np.bincount(sizes))[:-1])
    best = np.full(1 << n, -inf)
    best[-1] = 0.0
    for layer in reversed(layers[:-1]):
        if report.stop is not None:
            raise StoppedError
        reached = np.full(layer.size, -inf)
        for v in range(n):  # a gain is -inf where v is in U
            np.maximum(reached, gains[v][layer] + best[layer | 1 << v], out=reached)
        best[layer] = reached
    return best


def _best_gains(
    filled: NDArray[np.float64], kept: NDArray[np.bool_], n: int, report: Stoppable
) -> NDArray[np.float64]:
    """Returns max_{P⊆U} w(v,P) over the kept families, shape (n, 2^n), at [v, U]; -inf if v is in U."""
    gains = np.full((n, 1 << n), -inf)
    sets = np.flatnonzero(kept)
    for v in range(n):
        if report.stop is not None:
            raise StoppedError
        families = sets[sets >> v & 1 == 1]
        parents = families ^ 1 << v
        gains[v, parents] = filled[families] - filled[parents]
        for u in range(n):
            if u != v:
                without, with_u = _halves(gains[v], u)
                np.maximum(with_u, without, out=with_u)
    return gains


def _score_table(problem: Problem) -> NDArray[np.float64]:
    """Returns s at every bit mask, shape (2^n,); -inf for sets without a score or larger than a clique."""
    sizes = np.bitwise_count(np.arange(1 << problem.n))
    table = np.full(1 << problem.n, -inf)
    # Increasing masks are in colex order.
    table[sizes <= problem.max_clique_size] = colex_table(problem.scores, problem.max_clique_size)
    return table


def _filled(scores: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Returns the scores; without one, the sum of the variables' own (0 for one that has none)."""
    alone = np.zeros(1 << n)
    for v in range(n):
        own = float(scores[1 << v])
        _, with_v = _halves(alone, v)
        with_v += own if own > -inf else 0.0
    return np.where(scores > -inf, scores, alone)


def _close_downwards(sets: NDArray[np.bool_], n: int) -> None:
    """Adds all subsets, in place."""
    for v in range(n):
        without, with_v = _halves(sets, v)
        without |= with_v


def _halves(table: NDArray[Any], v: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns aligned views of the entries for the sets without v and for the same sets with v."""
    pairs = table.reshape(-1, 2, 1 << v)
    return pairs[:, 0], pairs[:, 1]


def _rounding(problem: Problem) -> float:
    """Returns more nats than rounding can subtract from a bound or add to the incumbent's score.

    A filled score sums at most `width` scores, and B at most 2n of those. Each of its n gains and n additions
    rounds by half an epsilon of the result.
    """
    largest = max(map(abs, problem.scores.extremes()))
    return 4 * problem.n**2 * problem.max_clique_size * sys.float_info.epsilon * largest


def _require_room(problem: Problem) -> None:
    """Refuses problems with too many variables or too large for the free memory."""
    if problem.n > MOST_VARIABLES:
        raise LimitError(
            f"pruning supports at most {MOST_VARIABLES} variables, since it visits all their subsets; "
            f"this problem has {problem.n}. Solve it without pruning."
        )
    needed, room = predicted_memory(problem), int(_SHARE_OF_MEMORY * free_memory())
    if needed > room:
        raise LimitError(
            f"pruning {problem.n} variables needs {needed / 1e9:.3g} GB, but {room / 1e9:.3g} GB are free "
            "for it. Free memory, or solve the problem without pruning."
        )
