"""Models fitted to data: tables, priors, weights, log-likelihoods of rows with and without gaps, coding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from fitting import fit, fitted
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import repeatable
from random_models import brute, chain, columns_for, models, random_model, random_tree
from readers import read_states

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members
from jtsolve.errors import ChoiceError, InputError, LimitError
from jtsolve.models.columns import Column, codes_of, columns_of, position
from jtsolve.models.layout import table_layout
from jtsolve.models.learning.fit import count
from jtsolve.models.learning.tree import Tree, by_prior
from jtsolve.models.learning.validation import PRIORS, likeliest
from jtsolve.models.model import JunctionTreeModel
from jtsolve.models.rows import read_rows
from jtsolve.tables.options import Coding, Dialect, Discretisation, Habits
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from pathlib import Path

PAIR = JunctionTree(2, (0b11,), ())
APART = JunctionTree(
    2,
    (
        0b01,
        0b10,
    ),
    ((0, 1),),
)


def random_table(seed: int, n: int, rows: int) -> DataTable:
    generator = np.random.default_rng(seed)
    arities = generator.integers(1, 4, n)
    codes = np.array([generator.integers(0, arity, rows) for arity in arities])
    columns = columns_for(arities.tolist())
    return DataTable(tuple(c.name for c in columns), tuple(c.states for c in columns), codes)


def all_rows(model: JunctionTreeModel) -> np.ndarray:
    return np.indices([column.arity for column in model.columns]).reshape(model.n, -1)


@pytest.mark.parametrize("seed", range(40))
def test_log_likelihoods_of_all_configurations_are_those_by_definition(seed: int) -> None:
    model = random_model(seed)
    found = np.exp(model.log_likelihood(all_rows(model)))
    np.testing.assert_allclose(found, brute(model).ravel(), rtol=1e-12, atol=1e-300)
    assert found.sum() == pytest.approx(1, abs=1e-12)


@given(models())
@settings(deadline=None, max_examples=60)
def test_probabilities_of_all_configurations_sum_to_one(model: JunctionTreeModel) -> None:
    found = np.exp(model.log_likelihood(all_rows(model)))
    np.testing.assert_allclose(found, brute(model).ravel(), rtol=1e-12, atol=1e-15)
    assert found.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_gaps_are_summed_over(seed: int) -> None:
    model = random_model(seed)
    generator = np.random.default_rng(seed)
    joint = brute(model)
    rows = all_rows(model)[:, generator.integers(0, joint.size, 40)]
    rows = np.where(generator.random(rows.shape) < 0.4, -1, rows)
    for found, row in zip(np.exp(model.log_likelihood(rows)), rows.T, strict=True):
        seen = tuple(slice(None) if state < 0 else state for state in row)
        assert found == pytest.approx(joint[seen].sum(), rel=1e-12, abs=1e-300)


def test_a_row_of_gaps_has_probability_one_in_a_tree_of_a_thousand_variables() -> None:
    model = chain(1000)
    rows = np.full((1000, 2), -1)
    rows[3, 1] = 1
    whole, one = model.log_likelihood(rows)
    assert whole == pytest.approx(0, abs=1e-10)
    assert np.exp(one) == pytest.approx(model.tables[3][1].sum(), rel=1e-12)


def test_a_thousand_gaps_of_small_probability_do_not_underflow() -> None:
    features = 1000
    tree = JunctionTree(
        features + 1,
        tuple(1 | 1 << v for v in range(1, features + 1)),
        tuple((0, i) for i in range(1, features)),
    )
    table = np.array([[0.45, 0.05], [0.05, 0.45]])
    model = JunctionTreeModel(columns_for([2] * (features + 1)), tree, (table,) * features)
    rows = np.array([[-1, *([0, 1] * (features // 2))]]).T
    expected = np.log(0.5) + features / 2 * (np.log(0.1) + np.log(0.9)) + np.log(2)
    assert model.log_likelihood(rows)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_maximum_likelihood_tables_are_relative_frequencies(seed: int) -> None:
    table = random_table(seed, 6, 50)
    tree = random_tree(6, 2, repeatable(seed))
    model = fit(tree, table, ess=0)
    for clique, found in zip(tree.cliques, model.tables, strict=True):
        for cell in np.ndindex(found.shape):
            equal = np.all([table.codes[v] == s for v, s in zip(members(clique), cell, strict=True)], axis=0)
            assert found[cell] == equal.mean()


@pytest.mark.parametrize("ess", [0.5, 1.0, 20.0])
def test_a_prior_adds_its_equivalent_sample_size_spread_over_the_cells(ess: float) -> None:
    table = DataTable(("a", "b"), (("x", "y"), ("u", "v")), np.array([[0, 0, 1], [0, 1, 1]]))
    found = fit(PAIR, table, ess=ess).tables[0]
    np.testing.assert_allclose(found, (np.array([[1, 1], [0, 1]]) + ess / 4) / (3 + ess), rtol=1e-15)


@pytest.mark.parametrize("seed", range(10))
def test_weights_count_as_repeated_rows(seed: int) -> None:
    table = random_table(seed, 5, 12)
    times = np.random.default_rng(seed).integers(0, 4, 12)
    times[0] = 2
    tree = random_tree(5, 2, repeatable(seed))
    repeated = DataTable(table.names, table.states, np.repeat(table.codes, times, axis=1))
    by_argument = fit(tree, table, weights=times)
    kept = times > 0
    by_table = fit(tree, DataTable(table.names, table.states, table.codes[:, kept], times[kept]))
    halved = fit(tree, by_table_of(table, kept, times), weights=np.full(kept.sum(), 0.5), ess=0.5)
    for other in (by_argument, by_table, halved):
        np.testing.assert_allclose(other.values, fit(tree, repeated).values, rtol=1e-13)


def by_table_of(table: DataTable, kept: np.ndarray, times: np.ndarray) -> DataTable:
    return DataTable(table.names, table.states, table.codes[:, kept], times[kept])


def test_the_prior_is_chosen_under_which_the_validation_rows_are_likeliest() -> None:
    table, validation = random_table(1, 4, 15), random_table(1, 4, 15)
    table = DataTable(table.names, table.states, table.codes)
    tree = random_tree(4, 3, repeatable(5))
    rows = random_table(1, 4, 60).codes[:, 15:]
    validation = DataTable(table.names, table.states, rows)
    chosen = fitted(Tree(), table, validation, tree=tree)
    means = {
        ess: fit(tree, table, ess=ess).log_likelihood(validation).mean() for ess in (0.1, 1.0, 10.0, 100.0)
    }
    assert chosen.log_likelihood(validation).mean() >= max(means.values())
    assert chosen.provenance["validation_log_likelihood"] == pytest.approx(
        chosen.log_likelihood(validation).mean(), rel=1e-12
    )
    assert chosen.provenance["smoothing_ess"] in chosen.provenance["smoothing_candidates"]


def test_of_equally_good_priors_the_smallest_is_taken_and_weights_of_validation_rows_count() -> None:
    table = DataTable(("a",), (("x", "y"),), np.array([[0, 1]]))
    weighted = DataTable(("a",), (("x", "y"),), np.array([[0, 1]]), np.array([9, 1]))
    single = JunctionTree(1, (1,), ())

    def prior(train: DataTable, rows: DataTable) -> float:
        model, _ = likeliest(map(by_prior(single, train), PRIORS), rows, rows.weights)
        return float(model.provenance["smoothing_ess"])

    assert prior(table, table) == PRIORS[0]
    skewed = DataTable(("a",), (("x", "y"),), np.array([[0] * 9 + [1]]))
    assert prior(skewed, table) == PRIORS[-1]
    assert prior(skewed, weighted) == PRIORS[0]


def test_free_parameters_are_counted_once() -> None:
    assert chain(4, 3).parameters == 2 + 3 * 3 * 2
    assert fit(APART, random_table(0, 2, 5)).parameters == sum(
        len(s) - 1 for s in random_table(0, 2, 5).states
    )


@pytest.mark.parametrize("ess", [-1.0, float("nan"), float("inf")])
def test_an_invalid_sample_size_is_refused(ess: float) -> None:
    with pytest.raises(ChoiceError, match="0 or more"):
        fit(PAIR, random_table(0, 2, 5), ess=ess)


def test_no_weight_and_no_prior_is_refused_and_a_prior_alone_is_uniform() -> None:
    table = random_table(3, 2, 4)
    with pytest.raises(ChoiceError, match="no row has a positive weight"):
        fit(PAIR, table, ess=0, weights=np.zeros(4))
    found = fit(PAIR, table, ess=2, weights=np.zeros(4)).tables[0]
    assert np.ptp(found) == 0


@pytest.mark.parametrize("weights", [[1.0, 2.0], [1.0, np.nan, 1.0, 1.0], [1.0, -1.0, 1.0, 1.0]])
def test_invalid_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(InputError, match="4 finite non-negative numbers"):
        fit(PAIR, random_table(3, 2, 4), weights=weights)


def test_a_tree_of_another_table_is_refused() -> None:
    with pytest.raises(InputError, match="2 variables, but the table has 3"):
        count(PAIR, random_table(0, 3, 4))


def test_tables_beyond_the_memory_are_refused_with_their_size() -> None:
    with pytest.raises(LimitError, match="GB of memory"):
        table_layout(JunctionTree(40, ((1 << 40) - 1,), ()), (9,) * 40)
    with pytest.raises(ValueError, match="2 variables"):
        table_layout(PAIR, (2,))


GOOD = np.full((2, 2), 0.25)


@pytest.mark.parametrize(
    ("columns", "tree", "tables", "message"),
    [
        (columns_for([2, 2]), PAIR, (), "as many tables"),
        (columns_for([2, 2]), PAIR, (np.full(4, 0.25),), "shape"),
        (columns_for([2, 2]), PAIR, (GOOD * 2,), "sum to 1"),
        (columns_for([2, 2]), PAIR, (np.array([[0.5, 0.75], [-0.25, 0]]),), "not a probability"),
        (columns_for([2, 2]), PAIR, (np.array([[np.nan, 0.5], [0.25, 0.25]]),), "not a probability"),
        ((Column("a", ("x", "y")), Column("a", ("x", "y"))), PAIR, (GOOD,), "same name"),
        (
            columns_for([2, 2, 2]),
            JunctionTree(
                3,
                (
                    0b011,
                    0b110,
                ),
                ((0, 1),),
            ),
            (GOOD, np.array([[0.1, 0.1], [0.4, 0.4]])),
            "agree",
        ),
    ],
)
def test_a_model_is_a_distribution_or_an_error(
    columns: tuple[Column, ...], tree: JunctionTree, tables: tuple[np.ndarray, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        JunctionTreeModel(columns, tree, tables)


@pytest.mark.parametrize(
    ("name", "states", "cuts"),
    [
        ("", ("a",), None),
        ("a", (), None),
        ("a", ("x", "x"), None),
        ("a", ("x", "y"), (1.0, 2.0)),
        ("a", ("x", "y", "z"), (2.0, 1.0)),
        ("a", ("x", "y"), (float("nan"),)),
    ],
)
def test_a_column_has_a_name_different_states_and_increasing_cuts(
    name: str, states: tuple[str, ...], cuts: tuple[float, ...] | None
) -> None:
    with pytest.raises(ValueError, match="column"):
        Column(name, states, cuts)


def test_variables_are_found_by_name() -> None:
    model = chain(3)
    assert position(model.names, "V2") == 2
    with pytest.raises(InputError, match="there is no 'X'"):
        position(model.names, "X")
    assert model.columns[0].code("s1") == 1
    with pytest.raises(InputError, match="no state 'maybe'"):
        model.columns[0].code("maybe")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((2, 4), dtype=int), "3 variables"),
        (np.zeros(3, dtype=int), "3 variables"),
        (np.zeros((3, 1)), "integers"),
        (np.full((3, 1), 2), "from 2 to 2"),
        (np.full((3, 1), -2), "with -1"),
    ],
)
def test_rows_that_do_not_fit_the_model_are_refused(rows: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        chain(3).log_likelihood(rows)


def test_no_rows_have_no_log_likelihood() -> None:
    assert chain(3).log_likelihood(np.zeros((3, 0), dtype=np.int64)).size == 0


def test_rows_are_brought_into_the_code_of_the_model_by_names_and_labels() -> None:
    columns = (Column("a", ("x", "y")), Column("b", ("u", "v")))
    table = DataTable(("b", "c", "a"), (("v",), ("0",), ("y", "w", "x")), np.array([[0, 0], [0, 0], [0, 2]]))
    assert codes_of(columns, table).tolist() == [[1, 0], [1, 1]]
    with pytest.raises(InputError, match="'w' is none of its states"):
        codes_of(columns, DataTable(("a", "b"), (("w",), ("u",)), np.zeros((2, 1), dtype=int)))
    with pytest.raises(InputError, match="none called 'b'"):
        codes_of(columns, DataTable(("a",), (("x",),), np.zeros((1, 1), dtype=int)))


def test_the_rows_of_a_file_are_coded_as_the_model_is(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("d,size,colour,mood\n1,0.5,red,\n2,7,,good\n3,?,blue,bad\n", encoding="utf-8")
    columns = (
        Column("colour", ("blue", "red")),
        Column("size", ("<= 1", "> 1"), (1.0,)),
        Column("mood", ("bad", "good", "?"), gap=True),
    )
    assert read_rows(path, columns).tolist() == [[1, -1, 0], [0, 1, -1], [2, 1, 0]]
    with pytest.raises(InputError, match="'red' is none of its states"):
        read_rows(path, (Column("colour", ("blue", "green")),))
    with pytest.raises(InputError, match="'red' lies in none of its ranges"):
        read_rows(path, (Column("colour", ("<= 1", "> 1"), (1.0,)),))
    with pytest.raises(InputError, match="none called 'taste'"):
        read_rows(path, (Column("taste", ("good",)),))


def test_a_file_without_header_has_the_columns_of_the_model_in_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,1\ny,0\n", encoding="utf-8")
    columns = (Column("a", ("x", "y")), Column("b", ("0", "1")))
    bare = Habits(dialect=Dialect(header=False))
    assert read_rows(path, columns, habits=bare).tolist() == [[0, 1], [1, 0]]
    named = (Column("V1", ("x", "y")), Column("V2", ("0", "1")))
    assert read_rows(path, named, habits=bare).tolist() == [[0, 1], [1, 0]]
    with pytest.raises(InputError, match="2 columns and no header, but the model has 1"):
        read_rows(path, columns[:1], habits=bare)


def test_the_columns_of_a_table_keep_the_cuts_that_the_data_were_cut_by(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("a,b\n" + "".join(f"{i / 7},{'xy'[i % 2]}\n" for i in range(60)), encoding="utf-8")
    table = read_states(path, Coding(discretise=Discretisation("quantile", 4)))
    columns = columns_of(table)
    assert columns[0].cuts is not None
    assert len(columns[0].cuts) == 3
    assert columns[1].cuts is None
    assert (read_rows(path, columns) == table.codes).all()


@given(st.integers(0, 10_000))
@settings(deadline=None, max_examples=20)
def test_a_fitted_model_is_likelier_on_its_data_than_any_other_of_its_tree(seed: int) -> None:
    table = random_table(seed, 4, 20)
    tree = random_tree(4, 2, repeatable(seed))
    best = fit(tree, table, ess=0).log_likelihood(table).sum()
    assert best >= fit(tree, table, ess=3).log_likelihood(table).sum() - 1e-9
