"""Queries: each agrees with summation over all configurations, on random models; and clear refusals."""

from __future__ import annotations

from itertools import combinations
from math import inf, log
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from problems import repeatable
from random_models import brute, chain, columns_for, models, projected, random_model, random_tree

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members
from jtsolve.errors import ChoiceError, InputError, LimitError
from jtsolve.models.inference.evidence import likelihoods
from jtsolve.models.inference.information import across_separators
from jtsolve.models.inference.likelihood import forest_rows
from jtsolve.models.inference.mixed import log_densities
from jtsolve.models.messages import families, propagate
from jtsolve.models.model import JunctionTreeModel

SEEDS = range(200)


def summed(joint: np.ndarray, kept: tuple[int, ...]) -> np.ndarray:
    """The marginal of variables, in the order given."""
    table = joint.sum(axis=tuple(set(range(joint.ndim)) - set(kept)))
    return np.transpose(table, [sorted(kept).index(v) for v in kept])


def evidence_of(model: JunctionTreeModel, seed: int) -> tuple[dict[str, str | list[float]], np.ndarray]:
    """Random evidence, hard and soft, and its likelihood for every configuration."""
    generator = np.random.default_rng(seed + 1000)
    weights = np.ones([column.arity for column in model.columns])
    evidence: dict[str, str | list[float]] = {}
    for v, column in enumerate(model.columns):
        kind = generator.integers(4)
        if kind == 0:
            code = int(generator.integers(column.arity))
            evidence[column.name] = column.states[code]
            likelihood = np.eye(column.arity)[code]
        elif kind == 1:
            likelihood = generator.random(column.arity) * 3
            evidence[column.name] = likelihood.tolist()
        else:
            continue
        weights = weights * likelihood.reshape([-1 if u == v else 1 for u in range(model.n)])
    return evidence, weights


