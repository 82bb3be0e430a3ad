from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from math import inf

import numpy as np
import pytest
from problems import (
    WITHOUT_GRAPHS,
    Recording,
    draw_constraints,
    from_data,
    from_network,
    gaussian,
    integers,
    named,
    repeatable,
    with_holes,
)
from readers import tabulate

from jtsolve.backends.brute import Brute, meets_constraints
from jtsolve.backends.forward.backend import Forward, chordal_neighbours
from jtsolve.backends.forward.pairs import gaining_pairs
from jtsolve.core.problem import Constraints, Problem
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, members, varset
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.bic import Bic
from jtsolve.solving import solve
from jtsolve.tables.table import DataTable

Graph = tuple[VarSet, ...]


def toggled(graph: Graph, u: int, v: int) -> Graph:
    changed = list(graph)
    changed[u] ^= 1 << v
    changed[v] ^= 1 << u
    return tuple(changed)


def tree_of(graph: Graph) -> JunctionTree | None:
    try:
        return JunctionTree.from_neighbours(graph)
    except ValueError:
        return None


def value(problem: Problem, tree: JunctionTree) -> float:
    """Returns the score of a tree, with the sum of the single scores for a set that has none."""

    def one(mask: VarSet) -> float:
        score = problem.scores.score(mask)
        if score > -inf:
            return score
        singles = [problem.scores.score(1 << v) for v in members(mask)]
        return sum(single if single > -inf else 0.0 for single in singles)

    return sum(one(part) for part in tree.cliques) - sum(one(part) for part in tree.separators)


def bad_cliques(problem: Problem, tree: JunctionTree) -> Counter[tuple[str, VarSet]]:
    bad = Counter(("clique", part) for part in tree.cliques if not problem.permits_clique(part))
    return bad + Counter(
        ("separator", part) for part in tree.separators if not problem.permits_separator(part)
    )


def naive(problem: Problem) -> JunctionTree | None:
    """The oracle: tries every pair at every step, and compares whole trees."""
    start = chordal_neighbours(problem)
    if start is None:
        return None
    n, limits = problem.n, problem.constraints
    graph = tuple(start)
    most = min(n, limits.max_cliques or n)
    while True:
        tree = JunctionTree.from_neighbours(graph)
        bad = bad_cliques(problem, tree)
        broken = bad.total() > 0 or len(tree.cliques) > most
        ranked: list[tuple[bool, int, float, int, int, Graph]] = []
        detours: list[tuple[bool, int, float, int, int, Graph]] = []
        for u, v in combinations(range(n), 2):
            after = toggled(graph, u, v)
            grown = tree_of(after)
            if graph[u] >> v & 1 or grown is None or varset((u, v)) in limits.forbidden_edges:
                continue
            if any(clique.bit_count() > problem.max_clique_size for clique in grown.cliques):
                continue
            growth = len(grown.cliques) - len(tree.cliques)
            later = bad_cliques(problem, grown)
            loss = value(problem, tree) - value(problem, grown)
            mends = (later - bad).total() > 0 or loss >= 0
            cost = later.total() - bad.total() + (growth if most < n else 0)
            fits = growth <= 0 or len(grown.cliques) <= most
            (ranked if fits else detours).append((mends, cost if mends else 0, loss, u, v, after))
        if broken and not ranked:
            ranked = detours
        if not ranked or (min(ranked)[0] and not broken):
            break
        graph = min(ranked)[-1]
    if broken:
        return None
    return JunctionTree.from_neighbours(naively_reduced(problem, graph))


def naively_reduced(problem: Problem, graph: Graph) -> Graph:
    while True:
        tree = JunctionTree.from_neighbours(graph)
        best: tuple[float, Graph] = (0.0, graph)
        for u, v in tree.graph_edges:
            after = toggled(graph, u, v)
            shrunk = tree_of(after)
            if shrunk is not None and meets_constraints(problem, shrunk):
                gain = value(problem, shrunk) - value(problem, tree)
                if gain > best[0]:
                    best = (gain, after)
        if best[0] <= 0:
            return graph
        graph = best[1]


