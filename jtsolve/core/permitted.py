"""The constraints on single sets, for arrays of K sets: which may be cliques, and which may be separators.

`Problem.permits_clique` and `Problem.permits_separator` check one set, with its score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from jtsolve.core.varset import VarSet, members, varset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem, Variable


@dataclass(frozen=True, slots=True)
class Masks:
    """Sets as bit masks, shape (K,)."""

    masks: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[Any]:
        """The numbers of members, shape (K,)."""
        return np.bitwise_count(self.masks)

    def holding(self, mask: VarSet) -> NDArray[np.bool_]:
        """Returns which sets hold all members of one, shape (K,)."""
        holds: NDArray[np.bool_] = self.masks & mask == mask
        return holds

    def are_in(self, listed: frozenset[VarSet]) -> NDArray[np.bool_]:
        """Returns which sets are listed, shape (K,)."""
        return np.isin(self.masks, np.array(sorted(listed), dtype=np.int64))

    def products(self, factors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the product of the factors of each set's members, shape (K,)."""
        products = np.ones(self.masks.shape)
        for v, factor in enumerate(factors.tolist()):
            products[self.masks >> v & 1 == 1] *= factor
        return products


@dataclass(frozen=True, slots=True)
class MemberRows:
    """Sets as rows of their members in increasing order, shape (K, width), filled up with n."""

    rows: NDArray[Any]
    sizes: NDArray[Any]

    def holding(self, mask: VarSet) -> NDArray[np.bool_]:
        """See `Masks`; shape (K,)."""
        every = np.ones(len(self.rows), dtype=np.bool_)
        for v in members(mask):
            every &= (self.rows == v).any(axis=1)
        return every

    def are_in(self, listed: frozenset[VarSet]) -> NDArray[np.bool_]:
        """See `Masks`; shape (K,)."""
        found = np.zeros(len(self.rows), dtype=np.bool_)
        for at in np.flatnonzero(np.isin(self.sizes, [mask.bit_count() for mask in listed])):
            found[at] = varset(self.rows[at, : self.sizes[at]].tolist()) in listed
        return found

    def products(self, factors: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `Masks`; shape (K,)."""
        products: NDArray[np.float64] = np.append(factors, 1.0)[self.rows].prod(axis=1)
        return products


Sets: TypeAlias = Masks | MemberRows


def within_cells(variables: Sequence[Variable], sets: Sets, cells: int) -> NDArray[np.bool_]:
    """Returns which sets have at most so many joint states; shape (K,).

    Args:
        variables: all of the problem.
        sets: the K sets.
        cells: maximum number of joint states, at most 2^53.
    """
    # Products are exact up to 2^53; one beyond rounds to no smaller number.
    return sets.products(np.array([variable.arity or 1 for variable in variables], dtype=float)) <= cells


def permitted_cliques(problem: Problem, sets: Sets) -> NDArray[np.bool_]:
    """Returns which sets may be cliques at any score, shape (K,)."""
    limits = problem.constraints
    permitted: NDArray[np.bool_] = sets.sizes > 0
    for edge in limits.forbidden_edges:
        permitted &= ~sets.holding(edge)
    if limits.forbidden_cliques:
        permitted &= ~sets.are_in(limits.forbidden_cliques)
    if limits.max_clique_cells is not None:
        permitted &= within_cells(problem.variables, sets, limits.max_clique_cells)
    return permitted


def permitted_separators(problem: Problem, sets: Sets) -> NDArray[np.bool_]:
    """Returns which sets may be separators at any score, shape (K,); none if there is one clique."""
    limits, sizes = problem.constraints, sets.sizes
    permitted: NDArray[np.bool_] = (sizes >= limits.min_separator_size) & (limits.max_cliques != 1)
    if limits.max_separator_size is not None:
        permitted &= sizes <= limits.max_separator_size
    if limits.allowed_separators is not None:
        permitted &= sets.are_in(limits.allowed_separators)
    if limits.forbidden_separators:
        permitted &= ~sets.are_in(limits.forbidden_separators)
    return permitted
