"""The inner loops of LMIP: which variables belong together in the rows of a context.

Variables are numbered within the context, literals through its variables (see `counts`). A component has the
number of its least member; `labels` holds it for each variable, -1 for those that the context fixes.

A set A joins components if min over ∅ ⊊ X ⊊ A of I(X; A∖X) is above a threshold, which depends on the test:
0: δ; 1: the quantile of χ² with the cut's degrees of freedom, over 2N; 2: ½ ln N · degrees of freedom / N.
"""

from __future__ import annotations

import numpy as np

from jtsolve.backends.consistent.kernels.least_cuts import least_cut_by_queyranne, next_set
from jtsolve.core.compiling import kernel
from jtsolve.models.features.kernels.counts import pair_counts


@kernel
def threshold(test, value, degrees, total):
    """Returns the mutual information, in nats, above which two sets are dependent.

    Args:
        test: see above.
        value: δ; or the standard normal quantile of the test, from which that of χ² follows by the formula of
            Wilson and Hilferty (Proceedings of the National Academy of Sciences 17, 1931).
        degrees: of freedom.
        total: the weight of the rows.
    """
    if test == 0:
        return value
    if test == 1:
        spread = 2.0 / (9.0 * degrees)
        return degrees * (1.0 - spread + value * np.sqrt(spread)) ** 3 / (2.0 * total)
    return 0.5 * np.log(total) * degrees / total


@kernel
def merge_pairs(counts, total, first, states, test, value, labels):
    """Merges the components of every pair of variables that is dependent; see `pair_counts`.

    `states` holds the numbers of states left, for the degrees of freedom.
    """
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
            limit = threshold(test, value, (states[i] - 1) * (states[j] - 1), total)
            if information > limit * total:
                _join(labels, i, j)


@kernel
def _join(labels, i, j):
    """Makes one component of those of i and j."""
    low, high = min(labels[i], labels[j]), max(labels[i], labels[j])
    for v in range(labels.size):
        if labels[v] == high:
            labels[v] = low


@kernel
def merge_sets(codes, weights, total, first, states, test, value, size, queyranne, labels):
    """Merges the components that sets A of one size meet, if every cut of A is dependent.

    A set within one component would merge nothing, and is not tested. Queyranne's algorithm is for test 0,
    where the threshold is the same for all cuts.
    """
    n = first.size - 1
    if size > n:
        return
    A = np.arange(size)
    gain = np.empty(1 << size)
    while True:
        crosses, is_open = False, labels[A[0]] >= 0
        for k in range(1, size):
            crosses = crosses or labels[A[k]] != labels[A[0]]
            is_open = is_open and labels[A[k]] >= 0
        if crosses and is_open:
            _entropies(codes, weights, total, first, A, gain)
            if queyranne:
                is_strong = least_cut_by_queyranne(gain, size, value) > value
            else:
                is_strong = _every_cut(gain, total, states, A, test, value)
            if is_strong:
                for k in range(1, size):
                    _join(labels, A[0], A[k])
        if not next_set(A, n):
            return


@kernel
def _every_cut(gain, total, states, A, test, value):
    """Tells whether each cut of A is above its threshold."""
    full = (1 << A.size) - 1
    for x in range(1, 1 << (A.size - 1)):
        left, right = 1.0, 1.0
        for k in range(A.size):
            if (x >> k) & 1:
                left *= states[A[k]]
            else:
                right *= states[A[k]]
        cut = gain[full] - gain[x] - gain[full ^ x]
        if cut <= threshold(test, value, (left - 1.0) * (right - 1.0), total):
            return False
    return True


@kernel
def _entropies(codes, weights, total, first, A, gain):
    """Writes minus the entropy of each subset of A, in nats, as a bit mask."""
    cells = 1
    for v in A:
        cells *= first[v + 1] - first[v]
    table = np.zeros(cells)
    for r in range(codes.shape[1]):
        at = np.int64(0)
        for v in A:
            at = at * (first[v + 1] - first[v]) + np.int64(codes[v, r])
        table[at] += weights[r]
    for subset in range(1 << A.size):
        sums = np.zeros(cells)
        for cell in range(cells):
            rest, place, stride = cell, 0, 1
            for k in range(A.size - 1, -1, -1):
                arity = first[A[k] + 1] - first[A[k]]
                if (subset >> k) & 1:
                    place += (rest % arity) * stride
                    stride *= arity
                rest //= arity
            sums[place] += table[cell]
        gain[subset] = 0.0
        for cell in range(cells):
            if sums[cell] > 0.0:
                gain[subset] += sums[cell] / total * np.log(sums[cell] / total)


