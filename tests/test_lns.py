from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import (
    Recorded,
    Recording,
    from_data,
    from_network,
    gaussian,
    integers,
    named,
    random_problem,
    repeatable,
    with_holes,
)

from jtsolve.backends.brute import Brute, chordal_trees, meets_constraints
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.forward.backend import Forward
from jtsolve.backends.lns.backend import LargeNeighbourhoodSearch, _RegionSearch
from jtsolve.backends.lns.region import Noise, region_problem
from jtsolve.backends.lns.subsolver import RegionSolver, small_solver
from jtsolve.backends.lns.tree import Region, draw_region, region_score, splice
from jtsolve.backends.registry import REGISTRY
from jtsolve.backends.search.backend import LocalSearch
from jtsolve.backends.support.mutable_tree import MutableTree
from jtsolve.core.problem import LOCAL_FEATURES, Constraints, Problem, ProblemFeature
from jtsolve.core.result import Outcome, Status, Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, bounded_subsets, is_subset, members, varset
from jtsolve.io.instance import read_problem
from jtsolve.solving import solve
from prove import read_optima

INSTANCES = Path(__file__).parents[1] / "instances" / "uci"
FEATURES = sorted(LOCAL_FEATURES, key=lambda feature: feature.value)


def lns(**options: Any) -> LargeNeighbourhoodSearch:
    given: dict[str, Any] = {"exact": DynamicProgramming(), "start": (Forward(),), **options}
    return LargeNeighbourhoodSearch(**given)


def greedy_tree(problem: Problem) -> JunctionTree | None:
    return Forward().solve(problem, Limits(), Recording()).tree


def spliced(tree: MutableTree, region: Region, cliques: list[VarSet], part: JunctionTree) -> JunctionTree:
    """Returns the whole tree with a part in the place of a region; the constructor validates it."""
    whole = tree.copy()
    splice(whole, region, cliques, part.edges, repeatable(0))
    return whole.frozen()


def best_by_brute_force(problem: Problem, tree: MutableTree, region: Region) -> float:
    """Returns the best score of a whole tree with some junction tree over U in the region's place."""
    variables = list(members(region.variables))
    best = -inf
    for part in chordal_trees(len(variables)):
        cliques = [varset(variables[i] for i in members(clique)) for clique in part.cliques]
        needed = [separator for _, _, separator in region.boundary]
        if all(any(is_subset(one, clique) for clique in cliques) for one in needed):
            whole = spliced(tree, region, cliques, part)
            if meets_constraints(problem, whole):
                best = max(best, whole.score(problem.scores))
    return best


# Regions as problems.


@pytest.mark.parametrize("features", [frozenset(), *({f} for f in FEATURES)], ids=str)
def test_a_region_is_solved_as_brute_force_would(features: frozenset[ProblemFeature]) -> None:
    tried = bounded = 0
    for seed in range(24):
        problem = random_problem(seed, 7, frozenset(features))
        start = greedy_tree(problem)
        if start is None:
            continue
        tree, random = MutableTree(start), repeatable(seed)
        size = 4 if seed % 8 else 5  # there are 61 chordal graphs on four variables, 822 on five
        region = draw_region(tree, random.choice(list(tree.cliques)), size, random)
        if region.variables.bit_count() > size:
            continue
        tried += 1
        bounded += bool(region.covered)
        expected = best_by_brute_force(problem, tree, region)
        local = region_problem(problem, region)
        for exact in (DynamicProgramming(), Brute()):
            part = solve(local.problem, exact).tree
            assert part is not None
            whole = spliced(tree, region, local.whole(part.cliques), part)
            assert meets_constraints(problem, whole)
            assert whole.score(problem.scores) == pytest.approx(expected, abs=1e-9)
    assert tried >= 6
    assert bounded


def test_a_clique_that_equals_a_boundary_separator_may_be_forbidden() -> None:
    chosen = 0
    for seed in range(40):
        problem = named(integers(seed, 8, 3))
        start = greedy_tree(named(integers(seed + 1000, 8, 3)))  # one that is not good here
        assert start is not None
        tree, random = MutableTree(start), repeatable(seed)
        region = draw_region(tree, random.choice(list(tree.cliques)), 4, random)
        boundary = frozenset(separator for _, _, separator in region.boundary if separator)
        problem = replace(problem, constraints=Constraints(forbidden_cliques=boundary))
        local = region_problem(problem, region)
        part = solve(local.problem, DynamicProgramming()).tree
        assert part is not None
        whole = spliced(tree, region, local.whole(part.cliques), part)
        assert meets_constraints(problem, whole)
        assert whole.score(problem.scores) == best_by_brute_force(problem, tree, region)
        chosen += not boundary.isdisjoint(local.whole(part.cliques))
    assert chosen > 0


