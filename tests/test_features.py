"""Feature trees: valid by construction, and every query equals the enumerated distribution."""

from __future__ import annotations

import copy
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_features import random_features
from random_models import columns_for, random_model

from jtsolve.errors import ChoiceError, InputError, LimitError
from jtsolve.models.features.context import Context, Literal, feature_of
from jtsolve.models.features.nodes import Node, Product, Split, TableLeaf, TreeLeaf
from jtsolve.models.features.tree import FeatureTree
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.models.columns import Column

SEEDS = range(120)


def all_rows(columns: tuple[Column, ...]) -> NDArray[np.int32]:
    return np.indices([column.arity for column in columns]).reshape(len(columns), -1).astype(np.int32)


def joint(tree: FeatureTree) -> NDArray[np.float64]:
    dims = [column.arity for column in tree.columns]
    return np.exp(tree.log_likelihood(all_rows(tree.columns))).reshape(dims)


def defined(tree: FeatureTree) -> NDArray[np.float64]:
    """Returns the joint distribution by definition: the product along the paths of each row."""

    def value(i: int, row: NDArray[np.int32]) -> float:
        node, context = tree.nodes[i], tree.contexts[i]
        if isinstance(node, Split):
            holds = all(row[v] == state for v, state in node.feature)
            return (node.probability if holds else 1 - node.probability) * value(node.kids[holds], row)
        if isinstance(node, Product):
            return prod(value(kid, row) for kid in node.kids)
        if not all(row[v] in context.allowed(v) for v in node.variables):
            return 0.0
        codes = [context.allowed(v).index(row[v]) for v in node.variables]
        if isinstance(node, TableLeaf):
            return float(node.values[tuple(codes)])
        return float(np.exp(node.model.log_likelihood(np.array(codes)[:, None])[0]))

    rows = all_rows(tree.columns)
    return np.array([value(0, row) for row in rows.T]).reshape([column.arity for column in tree.columns])


def summed(table: NDArray[np.float64], kept: list[int]) -> NDArray[np.float64]:
    """Returns the marginal on some axes, in their order."""
    left = table.sum(axis=tuple(v for v in range(table.ndim) if v not in kept))
    return np.transpose(left, [sorted(kept).index(v) for v in kept])


@pytest.mark.parametrize("seed", SEEDS)
def test_every_query_equals_the_enumerated_distribution(seed: int) -> None:
    tree = random_features(seed)
    P = joint(tree)
    assert abs(P.sum() - 1) < 1e-12
    assert np.allclose(P, defined(tree), atol=1e-12, rtol=0)
    for v, table in enumerate(tree.marginals()):
        assert np.allclose(table, summed(P, [v]), atol=1e-9, rtol=0)
    assert tree.entropy() == pytest.approx(-(P[P > 0] @ np.log(P[P > 0])), abs=1e-9)
    generator = np.random.default_rng(seed)
    wanted = generator.permutation(tree.n)[: generator.integers(1, 4)].tolist()
    found = tree.marginal([tree.names[v] for v in wanted])
    assert np.allclose(found, summed(P, wanted), atol=1e-9, rtol=0)
    k = int(generator.integers(1, 8))
    best, _ = tree.explain({}, k)
    assert np.allclose(
        [one.log_probability for one in best], np.log(np.sort(P[P > 0])[::-1][:k]), atol=1e-9, rtol=0
    )
    places = [tuple(c.code(s) for c, s in zip(tree.columns, one.values, strict=True)) for one in best]
    assert len(set(places)) == len(best)
    assert np.allclose([P[at] for at in places], np.exp([one.log_probability for one in best]))


@pytest.mark.parametrize("seed", SEEDS[:60])
def test_hard_and_soft_evidence_give_the_posterior(seed: int) -> None:
    tree = random_features(seed)
    P = joint(tree)
    generator = np.random.default_rng(seed)
    weights: dict[int, NDArray[np.float64]] = {}
    evidence: dict[str, str | list[float]] = {}
    for v in generator.permutation(tree.n)[:2].tolist():
        column = tree.columns[v]
        if weights:
            state = int(np.argmax(summed(P, [v])))
            evidence[column.name], weights[v] = column.states[state], np.eye(column.arity)[state]
        else:
            weights[v] = generator.random(column.arity)
            evidence[column.name] = weights[v].tolist()
    posterior = P.copy()
    for v, weight in weights.items():
        posterior *= weight.reshape([-1 if u == v else 1 for u in range(tree.n)])
    if posterior.sum() == 0:
        with pytest.raises(InputError, match="impossible"):
            tree.condition(evidence)
        return
    found = tree.condition(evidence)
    assert found.log_probability == pytest.approx(np.log(posterior.sum()), abs=1e-9)
    assert np.allclose(joint(found.model), posterior / posterior.sum(), atol=1e-9, rtol=0)
    assert tree.condition({}).model is tree


