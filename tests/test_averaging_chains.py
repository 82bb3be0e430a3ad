"""Chains over decomposable graphs: their target, and whether they report failures."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from math import exp, inf
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from problems import gaussian, named
from reference_averaging import enumerated
from runs import ImpatientRun

from jtsolve.averaging.auto import Auto
from jtsolve.averaging.average import average
from jtsolve.averaging.chains import CHAINS, FOR_CHAINS, MOVABLE, Chains, run_chains
from jtsolve.averaging.kernels.edge_chain import resample, run_chain, score_of_set
from jtsolve.averaging.moves import ChainScores, exponents, proposals_of, respaced, worths_of
from jtsolve.averaging.score_table import RoundedScores
from jtsolve.averaging.traces import (
    Demands,
    edge_trace,
    effective_size,
    packed_neighbours,
    split_r_hat,
    standard_error,
    unpacked_neighbours,
)
from jtsolve.backends.brute import chordal_trees
from jtsolve.core.problem import Constraints, Problem
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import DenseScores, SparseScores, StoppedError
from jtsolve.core.varset import bounded_subsets, count_bounded_subsets, members
from jtsolve.errors import ChoiceError, LimitError, RefusedError
from jtsolve.io.instance import read_problem
from jtsolve.scoring.colex import ColexOrder
from jtsolve.scoring.problem import problem_from_table
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.solving import solve
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.core.scores import LocalScores

SHORT = Chains(rounds=4000, temperatures=4)


def scores_of(problem: Problem) -> ChainScores:
    n, largest = problem.n, problem.max_clique_size
    forbidden = [0] * n
    for edge in problem.constraints.forbidden_edges:
        for v in members(edge):
            forbidden[v] |= edge ^ 1 << v
    return ChainScores(
        *RoundedScores(problem.scores, 2.0**-40).table(largest),
        ColexOrder(n, largest).before,
        largest,
        0.0,
        packed_neighbours(forbidden),
    )


def chain(
    problem: Problem,
    rows: Sequence[int],
    state: int,
    rounds: int,
    *,
    branches: float = 0.0,
    exchanges: float = 0.0,
) -> NDArray[Any]:
    """Returns the graphs after each of many proposals at one temperature."""
    graph = packed_neighbours(rows)[None].copy()
    trace = np.zeros((rounds, *graph.shape[1:]), np.uint32)
    run_chain(
        np.array([state + 1, state], np.uint64),
        graph,
        np.zeros(1),
        np.zeros(1, np.int64),
        np.zeros(2, np.int64),
        np.zeros(2, np.int64),
        np.full(1, -1),
        np.ones(1),
        1,
        scores_of(problem),
        proposals_of(worths_of(problem), branches, exchanges),
        trace,
        np.zeros(rounds),
    )
    return trace


def one_step(problem: Problem, rows: tuple[int, ...], state: int) -> tuple[int, ...]:
    """Returns the graph after one proposal of one edge."""
    return unpacked_neighbours(chain(problem, rows, state, 1))[0]


def rows_of(tree: Any) -> tuple[int, ...]:
    rows = [0] * tree.n
    for u, v in tree.graph_edges:
        rows[u] |= 1 << v
        rows[v] |= 1 << u
    return tuple(rows)


def test_every_chordal_graph_of_four_variables_is_left_for_chordal_neighbours_only() -> None:
    problem = named(DenseScores(4, 4, np.zeros(16)))
    states = np.random.default_rng(0).integers(1, 1 << 63, 300).tolist()
    graphs = {rows_of(tree) for tree in chordal_trees(4)}
    for key in graphs:
        reached = {one_step(problem, key, state) for state in states}
        near = {
            other
            for other in graphs
            if sum(int(a ^ b).bit_count() for a, b in zip(key, other, strict=True)) == 2
        }
        assert reached == near | (reached & {key})  # with equal weights every legal move is accepted
        assert near <= reached


def counted(codes: NDArray[np.int64]) -> dict[int, int]:
    """Returns how often each code occurs."""
    found, times = np.unique(codes, return_counts=True)
    return dict(zip(found.tolist(), times.tolist(), strict=True))


def assert_balanced(codes: NDArray[np.int64]) -> None:
    """Checks that moves between two graphs are as frequent as those back, within 5 standard deviations."""
    graphs, places = np.unique(codes, return_inverse=True)
    moves = np.zeros((len(graphs), len(graphs)), np.int64)
    np.add.at(moves, (places[:-1], places[1:]), 1)
    assert (abs(moves - moves.T) < 5 * np.sqrt(moves + moves.T) + 1).all()


def test_moves_of_one_edge_are_in_detailed_balance() -> None:
    problem, rounds = named(gaussian(3, 4, scale=0.2)), 300_000
    codes = chain(problem, [0] * 4, 1, rounds)[:, :, 0] @ (1 << 4 * np.arange(4))
    weights = {
        sum(row << 4 * v for v, row in enumerate(rows_of(tree))): exp(tree.score(problem.scores))
        for tree in chordal_trees(4)
    }
    visits = counted(codes)
    assert set(visits) == set(weights)
    for code, weight in weights.items():
        assert visits[code] / rounds == pytest.approx(weight / sum(weights.values()), abs=0.004)
    assert_balanced(codes)


@pytest.mark.parametrize("kind", ["branches", "exchanges"])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_moves_of_branches_and_exchanges_are_in_detailed_balance(kind: str, width: int) -> None:
    """Neither move changes the number of edges: the target is the posterior of graphs with as many."""
    forbidden = frozenset({0b10010} if width < 3 else ())  # of cliques of four, no other edge can be missing
    constraints = Constraints(max_treewidth=width, forbidden_edges=forbidden)
    problem, rounds = named(gaussian(6, 5, scale=0.3), constraints), 1_000_000
    start = [
        rows_of(tree)
        for tree in chordal_trees(5)
        if tree.treewidth == width
        and len(set(tree.separators)) == len(tree.cliques) - 1 == 4 - width
        and not rows_of(tree)[1] >> 4 & 1
    ][-1]
    codes = chain(problem, start, 1, rounds, **{kind: 1.0})[:, :, 0].astype(np.int64) @ (
        1 << 5 * np.arange(5)
    )
    code = {sum(row << 5 * v for v, row in enumerate(rows_of(tree))): tree for tree in chordal_trees(5)}
    visits = counted(codes)
    assert len(visits) > 2
    assert all(code[c].treewidth <= width for c in visits)
    assert width == 3 or not any(rows_of(code[c])[1] >> 4 & 1 for c in visits)
    weights = {c: exp(code[c].score(problem.scores)) for c in visits}
    for c, weight in weights.items():
        assert visits[c] / rounds == pytest.approx(weight / sum(weights.values()), abs=0.01)
    assert_balanced(codes)


@pytest.mark.parametrize("seed", range(3))
def test_chains_converge_to_the_posterior(seed: int) -> None:
    problem = named(gaussian(seed, 5), Constraints(max_treewidth=3, forbidden_edges=frozenset({0b11})))
    expected = enumerated(problem, 0.5)
    posterior = average(problem, method=SHORT, run=Run(Limits(seed=seed)), edge_odds=0.5)
    assert expected is not None
    assert posterior is not None
    assert posterior.method == "chains"
    assert posterior.log_evidence is None
    for u in range(5):
        for v in range(u):
            assert posterior.edges[u, v] == pytest.approx(expected.complete[1 << u | 1 << v], abs=0.04)
    assert posterior.edges[0, 1] == 0
    assert posterior.connected == pytest.approx(expected.connected, abs=0.05)
    for mask, p in posterior.cliques:
        assert p == pytest.approx(expected.clique[mask], abs=0.06)
    known = [expected.treewidth[k] for k in range(len(posterior.diagnostics["treewidth"]))]
    assert posterior.diagnostics["treewidth"] == pytest.approx(known, abs=0.05)


def test_flare_without_tempering_is_reported_as_not_converged(shared: Path) -> None:
    """Single edges err by 0.25 or more in an edge; branches and exchanges lead out of their regimes."""
    problem = read_problem(shared / "data" / "scores" / "flare.score")
    sample = run_chains(
        problem,
        1.0,
        Run(),
        how=Chains(temperatures=1, rounds=8000),
        start=solve(problem).tree,
        constants=replace(CHAINS, branches=0.0, exchanges=0.0),
    )
    assert not sample.converged
    assert sample.diagnostics["largest_difference"] > 0.9


def test_chains_continue_until_every_edge_is_known() -> None:
    """The error of four chains of 2,000 draws for an edge of probability 1/2 is 0.0056."""
    even, rounds = named(DenseScores(2, 2, np.zeros(4))), []
    for most_error in (0.009, 0.004):
        constants = replace(CHAINS, demands=Demands(most_error=most_error))
        how = Chains(temperatures=1)
        sample = run_chains(even, 1.0, Run(), how=how, start=None, constants=constants)
        assert sample.converged
        assert sample.diagnostics["largest_error"] <= most_error
        rounds.append(sample.diagnostics["rounds"])
    assert rounds[0] < rounds[1]


def test_flare_with_tempering_is_near_the_exact_posterior(shared: Path) -> None:
    problem = read_problem(shared / "data" / "scores" / "flare.score")
    exact, chains = average(problem), average(problem, method=Chains(rounds=8000))
    assert exact is not None
    assert chains is not None
    assert np.abs(exact.edges - chains.edges).max() < 0.05


def test_the_effective_size_is_the_smallest_of_score_size_and_every_uncertain_edge(shared: Path) -> None:
    """By score and size alone, chains of flare passed with an error of 0.05 in an edge."""
    problem = read_problem(shared / "data" / "scores" / "flare.score")
    sample = run_chains(problem, 1.0, Run(), how=Chains(rounds=2000), start=None)
    shares = sample.edges()
    for u in range(problem.n):
        for v in range(u):
            if 0.02 < shares[u, v] < 0.98:
                trace = edge_trace(sample.graphs, u, v)
                assert sample.diagnostics["effective_sample_size"] <= effective_size(trace) + 1e-9
                assert sample.diagnostics["largest_error"] >= standard_error(trace) - 1e-9


def test_the_same_seed_gives_the_same_chains_with_any_number_of_threads() -> None:
    problem = named(gaussian(1, 6))
    one, other, third = (
        average(
            problem, method=Chains(rounds=1000, temperatures=4), run=Run(Limits(threads=threads, seed=seed))
        )
        for threads, seed in ((1, 5), (3, 5), (1, 6))
    )
    assert one is not None
    assert other is not None
    assert third is not None
    assert (one.edges == other.edges).all()
    assert (one.edges != third.edges).any()


def test_chains_serve_where_the_tables_do_not_fit() -> None:
    problem = named(gaussian(1, 70, 2))
    posterior = average(problem, method="auto:chains.rounds=200,chains.temperatures=2")
    assert posterior is not None
    assert posterior.method == "chains"


def test_chains_refuse_unsupported_problems() -> None:
    for constraints in (Constraints(required_edges=frozenset({0b11})), Constraints(max_cliques=2)):
        with pytest.raises(RefusedError, match="does not support"):
            average(named(gaussian(1, 3), constraints), method="chains")
    with pytest.raises(RefusedError, match="score of every set"):
        average(named(SparseScores(3, {0b001: 0.0, 0b010: 0.0, 0b100: 0.0, 0b011: 0.0})), method="chains")
    with pytest.raises(ChoiceError, match="no method"):
        average(named(gaussian(1, 3)), method="guess")
    for options in (
        {"chains": 1},
        {"temperatures": 0},
        {"temperatures": 10_001},
        {"rounds": 99},
    ):
        with pytest.raises(ChoiceError):
            Chains(**options)


def test_a_time_limit_returns_the_graphs_so_far_or_an_error() -> None:
    problem = named(gaussian(1, 5))
    with pytest.raises(StoppedError):
        run_chains(problem, 1.0, ImpatientRun(2, Stop.TIME), how=Chains(), start=None)
    # The first comparison is after 2,000 rounds of four chains, which poll 80 times.
    how = Chains(rounds=8000, temperatures=1)
    stopped = ImpatientRun(100, Stop.TIME)
    flat = named(DenseScores(12, 12, np.zeros(1 << 12)))
    sample = run_chains(flat, 1.0, stopped, how=how, start=None)
    assert sample.diagnostics["rounds"] == 2500
    with pytest.raises(LimitError, match="time limit"):
        average(problem, method="chains", run=Run(Limits(time=1e-9)))


def test_the_time_limit_replaces_the_number_of_rounds() -> None:
    constants = replace(CHAINS, rounds=200, demands=Demands(least_size=1e9))
    flat = named(DenseScores(4, 4, np.zeros(16)))

    def rounds(limits: Limits) -> object:
        run = ImpatientRun(500, Stop.TIME, limits)
        how = Chains(temperatures=1)
        sample = run_chains(flat, 1.0, run, how=how, start=None, constants=constants)
        return sample.diagnostics["rounds"]

    assert rounds(Limits()) == 200
    assert rounds(Limits(time=1e6)) == 12_500  # after each of 125 hundreds, the four chains poll
    assert rounds(Limits(time=1e6, memory=400_000)) == 3125  # half of it, 64 bytes a round


def test_scores_of_sets_are_found_at_their_colex_ranks() -> None:
    scores = gaussian(3, 7, 4)
    found = scores_of(named(scores))
    for mask in range(1 << 7):
        expected = scores.score(mask) if mask.bit_count() <= 4 else -1e300
        assert score_of_set(np.array([mask]), found) == pytest.approx(expected, abs=1e-12)


class Demanded:
    """Scores of a table that records the requested sets."""

    def __init__(self, scores: LocalScores) -> None:
        self.n, self.max_size, self.scores = scores.n, scores.max_size, scores
        self.asked: Counter[tuple[int, ...]] = Counter()

    def score(self, mask: int) -> float:
        return self.scores.score(mask)

    def batch(self, sets: NDArray[np.intp]) -> NDArray[np.float64]:
        self.asked.update(map(tuple, sets.tolist()))
        return self.scores.batch(sets)

    def extremes(self) -> tuple[float, float]:
        return self.scores.extremes()


def test_scores_on_demand_give_the_graphs_of_a_table() -> None:
    """51 variables have rows of two words, and more sets than are computed beforehand."""
    scores, how = gaussian(5, 51, 4), Chains(rounds=200, temperatures=6)
    asked = Demanded(scores)
    tabled, demanded = (
        run_chains(named(source), 0.5, Run(Limits(seed=3, threads=2)), how=how, start=None)
        for source in (scores, asked)
    )
    assert (tabled.graphs == demanded.graphs).all()
    assert tabled.heights == pytest.approx(demanded.heights, abs=1e-9)
    assert 1000 < len(asked.asked) < count_bounded_subsets(51, 4)
    sets = [row for row in asked.asked if len(row) == 3]
    assert max(asked.asked[row] for row in sets) <= how.chains  # each chain polls once


def test_scores_too_far_apart_for_exact_sums_are_for_chains() -> None:
    scores = gaussian(1, 5)
    values = scores.values.copy()
    values[7] = -1e12
    far = named(DenseScores(5, 5, values))
    with pytest.raises(RefusedError, match="exceed the range"):
        average(far, method="exact")
    posterior = average(far, method=Auto(chains=Chains(rounds=200, temperatures=2)))
    assert posterior is not None
    assert posterior.method == "chains"


def test_the_weight_of_a_graph_does_not_depend_on_its_path() -> None:
    """The weights of four variables' 61 graphs; the last digits would tell the chains apart."""
    problem = named(gaussian(2, 4, scale=0.7))
    how = Chains(rounds=4000)
    sample = run_chains(problem, 0.3, Run(), how=how, start=next(iter(chordal_trees(4))))
    codes = sample.graphs[..., 0].reshape(-1, 4) @ (1 << 4 * np.arange(4))
    weights: dict[int, set[float]] = {}
    for code, height in zip(codes.tolist(), sample.heights.ravel().tolist(), strict=True):
        weights.setdefault(code, set()).add(height)
    assert len(weights) > 40
    assert set(map(len, weights.values())) == {1}
    assert sample.converged


