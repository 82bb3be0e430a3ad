"""The size of a population from overlapping lists, averaged over all decomposable graphs.

D. Madigan and J. C. York, Bayesian methods for estimation of the size of a closed population, Biometrika 84,
1997. Each of N cases is on some of k lists; the n₀ cases on none are unobserved. Under a decomposable graph G
of dependence between the lists, with a hyper Dirichlet prior of δ cases for each of the 2^k cells,

    P(n₀, G | data) ∝ p(n₀) · N!/n₀! · Π s(C) / Π s(S)      over the cliques C and separators S of G
    s(A) = Γ(δ2^k)/Γ(N + δ2^k) · Π_a Γ(n(a) + δ_A)/Γ(δ_A)  over the cells a of A's margin; δ_A = δ2^(k−|A|)

with p(n₀) ∝ 1/n₀ for n₀ = 1, 2, …, and all graphs equally likely. Among the counts n(a), only that of the
cell without any list depends on n₀. So the sums over all graphs Z(n₀) are those of `averaging.sums` with one
row of numbers for each set, and graphs with complete {u,v} have the sum s({u,v}) P({u,v}, V∖{u,v}).

Time: some 3·4^k products for each candidate n₀. Memory: four tables of 3^k rows of at most `_LANES` numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.files import write_atomically
from jtsolve.core.formats import RASTER
from jtsolve.core.notebook import as_html
from jtsolve.core.renaming import renaming_tables
from jtsolve.errors import ChoiceError
from jtsolve.listing import table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.core.run import Run

    Array = NDArray[np.float64]

_CELLS = 1 << 24
"""Approximate number of cells of a table."""
_LANES = 512
"""Maximum number of candidates in one pass."""
_SPREAD = 450
"""Maximum variation of a row between candidates, in bits: less than half of the range of a double."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PopulationPosterior:
    """The posterior of the size of a population, or of the sum of its strata.

    Attributes:
        names: names of the lists.
        observed: the number of cases on any list.
        probabilities: of 1, 2, … unobserved cases; of s strata, of s, s + 1, ….
        dependence: shape (lists, lists): the probability that two lists are adjacent in the graph; None for a
            sum of strata.
        delta: prior cases of a cell; None for a sum of strata.
        strata: the posterior of each stratum by name; empty for a single population.
    """

    names: tuple[str, ...]
    observed: int
    probabilities: Array
    dependence: Array | None = None
    delta: float | None = None
    strata: Mapping[str, PopulationPosterior] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of_strata(cls, strata: Mapping[str, PopulationPosterior]) -> PopulationPosterior:
        """Returns the posterior of the sum of strata, which are independent."""
        names = dict.fromkeys(name for one in strata.values() for name in one.names)
        observed = sum(one.observed for one in strata.values())
        # Numbers of unobserved cases add up: their probabilities are convolved.
        sums = reduce(np.convolve, (one.probabilities for one in strata.values()))
        return cls(tuple(names), observed, sums, strata=MappingProxyType(dict(strata)))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The candidate sizes of the population, shape (K,), one for each probability."""
        return self.observed + max(1, len(self.strata)) + np.arange(self.probabilities.size)

    @property
    def mean(self) -> float:
        """The posterior mean of the size of the population."""
        return float(self.probabilities @ self.sizes)

    def interval(self, level: float = 0.95) -> tuple[int, int]:
        """Returns the sizes between which the population lies, with equal tails.

        Raises:
            ChoiceError: the level is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise ChoiceError(f"the level of the interval is {level}; give one between 0 and 1")
        low, high = np.searchsorted(np.cumsum(self.probabilities), [(1 - level) / 2, (1 + level) / 2])
        last = self.probabilities.size - 1
        return int(self.sizes[min(low, last)]), int(self.sizes[min(high, last)])

    def to_document(self) -> dict[str, Any]:
        """Returns the posterior as JSON values."""
        document: dict[str, Any] = {
            "lists": list(self.names),
            "observed": self.observed,
            "mean": self.mean,
            "interval": list(self.interval()),
            "probabilities": self.probabilities.tolist(),
        }
        if self.dependence is None:
            return {**document, "strata": {name: one.to_document() for name, one in self.strata.items()}}
        return {**document, "delta": self.delta, "dependence": self.dependence.tolist()}

    def draw(self, path: str | Path) -> None:
        """Draws the posterior of the size (.svg, .png).

        Raises:
            ChoiceError: the suffix is not supported.
            InputError: the file cannot be written.
        """
        from jtsolve.averaging.pictures import render, size_figure

        kind = RASTER.format_to_write(path)
        write_atomically(path, render(size_figure(self.sizes, self.probabilities, self.interval()), kind))

    def __str__(self) -> str:
        if (chances := self.dependence) is None:
            head = ["stratum", "population", "95 % from", "to", "observed"]
            rows = [
                [name, f"{one.mean:.1f}", *map(str, one.interval()), str(one.observed)]
                for name, one in self.strata.items()
            ]
        else:
            head = ["list", "list", "P(dependent)"]
            pairs = sorted(combinations(range(len(self.names)), 2), key=lambda pair: -chances[pair])
            rows = [[self.names[u], self.names[v], f"{chances[u, v]:.3f}"] for u, v in pairs]
        low, high = self.interval()
        return (
            f"population {self.mean:.1f}, 95 % between {low} and {high}; {self.observed} observed\n\n"
            f"{table(head, rows)}"
        )

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"PopulationPosterior({self.mean:.1f}, 95 % between {low} and {high})"

    def _repr_html_(self) -> str | None:
        return as_html(str(self).splitlines())


