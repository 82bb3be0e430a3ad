from __future__ import annotations

from dataclasses import replace
from itertools import combinations, count
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from problems import Recording, from_data, gaussian, named, random_problem, with_holes

from jtsolve.backends.brute import chordal_trees
from jtsolve.backends.chowliu import ChowLiu
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.forward.backend import Forward
from jtsolve.backends.lns.backend import LargeNeighbourhoodSearch
from jtsolve.backends.merging.backend import _TUNING, Merging, _Rounds
from jtsolve.backends.merging.starts import grown_tree, perturbed
from jtsolve.backends.merging.union import union_problem
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.problem import LOCAL_FEATURES, Constraints, Problem, ProblemFeature
from jtsolve.core.result import Status, Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import DenseScores, StoppedError
from jtsolve.core.varset import bounded_subsets, is_subset, members
from jtsolve.errors import ChoiceError
from jtsolve.solving import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.backend import Report
    from jtsolve.core.result import Outcome
    from jtsolve.core.scores import LocalScores
    from jtsolve.core.tree import JunctionTree

SEARCH = LargeNeighbourhoodSearch(exact=DynamicProgramming(), start=(Forward(),), region=4, kicks=0)
SMALL = Merging(
    forest=ChowLiu(),
    greedy=Forward(),
    descent=SEARCH,
    improve=replace(SEARCH, kicks=1),
    exact=ClutterCuts(simplex=20_000),
    otherwise=replace(SEARCH, kicks=2),
    rounds=1,
)
"""With regions so small that a problem of a dozen variables is not solved by one of them."""

LIMITS = Limits(seed=1, threads=1)
FEATURES = sorted(LOCAL_FEATURES, key=lambda feature: feature.value)


def some_scores() -> list[LocalScores]:
    return [gaussian(1, 6, 3), from_data(2, 6, 3), with_holes(3, gaussian(3, 6, 3), 0.3)]


# Starts.


@pytest.mark.parametrize("scores", some_scores(), ids=lambda scores: type(scores).__name__)
def test_perturbed_scores_add_the_bonus_of_each_edge_within(scores: LocalScores) -> None:
    noisy = perturbed(scores, 2.0, np.random.default_rng(0))
    low, high = noisy.extremes()
    for mask in bounded_subsets(6, 3):
        inside = list(members(mask))
        bonus = sum(noisy.bonus[pair] for pair in combinations(inside, 2))
        expected = scores.score(mask) + bonus
        assert noisy.score(mask) == pytest.approx(expected)
        if inside:
            assert noisy.batch(np.array([inside]))[0] == pytest.approx(expected)
        if expected > -inf:
            assert low <= expected <= high
    assert (noisy.n, noisy.max_size) == (6, scores.max_size)
    assert np.std(noisy.bonus[np.triu_indices(6, 1)]) > 0.5


def test_grown_trees_differ_are_no_wider_than_may_be_and_join_where_they_gain() -> None:
    scores = gaussian(1, 9, 4)
    trees = [grown_tree(scores, 4, np.random.default_rng(seed)) for seed in range(20)]
    assert len({tree.cliques for tree in trees}) > 10
    assert all(tree.treewidth <= 3 for tree in trees)
    singles = sum(scores.score(1 << v) for v in range(9))
    assert all(tree.score(scores) >= singles for tree in trees)
    assert grown_tree(gaussian(1, 2, 1), 1, np.random.default_rng(0)).treewidth == 0


def test_grown_trees_use_sets_with_scores_and_try_some_of_many() -> None:
    scores = with_holes(3, gaussian(3, 9, 3), 0.3)
    assert max(grown_tree(scores, 3, np.random.default_rng(k)).score(scores) for k in range(9)) > -inf
    read: list[int] = []

    class Counted(DenseScores):
        def batch(self, sets: NDArray[np.intp]) -> NDArray[np.float64]:
            read.append(len(sets))
            return super().batch(sets)

    squares = np.array([mask.bit_count() ** 2.0 for mask in bounded_subsets(14, 14)])
    assert grown_tree(Counted(14, 14, squares), 14, np.random.default_rng(0)).treewidth == 13
    assert max(read) == 1000  # of the 1,716 sets of six


