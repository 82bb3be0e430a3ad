"""Bounds by the potentials of sinks: shortest paths by hand, sweeps, stretching, and proofs by them alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pytest
from problems import Recording, from_network, gaussian, named, random_problem, repeatable
from scipy.optimize import check_grad
from searches import searched

from jtsolve.backends.clutter import branch_and_bound
from jtsolve.backends.clutter.ascent import ASCENT, ROUGH_ASCENT, ascend
from jtsolve.backends.clutter.branch_and_bound import BRANCHING, BranchAndBound
from jtsolve.backends.clutter.kernels.potentials import (
    NEVER,
    Runs,
    add_stretched,
    distances_from_empty,
    distances_to_sink,
    exchange,
    runs_of,
    stretch,
    update_potential,
)
from jtsolve.backends.clutter.potentials import POTENTIALS, Potentials, Stretching
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.problem import ALL_FEATURES
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import UNSTOPPABLE
from jtsolve.errors import InternalError
from jtsolve.families.families import families_of
from jtsolve.solving import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.backends.clutter.ascent import AscentConstants
    from jtsolve.backends.clutter.subproblem import Subproblem
    from jtsolve.core.problem import Problem

EAGER = replace(BRANCHING, potentials=replace(POTENTIALS, least_width=1, least_gap=0.0, fruitless=2))
"""Potentials replace steps for cliques of any size and any gap."""


def after_ascent(problem: Problem) -> Subproblem:
    """Returns the problem as a whole after its first ascent, with the tree of `forward`."""
    search = BranchAndBound.for_problem(
        problem, families_of(problem, 0), Limits(), Recording(), keep_stages=False
    )
    subproblem = search.root.subproblem
    tree = solve(problem, REGISTRY["forward"]).tree
    assert tree is not None
    subproblem.best.offer(tree)
    ascend(subproblem, subproblem.multipliers, lambda _: True)
    return subproblem


def tight(seed: int, n: int = 8) -> Subproblem:
    """Returns a problem on which dual ascent leaves a gap."""
    return after_ascent(named(from_network(seed, n, 4, rows=200)))


def network(subproblem: Subproblem, cost: NDArray[np.int32]) -> nx.DiGraph:
    """Returns the lattice as a graph: families with their cost, and arcs to facets without."""
    graph = nx.DiGraph()
    facets, sizes = subproblem.families.facets, subproblem.families.sizes
    for a in range(sizes.size):
        for j in range(sizes[a]):
            graph.add_edge(a, int(facets[a, j]), weight=0)
            if cost[j, a] < NEVER:
                graph.add_edge(int(facets[a, j]), a, weight=int(cost[j, a]))
    return graph


@pytest.mark.parametrize(("n", "width"), [(12, 2), (20, 3), (20, 4), (12, 5)])
def test_runs_make_up_the_lattice_and_their_facets_are_in_one_run_each(n: int, width: int) -> None:
    whole = families_of(named(gaussian(1, n, width)), 0)
    generator = np.random.default_rng(n)
    for share in (1.0, 0.5, 0.05, 0.02, 0.01):
        families, _ = whole.restricted(generator.random(whole.allowed.shape) < share)
        facets, sizes = families.facets, families.sizes
        runs: Runs = runs_of(facets, sizes)
        assert runs.first.tolist() == [0, *np.cumsum(runs.length)[:-1].tolist()]
        assert runs.length.sum() == sizes.size
        for first, length, size, of_first, of in zip(*(part.tolist() for part in runs), strict=True):
            for i in range(length):
                assert sizes[first + i] == size
                found = facets[first + i, :size].tolist()
                assert found == [of_first[j] + (i if j else 0) for j in range(size)]
                for at, run in zip(found, of, strict=False):
                    assert 0 <= at - int(runs.first[run]) < runs.length[run]


def test_a_potential_that_falls_is_an_error_and_no_bound() -> None:
    potentials = Potentials(tight(1))
    sink = potentials.inside[0]
    potentials.potentials[0, sink[-1]] = potentials.potentials[0, sink[0]] - 1
    with pytest.raises(InternalError, match="falls"):
        potentials._evaluate()


@pytest.mark.parametrize("seed", range(3))
def test_distances_are_those_of_shortest_paths(seed: int) -> None:
    subproblem = tight(seed, 6)
    families, potentials = subproblem.families, Potentials(subproblem)
    generator = np.random.default_rng(seed)
    cost = potentials.reduced + generator.integers(0, 1000, potentials.reduced.shape, dtype=np.int32)
    cost[potentials.reduced == NEVER] = NEVER
    inside, runs = potentials.inside[seed], runs_of(families.facets, families.sizes)
    graph = network(subproblem, cost)
    found = np.full(families.sizes.size, NEVER, dtype=np.int32)
    found[0] = 0
    distances_from_empty(cost, runs, inside[0], found)
    expected = nx.single_source_dijkstra_path_length(graph, 0)
    total = expected[int(inside[0])]
    assert [min(total, d) for d in found.tolist()] == [
        min(total, expected[a]) for a in range(families.sizes.size)
    ]
    back = np.full(families.sizes.size, NEVER, dtype=np.int32)
    back[inside] = 0
    distances_to_sink(cost, runs, back)
    expected = nx.multi_source_dijkstra_path_length(graph.reverse(), set(inside.tolist()))
    assert back[0] == total
    assert [min(total, d) for d in back.tolist()] == [
        min(total, expected.get(a, NEVER)) for a in range(families.sizes.size)
    ]


@pytest.mark.parametrize("from_empty", [True, False])
def test_a_renewed_potential_is_the_largest_that_the_others_leave(*, from_empty: bool) -> None:
    subproblem = tight(4, 6)
    families, potentials = subproblem.families, Potentials(subproblem)
    runs = runs_of(families.facets, families.sizes)
    for k in range(len(potentials.inside)):
        reduced, potential = potentials.reduced.copy(), potentials.potentials[k].copy()
        before = potential.copy()
        room = (np.zeros_like(reduced), np.zeros_like(potential))
        nothing = np.zeros_like(potential)
        exchange(reduced, nothing, potential, runs)
        update_potential(reduced, potential, potentials.inside[k], from_empty, runs, room)
        exchange(reduced, potential, nothing, runs)
        rise = potential[:, None] - potential[families.facets]
        real = np.arange(families.width)[None, :] < families.sizes[:, None]
        assert potential[0] == 0
        assert (rise[real] >= 0).all()
        assert (potential[potentials.inside[k]] == potential.max()).all()
        # What a mean rounds down may miss by a step.
        assert (reduced.T[families.allowed] >= -1).all()
        free = potentials.reduced + (before[:, None] - before[families.facets]).T
        free.T[~families.allowed] = NEVER
        total = nx.dijkstra_path_length(network(subproblem, free), 0, int(potentials.inside[k][0]))
        assert total - 1 <= potential.max() <= total


def test_turns_never_raise_the_bound_and_exceed_the_ascent() -> None:
    gained = 0
    for seed in range(6):
        subproblem = tight(seed)
        optimum = solve(subproblem.best.problem, REGISTRY["dp"]).score
        assert optimum is not None
        potentials = Potentials(subproblem)
        first = potentials.gap
        for _ in range(10):
            units = subproblem.units
            for from_empty in (True, False):
                assert potentials._sweep(UNSTOPPABLE, from_empty=from_empty)
            potentials._evaluate_and_fix()
            assert subproblem.units <= units
            assert subproblem.best.scale.nats(subproblem.units) >= optimum - 1e-6 * abs(optimum)
            if subproblem.closed:
                break
        gained += subproblem.closed or potentials.gap < 0.9 * first
    assert gained >= 3


def test_the_gradient_of_stretching_is_that_of_its_value() -> None:
    stretching = Stretching(Potentials(tight(1)))
    generator = np.random.default_rng(0)
    for _ in range(3):
        at = 0.5 + generator.random(stretching.lengths.size)
        _, gradient = stretching.value(at)
        error = check_grad(lambda x: stretching.value(x)[0], lambda x: stretching.value(x)[1], at)
        assert error < 1e-3 * max(1.0, float(np.linalg.norm(gradient)))


def test_without_stretching_the_smoothed_bound_is_above_the_bound() -> None:
    potentials = Potentials(tight(2))
    stretching = Stretching(potentials)
    families = potentials.subproblem.families
    value, _ = stretching.value(np.ones(stretching.lengths.size))
    count = np.bincount(families.members[families.allowed], minlength=families.n)
    above = value - potentials.gap
    assert -1e-6 <= above <= stretching.temperature * np.log(count).sum() + 1e-6


def test_stretched_potentials_have_a_lower_smoothed_bound_and_stop_on_request() -> None:
    stretching = Stretching(Potentials(tight(3)))
    once, least = stretching.minimum(Recording(patience=0, reason=Stop.TIME)), stretching.minimum(UNSTOPPABLE)
    start = np.ones(stretching.lengths.size)
    values = [stretching.value(slopes)[0] for slopes in (least, once, start)]
    assert values == sorted(values)


def test_potentials_are_handed_over_as_cuts_near_them() -> None:
    left = []
    for levels in (1, 10, 100, 1000):
        subproblem = tight(1)
        potentials = Potentials(subproblem, how=replace(POTENTIALS, levels=levels))
        potentials.polish(UNSTOPPABLE)
        families, gap, sinks = subproblem.families, potentials.gap, potentials._sinks
        potentials.hand_over()
        rows = subproblem.rows
        assert len(rows.clutters) <= levels + len(sinks)
        for number, clutter in enumerate(rows.clutters):
            up = (rows.words[number // 64] >> np.uint64(number % 64)) & np.uint64(1)
            assert clutter
            assert not up[0]
            assert any(up[at] for at in sinks)
            assert not any(up[families.facets[at, j]] for at in clutter for j in range(families.sizes[at]))
        left.append(subproblem.gap_of(subproblem.evaluate(subproblem.multipliers).units) - gap)
    assert left[-1] > -1e-4
    assert left == sorted(left, reverse=True)
    assert left[-1] < 0.01 * left[0]


def test_a_stretched_potential_never_falls() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        bits = int(generator.integers(0, 10))
        slopes = generator.exponential(1.0, 20) * generator.integers(0, 2, 20)
        potential = np.arange(20 << bits, dtype=np.int32)
        total = np.zeros(potential.size)
        add_stretched(potential[None, :], bits, np.array([0, 20]), slopes, total)
        stretch(potential, bits, slopes)
        assert potential[0] == 0
        assert (np.diff(potential) >= 0).all()
        assert np.abs(total - potential).max() < 1.1


def test_an_interrupted_run_keeps_its_bound_and_continues() -> None:
    subproblem = tight(1, 12)
    potentials = Potentials(subproblem, how=replace(POTENTIALS, fruitless=2))
    assert not subproblem.closed
    assert not potentials.run(0, lambda *_: True, Recording(patience=3, reason=Stop.TIME))
    units, sweeps = subproblem.units, potentials.sweeps
    assert sweeps == 1
    assert potentials.run(0, lambda *_: True, UNSTOPPABLE)
    assert potentials.sweeps > sweeps
    assert subproblem.units <= units


def test_they_replace_steps_where_cliques_and_gap_are_large_and_no_certificate_is_requested() -> None:
    always = replace(POTENTIALS, least_gap=0.0)
    subproblem = tight(1, 12)
    assert Potentials.promising(subproblem, always)
    assert not Potentials.promising(after_ascent(named(gaussian(1, 6, 3))), always)
    subproblem.stages = []
    assert not Potentials.promising(subproblem, always)
    subproblem.stages = None
    assert not Potentials.promising(subproblem, replace(POTENTIALS, least_gap=0.99))


def test_the_ascent_is_rough_where_they_may_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[AscentConstants] = []

    def listening(*args: Any) -> Any:
        used.append(args[-1])
        return ascend(*args)

    monkeypatch.setattr(branch_and_bound, "ascend", listening)
    for problem, keep_stages in (
        (named(from_network(1, 12, 4, rows=200)), False),
        (named(from_network(1, 12, 4, rows=200)), True),
        (named(gaussian(1, 6, 3)), False),
    ):
        search = BranchAndBound.for_problem(
            problem, families_of(problem, 0), Limits(), Recording(), keep_stages=keep_stages
        )
        tree = solve(problem, REGISTRY["forward"]).tree
        assert tree is not None
        search.best.offer(tree)
        search.ascend()
    assert used == [ROUGH_ASCENT, ASCENT, ASCENT]


def test_turns_end_where_only_a_better_tree_was_missing() -> None:
    subproblem = tight(1, 12)
    potentials = Potentials(subproblem, how=replace(POTENTIALS, least_gap=0.99))
    assert not potentials.still_promising
    assert potentials.run(0, lambda *_: True, UNSTOPPABLE)
    assert potentials.sweeps == 0


def test_trees_proved_by_potentials_are_the_best() -> None:
    used = False
    for seed in range(3):
        problem = named(from_network(seed, 12, 4, rows=200))
        search = searched(problem, 0, EAGER)
        assert search.best.score == pytest.approx(solve(problem, REGISTRY["dp"]).score)
        used |= search.root.by_potentials and search.steps > 0
    assert used


def test_potentials_prove_under_all_constraints() -> None:
    """Three at a time: under all at once, one problem in forty has a tree."""
    features = sorted(ALL_FEATURES, key=str)
    for seed in range(40):
        problem = random_problem(seed, 5, frozenset(repeatable(seed).sample(features, 3)))
        tree, expected = searched(problem, 0, EAGER).best.tree, solve(problem, REGISTRY["brute"]).score
        assert (tree and tree.score(problem.scores)) == pytest.approx(expected)


def test_near_families_that_closure_would_take_from_a_vertex_give_way_to_all() -> None:
    problem = named(gaussian(1, 6, 3))
    search = BranchAndBound.for_problem(
        problem, families_of(problem, 0), Limits(), Recording(), keep_stages=False
    )
    subproblem = search.root.subproblem
    families = subproblem.families
    triples = families.allowed & (families.sizes == 3)[:, None]  # whose parents nothing makes
    near, position = subproblem.restricted_to(triples)
    assert int(near.allowed.sum()) == int(families.allowed.sum())
    assert position.tolist() == list(range(families.sizes.size))
