"""The posterior of the size of a population: exact sums for all candidates, published figures, and errors."""

from __future__ import annotations

import json
import time
from itertools import combinations, product
from math import lgamma, log
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from problems import named

import jtsolve as jt
from jtsolve.averaging.population import log_scores, log_sums, population_posterior
from jtsolve.averaging.sums import compute
from jtsolve.averaging.weights import set_weights
from jtsolve.backends.brute import chordal_trees
from jtsolve.cli import run as shell
from jtsolve.core.run import Run
from jtsolve.core.scores import DenseScores
from jtsolve.core.varset import is_subset
from jtsolve.errors import ChoiceError, InputError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

FIVE_LISTS = [0, 27, 37, 19, 4, 4, 1, 1, 97, 22, 37, 25, 2, 1, 3, 5]
FIVE_LISTS += [83, 36, 34, 18, 3, 5, 0, 2, 30, 5, 23, 8, 0, 3, 0, 2]
"""Cases by sets of five lists: the example of the R package dga, after Madigan and York (1997)."""
CASES: dict[str, Any] = {"a": [1, 1, 0], "b": [1, 0, 1], "count": [20, 30, 40]}


def relative(counts: NDArray[np.int64], missing: NDArray[np.int64], delta: float) -> NDArray[np.float64]:
    """Scores less those of single lists, as logarithms in the thousands round to 1e-12."""
    scores = log_scores(counts, missing, delta)
    masks, singles = np.arange(counts.size), scores.copy()
    for v in range(counts.size.bit_length() - 1):
        scores[masks >> v & 1 > 0] -= singles[1 << v]
    return scores


