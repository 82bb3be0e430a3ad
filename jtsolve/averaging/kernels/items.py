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

Items = namedtuple("Items", ("mask", "weight", "log", "bare", "tail"))
Blocks = namedtuple("Blocks", ("T", "H", "P", "active", "floor"))
"""Begin and end of the items of T(i,k), H(s,k) and P(s,k), shape (·, n + 1, 2); the slots with items; and
the least weight of products, shape (slots, n + 1)."""
Outsides = namedtuple("Outsides", ("marked", "T", "P"))
"""Adjoints of `kernels.relaxed.outside` for marked vertices, or -1 alone: of T, shape
(marked, marks, n + 1, m), and of P, shape (marked, slots, marks, n + 1)."""


@kernel
def start(capacity):
    """Returns items with the empty product, item 0."""
    numbers = np.empty((4, capacity))
    items = Items(np.empty(capacity, np.int64), numbers[0], numbers[1], numbers[2], numbers[3])
    items.mask[0], items.weight[0], items.log[0], items.bare[0], items.tail[0] = 0, 1.0, 0.0, 1.0, 1.0
    return items


@kernel
def _room(items, size):
    """Returns the items in arrays of at least this size."""
    if size <= items.mask.size:
        return items
    known, larger = items.mask.size, start(max(size, 2 * items.mask.size))
    larger.mask[:known], larger.weight[:known], larger.log[:known] = items.mask, items.weight, items.log
    larger.bare[:known], larger.tail[:known] = items.bare, items.tail
    return larger


@kernel
def _merged(found, count):
    """Sums the first `count` items by sets; returns them by decreasing weight, and the longest sum."""
    order = np.argsort(found.mask[:count])
    sums = start(max(1, count))
    at = first = longest = 0
    while first < count:
        past, top, weight = first, -inf, 0.0
        while past < count and found.mask[order[past]] == found.mask[order[first]]:
            weight += found.weight[order[past]]
            top = max(top, found.log[order[past]])
            past += 1
        total = bare = 0.0
        for e in order[first:past]:
            share = exp(found.log[e] - top)
            total += share
            bare += share * found.bare[e]
        sums.mask[at], sums.weight[at] = found.mask[order[first]], weight
        sums.log[at], sums.bare[at] = top + log(total), bare / total
        at += 1
        longest = max(longest, past - first)
        first = past
    by = np.argsort(-sums.weight[:at])
    return Items(sums.mask[by], sums.weight[by], sums.log[by], sums.bare[by], sums.tail[by]), longest


@kernel
def _copy(items, at, found, e):
    items.mask[at], items.weight[at], items.log[at] = found.mask[e], found.weight[e], found.log[e]
    items.bare[at] = found.bare[e]


@kernel
def _sum_tails(items, first, past):
    tail = 0.0
    for e in range(past - 1, first - 1, -1):
        tail += items.weight[e]
        items.tail[e] = tail


@kernel
def _least(marked, adjoints, mask):
    """Returns the least adjoint over the marked vertices, each in the set or outside."""
    least = inf
    for x in range(marked.size):
        b = 0 if marked[x] < 0 else mask >> marked[x] & 1
        least = min(least, adjoints[x, b])
    return least


