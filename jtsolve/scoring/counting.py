"""`kernels.counting` in numpy, bit for bit, for tables too small for loading the compiler."""

from __future__ import annotations

import ctypes
from functools import cache
from math import log, prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_SECONDS_PER_SET, _SECONDS_PER_ROW = 4e-5, 1e-8
"""Measured on one core of an Intel Xeon (Sapphire Rapids), for sets of three."""


def seconds(sets: int, rows: int) -> float:
    """Returns the predicted processor seconds of `sums_over_cells`."""
    return sets * (_SECONDS_PER_SET + _SECONDS_PER_ROW * rows)


def sums_over_cells(  # noqa: PLR0917 - as the kernel
    sets: NDArray[np.int64],
    codes: NDArray[np.integer],
    arities: NDArray[np.int64],
    weights: NDArray[np.int64],
    shared: float,
    each: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the sums and the numbers of cells; see `kernels.counting.sums_over_cells`.

    Args:
        sets: shape (count, width), padded with -1.
        codes: shape (n, rows).
        arities: shape (n,).
        weights: multiplicities, shape (rows,), or empty for 1.
        shared: pseudo-count divided evenly among all cells.
        each: pseudo-count of every cell.
    """
    states = arities.tolist()
    sums, possible = np.zeros(len(sets)), np.ones(len(sets))
    rows = codes.shape[1]
    kept: list[int] = []  # the prefix with known cells: those of its first i members are cells[i]
    cells = [(np.zeros(rows, np.int64), 1)]
    for i, row in enumerate(sets.tolist()):
        chosen = [v for v in row if v >= 0]
        if not chosen:
            continue
        possible[i] = prod(float(states[v]) for v in chosen)
        same = 0
        while same < min(len(kept), len(chosen) - 1) and kept[same] == chosen[same]:
            same += 1
        del kept[same:], cells[same + 1 :]
        for v in chosen[same:-1]:
            kept.append(v)
            cells.append(_refined(*cells[-1], codes[v], states[v]))
        keys, groups = _refined(*cells[-1], codes[chosen[-1]], states[chosen[-1]])
        if weights.size:
            counts = np.zeros(groups, np.int64)
            np.add.at(counts, keys, weights)
        else:
            counts = np.bincount(keys)
        sums[i] = _sum_of_terms(counts, shared / possible[i] + each)
    return sums, possible


def _refined(
    cells: NDArray[np.int64], groups: int, column: NDArray[np.integer], arity: int
) -> tuple[NDArray[np.int64], int]:
    """Returns the cells of A ∪ {v}, renumbered densely if there are far more numbers than rows."""
    keys = cells * arity + column
    if groups * arity <= 4 * keys.size:
        return keys, groups * arity
    occupied, keys = np.unique(keys, return_inverse=True)
    return keys, occupied.size


def _sum_of_terms(counts: NDArray[np.int64], pseudo: float) -> float:
    """Returns the sum over the distinct counts in increasing order, with Neumaier's compensation."""
    distinct, times = np.unique(counts[counts > 0], return_counts=True)
    log_gamma = _log_gamma()
    base = log_gamma(pseudo) if pseudo > 0 else 0.0
    total = lost = 0.0
    for count, frequency in zip(distinct.tolist(), times.tolist(), strict=True):
        term = frequency * (log_gamma(count + pseudo) - base if pseudo > 0 else count * log(count))
        grown = total + term
        lost += (total - grown) + term if abs(total) >= abs(term) else (term - grown) + total
        total = grown
    return total + lost


@cache
def _log_gamma() -> Callable[[float], float]:
    """Returns lgamma of the system's C library, which kernels call; that of Python rounds differently."""
    function = ctypes.CDLL(None).lgamma
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
    return function