def whole(seed: int) -> Problem:
    """Returns a problem with whole scores, so that all sums are exact and ties are ties."""
    random = repeatable(seed)
    n = random.randint(1, 6)
    features = frozenset(random.sample(list(WITHOUT_GRAPHS), random.choice([0, 0, 1, 1, 2, 3])))
    table = integers(seed, n, random.randint(1, n), high=random.choice([2, 10**6]))
    scores = with_holes(seed, table, 0.2) if seed % 3 == 0 else table
    return named(scores, draw_constraints(random, n, features))


def test_equals_the_naive_greedy_search() -> None:
    none = 0
    for seed in range(250):
        problem = whole(seed)
        outcome = Forward().solve(problem, Limits(), Recording())
        expected = naive(problem)
        assert outcome.tree == expected, seed
        none += expected is None
    assert 10 < none < 150


def test_equals_the_naive_greedy_search_on_more_variables() -> None:
    removed = 0
    for seed in range(8):
        width = repeatable(seed).randint(2, 5)
        features = frozenset({list(WITHOUT_GRAPHS)[seed]} if seed % 2 else set())
        constraints = draw_constraints(repeatable(seed), 8, features)
        problem = named(from_network(seed, 8, width), constraints)
        outcome = Forward().solve(problem, Limits(), Recording())
        assert outcome.tree == naive(problem), seed
        removed += outcome.stats.get("removed", 0)
    assert removed > 0


def test_finds_the_structure_in_data() -> None:
    close = 0
    for seed in range(20):
        problem = named(from_data(seed, 5))
        outcome = Forward().solve(problem, Limits(), Recording())
        assert outcome.tree is not None
        best = Brute().solve(problem, Limits(), Recording()).bound
        close += outcome.tree.score(problem.scores) > best - 0.5
    assert close >= 15


@pytest.mark.parametrize("width", [1, 2, 3])
def test_reaches_maximal_junction_trees(width: int) -> None:
    constraints = Constraints(max_treewidth=width, max_separator_size=width, min_separator_size=width)
    problem = named(gaussian(width, 12, 4), constraints)
    outcome = Forward().solve(problem, Limits(), Recording())
    assert outcome.tree is not None
    assert {clique.bit_count() for clique in outcome.tree.cliques} == {width + 1}


@pytest.mark.parametrize(
    ("forbidden", "chord"), [((), (1, 3)), ((0b01010,), (0, 2)), ((0b01010, 0b00101), None)]
)
def test_fills_the_cycles_of_required_edges(
    forbidden: tuple[VarSet, ...], chord: tuple[int, int] | None
) -> None:
    square = frozenset({0b00011, 0b00110, 0b01100, 0b01001})
    constraints = Constraints(required_edges=square, forbidden_edges=frozenset(forbidden))
    outcome = Forward().solve(named(SparseScores(5, flat(5)), constraints), Limits(), Recording())
    if chord is None:
        assert outcome.tree is None
        assert "required" in outcome.stats["note"]
    else:
        assert outcome.tree is not None
        assert set(outcome.tree.graph_edges) == {(0, 1), (1, 2), (2, 3), (0, 3), chord}


def flat(n: int) -> dict[VarSet, float]:
    """Returns scores by which every edge loses: minus the square of the size."""
    return {mask: -float(mask.bit_count() ** 2) for mask in range(1, 1 << n)}


def test_waits_for_room_under_max_cliques() -> None:
    for seed in range(8):
        for scores in (from_network(seed, 6, 3), integers(seed, 7, 3)):
            problem = named(scores, Constraints(max_cliques=4))
            outcome = Forward().solve(problem, Limits(), Recording())
            assert outcome.tree == naive(problem), seed


@pytest.mark.parametrize("n", [6, 8, 10])
def test_joins_all_cliques_but_two_where_no_more_are_allowed(n: int) -> None:
    for seed in range(10):
        problem = replace(named(gaussian(seed, n)), constraints=Constraints(max_cliques=2))
        tree = Forward().solve(problem, Limits(), Recording()).tree
        assert tree is not None
        assert meets_constraints(problem, tree)


