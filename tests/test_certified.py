"""Certified sums: every interval holds, against enumeration, exact sums and any multipliers."""

from __future__ import annotations

from itertools import combinations
from math import exp, inf
from typing import TYPE_CHECKING

import numpy as np
import pytest
from problems import gaussian, named, random_problem, repeatable
from reference_averaging import Averages, enumerated
from runs import ImpatientRun

from jtsolve.averaging.average import average, draw_trees
from jtsolve.averaging.certified import CERTIFIABLE
from jtsolve.averaging.document import posterior_to_json
from jtsolve.averaging.items import frame_of, sum_exactly
from jtsolve.averaging.posterior import GraphPosterior
from jtsolve.averaging.relaxed import Bounds, Forest, Lattice, Sweep, alone
from jtsolve.backends.clutter.inequalities import CutRows
from jtsolve.backends.clutter.subproblem import set_positions
from jtsolve.core.problem import Constraints, Problem, ProblemFeature
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.threads import Pool
from jtsolve.core.varset import is_subset
from jtsolve.errors import ChoiceError, LimitError, NotConvergedError, RefusedError
from jtsolve.families.families import families_of
from jtsolve.io.instance import read_problem

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random


RUN = Run(Limits(threads=1))
FEATURES = sorted(CERTIFIABLE.features, key=lambda feature: feature.value)


def fuzzed(problem: Problem, random: Random, reference: float) -> Lattice:
    """All families, with random cuts, multipliers, root and ranks."""
    n = problem.n
    families = families_of(problem, random.randrange(n))
    cuts = []
    for _ in range(random.choice([0, 1, 4])):
        v = random.randrange(n)
        others = [mask for mask in families.masks() if mask.bit_count() > 1 and not mask >> v & 1]
        chosen = random.sample(others, min(len(others), random.randrange(3)))
        least = [a for a in chosen if not any(b != a and is_subset(b, a) for b in chosen)]
        position = set_positions(families, [1 << v, *least])
        cuts.append(tuple(sorted(position.values())))
    spread = random.choice([0, 1, 3, 300])
    heights = np.array([random.gauss(0, spread) for _ in range(n)])
    rank = np.array(random.sample(range(n), n))
    rank[families.root] = -1
    multipliers = np.array([spread * random.expovariate(1) for _ in cuts])
    return Lattice(families, CutRows(families, cuts), multipliers, heights, reference, 0.0, rank)


def holds(lattice: Lattice, bounds: Bounds, truth: Averages) -> None:
    """Compares the bounds of Z and of every complete set."""
    assert bounds.log_total >= truth.log_evidence - lattice.reference
    listed, masks = lattice.families.listing(), np.array(lattice.families.masks())
    for mask, share in truth.complete.items():
        within = (masks[listed.union] & mask == mask) & (mask >> listed.vertex & 1 > 0)
        assert not mask or bounds.families[within].sum() >= share * (1 - 1e-12)


def sum_agrees(forest: Forest, truth: Averages | None, threshold: float, *, marked: bool) -> None:
    """Compares the sums over sets: equal without a threshold, else within the interval."""
    vertices = np.arange(forest.lattice.families.n)
    whole = forest.sums(forest.lattice.cuts, forest.lattice.heights)
    frame = whole and frame_of(forest, whole, RUN, threshold / 10, vertices, room=inf if marked else 0.0)
    if frame is None:  # beyond the range of floats
        return
    items = sum_exactly(forest, frame, RUN, threshold, 10**6)
    assert items is not None
    kept = exp(items.log_sum)
    assert kept * (1 - 1e-9) <= (truth is not None) <= (kept + items.lost + frame.lost) * (1 + 1e-9)
    if truth is None or threshold:
        return
    assert kept == pytest.approx(1.0, abs=1e-9)
    families, listed = forest.lattice.families, forest.listed
    cliques = np.bincount(listed.union, items.bare, families.sizes.size)
    made, used = (np.bincount(at, items.uses, cliques.size) for at in (listed.union, listed.parents))
    for at, mask in enumerate(families.masks()):
        if mask:
            assert cliques[at] == pytest.approx(truth.clique[mask], abs=1e-9)
            assert cliques[at] - made[at] + used[at] == pytest.approx(truth.separator[mask], abs=1e-9)
    assert items.connected == pytest.approx(truth.connected, abs=1e-9)


SEEDS = [*range(30), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(30, 500))]


