"""MDLP discretisation: entropy-based cuts by a class column, stopped by minimum description length.

A set S of N rows with k classes is cut at the T that minimises the class entropy

    E(T) = |S₁|/N Ent(S₁) + |S₂|/N Ent(S₂),

with S₁ the rows up to T and S₂ those above, if

    Ent(S) − E(T) > [ log₂(N − 1) + log₂(3^k − 2) − (k Ent(S) − k₁ Ent(S₁) − k₂ Ent(S₂)) ] / N,

and S₁ and S₂ are cut recursively; k₁ and k₂ are their numbers of classes, and Ent is in bits. T is the
midpoint of two adjacent values; of several minimisers, the least is used.

Time: O(distinct values × classes) for each level of the recursion.

Reference:
    U. M. Fayyad, K. B. Irani, Multi-interval discretization of continuous-valued attributes for
    classification learning, IJCAI 1993.
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def mdlp_cuts(
    numbers: NDArray[np.float64], classes: NDArray[np.integer[Any]], times: NDArray[np.int64] | None = None
) -> tuple[float, ...]:
    """Returns the cuts, increasing; empty if the criterion accepts none.

    Args:
        numbers: shape (rows,).
        classes: shape (rows,), codes from 0.
        times: shape (rows,), multiplicity of each row; None for 1.

    >>> mdlp_cuts(np.arange(20.0), np.repeat([0, 1], 10))
    (9.5,)
    """
    values, place = np.unique(numbers, return_inverse=True)
    counts = np.zeros((values.size + 1, int(classes.max()) + 1), dtype=np.int64)
    np.add.at(counts, (place + 1, classes), 1 if times is None else times)
    up_to = np.cumsum(counts, axis=0)  # up_to[i]: class counts among the first i values
    found: list[int] = []
    open_ranges = [(0, values.size)]
    while open_ranges:
        low, high = open_ranges.pop()
        cut = _best_cut(up_to[low : high + 1])
        if cut is not None:
            found.append(low + cut)
            open_ranges += [(low, low + cut), (low + cut, high)]
    return tuple(_between(float(values[cut - 1]), float(values[cut])) for cut in sorted(found))


def _between(low: float, high: float) -> float:
    """Returns the midpoint, or `low` if no float lies in between."""
    middle = low + (high - low) / 2
    return middle if low <= middle < high else low


def _best_cut(up_to: NDArray[np.int64]) -> int | None:
    """Returns the number of values below the best cut; None if the criterion rejects it.

    The cumulative counts of the classes have shape (values + 1, classes).
    """
    if up_to.shape[0] < 3:  # noqa: PLR2004 - a single value
        return None
    below = up_to[1:-1] - up_to[0]
    whole = up_to[-1] - up_to[0]
    above = whole - below
    rows = int(whole.sum())
    bits_below, bits_above = _bits(below), _bits(above)
    cut = int(np.argmin(bits_below + bits_above))
    bits = float(_bits(whole[None])[0])
    k, k_below, k_above = ((counts > 0).sum() for counts in (whole, below[cut], above[cut]))
    entropies = (
        k * bits / rows
        - k_below * bits_below[cut] / below[cut].sum()
        - k_above * bits_above[cut] / above[cut].sum()
    )
    price = log2(rows - 1) + log2(3.0 ** int(k) - 2) - entropies
    gain = bits - bits_below[cut] - bits_above[cut]
    return cut + 1 if gain > price else None


def _bits(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns |S| Ent(S) for each row of class counts."""
    totals = counts.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(counts > 0, counts * np.log2(counts), 0.0).sum(axis=1)
        bits: NDArray[np.float64] = totals * np.log2(totals) - terms
    return np.maximum(bits, 0.0)