def test_noise_changes_the_optimum_but_not_the_cover() -> None:
    problem = named(from_network(2, 12, 3))
    start = greedy_tree(problem)
    assert start is not None
    tree, random = MutableTree(start), repeatable(2)
    region = draw_region(tree, 3, 8, random)
    assert region.covered
    found = set()
    for seed in range(8):
        local = region_problem(problem, region, Noise(1e9, np.random.default_rng(seed)))
        part = solve(local.problem, DynamicProgramming()).tree
        assert part is not None
        spliced(tree, region, local.whole(part.cliques), part)
        found.add(part)
    assert len(found) > 1
    silent = region_problem(problem, region, Noise(0.0, np.random.default_rng(0)))
    assert silent == region_problem(problem, region) or not isinstance(silent.problem.scores, SparseScores)


def test_sets_without_a_score_have_none_in_the_region() -> None:
    problem = named(with_holes(5, gaussian(5, 7, 3), 0.3, singles=False))
    region = Region((0,), 0b1011010, ())
    local = region_problem(problem, region)
    variables = list(members(region.variables))
    for mask in range(1 << 4):
        whole = varset(variables[i] for i in members(mask))
        assert (local.problem.scores.score(mask) == -inf) == (problem.scores.score(whole) == -inf)


# The tree.


def test_rehanging_never_changes_the_graph() -> None:
    moved = 0
    for seed in range(10):
        start = greedy_tree(named(from_network(seed, 20, 3)))
        assert start is not None
        tree, random = MutableTree(start), repeatable(seed)
        before = {frozenset(edge) for edge in start.edges}
        for _ in range(50):
            tree.move_tree_edge(random)
            assert tree.frozen() == start
            moved += {frozenset((a, b)) for a in tree.adjacent for b in tree.adjacent[a]} != before
    assert moved >= 250


def test_a_tree_of_one_clique_cannot_be_rehung() -> None:
    start = JunctionTree(2, (0b11,), ())
    tree = MutableTree(start)
    tree.move_tree_edge(repeatable(0))
    assert tree.frozen() == start


def test_any_covering_tree_may_take_the_place_of_a_region() -> None:
    start = greedy_tree(named(from_network(0, 25, 4)))
    assert start is not None
    tree, random = MutableTree(start), repeatable(0)
    merged = 0
    for turn in range(60):
        tree.move_tree_edge(random)
        region = draw_region(tree, random.choice(list(tree.cliques)), 9, random)
        noise = Noise(1.0, np.random.default_rng(turn))
        local = region_problem(named(gaussian(turn, 25, 4)), region, noise)
        part = solve(local.problem, DynamicProgramming()).tree
        assert part is not None
        count = len(tree.cliques)
        splice(tree, region, local.whole(part.cliques), part.edges, random)
        merged += len(tree.cliques) < count - len(region.nodes) + len(part.cliques)
        tree.frozen()  # raises unless it is a junction tree
    assert merged > 1


def test_a_copy_is_a_tree_of_its_own() -> None:
    start = greedy_tree(named(from_network(1, 12, 3)))
    assert start is not None
    tree = MutableTree(start)
    copy = tree.copy()
    for _ in range(20):
        copy.move_tree_edge(repeatable(1))
    copy.cliques.clear()
    assert tree.frozen() == start


# The search.


SOLVED = [
    (name, k) for name in ("nursery", "tic-tac-toe", "poker", "bridges", "flare") for k in (1, 2, 3)
] + [(name, 2) for name in ("zoo", "voting", "tumor", "lymph")]


@pytest.mark.parametrize(("name", "treewidth"), SOLVED)
def test_finds_the_optimum(name: str, treewidth: int) -> None:
    problem = read_problem(INSTANCES / f"{name}.json.gz").with_treewidth(treewidth)
    optima = read_optima(INSTANCES / f"{name}.opt.json")
    optimum = next(one.score for one in optima.optima if one.treewidth == treewidth)
    small = problem.n <= 13
    result = solve(problem, lns(region=8 if small else 10, steps=600), Run(Limits(seed=1)))
    assert result.score == pytest.approx(optimum, abs=1e-5)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.value)