def test_one_score_far_below_all_others_does_not_blur_them() -> None:
    values = gaussian(3, 5).values.copy()
    values[-1] = -1e18
    problem = named(DenseScores(5, 5, values))
    posterior, averages = average(problem, method="chains"), enumerated(problem)
    assert posterior is not None
    assert averages is not None
    for u, v in combinations(range(5), 2):
        assert posterior.edges[u, v] == pytest.approx(averages.complete[1 << u | 1 << v], abs=0.04)


def test_evicted_scores_are_requested_again() -> None:
    scores, how = gaussian(5, 19, 19), Chains(rounds=100, temperatures=2)
    whole = run_chains(named(scores), 1.0, Run(), how=how, start=None)
    demanded = named(asked := Demanded(scores))
    little = replace(CHAINS, tables=0.0, slots=1 << 10, wanted=16)
    again = run_chains(demanded, 1.0, Run(), how=how, start=None, constants=little)
    assert (whole.graphs == again.graphs).all()
    assert max(asked.asked.values()) > 2 * how.chains


def test_a_stop_is_noticed_whenever_scores_are_requested() -> None:
    """They may take far longer than proposals."""
    scores, how = gaussian(5, 51, 4), Chains(rounds=200, temperatures=6)
    asked = []
    for patience in (2000, 12):
        demanded = named(source := Demanded(scores))
        run = ImpatientRun(patience, Stop.TIME, Limits(threads=1))
        with suppress(StoppedError):
            run_chains(demanded, 1.0, run, how=how, start=None)
        asked.append(len(source.asked))
    assert asked[1] < asked[0] / 4


