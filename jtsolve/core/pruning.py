"""Candidate pruning that is valid for junction trees: drops sets that are in no tree worth the incumbent.

Claim. Let L be the score of some tree of the problem, or less. A set A that is complete (a clique, a
separator, or a part of one) in some tree T with score(T) ≥ L has s(A) + B(A) ≥ L, where B(U) is the best
completion of a Bayesian network when the set U is placed first:

    B(V) = 0,    B(U) = max_{v∉U} [ max_{P⊆U} w(v,P) + B(U∪v) ],    w(v,P) = s(P∪v) − s(P).

Proof. A is complete in the chordal graph of T, which therefore has a perfect order (the reverse of a perfect
elimination order) that begins with A: maximum cardinality search may visit any complete set first (Blair and
Peyton 1993). Along it score(T) = Σ_v w(v,P_v), where P_v, the earlier neighbours of v, and P_v∪v are
complete. Over A the sum is s(A), since it telescopes; over the others, each with P_v among the vertices
before it, it is one of the sums that B(A) is the maximum of. ∎

So if s(A) + B(A) < L, no tree worth L or more has A complete, and A is dropped. No superset of A has a
larger bound, since s(A∪v) = s(A) + w(v,A): the supersets go with it, and the sets that are kept are closed
downwards. Then B needs only the families P∪v that are kept, for all complete sets of a tree worth L are;
fewer families lower B, and the step is repeated until it drops nothing.

Sets without a score. They are neither cliques nor separators, but may lie within a clique. The sum over a
perfect order is Σ s(C) − Σ s(S) for *every* function s of sets, so that it does not depend on the values of
sets that are neither: any value will do, here the sum of the variables' own scores. They are bounded and
dropped as all sets are; and a set that is within no possible clique is complete in no tree, with or without a
score.

Constraints. They only remove trees, so that the claim holds for those that are left; sizes, forbidden edges
and forbidden cliques bound the possible cliques from the start.

Pruning as for Bayesian networks (drop a parent set that a subset beats) is *not* valid here: see
docs/scores.md.

Time: n²·2^n a round, few rounds; memory: (n + 12)·2^n numbers and the table.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from math import inf, isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.machine import free_memory
from jtsolve.core.scores import SparseScores, colex_table
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.errors import InputError, LimitError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem

MOST_VARIABLES = 26
"""Beyond it a round takes minutes, and the memory exceeds 20 GB."""

_TIE = 1e-6
"""Nats by which the incumbent may be rounded up: scores that are no farther apart count as equal."""
_BYTES_A_SET = 200
"""Bytes of a set and its score in the table of the pruned problem, and while scores are looked up."""
_SHARE_OF_MEMORY = 0.8


def predicted_memory(problem: Problem) -> int:
    """Returns the bytes that `prune` needs beside the problem, at the most."""
    tables = 8 * (problem.n + 12) << problem.n
    return tables + _BYTES_A_SET * count_bounded_subsets(problem.n, problem.max_clique_size)


def prune(problem: Problem, incumbent_score: float) -> Problem:
    """Returns the problem without the sets that are in no tree worth the incumbent's score.

    Every tree of the problem that scores `incumbent_score` or more is a tree of the pruned problem, with the
    same score: the optimum and all optimal trees stay, if the score is that of a tree, or less. It is valid
    under the constraints of the problem, and under tighter ones.

    Args:
        problem: at most `MOST_VARIABLES` variables; with or without a score for every set.
        incumbent_score: nats; the score of a tree of the problem, or less. It may be rounded up by 10⁻⁶.

    Returns:
        The same variables and constraints; sparse scores; the incumbent's score in the provenance.

    Raises:
        InputError: the score is not finite, or provably more than any tree's.
        LimitError: there are too many variables, or too little memory; raised before the work begins.

    >>> from jtsolve.core.problem import Problem, Variable
    >>> from jtsolve.core.scores import DenseScores
    >>> scores = DenseScores(3, 3, np.array([0.0, -5.0, -5.0, -7.0, -5.0, -12.0, -12.0, -15.0]))
    >>> pruned = prune(Problem((Variable("A"), Variable("B"), Variable("C")), scores), -12.0)  # A - B and C
    >>> sorted(pruned.scores.table)
    [0, 1, 2, 3, 4]
    """
    if not isfinite(incumbent_score):
        raise InputError(
            "pruning",
            "incumbent_score",
            f"{incumbent_score} is not a finite number",
            "give the score of a tree that is known",
        )
    _require_room(problem)
    n = problem.n
    scores = _score_table(problem)
    filled = _filled(scores, n)
    candidates = _possible_cliques(problem, scores)
    least = incumbent_score - _TIE - _rounding(problem)
    kept = candidates.copy()
    _close_downwards(kept, n)
    before = -1
    while (count := int(kept.sum())) != before:
        before = count
        kept &= filled + best_completions(filled, kept, n) >= least
        if not kept[0]:
            raise InputError(
                "pruning",
                "incumbent_score",
                f"no tree of the problem scores {incumbent_score:.10g}",
                "give the score of a tree of this problem, under its constraints",
            )
        candidates &= kept  # sets without a score go with the last clique that holds them
        kept = candidates.copy()
        _close_downwards(kept, n)
    sets = np.flatnonzero(kept & (scores > -inf))
    table = dict(zip(sets.tolist(), scores[sets].tolist(), strict=True))
    provenance = MappingProxyType({**problem.provenance, "pruned_below": incumbent_score})
    return replace(problem, scores=SparseScores(n, table), provenance=provenance)


def best_completions(filled: NDArray[np.float64], kept: NDArray[np.bool_], n: int) -> NDArray[np.float64]:
    """Returns B(U) = max_{v∉U} [max_{P⊆U} w(v,P) + B(U∪v)] over the families P∪v that are kept; B(V) = 0.

    Args:
        filled: shape (2^n,), indexed by bit mask: a finite score for every kept set, in nats.
        kept: shape (2^n,), closed downwards.
        n: the number of variables.

    Returns:
        Shape (2^n,), in nats; -inf where some variable has no family left.
    """
    gains = _best_gains(filled, kept, n)
    sizes = np.bitwise_count(np.arange(1 << n))
    by_size = np.argsort(sizes, kind="stable")
    layers = np.split(by_size, np.cumsum(np.bincount(sizes))[:-1])
    best = np.full(1 << n, -inf)
    best[-1] = 0.0
    for layer in reversed(layers[:-1]):
        reached = np.full(layer.size, -inf)
        for v in range(n):  # a gain is -inf where v is in U
            np.maximum(reached, gains[v][layer] + best[layer | 1 << v], out=reached)
        best[layer] = reached
    return best


def _best_gains(filled: NDArray[np.float64], kept: NDArray[np.bool_], n: int) -> NDArray[np.float64]:
    """Returns max_{P⊆U} w(v,P) over the kept families, shape (n, 2^n), at [v, U]; -inf if v is in U."""
    gains = np.full((n, 1 << n), -inf)
    sets = np.flatnonzero(kept)
    for v in range(n):
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
    """Returns the scores, and where there is none the sum of the variables' own, 0 for one that has none."""
    alone = np.zeros(1 << n)
    for v in range(n):
        own = float(scores[1 << v])
        _, with_v = _halves(alone, v)
        with_v += own if own > -inf else 0.0
    return np.where(scores > -inf, scores, alone)


