"""Exact draws of graphs, and the junction trees of one graph."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import exp, inf, sqrt
from typing import Any

import numpy as np
import pytest
from problems import gaussian, named, random_problem, repeatable
from runs import ImpatientRun
from scipy.stats import chi2

from jtsolve.averaging.average import average, draw_trees
from jtsolve.averaging.draws import arrange_tables, draw_graphs, trees_of
from jtsolve.averaging.exact import Exact
from jtsolve.averaging.plan import TableSizes
from jtsolve.averaging.sums import compute
from jtsolve.averaging.weights import EXACT, set_weights
from jtsolve.backends.brute import chordal_trees, meets_constraints
from jtsolve.core.problem import Constraints, Problem, ProblemFeature
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import DenseScores, StoppedError
from jtsolve.errors import ChoiceError, LimitError, RefusedError

FEATURES = sorted(EXACT.features, key=lambda feature: feature.value)


def fits(counts: Counter[Any], expected: dict[Any, float]) -> bool:
    """Returns whether counts are as likely as one in 10^5 under Poisson means; cells below 5 are merged."""
    assert set(counts) <= set(expected)
    rare = [key for key, mean in expected.items() if mean < 5]
    cells = [(counts[key], mean) for key, mean in expected.items() if mean >= 5]
    if (mean := sum(expected[key] for key in rare)) >= 5:
        cells.append((sum(counts[key] for key in rare), mean))
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells)
    return len(cells) < 2 or float(chi2.sf(statistic, len(cells) - 1)) > 1e-5


def draws_fit(problem: Problem, seed: int, count: int = 5000) -> None:
    sums = compute(set_weights(problem), Run(Limits(threads=1)))
    scores = {t: t.score(problem.scores) for t in chordal_trees(problem.n) if meets_constraints(problem, t)}
    if sums.log_total == -inf:
        assert not scores
        return
    graphs = draw_graphs(
        arrange_tables(sums, Run(Limits(threads=1))), count, Run(Limits(threads=1, seed=seed))
    )
    trees = trees_of(map(tuple, graphs.tolist()))
    assert fits(Counter(trees), {tree: count * exp(s - sums.log_total) for tree, s in scores.items()})


@pytest.mark.parametrize("seed", range(8))
def test_graphs_are_drawn_in_proportion_to_their_weight(seed: int) -> None:
    draws_fit(named(gaussian(seed, 4 if seed < 4 else 5)), seed, 20_000)


@pytest.mark.parametrize("seed", range(30))
def test_draws_meet_the_constraints(seed: int) -> None:
    random = repeatable(seed)
    features = frozenset(random.sample(FEATURES, random.choice([1, 2])))
    draws_fit(named(gaussian(seed, 5), random_problem(seed, 5, features).constraints), seed)


def test_unit_weights_draw_all_graphs_equally_often() -> None:
    draws_fit(named(DenseScores(5, 5, np.zeros(32))), 1, 40_000)


def test_the_same_seed_draws_the_same_trees_with_any_number_of_threads() -> None:
    problem = named(gaussian(1, 6))
    one, other = (draw_trees(problem, 500, run=Run(Limits(threads=t, seed=3))) for t in (1, 3))
    assert one == other
    assert one != draw_trees(problem, 500, run=Run(Limits(seed=4)))


def test_shares_of_edges_in_many_draws_are_the_posteriors() -> None:
    problem = named(gaussian(5, 9, scale=2.0))
    posterior, draws = average(problem), draw_trees(problem, 4000)
    assert posterior is not None
    assert draws is not None
    assert draws.method == "exact"
    for u, v in combinations(range(9), 2):
        p = float(posterior.edges[u, v])
        share = sum((u, v) in tree.graph_edges for tree in draws.trees) / 4000
        assert abs(share - p) < 5 * sqrt(max(p * (1 - p), 1e-4) / 4000)


def test_undrawable_models_are_refused() -> None:
    with pytest.raises(RefusedError, match=ProblemFeature.MAX_CLIQUES.value):
        draw_trees(named(gaussian(1, 3), Constraints(max_cliques=2)), 1)
    with pytest.raises(ChoiceError, match="at least 1"):
        draw_trees(named(gaussian(1, 3)), 0)
    impossible = Constraints(max_treewidth=0, required_edges=frozenset({0b11}))
    assert draw_trees(named(gaussian(1, 3), impossible), 1) is None
    with pytest.raises(LimitError, match="time limit"):
        draw_trees(named(gaussian(1, 3)), 1, run=Run(Limits(time=1e-9)))


def test_draws_end_as_soon_as_the_report_says_so() -> None:
    sums = compute(set_weights(named(gaussian(1, 4))), Run(Limits(threads=1)))
    arranged = arrange_tables(sums, Run(Limits(threads=1)))
    with pytest.raises(StoppedError):
        draw_graphs(arranged, 3000, ImpatientRun(1, Stop.TIME, Limits(threads=1)))


def test_more_trees_than_the_memory_holds_are_refused() -> None:
    with pytest.raises(LimitError, match=r"9223372036854775808 trees of 3 variables need .* Fix: draw fewer"):
        draw_trees(named(gaussian(0, 3)), 1 << 63)
    for count in (1 << 63, 10**400):
        with pytest.raises(LimitError, match=rf"{count} trees of 3 variables .* Fix: draw fewer"):
            average(named(gaussian(0, 3)), method=Exact(draws=count))


def test_the_table_that_draws_need_is_predicted() -> None:
    sums, draws = TableSizes(14, 14), TableSizes(14, 14, drawn=True)
    table = 8 * sums.cells(14)
    assert draws.memory - sums.memory == pytest.approx(table / 3, rel=0.05)  # P° in place of X, two thirds
    problem = named(DenseScores(16, 16, np.zeros(1 << 16)))
    needs = [TableSizes(16, 16, drawn=drawn).estimate(1).memory for drawn in (False, True)]
    between = Limits(memory=sum(needs) // 2)
    with pytest.raises(LimitError, match=r"need [0-9.]+ GB for 16 variables"):
        draw_trees(problem, 1, method="exact", run=Run(between))
