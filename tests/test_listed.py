"""Bounds of binary columns by a list of families, and the search of all others."""

from __future__ import annotations

from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from test_bounds import trees

from jtsolve.backends.clutter import backend, listed, listed_cuts
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.clutter.bound import best_bound
from jtsolve.backends.clutter.kernels.listed import grouped, limits, lower
from jtsolve.backends.clutter.listed import bound_by_list, memory_of_list
from jtsolve.backends.clutter.listed_cuts import ListedCut, with_cuts
from jtsolve.backends.forward.backend import Forward
from jtsolve.core.machine import resident_memory
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.run import Limits, Run
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scorers import make_scorer
from jtsolve.scoring.scores.aic import Aic
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.scores.bic import Bic
from jtsolve.scoring.scores.mdl import Mdl
from jtsolve.scoring.scores.qnml import Qnml
from jtsolve.scoring.triples import Triples, suits
from jtsolve.solving import Recorder, solve
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.core.result import Outcome
    from jtsolve.scoring.score import DiscreteScore


def binary_table(n: int, seed: int, rows: int = 200, ones: float = 0.3) -> DataTable:
    """Returns columns, some equal, opposite or rare, and one constant."""
    random = np.random.default_rng(seed)
    codes = (random.random((n, rows)) < ones).astype(np.int64)
    for v in range(1, n):
        copied = random.random(rows) < random.choice([0.0, 0.5, 0.9, 1.0])
        codes[v] = np.where(copied, codes[random.integers(v)], codes[v])
    codes[n // 2] = 1 - codes[0]
    codes[n - 1] = 0
    states = tuple(("0", "1") if len(set(column)) > 1 else ("0",) for column in codes.tolist())
    return DataTable(tuple(f"V{v}" for v in range(n)), states, codes)


def problem_of(table: DataTable, score: DiscreteScore) -> Problem:
    """Returns the problem of treewidth 2 with scores on demand."""
    variables = tuple(Variable(name, 2) for name in table.names)
    return Problem(variables, DataScores(table, score, 3), Constraints(max_treewidth=2))


@pytest.mark.parametrize("score", [Bic(), Aic(), Mdl(), Qnml()], ids=lambda score: score.name)
@pytest.mark.parametrize("seed", range(4))
def test_no_tree_exceeds_the_bound(score: DiscreteScore, seed: int) -> None:
    found = problem_of(binary_table(5, seed), score)
    every = [tree for tree in trees(5) if max(one.bit_count() for one in tree.cliques) <= 3]
    best = max(tree.score(found.scores) for tree in every)
    for first in (None, every[seed]):
        for root in (0, 4):
            run = Run()
            outcome = bound_by_list(found, root, first, run.limits, Recorder(found, run))
            assert outcome.bound >= best - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_that_of_an_ascent_over_all_families(seed: int) -> None:
    found = problem_of(binary_table(12, seed), Bic())
    first = solve(found, Forward(), Run()).tree
    optimum = solve(found, ClutterCuts(start=Forward()), Run()).score
    assert optimum is not None
    run = Run()
    outcome = bound_by_list(found, 0, first, run.limits, Recorder(found, run))
    assert outcome.bound >= optimum - 1e-9
    assert outcome.bound <= optimum + 0.01 * abs(optimum)


def test_the_plain_solver_bounds_by_a_list_where_the_families_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, calls = problem_of(binary_table(80, 0), Bic()), []

    def counted(*arguments: Any) -> Outcome:
        calls.append(arguments)
        return bound_by_list(*arguments)

    monkeypatch.setattr(backend, "bound_by_list", counted)
    monkeypatch.setattr(backend, "memory_of_ascent", lambda _: 10**15)
    small = Limits(time=20.0, memory=resident_memory() + 210_000_000)
    result = solve(found, ClutterCuts(start=Forward()), Run(small))
    assert result.score is not None
    assert result.score <= result.bound < result.score + 0.02 * abs(result.score)
    assert len(calls) == 1


@pytest.mark.parametrize("ones", [0.3, 0.03])
def test_a_search_finds_all_families_above_the_floor(ones: float) -> None:
    n, random = 9, np.random.default_rng(7)
    scores = problem_of(binary_table(n, 3, ones=ones), Bic()).scores
    assert isinstance(scores, DataScores)
    triples = Triples.of(scores.scorer)
    floor = random.random(n) * 4
    apart, linked = random.random((n, n)) * 3, random.random((n, n))
    linked += linked.T
    listed = np.array([[0, 1, 2], [2, 3, 5]])
    above: dict[tuple[int, ...], float] = {}
    for three in combinations(np.flatnonzero(triples.varies).tolist(), 3):
        for v in three:
            a, b = (u for u in three if u != v)
            whole, parents = scores.score(1 << v | 1 << a | 1 << b), scores.score(1 << a | 1 << b)
            gain = whole - parents - scores.score(1 << v)
            value = gain + min(apart[v, a], apart[v, b]) + linked[v, a] + linked[v, b]
            if value > floor[v] and list(three) not in listed.tolist():
                above[v, a] = max(above.get((v, a), -inf), value)
                above[v, b] = max(above.get((v, b), -inf), value)
    for workers in (1, 2):
        _, values, third = triples.best_thirds(floor, (apart, linked), listed, workers, lambda: None)
        assert {(v, a) for v, a in np.argwhere(third >= 0).tolist()} == set(above)
        for (v, a), value in above.items():
            assert value <= values[v, a] == pytest.approx(value)
        sets, values, _ = triples.best_thirds(floor, (apart, linked), listed, workers, lambda: None, room=100)
        assert values.max() == -inf
        pairs = {(v, a) for three in sets.tolist() for v in three for a in three}
        assert set(above) <= pairs


def test_cuts_charge_unlisted_families() -> None:
    n, random = 6, np.random.default_rng(5)
    pairs = list(combinations(range(n), 2))
    chains = np.sort(random.integers(12, size=40))
    # What joins each cut, and all of it: no pair of one of its vertices joins.
    joins: list[tuple[set[int], set[tuple[int, int]]]] = []
    cuts: list[tuple[set[int], set[tuple[int, int]]]] = []
    for k in range(40):
        old = cuts[-1] if k and chains[k] == chains[k - 1] else (set(), set())
        single = set(random.permutation(n)[: random.integers(2)].tolist()) - old[0]
        both = {pairs[i] for i in random.integers(15, size=2)} - old[1]
        both = {pair for pair in both if not (single | old[0]) & set(pair)}
        joins.append((single, both))
        cuts.append((old[0] | single, old[1] | both))
    amounts = random.integers(1, 100, size=40)
    families = np.array([(v, a, b) for v in range(n) for a, b in pairs if v not in (a, b)])

    def inside(k: int, members: set[int]) -> bool:
        single, both = cuts[k]
        return bool(single & members) or any(set(pair) <= members for pair in both)

    def total(holds: Iterable[bool]) -> int:
        return sum(amount for amount, one in zip(amounts.tolist(), holds, strict=True) if one)

    expected = [
        total([inside(k, {v, a, b}) and not inside(k, {a, b}) for k in range(40)])
        for v, a, b in families.tolist()
    ]
    of_vertex = [(v, k) for k, (single, _) in enumerate(joins) for v in sorted(single)]
    of_pair = [(u * n + v, k) for k, (_, both) in enumerate(joins) for u, v in sorted(both)]
    vertices, edges = (np.array(of, dtype=np.int64).T for of in (of_vertex, of_pair))
    where = (*grouped(*vertices, n), *grouped(*edges, n * n))
    none = np.zeros(len(families), dtype=np.int64)
    assert lower(families, none, where, amounts.copy(), chains)[0].tolist() == expected
    together, linked = limits(*vertices, *edges, amounts, chains, n)
    for v, u in families[:, :2].tolist():
        assert together[v, u] == total([{u, v} <= single for single, _ in cuts])
        assert linked[v, u] == total([inside(k, {u, v}) and not {u, v} & cuts[k][0] for k in range(40)])
    # No family exceeds its maximum with the lowered multipliers, but for what it does without any.
    over, less = random.integers(-400, 20, size=len(families)), amounts.copy()
    excess, left = lower(families, over, where, less, chains)
    assert (excess == over + expected).all()
    assert ((less >= 0) & (less <= amounts)).all()
    assert less.sum() < amounts.sum()
    assert (lower(families, over, where, less, chains)[0] <= left[families[:, 0]]).all()
    assert (left <= np.maximum(0, [over[families[:, 0] == v].max() for v in range(n)])).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_bounds_of_ascents_that_continue_others_hold(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found, continued = problem_of(binary_table(40, seed), Bic()), []

    def counted(*arguments: Any) -> Bound:
        continued.append(best_bound(*arguments))
        return continued[-1]

    monkeypatch.setattr(listed_cuts, "best_bound", counted)
    run = Run()
    recorder = Recorder(found, run)
    bound_by_list(found, 0, solve(found, Forward(), Run()).tree, run.limits, recorder)
    optimum = solve(found, ClutterCuts(start=Forward()), Run()).score
    assert optimum is not None
    assert continued
    assert recorder.bound >= optimum - 1e-9
    assert recorder.bound == pytest.approx(optimum)  # linear programs over the list close the gap


def test_cuts_are_added_to_the_sets_in_them() -> None:
    scores, random = problem_of(binary_table(8, 2), Bic()).scores, np.random.default_rng(3)
    assert isinstance(scores, DataScores)
    triples = Triples.of(scores.scorer)
    families = listed._families(triples, 0, np.array([[0, 1, 2], [1, 2, 5], [3, 5, 6]]), triples.pairs > 0)
    members = [frozenset(row[row < families.n].tolist()) for row in families.members]
    joins = [random.integers(1, len(members), size=3) for _ in range(12)]
    chains, amounts = sorted(random.integers(4, size=12).tolist()), random.integers(1, 50, size=12).tolist()
    bound = best_bound(families, np.zeros(len(members), dtype=np.int64), 0)
    cuts = [
        ListedCut(chain, amount, one.astype(np.int32))
        for chain, amount, one in zip(chains, amounts, joins, strict=True)
    ]
    values = with_cuts(families, bound, cuts).values
    for one, value in zip(members, values.tolist(), strict=True):
        chain = [
            any(members[at] <= one for i in range(k + 1) if chains[i] == chains[k] for at in joins[i])
            for k in range(12)
        ]
        assert value == sum(amount for amount, holds in zip(amounts, chain, strict=True) if holds)


def test_other_scores_and_columns_are_not_searched() -> None:
    table = binary_table(5, 0)
    assert suits(make_scorer(table, Bic(), 3))
    assert not suits(make_scorer(table, Bdeu(), 3))
    three = DataTable(("a", "b"), (("0", "1", "2"), ("0", "1")), np.array([[0, 1, 2], [0, 1, 1]]))
    assert not suits(make_scorer(three, Bic(), 2))
    assert isinstance(Triples.of(make_scorer(table, Bic(), 3)), Triples)


def test_memory_is_predicted_with_the_ones_of_each_row() -> None:
    few, many = (problem_of(binary_table(8, 0, rows), Bic()) for rows in (100, 1100))
    assert memory_of_list(many) - memory_of_list(few) == 16 * 1000 * 8
