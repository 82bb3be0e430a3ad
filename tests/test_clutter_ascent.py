"""Dual ascent: bounds by hand, in exact integers, from any multipliers and under every constraint."""

from __future__ import annotations

import heapq
from dataclasses import replace
from itertools import count
from math import inf
from time import monotonic
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from problems import Recording, from_data, gaussian, integers, named, random_problem, small_problems

from jtsolve.backends.brute import Brute
from jtsolve.backends.clutter import branch_and_bound
from jtsolve.backends.clutter.ascent import ASCENT, ascend, cuts_raised
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.clutter.bound import Bound, bound_of, scaled
from jtsolve.backends.clutter.branch_and_bound import BranchAndBound
from jtsolve.backends.clutter.inequalities import CutRows, RowVector, SetRow
from jtsolve.backends.clutter.restarts import search_with_restarts
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.problem import Problem, ProblemFeature
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import StoppedError
from jtsolve.errors import LimitError
from jtsolve.families.families import families_of
from jtsolve.solving import solve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jtsolve.backends.clutter.subproblem import Subproblem
    from jtsolve.core.backend import Report
    from jtsolve.families.families import Families

EVERYTHING = 1 << 60


def root_of(problem: Problem, root: int = 0, *, keep_stages: bool = False) -> Subproblem:
    """Returns the problem as a whole, without a tree."""
    search = BranchAndBound.for_problem(
        problem, families_of(problem, root), Limits(threads=1), Recording(), keep_stages=keep_stages
    )
    return search.root.subproblem


def offer(subproblem: Subproblem, backend: str) -> None:
    """Makes a backend's tree the best, and the stability centre."""
    tree = solve(subproblem.best.problem, REGISTRY[backend]).tree
    assert tree is not None
    assert subproblem.best.offer(tree)
    subproblem.set_centre()


def by_definition(
    families: Families, bound: Bound, sinks: list[int], guide: set[tuple[int, int]], little: int = 0
) -> dict[tuple[int, ...], int]:
    """Returns the raises of the ascent with every F(a) computed from scratch, over bit masks."""
    masks = families.masks()
    cost = {}
    for at, slot in np.argwhere(families.allowed).tolist():
        below, v = int(families.facets[at, slot]), families.members[at, slot]
        cost[at, below] = int(bound.best[v] - bound.values[at] + bound.values[below])

    def closure(sink: int) -> frozenset[int]:
        inside: set[int] = set()
        fresh = {sink}
        while fresh:
            inside |= {b for b, mask in enumerate(masks) for a in fresh if masks[a] & mask == masks[a]}
            fresh = {p for (a, p), r in cost.items() if r <= little and a in inside and p not in inside}
        return frozenset(inside)

    def entering(inside: frozenset[int]) -> list[tuple[int, int]]:
        return [(a, p) for a, p in cost if a in inside and p not in inside]

    def minimal(inside: frozenset[int]) -> list[int]:
        return sorted(a for a in inside if not any(masks[b] & masks[a] == masks[b] for b in inside - {a}))

    def key(inside: frozenset[int]) -> tuple[int, int]:
        return len(guide.intersection(entering(inside))), len(entering(inside)) * len(minimal(inside))

    stored = [closure(sink) for sink in sinks]
    waiting = [(key(inside), k) for k, inside in enumerate(stored) if 0 not in inside]
    heapq.heapify(waiting)
    raises: dict[tuple[int, ...], int] = {}
    while waiting:
        _, k = heapq.heappop(waiting)
        inside = closure(sinks[k])
        if inside == stored[k]:
            crossing = entering(inside)
            amount = min(cost[family] for family in crossing)
            for family in crossing:
                cost[family] -= amount
            clutter = tuple(minimal(inside))
            raises[clutter] = raises.get(clutter, 0) + amount
        stored[k] = closure(sinks[k])
        if 0 not in stored[k]:
            heapq.heappush(waiting, (key(stored[k]), k))
    return raises


def after(subproblem: Subproblem, start: RowVector, raises: dict[tuple[int, ...], int]) -> Bound:
    """Returns the bound of multipliers, in units, after raises."""
    rows = subproblem.rows
    joint = CutRows(subproblem.families, [*rows.clutters, *raises], rows.set_rows)
    cuts = np.append(start.cuts, np.array(list(raises.values()), dtype=np.int64))
    return bound_of(subproblem.families, subproblem.scores, joint, RowVector(cuts, start.set_rows))


