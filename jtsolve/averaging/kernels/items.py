"""Exact sums over states and the sets of vertices that are introduced; `averaging.items` has the recurrences.

An item is a set K with the total of its trees: `weight` under the multipliers, `log`, ln of the exact weight,
and `bare`, the share of that in trees whose head has no full component below it. `tail` sums the weights of
the item and those after it in its block. Blocks are sorted by decreasing weight, and hold each set once.
"""

from __future__ import annotations

from collections import namedtuple
from math import exp, inf, log

import numpy as np

from jtsolve.averaging.kernels.random import uniform
from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, filled, zeros

Items = namedtuple("Items", ("mask", "weight", "log", "bare", "tail"))
Blocks = namedtuple("Blocks", ("T", "H", "P", "active", "floor"))
"""Begin and end of the items of T(i,k), H(s,k) and P(s,k), shape (·, n + 1, 2); the slots with items; and
the least weight of products, shape (slots, n + 1)."""
Outsides = namedtuple("Outsides", ("marked", "T", "P"))
"""Adjoints of `kernels.relaxed.outside` for sets of q marked vertices, shape (sets, q): of T, shape
(sets, 2^q, n + 1, m), and of P, shape (sets, slots, 2^q, n + 1)."""


@kernel
def start(capacity):
    """Returns items with the empty product, item 0."""
    numbers = empty((4, capacity), np.float64)
    items = Items(empty(capacity, np.int64), numbers[0], numbers[1], numbers[2], numbers[3])
    items.mask[0], items.weight[0], items.log[0], items.bare[0], items.tail[0] = 0, 1.0, 0.0, 1.0, 1.0
    return items


@kernel
def _room(items, size):
    """Returns the items in arrays of at least this size."""
    if size <= items.mask.size:
        return items
    larger = start(max(size, 2 * items.mask.size))
    for e in range(items.mask.size):
        _copy(larger, e, items, e)
        larger.tail[e] = items.tail[e]
    return larger


@kernel
def _copy(items, at, found, e):
    items.mask[at], items.weight[at], items.log[at] = found.mask[e], found.weight[e], found.log[e]
    items.bare[at] = found.bare[e]


@kernel
def _slot(table, masks, mask):
    """Returns the place of the set in a hash table of positions in `masks`, or the free one for it."""
    # Linear probing ends, since at least half of the table is free.
    h = mask * 0x2545F4914F6CDD1D
    h = (h ^ (h >> 32)) & (table.size - 1)
    while table[h] >= 0 and masks[table[h]] != mask:
        h = (h + 1) & (table.size - 1)
    return h


@kernel
def _table(count):
    """Returns an empty hash table for `count` sets."""
    size = 4
    while size < 2 * count:
        size *= 2
    return filled(size, np.int64, -1)


@kernel
def _index(masks, first, past):
    """Returns a hash table of the positions of the sets masks[first:past]."""
    table = _table(past - first)
    for at in range(first, past):
        table[_slot(table, masks, masks[at])] = at
    return table


@kernel
def _merged(found, count):
    """Sums the first `count` items by sets; returns the sums, their number, and the terms of the longest."""
    table, number, terms = _table(count), empty(count, np.int64), zeros(count, np.int64)
    sums, sets, longest = start(max(1, count)), 0, 0
    for e in range(count):
        h = _slot(table, sums.mask, found.mask[e])
        if table[h] < 0:
            table[h] = sets
            sums.mask[sets], sums.weight[sets], sums.tail[sets] = found.mask[e], 0.0, -inf
            sums.log[sets] = sums.bare[sets] = 0.0
            sets += 1
        at = number[e] = table[h]
        sums.weight[at] += found.weight[e]
        sums.tail[at] = max(sums.tail[at], found.log[e])
        terms[at] += 1
        longest = max(longest, terms[at])
    # ln of a sum relative to its largest term, which `tail` holds here: no term overflows.
    for e in range(count):
        at = number[e]
        share = exp(found.log[e] - sums.tail[at])
        sums.log[at] += share
        sums.bare[at] += share * found.bare[e]
    for at in range(sets):
        sums.bare[at] /= sums.log[at]
        sums.log[at] = sums.tail[at] + log(sums.log[at])
    return sums, sets, longest


@kernel
def _sum_tails(items, first, past):
    tail = 0.0
    for e in range(past - 1, first - 1, -1):
        tail += items.weight[e]
        items.tail[e] = tail


