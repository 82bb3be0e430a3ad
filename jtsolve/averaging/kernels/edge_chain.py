"""Chains over decomposable graphs that add and remove edges, at several temperatures.

A graph is a row of bits for each vertex, in words of 32. A proposal picks u ≠ v; S = N(u) ∩ N(v). An edge
can be removed iff S is complete (then uv is in one clique only), and added iff S separates u from v. Either
way the weight changes by the factor [c(S∪uv) c(S) / (c(S∪u) c(S∪v))]^±1. The chain is symmetric and reaches
every decomposable graph.

*A branch moves* from b to c. Let A = N(b) ∩ N(c), x a neighbour of b alone, and K the component of x in G
without b and A. If c ∉ K and N(K) ∩ A is complete, every edge by from b to a y ∈ K becomes cy: K hung from
(N(K) ∩ A) ∪ b, and now hangs from (N(K) ∩ A) ∪ c. The edges between K and A ∪ c let the same branch return.
x is one of m neighbours of b alone, and of m' of c alone afterwards: m / m' corrects for it. The weight
changes by the cliques and separators of G[N(b) ∩ (K ∪ A)] with c for b.

*An edge for another.* uv is added and an edge xy of the clique C = S ∪ uv removed, where C alone holds xy.
C itself may be too large by one: where the treewidth is bounded, single edges leave a graph of large cliques
only by losing all that an edge is worth, and tempering does not bring chains over thousands of nats. The
weight changes by [c(S) c(C∖x) c(C∖y) / (c(S∪u) c(S∪v) c(C∖xy))].

Pairs are drawn uniformly or, as often, from a list of fixed frequencies, of pairs with a large gain of their
own; where a move begins with one pair and its return with another, their chances correct for it.

*Scores on demand.* An unknown score is requested and read as NaN, with which no proposal is accepted. The
graph waits, and the others continue; once the scores are known, the proposal is repeated with the same random
numbers. Each temperature has its own, so that the chain is the same as with a table.

*Marks* (`core.marks`). The star is a vertex whose edges never change, and which no pair is drawn from: of
two strongly decomposable graphs, one within the other, edges lead from one to the other one by one. Sets
have the scores that they have without it.

References:
    Giudici and Green, Decomposable graphical Gaussian model determination, Biometrika 86, 1999 (the move of
    one edge). Geyer, Markov chain Monte Carlo maximum likelihood, Interface 1991 (exchange of states between
    temperatures). Syed, Bouchard-Côté, Deligiannidis and Doucet, Non-reversible parallel tempering, J. Roy.
    Statist. Soc. B 84, 2022 (exchanges of even and odd pairs in turn). Hukushima and Iba, Population
    annealing and its application to a spin glass, AIP Conf. Proc. 690, 2003 (graphs resampled while they cool
    down).
"""

from __future__ import annotations

from math import exp, log

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from jtsolve.averaging.kernels.random import below, uniform
from jtsolve.averaging.kernels.score_table import slot_of
from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import copy_onto, zeros

WORD = 32
"""Vertices in a word of a row."""


