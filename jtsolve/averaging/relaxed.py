"""Relaxed sums over decomposable graphs: upper bounds of Z and of the mass of every family."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.backends.clutter.inequalities import CutRows, RowVector

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.families.families import Families, Listing

UNIT = 2.0**-53
"""Relative error of an operation."""
_ENTRIES, _BYTES_AN_ENTRY = 1e9, 32
"""Of lists of children, with copies while arrays grow."""
_MOST = 4e9
"""Bytes of sums over trees, of which one evaluation takes half a minute."""
_LARGEST = 700.0
"""Nats above which no mass is a float."""
_RANGE = 2.0**200
"""Sums beyond it, or totals below its reciprocal, count as no bound. Within it, a product that underflows
loses at most 2^-1022 · 2^200 of a sum, and all of them less than `_LEAST` of the total."""
_LEAST = 2.0**-500


class Bounds(NamedTuple):
    """Upper bounds, as multiples of e^(score of a reference).

    Attributes:
        log_total: ln of the bound of Z.
        families: shape (families,): the graphs whose tree has the family weigh at most this together.
        gain: nats between the bounds of the multipliers to begin with and of the best ones.
    """

    log_total: float
    families: NDArray[np.float64]
    gain: float = inf


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Families that are left, multipliers, and the mass of the graphs that are lost.

    Attributes:
        families: those of the graphs that are left.
        rows: clutter inequalities over their sets.
        cuts: shape (rows,): λ ≥ 0, in nats.
        heights: shape (n,): μ, in nats.
        reference: masses are multiples of e^reference, in nats.
        lost: no more mass than this is in graphs with a family that was dropped.
        rank: shape (n,): which vertices head components, the root's the least.
    """

    families: Families
    rows: CutRows
    cuts: NDArray[np.float64]
    heights: NDArray[np.float64]
    reference: float
    lost: float
    rank: NDArray[np.int64]

    def gains(self, cuts: NDArray[np.float64], listed: Listing) -> NDArray[np.float64]:
        """Returns w(u,S) + Σ λ of the cuts that each family enters."""
        t, _ = self.rows.weighted(self.families.values, RowVector(cuts, np.zeros(0)))
        gains: NDArray[np.float64] = t[listed.union] - t[listed.parents]
        return gains

    def error(self, cuts: NDArray[np.float64], heights: NDArray[np.float64]) -> float:
        """Returns a bound of the error of ln of the weight of any tree of n introductions, a priori.

        With the largest score s, normalised value v, height μ, and Λ = Σ λ: a value is off by
        (width + 1)² s units, and t, of eight look-ups a word, by (8 words + 16)(v + Λ) more; each weight is
        a difference of two t, less a height; Σ μ, Σ λ and the offset add n sums of n heights and scores.

        `cuts` has shape (cuts,), `heights` (n,).
        """
        families = self.families
        n, scores = families.n, families.scores[families.scores > -inf]
        score = float(np.abs(scores).max(initial=0.0))
        looked_up = (8 * len(self.rows.words) + 16) * (
            float(np.abs(families.values).max()) + float(cuts.sum())
        )
        summed = n * (score + float(np.abs(heights).max(initial=0.0)))
        return 4 * (n + 1) * (looked_up + (families.width + 1) ** 2 * score + summed + 16) * UNIT

    @property
    def offset(self) -> float:
        """The score of a graph less that of the reference and the sum of its weights, in nats."""
        return self.families.offset - self.reference

    def without(self, bounds: Bounds, budget: float) -> Lattice:
        """Drops the families of least mass, whose bounds sum to at most the budget, and charges them.

        A set that no remaining family completes is complete in no remaining graph, and is dropped with its
        supersets (`Families.restricted`).
        """
        order = np.argsort(bounds.families, kind="stable")
        sums = np.cumsum(bounds.families[order])
        sums += 2 * sums.size * UNIT * sums
        count = int(np.searchsorted(sums, budget, "right"))
        if count == 0:
            return self
        listed = self.families.listing()
        allowed = self.families.allowed.copy()
        slots = (self.families.members[listed.union] == listed.vertex[:, None]).argmax(axis=1)
        allowed[listed.union[order[:count]], slots[order[:count]]] = False
        families, position = self.families.restricted(allowed)
        return replace(
            self,
            families=families,
            rows=self.rows.moved(families, position),
            lost=self.lost + float(sums[count - 1]),
        )