@kernel
def _appended(items, used, sums, count):
    """Returns the items with a block of the first `count` sums, and the number used."""
    items, first = _room(items, used + count), used
    for e in np.argsort(-sums.weight[:count]):
        _copy(items, used, sums, e)
        used += 1
    _sum_tails(items, first, used)
    return items, used


@kernel
def _least(marked, adjoints, mask):
    """Returns the least adjoint over the sets of marked vertices, each of these in the set or outside."""
    least = inf
    for x in range(len(marked)):
        b = 0
        for place in range(marked.shape[1]):
            b |= (mask >> marked[x, place] & 1) << place
        least = min(least, adjoints[x, b])
    return least


@kernel
def extend(
    k, low, high, states, weights, logs, within, required, outsides, threshold, loose, most, counts, part,
    items, blocks,
):  # fmt: skip
    """Returns the items of H(s,k), P(s,k) and T(i,k + 1) of some states, from those of fewer introductions.

    Positions in their blocks are those in the returned items.

    Args:
        k: the number of introductions, 0 to n - 1 of n variables.
        low, high: the states, m for the forest.
        states: `kernels.states.States`.
        weights: shape (m,): of each state, under the multipliers.
        logs: shape (m,): ln of its exact weight.
        within: shape (m,), int64: S of the state's family (u,S), as a bit mask.
        required: shape (n,), int64: the required neighbours of each vertex.
        outsides: of the relaxed sum.
        threshold: items whose weight times its outside is less are dropped.
        loose: the threshold of products before they are summed, as a share of that.
        most: number of items, terms included, at which to stop.
        counts: shape (parts,), int64: those of each part of the states; written.
        part: the number of this part.
        items: `Items` of fewer introductions.
        blocks: `Blocks`; written.

    Returns:
        The items, their number, the mass of the dropped graphs, inf if it stopped early; and the number of
        terms of the longest sum.
    """
    m = weights.size
    T, H, P, active, floors = blocks
    lost, longest = 0.0, 0
    own, used = start(1024), 0
    found = start(1024)
    for i in range(low, high):
        first, past = states.first_slot[i], states.first_slot[i + 1]
        prev = -1
        for s in range(first, past):
            if k == 0:
                P[s, 0, 0], P[s, 0, 1] = 0, 1
                continue
            counts[part] = used
            room = most - counts.sum()
            # H(s,k): the children's items of T, equal sets summed. No item of H is dropped.
            count = 0
            for c in range(states.first_child[s], states.first_child[s + 1]):
                a, b = T[states.child[c], k, 0], T[states.child[c], k, 1]
                if count + b - a > room:
                    return own, used, inf, longest
                found = _room(found, count + b - a)
                for e in range(a, b):
                    _copy(found, count, items, e)
                    found.bare[count] = 0.0 if states.full[c] else 1.0
                    count += 1
            if count:
                active[s] = True
                sums, sets, terms = _merged(found, count)
                longest = max(longest, terms)
                H[s, k, 0] = used
                own, used = _appended(own, used, sums, sets)
                H[s, k, 1] = used
            # A slot without items leaves the product as it is; the first one is a product by itself.
            if prev < 0 or not active[s]:
                if prev >= 0:
                    P[s, k, 0], P[s, k, 1] = P[prev, k, 0], P[prev, k, 1]
                elif active[s]:
                    P[s, k, 0], P[s, k, 1] = H[s, k, 0], H[s, k, 1]
                prev = s
                continue
            P[s, k, 0] = P[s, k, 1] = used
            count = P[prev, k, 1] - P[prev, k, 0]
            pairs = 0
            for j in range(1, k + 1):
                pairs += (H[s, j, 1] - H[s, j, 0]) * (P[prev, k - j, 1] - P[prev, k - j, 0])
            if count == pairs == 0:
                prev = s
                continue
            # Any marked vertices bound the mass of a product; by the largest adjoint before its set is known.
            adjoints = outsides.P[:, s, :, k].copy()
            plain = inf
            for x in range(len(outsides.marked)):
                largest = 0.0
                for b in range(adjoints.shape[1]):
                    largest = max(largest, adjoints[x, b])
                plain = min(plain, largest)
            floor = loose * threshold / plain if plain > 0.0 else inf
            floors[s, k] = floor
            found = _room(found, count)
            for e in range(count):
                _copy(found, e, own, P[prev, k, 0] + e)
            left = 0.0
            for j in range(1, k + 1):
                heads = own if j == k else items
                h0, h1, p0, p1 = H[s, j, 0], H[s, j, 1], P[prev, k - j, 0], P[prev, k - j, 1]
                if h0 == h1 or p0 == p1:
                    continue
                for a in range(h0, h1):
                    if count > room:
                        return own, used, inf, longest
                    # Blocks are in decreasing order of weight: all later products are below the floor, too.
                    if heads.weight[a] * items.weight[p0] < floor:
                        left += heads.tail[a] * items.tail[p0]
                        break
                    for b in range(p0, p1):
                        weight = heads.weight[a] * items.weight[b]
                        if weight < floor:
                            left += heads.weight[a] * items.tail[b]
                            break
                        if heads.mask[a] & items.mask[b]:
                            continue
                        found = _room(found, count + 1)
                        found.mask[count], found.weight[count] = heads.mask[a] | items.mask[b], weight
                        found.log[count] = heads.log[a] + items.log[b]
                        found.bare[count] = heads.bare[a] * items.bare[b]
                        count += 1
            counts[part] += count
            if left > 0.0:
                lost += left * plain
            if count:
                sums, sets, terms = _merged(found, count)
                longest = max(longest, terms)
                # Dropped graphs have at most the mass weight · adjoint: `lost` sums these.
                count = 0
                for e in range(sets):
                    mass = sums.weight[e] * _least(outsides.marked, adjoints, sums.mask[e])
                    if mass < threshold:
                        lost += mass
                    else:
                        _copy(sums, count, sums, e)
                        count += 1
                own, used = _appended(own, used, sums, count)
                P[s, k, 1] = used
            prev = s
        if i == m:
            continue
        u = states.vertex[i]
        a, b = (0, 1) if k == 0 else (0, 0)
        if k > 0 and past > first:
            a, b = P[past - 1, k, 0], P[past - 1, k, 1]
        products = items if k == 0 else own
        own = _room(own, used + b - a)
        T[i, k + 1, 0] = T[i, k + 1, 1] = used
        if a == b:
            continue
        # T(i,k + 1): u above a product, unless u occurs already or a required neighbour of u is missing.
        adjoints = outsides.T[:, :, k + 1, i].copy()
        for e in range(a, b):
            K = products.mask[e] | np.int64(1) << u
            if products.mask[e] >> u & 1 or required[u] & ~(K | within[i]):
                continue
            weight = products.weight[e] * weights[i]
            mass = weight * _least(outsides.marked, adjoints, K)
            if mass < threshold:
                lost += mass
            else:
                own.mask[used], own.weight[used] = K, weight
                own.log[used], own.bare[used] = products.log[e] + logs[i], products.bare[e]
                used += 1
        T[i, k + 1, 1] = used
        _sum_tails(own, T[i, k + 1, 0], used)
    counts[part] = used
    return own, used, lost, longest