@kernel
def extend(k, states, weights, logs, within, required, outsides, threshold, loose, most, items, used, blocks):
    """Adds the items of H(s,k), P(s,k) and T(i,k + 1), from those of fewer introductions.

    Args:
        k: the number of introductions, 0 to n - 1 of n variables.
        states: `kernels.states.States`.
        weights: shape (m,): of each state, under the multipliers.
        logs: shape (m,): ln of its exact weight.
        within: shape (m,), int64: S of the state's family (u,S), as a bit mask.
        required: shape (n,), int64: the required neighbours of each vertex.
        outsides: of the relaxed sum.
        threshold: items whose weight times its outside is less are dropped.
        loose: the threshold of products before they are summed, as a share of that.
        most: number of items at which to stop.
        items: `Items`; those used are kept.
        used: their number.
        blocks: `Blocks`; written.

    Returns:
        The items, the number of those used, the mass of the dropped graphs, inf if it stopped early; and the
        number of terms of the longest sum.
    """
    m = weights.size
    T, H, P, active, floors = blocks
    lost, longest = 0.0, 0
    found, part = start(1024), 0
    for i in range(m + 1):
        first, past = states.first_slot[i], states.first_slot[i + 1]
        prev = -1
        for s in range(first, past):
            if k == 0:
                P[s, 0, 0], P[s, 0, 1] = 0, 1
                continue
            part = 0
            for c in range(states.first_child[s], states.first_child[s + 1]):
                a, b = T[states.child[c], k]
                if part + b - a + used > most:
                    return items, used, inf, longest
                found = _room(found, part + b - a)
                for e in range(a, b):
                    _copy(found, part, items, e)
                    found.bare[part] = 0.0 if states.full[c] else 1.0
                    part += 1
            if part:
                active[s] = True
                whole, terms = _merged(found, part)
                longest = max(longest, terms)
                items = _room(items, used + whole.mask.size)
                for e in range(whole.mask.size):
                    _copy(items, used + e, whole, e)
                H[s, k, 0], H[s, k, 1] = used, used + whole.mask.size
                used += whole.mask.size
                _sum_tails(items, H[s, k, 0], used)
            # A slot without items leaves the product as it is; the first one is a product by itself.
            if prev < 0 or not active[s]:
                if prev >= 0:
                    P[s, k] = P[prev, k]
                elif active[s]:
                    P[s, k] = H[s, k]
                prev = s
                continue
            adjoints = outsides.P[:, s, :, k].copy()
            plain = inf
            for x in range(outsides.marked.size):
                plain = min(plain, adjoints[x].max())
            floor = loose * threshold / plain if plain > 0.0 else inf
            floors[s, k] = floor
            part = 0
            for e in range(P[prev, k, 0], P[prev, k, 1]):
                found = _room(found, part + 1)
                _copy(found, part, items, e)
                part += 1
            left = 0.0
            for j in range(1, k + 1):
                h0, h1 = H[s, j]
                p0, p1 = P[prev, k - j]
                if h0 == h1 or p0 == p1:
                    continue
                for a in range(h0, h1):
                    if part + used > most:
                        return items, used, inf, longest
                    if items.weight[a] * items.weight[p0] < floor:
                        left += items.tail[a] * items.tail[p0]
                        break
                    for b in range(p0, p1):
                        weight = items.weight[a] * items.weight[b]
                        if weight < floor:
                            left += items.weight[a] * items.tail[b]
                            break
                        if items.mask[a] & items.mask[b]:
                            continue
                        found = _room(found, part + 1)
                        found.mask[part], found.weight[part] = items.mask[a] | items.mask[b], weight
                        found.log[part] = items.log[a] + items.log[b]
                        found.bare[part] = items.bare[a] * items.bare[b]
                        part += 1
            if left > 0.0:
                lost += left * plain
            begin = used
            if part:
                whole, terms = _merged(found, part)
                longest = max(longest, terms)
                items = _room(items, used + whole.mask.size)
                for e in range(whole.mask.size):
                    mass = whole.weight[e] * _least(outsides.marked, adjoints, whole.mask[e])
                    if mass < threshold:
                        lost += mass
                    else:
                        _copy(items, used, whole, e)
                        used += 1
                _sum_tails(items, begin, used)
            P[s, k, 0], P[s, k, 1] = begin, used
            prev = s
        if i == m:
            continue
        u = states.vertex[i]
        a, b = (0, 1) if k == 0 else (0, 0)
        if k > 0 and past > first:
            a, b = P[past - 1, k]
        items = _room(items, used + b - a)
        begin = used
        adjoints = outsides.T[:, :, k + 1, i].copy()
        for e in range(a, b):
            K = items.mask[e] | np.int64(1) << u
            if items.mask[e] >> u & 1 or required[u] & ~(K | within[i]):
                continue
            weight = items.weight[e] * weights[i]
            mass = weight * _least(outsides.marked, adjoints, K)
            if mass < threshold:
                lost += mass
            else:
                items.mask[used], items.weight[used] = K, weight
                items.log[used], items.bare[used] = items.log[e] + logs[i], items.bare[e]
                used += 1
        T[i, k + 1, 0], T[i, k + 1, 1] = begin, used
        _sum_tails(items, begin, used)
        if used > most:
            return items, used, inf, longest
    return items, used, lost, longest