def test_scores_on_demand_with_gaps_are_refused_when_they_are_met() -> None:
    n = 117  # 273,819 sets of up to three
    pairs = {1 << u | 1 << v: -1.0 for u in range(n) for v in range(u)}
    gaps = Demanded(SparseScores(n, {1 << v: -1.0 for v in range(n)} | pairs | {0b111000: 1.0}))
    with pytest.raises(RefusedError, match="score of every set"):
        run_chains(named(gaps), 1.0, Run(), how=SHORT, start=None)


def test_more_sets_than_can_be_numbered_are_refused() -> None:
    table = DataTable(tuple(map(str, range(70))), (("0", "1"),) * 70, np.eye(70, dtype=np.int8))
    problem = problem_from_table(table, Bdeu(), max_size=40, tabulation=FOR_CHAINS)
    (objection,) = MOVABLE.objections(problem)
    assert "bound the treewidth" in objection
    assert not MOVABLE.objections(problem.with_treewidth(9))


def test_variables_of_different_words_have_the_posterior_of_their_part_alone() -> None:
    """17 independent parts of four variables each, which lie in three words: v, v + 17, v + 34, v + 51."""
    small, n = gaussian(2, 4, 3, scale=2.0), 68
    values = np.zeros(count_bounded_subsets(n, 3))
    for i, mask in enumerate(bounded_subsets(n, 3)):
        inner = [0] * 17
        for v in members(mask):
            inner[v % 17] |= 1 << v // 17
        values[i] = sum(map(small.score, inner)) - 50.0 * max(0, sum(map(bool, inner)) - 1)
    how = Chains(rounds=2000, temperatures=1)
    sample = run_chains(named(DenseScores(n, 3, values)), 1.0, Run(), how=how, start=None)
    expected, edges = enumerated(named(small)), sample.edges()
    assert expected is not None
    for i in range(4):
        for j in range(i):
            share = np.mean([edges[v + 17 * i, v + 17 * j] for v in range(17)])
            assert share == pytest.approx(expected.complete[1 << i | 1 << j], abs=0.05)
    assert edges[0, [1, 18, 35, 52]].max() < 0.05