@intrinsic
def lowest_bit(typing, mask):  # noqa: ARG001 - numba's signature
    """The position of the lowest bit of a mask that is not 0."""

    def generate(_context, builder, _signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@kernel(allocates=False)
def _size(words):
    """Returns the number of members of a set."""
    members = 0
    for w in range(words.size):
        rest = words[w]
        while rest:
            rest &= rest - 1
            members += 1
    return members


@kernel(allocates=False)
def score_of_set(words, scores):
    """Returns the score of a set; -1e300 above `largest` members; NaN if it is not known."""
    members = _size(words)
    if scores.star >= 0 and _has(words, scores.star):  # the last: the loop ends before it
        members -= 1
    if members > scores.largest:
        return -1e300
    rank = 0
    for w in range(words.size):
        rest = words[w]
        while rest and members:  # from below: with `members` left, all but this one are above it
            rank += scores.before[WORD * w + lowest_bit(rest), scores.largest - members + 1]
            rest &= rest - 1
            members -= 1
    if scores.ranks.size == 0:  # a table, in colex order
        return scores.values[rank]
    slot = slot_of(rank, scores.ranks)
    if scores.ranks[slot] == rank:
        return scores.values[slot]
    # Sets beyond the capacity of `wanted` are only counted: they are requested again.
    scores.wanted[0] += 1
    if scores.wanted[0] < scores.wanted.size:
        scores.wanted[scores.wanted[0]] = rank
    return np.nan


@kernel(allocates=False)
def _flip(words, v):
    """Adds v to a set, or removes it."""
    words[v // WORD] ^= 1 << v % WORD


@kernel(allocates=False)
def _has(words, v):
    """Returns whether v is in a set."""
    return np.int64(words[v // WORD]) >> v % WORD & 1


@kernel(allocates=False)
def _reach(rows, words, reached):
    """Adds the neighbours of all members of a set to another set."""
    for w in range(words.size):
        rest = words[w]
        while rest:
            x = WORD * w + lowest_bit(rest)
            rest &= rest - 1
            for i in range(reached.size):
                reached[i] |= np.int64(rows[x, i])


@kernel(allocates=False)
def _separates(rows, between, u, v, seen, frontier, reached):
    """Returns whether every path from u to v meets `between`; the last three are written."""
    # A search by layers from u, which does not enter `between`.
    copy_onto(seen, between)
    frontier[:] = 0
    _flip(seen, u)
    _flip(frontier, u)
    more = True
    while more:
        reached[:] = 0
        _reach(rows, frontier, reached)
        if _has(reached, v):
            return False
        more = False
        for w in range(between.size):
            frontier[w] = reached[w] & ~seen[w]
            seen[w] |= frontier[w]
            more |= frontier[w] != 0
    return True


@kernel(allocates=False)
def _complete(rows, words):
    """Returns whether the vertices of a set are all adjacent to each other."""
    for w in range(words.size):
        rest = words[w]
        while rest:
            v = WORD * w + lowest_bit(rest)
            rest &= rest - 1
            for i in range(words.size):  # the set without v has to be within N(v)
                others = words[i] & ~(1 << v % WORD) if i == w else words[i]
                if others & ~np.int64(rows[v, i]):
                    return False
    return True


@kernel(allocates=False)
def _toggle(rows, ones, others):
    """Joins every member of one set to all of another, or to none."""
    for w in range(ones.size):
        rest = ones[w]
        while rest:
            x = WORD * w + lowest_bit(rest)
            rest &= rest - 1
            for i in range(others.size):
                rows[x, i] ^= others[i]


@kernel(allocates=False)
def _flip_edge(rows, u, v):
    """Adds the edge uv to a graph, or removes it."""
    _flip(rows[u], v)
    _flip(rows[v], u)


@kernel(allocates=False)
def _member(words, nth):
    """Returns the nth member of a set, from 0."""
    w = 0
    rest = words[0]
    while True:
        while rest == 0:
            w += 1
            rest = words[w]
        if nth == 0:
            return WORD * w + lowest_bit(rest)
        rest &= rest - 1
        nth -= 1


@kernel(allocates=False)
def _accepts(log_ratio, state):
    """Returns whether a proposal with this ratio is accepted."""
    return log_ratio >= 0.0 or uniform(state) < exp(log_ratio)


@kernel(allocates=False)
def _draw_pair(n, proposals, state):
    """Returns two vertices with the probability of `proposals.chances`."""
    if (
        uniform(state) < 0.5
    ):  # from the list; else uniformly over the ordered pairs, so that none has probability 0
        i = below(state, proposals.firsts.size)
        return np.int64(proposals.firsts[i]), np.int64(proposals.seconds[i])
    u = below(state, n)
    v = below(state, n - 1)
    return u, v + (v >= u)


@kernel(inline="always", allocates=False)
def _branch(rows, b, c, common, inside, hung, frontier, reached):
    """Writes K, given one vertex of it, and N(K) ∩ A; returns whether K may move from b to c."""
    # K grows by layers in G without b and A; what it touches of A is N(K) ∩ A.
    hung[:] = 0
    copy_onto(frontier, inside)
    more = True
    while more:
        reached[:] = 0
        _reach(rows, frontier, reached)
        if _has(reached, c):  # c ∈ K
            return False
        if _has(reached, b):
            _flip(reached, b)
        more = False
        for w in range(common.size):
            hung[w] |= reached[w] & common[w]
            frontier[w] = reached[w] & ~common[w] & ~inside[w]
            inside[w] |= frontier[w]
            more |= frontier[w] != 0
    # Then G with c for b is chordal: a clique N(K) ∩ A, with either, separates K from the rest.
    return _complete(rows, hung)


@kernel(inline="always", allocates=False)
def _branch_gain(rows, b, c, inside, hung, scores, left, whole):
    """Returns the change of ln weight if c replaces b next to `inside`; overwrites `hung`.

    The cliques that hold b, and a vertex of `inside`, come from a perfect elimination order of their other
    vertices, the reverse of a maximum cardinality search that begins with `hung`.
    """
    copy_onto(left, inside)
    gain = 0.0
    for _ in range(_size(inside)):
        # Maximum cardinality search: next comes the vertex with most visited neighbours, counted in `hung`.
        most, last = -1, 0
        for w in range(left.size):
            rest = left[w]
            while rest:
                y = WORD * w + lowest_bit(rest)
                rest &= rest - 1
                for i in range(left.size):
                    whole[i] = np.int64(rows[y, i]) & hung[i]
                size = _size(whole)
                if size > most:
                    most, last = size, y
        # These neighbours are complete: with `last` and b a clique, without `last` its separator. Both lose
        # b and gain c.
        for i in range(left.size):
            whole[i] = np.int64(rows[last, i]) & hung[i]
        _flip(left, last)
        _flip(hung, last)
        _flip(whole, b)
        gain += score_of_set(whole, scores)  # the separator with b
        _flip(whole, last)
        gain -= score_of_set(whole, scores)  # the clique with b
        _flip(whole, b)
        _flip(whole, c)
        gain += score_of_set(whole, scores)
        _flip(whole, last)
        gain -= score_of_set(whole, scores)
    return gain


@kernel(inline="always", allocates=False)
def _move_branch(rows, b, c, beta, scores, scratch, state):
    """Proposes to move a branch from b to c; returns the change of ln weight, and whether it moved."""
    common, inside, hung, frontier = scratch[0], scratch[1], scratch[2], scratch[3]
    reached, left, whole, alone = scratch[4], scratch[5], scratch[6], scratch[7]
    words = common.size
    for w in range(words):  # A, and the neighbours of b alone, from which x is drawn
        common[w] = np.int64(rows[b, w]) & np.int64(rows[c, w])
        alone[w] = np.int64(rows[b, w]) & ~common[w]
    adjacent = _has(rows[b], c)
    if adjacent:
        _flip(alone, c)
    choices = _size(alone)
    if choices == 0:
        return 0.0, False
    inside[:] = 0
    _flip(inside, _member(alone, below(state, choices)))
    if not _branch(rows, b, c, common, inside, hung, frontier, reached):
        return 0.0, False
    # Only the vertices of K next to b change their neighbours.
    for w in range(words):
        inside[w] &= np.int64(rows[b, w])
        if inside[w] & np.int64(scores.forbidden[b, w] | scores.forbidden[c, w]):
            return 0.0, False
        alone[w] = np.int64(rows[c, w]) & ~common[w]
    # The reverse move draws its x from the neighbours of c alone: the old ones and the moved ones, never b.
    back = _size(inside) + _size(alone) - adjacent
    gain = _branch_gain(rows, b, c, inside, hung, scores, left, whole)
    if not _accepts(beta * gain + log(choices / back), state):
        return 0.0, False
    # Every by becomes cy: both are toggled, as b was adjacent to all of these y, and c to none.
    alone[:] = 0
    _flip(alone, b)
    _flip(alone, c)
    _toggle(rows, alone, inside)
    _toggle(rows, inside, alone)
    return gain, True


@kernel(inline="always", allocates=False)
def _exchange(rows, u, v, beta, scores, proposals, scratch, state):
    """Proposes uv for another edge of its clique; returns the change of ln weight, and whether it moved."""
    common, clique, whole, seen = scratch[0], scratch[1], scratch[2], scratch[5]
    frontier, reached = scratch[6], scratch[7]
    words = common.size
    if _has(rows[u], v) or _has(scores.forbidden[u], v):
        return 0.0, False
    for w in range(words):
        common[w] = np.int64(rows[u, w]) & np.int64(rows[v, w])
        clique[w] = common[w]
    # Without S, C = uv has no other edge. C may exceed the bound by one, as it loses xy at once.
    size = _size(common) + 2
    star = scores.star >= 0 and _has(common, scores.star)
    if size == 2 or size - star > scores.largest + 1:
        return 0.0, False
    _flip(clique, u)
    _flip(clique, v)
    i, j = below(state, size), below(state, size - 1)
    x, y = _member(clique, i), _member(clique, j + (j >= i))
    for w in range(words):
        whole[w] = np.int64(rows[x, w]) & np.int64(rows[y, w]) & ~clique[w]
    # uv itself, an edge of the star, or in another clique
    if not _has(rows[x], y) or _has(scores.forbidden[x], y) or _size(whole) > 0:
        return 0.0, False
    # c(S) / (c(S∪u) c(S∪v)): uv is added.
    gain = score_of_set(common, scores)
    for z in (u, v):
        _flip(common, z)
        gain -= score_of_set(common, scores)
        _flip(common, z)
    # c(C∖x) c(C∖y) / c(C∖xy): xy is removed; c(C) cancels.
    for z in (x, y):
        _flip(clique, z)
        gain += score_of_set(clique, scores)
        _flip(clique, z)
    _flip(clique, x)
    _flip(clique, y)
    gain -= score_of_set(clique, scores)
    # The reverse move begins with xy and draws uv from the same C: only the probability of the pair differs.
    ratio = proposals.chances[x, y] - proposals.chances[u, v]
    # Separation is tested last: it is the slowest test, and most proposals are rejected before it.
    accepted = _accepts(beta * gain + ratio, state)
    if not accepted or not _separates(rows, common, u, v, seen, frontier, reached):
        return 0.0, False
    _flip_edge(rows, u, v)
    _flip_edge(rows, x, y)
    return gain, True


@kernel(inline="always", allocates=False)
def _change_edge(rows, u, v, beta, scores, scratch, state):
    """Proposes to add or remove uv; returns the change of ln weight, and whether the graph changed."""
    common, seen, frontier, reached = scratch[0], scratch[5], scratch[6], scratch[7]
    if _has(scores.forbidden[u], v):
        return 0.0, False
    for w in range(common.size):
        common[w] = np.int64(rows[u, w]) & np.int64(rows[v, w])
    # Removal: G stays chordal iff S is complete. Addition: iff S separates u from v.
    present = _has(rows[u], v)
    if present:
        if not _complete(rows, common):
            return 0.0, False
    elif not _separates(rows, common, u, v, seen, frontier, reached):
        return 0.0, False
    # ln of [c(S∪uv) c(S) / (c(S∪u) c(S∪v))] · odds, with its sign turned for a removal.
    gain = scores.log_odds + score_of_set(common, scores)
    _flip(common, u)
    gain -= score_of_set(common, scores)
    _flip(common, v)
    joint = score_of_set(common, scores)
    if joint == -1e300:  # more than `largest` members
        return 0.0, False
    _flip(common, u)
    gain += joint - score_of_set(common, scores)
    if present:
        gain = -gain
    if not _accepts(beta * gain, state):
        return 0.0, False
    _flip_edge(rows, u, v)
    return gain, True


@kernel
def resample(rows, logs, order, count, rise, state):
    """Resamples the graphs of the first `count` temperatures in proportion to w^rise, systematically.

    The copies of a graph are its share of `count`, rounded up or down.
    """
    most = logs[order[0]]
    for t in range(1, count):
        most = max(most, logs[order[t]])
    total = 0.0
    for t in range(count):
        total += exp(rise * (logs[order[t]] - most))
    # Systematic resampling: one random offset, and `count` points equally spaced on the summed weights.
    copies = zeros(count, np.int64)
    point, passed, place = uniform(state) * total / count, 0.0, 0
    for t in range(count):
        passed += exp(rise * (logs[order[t]] - most))
        while place < count and (point < passed or t == count - 1):
            copies[t] += 1
            place += 1
            point += total / count
    # A graph without a copy is replaced by a spare copy of another; the others stay in place.
    source = 0
    for t in range(count):
        if copies[t] == 0:
            while copies[source] < 2:
                source += 1
            copies[source] -= 1
            for v in range(rows.shape[1]):
                copy_onto(rows[order[t], v], rows[order[source], v])
            logs[order[t]] = logs[order[source]]


@kernel
def run_chain(
    states, rows, logs, order, clock, counts, left, betas, steps, scores, proposals, trace, heights
):
    """Runs rounds of `steps` proposals at each temperature, and exchanges of neighbouring temperatures.

    When all are cool, there are as many proposals at beta 1 as at the others together.

    Args:
        states: shape (1 + T,): of the exchanges, and of each temperature; see `random`; changed, as the next
            six.
        rows: shape (T, n, words), uint32: the graphs.
        logs: shape (T,): ln of their weights, up to a constant.
        order: shape (T,): the index of the graph at each temperature.
        clock: [round, c]: before round c, beta is at most ε^(1 - round / c), ε the last of betas, so that all
            graphs cool down together; those at this bound are resampled when it rises.
        counts: [proposals, accepted, exchanges 0, 1, …], the first two at beta 1, the others after cooling.
        left: shape (T,): the proposals left in the round at each temperature; -1 before it begins.
        betas: shape (T,): 1 first, then less: the weight at a temperature is w^beta.
        steps: proposals at a temperature in a round, beta 1 excepted.
        scores: see `moves.ChainScores`.
        proposals: see `moves.ProposalMix`.
        trace: shape (rounds, n, words): the rows of the graph at beta 1 after each round; written.
        heights: shape (rounds,): its ln weight; written.

    Returns:
        The number of rounds completed: all, or those before a round that waits for scores.
    """
    temperatures, n, words = rows.shape
    rounds = heights.size
    drawn_from = n - (scores.star >= 0)
    scratch = zeros((8, words), np.int64)
    present = betas.copy()
    for r in range(rounds):
        # The exponents of the ladder, bounded while the graphs cool down.
        cooling = clock[0] < clock[1]
        copy_onto(present, betas)
        if cooling:
            bound, cool = betas[-1] ** (1 - clock[0] / clock[1]), 0
            while cool < temperatures and betas[cool] >= bound:
                present[cool] = bound
                cool += 1
            rise = bound - betas[-1] ** (1 - (clock[0] - 1) / clock[1])
            if clock[0] > 0 and left[0] < 0:
                resample(rows, logs, order, cool, rise, states)
        if left[0] < 0:  # a new round; otherwise one that waited for scores continues
            left[:] = steps
            if not cooling:
                left[0] *= max(1, temperatures - 1)
            counts[0] += left[0]
        for t in range(temperatures):
            graph = rows[order[t]]
            beta = present[t]
            state = states[1 + t : 2 + t]
            requested = scores.wanted[0]
            while left[t] > 0:
                drawn = state[0]
                u, v = _draw_pair(drawn_from, proposals, state)
                kind = uniform(state)
                if kind < proposals.branches:
                    gain, moved = _move_branch(graph, u, v, beta, scores, scratch, state)
                elif kind < proposals.branches + proposals.exchanges:
                    gain, moved = _exchange(graph, u, v, beta, scores, proposals, scratch, state)
                else:
                    gain, moved = _change_edge(graph, u, v, beta, scores, scratch, state)
                if scores.wanted[0] > requested:  # undo the draws, and wait: the proposal is repeated
                    state[0] = drawn
                    break
                logs[order[t]] += gain
                counts[1] += moved and t == 0
                left[t] -= 1
        if scores.wanted[0] > 0:
            return r
        # Even and odd pairs in turn, so that graphs pass on in one direction (Syed et al.).
        for t in range(clock[0] % 2, temperatures - 1, 2):
            cold, hot = order[t], order[t + 1]
            if _accepts((present[t] - present[t + 1]) * (logs[hot] - logs[cold]), states):
                order[t], order[t + 1] = hot, cold
                counts[2 + t] += not cooling
        for v in range(n):
            copy_onto(trace[r, v], rows[order[0], v])
        heights[r] = logs[order[0]]
        clock[0] += 1
        left[:] = -1
    return rounds
