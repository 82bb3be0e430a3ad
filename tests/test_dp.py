"""The dynamic programming against the paper's recurrences, its own predictions, and its limits."""

from __future__ import annotations

from dataclasses import replace
from math import inf, ulp
from typing import Any

import numpy as np
import pytest
from problems import Recording, dense, gaussian, integers, named, repeatable
from reference_dp import optimum

from jtsolve.backends.chowliu import ChowLiu
from jtsolve.backends.dp import plain
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.dp.plan import LANES, TablePlan
from jtsolve.backends.dp.ranks import rank_tables, table_offsets
from jtsolve.backends.dp.scores import local_scores
from jtsolve.backends.forward.backend import Forward
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.lazy_kernels import LazyKernels
from jtsolve.core.machine import base_memory, resident_memory
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.renaming import rename, renaming_tables
from jtsolve.core.result import Status, Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import DenseScores
from jtsolve.core.varset import count_bounded_subsets, members, varset
from jtsolve.errors import LimitError
from jtsolve.solving import solve

PLAIN = DynamicProgramming()
FIXED = DynamicProgramming(precision="int32")
EXACT = DynamicProgramming(precision="int64")


def constrained(seed: int, n: int) -> Problem:
    """Returns a Gaussian problem with two or three random constraints."""
    random = repeatable(seed)
    pairs = [1 << u | 1 << v for v in range(n) for u in range(v)]
    random.shuffle(pairs)
    drawn = frozenset(random.randrange(1 << n) for _ in range(12))
    everything: dict[str, Any] = {
        "max_treewidth": random.randint(1, n - 1),
        "max_separator_size": random.randint(1, 3),
        "min_separator_size": random.randint(0, 2),
        "forbidden_edges": frozenset(pairs[:3]),
        "required_edges": frozenset(pairs[3:6]),
        "forbidden_cliques": drawn,
        "forbidden_separators": drawn,
        "allowed_separators": drawn | {0} | {1 << v for v in range(n)},
    }
    chosen = random.sample(sorted(everything), random.randint(2, 3))
    return named(gaussian(seed, n), Constraints(**{name: everything[name] for name in chosen}))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("treewidth", [None, 1, 2, 3])
def test_agrees_with_the_papers_recurrences(n: int, treewidth: int | None) -> None:
    problem = named(gaussian(n, n)).with_treewidth(treewidth)
    outcome = PLAIN.solve(problem, Limits(), Recording())
    assert outcome.tree is not None
    assert outcome.tree.score(problem.scores) == pytest.approx(optimum(problem), abs=1e-9)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("backend", [PLAIN, FIXED, EXACT])
def test_constraints_agree_with_the_papers_recurrences(seed: int, backend: DynamicProgramming) -> None:
    problem = constrained(seed, 6)
    best = optimum(problem)
    result = solve(problem, backend)
    if best == -inf:
        assert result.status is Status.INFEASIBLE
    else:
        assert result.score == pytest.approx(best, abs=1e-6)
        assert result.bound >= best - 1e-12