@pytest.mark.parametrize("seed", range(8))
def test_growing_up_sets_raise_the_same_cuts_as_those_from_scratch(seed: int) -> None:
    scores = gaussian(seed, 6, 3) if seed % 2 else integers(seed, 6, high=3)
    subproblem = root_of(named(scores), seed % 6)
    families, sinks = subproblem.families, subproblem.sinks
    bound = subproblem.evaluate(subproblem.multipliers)
    found = cuts_raised(families, bound, sinks, EVERYTHING)
    assert found == by_definition(families, bound, sinks, set())
    assert found
    offer(subproblem, "forward")
    assert subproblem.centre is not None
    at, slot = subproblem.centre
    guide = set(zip(at.tolist(), families.facets[at, slot].tolist(), strict=True))
    guided = cuts_raised(families, bound, sinks, EVERYTHING, subproblem.centre)
    assert guided == by_definition(families, bound, sinks, guide)


@pytest.mark.parametrize("seed", range(4))
def test_on_large_lattices_families_of_little_reduced_cost_are_free(seed: int) -> None:
    subproblem = root_of(named(gaussian(seed, 6, 3)), seed)
    families, sinks = subproblem.families, subproblem.sinks
    bound = subproblem.evaluate(subproblem.multipliers)
    exact = by_definition(families, bound, sinks, set())
    little = sum(exact.values()) // 12
    large = replace(ASCENT, large=0, stay=1.0, threshold=little / EVERYTHING)
    found = cuts_raised(families, bound, sinks, EVERYTHING, constants=large)
    assert found == by_definition(families, bound, sinks, set(), little)
    assert min(found.values()) > little >= min(exact.values())
    start = RowVector(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    assert after(subproblem, start, found).units == bound.units - sum(found.values())


@pytest.mark.parametrize("seed", [25, 74])
def test_a_tree_guides_the_ascent_to_a_proof_that_it_misses_otherwise(seed: int) -> None:
    subproblem = root_of(named(integers(seed, 8, high=3)))
    offer(subproblem, "dp")
    bound = subproblem.evaluate(subproblem.multipliers)
    alone, guided = (
        bound.units - sum(cuts_raised(subproblem.families, bound, subproblem.sinks, EVERYTHING, by).values())
        for by in (None, subproblem.centre)
    )
    assert guided <= subproblem.best.close < alone


@pytest.mark.parametrize("feature", ProblemFeature)
def test_the_bound_falls_by_exactly_the_raises_and_stays_valid(feature: ProblemFeature) -> None:
    fell = 0
    for seed in range(12):
        problem = random_problem(4000 + seed, 3 + seed % 3, frozenset({feature}))
        subproblem = root_of(problem, seed % problem.n)
        if not subproblem.feasible:
            continue
        best = solve(problem, Brute()).bound
        scale = subproblem.best.scale
        start = RowVector(*(part.astype(np.int64) for part in subproblem.multipliers))
        bound = after(subproblem, start, {})
        enough = EVERYTHING if best > -inf else bound.units - subproblem.best.close
        raises = cuts_raised(subproblem.families, bound, subproblem.sinks, enough)
        ascended = after(subproblem, start, raises)
        assert ascended.units == bound.units - sum(raises.values())
        assert scale.nats(ascended.units) >= best
        assert min(raises.values(), default=1) > 0
        fell += bool(raises)
    assert fell > 0


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problem=small_problems(allowed=ProblemFeature))
def test_the_same_with_ties_zeros_and_several_constraints(problem: Problem) -> None:
    subproblem = root_of(problem)
    if subproblem.feasible:
        before = subproblem.units
        ascend(subproblem, subproblem.multipliers, lambda _: True)
        assert subproblem.units <= before
        best = solve(problem, Brute()).bound
        assert best == -inf or subproblem.best.scale.nats(subproblem.units) >= best


