"""Algorithms 1, 2 and 4 of Chechetka and Guestrin (2007), verbatim, by enumeration, for n ≤ 8."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.scores import DenseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, is_subset, members, subsets, varset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jtsolve.core.scores import LocalScores

Components = dict[VarSet, list[VarSet]]
"""Maps a separator to the sets that may be attached to it."""


def information(scores: LocalScores, a: VarSet, b: VarSet, given: VarSet) -> float:
    """Returns I(A; B | S) in nats, times the number of rows."""
    s = scores.score
    return s(a | b | given) + s(given) - s(a | given) - s(b | given)


def separators(n: int, k: int) -> Iterator[VarSet]:
    """Yields all sets of k of n variables."""
    yield from (varset(chosen) for chosen in combinations(range(n), k))


def algorithm_1(scores: LocalScores, k: int, delta: float) -> Components:
    """Returns every (S, Q) with I(Q; V − SQ | S) ≤ δ, Q neither empty nor all."""
    everything = (1 << scores.n) - 1
    return {
        S: [
            Q
            for Q in subsets(everything & ~S)
            if Q and everything & ~S != Q and information(scores, Q, everything & ~S & ~Q, S) <= delta
        ]
        for S in separators(scores.n, k)
    }


def strength(scores: LocalScores, A: VarSet, S: VarSet) -> float:
    """Returns min over ∅ ⊊ X ⊊ A of I(X; A − X | S)."""
    return min(information(scores, X, A & ~X, S) for X in subsets(A) if X not in {0, A})


def algorithm_2(scores: LocalScores, S: VarSet, delta: float, q: int) -> list[VarSet]:
    """Returns the components of LTCI."""
    others = [v for v in range(scores.n) if not S >> v & 1]
    parts = [1 << v for v in others]
    for size in range(2, q + 1):
        for A in map(varset, combinations(others, size)):
            if strength(scores, A, S) > delta:
                met = [part for part in parts if part & A]
                parts = [part for part in parts if not part & A] + [sum(met)]
    return sorted(parts)


def exact_cover(wanted: VarSet, offered: Sequence[VarSet]) -> bool:
    """Returns whether disjoint offered sets cover the target set."""
    if not wanted:
        return True
    lowest = wanted & -wanted
    return any(
        exact_cover(wanted & ~piece, offered)
        for piece in offered
        if piece & lowest and is_subset(piece, wanted)
    )


def greedy_cover(wanted: VarSet, offered: Sequence[VarSet]) -> bool:
    """Returns whether greedy choices of the largest fitting piece, ties by order, cover the target set."""
    for piece in sorted(offered, key=lambda piece: -piece.bit_count()):
        if is_subset(piece, wanted):
            wanted &= ~piece
    return not wanted


def decomposable(
    n: int, components: Mapping[VarSet, Sequence[VarSet]], *, greedy: bool
) -> tuple[set[tuple[VarSet, VarSet]], list[VarSet]]:
    """Returns the (S, Q) that are decomposable (Definition 8), and the cliques that are roots."""
    good: set[tuple[VarSet, VarSet]] = set()
    covered = greedy_cover if greedy else exact_cover

    def offered(clique: VarSet, wanted: VarSet) -> list[VarSet]:
        around = (clique & ~(1 << y) for y in members(clique))
        return [Q for S in around for Q in components.get(S, ()) if (S, Q) in good and is_subset(Q, wanted)]

    pairs = [(S, Q) for S, parts in components.items() for Q in parts]
    for S, Q in sorted(pairs, key=lambda pair: pair[1].bit_count()):
        if any(covered(Q & ~(1 << x), offered(S | 1 << x, Q & ~(1 << x))) for x in members(Q)):
            good.add((S, Q))
    everything = (1 << n) - 1
    size = next(iter(components)).bit_count() + 1
    cliques = separators(n, size)
    return good, [C for C in cliques if covered(everything & ~C, offered(C, everything & ~C))]


def sides(tree: JunctionTree) -> Iterator[tuple[VarSet, VarSet, VarSet]]:
    """Yields, for each edge, the separator and the variables on either side without it."""
    for i, j in tree.edges:
        reached = {i}
        while (
            grown := {
                b
                for a, b in [*tree.edges, *((b, a) for a, b in tree.edges)]
                if a in reached and {a, b} != {i, j}
            }
            - reached
        ):
            reached |= grown
        one = 0
        for clique in reached:
            one |= tree.cliques[clique]
        separator = tree.cliques[i] & tree.cliques[j]
        yield separator, one & ~separator, ((1 << tree.n) - 1) & ~one


def entropies(joint: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> DenseScores:
    """Returns minus the entropies of all sets of variables of a distribution: maximum likelihood, one row."""
    n = joint.ndim

    @cache
    def marginal(mask: VarSet) -> float:
        table = joint.sum(axis=tuple(v for v in range(n) if not mask >> v & 1)).ravel()
        return float((table[table > 0] * np.log(table[table > 0])).sum()) if mask else 0.0

    return DenseScores(n, n, np.array([marginal(mask) for mask in range(1 << n)]))


def distribution(seed: int, tree: JunctionTree, noise: float = 0.0) -> DenseScores:
    """Returns the scores of a random distribution of bits that factors by a tree, up to some noise.

    Each variable depends strongly on the earlier ones of the clique in which it comes first.
    """
    generator = np.random.default_rng(seed)
    n = tree.n
    joint = np.ones((2,) * n)
    order: list[int] = []
    left = list(range(len(tree.cliques)))
    waiting = [0]
    while waiting:
        clique = waiting.pop()
        left.remove(clique)
        for v in members(tree.cliques[clique]):
            if v in order:
                continue
            parents = [u for u in members(tree.cliques[clique]) if u in order]
            axes = [v, *parents]
            one = generator.choice([-1.0, 1.0], 2 ** len(parents)) * generator.uniform(
                0.5, 0.9, 2 ** len(parents)
            )
            table = np.stack([(1 + one) / 2, (1 - one) / 2]).reshape((2,) * len(axes))
            table = table.transpose(np.argsort(axes))
            joint = joint * table.reshape([2 if u in axes else 1 for u in range(n)])
            order.append(v)
        waiting += [b for a, b in tree.edges if a == clique and b in left]
        waiting += [a for a, b in tree.edges if b == clique and a in left]
    other = generator.dirichlet(np.ones(2**n)).reshape((2,) * n)
    return entropies((1 - noise) * joint + noise * other)


def random_tree(seed: int, n: int, k: int) -> JunctionTree:
    """Returns a junction tree with cliques of k + 1 in which no separator occurs twice."""
    generator = np.random.default_rng(seed)
    cliques = [tuple(range(k + 1))]
    used: set[VarSet] = set()
    families = [(v, (1 << v) - 1) for v in range(k + 1)]
    while len(families) < n:
        clique = cliques[int(generator.integers(len(cliques)))]
        chosen = sorted(generator.choice(clique, k, replace=False).tolist())
        if varset(chosen) not in used:
            used.add(varset(chosen))
            cliques.append((*chosen, len(families)))
            families.append((len(families), varset(chosen)))
    return JunctionTree.from_families(families)