def test_every_reported_tree_meets_the_constraints(feature: ProblemFeature) -> None:
    improved = 0
    for seed in range(3):
        problem = random_problem(seed, 9, frozenset({feature}))
        report = Recording()
        outcome = lns(region=5, kicks=3).solve(problem, Limits(seed=seed), report)
        for tree in [*report.trees, *([outcome.tree] if outcome.tree else [])]:
            assert meets_constraints(problem, tree)
        improved += outcome.stats.get("improvements", 0)
    assert improved > 0


def test_is_as_good_as_the_exact_backend_on_few_variables() -> None:
    optimal = 0
    for seed in range(20):
        problem = random_problem(seed, 8)
        best = solve(problem, DynamicProgramming()).score
        score = solve(problem, lns(region=6, kicks=10), Run(Limits(seed=seed))).score
        if best is not None and score is not None:
            assert score <= best + 1e-9
            optimal += score >= best - 1e-7
    assert optimal >= 16


def test_a_region_of_all_variables_is_a_proof() -> None:
    problem = named(gaussian(3, 8, 3))
    result = solve(problem, lns(region=8))
    assert (result.status, result.stop) == (Status.OPTIMAL, Stop.FINISHED)
    assert result.score == solve(problem, DynamicProgramming()).score
    rounded = solve(problem, lns(region=8, exact=DynamicProgramming(precision="int32")))
    assert rounded.bound >= rounded.score  # type: ignore[operator]


def test_improves_on_its_start_and_reports_better_and_better_trees() -> None:
    problem = named(from_network(4, 30, 3))
    start = solve(problem, Forward()).score
    report = Recording()
    outcome = lns(start=(Forward(),), steps=200).solve(problem, Limits(), report)
    scores = [tree.score(problem.scores) for tree in report.trees]
    assert scores == sorted(scores)
    assert outcome.tree is not None
    assert start is not None
    assert outcome.tree.score(problem.scores) == scores[-1] > start


def test_uses_the_best_start() -> None:
    problem = named(from_network(4, 30, 3))
    greedy, local = Forward(), LocalSearch(start=(Forward(),), steps=500)
    scores = [solve(problem, backend).score or -inf for backend in (greedy, local)]
    for start in ((greedy, local), (local, greedy)):
        outcome = lns(start=start).solve(problem, Limits(), Recording(15, Stop.TIME))
        assert outcome.tree is not None or outcome.stop is Stop.TIME
        full = lns(start=start, steps=1, kicks=0).solve(problem, Limits(), Recording())
        assert full.tree is not None
        assert full.tree.score(problem.scores) >= max(scores)


def test_large_regions_are_few_and_not_for_kicks(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int, bool]] = []
    original = RegionSolver.solve

    def solving(self: RegionSolver, regions: Any, targets: Any, noises: Any) -> Any:
        largest = max(region.variables.bit_count() for region in regions)
        calls.append((largest, len(regions), any(noises)))
        return original(self, regions, targets, noises)

    monkeypatch.setattr(RegionSolver, "solve", solving)
    lns(steps=2500).solve(named(from_network(4, 60, 3)), Limits(seed=1), Recording())
    sizes = {largest for largest, _, kick in calls if not kick}
    assert sizes >= {6, 8, 10, 12}
    assert max(largest for largest, _, kick in calls if kick) <= 10
    assert max(count for largest, count, _ in calls if largest > 10) <= 16
    assert max(count for largest, count, _ in calls if largest <= 10) > 16


def test_kicks_become_stronger_until_they_leave_the_best_tree() -> None:
    problem = named(from_network(1, 9, 3))
    start = JunctionTree.from_neighbours([0] * 9)
    search = _RegionSearch(lns(region=6), problem, Limits(), Recording(), start)
    came_back = [search.strength]
    for _ in range(20):
        search.strength = search.adapted()
        came_back.append(search.strength)
    assert came_back[1] == 1.3
    assert came_back[-1] == 16.0
    search.value = search.best_value - 1.0
    ended_elsewhere = []
    for _ in range(80):
        search.strength = search.adapted()
        ended_elsewhere.append(search.strength)
    assert ended_elsewhere[0] < 16.0
    assert ended_elsewhere[-1] == 1 / 16
    search.solver.close()


def test_ends_by_steps_and_by_kicks() -> None:
    problem = named(from_network(3, 20, 3))
    few = lns(steps=7).solve(problem, Limits(), Recording())
    assert (few.stop, few.stats["steps"]) == (Stop.STEPS, 7)
    still = lns(kicks=0, region=6).solve(problem, Limits(), Recording())
    assert still.stop is Stop.FINISHED
    assert still.stats["kicks"] == 1  # the one after which it sees that there may be none
    kicked = lns(kicks=2, region=6).solve(problem, Limits(), Recording())
    assert kicked.stats["kicks"] >= 3
    for steps in range(40, 60):  # some of them fall within a kick
        outcome = lns(steps=steps, region=6).solve(problem, Limits(), Recording())
        assert outcome.stats["steps"] <= steps