def drawn(k: int, cases: int, seed: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    ease = rng.normal(size=(cases, 1))
    on = (rng.normal(size=(cases, k)) + ease > 1) * (1 << np.arange(k))
    counts = np.bincount(on.sum(axis=1), minlength=1 << k)
    counts[0] = 0
    return counts


@pytest.mark.parametrize(
    ("counts", "delta"), [(np.array(FIVE_LISTS), 0.5), (drawn(5, 200, 1), 2.0**-5), (drawn(4, 90, 2), 1.0)]
)
def test_the_sums_are_those_over_all_decomposable_graphs(counts: NDArray[np.int64], delta: float) -> None:
    k = counts.size.bit_length() - 1
    scores = relative(counts, np.array([1, 2, 57, 300, 5000]), delta)
    totals, pairs = log_sums(scores, Run())
    trees = chordal_trees(k)
    assert len(trees) == {4: 61, 5: 822}[k]
    weights = np.array(
        [sum(scores[c] for c in t.cliques) - sum(scores[s] for s in t.separators) for t in trees]
    )
    weights = np.exp(weights - totals)
    assert weights.sum(axis=0) == pytest.approx(1, rel=1e-12)
    for (u, v), pair in zip(combinations(range(k), 2), pairs, strict=True):
        edge = 1 << u | 1 << v
        those = [any(is_subset(edge, clique) for clique in tree.cliques) for tree in trees]
        assert np.exp(pair - totals) == pytest.approx(weights[those].sum(axis=0), rel=1e-12)


def test_the_sums_are_those_of_averages() -> None:
    scores = relative(drawn(7, 40_000, 3), np.array([1, 10, 5000]), 0.01)
    totals, _ = log_sums(scores, Run())
    assert totals.min() > 800  # nats, beyond the range of doubles
    for candidate, total in enumerate(totals):
        problem = named(DenseScores(7, 7, scores[:, candidate]))
        assert total == pytest.approx(compute(set_weights(problem), Run()).log_total, rel=1e-13)


def test_the_published_example() -> None:
    found = population_posterior("abcde", np.array(FIVE_LISTS), 300, 0.5, Run())
    assert found.mean == pytest.approx(614.6, abs=0.05)
    assert found.interval() == (585, 651)
    assert found.observed == 537
    assert found.probabilities.sum() == pytest.approx(1)


def test_rows_and_counts_of_rows_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = {name: np.repeat(CASES[name], CASES["count"]) == 1 for name in "ab"}
    found = jt.population(CASES, weights="count", most=500)
    assert jt.population(whole, most=500).to_document() == found.to_document()
    path, picture, result = (tmp_path / name for name in ("cases.csv", "n.svg", "n.json"))
    path.write_text("a,b,count\n1,1,20\n1,0,30\n0,1,40\n")
    words = [path, "--weights", "count", "--most", "500", "--json", "--output"]
    assert shell(["population", *map(str, words), str(picture)], time.monotonic()) == 0
    capsys.readouterr()
    assert shell(["population", *map(str, words), str(result)], time.monotonic()) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(result.read_text()) == found.to_document()
    assert "size of the population" in picture.read_text()
    assert str(found).startswith(f"population {found.mean:.1f}, 95 % between")


def test_strata_add_up_as_independent_populations_do() -> None:
    rng = np.random.default_rng(5)
    strata = {"north": drawn(3, 60, 6), "south": drawn(3, 40, 7), "west": np.array([0, 9, 4, 3, 0, 0, 0, 0])}
    rows = [
        (name, cell, times) for name, counts in strata.items() for cell, times in enumerate(counts) if times
    ]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    table: dict[str, Any] = {name: [cell >> v & 1 for _, cell, _ in rows] for v, name in enumerate("abc")}
    table |= {"count": [int(times) for *_, times in rows], "region": [name for name, *_ in rows]}
    most = 30
    found = jt.population(table, weights="count", strata="region", most=most)
    expected = np.ones(1)
    for name, counts in strata.items():
        k = 2 if name == "west" else 3  # where the third list has no case
        posterior = brute(counts[: 1 << k], most)
        assert found.strata[name].names == tuple("abc"[:k])
        assert found.strata[name].probabilities == pytest.approx(posterior, rel=1e-10)
        both = np.zeros(expected.size + most - 1)
        for i, j in product(range(expected.size), range(most)):
            both[i + j] += expected[i] * posterior[j]
        expected = both
    assert found.probabilities == pytest.approx(expected, rel=1e-10)
    assert found.observed == sum(counts.sum() for counts in strata.values())
    assert found.sizes[0] == found.observed + 3
    assert found.mean == pytest.approx(sum(one.mean for one in found.strata.values()))
    assert "north" in str(found)
    columns = ["a", "b", "c"]
    chosen = jt.population(table, weights="count", strata="region", most=most, columns=columns)
    assert chosen.to_document() == found.to_document()


def brute(counts: NDArray[np.int64], most: int) -> NDArray[np.float64]:
    """The posterior of 1, …, `most` unobserved cases, graph by graph."""
    k = counts.size.bit_length() - 1
    missing = np.arange(1, most + 1)
    scores = log_scores(counts, missing, 2.0**-k)
    graphs = [
        sum(scores[c] for c in t.cliques) - sum((scores[s] for s in t.separators), np.zeros(most))
        for t in chordal_trees(k)
    ]
    cases = [lgamma(counts.sum() + m + 1) - lgamma(m + 1) - log(m) for m in missing.tolist()]
    weights = np.array(graphs) + cases
    sums: NDArray[np.float64] = np.exp(weights - weights.max()).sum(axis=0)
    return sums / float(sums.sum())


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"columns": ["a"]}, "one list overlaps with none"),
        ({}, {"weights": None}, "column 'count': '20' is neither 0 nor 1"),
        ({"b": [0, 0, 1], "a": [1, 1, 0], "c": [0, 0, 0]}, {}, "the list has no case"),
        ({"a": [1, 0, 0]}, {}, "1 rows are on no list"),
        ({"count": [0.5, 1, 2]}, {}, "whole"),
        ({}, {"most": 0}, "most=0 leaves no candidate"),
        ({}, {"delta": 0.0}, "above 0"),
        ({}, {"strata": "region"}, "none called 'region'"),
        ({"region": ["n", "n", "s"]}, {"strata": "region"}, "stratum 's'.*only one list has cases"),
    ],
)
def test_an_invalid_set_of_lists_is_refused(
    change: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises((InputError, ChoiceError), match=message):
        jt.population({**CASES, **change}, **{"weights": "count", **options})