def _possible_cliques(problem: Problem, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tells of every set whether `Problem.permits_clique`; shape (2^n,)."""
    possible = scores > -inf
    possible[0] = False
    masks = np.arange(1 << problem.n)
    for edge in problem.constraints.forbidden_edges:
        possible &= masks & edge != edge
    possible[list(problem.constraints.forbidden_cliques)] = False
    return possible


def _close_downwards(sets: NDArray[np.bool_], n: int) -> None:
    """Adds every subset of a set that is there, in place."""
    for v in range(n):
        without, with_v = _halves(sets, v)
        without |= with_v


def _halves(table: NDArray[Any], v: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns views of the entries for the sets without v, and for the same sets with v, aligned."""
    pairs = table.reshape(-1, 2, 1 << v)
    return pairs[:, 0], pairs[:, 1]


def _rounding(problem: Problem) -> float:
    """Returns more nats than rounding can take from a bound, or add to the incumbent's score.

    A filled score is at most `width` scores, B at most 2n of those. Each of the n gains of a sum, and each of
    its n additions, rounds by half an epsilon of the result.
    """
    largest = max(map(abs, problem.scores.extremes()))
    return 4 * problem.n**2 * problem.max_clique_size * sys.float_info.epsilon * largest


def _require_room(problem: Problem) -> None:
    """Refuses what has too many variables or does not fit the free memory."""
    if problem.n > MOST_VARIABLES:
        raise LimitError(
            f"pruning takes at most {MOST_VARIABLES} variables, since it looks at all their sets; "
            f"this problem has {problem.n}. Solve it as it is."
        )
    needed, room = predicted_memory(problem), int(_SHARE_OF_MEMORY * free_memory())
    if needed > room:
        raise LimitError(
            f"pruning {problem.n} variables needs {needed / 1e9:.3g} GB, but {room / 1e9:.3g} GB are free "
            "for it. Free memory, or solve the problem as it is."
        )
