"""Averages over decomposable graphs: against enumeration, rational numbers and published values."""

from __future__ import annotations

import pickle
from dataclasses import replace
from math import exp, inf, log
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from problems import from_data, gaussian, named, random_problem, repeatable
from reference_averaging import enumerated
from runs import ImpatientRun

from jtsolve.averaging.average import average
from jtsolve.averaging.exact import Exact
from jtsolve.averaging.features import GraphFeatures, features_of
from jtsolve.averaging.method import remark_on_scores
from jtsolve.averaging.plain import PlainSums
from jtsolve.averaging.plan import TableSizes
from jtsolve.averaging.posterior import GraphPosterior
from jtsolve.averaging.sums import Sums, compute
from jtsolve.averaging.weights import EXACT, set_weights
from jtsolve.backends.brute import chordal_trees
from jtsolve.core.problem import Constraints, Problem, ProblemFeature
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import DenseScores, SparseScores, StoppedError
from jtsolve.errors import ChoiceError, InternalError, LimitError, RefusedError
from jtsolve.io.instance import read_problem

if TYPE_CHECKING:
    from pathlib import Path

FEATURES = sorted(EXACT.features, key=lambda feature: feature.value)
CHORDAL_GRAPHS = [1, 2, 8, 61, 822, 18154, 617675, 30888596, 2192816760, 215488096587, 28791414081916]
"""Labelled chordal graphs on n = 1, 2, … vertices: sequence A058862 of the OEIS."""

EXACT_WIDTHS = Exact(treewidths=True)


def summed(problem: Problem, edge_odds: float = 1.0, threads: int = 1) -> Sums:
    return compute(set_weights(problem, edge_odds), Run(Limits(threads=threads)))


def uniform(n: int) -> Problem:
    return named(DenseScores(n, n, np.zeros(1 << n)))


def agree(problem: Problem, edge_odds: float = 1.0) -> None:
    """Compares the sums and all features with those of all graphs."""
    expected = enumerated(problem, edge_odds)
    for sums in summed(problem, edge_odds), PlainSums(set_weights(problem, edge_odds), Run()):
        if expected is None:
            assert sums.log_total == -inf
            continue
        scale = max(1.0, abs(expected.log_evidence) * 1e-6)  # scores of 10^6 nats are rounded themselves
        close = 1e-9 if isinstance(sums, Sums) else 1e-8 * scale  # logarithms keep fewer digits
        assert sums.log_total == pytest.approx(expected.log_evidence, abs=max(close, 1e-9 * scale))
        features = features_of(sums, Run()) if isinstance(sums, Sums) else sums.features()
        assert features.connected == pytest.approx(expected.connected, abs=close)
        for i, mask in enumerate(features.masks.tolist()):
            assert features.complete[i] == pytest.approx(expected.complete[mask], abs=close)
            assert features.clique[i] == pytest.approx(expected.clique[mask], abs=close)
            assert features.separator[i] == pytest.approx(expected.separator[mask], abs=close)
        assert features.clique.sum() - features.separator.sum() == pytest.approx(1.0, abs=100 * close)


@pytest.mark.parametrize("seed", range(80))
def test_sums_and_features_are_those_of_all_graphs_under_every_constraint(seed: int) -> None:
    random = repeatable(seed)
    n = random.choice([1, 2, 3, 4, 5, 5, 5])
    agree(random_problem(seed, n, frozenset(random.sample(FEATURES, random.choice([0, 1, 1, 2, 3])))))


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("seed", range(4))
def test_each_constraint_alone_is_met_with_gaussian_scores(seed: int, feature: ProblemFeature) -> None:
    constraints = random_problem(seed, 5, frozenset({feature})).constraints
    agree(named(gaussian(seed, 5, scale=3.0), constraints))


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(-3, 3) | st.sampled_from([-500, 500]), min_size=15, max_size=15))
def test_sums_are_right_for_ties_and_extreme_scores(values: list[int]) -> None:
    agree(named(DenseScores(4, 4, np.array([0, *values], dtype=float))))