def test_graphs_that_do_not_fit_the_memory_are_refused() -> None:
    problem, little = named(gaussian(1, 40, 2)), Limits(memory=10_000_000)
    with pytest.raises(LimitError, match="fewer rounds"):
        average(problem, run=Run(little), method=Chains(rounds=40_000))
    sample = run_chains(problem, 1.0, Run(little), how=Chains(temperatures=1), start=None)
    assert sample.diagnostics["rounds"] <= 10_000_000 // (2 * 4 * 40 * 8)  # bytes of a graph in each chain


def test_chains_cool_down_in_a_share_of_the_time() -> None:
    """Without a time limit, they cool for half of the rounds."""
    problem, how = named(gaussian(1, 40, 2, scale=50.0)), Chains(rounds=1000, temperatures=3)
    cooling = [
        run_chains(problem, 1.0, run, how=how, start=None).diagnostics["cooling"]
        for run in (Run(), Run(Limits(time=1e6)), ImpatientRun(10**9, Stop.TIME, Limits(time=1e-9)))
    ]
    assert cooling[:2] == [500, 500]
    assert cooling[2] <= 200  # needed to time a round


def test_r_hat_is_near_one_for_equal_chains_and_large_for_others() -> None:
    noise = np.random.default_rng(1).standard_normal((4, 4000))
    assert split_r_hat(noise) < 1.01
    assert split_r_hat(noise + 3 * np.arange(4)[:, None]) > 1.5
    assert split_r_hat(noise + np.linspace(0, 4, 4000)) > 1.2  # each chain drifts
    assert split_r_hat(np.ones((4, 100))) == 1.0
    assert split_r_hat(np.repeat([[0.0], [0.0], [1.0], [1.0]], 100, axis=1)) == inf


