"""Local scores for local search: computed in batches, cached, and with optional noise."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.support.remembered import KnownScores

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from jtsolve.core.scores import LocalScores
    from jtsolve.core.varset import VarSet

CACHED_SCORES = 1 << 20
BYTES_PER_SCORE = 150
"""Memory of a score in a dictionary: two numbers and the entry, measured up to a few hundred variables."""


class NoisyScores(KnownScores):
    """Cached scores, with noise; the cache is cleared when it is full."""

    def __init__(self, scores: LocalScores, random: Random, most: int = CACHED_SCORES) -> None:
        super().__init__(scores, most)
        self._random = random
        self._noise: dict[int | bytes, float] = {}
        self.deviation = 0.0

    def partners(self, most: int) -> list[list[int]]:
        """Returns, for each v, the u with the largest gains s(uv) − s(u) − s(v), in decreasing order."""
        n, own = len(self.own), np.array(self.own)
        u, v = np.triu_indices(n, 1)
        gains = np.full((n, n), -inf)
        gains[u, v] = gains[v, u] = self.scores.batch(np.column_stack([u, v])) - own[u] - own[v]
        ranked: list[list[int]] = np.argsort(-gains, axis=1, kind="stable")[:, : min(most, n - 1)].tolist()
        return ranked

    def perturb(self, deviation: float) -> None:
        """Draws new normal noise for each score, with a standard deviation in nats; 0 for none."""
        self.deviation = deviation
        self._noise = {}

    def gain(self, plus: Sequence[VarSet], minus: Sequence[VarSet]) -> float:
        """Returns Σ s(A) over `plus` minus Σ s(A) over `minus`, in nats; all have been fetched."""
        known, key = self.values, self.key
        total = 0.0
        for mask in plus:
            total += known[key(mask)]
        for mask in minus:
            total -= known[key(mask)]
        return total

    def noise(self, plus: Sequence[VarSet], minus: Sequence[VarSet]) -> float:
        """Returns the noise of the gain, in nats."""
        if not self.deviation:
            return 0.0
        return sum(map(self._noise_of, plus)) - sum(map(self._noise_of, minus))

    def _noise_of(self, mask: VarSet) -> float:
        if mask & (mask - 1) == 0:
            return 0.0  # singletons and ∅ contribute the same to all trees
        key = self.key(mask)
        if key not in self._noise:
            self._noise[key] = self._random.gauss(0.0, self.deviation)
        return self._noise[key]