@pytest.mark.parametrize("odds", [0.1, 0.5, 4.0])
def test_edge_odds_multiply_the_weight_of_a_graph_for_each_edge(odds: float) -> None:
    agree(named(gaussian(7, 5)), odds)
    agree(named(gaussian(8, 5), Constraints(forbidden_separators=frozenset({0b1, 0b11}))), odds)


def test_edge_odds_must_be_positive_and_finite() -> None:
    for odds in (0.0, -1.0, inf, float("nan")):
        with pytest.raises(ChoiceError, match="odds of an edge"):
            average(uniform(2), edge_odds=odds)


@pytest.mark.parametrize("seed", range(6))
def test_numpy_and_the_kernels_agree(seed: int) -> None:
    random = repeatable(seed)
    constraints = random_problem(seed, 8, frozenset(random.sample(FEATURES, 2))).constraints if seed else None
    problem = named(gaussian(seed, 8, scale=200.0), constraints or Constraints())
    one, other = summed(problem), PlainSums(set_weights(problem), Run())
    assert one.log_total == pytest.approx(other.log_total, rel=1e-12)
    if one.log_total > -inf:
        found, expected = features_of(one, Run()), other.features()
        assert found.connected == pytest.approx(expected.connected, abs=1e-9)
        for name in ("masks", "complete", "clique", "separator"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=1e-9)


@pytest.mark.parametrize("n", range(1, 12))
def test_with_equal_weights_the_sum_counts_the_labelled_chordal_graphs(n: int) -> None:
    assert summed(uniform(n)).log_total == pytest.approx(log(CHORDAL_GRAPHS[n - 1]), rel=1e-13, abs=1e-14)


def test_threads_change_nothing() -> None:
    problem = named(gaussian(3, 10, scale=20.0))
    one, several = summed(problem), summed(problem, threads=4)
    for first, second in zip(one.tables, several.tables, strict=True):
        assert (first == second).all()


def test_relabelling_the_variables_relabels_the_posterior() -> None:
    n = 7
    values = gaussian(5, n, scale=30.0).values
    masks = range(1 << n)
    turned = np.empty(1 << n)
    for mask in masks:
        turned[int(f"{mask:0{n}b}"[::-1], 2)] = values[mask]
    one, other = (average(named(DenseScores(n, n, v)), run=Run(Limits(threads=1))) for v in (values, turned))
    assert one is not None
    assert other is not None
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-13)
    assert one.edges == pytest.approx(other.edges[::-1, ::-1], abs=1e-12)


def test_a_sum_over_the_variables_of_a_set_added_to_its_score_changes_no_posterior() -> None:
    scores = gaussian(11, 6, scale=5.0)
    added = np.random.default_rng(0).normal(0, 1000, 6)
    masks = np.arange(1 << 6)
    moved = scores.values + sum(added[v] * (masks >> v & 1) for v in range(6))
    one, other = average(named(scores)), average(named(DenseScores(6, 6, moved)))
    assert one is not None
    assert other is not None
    assert one.log_evidence == pytest.approx((other.log_evidence or 0.0) - added.sum(), abs=1e-9)
    assert one.edges == pytest.approx(other.edges, abs=1e-9)


def test_scores_that_are_far_apart_leave_only_the_best_graph() -> None:
    problem = named(gaussian(2, 8, scale=1e6))
    posterior = average(problem)
    assert posterior is not None
    assert posterior.best is not None
    assert posterior.log_evidence == pytest.approx(posterior.best.score(problem.scores), rel=1e-12)
    assert set(posterior.median_graph) == set(posterior.best.graph_edges)
    assert np.round(posterior.edges) == pytest.approx(posterior.edges, abs=1e-8)


def test_the_sum_of_the_asia_scores_is_that_of_adjuncts_enumeration(shared: Path) -> None:
    """-22478.001412 is ln of the sum over the 30,888,596 graphs that Adjunct lists, to its six digits."""
    problem = read_problem(shared / "data" / "scores" / "adjunct-asia.score")
    posterior = average(problem)
    assert posterior is not None
    assert posterior.log_evidence == pytest.approx(-22478.001412, abs=1e-6)