def test_the_effective_size_is_that_of_an_autoregression() -> None:
    generator = np.random.default_rng(2)
    noise = generator.standard_normal((4, 20_000))
    assert effective_size(noise) == pytest.approx(80_000, rel=0.1)
    rho = 0.9
    chain = np.zeros_like(noise)
    for t in range(1, chain.shape[1]):
        chain[:, t] = rho * chain[:, t - 1] + noise[:, t]
    assert effective_size(chain) == pytest.approx(80_000 * (1 - rho) / (1 + rho), rel=0.15)
    assert effective_size(np.ones((4, 100))) == 400


def test_one_variable_has_nothing_to_move() -> None:
    how = Chains(rounds=100, temperatures=1)
    posterior = average(named(gaussian(1, 1)), method=how)
    assert posterior is not None
    assert posterior.cliques == ((1, 1.0),)


def test_temperatures_are_spaced_so_that_all_exchanges_are_rejected_equally_often() -> None:
    betas = np.array([1.0, 0.5, 0.25])
    assert respaced(betas, np.array([0.3, 0.3])) == pytest.approx(betas)
    assert respaced(betas, np.array([0.75, 0.25])) == pytest.approx([1.0, 0.5 ** (2 / 3), 0.25])
    assert respaced(betas, np.array([1.0, 0.0]))[1] == pytest.approx(0.5**0.5, rel=0.01)


