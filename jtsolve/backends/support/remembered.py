"""Scores and functions of sets that are computed once, for any number of variables."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from jtsolve.core.scores import own_scores
from jtsolve.core.varset import VarSet, key_of, members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jtsolve.core.scores import LocalScores

T = TypeVar("T")


class KnownScores:
    """Cached scores, for heuristics.

    A set without a score gets the sum of its variables' scores, and a variable without one gets 0: no final
    tree contains such a set, so its terms cancel.

    Args:
        scores: to cache.
        most: the number of scores above which all are forgotten; None for no limit.

    Attributes:
        scores: those cached.
        own: the scores of the single variables, in nats.
        key: from sets to keys of `values`.
        values: in nats, by key.
    """

    def __init__(self, scores: LocalScores, most: int | None = None) -> None:
        self.scores, self._most = scores, most
        self.own: list[float] = own_scores(scores).tolist()
        self.key = key_of(scores.n)
        self.values: dict[int | bytes, float] = {self.key(0): 0.0}

    def fetch(self, masks: Iterable[VarSet]) -> None:
        """Computes the scores that are not cached, in one batch per size."""
        if self._most is not None and len(self.values) > self._most:
            self.values = {self.key(0): 0.0}
        by_size: dict[int, dict[int | bytes, VarSet]] = {}
        for mask in masks:
            key = self.key(mask)
            if key not in self.values:
                by_size.setdefault(mask.bit_count(), {})[key] = mask
        for missing in by_size.values():
            rows = np.array([list(members(mask)) for mask in missing.values()], dtype=np.intp)
            scores = self.scores.batch(rows).tolist()
            for (key, mask), score in zip(missing.items(), scores, strict=True):
                self.values[key] = score if score > -inf else sum(self.own[v] for v in members(mask))


def remembered(function: Callable[[VarSet], T], n: int, most: int = 1 << 18) -> Callable[[VarSet], T]:
    """Returns a function of subsets of {0..n-1} that computes each value once; when full, it forgets all.

    >>> calls = []
    >>> squared = remembered(lambda mask: calls.append(mask) or mask**2, 100)
    >>> squared(3), squared(3), calls
    (9, 9, [3])

    Args:
        function: of a set.
        n: the number of variables.
        most: values held at a time.
    """
    key, known = key_of(n), dict[int | bytes, T]()

    def value(mask: VarSet) -> T:
        place = key(mask)
        try:
            return known[place]
        except KeyError:
            if len(known) >= most:
                known.clear()
            return known.setdefault(place, function(mask))

    return value