@pytest.mark.parametrize("precision", ["float64", "int64", "int32"])
@pytest.mark.parametrize(("n", "treewidth"), [(1, 0), (2, 1), (5, 4), (8, 2), (9, 5), (10, 1)])
def test_numpy_and_the_kernels_give_the_same_tree(
    n: int, treewidth: int, precision: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = [constrained(seed, n) for seed in range(3)] if n > 3 else []
    problems += [named(draw(n, n)).with_treewidth(treewidth) for draw in (gaussian, integers)]
    backend = DynamicProgramming(precision=precision)
    for problem in problems:
        outcomes = []
        for seconds in (0.0, inf):
            monkeypatch.setattr(plain, "seconds", lambda _plan, seconds=seconds: seconds)
            monkeypatch.setattr(LazyKernels, "prefer_numpy", lambda _kernels, seconds: seconds == 0)
            outcomes.append(backend.solve(problem, Limits(), Recording()))
        assert outcomes[0].tree == outcomes[1].tree
        assert outcomes[0].bound == outcomes[1].bound


@pytest.mark.parametrize("precision", ["float64", "int64"])
@pytest.mark.parametrize("states", [200, 1000, 5000])
def test_penalties_never_outweigh_required_edges(states: int, precision: Any) -> None:
    tiny = gaussian(1, 5, scale=1e-15)
    required = frozenset({0b11, 0b101, 0b110, 0b1010, 0b1100, 0b10010, 0b10100, 0b11000})
    variables = tuple(Variable(f"v{i}", states) for i in range(5))
    problem = Problem(variables, tiny, Constraints(required_edges=required))
    result = solve(problem, DynamicProgramming(precision=precision))
    assert result.status is Status.OPTIMAL
    assert result.score == pytest.approx(optimum(problem), abs=1e-20)


def test_whole_scores_with_many_ties_agree_exactly() -> None:
    for seed in range(10):
        problem = named(integers(seed, 6, high=2))
        outcome = PLAIN.solve(problem, Limits(), Recording())
        assert outcome.tree is not None
        assert outcome.tree.score(problem.scores) == optimum(problem)


def test_treewidth_one_without_a_forest_backend_agrees_with_chow_and_liu() -> None:
    problem = named(gaussian(3, 14, 2))
    alone = solve(problem, PLAIN)
    assert alone.score == pytest.approx(solve(problem, ChowLiu()).score, abs=1e-9)


def test_treewidth_one_is_handed_over_as_a_value() -> None:
    backend = DynamicProgramming(forest=ChowLiu())
    handed = backend.solve(named(gaussian(0, 6, 2)), Limits(), Recording())
    assert handed.stats["handed_over_to"] == "chowliu"
    refused = Constraints(forbidden_separators=frozenset({1}))
    kept = backend.solve(named(gaussian(0, 6, 2), refused), Limits(), Recording())
    assert "handed_over_to" not in kept.stats


def test_a_forest_may_have_any_number_of_variables() -> None:
    forest = named(gaussian(0, 40, 2))
    result = solve(forest, DynamicProgramming(forest=ChowLiu()))
    assert result.status is Status.OPTIMAL
    assert result.score == solve(forest, ChowLiu()).score
    assert "It supports at most 28 variables, not 40." in PLAIN.capabilities.objections(forest)
    wider = DynamicProgramming(forest=ChowLiu()).capabilities.objections(named(gaussian(0, 40, 3)))
    assert wider == ("It supports at most 28 variables, not 40.",)


def test_the_start_gives_the_first_incumbent() -> None:
    report = Recording()
    DynamicProgramming(start=Forward()).solve(named(gaussian(1, 6)), Limits(), report)
    assert report.trees


def test_the_answer_does_not_depend_on_the_number_of_threads() -> None:
    problem = named(gaussian(5, 11))
    answers = {solve(problem, PLAIN, Run(Limits(threads=threads))).tree for threads in (1, 2, 4)}
    assert len(answers) == 1


def test_fixed_point_bounds_carry_the_rounding() -> None:
    for seed in range(5):
        problem = named(gaussian(seed, 9, scale=1e4))
        exact = PLAIN.solve(problem, Limits(), Recording())
        rounded = FIXED.solve(problem, Limits(), Recording())
        assert exact.tree is not None
        assert rounded.tree is not None
        best = exact.tree.score(problem.scores)
        _, scale = local_scores(problem, rank_tables(8, 9), "int32")
        assert best <= rounded.bound <= best + 2 * scale.slack
        assert rounded.tree.score(problem.scores) >= rounded.bound - 2 * scale.slack


def test_fixed_point_is_optimal_only_within_the_tolerance() -> None:
    wide = named(gaussian(0, 7, scale=1e7))
    result = solve(wide, FIXED)
    assert result.status is Status.FEASIBLE
    assert 1e-6 < result.gap < 10


def test_large_scores_that_cancel_do_not_cost_the_proof() -> None:
    # Of a thousand problems with scores near 10^8, float64 left 12 "feasible".
    problem = named(dense(2, 2, np.array([0.0, 1e9, -1e9, 0.1])))
    assert solve(problem, replace(PLAIN, precision="float64")).status is Status.FEASIBLE
    result = solve(problem, PLAIN)
    assert (result.status, result.score, result.stats["precision"]) == (Status.OPTIMAL, 0.1, "int64")
    assert result.gap < 1e-7


def test_sums_in_64_bits_are_exact() -> None:
    for seed in range(10):
        wide = named(gaussian(seed, 6, scale=1e9))
        result = solve(wide, EXACT)
        assert result.score == pytest.approx(optimum(wide), rel=1e-14)
        assert result.gap <= 2 * ulp(optimum(wide))
        assert solve(named(gaussian(seed, 6)), PLAIN).stats["precision"] == "float64"
    tiny = solve(named(gaussian(0, 6, scale=1e-200)), EXACT)
    assert tiny.status is Status.OPTIMAL


# Plan ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "width"), [(1, 1), (2, 2), (4, 4), (6, 3), (9, 9), (10, 2)])
def test_every_set_has_a_table_of_its_own(n: int, width: int) -> None:
    plan = TablePlan(n, width)
    ranks = rank_tables(plan.m, width)
    offset = table_offsets(plan, ranks)
    cells: set[int] = set()
    tables = 0
    for root in (0, 1):
        for own, mask in enumerate(ranks.masks.tolist()):
            size = root + mask.bit_count()
            if size > width:
                assert offset[root, own] == -1
                continue
            tables += 1
            rows = np.arange(1 << (plan.m - mask.bit_count())) * LANES
            cells.update((offset[root, own] + rows).tolist())
    assert (
        tables == sum(entry.roots * entry.tables for entry in plan.classes) == count_bounded_subsets(n, width)
    )
    assert len(cells) == sum(entry.roots * entry.tables << entry.elements for entry in plan.classes)
    assert max(cells) < plan.cells


def test_the_plan_counts_a_quarter_of_four_to_the_n_additions() -> None:
    assert TablePlan(20, 20).additions == pytest.approx(4**20 / 4, rel=0.05)


def test_renaming_keeps_the_order_of_the_members() -> None:
    random = repeatable(0)
    for bits in (5, 9, 10, 18, 19, 27):
        for _ in range(50):
            among = random.randrange(1 << bits)
            mask = among & random.randrange(1 << bits)
            order = list(members(among))
            expected = varset(order.index(v) for v in members(mask))
            assert rename(mask, among, renaming_tables()) == expected


# Limits -------------------------------------------------------------------------------------------------


def test_a_run_beyond_the_memory_is_refused_with_the_need_and_the_ways_out() -> None:
    problem = named(gaussian(0, 16, 5))
    with pytest.raises(LimitError, match=r"needs .* GB .* limit is .* GB") as caught:
        PLAIN.solve(problem, Limits(memory=resident_memory() + 30_000_000), Recording())
    message = str(caught.value)
    assert "treewidth=" in message
    assert 'backend="forward"' in message


def test_float64_beyond_the_memory_points_to_fixed_point() -> None:
    problem = named(gaussian(0, 12))
    plan = TablePlan(12, 12)
    room = (plan.memory("float64") + plan.memory("int32")) // 2
    with pytest.raises(LimitError, match='backend="dp:precision=int32"'):
        DynamicProgramming(precision="float64").solve(problem, Limits(memory=held() + room), Recording())


def test_auto_selects_fixed_point_where_float64_does_not_fit() -> None:
    problem = named(gaussian(0, 15))
    plan = TablePlan(15, 15)
    room = (plan.memory("float64") + plan.memory("int32")) // 2
    outcome = PLAIN.solve(problem, Limits(memory=held() + room), Recording())
    assert outcome.stats["precision"] == "int32"


def held() -> int:
    """Returns the memory of the process before a run; this module loads the kernels."""
    return base_memory()


def test_a_run_can_be_stopped_at_any_time() -> None:
    problem = named(gaussian(0, 10))
    plain = Recording()
    PLAIN.solve(problem, Limits(), plain)
    asked = plain.asked
    for patience in range(0, asked, max(1, asked // 7)):
        report = Recording(patience=patience, reason=Stop.INTERRUPTED)
        outcome = PLAIN.solve(problem, Limits(), report)
        assert outcome.stop is Stop.INTERRUPTED
        assert outcome.tree is None
        assert outcome.bound == inf


def test_progress_rises_to_one() -> None:
    report = Recording()
    PLAIN.solve(named(gaussian(0, 10)), Limits(), report)
    done = [call["done"] for call in report.calls if "done" in call]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(1.0, abs=1e-6)


def test_predictions_come_before_the_work() -> None:
    backend = REGISTRY["dp"]
    small = backend.estimate(named(gaussian(0, 8)), Limits())
    large = backend.estimate(named(gaussian(0, 12)), Limits())
    assert small.memory < large.memory
    assert small.seconds < large.seconds
    forest = backend.estimate(named(gaussian(0, 12, 2)), Limits())
    assert forest == ChowLiu().estimate(named(gaussian(0, 12, 2)), Limits())
    fixed = replace(PLAIN, precision="int32").estimate(named(gaussian(0, 12)), Limits())
    assert fixed.memory < large.memory
    beyond = PLAIN.estimate(named(gaussian(0, 12)), Limits(memory=1))
    assert beyond.memory == pytest.approx(fixed.memory, rel=0.05)


def test_whole_scores_are_summed_exactly_however_large() -> None:
    problem = named(integers(3, 6, 3, high=10**12))
    result = solve(problem, PLAIN)
    assert result.status is Status.OPTIMAL
    assert result.bound == result.score
    rounded = solve(named(gaussian(3, 6, 3, scale=1e12)), PLAIN)
    assert rounded.score is not None
    assert rounded.bound > rounded.score


def test_an_optimum_near_zero_among_large_whole_scores_is_proved() -> None:
    scores = integers(6, 3, 3, high=1)
    problem = named(DenseScores(3, 3, 1e9 * scores.values), Constraints(min_separator_size=3))
    result = solve(problem, PLAIN)
    assert (result.status, result.bound) == (Status.OPTIMAL, result.score)
