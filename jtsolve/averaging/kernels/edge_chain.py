"""Chains over decomposable graphs that add and remove one edge at a time, at several temperatures.

A graph is a row of bits for each vertex, in words of 32. A proposal picks u ≠ v; S = N(u) ∩ N(v). An edge
can be removed iff S is complete (then uv is in one clique only), and added iff S separates u from v. Either
way the weight changes by the factor [c(S∪uv) c(S) / (c(S∪u) c(S∪v))]^±1. The chain is symmetric and reaches
every decomposable graph.

References:
    Giudici and Green, Decomposable graphical Gaussian model determination, Biometrika 86, 1999. Geyer, Markov
    chain Monte Carlo maximum likelihood, Interface 1991 (exchange of states between temperatures).
"""

from __future__ import annotations

from math import exp

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from jtsolve.averaging.kernels.random import below, uniform
from jtsolve.core.compiling import kernel

WORD = 32
"""Vertices in a word of a row."""


@intrinsic
def lowest_bit(typing, mask):  # noqa: ARG001 - numba's signature
    """The position of the lowest bit of a mask that is not 0."""

    def generate(_context, builder, _signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@kernel
def score_of(words, table, before, largest):
    """Returns the score of a set from a table in colex order; -1e300 above `largest` members.

    `before[v, k]` is the number of sets of at most k of v variables.
    """
    members = 0
    for w in range(words.size):
        rest = words[w]
        while rest:
            rest &= rest - 1
            members += 1
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
        trace: shape (rounds, n, words): the rows of the graph at beta 1 after each round; written.
        heights: shape (rounds,): its ln of the weight; written.
        counts: [proposals, accepted, round trips, exchanges 0, 1, …]; added to. Its last T entries tell which
        graphs
            were at the highest temperature since they were at the lowest.
    """
    temperatures, n, words = rows.shape
    scratch = np.zeros((4, words), np.int64)
    common, seen, frontier, reached = scratch
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
                gain = log_odds + score_of(common, table, before, largest)
                _flip(common, u)
                gain -= score_of(common, table, before, largest)
                _flip(common, v)
                whole = score_of(common, table, before, largest)
                if whole == -1e300:
                    continue
                _flip(common, u)
                gain += whole - score_of(common, table, before, largest)
                if present:
                    gain = -gain
                if gain >= 0.0 or uniform(state) < exp(beta * gain):
                    height += gain
                    _flip(graph[u], v)
                    _flip(graph[v], u)
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