def population_posterior(
    names: Sequence[str], counts: NDArray[np.int64], most: int, delta: float, run: Run
) -> PopulationPosterior:
    """Returns the posterior of the size of a population.

    Args:
        names: names of the k lists.
        counts: shape (2^k,): the cases by the set of their lists, a bit mask; cases on no list are ignored.
        most: maximum number of unobserved cases.
        delta: prior cases of a cell.
        run: limits and progress.

    Raises:
        LimitError: the sums exceed the memory or the time limit.
    """
    from scipy.special import gammaln

    k, observed = len(names), int(counts[1:].sum())
    missing = np.arange(1, most + 1)
    totals, pairs = log_sums(log_scores(counts, missing, delta), run)
    sizes = observed + missing
    posterior = totals + gammaln(sizes + 1) - gammaln(missing + 1) - np.log(missing)
    posterior = np.exp(posterior - posterior.max())
    posterior /= posterior.sum()
    dependence = np.zeros((k, k))
    for (u, v), logarithms in zip(combinations(range(k), 2), pairs, strict=True):
        dependence[u, v] = dependence[v, u] = min(1.0, posterior @ np.exp(logarithms - totals))
    return PopulationPosterior(tuple(names), observed, posterior, dependence, delta)


def require_room(k: int, most: int, run: Run) -> None:
    """Checks that the scores and the sums for k lists fit the memory.

    Args:
        k: number of lists.
        most: number of candidates for the unobserved cases.
        run: the memory limit.

    Raises:
        LimitError: they exceed it.
    """
    need = 4 * 8 * (3**k * (_lanes(k, most) + 1) + 2**k * most)
    run.require_memory(need, "the sums over all graphs need", "fewer lists or candidates")


