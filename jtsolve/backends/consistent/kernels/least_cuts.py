"""The inner loops of LTCI: least cuts of small sets, and the merging of components.

For a separator S and a set A of the other variables, the strength of A is

    strength_S(A) = min over ∅ ⊊ X ⊊ A of I(X; A∖X | S),
    I(X; Y | S) = s(S∪X∪Y) + s(S) − s(S∪X) − s(S∪Y).

Sets are in colex order: the rank of {a < b < c} is C(a,1) + C(b,2) + C(c,3).

References:
    Queyranne, Minimizing symmetric submodular functions, Mathematical Programming 82, 1998.
    Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS 2007 (Algorithm 2).
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty


@kernel
def least_cut(gain, size, threshold):
    """Returns min over ∅ ⊊ X ⊊ A of cut(X) = gain(A) + gain(∅) − gain(X) − gain(A∖X), if it is submodular.

    Queyranne's algorithm, with O(size³) evaluations of the gain.

    Orders the elements so that the last two, t and u, are a pendent pair: {u} is a least cut that separates
    them. Then t and u are merged, and so on. Where the cut is not submodular, the value is that of some
    cut, so it is no less than the least.

    Args:
        gain: shape (2^size,), a value for each subset of A, as a bit mask.
        size: |A|, at least 2.
        threshold: the search may end with any cut that is not above it.
    """
    full = (1 << size) - 1
    whole = gain[full] + gain[0]
    blocks = empty(size, np.int64)  # merged elements, as bit masks
    for i in range(size):
        blocks[i] = 1 << i
    best = np.inf
    for count in range(size, 1, -1):
        inside = blocks[0]  # W, the beginning of the order
        for position in range(1, count):
            chosen, key = position, np.inf
            for i in range(position, count):
                joint, block = inside | blocks[i], blocks[i]
                # cut(W∪u) − cut(u); the constant `whole` cancels
                value = gain[block] + gain[full ^ block] - gain[joint] - gain[full ^ joint]
                if value < key:
                    chosen, key = i, value
            blocks[position], blocks[chosen] = blocks[chosen], blocks[position]
            inside |= blocks[position]
        last = blocks[count - 1]
        cut = whole - gain[last] - gain[full ^ last]
        if cut < best:
            best = cut
            if best <= threshold:
                break
        blocks[count - 2] |= last
    return best


@kernel
def merge(A, values, offsets, binomial, labels, threshold, most, merged, strengths):
    """Merges the components that sets A of one size meet, if their strength is above the threshold.

    A set within one component is not tested: it would merge nothing.

    Args:
        A: shape (size,), the first set, as positions in `labels`; left at the first untested set.
        values, offsets: s(S∪B) for every set B of at most `size` positions, at offsets[|B|] + the rank of B.
        binomial: C(v, j) at [v, j].
        labels: shape (m,), the component of each position; changed.
        threshold: δ·N.
        most: maximum number of sets to test.
        merged: shape (m, size), receives the sets that merged components.
        strengths: shape (m,), receives their strengths.

    Returns:
        (the number of sets that merged components, the number tested, whether sets are left).
    """
    size = A.size
    gain = empty(1 << size, np.float64)
    rank = empty(1 << size, np.int64)
    rank[0] = 0
    found, tested = 0, 0
    for _ in range(most):
        crosses = False
        for i in range(1, size):
            if labels[A[i]] != labels[A[0]]:
                crosses = True
        if crosses:
            tested += 1
            gain[0] = values[0]
            for subset in range(1, 1 << size):
                # Without its highest member, the set has the rank less one binomial coefficient.
                top, count = 0, 0
                for i in range(size):
                    if (subset >> i) & 1:
                        top = i
                        count += 1
                rank[subset] = rank[subset ^ (1 << top)] + binomial[A[top], count]
                gain[subset] = values[offsets[count] + rank[subset]]
            strength = least_cut(gain, size, threshold)
            if strength > threshold:
                strengths[found] = strength
                for i in range(size):
                    merged[found, i] = A[i]
                    old, new = labels[A[i]], labels[A[0]]
                    for v in range(labels.size):
                        if labels[v] == old:
                            labels[v] = new
                found += 1
        if not next_set(A, labels.size):
            return found, tested, False
    return found, tested, True


@kernel(allocates=False)
def next_set(A, count):
    """Steps a set of {0..count-1}, members increasing, in colex order; False after the last."""
    for i in range(A.size):
        above = A[i + 1] if i + 1 < A.size else count
        if A[i] + 1 < above:
            A[i] += 1
            for j in range(i):
                A[j] = j
            return True
    return False
