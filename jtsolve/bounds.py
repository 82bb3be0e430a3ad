"""A bound that every problem has, for when a backend proves none."""

from __future__ import annotations

from itertools import chain, combinations, islice
from math import inf
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.problem import Problem

_CHUNK = 1 << 18
"""Sets to a batch: some tens of megabytes."""


def family_bound(problem: Problem) -> float:
    """Returns Σ_v max_P [s(P∪v) − s(P)], in nats: no junction tree of the problem scores more.

    Along any perfect elimination order the score is Σ_v s(P_v∪v) − s(P_v), where P_v ∪ v is within a clique
    (DESIGN, section 1). A set without a score is neither a clique nor a separator, so its terms cancel
    whatever value it is given: here the sum of its variables' own scores, or 0 for a variable that has none.

    It looks up every set that may be a clique once per member; weak, and never wrong.
    """
    n, scores = problem.n, problem.scores
    singles = np.array([scores.score(1 << v) for v in range(n)])
    singles[singles == -inf] = 0.0

    def filled(sets: NDArray[np.intp]) -> NDArray[np.float64]:
        values = scores.batch(sets)
        return np.where(values == -inf, singles[sets].sum(axis=1), values)

    best = singles.copy()
    for size in range(2, problem.max_clique_size + 1):
        every = chain.from_iterable(combinations(range(n), size))
        while (sets := np.fromiter(islice(every, _CHUNK * size), dtype=np.intp).reshape(-1, size)).size:
            values = filled(sets)
            for position in range(size):
                gains = values - filled(np.delete(sets, position, axis=1))
                np.maximum.at(best, sets[:, position], gains)
    return float(best.sum())