def test_a_stop_ends_growing() -> None:
    with pytest.raises(StoppedError):
        grown_tree(gaussian(1, 9, 3), 3, np.random.default_rng(0), Recording(2, Stop.TIME))
    problem = named(gaussian(1, 12, 3))
    for patience in range(0, 200, 20):  # wherever it stops, it returns the best tree so far
        recording = Recording(patience, Stop.TIME)
        outcome = SMALL.solve(problem, Limits(), recording)
        assert outcome.stop is Stop.TIME
        assert outcome.tree == max(recording.trees, key=lambda tree: tree.score(problem.scores), default=None)


# The problem of the cliques of some trees.


@pytest.mark.parametrize("seed", range(3))
def test_the_union_has_exactly_the_trees_of_the_cliques_given(seed: int) -> None:
    problem = random_problem(seed, 5)
    generator = np.random.default_rng(seed)
    trees = [grown_tree(problem.scores, 3, generator) for _ in range(2)]
    cliques = {clique for tree in trees for clique in tree.cliques}
    union = union_problem(problem, cliques)
    expected = max(
        tree.score(problem.scores)
        for tree in chordal_trees(5)
        if problem.permits(tree)
        and all(
            any(is_subset(part, clique) for clique in cliques) or part.bit_count() == 1
            for part in tree.cliques
        )
    )
    result = solve(union, REGISTRY.parse("brute"))
    assert result.score == pytest.approx(expected)
    assert result.tree is not None
    assert result.score == pytest.approx(result.tree.score(problem.scores))


# The rounds.


@pytest.mark.parametrize("seed", [0, 8, 10])
def test_it_merges_trees_into_better_ones_up_to_the_optimum(seed: int) -> None:
    problem = named(gaussian(seed, 10, 3))
    optimum = solve(problem, DynamicProgramming()).score
    assert optimum is not None
    first = SEARCH.solve(problem, Limits(), Recording()).tree
    recording = Recording()
    once = replace(SMALL, rounds=0)
    outcome = once.solve(problem, Limits(seed=seed), recording)
    assert outcome.tree is not None
    assert first is not None
    score = outcome.tree.score(problem.scores)
    assert first.score(problem.scores) - 1e-9 <= score <= optimum + 1e-9
    assert outcome.stats["better"] > 0  # the local search was in a trap, and the merge leads out of it
    assert outcome.stats["descents"] >= 3
    assert recording.trees[0].treewidth == 1  # the forest comes first
    scores = [tree.score(problem.scores) for tree in recording.trees]
    assert max(scores) == score
    assert outcome.bound == inf  # that of a merge is none of the problem
    assert all(call.get("bound") is None for call in recording.calls)
    assert once.solve(problem, Limits(seed=seed), Recording()).tree == outcome.tree


@pytest.mark.parametrize("feature", FEATURES, ids=lambda one: one.value)
def test_trees_meet_the_constraints(feature: ProblemFeature) -> None:
    problem = random_problem(1, 6, frozenset({feature}))
    recording = Recording()
    outcome = replace(SMALL, rounds=0).solve(problem, Limits(), recording)
    assert all(problem.permits(tree) for tree in recording.trees)
    assert outcome.tree is None or problem.permits(outcome.tree)


def merged(backend: Merging, problem: Problem, limits: Limits = LIMITS, **tuning: Any) -> Outcome:
    """Returns the outcome with other constants than those of the backend."""
    return _Rounds(backend, problem, limits, Recording(), replace(_TUNING, **tuning)).outcome()