@pytest.mark.parametrize("seed", range(20))
def test_rows_with_gaps_sum_them_out(seed: int) -> None:
    tree = random_features(seed)
    P = joint(tree)
    generator = np.random.default_rng(seed)
    rows = all_rows(tree.columns)[:, generator.integers(0, P.size, 20)]
    rows[generator.random(rows.shape) < 0.4] = -1
    found = np.exp(tree.log_likelihood(rows))
    expected = [P[tuple(code if code >= 0 else slice(None) for code in row)].sum() for row in rows.T]
    assert np.allclose(found, expected, atol=1e-12, rtol=0)
    table = DataTable(tree.names, tuple(c.states for c in tree.columns), all_rows(tree.columns))
    assert np.array_equal(np.exp(tree.log_likelihood(table)).reshape(P.shape), P)


@pytest.mark.parametrize("seed", range(8))
def test_samples_have_the_right_frequencies_and_depend_on_the_seed_only(seed: int) -> None:
    tree = random_features(seed, 4)
    P = joint(tree)
    rows = tree.sample(4000, seed)
    assert np.array_equal(rows, tree.sample(4000, seed))
    found = np.bincount(np.ravel_multi_index(tuple(rows), P.shape), minlength=P.size) / 4000
    assert np.abs(found - P.ravel()).max() < 0.05
    assert (P.ravel()[found > 0] > 0).all()


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_a_feature_tree_is_a_junction_tree(seed: int) -> None:
    tree = random_features(seed)
    whole = tree.junction_tree("a test")
    logs = whole.log_likelihood(all_rows(tree.columns))
    assert np.allclose(np.exp(logs), joint(tree).ravel(), atol=1e-9, rtol=0)


BINARY = columns_for([2, 2, 2])
HALF = np.full(2, 0.5)
ONE = TableLeaf((2,), HALF)


def split(literals: tuple[tuple[int, int], ...], probability: float, kids: tuple[int, int]) -> Split:
    return Split(tuple(Literal(*literal) for literal in literals), probability, kids)


def feature_tree(*nodes: Node, columns: tuple[Column, ...] = BINARY) -> FeatureTree:
    return FeatureTree(columns, nodes)