def test_it_starts_from_any_multipliers_of_cuts_and_set_rows() -> None:
    gained = 0
    for seed in range(20):
        problem = named(gaussian(seed, 5, 3))
        families = families_of(problem, seed % 5)
        scale, scores = scaled(families)
        generator = np.random.default_rng(seed)
        edges = tuple((u, v, -1) for v in range(5) for u in range(v))
        row = SetRow((), edges, -10)  # at most all edges
        clutters = [tuple(sorted({1 + v, int(families.facets[-1, 0])})) for v in range(5)]
        rows = CutRows(families, clutters, [row])
        start = RowVector(scale.units_of(generator.random(5)), scale.units_of(np.array([0.1])))
        bound = bound_of(families, scores, rows, start)
        raises = cuts_raised(families, bound, list(range(1, 6)), EVERYTHING)
        rows.add(list(raises))
        cuts = np.append(start.cuts, np.array(list(raises.values()), dtype=np.int64))
        ascended = bound_of(families, scores, rows, RowVector(cuts, start.set_rows))
        assert ascended.units == bound.units - sum(raises.values())
        assert scale.nats(ascended.units) >= solve(problem, Brute()).bound
        gained += bool(raises)
    assert gained > 10


def test_alone_it_proves_many_optima_and_a_second_ascent_finds_nothing() -> None:
    proved = 0
    for seed in range(30):
        problem = named(gaussian(seed, 5, 3))
        subproblem = root_of(problem)
        ascend(subproblem, subproblem.multipliers, lambda _: True)
        best = solve(problem, Brute()).bound
        proved += subproblem.best.scale.nats(subproblem.units) <= best + 1e-6
        bound = subproblem.evaluate(subproblem.multipliers)
        assert cuts_raised(subproblem.families, bound, subproblem.sinks, EVERYTHING) == {}
    assert proved > 15


def test_interrupted_at_any_visit_it_has_a_valid_bound_that_falls_with_time() -> None:
    subproblem = root_of(named(gaussian(3, 7, 3)))
    bound = subproblem.evaluate(subproblem.multipliers)
    sinks = subproblem.sinks
    start = RowVector(*(part.astype(np.int64) for part in subproblem.multipliers))
    falls = []
    for patience in range(40):
        steps = iter([True] * patience)
        reported: list[int] = []

        def proceed(fallen: int, steps: Iterator[bool] = steps, reported: list[int] = reported) -> bool:
            reported.append(fallen)
            return next(steps, False)

        raises = cuts_raised(subproblem.families, bound, sinks, EVERYTHING, proceed=proceed)
        falls.append(sum(raises.values()))
        assert reported == sorted(reported)
        assert reported[-1] <= falls[-1]
        assert after(subproblem, start, raises).units == bound.units - falls[-1]
    assert falls == sorted(falls)
    assert falls[0] == 0 < falls[-1]


def test_a_large_lattice_stays_with_a_sink_and_ends_at_a_valid_bound_too() -> None:
    subproblem = root_of(named(gaussian(3, 7, 3)))
    bound = subproblem.evaluate(subproblem.multipliers)
    usual = cuts_raised(subproblem.families, bound, subproblem.sinks, EVERYTHING)
    large = replace(ASCENT, large=0, threshold=0.0, stay=1000.0)
    raises = cuts_raised(subproblem.families, bound, subproblem.sinks, EVERYTHING, constants=large)
    start = RowVector(*(part.astype(np.int64) for part in subproblem.multipliers))
    assert after(subproblem, start, raises).units == bound.units - sum(raises.values())
    assert list(raises) != list(usual)


def test_the_bound_is_reported_during_the_ascent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch_and_bound, "monotonic", count().__next__)  # a second each time
    problem = named(gaussian(3, 7, 3))
    report = Recording()
    outcome = ClutterCuts().solve(problem, Limits(), report)
    reported = [news["bound"] for news in report.calls if news.get("note") == "dual ascent"]
    bounds = [bound for bound in reported if bound is not None]  # the search for a first tree reports none
    assert len(bounds) > 1
    assert min(bounds) >= outcome.bound


def test_families_that_lead_in_circles_are_proved_infeasible() -> None:
    families = families_of(named(gaussian(0, 3)), root=0)
    at = {mask: k for k, mask in enumerate(families.masks())}
    allowed = families.allowed & False
    allowed[at[0b001], 0] = True  # the root
    allowed[at[0b110]] = [True, True, False]  # each of the others needs the other
    search = BranchAndBound.for_problem(
        named(gaussian(0, 3)),
        replace(families, allowed=allowed),
        Limits(threads=1),
        Recording(),
        keep_stages=False,
    )
    subproblem = search.root.subproblem
    assert not subproblem.closed
    ascend(subproblem, subproblem.multipliers, lambda _: True)
    assert subproblem.closed


