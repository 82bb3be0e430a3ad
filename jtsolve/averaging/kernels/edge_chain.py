"""Chains over decomposable graphs that add and remove one edge at a time, at several temperatures.

A graph is a row of bits for each vertex. A proposal picks u ≠ v; S = N(u) ∩ N(v). An edge can be removed iff
S is complete (then uv is in one clique only), and added iff S separates u from v. Either way the weight
changes by the factor [c(S∪uv) c(S) / (c(S∪u) c(S∪v))]^±1. The chain is symmetric and reaches every
decomposable graph.

References:
    Giudici and Green, Decomposable graphical Gaussian model determination, Biometrika 86, 1999. Geyer, Markov
    chain Monte Carlo maximum likelihood, Interface 1991 (exchange of states between temperatures).
"""

from __future__ import annotations

from math import exp

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from jtsolve.averaging.kernels.random import below, uniform
from jtsolve.core.compiling import kernel


@intrinsic
def lowest_bit(typing, mask):  # noqa: ARG001 - numba's signature
    """The position of the lowest bit of a mask that is not 0."""

    def generate(_context, builder, _signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@kernel
def score_of(mask, table, before, largest):
    """Returns the score of a set from a table in colex order; -inf above `largest` members.

    `before[v, k]` is the number of sets of at most k of v variables.
    """
    members = 0
    rest = mask
    while rest:
        rest &= rest - 1
        members += 1
    if members > largest:
        return -1e300
    rank = 0
    while mask:  # from below: with `members` left, all but this one are above it
        v = lowest_bit(mask)
        mask &= mask - 1
        rank += before[v, largest - members + 1]
        members -= 1
    return table[rank]


@kernel
def _separates(rows, between, u, v):
    """Tells whether every path from u to v meets `between`."""
    seen = between | 1 << u
    frontier = 1 << u
    while frontier:
        reached = 0
        while frontier:
            reached |= rows[lowest_bit(frontier)]
            frontier &= frontier - 1
        if reached >> v & 1:
            return False
        frontier = reached & ~seen
        seen |= frontier
    return True


@kernel
def _complete(rows, mask):
    """Tells whether the vertices of a mask are all adjacent to each other."""
    rest = mask
    while rest:
        v = lowest_bit(rest)
        rest &= rest - 1
        if rest & ~rows[v]:
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
        rows: shape (T, n), int64: the graphs.
        logs: shape (T,): ln of their weights, up to a constant.
        order: shape (T,): which graph is at which temperature.
        betas: shape (T,): 1 first, then less: the weight at a temperature is w^beta.
        rounds: the number of rounds.
        steps: proposals at a temperature in a round.
        table: the scores in colex order, in nats.
        before: see `score_of`.
        largest: the size of the largest clique.
        log_odds: ln of the prior odds of an edge.
        forbidden: shape (n,): the vertices to which a vertex must not be adjacent.
        trace: shape (rounds, n): the rows of the graph at beta 1 after each round; written.
        heights: shape (rounds,): its ln of the weight; written.
        counts: [proposals, accepted, round trips, exchanges 0, 1, …]; added to. Its last T entries tell which
        graphs
            were at the highest temperature since they were at the lowest.
    """
    temperatures, n = rows.shape
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
                common = graph[u] & graph[v]
                present = graph[u] >> v & 1
                if present:
                    if not _complete(graph, common):
                        continue
                elif forbidden[u] >> v & 1 or not _separates(graph, common, u, v):
                    continue
                one, other = common | 1 << u, common | 1 << v
                whole = score_of(one | other, table, before, largest)
                if whole == -1e300:
                    continue
                gain = whole + score_of(common, table, before, largest)
                gain -= score_of(one, table, before, largest) + score_of(other, table, before, largest)
                gain += log_odds
                if present:
                    gain = -gain
                if gain >= 0.0 or uniform(state) < exp(beta * gain):
                    height += gain
                    graph[u] ^= 1 << v
                    graph[v] ^= 1 << u
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
        trace[r, :] = rows[order[0]]
        heights[r] = logs[order[0]]