def _lanes(k: int, candidates: int) -> int:
    """Returns the number of candidates in one pass."""
    return min(_LANES, candidates, max(1, _CELLS // int(3**k)))


def log_scores(counts: NDArray[np.int64], missing: NDArray[np.int64], delta: float) -> Array:
    """Returns ln s(A), shape (2^k, candidates), in nats, for each candidate number of unobserved cases.

    Args:
        counts: of each cell of the lists, shape (2^k,).
        missing: candidate numbers of unobserved cases, shape (candidates,).
        delta: prior count of each cell.
    """
    from scipy.special import gammaln

    k = counts.size.bit_length() - 1
    cells = np.flatnonzero(counts[1:]) + 1
    times = counts[cells]
    masks = np.arange(counts.size)
    prior = delta * 2.0 ** (k - np.bitwise_count(masks).astype(float))
    seen, none = np.empty(counts.size), np.empty(counts.size)
    for a in masks.tolist():
        margin = np.bincount(cells & a, times, counts.size)
        none[a] = margin[0]
        margin = margin[1:][margin[1:] > 0]
        seen[a] = (gammaln(margin + prior[a]) - gammaln(prior[a])).sum()
    first = gammaln((none + prior)[:, None] + missing) - gammaln(prior)[:, None]
    every = gammaln(prior[0]) - gammaln(times.sum() + missing + prior[0])
    scores: Array = seen[:, None] + first + every
    return scores


def log_sums(scores: Array, run: Run) -> tuple[Array, Array]:
    """Returns ln of the sums over all graphs, and over those with each edge, for every candidate.

    Args:
        scores: shape (2^k, candidates): ln s(A), that of the empty set 0.
        run: limits and progress.

    Returns:
        Shapes (candidates,) and (pairs, candidates), pairs in the order of `combinations`, in nats.

    Raises:
        LimitError: the sums exceed the memory or the time limit.
    """
    count, candidates = scores.shape
    k = count.bit_length() - 1
    masks = np.arange(count)
    offset = np.zeros(candidates)  # relative to single variables, as in `weights`
    relative = scores / np.log(2)
    for v in range(k):
        own = relative[1 << v].copy()
        relative[masks >> v & 1 > 0] -= own
        offset += own
    # The weight of a graph is Π_v s(P_v∪v)/s(P_v): its ratio between candidates is bounded factor by factor.
    steps = np.diff(relative, axis=1)
    reach = np.zeros(candidates)
    for v in range(k):
        before = masks[masks >> v & 1 == 0]
        reach[1:] += np.abs(steps[before | 1 << v] - steps[before]).max(axis=0)
    reach = np.cumsum(reach)
    lanes = _lanes(k, candidates)
    found = np.empty((1 + k * (k - 1) // 2, candidates))
    with run.phase("summing over all graphs"):
        first = 0
        while first < candidates:
            fitting = int(np.searchsorted(reach, reach[first] + _SPREAD, "right"))
            chosen = slice(first, min(first + lanes, fitting))
            found[:, chosen] = _sums(relative[:, chosen], run)
            first = chosen.stop
    found = (found + offset) * np.log(2)
    return found[0], found[1:]


def _sums(logarithms: Array, run: Run) -> Array:
    """Returns the sums of `log_sums` for some candidates, to base 2."""
    from jtsolve.averaging.kernels.population import EMPTY, sum_layer

    count, lanes = logarithms.shape
    k = count.bit_length() - 1
    sizes = np.bitwise_count(np.arange(count)).astype(np.int64)
    start = np.cumsum(1 << sizes) - (1 << sizes)
    powers = np.floor(logarithms.max(axis=1)).astype(np.int64)
    local = np.exp2(logarithms - powers[:, None])
    tables = tuple(np.zeros((3**k, lanes)) for _ in range(4))
    exponents = tuple(np.full(3**k, EMPTY) for _ in range(4))
    _, _, p, x = tables
    _, _, pe, xe = exponents
    p[start], pe[start] = 1.0, 0  # R = ∅
    whole = start + (1 << sizes) - 1
    x[whole], xe[whole] = local, powers
    ones, sums = np.ones((1, lanes)), np.zeros((count, 1, lanes))
    names, inverse = renaming_tables(), 1.0 / local
    for size in range(1, k + 1):
        run.require_time("the sums over all graphs", "fewer lists or candidates")
        sum_layer(size, start, sizes, names, local, powers, inverse, tables, exponents, ones, sums)
    complete = np.array([0, *(1 << u | 1 << v for u, v in combinations(range(k), 2))])
    rows = whole[count - 1 ^ complete]
    return np.asarray(np.log2(p[rows]) + pe[rows][:, None] + logarithms[complete])
