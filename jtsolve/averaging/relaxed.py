"""Relaxed sums over decomposable graphs: upper bounds of Z and of the mass of every family."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, inf, log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.backends.clutter.inequalities import Rows, RowVector

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.families.families import Families, Listing

_UNIT = 2.0**-53
"""Relative error of an operation."""
_LARGEST = 700.0
"""Nats above which no mass is a float."""
_LEAST = 2.0**-1022
"""No product loses more than this to underflow."""


class Bounds(NamedTuple):
    """Upper bounds, as multiples of e^(score of a reference).

    Attributes:
        log_total: ln of the bound of Z.
        families: shape (families,): the graphs whose tree has the family weigh at most this together.
    """

    log_total: float
    families: NDArray[np.float64]


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
    rows: Rows
    cuts: NDArray[np.float64]
    heights: NDArray[np.float64]
    reference: float
    lost: float
    rank: NDArray[np.int64]

    def gains(self, cuts: NDArray[np.float64], listed: Listing) -> tuple[NDArray[np.float64], float]:
        """Returns w(u,S) + Σ λ of the cuts that each family enters, and a bound of the error of n of them."""
        families = self.families
        t, _ = self.rows.weighted(families.values, RowVector(cuts, np.zeros(0)))
        operations = 8 * len(self.rows.words) + 16
        error = 2 * families.n * operations * _UNIT * (float(np.abs(t).max()) + float(cuts.sum()))
        return t[listed.union] - t[listed.parents], error

    @property
    def offset(self) -> float:
        """The score of a graph less that of the reference and the sum of its weights, in nats."""
        return self.families.offset - self.reference

    def without(self, bounds: Bounds, budget: float) -> Lattice:
        """Drops the families of least mass, whose bounds sum to at most the budget, and charges them.

        A set that no family completes any longer is complete in no graph that is left, and goes with its
        supersets (`Families.restricted`).
        """
        order = np.argsort(bounds.families, kind="stable")
        sums = np.cumsum(bounds.families[order])
        sums += 2 * sums.size * _UNIT * sums
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
        gains, error = lattice.gains(cuts, listed)
        top = np.full(n, -inf)
        np.maximum.at(top, vertex, gains)
        shares = np.exp(gains - top[vertex])
        sums = np.bincount(vertex, shares, n)
        shares /= sums[vertex]
        heights = top + np.log(sums)
        total = float(heights.sum() - cuts.sum()) + lattice.offset
        if total < best[0]:
            best = total, (cuts.copy(), heights, shares, error)
        return total, -lattice.rows.violation(union, parents, shares).cuts

    _minimise(value, lattice.cuts, np.zeros(lattice.cuts.size), run, evaluations)
    total, (cuts, heights, shares, error) = best
    total += error + (vertex.size + 4 * n) * _UNIT
    shares *= 1 + (vertex.size + 8) * _UNIT
    return replace(lattice, cuts=cuts, heights=heights), _bounds(total, shares)


class Forest:
    """The trees of introductions of a lattice; see `docs/certified.md`, Theorem 1.

    Attributes:
        lattice: the families.
        listed: as a list.
        states: `kernels.states.States`; with no state if they are more than `most`.
        thresholds: whether each graph is one tree; without, some are several.
    """

    def __init__(self, lattice: Lattice, *, thresholds: bool, most: int) -> None:
        from jtsolve.averaging.kernels.states import children_of, states_of

        families = lattice.families
        self.lattice, self.listed = lattice, families.listing()
        vertex, parents, union, _ = self.listed
        slot = (families.members[union] == vertex[:, None]).argmax(axis=1)
        order = np.argsort(parents, kind="stable")
        first = np.searchsorted(parents[order], np.arange(families.sizes.size + 1))
        starts, children = children_of(
            vertex, union, slot, families.members, families.facets, families.sizes, first, order, families.n
        )
        masks = np.array(families.masks(), dtype=np.int64)
        tops = order[first[0] : first[1]]
        root = int(tops[vertex[tops] == families.root][0])
        tops = tops[vertex[tops] != families.root]
        self.states = states_of(
            vertex, union, parents, starts, children, masks, lattice.rank, root, tops, thresholds, most
        )

    def weights(self, gains: NDArray[np.float64], heights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the weight of every state."""
        with np.errstate(over="ignore"):
            weights: NDArray[np.float64] = np.exp(gains - heights[self.listed.vertex])[self.states.family]
        return weights

    def evaluate(
        self, cuts: NDArray[np.float64], heights: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], float]:
        """Returns ln of the bound, the expected uses of the families, and the relative error of both."""
        from jtsolve.averaging.kernels.relaxed import inside, outside

        n = self.lattice.families.n
        gains, error = self.lattice.gains(cuts, self.listed)
        weights = self.weights(gains, heights)
        total, sums, forest = inside(n, self.states, weights, -1)
        if not 0 < total < inf:
            return inf, np.zeros(0), 0.0
        adjoint, _ = outside(n, self.states, weights, -1, sums, forest)
        uses = np.bincount(self.states.family, (sums.T[0] * adjoint[0]).sum(axis=0), self.listed.vertex.size)
        if not np.isfinite(uses).all():
            return inf, np.zeros(0), 0.0
        log_total = log(total) + float(heights.sum() - cuts.sum()) + self.lattice.offset
        error += rounding(self.states, n) + self._underflow(float(adjoint.max()) / total)
        return log_total, uses / total, error

    def _underflow(self, steepest: float) -> float:
        """Returns the share of the total that products may have lost to underflow."""
        n, states = self.lattice.families.n, self.states
        operations: int = states.child.size + 2 * n * states.first_child.size
        return _LEAST * max(1.0, steepest) * n**2 * operations

    def improve(self, run: Run, evaluations: int) -> tuple[Lattice, Bounds]:
        """Returns better multipliers with the bounds; see `alone`."""
        lattice, listed = self.lattice, self.listed
        n = lattice.families.n
        union, parents = listed.union.astype(np.int64), listed.parents.astype(np.int64)
        best: tuple[float, Any] = (inf, None)

        def value(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            nonlocal best
            heights, cuts = x[:n], x[n:]
            total, uses, error = self.evaluate(cuts, heights)
            if total == inf:
                return 1e9, np.zeros(x.size)
            if total + error < best[0]:
                best = total + error, (x.copy(), uses)
            coverage = 1 - np.bincount(listed.vertex, uses, n)
            return total, np.concatenate((coverage, -lattice.rows.violation(union, parents, uses).cuts))

        start = np.concatenate((lattice.heights, lattice.cuts))
        least = np.concatenate((np.full(n, -inf), np.zeros(lattice.cuts.size)))
        _minimise(value, start, least, run, evaluations)
        if best[1] is None:
            return lattice, Bounds(inf, np.full(listed.vertex.size, inf))
        total, (x, uses) = best
        return replace(lattice, heights=x[:n], cuts=x[n:]), _bounds(total, uses)


def _bounds(log_total: float, shares: NDArray[np.float64]) -> Bounds:
    """Returns the bounds; of families, inf where the total is beyond the range of floats."""
    if log_total > _LARGEST:
        return Bounds(log_total, np.full(shares.size, inf))
    return Bounds(log_total, shares * exp(log_total))


def rounding(states: Any, n: int) -> float:
    """Returns a bound of the relative error of the sums over trees and their adjoints, a priori.

    Each number is a sum of products of positive numbers. T(·,k + 1) follows T(·,k) by a sum over the
    children of a slot, and a sum of k products for each slot of a state: for n levels and as many of the
    adjoint, this is the longest chain of operations, of relative error 2^-53 each.
    """
    slots = int(np.diff(states.first_slot).max())
    children = int(np.diff(states.first_child).max(initial=1))
    return 2 * n * (slots * (children + 2 * n) + 8) * _UNIT


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