def test_does_without_the_scores_of_sets_that_do_not_last() -> None:
    # No single variable has a score: all must be joined, and {B} may not be a separator.
    table = {0b0011: 1.0, 0b1100: 1.0, 0b0110: 0.5}
    outcome = Forward().solve(named(SparseScores(4, table)), Limits(), Recording())
    assert outcome.tree == JunctionTree(4, (0b0011, 0b1100), ((0, 1),))


@pytest.mark.parametrize("patience", [0, 1, 5, 9, 12, 20, 40, 49, 50, 51])
def test_a_stop_returns_the_best_tree_so_far(patience: int) -> None:
    problem = named(from_network(7, 8, 4))
    outcome = Forward().solve(problem, Limits(), Recording(patience, Stop.INTERRUPTED))
    assert outcome.tree is not None
    assert meets_constraints(problem, outcome.tree)
    assert outcome.stop is Stop.INTERRUPTED
    broken = named(integers(0, 8, 4), Constraints(min_separator_size=2))
    assert Forward().solve(broken, Limits(), Recording(0, Stop.TIME)).tree is None


def test_stops_in_the_backward_pass() -> None:
    problem = named(from_network(7, 8, 4))
    full = Recording()
    finished = Forward().solve(problem, Limits(), full)
    removed = finished.stats["removed"]
    assert removed > 0
    # The last questions are those between removals.
    early = Forward().solve(problem, Limits(), Recording(full.asked - removed - 1, Stop.TIME))
    assert early.stop is Stop.TIME
    assert early.stats["added"] == finished.stats["added"]
    assert early.stats["removed"] < removed


def test_reports_better_and_better_trees() -> None:
    problem = named(from_data(1, 12, 4, rows=400))
    report = Recording()
    outcome = Forward().solve(problem, Limits(), report)
    assert outcome.tree is not None
    scores = [tree.score(problem.scores) for tree in report.trees]
    assert scores == sorted(scores)
    assert report.trees[-1] == outcome.tree
    assert Forward().estimate(problem, Limits()).memory > 0


# The gains of all pairs.


def table_of(seed: int, n: int, rows: int, *, linked: bool) -> DataTable:
    generator = np.random.default_rng(seed)
    arities = generator.integers(2, 4, n)
    codes = generator.integers(0, arities[:, None], (n, rows))
    for v in range(1, n) if linked else ():
        copied = generator.random(rows) < 0.5
        codes[v, copied] = codes[v - 1, copied] % arities[v]
    states = tuple(tuple(map(str, range(arity))) for arity in arities)
    return DataTable(tuple(f"v{v}" for v in range(n)), states, codes)


def test_pairs_are_sorted_by_gain_and_have_one() -> None:
    scores = tabulate(table_of(2, 12, 200, linked=True), Bic(), 2)
    found = list(gaining_pairs(scores, 2, Recording()))
    expected = sorted(
        (loss, u, v)
        for v in range(12)
        for u in range(v)
        if (loss := scores.score(1 << v) - (scores.score(1 << u | 1 << v) - scores.score(1 << u))) < 0
    )
    assert [(loss, u, v) for u, v, loss in found] == expected
    assert 0 < len(found) < 66
    assert not list(gaining_pairs(scores, 1, Recording()))


def test_stops_while_the_pairs_are_scored() -> None:
    table = table_of(4, 300, 20, linked=True)
    problem = named(DataScores(table, Bic(), 3))
    report = Recording(3, Stop.INTERRUPTED)
    outcome = Forward().solve(problem, Limits(), report)
    assert outcome.stop is Stop.INTERRUPTED
    assert outcome.tree is not None
    assert report.asked <= 10


def test_lazy_scores_give_the_tree_of_a_table() -> None:
    table = table_of(repeatable(1).randrange(100), 30, 150, linked=True)
    trees = [
        solve(named(scores), Forward()).tree
        for scores in (DataScores(table, Bic(), 3), tabulate(table, Bic(), 3))
    ]
    assert trees[0] == trees[1]