@kernel
def spread_shares(k, low, high, states, items, blocks, share, begin, given):
    """Spreads the shares of some states' items of k introductions over the items that make them, in place.

    Args:
        k, low, high, states, items, blocks: see `extend`; k from n - 1 down to 1.
        share: shape (items,): at first the probability that a graph ends with each item; in the end that its
            tree has the item.
        begin: the first item that `extend` made for k - 1.
        given: zeros, one for each such item: the shares that the states' children gain.
    """
    m = states.family.size
    T, H, P, _, floors = blocks
    masks, weights, logs = items.mask, items.weight, items.log
    for i in range(low, high):
        first, past = states.first_slot[i], states.first_slot[i + 1]
        if first == past:
            continue
        if i < m and T[i, k + 1, 0] < T[i, k + 1, 1]:
            table = _index(masks, P[past - 1, k, 0], P[past - 1, k, 1])
            for e in range(T[i, k + 1, 0], T[i, k + 1, 1]):
                if share[e] != 0.0:
                    share[table[_slot(table, masks, masks[e] ^ (np.int64(1) << states.vertex[i]))]] += share[
                        e
                    ]
        for s in range(past - 1, first, -1):
            a, b = P[s, k, 0], P[s, k, 1]
            if a == b or (a == P[s - 1, k, 0] and b == P[s - 1, k, 1]):  # that of the slot before it
                continue
            table = _index(masks, a, b)
            for e in range(P[s - 1, k, 0], P[s - 1, k, 1]):
                at = table[_slot(table, masks, masks[e])]
                if at >= 0:
                    share[e] += share[at] * exp(logs[e] - logs[at])
            for j in range(1, k + 1):
                p0, p1 = P[s - 1, k - j, 0], P[s - 1, k - j, 1]
                for e in range(H[s, j, 0], H[s, j, 1]):
                    if p0 == p1 or weights[e] * weights[p0] < floors[s, k]:
                        break
                    for g in range(p0, p1):
                        if weights[e] * weights[g] < floors[s, k]:
                            break
                        if masks[e] & masks[g]:
                            continue
                        at = table[_slot(table, masks, masks[e] | masks[g])]
                        if at >= 0 and share[at] != 0.0:
                            part = share[at] * exp(logs[e] + logs[g] - logs[at])
                            share[e] += part
                            if j < k:
                                share[g] += part
        # H(s,k) is in products of k introductions and more, and all of these are done.
        for s in range(first, past):
            a, b = H[s, k, 0], H[s, k, 1]
            if a == b:
                continue
            table = _index(masks, a, b)
            for c in range(states.first_child[s], states.first_child[s + 1]):
                for e in range(T[states.child[c], k, 0], T[states.child[c], k, 1]):
                    at = table[_slot(table, masks, masks[e])]
                    given[e - begin] += share[at] * exp(logs[e] - logs[at])


