"""Random numbers in kernels: xorshift64*, with its state in an array of one uint64."""

from __future__ import annotations

from numba import int64, uint64

from jtsolve.core.compiling import kernel


@kernel(allocates=False)
def next_word(state):
    """Returns the next 64 bits (Vigna, Scrambled xorshift generators, ACM Trans. Math. Softw. 42, 2016)."""
    x = state[0]
    x ^= x >> uint64(12)
    x ^= x << uint64(25)
    x ^= x >> uint64(27)
    state[0] = x
    return x * uint64(2685821657736338717)


@kernel(allocates=False)
def uniform(state):
    """Returns a number from 0 to 1, 1 excluded, with 53 random bits."""
    return (next_word(state) >> uint64(11)) * 1.1102230246251565e-16


@kernel(allocates=False)
def below(state, count):
    """Returns a whole number from 0 to count - 1; the bias is below count / 2^32."""
    return int64(((next_word(state) >> uint64(32)) * uint64(count)) >> uint64(32))
