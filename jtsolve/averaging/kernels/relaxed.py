"""Relaxed sums over trees of introductions, and their adjoint; `averaging.relaxed` has the recurrences.

A sum is by k, the number of introductions; with a marked vertex x, also by b, the number of times, 0 or 1,
that x is among them. All terms are positive.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from jtsolve.core.compiling import kernel

Sums = namedtuple("Sums", ("T", "H", "P"))
"""T(b,k,i) of state i, shape (marks, n + 1, m); H(s,b,j) of the slot s, and P(s,b,k) of the slots of a state
up to s, shape (slots, marks, n + 1)."""


@kernel(reassociates=True)
def inside(n, states, weights, x):
    """Returns R, its sums, and those of the forest beside the root's component, shape (marks, n + 1).

        H(s,k) = Σ over the children i of slot s of T(i,k)
        P(s,k) = P(s − 1,k) + Σ_{1≤j≤k} H(s,j) P(s − 1,k − j),    P(·,0) = 1
        T(i,k + 1) = weight(i) P(last slot of i,k)
        R = Σ_k T(root,k) P(last slot of the forest,n − k)

    Args:
        n: the number of variables, and of introductions.
        states: `kernels.states.States`.
        weights: shape (m,): of the introduction of each state.
        x: the marked vertex, introduced exactly once; -1 for none.
    """
    m, slots, marks = weights.size, states.first_child.size - 1, 1 if x < 0 else 2
    T = np.zeros((marks, n + 1, m))
    H, P = np.zeros((slots, marks, n + 1)), np.zeros((slots, marks, n + 1))
    forest = np.zeros((marks, n + 1))
    for i in range(m):
        T[1 if states.vertex[i] == x else 0, 1, i] = weights[i]
    for s in range(slots):
        P[s, 0, 0] = 1.0
    forest[0, 0] = 1.0
    # By k: T(·,k) depends on slots with fewer introductions only, whatever their states.
    for k in range(1, n):
        for i in range(m + 1):
            last = -1
            for s in range(states.first_slot[i], states.first_slot[i + 1]):
                for b in range(marks):
                    total = 0.0
                    for c in range(states.first_child[s], states.first_child[s + 1]):
                        total += T[b, k, states.child[c]]
                    H[s, b, k] = total
                if last < 0:
                    for b in range(marks):
                        P[s, b, k] = H[s, b, k]
                else:
                    total = P[last, 0, k]
                    for j in range(1, k + 1):
                        total += H[s, 0, j] * P[last, 0, k - j]
                    P[s, 0, k] = total
                    if marks == 2:
                        total = P[last, 1, k]
                        for j in range(1, k + 1):
                            total += H[s, 0, j] * P[last, 1, k - j] + H[s, 1, j] * P[last, 0, k - j]
                        P[s, 1, k] = total
                last = s
            if last < 0:
                continue
            if i == m:
                for b in range(marks):
                    forest[b, k] = P[last, b, k]
            elif states.vertex[i] == x:
                T[1, k + 1, i] = weights[i] * P[last, 0, k]
            else:
                for b in range(marks):
                    T[b, k + 1, i] = weights[i] * P[last, b, k]
    total = 0.0
    for k in range(1, n + 1):
        for b in range(marks):
            total += T[b, k, 0] * forest[marks - 1 - b, n - k]
    return total, Sums(T, H, P), forest


@kernel(reassociates=True)
def outside(n, states, weights, x, sums, forest):
    """Returns the adjoints of T and P: R is the sum over k and b of T times its adjoint, for any one tree.

    Args:
        n, states, weights, x: see `inside`.
        sums, forest: its results.

    Returns:
        The adjoint of T, of its shape, and that of P, of its shape.
    """
    T, H, P = sums
    m, marks = weights.size, T.shape[0]
    adjoint, A = np.zeros_like(T), np.zeros_like(P)
    for k in range(1, n + 1):
        for b in range(marks):
            adjoint[b, k, 0] = forest[marks - 1 - b, n - k]
    # Invariant: the adjoints of T(·,k + 1) and larger are complete.
    for k in range(n - 1, 0, -1):
        for i in range(m + 1):
            first, past = states.first_slot[i], states.first_slot[i + 1]
            if first == past:
                continue
            for b in range(marks):
                if i == m:
                    A[past - 1, b, k] = T[marks - 1 - b, n - k, 0]
                elif states.vertex[i] != x:
                    A[past - 1, b, k] = weights[i] * adjoint[b, k + 1, i]
                elif b == 0:
                    A[past - 1, b, k] = weights[i] * adjoint[1, k + 1, i]
            for s in range(past - 1, first, -1):
                total = A[s, 0, k]
                for j in range(1, n - k):
                    total += A[s, 0, k + j] * H[s, 0, j]
                if marks == 2:
                    marked = A[s, 1, k]
                    for j in range(1, n - k):
                        total += A[s, 1, k + j] * H[s, 1, j]
                        marked += A[s, 1, k + j] * H[s, 0, j]
                    A[s - 1, 1, k] = marked
                A[s - 1, 0, k] = total
            for s in range(first, past):
                for b in range(marks):
                    if s == first:
                        total = A[s, b, k]
                    else:
                        total = 0.0
                        for j in range(k, n):
                            total += A[s, b, j] * P[s - 1, 0, j - k]
                        if marks == 2 and b == 0:
                            for j in range(k, n):
                                total += A[s, 1, j] * P[s - 1, 1, j - k]
                    if total != 0.0:
                        for c in range(states.first_child[s], states.first_child[s + 1]):
                            adjoint[b, k, states.child[c]] += total
    return adjoint, A
