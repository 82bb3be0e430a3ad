"""Comparison of heuristics over many instances: ranks, and the tests of Friedman, Nemenyi and Wilcoxon.

Each instance ranks the backends: 1 is best, and ties share their mean rank. The hypothesis of Friedman's test
is that all backends are equal. Two backends differ if their mean ranks are at least CD = q √(k(k+1) / 6N)
apart, where q is the 95 % quantile of the studentized range of k normal values, divided by √2 (Nemenyi's
test). Wilcoxon's signed-rank test of a pair halves the ranks of ties; its p-values are adjusted for the
number of pairs (Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
Statistics 6, 1979).

References:
    Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006: the tests (sections
    3.1.3, 3.2.2 and 3.2.4), and q (table 5a). Departure: Friedman's statistic is corrected for ties (Conover,
    Practical nonparametric statistics, 1999, section 5.8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
import scipy  # its subpackage `stats` takes a second to load, and loads on first use

from jtsolve.core.result import optimality_tolerance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jtsolve.compare.reporting.tables import Comparison, ProblemKey

LEAST_INSTANCES = 5
SIGNIFICANCE = 0.05


@dataclass(frozen=True, slots=True)
class Duel:
    """Numbers of instances on which the first backend is better than the second, ties, or is worse.

    `p_value` is that of Wilcoxon's signed-rank test, adjusted by Holm for all pairs.
    """

    first: str
    second: str
    wins: int
    ties: int
    losses: int
    p_value: float


@dataclass(frozen=True, slots=True)
class RankTest:
    """The tests at one treewidth.

    Args:
        treewidth: of the problems.
        instances: the number of instances ranked.
        ranks: mean rank by backend, best first.
        p_value: of Friedman's test that all backends are equal.
        difference: the critical difference of mean ranks, at the 5 % level.
        duels: every pair of backends.
    """

    treewidth: int | None
    instances: int
    ranks: Mapping[str, float]
    p_value: float
    difference: float
    duels: tuple[Duel, ...]


def rank_tests(comparison: Comparison) -> tuple[list[RankTest], str]:
    """Returns the tests of the heuristics, one per treewidth, or the reason why there are none.

    The value of a backend on an instance is minus its mean score over seeds; a backend without a tree is
    last.
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
            found.append(rank_test(treewidth, heuristics, table))
    reason = f"Rankings need at least {LEAST_INSTANCES} instances that a heuristic solved; there are {most}."
    return found, "" if found else reason


def _value(comparison: Comparison, key: ProblemKey, name: str) -> float:
    cell = comparison.cells.get((key, name))
    if cell is None or cell.distance is None:
        return math.inf
    # Minus the score, rather than the distance: the tolerance is relative to scores.
    return cell.distance - (comparison.problems[key].score or 0.0)


def rank_test(treewidth: int | None, names: Sequence[str], table: Sequence[Sequence[float]]) -> RankTest:
    """Returns the rank tests of a table of results in which less is better.

    Args:
        treewidth: the bound of the instances, for the report; None without one.
        names: of the k backends.
        table: a row per instance, with the k values to rank.
    """
    rows = [mid_ranks(row) for row in table]
    count, k = len(rows), len(names)
    means = {name: fmean(row[j] for row in rows) for j, name in enumerate(names)}
    means = dict(sorted(means.items(), key=lambda entry: entry[1]))
    difference = nemenyi_quantile(k) * math.sqrt(k * (k + 1) / (6 * count))
    pairs = [(i, j, [(row[i], row[j]) for row in table]) for i, j in combinations(range(k), 2)]
    adjusted = holm([wilcoxon(values) for _, _, values in pairs])
    duels = [_duel(names[i], names[j], values, p) for (i, j, values), p in zip(pairs, adjusted, strict=True)]
    p_value = friedman(rows)
    return RankTest(treewidth, count, means, p_value, difference, tuple(duels))


def mid_ranks(values: Sequence[float]) -> list[float]:
    """Returns the rank of each value from 1 for the least; ties share their mean rank.

    Values within the tolerance of optimality of the least of a group are ties.

    >>> mid_ranks([3.0, 1.0, 3.0, 2.0])
    [3.5, 1.0, 3.5, 2.0]
    """
    least = math.nan
    tied = {}
    for value in sorted(values):
        least = least if _equal(least, value) else value
        tied[value] = least
    return list(map(float, scipy.stats.rankdata([tied[value] for value in values])))


def _equal(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= optimality_tolerance(min(abs(a), abs(b)))


def _duel(first: str, second: str, pairs: Sequence[tuple[float, float]], p_value: float) -> Duel:
    ties = sum(_equal(a, b) for a, b in pairs)
    wins = sum(a < b and not _equal(a, b) for a, b in pairs)
    return Duel(first, second, wins, ties, len(pairs) - ties - wins, p_value)


def wilcoxon(pairs: Sequence[tuple[float, float]]) -> float:
    """Returns the two-sided p-value of the signed-rank test; 1 if all are ties."""
    differences = [0.0 if _equal(a, b) else a - b for a, b in pairs]
    if not any(differences):
        return 1.0
    return float(scipy.stats.wilcoxon(differences, zero_method="zsplit").pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values adjusted for their number, in steps from the least.

    >>> holm([0.01, 0.04, 0.02])
    [0.03, 0.04, 0.04]
    """
    adjusted, reached = [0.0] * len(p_values), 0.0
    for place, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        reached = max(reached, min(1.0, (len(p_values) - place) * p_values[i]))
        adjusted[i] = reached
    return adjusted


def friedman(ranks: Sequence[Sequence[float]]) -> float:
    """Returns the p-value of Friedman's test, corrected for ties; 1 if every instance ties all.

    χ² = (k − 1) Σ_j (R_j − N(k+1)/2)² / (Σ_ij r_ij² − N k (k+1)² / 4), R_j the sum of the ranks of j.
    """
    # scipy's friedmanchisquare refuses k = 2, and returns NaN if every instance ties all.
    table = np.array(ranks)
    count, k = table.shape
    between = float(((table.sum(axis=0) - count * (k + 1) / 2) ** 2).sum())
    within = float((table**2).sum()) - count * k * (k + 1) ** 2 / 4
    return 1.0 if within <= 0 else float(scipy.stats.chi2.sf((k - 1) * between / within, k - 1))


@cache
def nemenyi_quantile(k: int) -> float:
    """Returns q for k backends at the 5 % level.

    >>> [round(nemenyi_quantile(k), 3) for k in (2, 3, 10)]  # Demšar, table 5a: 1.960, 2.343, 3.164
    [1.96, 2.344, 3.164]
    """
    return float(scipy.stats.studentized_range.ppf(1 - SIGNIFICANCE, k, math.inf)) / math.sqrt(2)
