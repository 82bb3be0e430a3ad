"""Heuristics against each other over many instances: wins, ties and losses; Friedman's and Nemenyi's tests.

Each instance ranks the backends, 1 for the best and the mean rank for ties. Friedman's test asks whether all
are equal; if not, two backends differ when their mean ranks do by the critical difference CD = q √(k(k+1) /
6N), where q is the quantile of the studentized range of k normal values over √2 (Nemenyi's test).

References:
    Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006: the tests (sections
    3.2.2 and 3.2.4), q (table 5a), and the diagram. Departs from it: the statistic is corrected for ties
    (Conover, Practical nonparametric statistics, 1999, section 5.8), and q is computed, so that k may exceed
    10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.result import OPTIMALITY_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jtsolve.compare.reporting.tables import Comparison

LEAST_INSTANCES = 5
SIGNIFICANCE = 0.05


@dataclass(frozen=True, slots=True)
class Duel:
    """How often the first backend is better, as good, and worse than the second, over instances."""

    first: str
    second: str
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """The tests on one treewidth.

    Args:
        treewidth: of all these problems.
        instances: how many instances ranked the backends.
        ranks: mean rank by backend, from the best.
        p_value: of Friedman's test that all are equal.
        difference: of mean ranks, from which on two backends differ (at the 5 % level).
        groups: backends that do not differ among themselves, largest sets only, at least two each.
        duels: of every two backends.
    """

    treewidth: int | None
    instances: int
    ranks: Mapping[str, float]
    p_value: float
    difference: float
    groups: tuple[tuple[str, ...], ...]
    duels: tuple[Duel, ...]


def rankings(comparison: Comparison) -> tuple[list[Ranking], str]:
    """Returns the rankings of the heuristics, one a treewidth, and why there are none where there are none.

    A backend's value on an instance is the mean distance of its seeds to the best known score; without a tree
    it is the last.
    """
    heuristics = [name for name in comparison.backends if comparison.exact[name] is False]
    if len(heuristics) < 2:  # noqa: PLR2004 - there is nothing to compare with
        return [], "Rankings need at least two heuristics."
    found = []
    most = 0
    for treewidth in dict.fromkeys(key[1] for key in comparison.problems):
        keys = [key for key in comparison.problems if key[1] == treewidth]
        table = [[_value(comparison, key, name) for name in heuristics] for key in keys]
        table = [row for row in table if min(row) < math.inf]
        most = max(most, len(table))
        if len(table) >= LEAST_INSTANCES:
            found.append(ranking(treewidth, heuristics, table))
    reason = f"Rankings need at least {LEAST_INSTANCES} instances that a heuristic solved; there are {most}."
    return found, "" if found else reason


def _value(comparison: Comparison, key: tuple[str, int | None], name: str) -> float:
    cell = comparison.cells.get((key, name))
    return math.inf if cell is None or cell.distance is None else cell.distance


def ranking(treewidth: int | None, names: Sequence[str], table: Sequence[Sequence[float]]) -> Ranking:
    """Returns the tests on a table with a row per instance and a column per backend; less is better."""
    rows = [mid_ranks(row) for row in table]
    count, k = len(rows), len(names)
    means = {name: fmean(row[j] for row in rows) for j, name in enumerate(names)}
    means = dict(sorted(means.items(), key=lambda entry: entry[1]))
    difference = nemenyi_quantile(k) * math.sqrt(k * (k + 1) / (6 * count))
    duels = [
        _duel(names[i], names[j], [(row[i], row[j]) for row in table])
        for i in range(k)
        for j in range(i + 1, k)
    ]
    p_value = friedman(rows)
    return Ranking(treewidth, count, means, p_value, difference, _groups(means, difference), tuple(duels))


def mid_ranks(values: Sequence[float]) -> list[float]:
    """Returns the rank of each value from 1 for the least; equal ones share the mean of their places.

    Values within the tolerance of optimality of the least of a group are equal.

    >>> mid_ranks([3.0, 1.0, 3.0, 2.0])
    [3.5, 1.0, 3.5, 2.0]
    """
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0.0] * len(values)
    begin = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or not _equal(values[order[begin]], values[order[end]]):
            for position in range(begin, end):
                ranks[order[position]] = (begin + 1 + end) / 2
            begin = end
    return ranks


def _equal(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= OPTIMALITY_TOLERANCE


def _duel(first: str, second: str, pairs: Sequence[tuple[float, float]]) -> Duel:
    ties = sum(_equal(a, b) for a, b in pairs)
    wins = sum(a < b and not _equal(a, b) for a, b in pairs)
    return Duel(first, second, wins, ties, len(pairs) - ties - wins)


def friedman(ranks: Sequence[Sequence[float]]) -> float:
    """Returns the p-value of Friedman's test, with correction for ties; 1 if every instance ties all.

    χ² = (k − 1) Σ_j (R_j − N(k+1)/2)² / (Σ_ij r_ij² − N k (k+1)² / 4), R_j the sum of the ranks of j.
    """
    table = np.array(ranks)
    count, k = table.shape
    between = float(((table.sum(axis=0) - count * (k + 1) / 2) ** 2).sum())
    within = float((table**2).sum()) - count * k * (k + 1) ** 2 / 4
    if within <= 0:
        return 1.0
    return chi_squared_tail((k - 1) * between / within, k - 1)


def chi_squared_tail(x: float, degrees: int) -> float:
    """Returns the probability that a χ² variable of so many degrees of freedom exceeds x.

    By the recurrence Q(a+1, y) = Q(a, y) + y^a e^(−y) / Γ(a+1) from Q(1/2, y) = erfc √y or Q(1, y) = e^(−y)
    (Abramowitz and Stegun, Handbook of mathematical functions, 1964, 6.5.21), with y = x/2.

    >>> round(chi_squared_tail(3.841, 1), 3), round(chi_squared_tail(9.488, 4), 3)
    (0.05, 0.05)
    """
    y = x / 2
    if y <= 0:
        return 1.0
    a, tail = (0.5, math.erfc(math.sqrt(y))) if degrees % 2 else (1.0, math.exp(-y))
    while a < degrees / 2:
        tail += math.exp(a * math.log(y) - y - math.lgamma(a + 1))
        a += 1
    return min(1.0, tail)


def nemenyi_quantile(k: int) -> float:
    """Returns q for k backends at the 5 % level: the 95 % quantile of the studentized range, over √2.

    The range of k standard normal values is at most x with probability k ∫ φ(z) (Φ(z) − Φ(z − x))^(k−1) dz.

    >>> [round(nemenyi_quantile(k), 3) for k in (2, 3, 10)]  # Demšar, table 5a: 1.960, 2.343, 3.164
    [1.96, 2.344, 3.164]
    """
    normal = NormalDist()
    z = np.linspace(-8, 8, 3201)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    below = np.array([normal.cdf(value) for value in z])

    def probability(x: float) -> float:
        shifted = np.interp(z - x, z, below, left=0.0)
        return float(k * np.trapezoid(density * (below - shifted) ** (k - 1), z))

    low, high = 0.0, 20.0
    while high - low > 1e-9:  # noqa: PLR2004 - far below what is shown
        middle = (low + high) / 2
        low, high = (middle, high) if probability(middle) < 1 - SIGNIFICANCE else (low, middle)
    return high / math.sqrt(2)


def _groups(means: Mapping[str, float], difference: float) -> tuple[tuple[str, ...], ...]:
    """Returns the largest runs of backends, in the order of their ranks, whose ends do not differ."""
    names = list(means)
    groups: list[tuple[str, ...]] = []
    reached = 0
    for begin in range(len(names)):
        end = begin + 1
        while end < len(names) and means[names[end]] - means[names[begin]] < difference:
            end += 1
        if end - begin > 1 and end > reached:
            groups.append(tuple(names[begin:end]))
            reached = end
    return tuple(groups)
