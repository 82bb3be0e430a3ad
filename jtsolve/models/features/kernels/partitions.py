"""The inner loops of LMIP: components of dependent variables in the rows of a context.

Variables are numbered within the context, literals through its variables (see `counts`). The label of a
component is its least member; `labels` has that of each variable, -1 for those that the context fixes.

A set A joins components if min over ∅ ⊊ X ⊊ A of I(X; A∖X) is above a threshold: δ, or for a G test, the
quantile of χ² with the degrees of freedom of the cut, divided by 2N.
"""

from __future__ import annotations

import numpy as np

from jtsolve.backends.consistent.kernels.least_cuts import next_set
from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import copy_onto, empty, filled, zeros
from jtsolve.models.features.kernels.counts import pair_counts
from jtsolve.scoring.kernels.bitcounting import ones


@kernel
def threshold(g_test, value, degrees, total):
    """Returns the mutual information, in nats, above which two sets are dependent.

    Args:
        g_test: whether it is the threshold of a G test; otherwise δ.
        value: δ, or the standard normal quantile of the test, which the formula of Wilson and Hilferty
            (Proceedings of the National Academy of Sciences 17, 1931) turns into that of χ².
        degrees: of freedom.
        total: the weight of the rows.
    """
    if not g_test:
        return value
    spread = 2.0 / (9.0 * degrees)
    return degrees * (1.0 - spread + value * np.sqrt(spread)) ** 3 / (2.0 * total)


@kernel(inline="always")
def merge_pairs(counts, total, first, states, g_test, value, labels):
    """Merges the components of every dependent pair of variables; see `partition` for the arguments."""
    n = first.size - 1
    for i in range(n):
        for j in range(i):
            if labels[i] < 0 or labels[j] < 0 or labels[i] == labels[j]:
                continue
            information = 0.0
            for a in range(first[i], first[i + 1]):
                for b in range(first[j], first[j + 1]):
                    both = counts[a, b]
                    if both > 0.0:
                        information += both * np.log(both * total / (counts[a, a] * counts[b, b]))
            limit = threshold(g_test, value, (states[i] - 1) * (states[j] - 1), total)
            if information > limit * total:
                _join(labels, i, j)


@kernel
def _join(labels, i, j):
    """Merges the components of i and j."""
    low, high = min(labels[i], labels[j]), max(labels[i], labels[j])
    for v in range(labels.size):
        if labels[v] == high:
            labels[v] = low