def table(variables: tuple[int, ...], *dims: int) -> TableLeaf:
    return TableLeaf(variables, np.full(dims, 1 / prod(dims)))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((), "no node"),
        (
            (split(((0, 0),), 1.5, (1, 2)), table((1, 2), 2, 2), table((1, 2), 2, 2)),
            r"node 0 \(the root\).*1.5",
        ),
        ((split(((0, 0),), 0.5, (0, 1)), table((1, 2), 2, 2)), "not later nodes"),
        ((table((0, 1), 2, 2),), "leaves .0, 1, 2. open"),
        ((table((0, 1, 2), 2, 2, 1),), "shape"),
        ((TableLeaf((0, 1, 2), np.full((2, 2, 2), 0.25)),), "sums to 2"),
        ((TableLeaf((0, 1, 2), np.full((2, 2, 2), np.nan)),), "not a probability"),
        ((Product((1, 2)), table((0, 1), 2, 2), table((1, 2), 2, 2)), "share a variable"),
        ((Product((1,)), table((0, 1), 2, 2)), r"no part holds the variables \[2\]"),
        ((table((0, 1, 2), 2, 2, 2), table((0, 1, 2), 2, 2, 2)), "node 1: no node leads to it"),
        (
            (split(((0, 0),), 0.5, (1, 2)), split(((0, 0),), 0.5, (3, 4)), *[table((1, 2), 2, 2)] * 3),
            "decides already",
        ),
        ((split(((0, 0), (1, 0)), 0.5, (1, 1)), TableLeaf((2,), HALF)), "leads to it, too"),
        (
            (split(((0, 0), (1, 0)), 0.5, (1, 2)), table((0, 1, 2), 2, 2, 2), ONE),
            r"node 1 \(the root, \[0=0\] ∧ \[1=0\] fails\).*a clause forbids",
        ),
    ],
)
def test_an_invalid_distribution_is_refused_with_the_path(nodes: tuple[Node, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        feature_tree(*nodes)


def test_a_clause_must_not_straddle_two_parts() -> None:
    # LEM as printed would give (2 + a)(2 + b) / 3 here, but the sum over the four assignments is 1 + a + b.
    clause = split(((0, 1), (1, 1)), 0.5, (1, 2))
    with pytest.raises(ValueError, match="a clause ties them together"):
        feature_tree(clause, Product((3, 4, 5)), ONE, TableLeaf((0,), HALF), TableLeaf((1,), HALF), ONE)


def test_a_junction_tree_leaf_has_the_states_left_and_no_clause() -> None:
    model = random_model(1, 3)
    leaf = TreeLeaf((0, 1, 2), model)
    with pytest.raises(ValueError, match="not the open variables"):
        feature_tree(leaf, columns=columns_for([4, 4, 4]))
    columns = columns_for([2, 2])
    two = random_model(3, 2)
    bound = (split(((0, 0), (1, 0)), 0.5, (1, 2)), TreeLeaf((0, 1), two), Product(()))
    with pytest.raises(ValueError, match="cannot represent"):
        feature_tree(*bound, columns=columns)


def test_columns_need_distinct_names() -> None:
    with pytest.raises(ValueError, match="same name"):
        feature_tree(table((0, 1), 2, 2), columns=(BINARY[0], BINARY[0]))


def test_units_propagate_and_met_clauses_go() -> None:
    context = Context.of([2, 2, 3, 2])
    both = feature_of([(0, 1), (1, 1)])
    context, fixed = context.assume(both, holds=False)
    assert context.clauses == {both}
    assert fixed == ()
    after, fixed = context.assume(feature_of([(0, 1)]), holds=True)
    assert fixed == ((0, 1), (1, 0))
    assert after == Context({2: 7, 3: 3})
    after, fixed = context.assume(feature_of([(0, 1)]), holds=False)
    assert fixed == ((0, 0),)
    assert not after.clauses
    assert context.groups() == [{0, 1}, {2}, {3}]
    context, _ = Context.of([2, 2]).assume(feature_of([(0, 0), (1, 0)]), holds=False)
    context, _ = context.assume(feature_of([(0, 1), (1, 0)]), holds=False)
    with pytest.raises(ValueError, match="no assignment remains"):
        context.assume(feature_of([(1, 0)]), holds=True)


@given(st.integers(0, 10**6))
def test_contexts_agree_with_the_enumerated_assignments(seed: int) -> None:
    generator = np.random.default_rng(seed)
    arities = generator.integers(1, 4, 5)
    rows = np.indices(arities.tolist()).reshape(5, -1).T
    context = Context.of(arities.tolist())
    for _ in range(3):
        if not context.domains:
            break
        size = int(generator.integers(1, min(3, len(context.domains)) + 1))
        chosen = generator.permutation(sorted(context.domains))[:size].tolist()
        feature = feature_of((v, int(generator.choice(context.allowed(v)))) for v in chosen)
        holds = bool(generator.integers(2))
        met = np.all([rows[:, v] == state for v, state in feature], axis=0) == holds
        try:
            context, fixed = context.assume(feature, holds=holds)
        except ValueError:
            assert not met.any() or len(context.clauses)  # propagation finds some contradictions, not all
            return
        rows = rows[met]
        assert all((rows[:, v] == state).all() for v, state in fixed)
    variables = sorted(context.domains)
    assert context.is_allowed(variables).sum() == len(rows)


@pytest.mark.parametrize("feature", [[], [(0, 0), (0, 1)]])
def test_features_need_distinct_variables(feature: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="distinct variables"):
        feature_of(feature)


def test_wrong_questions_are_refused() -> None:
    tree = random_features(5, 4)
    with pytest.raises(ChoiceError, match="1 or more"):
        tree.explain({}, 0)
    with pytest.raises(ChoiceError, match="0 or more"):
        tree.sample(-1)
    with pytest.raises(InputError, match="named twice"):
        tree.marginal(["V0", "V0"])
    with pytest.raises(LimitError, match="cells"):
        tree.marginal(tree.names, most_cells=1)
    with pytest.raises(LimitError, match="fit a junction tree"):
        tree.junction_tree("a test", most_cells=1)
    with pytest.raises(InputError, match="there is no 'X'"):
        tree.condition({"X": "s0"})


def test_copies_are_equal_distributions() -> None:
    tree = random_features(7)
    again = copy.deepcopy(tree)
    assert np.array_equal(joint(again), joint(tree))
    assert repr(again) == repr(tree)
    assert (again.a_nodes, again.cells) == (tree.a_nodes, tree.cells)


def test_short_features_reach_a_high_treewidth() -> None:
    nodes = (
        split(((0, 1), (1, 1)), 0.3, (1, 2)),
        TableLeaf((0, 1, 2, 3, 4), _without_corner()),
        Product((3, 4)),
        table((2, 3), 2, 2),
        TableLeaf((4,), HALF),
    )
    tree = feature_tree(*nodes, columns=columns_for([2] * 5))
    assert tree.a_nodes == 3
    assert tree.junction_tree("a test").tree.treewidth == 4


def _without_corner() -> NDArray[np.float64]:
    values = np.ones((2,) * 5)
    values[1, 1] = 0
    values /= values.sum()
    return values