def test_scores_determine_number_and_range_of_temperatures() -> None:
    few = exponents(worths_of(named(gaussian(1, 6, 2))), None)
    dear = worths_of(named(gaussian(1, 6, 2, scale=1000.0)))
    five = exponents(dear, 5)
    assert five == pytest.approx(five[-1] ** (np.arange(5) / 4))
    assert exponents(dear, 1) == pytest.approx([1.0])
    many = exponents(dear, None)
    assert many[-1] * abs(dear).max(axis=1).mean() == pytest.approx(10)
    assert few[-1] == pytest.approx(0.3)
    assert len(few) < len(many)


def test_pairs_are_listed_in_both_orders_with_the_stated_probabilities() -> None:
    worths = worths_of(named(gaussian(1, 20, 2)))
    proposals = proposals_of(worths, 0.0, 0.0)
    pairs = list(zip(proposals.firsts.tolist(), proposals.seconds.tolist(), strict=True))
    listed = Counter(pairs)
    assert listed == Counter((v, u) for u, v in pairs)
    assert all(listed[u, int(worths[u].argmax())] >= 32 for u in range(20))
    assert np.exp(proposals.chances).sum() - np.exp(np.diag(proposals.chances)).sum() == pytest.approx(1)
    for u, v in ((0, 1), (3, 17)):
        expected = 0.5 * listed[u, v] / len(pairs) + 0.5 / (20 * 19)
        assert exp(proposals.chances[u, v]) == pytest.approx(expected)