def alone(lattice: Lattice, run: Run, evaluations: int) -> tuple[Lattice, Bounds]:
    """Returns better multipliers, and the bounds by vertices that choose their families independently.

        Z ≤ Π_v Σ_P exp(w(v,P) + Σ λ [enters]) e^(−Σλ)

    Every graph's tree is a choice of a family for each vertex that enters every cut. The heights become
    the logarithms of the sums.

    Args:
        lattice: with the multipliers to begin with.
        run: ends it early.
        evaluations: of the bound, at most.
    """
    listed = lattice.families.listing()
    n, vertex = lattice.families.n, listed.vertex
    union, parents = listed.union.astype(np.int64), listed.parents.astype(np.int64)
    best: tuple[float, Any] = (inf, None)

    def value(cuts: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal best
        gains = lattice.gains(cuts, listed)
        top = np.full(n, -inf)
        np.maximum.at(top, vertex, gains)
        shares = np.exp(gains - top[vertex])
        sums = np.bincount(vertex, shares, n)
        shares /= sums[vertex]
        heights = top + np.log(sums)
        total = float(heights.sum() - cuts.sum()) + lattice.offset
        if total < best[0]:
            best = total, (cuts.copy(), heights, shares)
        return total, -lattice.rows.violation(union, parents, shares).cuts

    _minimise(value, lattice.cuts, np.zeros(lattice.cuts.size), run, evaluations)
    total, (cuts, heights, shares) = best
    total += lattice.error(cuts, heights) + n * (vertex.size + 8) * UNIT
    shares *= 1 + (vertex.size + 8) * UNIT
    return replace(lattice, cuts=cuts, heights=heights), _bounds(total, shares)


class TreeSums(NamedTuple):
    """Sums over trees of states.

    Attributes:
        weights: shape (m,): of the states.
        total: the sum of all trees.
        mass: shape (m,): of those with each state.
        offset: ln of the factor of the sums, for multiples of the reference.
        error: relative, of the total and of each mass.
    """

    weights: NDArray[np.float64]
    total: float
    mass: NDArray[np.float64]
    offset: float
    error: float


class Forest:
    """The trees of introductions of a lattice; see `docs/certified.md`, Theorem 1.

    Attributes:
        lattice: the families.
        listed: as a list.
        states: `kernels.states.States`; with no state if they are more than `most`, or need more than `room`
            bytes with their sums.
        thresholds: whether each graph is one tree; without, some are several.
    """

    def __init__(self, lattice: Lattice, *, thresholds: bool, most: int, room: float = inf) -> None:
        from jtsolve.averaging.kernels.states import children_of, reached

        families = lattice.families
        self.lattice, self.listed = lattice, families.listing()
        vertex, parents, union, _ = self.listed
        slot = (families.members[union] == vertex[:, None]).argmax(axis=1)
        order = np.argsort(parents, kind="stable")
        first = np.searchsorted(parents[order], np.arange(families.sizes.size + 1))
        entries = min(_ENTRIES, room / 4 / _BYTES_AN_ENTRY)
        starts, children = children_of(
            vertex, union, slot, families.members, families.facets, families.sizes, first, order, families.n,
            entries,
        )  # fmt: skip
        masks = np.array(families.masks(), dtype=np.int64)
        tops = order[first[0] : first[1]]
        root = int(tops[vertex[tops] == families.root][0])
        tops = tops[vertex[tops] != families.root]
        most *= starts.size > 0
        build = partial(reached, vertex, union, parents, starts, children, masks, lattice.rank, root, tops)
        self.states = build(thresholds, most, entries)
        sums = 8 * (families.n + 1) * (2 * self.states.family.size + 3 * self.states.first_child.size)
        if sums > min(_MOST, room / 2):
            self.states = build(thresholds, 0, entries)

    def restricted_to(self, kept: NDArray[np.bool_]) -> Forest:
        """Returns the trees of some of the states, a mask of shape (states,); the root's has to be one."""
        from jtsolve.averaging.kernels.states import restrict_states

        smaller = copy(self)
        smaller.states = restrict_states(self.states, kept)
        return smaller

    def weights(self, cuts: NDArray[np.float64], heights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the weight of every state, shape (states,); `cuts` has shape (cuts,), `heights` (n,)."""
        gains = self.lattice.gains(cuts, self.listed)
        with np.errstate(over="ignore"):
            weights: NDArray[np.float64] = np.exp(gains - heights[self.listed.vertex])[self.states.family]
        return weights

    def sums(self, cuts: NDArray[np.float64], heights: NDArray[np.float64]) -> TreeSums | None:
        """Returns the sums over trees; None if they are beyond the range.

        `cuts` has shape (cuts,), `heights` (n,).
        """
        from jtsolve.averaging.kernels.relaxed import inside, outside

        n, weights = self.lattice.families.n, self.weights(cuts, heights)
        total, found, rest = inside(n, self.states, weights, -1)
        if not 1 / _RANGE < total < _RANGE:
            return None
        adjoint, products = outside(n, self.states, weights, -1, found, rest)
        if not max(x.max(initial=0.0) for x in (weights, found.T, found.P, adjoint, products)) < _RANGE:
            return None
        mass = (found.T[0] * adjoint[0]).sum(axis=0)
        offset = float(heights.sum() - cuts.sum()) + self.lattice.offset
        error = self.lattice.error(cuts, heights) + rounding(self.states, n)
        return TreeSums(weights, total, mass, offset, error)

    def improve(self, run: Run, evaluations: int) -> tuple[Lattice, Bounds]:
        """Returns better multipliers with the bounds; see `alone`."""
        from jtsolve.averaging.kernels.relaxed import inside

        lattice, listed = self.lattice, self.listed
        n = lattice.families.n
        union, parents = listed.union.astype(np.int64), listed.parents.astype(np.int64)
        best: tuple[float, Any] = (inf, None)
        first = -inf
        total, *_ = inside(n, self.states, self.weights(lattice.cuts, lattice.heights), -1)
        shift = log(total) / n if 0 < total < inf else 0.0

        def value(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            nonlocal best, first, shift
            heights, cuts = x[:n] + shift, x[n:]
            found = self.sums(cuts, heights)
            if found is None:
                return 1e9, np.zeros(x.size)
            total = log(found.total) + found.offset
            first = total if first == -inf else first
            uses = np.bincount(self.states.family, found.mass, listed.vertex.size) / found.total
            # Of n introductions: one shift of all heights leaves the bound as it is, and makes the sum 1.
            shift += log(found.total) / n
            if total + found.error < best[0]:
                best = total + found.error, (heights, cuts.copy(), uses)
            coverage = 1 - np.bincount(listed.vertex, uses, n)
            return total, np.concatenate((coverage, -lattice.rows.violation(union, parents, uses).cuts))

        start = np.concatenate((lattice.heights, lattice.cuts))
        least = np.concatenate((np.full(n, -inf), np.zeros(lattice.cuts.size)))
        _minimise(value, start, least, run, evaluations)
        if best[1] is None:
            return lattice, Bounds(inf, np.full(listed.vertex.size, inf))
        total, (heights, cuts, uses) = best
        return replace(lattice, heights=heights, cuts=cuts), _bounds(total, uses)._replace(gain=first - total)


def _bounds(log_total: float, shares: NDArray[np.float64]) -> Bounds:
    """Returns the bounds; of families, inf where the total is beyond the range of floats."""
    if log_total > _LARGEST:
        return Bounds(log_total, np.full(shares.size, inf))
    return Bounds(log_total, (shares + _LEAST) * exp(log_total))


def rounding(states: Any, n: int, longest: int = 0) -> float:
    """Returns a bound of the relative error of the sums over trees and their adjoints, a priori.

    Each number is a sum of products of positive numbers, in any order; errors of factors add up. Each of n
    introductions passes through the slots of its state, with a sum over the children and one of n products at
    each; an adjoint is summed over the slots that the state is a child in, and a mass over n numbers and the
    states of a family. Each operation has a relative error of 2^-53.

    Args:
        states: `kernels.states.States`.
        n: the number of variables.
        longest: the longest sum beside those.
    """
    slots = int(np.diff(states.first_slot).max())
    children = int(np.diff(states.first_child).max(initial=1))
    parents = int(np.bincount(states.child).max(initial=0))
    copies = int(np.bincount(states.family).max())
    return 2 * (n + 1) * ((slots + 1) * (children + longest + 2 * n + 8) + parents + copies) * UNIT


def _minimise(
    value: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]],
    start: NDArray[np.float64],
    least: NDArray[np.float64],
    run: Run,
    evaluations: int,
) -> None:
    """Minimises a convex function by L-BFGS from its start, which is evaluated in any case."""
    from scipy.optimize import minimize

    def stop_early(_: NDArray[np.float64]) -> None:
        if run.stop is not None:
            raise StopIteration

    if evaluations == 1 or start.size == 0:
        value(start)
        return
    minimize(
        value,
        start,
        method="L-BFGS-B",
        jac=True,
        bounds=[(low, inf) for low in least.tolist()],
        callback=stop_early,
        options={"maxfun": evaluations, "maxiter": evaluations, "maxcor": 20},
    )
