"""Reference averages over decomposable graphs, by enumeration."""

from __future__ import annotations

from collections import defaultdict
from math import exp, fsum, log
from typing import TYPE_CHECKING, NamedTuple

from jtsolve.backends.brute import chordal_trees
from jtsolve.core.varset import VarSet, is_subset

if TYPE_CHECKING:
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