def test_all_exchanges_are_accepted_where_all_graphs_weigh_the_same() -> None:
    flat, how = named(DenseScores(5, 5, np.zeros(32))), Chains(rounds=4000, temperatures=4)
    found = run_chains(flat, 1.0, Run(), how=how, start=None).diagnostics
    assert found["least_swap_rate"] == 1.0
    assert found["temperatures"] == 4
    cooling = Chains(rounds=100, temperatures=4)
    found = run_chains(flat, 1.0, Run(), how=cooling, start=None).diagnostics
    assert found["least_swap_rate"] in {None, 1.0}  # none if no exchange was tried


def test_cooling_graphs_are_resampled_in_proportion_to_the_rise_of_their_weight() -> None:
    generator = np.random.default_rng(1)
    order, heights, cool = generator.permutation(7), generator.normal(size=7), 5
    shares = np.exp(0.7 * heights[order[:cool]])
    expected = cool * shares / shares.sum()
    state, total = np.array([1], np.uint64), np.zeros(cool)
    for _ in range(4000):
        rows, logs = np.arange(7, dtype=np.uint32)[:, None, None].copy(), heights.copy()
        resample(rows, logs, order, cool, 0.7, state)
        drawn = rows[:, 0, 0]
        assert (logs == heights[drawn]).all()
        assert (drawn[order[cool:]] == order[cool:]).all()
        copies = np.bincount(drawn[order[:cool]], minlength=7)[order[:cool]]
        assert copies.sum() == cool
        assert (np.abs(copies - expected) < 1).all()
        total += copies
    assert total / 4000 == pytest.approx(expected, abs=0.03)


def test_cooled_chains_find_the_best_tree_from_anywhere_where_an_edge_is_worth_hundreds_of_nats() -> None:
    """Every edge is worth something: chains that add and remove edges only would stay where they start."""
    pairs = 300 * np.random.default_rng(3).standard_normal((12, 12)) ** 2
    sets = [[*members(mask)] for mask in bounded_subsets(12, 3)]
    values = np.array([sum(pairs[u, v] for u in mask for v in mask if u < v) for mask in sets])
    problem = named(DenseScores(12, 3, values))
    sample = run_chains(problem, 1.0, Run(), how=Chains(rounds=1000), start=None)
    assert sample.heights.max(axis=1) == pytest.approx([solve(problem).score] * 4)
