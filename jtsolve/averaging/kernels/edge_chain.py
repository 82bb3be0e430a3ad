"""Chains over decomposable graphs that add and remove edges, at several temperatures.

A graph is a row of bits for each vertex, in words of 32. A proposal picks u ≠ v; S = N(u) ∩ N(v). An edge
can be removed iff S is complete (then uv is in one clique only), and added iff S separates u from v. Either
way the weight changes by the factor [c(S∪uv) c(S) / (c(S∪u) c(S∪v))]^±1. The chain is symmetric and reaches
every decomposable graph.

*Several edges at once.* With X ∋ u and Y ∋ v, all of X × Y is added or removed. If S separates u from v, and
S ∪ X and S ∪ Y are complete, then with X × Y there is the clique S ∪ X ∪ Y, which alone holds some x and some
y; and of such a clique, X × Y can be removed. The weight changes by [c(S∪X∪Y) c(S) / (c(S∪X) c(S∪Y))]^±1. |X|
and |Y| are drawn first. To be removed, the others of X and Y are drawn from the clique, one by one; to be
added, those of X from the common neighbours of S and of X so far, those of Y likewise. The chances of the
same order the other way are known, and correct the acceptance. Green and Thomas move so between junction
trees, whose number they have to know; a graph tells S by itself, and the chain needs no tree.

References:
    Giudici and Green, Decomposable graphical Gaussian model determination, Biometrika 86, 1999. Green and
    Thomas, Sampling decomposable graphs using a Markov chain on junction trees, Biometrika 100, 2013. Geyer,
    Markov chain Monte Carlo maximum likelihood, Interface 1991 (exchange of states between temperatures).
"""

from __future__ import annotations

from math import exp, log

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from jtsolve.averaging.kernels.random import below, uniform
from jtsolve.core.compiling import kernel

WORD = 32
"""Vertices in a word of a row."""

MOST = 4
"""Vertices of X, or of Y, at most."""


