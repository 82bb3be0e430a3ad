"""Relaxed sums over decomposable graphs: upper bounds of Z and of the mass of every family."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import exp, inf, log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.backends.clutter.inequalities import CutRows, RowVector

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.threads import Pool
    from jtsolve.families.families import Families, Listing

UNIT = 2.0**-53
"""Relative error of an operation."""
_ENTRIES, _BYTES_AN_ENTRY = 1e9, 32
"""Of lists of children, with copies while arrays grow."""
_MOST = 4e9
"""Maximum bytes of sums over trees; one evaluation of that size takes half a minute."""
_LARGEST = 700.0
"""Nats above which no mass is a float."""
_RANGE = 2.0**200
"""Sums beyond it, or totals below its reciprocal, count as no bound. Within it, a product that underflows
loses at most 2^-1022 · 2^200 of a sum, and all of them less than `_LEAST` of the total."""
_LEAST = 2.0**-500
_NONE = np.zeros(0, np.int64)
_SHARED_SLOTS, _SHARED_FAMILIES, _PARTS = 1e7, 5e4, 4
"""Slots times n² beyond which threads share a sum over trees, families beyond which they share one over
vertices, and the parts of both."""


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

    def weights_of_sets(self, cuts: NDArray[np.float64], pool: Pool | None = None) -> NDArray[np.float64]:
        """Returns t of shape (sets,): t(S∪u) − t(S) is w(u,S) + Σ λ of the cuts that the family enters."""
        t: NDArray[np.float64]
        t, _ = self.rows.weighted(self.families.values, RowVector(cuts, np.zeros(0)), pool)
        return t

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

    def without(self, listed: Listing, bounds: Bounds, budget: float) -> Lattice:
        """Drops the families of least mass, whose bounds sum to at most the budget, and charges them.

        A set that no remaining family completes is complete in no remaining graph, and is dropped with its
        supersets (`Families.restricted`).

        Args:
            listed: its families.
            bounds: of these.
            budget: mass.
        """
        order = np.argsort(bounds.families, kind="stable")
        sums = np.cumsum(bounds.families[order])
        sums += 2 * sums.size * UNIT * sums
        count = int(np.searchsorted(sums, budget, "right"))
        if count == 0:
            return self
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


def alone(lattice: Lattice, run: Run, evaluations: int, pool: Pool | None = None) -> tuple[Lattice, Bounds]:
    """Returns better multipliers, and the bounds by vertices that choose their families independently.

        Z ≤ Π_v Σ_P exp(w(v,P) + Σ λ [enters]) e^(−Σλ)

    Every graph's tree is a choice of a family for each vertex that enters every cut. The heights become
    the logarithms of the sums.

    Args:
        lattice: with the multipliers to begin with.
        run: ends it early.
        evaluations: of the bound, at most.
        pool: threads that share the families.
    """
    from jtsolve.averaging.kernels.relaxed import choices

    listed = lattice.families.listing()
    n, vertex = lattice.families.n, listed.vertex
    union, parents = listed.union.astype(np.int64), listed.parents.astype(np.int64)
    each = pool.map if pool else map
    # Parts depend on the number of families alone, so that the threads do not change the sums.
    count = _PARTS if vertex.size > _SHARED_FAMILIES else 1
    parts = [slice(*ends) for ends in pairwise([vertex.size * part // count for part in range(count + 1)])]
    best: tuple[float, Any] = (inf, None)

    def value(cuts: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal best
        t = lattice.weights_of_sets(cuts, pool)
        shares = np.empty(vertex.size)

        def choose(part: slice) -> Any:
            return choices(t, union[part], parents[part], vertex[part], n, shares[part])

        def enter(part: slice, factors: NDArray[np.float64]) -> NDArray[np.float64]:
            shares[part] *= factors[vertex[part]]
            return 1 - lattice.rows.violation(union[part], parents[part], shares[part]).cuts

        tops, sums = np.array(list(each(choose, parts))).transpose(1, 0, 2)
        top = tops.max(axis=0)
        factors = np.exp(tops - top)
        sums = (sums * factors).sum(axis=0)
        entered = np.sum(list(each(enter, parts, factors / sums)), axis=0)
        heights = top + np.log(sums)
        total = float(heights.sum() - cuts.sum()) + lattice.offset
        if total < best[0]:
            best = total, (cuts.copy(), heights, shares)
        return total, entered - 1

    _minimise(value, lattice.cuts, np.zeros(lattice.cuts.size), run, evaluations)
    total, (cuts, heights, shares) = best
    total += lattice.error(cuts, heights) + n * (vertex.size + 16) * UNIT
    shares *= 1 + (vertex.size + 16) * UNIT
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


def _reached(*lattice: Any) -> Any:
    """Returns `kernels.states.States` of what `kernels.states.reached` finds, the forest last."""
    from jtsolve.averaging.kernels.states import States, reached

    family, first_slot, first_child, child, full = reached(*lattice)
    vertex, tops = lattice[0], lattice[8]
    # State 0 is the root's, and the heads of other components follow it in the order of `tops`.
    heads = np.arange(1, tops.size + 1 if family.size else 1)
    return States(
        family.copy(),
        vertex[family].astype(np.int64),
        np.append(first_slot, first_child.size + np.array([0, heads.size])),
        np.append(first_child, child.size + np.arange(heads.size + 1)),
        np.append(child, heads),
        np.append(full, np.zeros(heads.size, np.bool_)),
    )


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
        from jtsolve.averaging.kernels.states import children_of

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
        of_child = np.repeat(np.arange(starts.size - 1), np.diff(starts))
        children = children[np.lexsort((vertex[children], of_child))]
        masks = np.array(families.masks(), dtype=np.int64)
        tops = order[first[0] : first[1]]
        root = int(tops[vertex[tops] == families.root][0])
        tops = tops[vertex[tops] != families.root]
        most *= starts.size > 0
        build = partial(_reached, vertex, union, parents, starts, children, masks, lattice.rank, root, tops)
        self.states = build(thresholds, most, entries)
        sums = 8 * (families.n + 1) * (6 * self.states.family.size + 3 * self.states.first_child.size)
        if sums > min(_MOST, room / 2):
            self.states = build(thresholds, 0, entries)

    def restricted_to(self, kept: NDArray[np.bool_]) -> Forest:
        """Returns the trees of some of the states, a mask of shape (states,); the root's has to be one."""
        old, smaller = self.states, copy(self)
        of_slot = np.repeat(np.arange(kept.size + 1), np.diff(old.first_slot))
        of_child = np.repeat(np.arange(of_slot.size), np.diff(old.first_child))
        kept_or_forest = np.append(kept, [True])
        left = kept[old.child] & kept_or_forest[of_slot[of_child]]
        children = np.bincount(of_child[left], minlength=of_slot.size)
        slots = np.bincount(of_slot[children > 0], minlength=kept.size + 1)[kept_or_forest]
        smaller.states = old._replace(
            family=old.family[kept],
            vertex=old.vertex[kept],
            first_slot=np.append(0, np.cumsum(slots)),
            first_child=np.append(0, np.cumsum(children[children > 0])),
            child=(np.cumsum(kept) - 1)[old.child[left]],
            full=old.full[left],
        )
        return smaller

    def weights(self, cuts: NDArray[np.float64], heights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the weight of every state, shape (states,); `cuts` has shape (cuts,), `heights` (n,)."""
        t = self.lattice.weights_of_sets(cuts)
        gains = t[self.listed.union] - t[self.listed.parents]
        with np.errstate(over="ignore"):
            weights: NDArray[np.float64] = np.exp(gains - heights[self.listed.vertex])[self.states.family]
        return weights

    def sums(
        self, cuts: NDArray[np.float64], heights: NDArray[np.float64], pool: Pool | None = None
    ) -> TreeSums | None:
        """Returns the sums over trees; None if they are beyond the range.

        Args:
            cuts: shape (cuts,).
            heights: shape (n,).
            pool: threads that share the states.
        """
        n, weights = self.lattice.families.n, self.weights(cuts, heights)
        found = self._sweep(weights, pool)
        if not 1 / _RANGE < found.total < _RANGE:
            return None
        T, _, P = found.sums
        adjoints = found.adjoints(products := np.zeros_like(P))
        if not max(x.max(initial=0.0) for x in (weights, T, P, adjoints, products)) < _RANGE:
            return None
        mass = (T[0] * adjoints[0]).sum(axis=0)
        offset = float(heights.sum() - cuts.sum()) + self.lattice.offset
        error = self.lattice.error(cuts, heights) + rounding(self.states, n)
        return TreeSums(weights, found.total, mass, offset, error)

    def _sweep(self, weights: NDArray[np.float64], pool: Pool | None) -> Sweep:
        """Returns the sums over trees; parts depend on the size alone, so that threads do not change them."""
        n = self.lattice.families.n
        parts = _PARTS if self.states.first_child.size * n * n > _SHARED_SLOTS else 1
        return Sweep(n, self.states, weights, pool=pool, parts=parts)

    def improve(self, run: Run, evaluations: int, pool: Pool | None = None) -> tuple[Lattice, Bounds]:
        """Returns better multipliers, with the bounds.

        Args:
            run: ends it early.
            evaluations: of the bound, at most.
            pool: threads that share the states.
        """
        lattice, listed = self.lattice, self.listed
        n = lattice.families.n
        union, parents = listed.union.astype(np.int64), listed.parents.astype(np.int64)
        best: tuple[float, Any] = (inf, None)
        first, shift = -inf, 0.0

        def value(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            nonlocal best, first, shift
            heights, cuts = x[:n] + shift, x[n:]
            found = self.sums(cuts, heights, pool)
            if found is None and first == -inf:
                total = self._sweep(self.weights(cuts, heights), pool).total
                shift = log(total) / n if 0 < total < inf else 0.0
                heights += shift
                found = self.sums(cuts, heights, pool)
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


class Sweep:
    """Sums over trees in which marked vertices are introduced exactly once.

    Attributes:
        sums: `kernels.relaxed.Sums`.
        total: R = Σ_k Σ_b T(b,k,root) P(last slot of the forest,all∖b,n − k).
    """

    def __init__(
        self,
        n: int,
        states: Any,
        weights: NDArray[np.float64],
        marked: NDArray[np.int64] = _NONE,
        *,
        pool: Pool | None = None,
        parts: int = 1,
    ) -> None:
        """Sums by numbers of introductions.

        Args:
            n: the number of variables, and of introductions.
            states: `kernels.states.States`.
            weights: shape (m,): of the introduction of each state.
            marked: shape (q,).
            pool: threads that share the parts.
            parts: of the states.
        """
        from jtsolve.averaging.kernels.relaxed import Sums, inside

        m, slots, marks = weights.size, states.first_child.size - 1, 1 << marked.size
        bits = (states.vertex[:, None] == marked) @ (1 << np.arange(marked.size))
        self.sums = Sums(np.zeros((marks, n + 1, m)), *np.zeros((2, slots, marks, n + 1)))
        self.sums.T[bits, 1, np.arange(m)] = weights
        self.sums.P[:, 0, 0] = 1.0
        self._given = states, weights, bits, self.sums
        self._each, self._forest = pool.map if pool else map, int(states.first_slot[m]) < slots
        cuts = np.searchsorted(states.first_slot, slots * np.arange(1, parts) // parts).tolist()
        self._parts = list(enumerate(pairwise([0, *cuts, m + 1])))
        self._steps = list(pairwise([1, *range(2, n if parts > 1 else 2), n]))
        for begin, end in self._steps:
            list(self._each(lambda part: inside(begin, end, *part[1], *self._given), self._parts))  # noqa: B023
        forest = np.zeros((marks, n + 1))
        forest[0, 0] = 1.0
        if self._forest:
            forest = self.sums.P[-1]
        self._rest = forest[::-1, n - 1 :: -1]
        self.total = float((self.sums.T[:, 1:, 0] * self._rest).sum())

    def adjoints(self, products: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the adjoints of T, of its shape, and writes those of P.

        R is the sum over k and b of T times its adjoint, for any one tree. `products` has the shape of P, and
        zeros on entry.
        """
        from jtsolve.averaging.kernels.relaxed import outside

        n = self._rest.shape[1]
        found = np.zeros((len(self._parts), *self.sums.T.shape))
        found[0, :, 1:, 0] = self._rest
        if self._forest:
            products[-1, :, :n] = self.sums.T[::-1, n:0:-1, 0]
        for begin, end in reversed(self._steps):

            def leave(part: tuple[int, tuple[int, int]]) -> None:
                outside(end - 1, begin - 1, *part[1], *self._given, found, part[0], products)  # noqa: B023

            list(self._each(leave, self._parts))
        adjoints: NDArray[np.float64] = found.sum(axis=0)
        return adjoints


def _bounds(log_total: float, shares: NDArray[np.float64]) -> Bounds:
    """Returns the bounds; of families, inf where the total is beyond the range of floats."""
    if log_total > _LARGEST:
        return Bounds(log_total, np.full(shares.size, inf))
    return Bounds(log_total, (shares + _LEAST) * exp(log_total))


def rounding(states: Any, n: int, longest: int = 0) -> float:
    """Returns a bound of the relative error of the sums over trees and their adjoints, a priori.

    Each number is a sum of products of positive numbers, in any order; errors of factors add up. Each of n
    introductions passes through the slots of its state, with a sum over the children and one of 4n products
    at each, n for each set of two marked vertices; an adjoint is summed over the slots that the state is a
    child in, and a mass over n numbers and the states of a family. Each operation has a relative error of
    2^-53.

    Args:
        states: `kernels.states.States`.
        n: the number of variables.
        longest: the longest sum beside those.
    """
    slots = int(np.diff(states.first_slot).max())
    children = int(np.diff(states.first_child).max(initial=1))
    parents = int(np.bincount(states.child).max(initial=0))
    copies = int(np.bincount(states.family).max())
    return 2 * (n + 1) * ((slots + 1) * (children + longest + 4 * n + 8) + parents + copies) * UNIT


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