@kernel
def partition(codes, weights, counts, total, first, states, test, value, q, queyranne, least, labels):
    """LMIP (Algorithm 1): merges components of `labels`; too few rows leave them as they are.

    Args:
        codes: (variables, rows), the rows of the context.
        weights: (rows,).
        counts: see `pair_counts`.
        total: the weight of the rows.
        first: (variables + 1,), the first literal of each variable.
        states: (variables,), the numbers of states left.
        test: see the head of this module.
        value: δ or a quantile.
        q: the size of the largest sets.
        queyranne: whether to use his algorithm in place of enumeration.
        least: the weight of rows below which they are too few.
        labels: (variables,), the components to begin with: those that clauses tie together.
    """
    if total < least:
        return
    merge_pairs(counts, total, first, states, test, value, labels)
    for size in range(3, q + 1):
        merge_sets(codes, weights, total, first, states, test, value, size, queyranne, labels)


@kernel
def log_score(labels, states):
    """Returns ln of 1 / Σ over the components of their numbers of joint states; 0 if none is open."""
    n = labels.size
    logs = np.full(n, -np.inf)
    for v in range(n):
        if labels[v] >= 0:
            if logs[labels[v]] == -np.inf:
                logs[labels[v]] = 0.0
            logs[labels[v]] += np.log(states[v])
    high = logs.max()
    if high == -np.inf:
        return 0.0
    return -(high + np.log(np.exp(logs - high).sum()))


@kernel
def score_features(
    codes, weights, first, holds, literals, states, labels, test, value, q, queyranne, least, support, out
):
    """Scores candidates: the conjunctions of a feature with one more literal each.

    Args:
        codes: (variables, rows), the rows of the context.
        weights: (rows,).
        first: (variables + 1,), the first literal of each variable.
        holds: (rows,), whether the feature holds; everywhere for the empty one.
        literals: (candidates, 2), variable and state of the literal to add.
        states: (candidates, 2, variables), the states left if the candidate fails, and if it holds.
        labels: (candidates, 2, variables), the components to begin with; takes those of LMIP.
        test: see `partition`, like `value`, `q`, `queyranne` and `least`.
        value: see `partition`.
        q: see `partition`.
        queyranne: see `partition`.
        least: see `partition`.
        support: the weight of rows that both sides need.
        out: (candidates, 3), takes the logarithms of the scores of both sides, and the information, in nats
            times rows, of the candidate on the single variables; NaN for one without support.
    """
    whole = pair_counts(codes, weights, first)
    all_rows = weights.sum()
    for c in range(literals.shape[0]):
        v, state = literals[c]
        picked = np.zeros(codes.shape[1], np.bool_)
        total = 0.0
        for r in range(codes.shape[1]):
            if holds[r] and codes[v, r] == state:
                picked[r] = True
                total += weights[r]
        if total < support or all_rows - total < support:
            out[c, :] = np.nan
            continue
        inside, apart = codes[:, picked], codes[:, ~picked]
        counts = pair_counts(inside, weights[picked], first)
        others = np.maximum(whole - counts, 0.0)
        partition(
            apart,
            weights[~picked],
            others,
            all_rows - total,
            first,
            states[c, 0],
            test,
            value,
            q,
            queyranne,
            least,
            labels[c, 0],
        )
        partition(
            inside,
            weights[picked],
            counts,
            total,
            first,
            states[c, 1],
            test,
            value,
            q,
            queyranne,
            least,
            labels[c, 1],
        )
        out[c, 0] = log_score(labels[c, 0], states[c, 0])
        out[c, 1] = log_score(labels[c, 1], states[c, 1])
        out[c, 2] = 0.0
        for s in range(first[-1]):
            out[c, 2] += _term(counts[s, s], total) + _term(others[s, s], all_rows - total)
            out[c, 2] -= _term(whole[s, s], all_rows)


@kernel
def _term(count, total):
    """Returns n ln (n / N)."""
    return count * np.log(count / total) if count > 0.0 else 0.0