@kernel
def draw_labelled(count, state, n, states, within, items, blocks, ends, cumulative):
    """Draws graphs that stay, in proportion to their weights; returns S of each vertex's family (u,S).

    Args:
        count: the number of graphs.
        state: of `kernels.random`.
        n: the number of variables.
        states, within, items, blocks: see `extend`.
        ends: the pairs of items that make graphs: of the root's component, and of the others.
        cumulative: shape (pairs,): the sums of their shares.
    """
    T, H, P, _, floors = blocks
    m = states.family.size
    graphs = zeros((count, n), np.int64)
    stack = zeros((3, n + 2), np.int64)
    for d in range(count):
        at = min(np.searchsorted(cumulative, uniform(state) * cumulative[-1], "right"), cumulative.size - 1)
        top = 0
        for i, e in ((m, ends[1][at]), (0, ends[0][at])):
            stack[0, top], stack[1, top] = i, e
            top += 1
        while top:
            top -= 1
            i, e = stack[0, top], stack[1, top]
            first, s, k = states.first_slot[i], states.first_slot[i + 1] - 1, 0
            left = items.mask[e]
            for v in range(n):
                k += left >> v & 1
            p = e
            if i < m:
                graphs[d, states.vertex[i]] = within[i]
                k -= 1
                left ^= np.int64(1) << states.vertex[i]
                p = 0
                if k > 0:
                    for g in range(P[s, k, 0], P[s, k, 1]):
                        if items.mask[g] == left:
                            p = g
            # Item p of P(s,k) is a product over the slots up to s: finds which.
            while k > 0:
                if s > first and P[s, k, 0] == P[s - 1, k, 0] and P[s, k, 1] == P[s - 1, k, 1]:
                    s -= 1
                    continue
                h, q, size = p, 0, k
                if s > first:
                    r, h = uniform(state), -1
                    for g in range(P[s - 1, k, 0], P[s - 1, k, 1]):
                        if items.mask[g] == left:
                            r -= exp(items.log[g] - items.log[p])
                            q, size = g, 0
                    for j in range(1, k + 1):
                        p0, p1 = P[s - 1, k - j, 0], P[s - 1, k - j, 1]
                        for a in range(H[s, j, 0], H[s, j, 1]):
                            if r < 0.0 or p0 == p1 or items.weight[a] * items.weight[p0] < floors[s, k]:
                                break
                            if items.mask[a] & ~left:
                                continue
                            for b in range(p0, p1):
                                if r < 0.0 or items.weight[a] * items.weight[b] < floors[s, k]:
                                    break
                                if items.mask[b] == left ^ items.mask[a]:
                                    r -= exp(items.log[a] + items.log[b] - items.log[p])
                                    h, q, size = a, b, j
                if h >= 0:
                    r, found = uniform(state), False
                    for c in range(states.first_child[s], states.first_child[s + 1]):
                        for g in range(T[states.child[c], size, 0], T[states.child[c], size, 1]):
                            if r >= 0.0 and items.mask[g] == items.mask[h]:
                                r -= exp(items.log[g] - items.log[h])
                                stack[0, top], stack[1, top] = states.child[c], g
                                found = True
                    top += found
                    left ^= items.mask[h]
                k -= size
                p = q
                s -= 1
    return graphs