def test_is_repeatable_and_depends_on_the_seed() -> None:
    problem = named(from_network(5, 40, 3))
    backend = lns(steps=60)
    first, second, other = (backend.solve(problem, Limits(seed=seed), Recording()) for seed in (1, 1, 2))
    assert (first.tree, first.stats) == (second.tree, second.stats)
    assert (first.tree, first.stats) != (other.tree, other.stats)


def test_gives_the_same_tree_for_any_number_of_threads() -> None:
    problem = named(from_network(6, 60, 3))
    outcomes = [
        lns(steps=400).solve(problem, Limits(seed=3, threads=threads), Recording()) for threads in (1, 2, 3)
    ]
    assert len({outcome.tree for outcome in outcomes}) == 1
    assert outcomes[0].stats == outcomes[1].stats == outcomes[2].stats
    assert outcomes[0].stats["improvements"] > 5


def test_regions_one_by_one_are_as_good_as_in_groups() -> None:
    problem = named(from_network(8, 25, 3))
    start = solve(problem, Forward()).score
    alone = replace(
        problem, constraints=Constraints(max_separator_size=2)
    )  # all trees of cliques of 3 meet it
    assert small_solver(DynamicProgramming(), problem, 8) is not None
    assert small_solver(DynamicProgramming(), alone, 8) is None
    assert small_solver(DynamicProgramming(), problem, 13) is None
    assert small_solver(Brute(), problem, 4) is None
    scores = [solve(one, lns(region=8, steps=300), Run(Limits(seed=2))).score for one in (problem, alone)]
    assert start is not None
    for score in scores:
        assert score is not None
        assert score > start


def test_a_removed_region_is_left_out() -> None:
    problem = named(from_network(1, 30, 3))
    start = greedy_tree(problem)
    assert start is not None
    search = _RegionSearch(lns(), problem, Limits(threads=1), Recording(), start)
    region = draw_region(search.current, 0, 8, repeatable(0))
    part = search.solve([region], [-np.inf], [None])[0]
    assert part is not None
    old = region_score(search.current, region, search.score)
    assert search.replace_region(region, part, old)
    assert not search.replace_region(region, part, old)
    assert search.current.frozen().score(problem.scores) == pytest.approx(search.value)


@pytest.mark.parametrize("patience", [0, 3, 30, 200, 300, 400, 600, 1000, 2000])
def test_a_stop_returns_the_best_tree_so_far(patience: int) -> None:
    problem = named(from_network(7, 14, 3))
    report = Recording(patience, Stop.INTERRUPTED)
    outcome = lns(region=8).solve(problem, Limits(), report)
    assert outcome.stop is Stop.INTERRUPTED
    assert report.asked <= patience + 50
    assert patience < 30 or outcome.tree is not None
    if outcome.tree is not None:
        assert meets_constraints(problem, outcome.tree)


def test_a_missing_first_tree_is_noted() -> None:
    constraints = Constraints(required_edges=frozenset({0b011, 0b101, 0b110}), max_treewidth=1)
    outcome = lns(region=8).solve(named(gaussian(0, 9, 3), constraints), Limits(), Recording())
    assert outcome.tree is None
    assert "no start" in outcome.stats["note"]


def test_a_start_that_does_not_support_the_problem_is_left_out() -> None:
    problem = named(from_network(1, 12, 3))
    outcome = lns(start=(Brute(), Forward()), kicks=1).solve(problem, Limits(), Recording())
    assert outcome.tree is not None


def test_cliques_larger_than_a_region_are_left_alone() -> None:
    # Where every clique is too large for a region, nothing can be solved, and the search still ends.
    problem = named(SparseScores(6, {1 << v: 0.0 for v in range(6)} | {0b111111: 10.0, 0b11111: 0.5}))
    outcome = lns(region=4, kicks=2, start=(Whole(),)).solve(problem, Limits(), Recording())
    assert outcome.tree == JunctionTree(6, (0b111111,), ())
    assert outcome.stats["steps"] == 0


class Whole(Brute):
    """Returns the complete graph, at any size."""

    capabilities = replace(Brute.capabilities, max_variables=None)

    def solve(self, problem: Problem, *_: object) -> Outcome:
        return Outcome(JunctionTree(problem.n, ((1 << problem.n) - 1,), ()))


