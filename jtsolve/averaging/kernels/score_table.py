"""A hash table from colex ranks of sets to scores, with linear probing."""

from __future__ import annotations

from numba import int64, uint64

from jtsolve.core.compiling import kernel


@kernel(allocates=False)
def slot_of(rank, ranks):
    """Returns the slot of a set, or the free slot, marked -1, for it.

    Args:
        rank: its colex rank.
        ranks: shape (m,): the colex rank of the set in each slot; m is a power of 2, and some slots are free.
    """
    # Fibonacci hashing: the upper half of a product with 2^64 / golden ratio is spread evenly.
    slot = int64((uint64(rank) * uint64(0x9E3779B97F4A7C15)) >> uint64(32)) & (ranks.size - 1)
    while ranks[slot] >= 0 and ranks[slot] != rank:
        slot = (slot + 1) & (ranks.size - 1)
    return slot


@kernel
def insert(added, scores, ranks, values):
    """Inserts absent sets, by colex rank, with their scores."""
    for i in range(added.size):
        slot = slot_of(added[i], ranks)
        ranks[slot] = added[i]
        values[slot] = scores[i]