def test_a_cut_that_is_known_gets_one_multiplier() -> None:
    subproblem = root_of(named(gaussian(1, 6, 3)))
    ascend(subproblem, subproblem.multipliers, lambda _: True)
    before = subproblem.units
    # From half of the multipliers, it returns to cuts that are there.
    half = subproblem.multipliers._replace(cuts=subproblem.multipliers.cuts / 2)
    bound, _ = ascend(subproblem, half, lambda _: True)
    assert len(set(subproblem.rows.clutters)) == len(subproblem.rows.clutters)
    assert subproblem.units <= before
    assert bound.units >= subproblem.units


def test_stages_share_cuts_though_some_of_their_sets_are_dropped() -> None:
    subproblem = root_of(named(from_data(3, 12, 3)), keep_stages=True)
    offer(subproblem, "merging")
    ascend(subproblem, subproblem.multipliers, lambda _: True)
    subproblem.fix()
    assert subproblem.stages
    first, last = subproblem.stages[0], subproblem.stage()
    assert {id(cut) for cut, _ in last.cuts} <= {id(cut) for cut, _ in first.cuts}
    families = subproblem.families
    left = [families.members_of(at) for at in range(families.sizes.size)]

    def alive(cut: list[list[int]]) -> list[list[int]]:
        return [names for names in cut if names in left]

    assert any(alive(cut) != cut for cut, _ in last.cuts)
    assert [(alive(cut), weight) for cut, weight in first.cuts] == [
        (alive(cut), weight) for cut, weight in last.cuts
    ]


# Restarts.


class Search:
    """A search that has found a better tree by the end of its run, unless it is the last."""

    def __init__(self, number: int, bound: float, report: Report, *, last: bool) -> None:
        self.number, self.bound, self.report, self.last = number, bound, report, last
        self.best, self.few = SimpleNamespace(score=-10.0 + number, tree=None), 1
        families = SimpleNamespace(allowed=np.ones(9, dtype=np.bool_))
        self.root = SimpleNamespace(
            proof=SimpleNamespace(edge=None),
            subproblem=SimpleNamespace(families=families),
            potentials=None,
        )

    def ascend(self) -> None:
        assert self.report.stop is None

    def run(self) -> Stop:
        assert self.report.stop is None
        if self.last:
            return Stop.FINISHED
        self.best.score += 0.5
        end = monotonic() + 0.2
        while self.report.stop is None and monotonic() < end:
            pass
        return self.report.stop or Stop.FINISHED


@pytest.mark.parametrize(
    ("bounds", "repeatable", "best"),
    [((-3.0, -5.0, -4.0), True, 1), ((-3.0, -5.0, -6.0), True, 2), ((-3.0, -5.0), False, 0)],
)
def test_of_searches_with_better_trees_the_best_bound_continues(
    *, bounds: tuple[float, ...], repeatable: bool, best: int
) -> None:
    searches: list[Search] = []
    tree = solve(named(gaussian(0, 3)), Brute()).tree

    def begin(report: Report) -> Any:
        started = Search(len(searches), bounds[len(searches)], report, last=len(searches) == len(bounds) - 1)
        searches.append(started)
        if started.last:
            searches[best].last = True
        return started

    search, stop = search_with_restarts(begin, Limits(), Recording(incumbent=tree), repeatable=repeatable)
    assert stop is Stop.FINISHED
    assert cast("Any", search).number == best
    assert len(searches) == (len(bounds) if repeatable else 1)


@pytest.mark.parametrize("error", [StoppedError, LimitError("too small")])
def test_a_search_that_cannot_begin_leaves_the_present_one(error: Exception) -> None:
    tree = solve(named(gaussian(0, 3)), Brute()).tree
    searches: list[Search] = []

    def begin(report: Report) -> Any:
        if searches:
            searches[0].last = True
            raise error
        searches.append(Search(0, -3.0, report, last=False))
        return searches[0]

    search, stop = search_with_restarts(begin, Limits(), Recording(incumbent=tree), repeatable=True)
    assert cast("Any", search) is searches[0]
    assert stop is Stop.FINISHED
