"""Reference averages over decomposable graphs: by enumeration, and in rational numbers."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from math import exp, fsum, log
from typing import TYPE_CHECKING, NamedTuple

from jtsolve.backends.brute import chordal_trees
from jtsolve.core.varset import VarSet, is_subset, subsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree


class Averages(NamedTuple):
    """The sum over all graphs, and the averages by set, 0 for absent sets."""

    log_evidence: float
    complete: defaultdict[VarSet, float]
    clique: defaultdict[VarSet, float]
    separator: defaultdict[VarSet, float]
    connected: float
    treewidth: defaultdict[int, float]


def enumerated(problem: Problem, edge_odds: float = 1.0) -> Averages | None:
    """Averages over all chordal graphs on at most five vertices; None if none meets the constraints."""
    scored = [
        (tree, tree.score(problem.scores) + len(tree.graph_edges) * log(edge_odds))
        for tree in chordal_trees(problem.n)
        if problem.permits(tree)
    ]
    if not scored:
        return None
    highest = max(score for _, score in scored)
    evidence = highest + log(fsum(exp(score - highest) for _, score in scored))
    found = Averages(
        evidence, defaultdict(float), defaultdict(float), defaultdict(float), 0.0, defaultdict(float)
    )
    connected = 0.0
    for tree, score in scored:
        weight = exp(score - evidence)
        connected += weight * (0 not in tree.separators)
        found.treewidth[tree.treewidth] += weight
        for clique in tree.cliques:
            found.clique[clique] += weight
        for separator in tree.separators:
            found.separator[separator] += weight
        for mask in range(1 << problem.n):
            found.complete[mask] += weight * any(is_subset(mask, clique) for clique in tree.cliques)
    return found._replace(connected=connected)


def enumerated_weights(problem: Problem) -> list[tuple[JunctionTree, float]]:
    """Returns each chordal graph of at most five vertices that meets the constraints, and its share."""
    trees = [tree for tree in chordal_trees(problem.n) if problem.permits(tree)]
    scores = [tree.score(problem.scores) for tree in trees]
    highest = max(scores)
    total = fsum(exp(score - highest) for score in scores)
    return [(tree, exp(score - highest) / total) for tree, score in zip(trees, scores, strict=True)]


def rational_weight(tree: JunctionTree, c: Sequence[Fraction], s: Sequence[Fraction]) -> Fraction:
    """Returns Π c(C) / Π s(S)."""
    weight = Fraction(1)
    for clique in tree.cliques:
        weight *= c[clique]
    for separator in tree.separators:
        weight /= s[separator]
    return weight


def rational_sum(n: int, c: Sequence[Fraction], s: Sequence[Fraction]) -> Fraction:
    """Returns Z by the recurrence of `jtsolve.averaging.sums` for any weights c and s > 0 with s(∅) = 1.

    P° is P without full parts: A(S,R) = c P° + s (P − P°) sums the graphs in which S is complete, X = A − B.
    """
    everything = (1 << n) - 1
    f: dict[tuple[VarSet, VarSet], Fraction] = {}
    link, parts, none, x = dict(f), dict(f), dict(f), dict(f)
    for r in sorted(range(1 << n), key=int.bit_count):
        others = everything ^ r
        low = r & -r
        for q in subsets(others):
            if not r:
                parts[q, r] = none[q, r] = Fraction(1)
                x[q, r] = c[q]
                continue
            full = sum((x[q | d, r ^ d] for d in subsets(r) if d), Fraction(0))
            x[q, r] = full  # a provisional value
            inner = [k for k in subsets(r) if k not in (0, r)]
            f[q, r] = full - sum((f[q, k] * parts[q, r ^ k] for k in inner), Fraction(0))
        if not r:
            continue
        for q in subsets(others):
            link[q, r] = sum((f[p, r] / s[p] for p in subsets(q)), Fraction(0))
        for q in subsets(others):
            firsts = [k | low for k in subsets(r ^ low)]
            parts[q, r] = sum((link[q, k] * parts[q, r ^ k] for k in firsts), Fraction(0))
            none[q, r] = sum(((link[q, k] - f[q, k] / s[q]) * none[q, r ^ k] for k in firsts), Fraction(0))
            x[q, r] = c[q] * none[q, r] + s[q] * (parts[q, r] - none[q, r]) - x[q, r]
    return parts[0, everything]
