"""Graph selection over junction trees: the theorem, the methods, the screens, and bad input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from random_graphs import Oracle, population, random_pair
from random_models import precision_matrix
from runs import ReportingRun
from scipy.stats import chi2_contingency
from sklearn.covariance import graphical_lasso as sklearn_graphical_lasso
from sklearn.linear_model import Lasso

from jtsolve.core.graph import UndirectedGraph
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.graph import selection_to_document
from jtsolve.models.learning.mixed_tree import fit_mixed
from jtsolve.selection.choosing import CrossValidation, Ebic, Stars
from jtsolve.selection.framework import OverJunctionTree, Plain, select
from jtsolve.selection.gaussian import covariance_selection, graphical_lasso, nearer
from jtsolve.selection.lasso import GraphicalLasso, NeighbourhoodSelection
from jtsolve.selection.method import Task
from jtsolve.selection.pc import PC, are_independent, thresholds
from jtsolve.selection.samples import DiscreteSample, GaussianSample
from jtsolve.selection.screens import Complete, Correlations, GivenGraph, PcScreen
from jtsolve.tables.table import ContinuousTable, DataTable
from jtsolve.verify.selection import check_selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from jtsolve.selection.method import SelectionMethod


# The theorem


def _theorem(seeds: range) -> int:
    """Checks that an oracle finds the true graph; returns how many graphs used regions below row 1."""
    deep = 0
    for seed in seeds:
        generator = np.random.default_rng(seed)
        superset, truth = random_pair(generator, int(generator.integers(5, 31)))
        over = OverJunctionTree(int(generator.integers(2, 6)) if seed % 3 == 0 else None)
        found = select(population(truth), Oracle(truth), GivenGraph(superset), over)
        assert found.graph == truth, seed
        assert check_selection(selection_to_document(found)) == (), seed
        deep += any(step.row > 1 for step in found.steps)
    return deep


def test_an_oracle_with_any_superset_finds_the_graph() -> None:
    assert _theorem(range(60)) >= 15


@pytest.mark.full
def test_an_oracle_with_any_superset_finds_the_graph_1000_times() -> None:
    assert _theorem(range(1000)) >= 250


def _correlations(graph: UndirectedGraph, strength: float, seed: int = 0) -> GaussianSample:
    """Returns the correlations of a faithful Gaussian distribution on a graph."""
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (graph.n, graph.n))
    precision = np.where(graph.matrix(), strength * np.tril(signs) + strength * np.tril(signs).T, 0.0)
    np.fill_diagonal(precision, 1.0)
    covariance = np.linalg.inv(precision)
    scale = np.sqrt(covariance.diagonal())
    return GaussianSample(graph.names, covariance / np.outer(scale, scale), 10**9)


def _trees(count: int) -> Iterator[UndirectedGraph]:
    """Yields random trees with a few triangles: one or two vertices separate any two."""
    for seed in range(count):
        generator = np.random.default_rng(seed)
        n = int(generator.integers(6, 14))
        edges = {(int(generator.integers(v)), v) for v in range(1, n)}
        edges |= {(v, v + 2) for v in range(0, n - 4, 4) if generator.random() < 0.5}
        yield UndirectedGraph.from_edges([f"x{v}" for v in range(n)], edges)


@pytest.mark.parametrize("over", [Plain(), OverJunctionTree(), OverJunctionTree(1)])
def test_algorithm_4_finds_the_graph_from_the_correlations_of_the_population(over: Any) -> None:
    for k, graph in enumerate(_trees(8)):
        found = select(_correlations(graph, 0.2, k), PC(3), Complete(), over)
        assert found.graph == graph, k


# The graphical lasso


def _data(n: int, rows: int, seed: int = 0) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(n, rows))
    for v in range(1, n):
        values[v] += 0.6 * values[v - 1] - 0.3 * values[v // 2 - 1]
    return values


def _table(n: int = 8, rows: int = 200, seed: int = 0) -> ContinuousTable:
    return ContinuousTable(tuple(f"x{v}" for v in range(n)), _data(n, rows, seed))


def _require_optimal(S: Any, penalty: Any, estimate: Any) -> None:
    """Asserts the Karush-Kuhn-Tucker conditions to 1e-6."""
    precision = estimate.precision
    assert np.linalg.eigvalsh(precision)[0] > 0
    gradient = S - np.linalg.inv(precision)
    off = ~np.eye(len(S), dtype=np.bool_)
    joined = off & (precision != 0)
    zero = off & (precision == 0) & np.isfinite(penalty)
    assert np.abs(gradient + np.where(joined, penalty, 0) * np.sign(precision))[joined].max(initial=0) < 1e-6
    assert (np.abs(gradient) - penalty)[zero].max(initial=0) < 1e-6
    assert np.abs(gradient.diagonal()).max() < 1e-6
    assert not precision[np.isinf(penalty) & off].any()


@pytest.mark.parametrize("seed", range(4))
def test_the_graphical_lasso_meets_its_optimality_conditions(seed: int) -> None:
    generator = np.random.default_rng(seed)
    S = np.cov(_data(10, 60, seed))
    penalty = generator.choice([0.0, 0.05, 0.2, np.inf], (10, 10), p=[0.2, 0.3, 0.3, 0.2])
    penalty = np.triu(penalty, 1) + np.triu(penalty, 1).T
    _require_optimal(S, penalty, graphical_lasso(S, penalty))


def test_with_fewer_rows_than_columns_a_penalty_makes_it_solvable() -> None:
    S = np.cov(_data(20, 12))
    penalty = np.full((20, 20), 0.1)
    _require_optimal(S, penalty, graphical_lasso(S, penalty))
    with pytest.raises(InputError, match="singular, and some pair has no penalty"):
        graphical_lasso(S, np.zeros((20, 20)))


def test_a_warm_start_gives_the_same_estimate() -> None:
    S = np.asarray(np.corrcoef(_data(12, 80)))
    large, small = np.full((12, 12), 0.3), np.full((12, 12), 0.1)
    start = nearer(graphical_lasso(S, large), S, 0.1 / 0.3)
    warm = graphical_lasso(S, small, start)
    _require_optimal(S, small, warm)
    assert np.allclose(warm.precision, graphical_lasso(S, small).precision, atol=1e-6)


def test_a_uniform_penalty_agrees_with_scikit_learn() -> None:
    S = np.cov(_data(10, 100))
    for level in (0.05, 0.2, 0.5):
        _, theirs = sklearn_graphical_lasso(S, level, tol=1e-8, enet_tol=1e-8, max_iter=1000)
        ours = graphical_lasso(S, np.full((10, 10), level)).precision
        assert np.allclose(ours, theirs, atol=1e-5)
        assert ((ours != 0) == (np.abs(theirs) > 1e-7)).all()


def test_covariance_selection_is_the_closed_form_on_chordal_graphs() -> None:
    table = _table(9, 100)
    tree = JunctionTree.from_families([(0, 0), *((v, 0b11 << v - 2 if v > 1 else 1) for v in range(1, 9))])
    model = fit_mixed(tree, table, ess=0.0)
    graph = UndirectedGraph.from_edges(table.names, tree.graph_edges).matrix()
    found = covariance_selection(np.cov(table.values, bias=True), graph)
    assert np.allclose(found.precision, precision_matrix(model), atol=1e-6)


def test_neighbourhood_selection_gives_the_lasso_of_scikit_learn() -> None:
    moments = GaussianSample.of(_table(6, 150))
    full = ~np.eye(6, dtype=np.bool_)
    (kept,) = NeighbourhoodSelection().walk(moments.correlation, 150, Task(full, full), [0.15])
    assert moments.values is not None
    theirs = np.zeros_like(full)
    for j in range(6):
        others = [k for k in range(6) if k != j]
        fit = Lasso(0.15, fit_intercept=False, tol=1e-10).fit(moments.values[others].T, moments.values[j])
        theirs[j, others] = fit.coef_ != 0
    assert (kept == (theirs & theirs.T)).all()


# Methods

METHODS: dict[str, SelectionMethod] = {
    "glasso": GraphicalLasso(),
    "glasso bic": GraphicalLasso(Ebic(0.0)),
    "glasso stars": GraphicalLasso(Stars(draws=5)),
    "glasso cv": GraphicalLasso(CrossValidation(3)),
    "glasso given": GraphicalLasso(0.2),
    "neighbourhood": NeighbourhoodSelection(),
    "neighbourhood stars": NeighbourhoodSelection(Stars(draws=5)),
    "pc": PC(),
    "pc ebic": PC(criterion=Ebic()),
}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_finds_strong_edges_and_does_not_depend_on_names_or_scales(name: str) -> None:
    chain = np.cumsum(np.random.default_rng(1).normal(size=(7, 400)), axis=0)
    chain /= chain.std(axis=1, keepdims=True)
    names = tuple("abcdefg")
    method = METHODS[name]
    found = select(ContinuousTable(names, chain), method, Complete())
    if "stars" not in name:  # with as few rows and edges, hardly any graph is stable
        assert {("a", "b"), ("b", "c"), ("f", "g")} <= set(found.graph.named_edges)
    assert found.graph.size < 21
    assert check_selection(selection_to_document(found)) == ()
    assert found.strengths is not None
    assert all(
        strength > 0.1
        for strength, (u, v) in zip(found.strengths, found.graph.edges, strict=True)
        if v == u + 1
    )
    scale = np.array([1e-3, 1, 5, 1e4, 2, 7, 1])[:, None]
    scaled = select(ContinuousTable(names, chain * scale + 3), method, Complete())
    assert scaled.graph == found.graph
    turned = select(ContinuousTable(names[::-1], chain[::-1]), method, Complete())
    assert turned.graph.aligned(names) == found.graph


def test_a_step_keeps_given_edges_and_decides_candidates_only() -> None:
    moments = GaussianSample.of(_table(6, 300))
    graph = ~np.eye(6, dtype=np.bool_)
    candidates = np.zeros_like(graph)
    candidates[0, 5] = candidates[5, 0] = candidates[0, 1] = candidates[1, 0] = True
    for method in METHODS.values():
        decision = method.decide(moments, Task(graph, candidates), 0)
        assert not (decision.kept & ~candidates).any()
        # With as few candidates, hardly any graph is stable.
        assert decision.kept[0, 1] or isinstance(getattr(method, "criterion", None), Stars)


def test_a_monotone_transformation_does_not_matter_to_nonparanormal_data() -> None:
    table = _table(6, 300)
    bent = ContinuousTable(table.names, np.exp(3 * table.values))
    plain = select(table, GraphicalLasso(), Complete(), margins="nonparanormal")
    other = select(bent, GraphicalLasso(), Complete(), margins="nonparanormal")
    assert plain.graph == other.graph
    assert plain.strengths == other.strengths
    assert plain.data["kind"] == "nonparanormal"


def _states(rows: int = 600) -> DataTable:
    """Returns a chain of states in which a copies to b, and b to c; d is a coin."""
    generator = np.random.default_rng(0)
    a = generator.integers(0, 3, rows)
    b = np.where(generator.random(rows) < 0.7, a, generator.integers(0, 3, rows))
    c = np.where(generator.random(rows) < 0.7, b, generator.integers(0, 3, rows))
    labels = ("0", "1", "2")
    return DataTable(tuple("abcd"), (labels,) * 4, np.array([a, b, c, generator.integers(0, 3, rows)]))


def test_tests_of_states_find_a_chain() -> None:
    table = _states()
    for over in (Plain(), OverJunctionTree()):
        for screen in (Complete(), PcScreen(0, 0.1), PcScreen()):
            found = select(table, PC(), screen, over)
            assert found.graph.named_edges == [("a", "b"), ("b", "c")]
            assert found.strengths is None


def test_a_weighted_row_counts_as_often() -> None:
    table = _states(90)
    doubled = DataTable(table.names, table.states, np.repeat(table.codes, 2, axis=1))
    weighted = DataTable(table.names, table.states, table.codes, weights=np.full(90, 2))
    assert select(doubled, PC(), Complete()).steps == select(weighted, PC(), Complete()).steps


def test_the_statistics_of_states_are_those_of_scipy() -> None:
    sample = DiscreteSample.of(_states(80))
    table = np.array(
        [[((sample.codes[0] == x) & (sample.codes[3] == y)).sum() for y in range(3)] for x in range(3)]
    )
    p = chi2_contingency(table, correction=False, lambda_="log-likelihood").pvalue
    assert are_independent(sample, 0, 3, [], p - 1e-9)
    assert not are_independent(sample, 0, 3, [], p + 1e-9)


def test_states_without_variation_in_any_stratum_are_independent() -> None:
    codes = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]])
    sample = DiscreteSample(tuple("abc"), codes, np.array([2, 2, 2]))
    assert are_independent(sample, 0, 1, [2], 0.05)


def test_fishers_z_needs_more_rows_than_columns() -> None:
    limits = thresholds(0.01, 5, 3)
    assert limits[0] < limits[1] < 1 < limits[2] == limits[3]


# Screens


def test_screens_give_supersets_of_the_selected_graph() -> None:
    table = _table(10, 300)
    plain = select(table, GraphicalLasso(), Complete(), Plain())
    for screen in (PcScreen(), Correlations(0.1)):
        found = select(table, GraphicalLasso(), screen, OverJunctionTree(3))
        assert found.superset.size < 45
        assert plain.graph.is_subgraph_of(found.superset)
        assert found.screen["name"] == screen.name
        assert found.separator_size == 3


def test_a_given_graph_need_not_have_all_columns() -> None:
    table = _table(4, 100)
    graph = UndirectedGraph.from_edges(("x1", "x0"), [(0, 1)])
    found = select(table, GraphicalLasso(), GivenGraph(graph))
    assert found.superset.named_edges == [("x0", "x1")]


def test_without_edges_in_the_superset_there_is_nothing_to_decide() -> None:
    table = _table(4, 100)
    for over in (Plain(), OverJunctionTree()):
        found = select(table, GraphicalLasso(), GivenGraph(UndirectedGraph.empty(("x0",))), over)
        assert found.steps == ()
        assert not found.graph.size
        assert found.strengths == ()


def test_progress_is_reported_and_may_end_the_selection() -> None:
    notes: list[tuple[str, float]] = []

    def heard(*, note: str | None, done: float | None, **_: object) -> None:
        notes.append((note or "", done or 0.0))
        if len(notes) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        select(_table(6), GraphicalLasso(), Complete(), OverJunctionTree(), run=ReportingRun(heard))
    assert notes[0] == ("screening", 0.0)


# Bad input


def test_columns_that_depend_on_each_other_are_refused() -> None:
    values = _data(4, 50)
    twice = np.vstack([values, -2 * values[1] + 1])
    with pytest.raises(InputError, match=r"correlation with 'e?b?.' is -1.*leave one of the two out"):
        select(ContinuousTable(tuple("abcde"), twice), GraphicalLasso(), Complete())
    summed = np.vstack([values, values[0] + values[2]])
    with pytest.raises(InputError, match="linear combination of other columns"):
        select(ContinuousTable(tuple("abcde"), summed), GraphicalLasso(), Complete())


def test_correlations_are_shrunk_where_rows_do_not_exceed_columns_and_the_step_says_so() -> None:
    table = _table(20, 15)
    for method in (GraphicalLasso(), NeighbourhoodSelection(), GraphicalLasso(CrossValidation(3))):
        (step,) = select(table, method, Complete(), Plain()).steps
        assert 0 < step.shrinkage < 1
    (step,) = select(table, PC(), Complete(), Plain()).steps
    assert not step.shrinkage


def test_strong_edges_are_found_with_fewer_rows_than_columns() -> None:
    draw = np.random.default_rng(2)
    values = draw.normal(size=(60, 40))
    values[1::2] = 0.9 * values[::2] + 0.3 * values[1::2]  # pairs
    table = ContinuousTable(tuple(f"x{v}" for v in range(60)), values)
    pairs = {(v, v + 1) for v in range(0, 60, 2)}
    for method in (GraphicalLasso(), NeighbourhoodSelection(), PC(1, criterion=Ebic())):
        found = select(table, method, Complete(), Plain())
        assert pairs <= set(found.graph.edges)
        assert found.graph.size < 36
        assert found.strengths is not None
        assert (
            min(s for s, edge in zip(found.strengths, found.graph.edges, strict=True) if edge in pairs) > 0.8
        )


def test_many_given_edges_are_shrunk_by_the_expected_error() -> None:
    moments = GaussianSample.of(_table(20, 15))
    full = ~np.eye(20, dtype=np.bool_)
    _, little = moments.regular(np.zeros_like(full))
    shrunk, share = moments.regular(full)
    assert little == 0.01 < share < 1
    assert np.linalg.eigvalsh(shrunk)[0] > 0


def test_wrong_choices_are_refused() -> None:
    states = _states(50)
    for method in (GraphicalLasso(), NeighbourhoodSelection()):
        with pytest.raises(ChoiceError, match="for numbers, not for states"):
            select(states, method, Complete())
    with pytest.raises(ChoiceError, match="needs a level"):
        select(states, PC(criterion=Ebic()), Complete())
    with pytest.raises(ChoiceError, match="for numbers"):
        select(states, PC(), Correlations(0.2))
    for make in (
        lambda: PC(-1),
        lambda: PC(criterion=1.5),
        lambda: Correlations(1.0),
        lambda: PcScreen(level=2.0),
        lambda: OverJunctionTree(-1),
        lambda: Ebic(-1.0),
        lambda: Stars(0.7),
        lambda: Stars(draws=1),
        lambda: CrossValidation(1),
        lambda: GraphicalLasso(0.0),
        lambda: NeighbourhoodSelection(criterion=float("inf")),
    ):
        with pytest.raises(ChoiceError):
            make()


def test_too_few_rows_are_refused() -> None:
    one = ContinuousTable(("a",), np.array([[1.0, 2.0]]))
    assert GaussianSample.of(one).rows == 2
    with pytest.raises(InputError, match="too few"):
        select(_table(4, 8), GraphicalLasso(CrossValidation(4)), Complete())
    rare = _data(3, 40)
    rare[0] = 0.0
    rare[0, 7] = 1.0
    with pytest.raises(InputError, match="constant on"):
        select(ContinuousTable(tuple("abc"), rare), GraphicalLasso(Stars()), Complete())


@pytest.mark.parametrize("field", ["graph", "candidates"])
def test_a_task_is_within_its_superset(field: str) -> None:
    graph = np.zeros((3, 3), dtype=np.bool_)
    outside = ~np.eye(3, dtype=np.bool_)
    with pytest.raises(InputError, match="outside the superset"):
        Task(graph, outside)
    lopsided = np.triu(outside)
    with pytest.raises(InputError, match=field):
        Task(**{"graph": outside, "candidates": graph, field: lopsided})


def _ring(n: int) -> NDArray[np.bool_]:
    return UndirectedGraph.from_edges(
        [str(v) for v in range(n)], [(v, (v + 1) % n) for v in range(n)]
    ).matrix()


def test_a_graphical_lasso_that_does_not_converge_is_an_error() -> None:
    with pytest.raises(InputError, match="does not converge in 1 sweeps"):
        graphical_lasso(np.asarray(np.corrcoef(_data(6, 100))), np.where(_ring(6), 0.0, np.inf), sweeps=1)


def test_columns_without_any_correlation_have_no_edges() -> None:
    signs = np.array([[1.0, 1, -1, -1], [1, -1, 1, -1]])
    found = select(ContinuousTable(("a", "b"), signs), GraphicalLasso(), Complete())
    assert not found.graph.size