@kernel
def merge_sets(codes, weights, kinds, counts, total, first, states, g_test, value, size, labels, halt):
    """Merges, for each set A of one size, the components that A meets if every cut of A is dependent.

    Sets within one component are skipped, since they merge nothing. So are variables whose entropy is at most
    the threshold of their smallest cut.
    """
    pairs = _pair_gains(counts, total, first)
    able = empty(first.size - 1, np.int64)
    n = 0
    for v in range(first.size - 1):
        if labels[v] >= 0 and -pairs[v, v] > threshold(g_test, value, states[v] - 1, total):
            able[n] = v
            n += 1
    if size > n or _is_one(labels, able[:n]):
        return
    places, A = empty(size, np.int64), empty(size, np.int64)
    for k in range(size):
        places[k], A[k] = k, able[k]
    gain = zeros(1 << size, np.float64)
    rows = codes.shape[1]
    bits, ends = _bits(codes, weights, kinds, first)
    words = ends[-1]
    held = empty((2 * rows // words + 1, words), np.uint64)
    others = filled(size - 1, np.int64, -1)  # the variables whose joint states are in `held`
    while not halt[0]:
        if not _is_one(labels, A):
            cells = 1
            for v in A:
                cells *= first[v + 1] - first[v]
            table = zeros(cells, np.float64)
            if cells * words <= 2 * rows:
                same = True
                for k in range(1, size):
                    same &= others[k - 1] == A[k]
                if not same:
                    copy_onto(others, A[1:])
                    _hold(bits, first, others, held)
                _count_bits(bits, ends, kinds, first, A[0], held, table)
            else:
                _count_rows(codes, weights, first, A, table)
            _entropies(table, total, first, A, pairs, gain)
            if _every_cut(gain, total, states, A, g_test, value):
                for k in range(1, size):
                    _join(labels, A[0], A[k])
                if _is_one(labels, able[:n]):
                    return
        if not next_set(places, n):
            return
        for k in range(size):
            A[k] = able[places[k]]


@kernel(inline="always")
def _bits(codes, weights, kinds, first):
    """Returns the rows of each literal as a bit set, shape (literals, words), uint64.

    Words hold rows of one weight only: also returns the ends of the words of each weight.
    """
    kind, used = empty(weights.size, np.int64), zeros(kinds.size, np.int64)
    for r in range(weights.size):
        low, high = 0, kinds.size - 1
        while low < high:
            middle = (low + high) // 2
            if kinds[middle] < weights[r]:
                low = middle + 1
            else:
                high = middle
        kind[r] = low
        used[low] += 1
    ends, words = empty(kinds.size, np.int64), 0
    for k in range(kinds.size):
        begin, words = 64 * words, words + (used[k] + 63) // 64
        used[k], ends[k] = begin, words
    bits = zeros((first[-1], words), np.uint64)
    for r in range(weights.size):
        at = used[kind[r]]
        used[kind[r]] += 1
        for v in range(codes.shape[0]):
            bits[first[v] + codes[v, r], at >> 6] |= np.uint64(1) << np.uint64(at & 63)
    return bits, ends


@kernel(inline="always")
def _hold(bits, first, variables, held):
    """Writes the rows of each joint state of some variables to `held`, the first one varying fastest."""
    held[0] = ~np.uint64(0)
    cells = 1
    for v in variables[::-1]:
        arity = first[v + 1] - first[v]
        for cell in range(cells - 1, -1, -1):
            for state in range(arity - 1, -1, -1):
                for word in range(bits.shape[1]):
                    held[cell * arity + state, word] = held[cell, word] & bits[first[v] + state, word]
        cells *= arity


@kernel(inline="always")
def _count_bits(bits, ends, kinds, first, v, held, table):
    """Writes the weight of the rows of each joint state of v and the variables of `held`, v fastest."""
    arity = first[v + 1] - first[v]
    for cell in range(table.size):
        literal = first[v] + cell % arity
        start = 0
        for kind in range(ends.size):
            inside = np.uint64(0)
            for word in range(start, ends[kind]):
                inside += ones(held[cell // arity, word] & bits[literal, word])
            table[cell] += kinds[kind] * np.int64(inside)
            start = ends[kind]


@kernel(inline="always")
def _count_rows(codes, weights, first, A, table):
    """Writes the weight of the rows of each joint state of A, its first variable varying fastest."""
    for r in range(codes.shape[1]):
        at = np.int64(0)
        for v in A[::-1]:
            at = at * (first[v + 1] - first[v]) + np.int64(codes[v, r])
        table[at] += weights[r]


@kernel
def _is_one(labels, variables):
    """Returns whether some variables are in one component."""
    for v in variables:  # noqa: SIM110 - a generator compiles to worse
        if labels[v] != labels[variables[0]]:
            return False
    return True


@kernel(inline="always")
def _pair_gains(counts, total, first):
    """Returns minus the entropy of each pair of variables, in nats; that of single ones on the diagonal."""
    n = first.size - 1
    gains = zeros((n, n), np.float64)
    for i in range(n):
        for j in range(i + 1):
            for a in range(first[i], first[i + 1]):
                for b in range(first[j], first[j + 1]):
                    if counts[a, b] > 0.0 and (i != j or a == b):
                        gains[i, j] += counts[a, b] / total * np.log(counts[a, b] / total)
            gains[j, i] = gains[i, j]
    return gains


@kernel(inline="always")
def _every_cut(gain, total, states, A, g_test, value):
    """Returns whether each cut of A is above its threshold."""
    full = (1 << A.size) - 1
    for x in range(1, 1 << (A.size - 1)):
        left, right = 1.0, 1.0
        for k in range(A.size):
            if (x >> k) & 1:
                left *= states[A[k]]
            else:
                right *= states[A[k]]
        cut = gain[full] - gain[x] - gain[full ^ x]
        if cut <= threshold(g_test, value, (left - 1.0) * (right - 1.0), total):
            return False
    return True


@kernel(inline="always")
def _entropies(table, total, first, A, pairs, gain):
    """Writes minus the entropy of each subset of A, a bit mask, in nats; `pairs` has those of up to two."""
    for subset in range(1, gain.size):
        members, low, high = 0, 0, 0
        for k in range(A.size):
            if (subset >> k) & 1:
                low = k if members == 0 else low
                high = k
                members += 1
        if members <= 2:
            gain[subset] = pairs[A[low], A[high]]
        elif members == A.size:
            gain[subset] = _sum_of_terms(table, total)
        else:
            sums = zeros(table.size, np.float64)
            for cell in range(table.size):
                rest, place, stride = cell, 0, 1
                for k in range(A.size):
                    arity = first[A[k] + 1] - first[A[k]]
                    if (subset >> k) & 1:
                        place += (rest % arity) * stride
                        stride *= arity
                    rest //= arity
                sums[place] += table[cell]
            gain[subset] = _sum_of_terms(sums, total)


@kernel
def _sum_of_terms(counts, total):
    """Returns Σ p ln p of some counts, p = n / N."""
    found = 0.0
    for count in counts:
        if count > 0.0:
            found += count / total * np.log(count / total)
    return found


@kernel(inline="always")
def partition(codes, weights, kinds, counts, total, first, states, g_test, value, q, least, labels, halt):
    """LMIP (Algorithm 1): merges components of `labels`; too few rows leave them as they are.

    Args:
        codes: (variables, rows), the rows of the context.
        weights: (rows,).
        kinds: the different weights of these and other rows, in order.
        counts: see `pair_counts`.
        total: the weight of the rows.
        first: (variables + 1,), the first literal of each variable.
        states: (variables,), the numbers of states left.
        g_test: see `threshold`.
        value: δ or a quantile.
        q: the size of the largest sets.
        least: the weight of rows below which there are too few.
        labels: (variables,), the initial components: those tied by clauses.
        halt: see `threads.run_kernel`.
    """
    if total < least:
        return
    merge_pairs(counts, total, first, states, g_test, value, labels)
    for size in range(3, q + 1):
        merge_sets(codes, weights, kinds, counts, total, first, states, g_test, value, size, labels, halt)


@kernel(inline="always")
def log_score(labels, states):
    """Returns ln of 1 / Σ over the components of their numbers of joint states; 0 if none is open."""
    n = labels.size
    logs = filled(n, np.float64, -np.inf)
    for v in range(n):
        if labels[v] >= 0:
            if logs[labels[v]] == -np.inf:
                logs[labels[v]] = 0.0
            logs[labels[v]] += np.log(states[v])
    high, total = -np.inf, 0.0
    for v in range(n):
        high = max(high, logs[v])
    if high == -np.inf:
        return 0.0
    for v in range(n):
        total += np.exp(logs[v] - high)
    return -(high + np.log(total))


@kernel
def _chosen(codes, weights, picked, wanted):
    """Returns the codes and the weights of the rows that are picked, or of the others."""
    count = 0
    for r in range(picked.size):
        count += picked[r] == wanted
    rows, times = empty((codes.shape[0], count), codes.dtype), empty(count, weights.dtype)
    at = 0
    for r in range(picked.size):
        if picked[r] == wanted:
            for v in range(codes.shape[0]):
                rows[v, at] = codes[v, r]
            times[at] = weights[r]
            at += 1
    return rows, times


@kernel
def score_features(
    codes, weights, kinds, first, holds, literals, states, labels, g_test, value, q, least, out, halt
):
    """Scores candidates: the conjunctions of a feature with one more literal each.

    Args:
        codes: (variables, rows), the rows of the context.
        weights: (rows,).
        kinds: see `partition`.
        first: (variables + 1,), the first literal of each variable.
        holds: (rows,), whether the feature holds; everywhere for the empty one.
        literals: (candidates, 2), variable and state of the literal to add.
        states: (candidates, 2, variables), the states left if the candidate fails, and if it holds.
        labels: (candidates, 2, variables), the initial components; receives those of LMIP.
        g_test, value, q, least: see `partition`.
        out: (candidates, 3), receives the logarithms of the scores of both sides, and the information, in
            nats times rows, of the candidate on the single variables.
        halt: see `threads.run_kernel`.
    """
    whole = pair_counts(codes, weights, first, halt)
    all_rows = 0.0
    for r in range(weights.size):
        all_rows += weights[r]
    for c in range(literals.shape[0]):
        if halt[0]:
            return
        v, state = literals[c, 0], literals[c, 1]
        picked = zeros(codes.shape[1], np.bool_)
        total = 0.0
        for r in range(codes.shape[1]):
            if holds[r] and codes[v, r] == state:
                picked[r] = True
                total += weights[r]
        rows, times = _chosen(codes, weights, picked, True)
        counts = pair_counts(rows, times, first, halt)
        others = empty(whole.shape, np.float64)
        for s in range(first[-1]):
            for t in range(first[-1]):
                others[s, t] = max(whole[s, t] - counts[s, t], 0.0)
        for side in range(2):  # where the candidate fails, and where it holds
            rows, times = _chosen(codes, weights, picked, side == 1)
            own, mass = (counts, total) if side else (others, all_rows - total)
            left, found = states[c, side], labels[c, side]
            partition(rows, times, kinds, own, mass, first, left, g_test, value, q, least, found, halt)
            out[c, side] = log_score(found, left)
        out[c, 2] = 0.0
        for s in range(first[-1]):
            out[c, 2] += _term(counts[s, s], total) + _term(others[s, s], all_rows - total)
            out[c, 2] -= _term(whole[s, s], all_rows)


@kernel
def _term(count, total):
    """Returns n ln (n / N)."""
    return count * np.log(count / total) if count > 0.0 else 0.0
