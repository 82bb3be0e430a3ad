"""Relaxed sums over trees of introductions, and their adjoint; `averaging.relaxed` has the recurrences.

A sum is by k, the number of introductions, and by b, the set of the marked vertices among them, each of which
is introduced at most once. All terms are positive.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import filled, zeros

Sums = namedtuple("Sums", ("T", "H", "P"))
"""T(b,k,i) of state i, shape (2^q, n + 1, m) for q marked vertices; H(s,b,j) of the slot s, and P(s,b,k) of
the slots of a state up to s, shape (slots, 2^q, n + 1)."""


@kernel
def choices(t, union, parents, vertex, n, shares):
    """Returns for each vertex v the largest t(S∪v) − t(S) of its families, and Σ e^(that of each − largest).

    Args:
        t: shape (sets,).
        union, parents: shape (families,): the positions of S∪v and of S.
        vertex: shape (families,): v.
        n: the number of variables.
        shares: shape (families,): written, the terms of the sums.
    """
    top, sums = filled(n, np.float64, -np.inf), zeros(n, np.float64)
    for f in range(vertex.size):
        shares[f] = t[union[f]] - t[parents[f]]
        top[vertex[f]] = max(top[vertex[f]], shares[f])
    for f in range(vertex.size):
        shares[f] = np.exp(shares[f] - top[vertex[f]])
        sums[vertex[f]] += shares[f]
    return top, sums


@kernel(reassociates=True)
def inside(begin, end, low, high, states, weights, bits, sums):
    """Writes H and P of `begin` to `end` - 1 introductions, and T of one more, of some states.

        H(s,b,k) = Σ over the children i of slot s of T(b,k,i)
        P(s,b,k) = P(s − 1,b,k) + Σ_{c ⊆ b} Σ_{1≤j≤k} H(s,c,j) P(s − 1,b∖c,k − j),    P(·,∅,0) = 1
        T(b∪i,k + 1,i) = weight(i) P(last slot of i,b,k), i ∉ b

    T(·,k) depends on slots with fewer introductions only, whatever their states.

    Args:
        begin, end: of k.
        low, high: of the states, m for the forest.
        states: `kernels.states.States`.
        weights: shape (m,): of the introduction of each state.
        bits: shape (m,): of the vertex of each state among the marked ones, or 0.
        sums: `Sums`; with T(·,begin) and P(·,∅,0), and zeros.
    """
    T, H, P = sums
    m, marks = weights.size, T.shape[0]
    # Signs that the compiler knows let it vectorise the sums.
    for k in range(max(1, begin), end):
        for i in range(max(0, low), high):
            first, past = states.first_slot[i], states.first_slot[i + 1]
            for s in range(first, past):
                for b in range(marks):
                    total = 0.0
                    for c in range(states.first_child[s], states.first_child[s + 1]):
                        total += T[b, k, states.child[c]]
                    H[s, b, k] = total
                for b in range(marks):
                    total = H[s, b, k]
                    if s > first:
                        total = P[s - 1, b, k]
                        for c in range(b + 1):
                            if c & ~b == 0:
                                for j in range(1, k + 1):
                                    total += H[s, c, j] * P[s - 1, b ^ c, k - j]
                    P[s, b, k] = total
            if i < m and first < past:
                for b in range(marks):
                    if b & bits[i] == 0:
                        T[b | bits[i], k + 1, i] = weights[i] * P[past - 1, b, k]


@kernel(reassociates=True)
def outside(begin, end, low, high, states, weights, bits, sums, adjoints, part, A):
    """Writes the adjoints of P of `begin` down to `end` + 1 introductions, and adds to those of T.

    Args:
        begin, end: of k.
        low, high, states, weights, bits, sums: see `inside`.
        adjoints: shape (parts, 2^q, n + 1, m): adjoints of T are sums over the parts of the states, complete
            for more than `begin` introductions.
        part: the number of this part.
        A: shape (slots, 2^q, n + 1): the adjoints of P; of k in the forest's last slot on entry.
    """
    T, H, P = sums
    m, marks, n = weights.size, T.shape[0], T.shape[1] - 1
    for k in range(begin, max(0, end), -1):
        for i in range(max(0, low), high):
            first, past = states.first_slot[i], states.first_slot[i + 1]
            if first == past:
                continue
            for b in range(marks):
                if i < m and b & bits[i] == 0:
                    total = 0.0
                    for other in range(adjoints.shape[0]):
                        total += adjoints[other, b | bits[i], k + 1, i]
                    A[past - 1, b, k] = weights[i] * total
            for s in range(past - 1, first, -1):
                for b in range(marks):
                    total = A[s, b, k]
                    for c in range(marks - b):
                        if b & c == 0:
                            for j in range(1, n - k):
                                total += A[s, b | c, k + j] * H[s, c, j]
                    A[s - 1, b, k] = total
            for s in range(first, past):
                for b in range(marks):
                    total = A[s, b, k]
                    if s > first:
                        total = 0.0
                        for c in range(marks - b):
                            if b & c == 0:
                                for j in range(k, n):
                                    total += A[s, b | c, j] * P[s - 1, c, j - k]
                    if total != 0.0:
                        for c in range(states.first_child[s], states.first_child[s + 1]):
                            adjoints[part, b, k, states.child[c]] += total
