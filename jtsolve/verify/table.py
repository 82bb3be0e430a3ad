"""The table of sets that may be complete, for the verification of certificates.

See docs/certificates.md, "Table" and "Nodes".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.scores import SparseScores
from jtsolve.core.varset import VarSet, bounded_subsets, count_bounded_subsets, members
from jtsolve.verify.form import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem

_MOST_ENTRIES = 1 << 24
"""Bound on the number of sets times the size of the largest, for a memory of about 1 GB."""
_TOO_MANY = "There are too many sets that may be complete to verify it."


class SetTable:
    """All subsets of possible cliques, ∅ and the single variables.

    Args:
        problem: determines the permitted cliques.
        possible: the cliques left by completions; None for all that are permitted.

    Attributes:
        masks: the sets, by size, then by bit mask.
        index: their positions.
        sizes: shape (sets,).
        width: size of the largest set.
        coverable: shape (sets,); whether a permitted clique contains the set.
        member: shape (sets, width); the members in increasing order, padded with n.
        facet: shape (sets, width); the position of the set without its j-th member, 0 in the padding.
        layers: the positions of the sets of each size.
    """

    def __init__(self, problem: Problem, possible: Sequence[VarSet] | None) -> None:
        covered = _covered(problem, possible)
        everything = covered | {0} | {1 << v for v in range(problem.n)}
        self.masks = sorted(everything, key=lambda mask: (mask.bit_count(), mask))
        self.index = {mask: at for at, mask in enumerate(self.masks)}
        self.sizes = np.array([mask.bit_count() for mask in self.masks])
        self.coverable = np.array([mask in covered for mask in self.masks])
        self.width = int(self.sizes[-1])
        self.member = np.full((len(self.masks), self.width), problem.n, dtype=np.int32)
        self.facet = np.zeros((len(self.masks), self.width), dtype=np.int32)
        for at, mask in enumerate(self.masks):
            for j, v in enumerate(members(mask)):
                self.member[at, j] = v
                self.facet[at, j] = self.index[mask ^ 1 << v]
        ends = np.searchsorted(self.sizes, np.arange(self.width + 2)).tolist()
        self.layers = [slice(ends[size], ends[size + 1]) for size in range(self.width + 1)]

    def holding(self, u: int, v: int) -> NDArray[np.bool_]:
        """Returns which sets contain two variables, shape (K,)."""
        found: NDArray[np.bool_] = (self.member == u).any(axis=1) & (self.member == v).any(axis=1)
        return found

    def spread_up(self, bits: NDArray[np.uint64]) -> None:
        """Gives every set the bits of all its subsets; `bits` has shape (K,) or (K, words)."""
        for size, layer in enumerate(self.layers[1:], start=1):
            for j in range(size):
                bits[layer] |= bits[self.facet[layer, j]]

    def closing_round(
        self, alive: NDArray[np.bool_], allowed: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Returns the sets and families that remain after one round of closing.

        Args:
            alive: shape (sets,); the sets that may be complete.
            allowed: shape (sets, width); the families that a tree may use, of each set and its j-th member.
        """
        last = allowed.copy()  # last[A, j]: an allowed family (v,Q) of the j-th member with Q ⊇ A∖v
        for size in range(self.width, 1, -1):
            layer = self.layers[size]
            for j in range(size):
                for gone in range(size):
                    if gone != j:
                        facets = self.facet[layer, gone][last[layer, j]]
                        last[facets, j - (gone < j)] = True
        now = alive & (last.any(axis=1) | (self.sizes <= 1))
        for size, layer in enumerate(self.layers[2:], start=2):
            now[layer] &= now[self.facet[layer, :size]].all(axis=1)
        return now, allowed & now[:, None]


def _covered(problem: Problem, possible: Sequence[VarSet] | None) -> set[VarSet]:
    """Returns all subsets of the possible cliques, by default of the permitted cliques.

    Raises:
        Wrong: these, or the sets with a score, have more than `_MOST_ENTRIES` entries.
    """
    width = problem.max_clique_size
    if possible is not None:
        candidates = list(possible)
        width = max(map(int.bit_count, candidates), default=0)
    elif isinstance(problem.scores, SparseScores):
        candidates = [mask for mask in problem.scores.table if 0 < mask.bit_count() <= width]
        width = max(map(int.bit_count, candidates), default=0)
        require(width * len(candidates) <= _MOST_ENTRIES, _TOO_MANY)
    else:
        require(width * (count_bounded_subsets(problem.n, width) - 1) <= _MOST_ENTRIES, _TOO_MANY)
        candidates = list(bounded_subsets(problem.n, width))
    waiting = [mask for mask in candidates if problem.permits_clique(mask)]
    covered: set[VarSet] = set()
    while waiting:  # depth first, for a small stack
        mask = waiting.pop()
        if mask and mask not in covered:
            covered.add(mask)
            require(width * len(covered) <= _MOST_ENTRIES, _TOO_MANY)
            waiting += [mask ^ 1 << v for v in members(mask)]
    return covered