@pytest.mark.parametrize("seed", SEEDS)
def test_any_multipliers_bound_every_mass_and_the_sums_over_sets_are_exact(seed: int) -> None:
    random = repeatable(seed)
    n = random.choice([1, 2, 3, 4, 4] if seed < 30 else [3, 4, 5, 5])
    wanted = frozenset(random.sample(FEATURES, random.choice([0, 1, 2])))
    problem = random_problem(seed, n, wanted)
    if seed % 2:
        problem = named(gaussian(seed, n, scale=random.choice([0.5, 5.0])), problem.constraints)
    truth = enumerated(problem)
    lattice = fuzzed(problem, random, 0.0 if truth is None else truth.log_evidence)
    if lattice.families.not_separator.any() or lattice.families.not_clique.any():
        return  # refused: some sets have no score
    if not np.bincount(lattice.families.members[lattice.families.allowed], minlength=n)[:n].all():
        return
    bounds = [alone(lattice, RUN, 1)[1]]
    for thresholds in (False, True):
        forest = Forest(lattice, thresholds=thresholds, most=10**6)
        bounds.append(forest.improve(RUN, 1)[1])
    for found in bounds:
        if truth is not None:
            holds(lattice, found, truth)
    for marked in (False, True):
        for threshold in (0.0, 1e-3, 0.3):
            sum_agrees(forest, truth, threshold, marked=marked)


def contains(found: GraphPosterior, exact: GraphPosterior) -> None:
    """Every figure of exact sums lies in its interval."""
    bounds = found.intervals
    assert bounds is not None
    assert exact.log_evidence is not None
    tiny = 1e-9  # of the exact sums
    assert bounds.log_evidence[0] - tiny <= exact.log_evidence <= bounds.log_evidence[1] + tiny
    assert (bounds.low - tiny <= exact.edges).all()
    assert (exact.edges <= bounds.high + tiny).all()
    assert bounds.connected[0] - tiny <= exact.connected <= bounds.connected[1] + tiny
    assert bounds.expected_edges[0] - tiny <= exact.expected_edges <= bounds.expected_edges[1] + tiny
    assert (
        bounds.expected_cliques[0] - tiny
        <= exact.diagnostics["expected_cliques"]
        <= bounds.expected_cliques[1] + tiny
    )
    for A in (A for size in (1, 2, 3, 4) for A in combinations(found.names, size)):
        (low, high), (least, most) = found.complete(A), exact.complete(A)
        assert low - tiny <= most
        assert least <= high + tiny
    for listed, ends, truth in (
        (found.cliques, bounds.cliques, dict(exact.cliques)),
        (found.separators, bounds.separators, dict(exact.separators)),
    ):
        for (mask, _), (low, high) in zip(listed, ends, strict=True):
            if mask in truth:
                assert low - tiny <= truth[mask] <= high + tiny


@pytest.mark.parametrize(("name", "treewidth", "tolerance"), [("bridges", 2, 0.02), ("flare", 2, 0.2)])
def test_the_intervals_hold_the_exact_sums_of_shipped_instances(
    name: str, treewidth: int, tolerance: float
) -> None:
    problem = read_problem(f"instances/uci/{name}.json.gz").with_treewidth(treewidth)
    found, exact = average(problem, method=f"certified:{tolerance}"), average(problem, method="exact")
    assert found is not None
    assert exact is not None
    contains(found, exact)
    assert found.converged


@pytest.mark.parametrize("odds", [0.5, 3.0])
def test_required_and_forbidden_edges_and_odds_are_part_of_the_sums(odds: float) -> None:
    rules = Constraints(
        max_treewidth=2, required_edges=frozenset({0b11}), forbidden_edges=frozenset({0b1100})
    )
    problem = named(gaussian(3, 5), rules)
    found = average(problem, method="certified:1e-6", edge_odds=odds)
    exact = average(problem, method="exact", edge_odds=odds)
    assert found is not None
    assert exact is not None
    contains(found, exact)
    assert found.edges[0, 1] == pytest.approx(1.0, abs=1e-6)


def test_the_file_has_both_bounds_of_every_figure_and_is_read_back(tmp_path: Path) -> None:
    found = average(named(gaussian(1, 4)), method="certified:0.05")
    assert found is not None
    path = tmp_path / "posterior.json"
    path.write_bytes(posterior_to_json(found))
    again = GraphPosterior.read(path)
    assert posterior_to_json(again) == path.read_bytes()
    assert again.intervals is not None
    assert found.intervals is not None
    assert again.intervals.width == found.intervals.width
    assert "±" in repr(again)
    again.figure("heat-map")
    again.figure("graph")


def test_an_early_end_leaves_the_interval_that_holds_so_far() -> None:
    problem = named(gaussian(2, 5))
    exact = average(problem, method="exact")
    assert exact is not None
    rounded = average(problem, method="certified:1e-15")  # below rounding: it still ends
    assert rounded is not None
    contains(rounded, exact)
    assert not rounded.converged
    for patience in range(1, 50, 6):
        try:
            found = average(problem, method="certified:1e-6", run=ImpatientRun(patience, Stop.TIME))
        except LimitError:  # no bound, no interval
            assert patience < 14
            continue
        assert found is not None
        contains(found, exact)
        assert found.converged or found.warning is not None