class Careless(Brute):
    """Ignores the bonus: its trees need not cover the boundary."""

    capabilities = replace(Brute.capabilities, max_variables=None)

    def solve(self, problem: Problem, *_: object) -> Outcome:
        singles = tuple(1 << v for v in range(problem.n))
        return Outcome(JunctionTree(problem.n, singles, tuple((v, v + 1) for v in range(problem.n - 1))))


def test_a_part_that_does_not_cover_the_boundary_is_not_inserted() -> None:
    problem = named(from_network(1, 12, 3))
    outcome = lns(exact=Careless(), region=5, kicks=1).solve(problem, Limits(), Recording())
    assert outcome.tree is not None
    assert meets_constraints(problem, outcome.tree)


def test_the_cache_of_regions_is_bounded() -> None:
    known: list[int] = []

    class Watched(_RegionSearch):
        def record_optimum(self, *arguments: Any) -> None:
            super().record_optimum(*arguments)
            known.append(len(self.optima))

    problem = named(from_network(1, 14, 3))
    start = greedy_tree(problem)
    assert start is not None
    few = Watched(lns(region=6, kicks=1), problem, Limits(), Recording(), start, cache=2)
    assert few.outcome().tree is not None
    assert max(known) == 2
    known.clear()
    Watched(lns(region=6, kicks=1), problem, Limits(), Recording(), start).outcome()
    assert max(known) > 2


def test_only_scores_of_permitted_sizes_are_read() -> None:
    problem = named(Recorded(from_data(3, 16, 4)), Constraints(max_treewidth=2))
    outcome = lns(region=8, steps=60).solve(problem, Limits(), Recording())
    dense = replace(problem, scores=problem.scores.table)  # type: ignore[attr-defined]
    assert outcome.tree == lns(region=8, steps=60).solve(dense, Limits(), Recording()).tree
    assert problem.scores.largest <= 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exact": Forward()}, "'forward' is not exact"),
        ({"start": ()}, "no backend to start from"),
        ({"region": 3}, "give at least 4 and at most 28"),
        ({"region": 29}, "give at least 4 and at most 28"),
        ({"kicks": -1}, "kicks"),
        ({"steps": 0}, "steps"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lns(**options)


def test_supports_the_features_of_its_exact_backend_but_the_number_of_cliques() -> None:
    assert lns().capabilities.features == set(FEATURES)
    assert not lns().capabilities.exact
    assert lns().capabilities.rank == 2
    assert lns(start=(lns(), Forward())).capabilities.rank == 4


def test_the_search_does_not_cycle_on_huge_scores() -> None:
    small = random_problem(390, 5, frozenset({ProblemFeature.ALLOWED_SEPARATORS}))
    table = {mask: 1e9 * small.scores.score(mask) for mask in bounded_subsets(5, small.max_clique_size)}
    problem = replace(small, scores=SparseScores(5, table))
    options = LargeNeighbourhoodSearch(
        exact=DynamicProgramming(), start=(Forward(),), region=5, kicks=20, steps=2000
    )
    result = solve(problem, options, Run(Limits(threads=1)))
    assert result.stop is Stop.FINISHED
    assert result.score == solve(problem, Brute()).score


@pytest.mark.parametrize("name", ["lns", "search", "clutter"])
def test_a_run_that_begins_too_late_has_the_first_start_s_tree(name: str) -> None:
    problem = named(gaussian(0, 12, 3))
    result = solve(problem, REGISTRY[name], Run(Limits(time=1e-9, threads=1)))
    assert (result.status, result.stop) == (Status.FEASIBLE, Stop.TIME)


# Bounds.


@pytest.mark.parametrize("name", ["lns", "merging", "portfolio"])
@pytest.mark.parametrize("hair", [0.0, 1e-13, 1e-7])
def test_no_tree_exceeds_a_bound_by_a_hair(name: str, hair: float) -> None:
    random, solved = repeatable(0), 0
    for _ in range(20):
        sets = [1 << v for v in range(5) if random.random() < 0.7]
        sets += [varset(random.sample(range(5), random.choice([2, 2, 3]))) for _ in range(5)]
        scores = {mask: -mask.bit_count() / 3 + random.choice([-1, 0, 1]) * hair for mask in sets}
        problem = named(SparseScores(5, scores))
        best = solve(problem, Brute())
        found = solve(problem, REGISTRY[name], Run(Limits(threads=1)))
        assert found.bound >= best.bound
        # Five variables are one region: there is a proof, even where no heuristic finds a first tree.
        assert found.status == best.status
        solved += best.tree is not None
    assert 10 < solved < 20
