"""The completion rule of certificates: the sets that may be cliques of a tree above a bound.

See docs/certificates.md, "Completions". Sets are bit masks, and positions in arrays of 2^n entries.

Time: n²·2^n per round; memory: about 4·(n + 20)·2^n bytes.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.permitted import Masks, permitted_cliques
from jtsolve.core.scores import colex_table
from jtsolve.verify.form import MOST_WORK, ROOM, require

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem

_NONE = -ROOM
"""Stands for −∞: a variable has no family."""


def work_of(n: int, rounds: int) -> int:
    """Returns the number of steps of some rounds.

    Raises:
        Wrong: there are too many.
    """
    steps = rounds * n * n << n >> 2
    require(steps <= MOST_WORK, "Its verification would take too much work.")
    return steps


def target_of(bound: float, shift: int, offset: int, n: int) -> int:
    """Returns the largest τ with U(G) > τ for every graph that scores more than a bound.

    Args:
        bound: in nats.
        shift: weights are multiples of 2^-shift nats.
        offset: constant part of the score in that unit.
        n: the number of variables, each with a rounding error of up to one unit.
    """
    return floor(Fraction(bound) * Fraction(2) ** shift) - offset - n


def possible_cliques(problem: Problem, shift: int, bound: float, rounds: int) -> list[int]:
    """Returns a superset of the permitted cliques of trees that score more than a bound.

    Args:
        problem: with no more variables than `work_of` allows.
        shift: units are 2^-shift nats.
        bound: nats, finite.
        rounds: at least 1.

    Raises:
        Wrong: the shift is too large.
    """
    n = problem.n
    masks = np.arange(1 << n)
    nats = np.full(1 << n, -np.inf)
    width = problem.max_clique_size
    nats[np.bitwise_count(masks) <= width] = colex_table(problem.scores, width)
    units, offset = _units(nats, shift, n)
    target = target_of(bound, shift, offset, n)
    possible = (nats > -np.inf) & permitted_cliques(problem, Masks(masks))
    for _ in range(rounds):
        alive = possible.copy()
        for v in range(n):
            without, with_v = _halves(alive, v)
            without |= with_v
        best = _completions(units, alive, n)
        left = possible & (best > _NONE) & (units + best > target)
        if (left == possible).all():  # further rounds would change nothing, and may be billions
            break
        possible = left
    found: list[int] = np.flatnonzero(possible).tolist()
    return found


def _units(nats: NDArray[np.float64], shift: int, n: int) -> tuple[NDArray[np.int64], int]:
    """Returns u(A), 0 for sets without a score, and Σ_v r({v}).

    Raises:
        Wrong: sums of completions could exceed 64 bits.
    """
    sentence = "The shift is too large for these scores."
    known = nats > -np.inf
    with np.errstate(over="ignore", under="ignore"):  # a power of 2 changes no digit, and rint is exact
        rounded = np.rint(np.ldexp(np.where(known, nats, 0.0), shift))
    largest = float(np.abs(rounded).max())
    require(largest < ROOM and (n + 1) * int(largest) < ROOM, sentence)
    units = rounded.astype(np.int64)
    own = [int(units[1 << v]) for v in range(n)]
    for v in range(n):
        _halves(units, v)[1][...] -= own[v]
    units[~known] = 0
    require((2 * n + 1) * int(np.abs(units).max()) < ROOM, sentence)
    return units, sum(own)


def _completions(units: NDArray[np.int64], alive: NDArray[np.bool_], n: int) -> NDArray[np.int64]:
    """Returns B(U) = max_{v∉U} [max {u(P∪v) − u(P) : P ⊆ U, P∪v alive} + B(U∪v)]; B(V) = 0."""
    gains = [_gains(units, alive, v, n) for v in range(n)]
    sizes = np.bitwise_count(np.arange(1 << n))
    best = np.full(1 << n, _NONE)
    best[-1] = 0
    for size in range(n - 1, -1, -1):
        layer = np.flatnonzero(sizes == size)
        for v in range(n):
            outside = layer[layer >> v & 1 == 0]
            gain, after = gains[v][_shorter(outside, v)], best[outside | 1 << v]
            value = np.where((gain > _NONE) & (after > _NONE), gain + after, _NONE)
            best[outside] = np.maximum(best[outside], value)
    return best


def _gains(units: NDArray[np.int64], alive: NDArray[np.bool_], v: int, n: int) -> NDArray[np.int64]:
    """Returns max {u(P∪v) − u(P) : P ⊆ U, P∪v alive} for all U without v, at U less that bit."""
    without, with_v = _halves(units, v)
    gains: NDArray[np.int64] = np.where(_halves(alive, v)[1], with_v - without, _NONE).ravel()
    for u in range(n - 1):
        smaller, larger = _halves(gains, u)
        np.maximum(larger, smaller, out=larger)
    return gains


def _shorter(masks: NDArray[np.int64], v: int) -> NDArray[np.int64]:
    """Returns masks with the place of bit v, which they do not have, removed."""
    low = (1 << v) - 1
    return masks >> 1 & ~low | masks & low


def _halves(table: NDArray[Any], v: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns views of the entries of sets without v, and of the same sets with v."""
    pairs = table.reshape(-1, 2, 1 << v)
    return pairs[:, 0], pairs[:, 1]