def test_the_posterior_of_the_treewidth_is_that_of_all_graphs() -> None:
    problem = named(gaussian(4, 5))
    posterior, expected = average(problem, method=EXACT_WIDTHS), enumerated(problem)
    assert posterior is not None
    assert expected is not None
    known = [expected.treewidth[k] for k in range(5)]
    assert posterior.diagnostics["treewidth"] == pytest.approx(known, abs=1e-9)


def test_a_posterior_lists_cliques_and_separators_above_the_threshold() -> None:
    problem = named(gaussian(4, 5))
    expected = enumerated(problem)
    posterior = average(problem, threshold=0.2)
    assert posterior is not None
    assert expected is not None
    for listed, known in ((posterior.cliques, expected.clique), (posterior.separators, expected.separator)):
        assert dict(listed) == pytest.approx({mask: p for mask, p in known.items() if p >= 0.2})
    pairs = [p for mask, p in expected.complete.items() if mask.bit_count() == 2]
    assert posterior.expected_edges == pytest.approx(sum(pairs))
    with pytest.raises(ChoiceError, match="threshold"):
        average(problem, threshold=1.5)


def test_without_an_admissible_graph_there_is_no_posterior() -> None:
    edges = Constraints(max_treewidth=0, required_edges=frozenset({0b11}))
    assert average(named(gaussian(1, 3), edges)) is None
    assert average(named(SparseScores(2, {0b01: -1.0}))) is None


def test_one_variable_has_one_graph() -> None:
    posterior = average(named(DenseScores(1, 1, np.array([0.0, -2.5]))))
    assert posterior is not None
    assert posterior.log_evidence == -2.5
    assert posterior.cliques == ((1, 1.0),)
    assert posterior.separators == ()
    assert posterior.connected == 1.0
    assert posterior.median_graph == ()


def test_constraints_that_the_sums_do_not_support_are_refused_with_every_reason() -> None:
    forbidden = frozenset({0b11})
    constraints = Constraints(
        max_cliques=2, forbidden_graphs=frozenset({forbidden}), forbidden_cliques=forbidden
    )
    with pytest.raises(RefusedError) as caught:
        average(named(gaussian(1, 3), constraints))
    assert len(caught.value.reasons) == 3
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - from a worker, too
    assert (str(again), again.reasons) == (str(caught.value), caught.value.reasons)
    with pytest.raises(RefusedError, match="at most 26 variables"):
        average(named(gaussian(1, 27, 1)), method="exact")


def test_tables_that_do_not_fit_are_refused_with_the_largest_treewidth_that_does() -> None:
    problem = named(DenseScores(20, 20, np.zeros(1 << 20)))
    with pytest.raises(LimitError, match=r"10\d GB.*treewidth=\d+.*chains"):
        compute(set_weights(problem), Run(Limits(memory=4_000_000_000)))
    with pytest.raises(LimitError, match=r'Ways out: method="chains"'):
        compute(set_weights(problem), Run(Limits(memory=1000)))


def test_the_predicted_memory_is_that_of_the_tables() -> None:
    for n, width in ((1, 1), (6, 6), (9, 3)):
        sums = summed(named(gaussian(1, n, width)))
        plan = TableSizes(n, width)
        assert sum(table.size for table in sums.tables) <= plan.words + 8
        assert plan.memory >= sum(table.nbytes for table in sums.tables)
        assert plan.estimate(2).seconds > 0


@pytest.mark.parametrize("patience", [0, 3, 40])
def test_sums_end_as_soon_as_the_report_says_so(patience: int) -> None:
    run = ImpatientRun(patience, Stop.INTERRUPTED, Limits(threads=2))
    with pytest.raises(StoppedError):
        compute(set_weights(uniform(9)), run)
    assert run.asked <= patience + 100