@pytest.mark.parametrize("seed", SEEDS)
def test_marginals_given_evidence_agree_with_brute_force(seed: int) -> None:
    model = random_model(seed)
    evidence, weights = evidence_of(model, seed)
    joint = brute(model) * weights
    total = joint.sum()
    if total == 0:
        with pytest.raises(InputError, match="impossible"):
            model.condition(evidence)
        return
    given_evidence = model.condition(evidence)
    assert given_evidence.log_probability == pytest.approx(log(total), abs=1e-12)
    posterior = joint / total
    for v, found in enumerate(given_evidence.model.marginals()):
        np.testing.assert_allclose(found, summed(posterior, (v,)), atol=1e-12, rtol=1e-12)
    random = repeatable(seed)
    for size in range(1, min(4, model.n) + 1):
        kept = tuple(random.sample(range(model.n), size))
        found = given_evidence.model.marginal([model.names[v] for v in kept])
        np.testing.assert_allclose(found, summed(posterior, kept), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_entropy_divergence_and_best_configurations_agree_with_brute_force(seed: int) -> None:
    model = random_model(seed)
    joint = brute(model)
    logs = np.log(joint, out=np.full(joint.shape, -inf), where=joint > 0)
    assert model.entropy() == pytest.approx(-(joint[joint > 0] * logs[joint > 0]).sum(), abs=1e-12)

    found = model.explain({}, 7).best
    order = np.sort(logs.ravel())[::-1]
    expected = order[order > -inf][:7]
    np.testing.assert_allclose([best.log_probability for best in found], expected, rtol=1e-12, atol=1e-12)
    assert len({best.values for best in found}) == len(found)
    for best in found:
        codes = tuple(column.code(state) for column, state in zip(model.columns, best.values, strict=True))
        assert logs[codes] == pytest.approx(best.log_probability, abs=1e-12)


@given(models())
@settings(deadline=None, max_examples=60)
def test_queries_agree_with_brute_force_where_there_are_ties_and_zeros(model: JunctionTreeModel) -> None:
    joint = brute(model)
    for pair in combinations(range(model.n), min(2, model.n)):
        found = model.marginal([model.names[v] for v in pair])
        np.testing.assert_allclose(found, summed(joint, pair), atol=1e-12)
    ranked = np.sort(joint.ravel())[::-1]
    best = model.explain({}, 3).best
    np.testing.assert_allclose(np.exp([b.log_probability for b in best]), ranked[ranked > 0][:3], rtol=1e-12)
    for column, single in zip(model.columns, model.marginals(), strict=True):
        for state, probability in zip(column.states, single, strict=True):
            if probability > 0:
                given_state = model.condition({column.name: state})
                assert given_state.log_probability == pytest.approx(log(probability), abs=1e-12)
            else:
                with pytest.raises(InputError, match="probability 0"):
                    model.condition({column.name: state})


@pytest.mark.parametrize("seed", range(30))
def test_the_information_across_a_separator_agrees_with_brute_force(seed: int) -> None:
    model = random_model(seed)
    joint = brute(model)

    def information(table: np.ndarray) -> float:
        return -float((table[table > 0] * np.log(table[table > 0])).sum())

    passed = across_separators(model.tree, model.tables)
    for (i, j), separator, found in zip(model.tree.edges, model.tree.separators, passed, strict=True):
        left, right = (tuple(members(model.tree.cliques[c] & ~separator)) for c in (i, j))
        both = information(summed(joint, left)) + information(summed(joint, right))
        assert found.neighbours == pytest.approx(both - information(summed(joint, left + right)), abs=1e-12)
        assert found.separator == pytest.approx(
            information(summed(joint, tuple(members(separator)))), abs=1e-12
        )
    assert all(
        entry.neighbours is None for entry in across_separators(model.tree, model.tables, most_cells=0)
    )


@pytest.mark.parametrize("seed", range(12))
def test_samples_have_the_frequencies_of_the_model(seed: int) -> None:
    model = random_model(seed)
    rows = model.sample(40_000, seed)
    joint = brute(model)
    counts = np.bincount(np.ravel_multi_index(tuple(rows), joint.shape), minlength=joint.size)
    assert (counts[joint.ravel() == 0] == 0).all()
    # Five standard deviations of each cell: a right sampler fails once in a million cells.
    slack = 5 * np.sqrt(40_000 * joint.ravel() * (1 - joint.ravel())) + 3
    assert (np.abs(counts - 40_000 * joint.ravel()) <= slack).all()


def test_a_seed_repeats_the_samples_and_evidence_holds_in_all_of_them() -> None:
    model = random_model(5)
    assert (model.sample(50_000, 3) == model.sample(50_000, 3)).all()
    assert (model.sample(50, 3) != model.sample(50, 4)).any()
    state = model.columns[0].states[0]
    posterior = model.condition({model.names[0]: state}).model
    assert (posterior.sample(500)[0] == 0).all()
    assert model.sample(0).shape == (model.n, 0)
    with pytest.raises(ChoiceError, match="0 or more"):
        model.sample(-1)
    with pytest.raises(LimitError, match="fewer rows"):
        model.sample(10**15)


def test_evidence_that_is_impossible_together_is_distinguished_from_evidence_impossible_alone() -> None:
    joint = np.array([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]])
    model = projected(joint, JunctionTree(2, (0b11,), ()))
    with pytest.raises(InputError, match="singly, but impossible together"):
        model.condition({"V0": "s0", "V1": "s1"})
    with pytest.raises(InputError, match="V1 = s2 is impossible"):
        model.condition({"V0": "s0", "V1": "s2"})
    with pytest.raises(InputError, match="impossible"):
        model.condition({"V0": [0, 0]})


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"X": "s0"}, "there is no 'X'"),
        ({"V0": "s9"}, "no state 's9'"),
        ({"V0": [1.0]}, "needs 2 finite non-negative numbers"),
        ({"V0": ["x", "y"]}, "needs 2 finite non-negative numbers"),
        ({"V0": [1.0, -1.0]}, "needs 2 finite non-negative numbers"),
        ({"V0": [1.0, inf]}, "needs 2 finite non-negative numbers"),
    ],
)
def test_invalid_evidence_is_refused(evidence: dict[str, str | list[float]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        chain(3).condition(evidence)


def test_no_evidence_changes_nothing() -> None:
    model = chain(3)
    assert model.condition({}).model is model


def test_a_marginal_that_is_too_large_is_refused_with_its_size() -> None:
    model = chain(60)
    with pytest.raises(LimitError, match=r"1\.15e\+18 cells"):
        model.marginal(model.names)
    with pytest.raises(InputError, match="named twice"):
        model.marginal(["V0", "V0"])
    with pytest.raises(InputError, match="there are none"):
        model.marginal([])


def test_the_ends_of_a_chain_have_the_product_of_its_transitions() -> None:
    model = chain(40, 3)
    product = np.diag(model.tables[0].sum(axis=1))
    for table in model.tables:
        product = product @ (table / table.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(model.marginal(["V0", "V39"]), product, atol=1e-15)


def test_a_star_of_a_thousand_small_likelihoods_does_not_underflow() -> None:
    leaves = 1000
    tree = JunctionTree(
        leaves + 1, tuple(1 | 1 << v for v in range(1, leaves + 1)), tuple((0, i) for i in range(1, leaves))
    )
    table = np.array([[0.45, 0.05], [0.05, 0.45]])
    model = JunctionTreeModel(columns_for([2] * (leaves + 1)), tree, (table,) * leaves)
    evidence = {f"V{v}": f"s{v % 2}" for v in range(1, leaves + 1)}
    found = model.condition(evidence)
    assert found.log_probability == pytest.approx(500 * (log(0.1) + log(0.9)), rel=1e-12)
    np.testing.assert_allclose(found.model.marginals()[0], [0.5, 0.5], atol=1e-10)


def test_fewer_than_one_best_configuration_is_refused_and_lists_beyond_memory_too() -> None:
    with pytest.raises(ChoiceError, match="1 or more"):
        chain(3).explain({}, 0)
    with pytest.raises(LimitError, match="a smaller k"):
        chain(3).explain({}, 10**9)


def test_all_configurations_of_a_model_are_listed_if_so_many_are_requested() -> None:
    model = random_model(8, 4, zeros=False)
    found = model.explain({}, 10_000).best
    assert len(found) == brute(model).size
    assert sum(np.exp(best.log_probability) for best in found) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(60))
def test_matrix_products_give_the_rows_of_forests_as_messages_one_by_one(seed: int) -> None:
    random, generator = Random(seed), np.random.default_rng(seed)  # noqa: S311 - not for secrets
    arities = [random.choice((1, 2, 3, 5)) for _ in range(random.randint(1, 5))]
    joint = generator.random(arities)
    if seed % 3 == 0:
        joint[generator.random(arities) < 0.4] = 0
        joint.flat[0] += 1e-3
    model = projected(joint / joint.sum(), random_tree(len(arities), 1, random))
    codes = np.array([generator.integers(-1, arity, 50) for arity in arities], dtype=np.int32)
    expected = log_densities(model.cliques, np.where(codes < 0, np.nan, codes))
    assert model.log_likelihood(codes) == pytest.approx(expected)
    found = forest_rows(model.layout, model.families, codes)
    known = ~np.isnan(found)
    assert known.all() or seed % 3 == 0
    assert found[known] == pytest.approx(expected[known])


def with_independent(model: JunctionTreeModel, arities: tuple[int, ...]) -> JunctionTreeModel:
    """Returns a model with further variables, independent and uniform."""
    count, tree = len(model.tree.cliques), model.tree
    wider = JunctionTree(
        tree.n + len(arities),
        (*tree.cliques, *(1 << tree.n + i for i in range(len(arities)))),
        (*tree.edges, *((0, count + i) for i in range(len(arities)))),
    )
    columns = columns_for([*(column.arity for column in model.columns), *arities])
    return JunctionTreeModel(columns, wider, (*model.tables, *(np.full(k, 1 / k) for k in arities)))


@pytest.mark.parametrize("seed", range(40))
def test_messages_by_levels_and_by_cliques_agree(seed: int) -> None:
    model = random_model(seed, 6)
    evidence, _ = evidence_of(model, seed)
    found = []
    for more in ((2,) * 20, (10_000,)):  # many small cliques, and one with most cells
        joint = with_independent(model, more)
        layout = joint.layout
        logs, disagreement = families(joint.values, layout)
        assert disagreement < 1e-12
        for v, weight in likelihoods(model.columns, evidence).items():
            table = layout.table(logs, layout.home[v])
            with np.errstate(divide="ignore"):
                table += np.log(weight).reshape([-1 if u == v else 1 for u in layout.cliques[layout.home[v]]])
        total = propagate(logs, layout)
        tables = {clique: layout.table(logs, place).copy() for place, clique in enumerate(layout.cliques)}
        found.append((total, tables))
    (total, by_levels), (other, by_cliques) = found
    assert total == pytest.approx(other, abs=1e-12)
    if total > -inf:
        for clique in (clique for clique in by_levels if max(clique) < model.n):
            assert np.exp(by_levels[clique]) == pytest.approx(np.exp(by_cliques[clique]), abs=1e-12)


def test_messages_too_far_apart_for_numbers_are_added_in_logarithms() -> None:
    # Half of the leaves support one state of the hub, 1,000 to 1 each, the other half the other one.
    leaves = 3000
    tree = JunctionTree(
        leaves + 1, tuple(1 | 2 << i for i in range(leaves)), tuple((0, i) for i in range(1, leaves))
    )
    table = np.array([[0.4995, 0.0005], [0.0005, 0.4995]])
    model = JunctionTreeModel(columns_for([2] * (leaves + 1)), tree, (table,) * leaves)
    row = np.repeat([-1, 0, 1], [1, leaves // 2, leaves // 2])[:, None]
    assert np.isnan(forest_rows(model.layout, model.families, row)).all()
    assert model.log_likelihood(row)[0] == pytest.approx(leaves / 2 * (log(0.999) + log(0.001)))


@pytest.mark.parametrize("seed", [3, 6])  # of treewidth 2, with zeros
def test_rows_with_gaps_in_numpy_and_in_the_kernel_agree(seed: int) -> None:
    model, generator = random_model(seed, 6), np.random.default_rng(seed)
    codes = np.array([generator.integers(-1, column.arity, 200) for column in model.columns])
    many = np.tile(codes, 200)
    assert model.log_likelihood(many)[:200] == pytest.approx(model.log_likelihood(codes))
