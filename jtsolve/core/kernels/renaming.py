"""`core.renaming` as kernels, and its inverse."""

from __future__ import annotations

from jtsolve.core import renaming
from jtsolve.core.compiling import kernel
from jtsolve.core.renaming import PIECE

rename = kernel(renaming.rename, inline="always")


@kernel(inline="always")
def unname(mask, among, tables):
    """Returns the subset of `among` whose renaming is `mask`."""
    low, middle, high = among & 511, (among >> PIECE) & 511, among >> (2 * PIECE)
    below = tables.ones[low]
    rest = mask >> below
    return (
        tables.spread[mask & ((1 << below) - 1), low]
        | tables.spread[rest & ((1 << tables.ones[middle]) - 1), middle] << PIECE
        | tables.spread[rest >> tables.ones[middle], high] << (2 * PIECE)
    )