def test_draws_have_the_probabilities_of_the_exact_sums_up_to_the_distance_that_is_stated() -> None:
    problem = named(gaussian(1, 4))
    exact, draws = average(problem, method="exact"), draw_trees(problem, 4000, method="certified:1e-3")
    assert exact is not None
    assert draws is not None
    assert 0 <= draws.diagnostics["total_variation"] < 1e-2
    for u, v in ((0, 1), (0, 3), (1, 2)):
        share = sum((u, v) in tree.graph_edges for tree in draws.trees) / 4000
        assert share == pytest.approx(exact.edges[u, v], abs=0.04)


def test_certified_sums_refuse_unsupported_problems_with_the_reason() -> None:
    with pytest.raises(RefusedError, match="min_separator_size"):
        average(named(gaussian(1, 4), Constraints(min_separator_size=1)), method="certified")
    with pytest.raises(ChoiceError, match="the tolerance is 2"):
        average(named(gaussian(1, 4)), method="certified:2")
    assert {ProblemFeature.MAX_TREEWIDTH, ProblemFeature.REQUIRED_EDGES} <= CERTIFIABLE.features
    with pytest.raises(NotConvergedError, match="Ways out"):
        draw_trees(named(gaussian(2, 5)), 10, method="certified:1e-6", run=ImpatientRun(14, Stop.TIME))


def test_bounds_beyond_the_range_of_floats_hold_and_drop_nothing() -> None:
    problem = named(gaussian(4, 4))
    lattice = fuzzed(problem, repeatable(1), -1000.0)
    for left, bounds in (alone(lattice, RUN, 1), Forest(lattice, thresholds=True, most=1000).improve(RUN, 1)):
        assert bounds.log_total > 900
        assert (bounds.families == np.inf).all()
        assert left.without(left.families.listing(), bounds, 1e300) is left


def test_trees_that_exceed_the_memory_are_not_built() -> None:
    lattice = fuzzed(named(gaussian(4, 5)), repeatable(1), 0.0)
    for most, room, fits in ((1000, 1e6, True), (1000, 1e3, False), (1000, 40_000, False), (3, 1e6, False)):
        forest = Forest(lattice, thresholds=True, most=most, room=room)
        assert (forest.states.family.size > 0) is fits


def test_a_problem_without_a_graph_is_distinguished_from_one_whose_search_ended() -> None:
    rules = Constraints(max_treewidth=1, required_edges=frozenset({0b011, 0b101, 0b110}))
    assert average(named(gaussian(3, 3), rules), method="certified") is None
    square = frozenset({0b00011, 0b00110, 0b01100, 0b01001})
    rules = Constraints(max_treewidth=2, required_edges=square, forbidden_edges=frozenset({0b00101}))
    found = average(named(gaussian(3, 5), rules), method="certified:1e-6")
    assert found is not None
    assert found.edges[1, 3] == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(LimitError):
        average(named(gaussian(3, 5), rules), method="certified", run=ImpatientRun(1, Stop.TIME))


def test_more_items_than_there_is_room_for_are_no_sum() -> None:
    problem = named(gaussian(2, 5))
    lattice, _ = alone(fuzzed(problem, repeatable(1), 0.0), RUN, 20)
    lattice, _ = Forest(lattice, thresholds=True, most=1000).improve(RUN, 1)
    forest = Forest(lattice, thresholds=True, most=1000)
    whole = forest.sums(lattice.cuts, lattice.heights)
    assert whole is not None
    frame = frame_of(forest, whole, RUN, 0.0, np.arange(5))
    assert frame is not None
    assert sum_exactly(forest, frame, RUN, 0.0, 3) is None


def test_sums_do_not_depend_on_threads() -> None:
    lattice, _ = alone(fuzzed(named(gaussian(2, 6)), repeatable(1), 0.0), RUN, 20)
    forest = Forest(lattice, thresholds=True, most=1000)
    whole = forest.sums(lattice.cuts, lattice.heights)
    assert whole is not None
    with Pool(2) as pool:
        threads = [None, pool]
        totals = [Sweep(6, forest.states, whole.weights, pool=p, parts=3) for p in threads]
        one, two = (sweep.adjoints(np.zeros_like(sweep.sums.P)) for sweep in totals)
        frames = [frame_of(forest, whole, RUN, 0.0, np.arange(6), pool=p) for p in threads]
        items = [
            sum_exactly(forest, f, RUN, 0.0, 10**6, pool=p) for f, p in zip(frames, threads, strict=True) if f
        ]
    assert totals[0].total == totals[1].total == pytest.approx(whole.total)
    assert (one == two).all()
    assert (totals[0].sums.T[0] * one[0]).sum(axis=0) == pytest.approx(whole.mass)
    found = [(i.log_sum, i.lost, i.uses.tolist()) for i in items if i]
    assert found[0] == found[1]
