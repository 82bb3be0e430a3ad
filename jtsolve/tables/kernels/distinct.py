"""A hash table of different rows: rows come in blocks, and equal ones are counted.

The rows that are there lie one after another in the order in which they first came; the table holds their
numbers, from 1. A row is looked for from the slot of its hash on, slot by slot (linear probing), and compared
whole, so that rows are equal if and only if they are put together.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from jtsolve.core.compiling import kernel

_PRIME = uint64(0x100000001B3)
_GOLDEN = uint64(0x9E3779B97F4A7C15)


@kernel(inline="always")
def _slot_of(row, mask):
    """Returns the first slot for a row: FNV-1a by values (Fowler, Noll, Vo), its high bits mixed in."""
    code = uint64(0xCBF29CE484222325)
    for value in row:
        code = (code ^ uint64(value)) * _PRIME
    code *= _GOLDEN
    return (code ^ (code >> uint64(32))) & mask


@kernel
def insert_rows(block, weights, rows, times, slots, used):
    """Counts the rows of a block, puts new ones behind the `used` that are there; returns how many there are.

    Args:
        block: shape (count, width), unsigned.
        weights: shape (count,), int64: how often each row of the block counts; or empty: once.
        rows: shape (capacity, width), of the same type; capacity ≥ used + count.
        times: shape (capacity,), int64: how often each row came.
        slots: shape (2^k,) above used + count, int32: the number of a row, from 1; 0: free.
        used: how many rows there are.
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
    """Returns a hash table of `size` slots, a power of 2, for the first `used` rows, which differ."""
    slots = np.zeros(size, np.int32)
    mask = uint64(size - 1)
    for i in range(used):
        slot = _slot_of(rows[i], mask)
        while slots[slot]:
            slot = (slot + uint64(1)) & mask
        slots[slot] = i + 1
    return slots