def test_an_overlong_merge_is_abandoned() -> None:
    problem = named(gaussian(1, 8, 3, 5.0))
    outcome = merged(replace(SMALL, rounds=30), problem, seconds=-1.0)
    assert outcome.tree is not None
    assert outcome.stats["abandoned"] > _TUNING.abandoned_pairs
    assert outcome.stats["kicks"] > 0  # the local search has taken over
    assert "kicks" not in merged(replace(SMALL, rounds=0, otherwise=None), problem, seconds=-1.0).stats


def test_after_the_last_round_another_search_continues_from_the_best_tree() -> None:
    problem = named(gaussian(1, 10, 3))
    alone = replace(SMALL, rounds=0, otherwise=None).solve(problem, Limits(), Recording())
    outcome = replace(SMALL, rounds=0).solve(problem, Limits(), Recording())
    assert "kicks" not in alone.stats
    assert outcome.stats["kicks"] > 0
    assert outcome.stats["merges"] == alone.stats["merges"]
    assert alone.tree is not None
    assert outcome.tree is not None
    assert outcome.tree.score(problem.scores) >= alone.tree.score(problem.scores)


def test_rounds_without_a_better_tree_and_another_search_alternate() -> None:
    order: list[str] = []

    class Merge(ClutterCuts):
        __slots__ = ()

        def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
            order.append("merge")
            return super().solve(problem, limits, report)

    class Otherwise(LargeNeighbourhoodSearch):
        __slots__ = ()

        def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
            order.append("otherwise")
            outcome = super().solve(problem, limits, report)
            order.append(outcome.stop.value)
            return outcome

    asked = count()

    class Ticks(Limits):
        __slots__ = ()

        @property
        def elapsed(self) -> float:
            return float(next(asked))

    class UntilThirdTurn(Recording):
        @property
        def stop(self) -> Stop | None:
            return Stop.INTERRUPTED if order.count("otherwise") > 2 else super().stop

    otherwise = Otherwise(exact=DynamicProgramming(), start=(Forward(),), region=4, kicks=10**9)
    backend = replace(SMALL, exact=Merge(), otherwise=otherwise, rounds=10**9)
    recording = UntilThirdTurn(patience=10**7, reason=Stop.TIME)
    impatient = replace(_TUNING, least_patience=0.0)
    outcome = _Rounds(backend, named(from_data(1, 13, 3)), Ticks(), recording, impatient).outcome()
    assert outcome.stop is Stop.INTERRUPTED
    assert outcome.tree == recording.trees[-1]
    turns = " ".join(order)
    assert turns.count("otherwise time") == 2  # it found nothing
    assert "otherwise time merge" in turns  # and rounds went on


@pytest.mark.parametrize("patience", [0, 1, 5, 30, 100])
def test_a_stop_returns_the_best_tree(patience: int) -> None:
    problem = named(from_data(1, 13, 3))
    recording = Recording(patience=patience, reason=Stop.TIME)
    outcome = SMALL.solve(problem, Limits(), recording)
    assert outcome.stop is Stop.TIME
    scores = [tree.score(problem.scores) for tree in recording.trees]
    assert outcome.tree is None or outcome.tree.score(problem.scores) == max(scores)


def test_it_continues_from_a_better_tree_of_another() -> None:
    problem = named(gaussian(3, 10, 3))
    best = solve(problem, DynamicProgramming()).tree
    assert best is not None
    outcome = replace(SMALL, rounds=0).solve(problem, Limits(), Recording(incumbent=best))
    assert outcome.tree is not None
    assert outcome.tree.score(problem.scores) >= best.score(problem.scores) - 1e-9


def test_a_region_of_all_variables_is_a_proof() -> None:
    problem = named(gaussian(0, 4, 3))
    outcome = SMALL.solve(problem, Limits(), Recording())
    assert outcome.tree is not None
    assert outcome.bound == pytest.approx(outcome.tree.score(problem.scores))
    assert outcome.stats["merges"] == 0