@intrinsic
def lowest_bit(typing, mask):  # noqa: ARG001 - numba's signature
    """The position of the lowest bit of a mask that is not 0."""

    def generate(_context, builder, _signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@kernel
def _size(words):
    """Returns the number of members of a set."""
    members = 0
    for w in range(words.size):
        rest = words[w]
        while rest:
            rest &= rest - 1
            members += 1
    return members


@kernel
def score_of(words, table, before, largest):
    """Returns the score of a set from a table in colex order; -1e300 above `largest` members.

    `before[v, k]` is the number of sets of at most k of v variables.
    """
    members = _size(words)
    if members > largest:
        return -1e300
    rank = 0
    for w in range(words.size):
        rest = words[w]
        while rest:  # from below: with `members` left, all but this one are above it
            rank += before[WORD * w + lowest_bit(rest), largest - members + 1]
            rest &= rest - 1
            members -= 1
    return table[rank]


@kernel
def _flip(words, v):
    """Takes v into a set, or out of it."""
    words[v // WORD] ^= 1 << v % WORD


@kernel
def _has(words, v):
    """Tells whether v is in a set."""
    return np.int64(words[v // WORD]) >> v % WORD & 1


@kernel
def _separates(rows, between, u, v, seen, frontier, reached):
    """Tells whether every path from u to v meets `between`; the last three are written."""
    seen[:] = between
    frontier[:] = 0
    _flip(seen, u)
    _flip(frontier, u)
    more = True
    while more:
        reached[:] = 0
        for w in range(between.size):
            rest = frontier[w]
            while rest:
                x = WORD * w + lowest_bit(rest)
                rest &= rest - 1
                for i in range(between.size):
                    reached[i] |= np.int64(rows[x, i])
        if _has(reached, v):
            return False
        more = False
        for w in range(between.size):
            frontier[w] = reached[w] & ~seen[w]
            seen[w] |= frontier[w]
            more |= frontier[w] != 0
    return True


@kernel
def _complete(rows, words):
    """Tells whether the vertices of a set are all adjacent to each other."""
    for w in range(words.size):
        rest = words[w]
        while rest:
            v = WORD * w + lowest_bit(rest)
            rest &= rest - 1
            for i in range(words.size):
                others = words[i] & ~(1 << v % WORD) if i == w else words[i]
                if others & ~np.int64(rows[v, i]):
                    return False
    return True


@kernel
def _toggle(rows, ones, others):
    """Makes each of one set adjacent to all of another, or to none."""
    for w in range(ones.size):
        rest = ones[w]
        while rest:
            x = WORD * w + lowest_bit(rest)
            rest &= rest - 1
            for i in range(others.size):
                rows[x, i] ^= others[i]


@kernel
def _near(rows, separator, v, other, pool):
    """Writes the common neighbours of S and v outside of S and `other`."""
    for i in range(pool.size):
        pool[i] = np.int64(rows[v, i]) & ~separator[i] & ~other[i]
    for w in range(separator.size):
        rest = separator[w]
        while rest:
            x = WORD * w + lowest_bit(rest)
            rest &= rest - 1
            for i in range(pool.size):
                pool[i] &= np.int64(rows[x, i])


@kernel
def _pick(rows, pool, chosen, first, last, side, state):
    """Draws chosen[first:last], adjacent to each other, from a pool; tells whether there were enough."""
    for i in range(first, last):
        size = _size(pool)
        if size == 0:
            return False
        nth, w = below(state, size), 0
        rest = pool[0]
        while True:
            while rest == 0:
                w += 1
                rest = pool[w]
            if nth == 0:
                break
            rest &= rest - 1
            nth -= 1
        chosen[i] = WORD * w + lowest_bit(rest)
        _flip(side, chosen[i])
        for j in range(pool.size):
            pool[j] &= np.int64(rows[chosen[i], j])
    return True


@kernel
def _choices(rows, separator, chosen, count, other, pool):
    """Returns ln of the number of ways to draw chosen[1:count] as neighbours of S and of those before."""
    _near(rows, separator, chosen[0], other, pool)
    total = 0.0
    for i in range(1, count):
        total += log(_size(pool))
        for j in range(pool.size):
            pool[j] &= np.int64(rows[chosen[i], j])
    return total


@kernel
def _extend(rows, present, common, xs, ys, sizes, left, right, forbidden, pool, whole, state):
    """Draws the others of X and of Y, and takes them out of S, `common`; tells whether the move is legal.

    Returns also ln of the ratio of the chance to remove X × Y to that to add it, in this order.
    """
    a, b = sizes
    if present:
        for i in range(pool.size):
            pool[i] = common[i]
            whole[i] = common[i] | left[i] | right[i]
        if not (_pick(rows, pool, xs, 1, a, left, state) and _pick(rows, pool, ys, 1, b, right, state)):
            return False, 0.0
        for i in range(pool.size):
            common[i] &= ~(left[i] | right[i])
        for x in xs[:a]:
            for y in ys[:b]:
                for i in range(pool.size):
                    if np.int64(rows[x, i]) & np.int64(rows[y, i]) & ~whole[i]:
                        return False, 0.0
    else:
        _near(rows, common, xs[0], right, pool)
        if not _pick(rows, pool, xs, 1, a, left, state):
            return False, 0.0
        _near(rows, common, ys[0], left, pool)
        if not _pick(rows, pool, ys, 1, b, right, state):
            return False, 0.0
        for x in xs[:a]:
            for i in range(pool.size):
                if np.int64(forbidden[x, i]) & right[i]:
                    return False, 0.0
    ratio = _choices(rows, common, xs, a, right, pool) + _choices(rows, common, ys, b, left, pool)
    within = _size(common) + a + b - 2
    for i in range(a + b - 2):
        ratio -= log(within - i)
    return True, ratio


@kernel
def run_chain(
    state,
    rows,
    logs,
    order,
    betas,
    rounds,
    steps,
    table,
    before,
    largest,
    log_odds,
    forbidden,
    several,
    trace,
    heights,
    counts,
):
    """Runs `rounds` times `steps` proposals at each temperature, and exchanges of neighbouring temperatures.

    Args:
        state: see `random`; changed, as the next four.
        rows: shape (T, n, words), uint32: the graphs.
        logs: shape (T,): ln of their weights, up to a constant.
        order: shape (T,): which graph is at which temperature.
        betas: shape (T,): 1 first, then less: the weight at a temperature is w^beta.
        rounds: the number of rounds.
        steps: proposals at a temperature in a round.
        table: the scores in colex order, in nats.
        before: see `score_of`.
        largest: the size of the largest clique.
        log_odds: ln of the prior odds of an edge.
        forbidden: shape (n, words): the vertices to which a vertex must not be adjacent.
        several: the share of proposals with |X| = k with probability 2^-k, as |Y|; else they are 1.
        trace: shape (rounds, n, words): the rows of the graph at beta 1 after each round; written.
        heights: shape (rounds,): its ln of the weight; written.
        counts: [proposals, accepted, round trips, exchanges 0, 1, …]; added to. Its last T entries tell which
        graphs
            were at the highest temperature since they were at the lowest.
    """
    temperatures, n, words = rows.shape
    scratch = np.zeros((8, words), np.int64)
    common, left, right, whole, pool, seen, frontier, reached = scratch
    xs, ys = np.zeros((2, MOST), np.int64)
    for r in range(rounds):
        for t in range(temperatures):
            graph = rows[order[t]]
            beta = betas[t]
            height = logs[order[t]]
            for _ in range(steps):
                u = below(state, n)
                v = below(state, n - 1)
                if v >= u:
                    v += 1
                for w in range(words):
                    common[w] = np.int64(graph[u, w]) & np.int64(graph[v, w])
                present = _has(graph[u], v)
                if present:
                    if not _complete(graph, common):
                        continue
                elif _has(forbidden[u], v) or not _separates(graph, common, u, v, seen, frontier, reached):
                    continue
                left[:] = 0
                right[:] = 0
                _flip(left, u)
                _flip(right, v)
                a, b, ratio = 1, 1, 0.0
                if several > 0.0 and uniform(state) < several:
                    while a < MOST and uniform(state) < 0.5:
                        a += 1
                    while b < MOST and uniform(state) < 0.5:
                        b += 1
                    if a + b > 2:
                        xs[0], ys[0] = u, v
                        legal, ratio = _extend(
                            graph, present, common, xs, ys, (a, b), left, right, forbidden, pool, whole, state
                        )
                        if not legal:
                            continue
                for w in range(words):
                    whole[w] = common[w] | left[w] | right[w]
                gain = score_of(whole, table, before, largest)
                if gain == -1e300:
                    continue
                gain += a * b * log_odds + score_of(common, table, before, largest)
                for w in range(words):
                    whole[w] = common[w] | left[w]
                gain -= score_of(whole, table, before, largest)
                for w in range(words):
                    whole[w] = common[w] | right[w]
                gain -= score_of(whole, table, before, largest)
                if present:
                    gain, ratio = -gain, -ratio
                if beta * gain + ratio >= 0.0 or uniform(state) < exp(beta * gain + ratio):
                    height += gain
                    _toggle(graph, left, right)
                    _toggle(graph, right, left)
                    counts[1] += t == 0
            logs[order[t]] = height
        counts[0] += steps
        for t in range(temperatures - 1):
            cold, hot = order[t], order[t + 1]
            gain = (betas[t] - betas[t + 1]) * (logs[hot] - logs[cold])
            if gain >= 0.0 or uniform(state) < exp(gain):
                order[t], order[t + 1] = hot, cold
                counts[3 + t] += 1
        flags = counts[2 + temperatures :]
        flags[order[temperatures - 1]] = 1
        if temperatures > 1 and flags[order[0]]:
            flags[order[0]] = 0
            counts[2] += 1
        trace[r] = rows[order[0]]
        heights[r] = logs[order[0]]
