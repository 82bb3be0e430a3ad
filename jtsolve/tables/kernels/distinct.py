"""A hash table that counts distinct rows.

Distinct rows are stored in order of first occurrence; the table holds their numbers, from 1. Collisions are
resolved by linear probing, and rows are compared in full.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from jtsolve.core.compiling import kernel

_PRIME = uint64(0x100000001B3)
_GOLDEN = uint64(0x9E3779B97F4A7C15)


@kernel(inline="always")
def _slot_of(row, mask):
    """Returns the home slot of a row: FNV-1a over its values (Fowler, Noll, Vo), high bits mixed in."""
    code = uint64(0xCBF29CE484222325)
    for value in row:
        code = (code ^ uint64(value)) * _PRIME
    code *= _GOLDEN
    return (code ^ (code >> uint64(32))) & mask


@kernel
def insert_rows(block, weights, rows, times, slots, used):
    """Counts the rows of a block, appends new ones, and returns the new number of distinct rows.

    Args:
        block: shape (count, width), unsigned.
        weights: shape (count,), int64, multiplicities of the rows of the block; empty for 1.
        rows: shape (capacity, width), of the same type; capacity ≥ used + count.
        times: shape (capacity,), int64, the counts.
        slots: shape (2^k,), 2^k > used + count, int32: the number of a row, from 1; 0 if free.
        used: number of distinct rows so far.
    """
    mask = uint64(slots.size - 1)
    width = block.shape[1]
    for i in range(block.shape[0]):
        weight = weights[i] if weights.size else 1
        slot = _slot_of(block[i], mask)
        while slots[slot]:
            there = slots[slot] - 1
            column = 0
            while column < width and rows[there, column] == block[i, column]:
                column += 1
            if column == width:
                times[there] += weight
                break
            slot = (slot + uint64(1)) & mask
        if not slots[slot]:
            rows[used] = block[i]
            times[used] = weight
            used += 1
            slots[slot] = used
    return used


@kernel
def fill_slots(rows, used, size):
    """Returns a hash table of `size` slots, a power of 2, for the first `used` rows, all distinct."""
    slots = np.zeros(size, np.int32)
    mask = uint64(size - 1)
    for i in range(used):
        slot = _slot_of(rows[i], mask)
        while slots[slot]:
            slot = (slot + uint64(1)) & mask
        slots[slot] = i + 1
    return slots