def test_without_a_first_tree_the_other_search_has_all_the_time() -> None:
    problem = named(gaussian(0, 9, 3))
    treeless = replace(SMALL, greedy=REGISTRY.parse("brute"), forest=None)
    assert treeless.solve(problem, Limits(), Recording()).tree is not None
    outcome = replace(treeless, otherwise=None).solve(problem, Limits(), Recording())
    assert outcome.tree is None
    assert outcome.stop is Stop.FINISHED


def test_it_supports_the_features_of_all_its_parts() -> None:
    problem = named(gaussian(0, 4, 3))
    assert solve(problem, SMALL).status is Status.OPTIMAL
    assert SMALL.capabilities.features == LOCAL_FEATURES
    assert SMALL.capabilities.rank == SEARCH.capabilities.rank + 1
    huge = named(DenseScores(4, 2, 1e95 * gaussian(0, 4, 2).values))
    assert "bonuses" in SMALL.capabilities.objections(huge)[0]
    few = replace(problem, constraints=Constraints(max_cliques=2))
    assert SMALL.capabilities.objections(few) == ("It does not support the constraint max_cliques.",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"exact": Forward()}, "not exact"),
        ({"descent": ChowLiu()}, "no option 'start'"),
        ({"rounds": -1}, "at least 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(SMALL, **options)


def test_its_options_are_set_by_name() -> None:
    backend: Any = REGISTRY.parse("merging:rounds=2,exact=ilp,descent.region=6")
    assert (backend.rounds, backend.exact.name, backend.descent.region) == (2, "ilp", 6)
    with pytest.raises(ChoiceError, match="not exact"):
        REGISTRY.parse("merging:exact=forward")


def test_without_trajectories_descents_and_searches_widen() -> None:
    problem = named(gaussian(2, 12, 5))
    ranges = []

    class Spy(LargeNeighbourhoodSearch):
        __slots__ = ()

        def narrower(self, problem: Problem, start: JunctionTree) -> range:
            ranges.append(super().narrower(problem, start))
            return ranges[-1]

    spy = Spy(exact=DynamicProgramming(), start=(Forward(),), region=4, kicks=1)
    for backend in (replace(SMALL, improve=spy), replace(SMALL, descent=spy)):
        ranges.clear()
        merged(backend, problem.with_treewidth(2), large=0)
        assert not any(ranges)
        ranges.clear()
        merged(backend, problem.with_treewidth(4), large=0)
        assert range(2, 4) in ranges
    assert all(ranges)  # from any start of a descent


def test_wide_cliques_have_trajectories_which_end_without_a_time_limit_when_some_found_nothing() -> None:
    began, shaken = [], []

    class Watched(_Rounds):
        def begin_trajectory(self, best: JunctionTree) -> None:
            super().begin_trajectory(best)
            began.append(self.failed_trajectories)
            assert self.current is not None
            assert self.problem.permits(self.current)

        def descend_perturbed(self, current: JunctionTree) -> JunctionTree | None:
            shaken.append(current)
            return super().descend_perturbed(current)

    problem = named(gaussian(2, 12, 5)).with_treewidth(3)
    few_idle = replace(_TUNING, idle=2)
    Watched(SMALL, problem.with_treewidth(2), LIMITS, Recording(), few_idle).outcome()
    assert not began
    result = Watched(SMALL, problem, LIMITS, Recording(), few_idle).outcome()
    assert result.tree is not None
    assert problem.permits(result.tree)
    assert began[-1] == _TUNING.trajectories
    assert shaken


def test_a_trajectory_that_reaches_the_best_tree_ends() -> None:
    ended: list[bool] = []

    class Watched(_Rounds):
        def begin_trajectory(self, best: JunctionTree) -> None:
            ended.append(self.has_met_best)
            if self.has_met_best:
                assert self.current is not None
                assert self.current is not best
                assert self.value(self.current) == pytest.approx(self.score)
            else:
                assert self.idle > _TUNING.idle
            super().begin_trajectory(best)

    for seed in range(3):
        Watched(replace(SMALL, rounds=20), named(from_data(seed, 12, 4)), LIMITS, Recording()).outcome()
    assert any(ended)
    assert not all(ended)