@kernel
def ends(n, states, items, blocks):
    """Returns the pairs of items, of the root's component and the rest, that make graphs; and ln of each."""
    most = (blocks.T[0, :, 1] - blocks.T[0, :, 0]).sum()
    root, rest, logs = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
    full = (np.int64(1) << n) - 1
    m, count = states.family.size, 0
    last = states.first_slot[m + 1] - 1
    for k in range(1, n + 1):
        a, b = (0, 1) if k == n else (0, 0)
        if k < n and last >= states.first_slot[m]:
            a, b = blocks.P[last, n - k]
        order = a + np.argsort(items.mask[a:b])
        masks = items.mask[order]
        for e in range(blocks.T[0, k, 0], blocks.T[0, k, 1]):
            i = np.searchsorted(masks, full ^ items.mask[e])
            if i < masks.size and masks[i] == full ^ items.mask[e]:
                root[count], rest[count] = e, order[i]
                logs[count] = items.log[e] + items.log[order[i]]
                count += 1
    return root[:count], rest[:count], logs[:count]


@kernel
def _position(order, masks, mask):
    i = np.searchsorted(masks, mask)
    return order[i] if i < masks.size and masks[i] == mask else -1


@kernel
def spread_shares(n, states, items, blocks, share):
    """Spreads the shares of the ends of graphs over the items that make them, in place.

    Args:
        n: the number of variables.
        states, items, blocks: see `extend`.
        share: shape (items,): on entry the probability that a graph ends with each item; on return that its
            tree has the item.
    """
    m = states.family.size
    T, H, P, _, floors = blocks
    for k in range(n - 1, 0, -1):
        for i in range(m, -1, -1):
            first, past = states.first_slot[i], states.first_slot[i + 1]
            if first == past:
                continue
            if i < m and T[i, k + 1, 0] < T[i, k + 1, 1]:
                a, b = P[past - 1, k]
                order = a + np.argsort(items.mask[a:b])
                masks = items.mask[order]
                for e in range(T[i, k + 1, 0], T[i, k + 1, 1]):
                    if share[e] != 0.0:
                        mask = items.mask[e] ^ (np.int64(1) << states.vertex[i])
                        share[_position(order, masks, mask)] += share[e]
            for s in range(past - 1, first, -1):
                a, b = P[s, k]
                if a == b or (a == P[s - 1, k, 0] and b == P[s - 1, k, 1]):  # that of the slot before it
                    continue
                order = a + np.argsort(items.mask[a:b])
                masks = items.mask[order]
                for e in range(P[s - 1, k, 0], P[s - 1, k, 1]):
                    at = _position(order, masks, items.mask[e])
                    if at >= 0:
                        share[e] += share[at] * exp(items.log[e] - items.log[at])
                for j in range(1, k + 1):
                    p0, p1 = P[s - 1, k - j]
                    for e in range(H[s, j, 0], H[s, j, 1]):
                        if p0 == p1 or items.weight[e] * items.weight[p0] < floors[s, k]:
                            break
                        for g in range(p0, p1):
                            if items.weight[e] * items.weight[g] < floors[s, k]:
                                break
                            if items.mask[e] & items.mask[g]:
                                continue
                            at = _position(order, masks, items.mask[e] | items.mask[g])
                            if at >= 0 and share[at] != 0.0:
                                part = share[at] * exp(items.log[e] + items.log[g] - items.log[at])
                                share[e] += part
                                if j < k:
                                    share[g] += part
            # H(s,k) is in products of k introductions and more, and all of these are done.
            for s in range(first, past):
                a, b = H[s, k]
                if a == b:
                    continue
                order = a + np.argsort(items.mask[a:b])
                masks = items.mask[order]
                for c in range(states.first_child[s], states.first_child[s + 1]):
                    for e in range(T[states.child[c], k, 0], T[states.child[c], k, 1]):
                        at = _position(order, masks, items.mask[e])
                        share[e] += share[at] * exp(items.log[e] - items.log[at])


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
    graphs = np.zeros((count, n), np.int64)
    stack = np.zeros((3, n + 2), np.int64)
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
                        p0, p1 = P[s - 1, k - j]
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