def test_features_end_as_soon_as_the_report_says_so() -> None:
    sums = summed(uniform(6))
    with pytest.raises(StoppedError):
        features_of(sums, ImpatientRun(0, Stop.TIME, Limits(threads=2)))


def test_a_time_limit_before_the_end_of_the_sums_is_an_error() -> None:
    with pytest.raises(LimitError, match="time limit"):
        average(uniform(8), run=Run(Limits(time=1e-9)))


def test_features_that_break_an_identity_are_never_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> GraphFeatures:
        features = features_of(*arguments)
        return replace(features, clique=2 * features.clique)

    monkeypatch.setattr("jtsolve.averaging.exact.features_of", broken)
    with pytest.raises(InternalError, match="cliques"):
        average(uniform(4))


def test_an_interruption_ends_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Stop:
        return Stop.INTERRUPTED

    monkeypatch.setattr("jtsolve.core.run.Run.stop", property(interrupted))
    with pytest.raises(KeyboardInterrupt):
        average(uniform(4))


def test_scores_that_are_no_marginal_likelihoods_are_remarked_on() -> None:
    problem = named(from_data(1, 3))
    assert remark_on_scores(problem) is None
    assert remark_on_scores(replace(problem, provenance={"score": "bdeu"})) is None
    posterior = average(replace(problem, provenance={"score": "bic"}))
    assert posterior is not None
    assert "bic is not a log marginal likelihood" in posterior.diagnostics["remark"]


def posterior_with(**changes: Any) -> GraphPosterior:
    values: dict[str, Any] = {
        "instance": "x",
        "digest": "sha256:0",
        "names": ("A", "B"),
        "log_evidence": -1.0,
        "edges": np.array([[0.0, 0.25], [0.25, 0.0]]),
        "cliques": ((0b01, 0.75), (0b10, 0.75), (0b11, 0.25)),
        "separators": ((0, 0.75),),
        "connected": 0.25,
        "method": "exact",
    }
    return GraphPosterior(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": np.zeros((1, 1))}, "shape"),
        ({"edges": np.array([[0.0, 0.25], [0.3, 0.0]])}, "symmetric"),
        ({"edges": np.array([[0.1, 0.25], [0.25, 0.0]])}, "itself"),
        ({"edges": np.array([[0.0, 1.5], [1.5, 0.0]])}, "between 0 and 1"),
        ({"edges": np.array([[0.0, np.nan], [np.nan, 0.0]])}, "symmetric"),
        ({"method": "guess"}, "no method"),
        ({"converged": False}, "exact sums have converged"),
        ({"log_evidence": None}, "exact sums have converged"),
        ({"log_evidence": inf}, "log evidence"),
        ({"connected": 1.1}, "between 0 and 1"),
        ({"cliques": ((0b11, 0.25), (0b01, 0.75))}, "decreasing"),
        ({"separators": ((0, 2.5),)}, "decreasing"),
        ({"cliques": ((0b01, 0.75), (0b01, 0.75))}, "twice"),
        ({"cliques": ((0, 0.75),)}, "empty"),
        ({"cliques": ((0b100, 0.75),)}, "unknown"),
        ({"cliques": ((0b11, 0.5),)}, "likelier than one of its edges"),
        ({"best": chordal_trees(3)[0]}, "over 3 variables"),
    ],
)
def test_a_posterior_that_contradicts_itself_cannot_be_made(changes: dict[str, Any], message: str) -> None:
    assert posterior_with().expected_edges == 0.25
    with pytest.raises(ValueError, match=message):
        posterior_with(**changes)


def test_a_posterior_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        posterior_with().edges[0, 1] = 1.0


def test_posterior_probabilities_follow_from_two_graphs() -> None:
    posterior = average(named(DenseScores(2, 2, np.array([0.0, -1.0, -2.0, -2.0]))))
    assert posterior is not None
    assert posterior.edges[0, 1] == pytest.approx(exp(-2) / (exp(-2) + exp(-3)))
    assert posterior.connected == pytest.approx(posterior.edges[0, 1])
