"""Mixtures: a sum of distributions in every query, and fits that find the parts that made the data."""

from __future__ import annotations

from itertools import product
from math import log
from typing import Any

import numpy as np
import pytest
from fitting import fit, fitted, run_for
from hypothesis import given, settings
from hypothesis import strategies as st

from jtsolve.backends.registry import REGISTRY
from jtsolve.backends.support.starts import KnownTree
from jtsolve.core.problem import Constraints
from jtsolve.core.result import Outcome
from jtsolve.core.run import Run
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import ChoiceError, InputError, LimitError
from jtsolve.models.columns import Column
from jtsolve.models.learning.learner import Learner
from jtsolve.models.learning.mixture_em import Mixtures
from jtsolve.models.messages import log_sum
from jtsolve.models.mixture import Mixture
from jtsolve.models.model import JunctionTreeModel, array_model
from jtsolve.scoring.scores.ml import MaximumLikelihood
from jtsolve.tables.table import DataTable

TREES = (
    JunctionTree(4, (0b0011, 0b0110, 0b1100), ((0, 1), (1, 2))),
    JunctionTree(4, (0b0111, 0b1001), ((0, 1),)),
    JunctionTree(4, (0b0001, 0b0010, 0b1100), ((0, 1), (1, 2))),
)
STATES = (("no", "yes"), ("a", "b", "c"), ("0", "1"), ("x", "y"))


def table_of(rows: int, seed: int, *, weights: bool = False) -> DataTable:
    generator = np.random.default_rng(seed)
    codes = np.array([generator.integers(0, len(labels), rows) for labels in STATES])
    counts = generator.integers(1, 4, rows) if weights else None
    return DataTable(("p", "q", "r", "s"), STATES, codes, counts)


def mixture_of(seed: int, weights: tuple[float, ...] = (0.5, 0.3, 0.2)) -> Mixture:
    components = [fit(tree, table_of(30, seed + k)) for k, tree in enumerate(TREES)]
    return Mixture(np.array(weights), tuple(components[: len(weights)]))


def joint(mixture: Mixture) -> np.ndarray:
    """Every state's probability, by the definition: one array with an axis for each variable."""
    total = np.zeros([len(labels) for labels in STATES])
    for weight, component in zip(mixture.weights, mixture.components, strict=True):
        for state in product(*(range(len(labels)) for labels in STATES)):
            row = np.array(state)[:, None]
            total[state] += weight * np.exp(component.log_likelihood(row)[0])
    return total


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6))
def test_every_query_is_that_of_the_sum_of_the_parts(seed: int) -> None:
    mixture = mixture_of(seed)
    table = joint(mixture)
    assert table.sum() == pytest.approx(1, abs=1e-12)
    rows = np.array([[0, 1, -1], [2, -1, -1], [1, 1, 0], [0, -1, 1]])
    expected = [table[0, 2, 1, 0], table[1, :, 1].sum(), table[:, :, 0, 1].sum()]
    assert np.exp(mixture.log_likelihood(rows)) == pytest.approx(np.array(expected), abs=1e-12)
    (joined, *singles) = mixture.posterior([("s", "q"), *zip(mixture.names)], {}).tables
    assert joined == pytest.approx(table.sum(axis=(0, 2)).T, abs=1e-12)
    for v, single in enumerate(singles):
        axes = tuple(u for u in range(4) if u != v)
        assert single == pytest.approx(table.sum(axis=axes), abs=1e-12)
    given_evidence = mixture.condition({"q": "b", "s": (0.2, 0.7)})
    weighted = table[:, 1] * np.array([0.2, 0.7])
    assert np.exp(given_evidence.log_probability) == pytest.approx(weighted.sum(), abs=1e-12)
    expected_p = weighted.sum(axis=(1, 2)) / weighted.sum()
    assert given_evidence.model.posterior([("p",)], {}).tables[0] == pytest.approx(expected_p, abs=1e-12)


def test_samples_have_the_mixtures_frequencies_and_repeat_with_the_seed() -> None:
    mixture = mixture_of(3)
    drawn = mixture.sample(200_000, seed=5)
    assert np.array_equal(drawn, mixture.sample(200_000, seed=5))
    assert not np.array_equal(drawn, mixture.sample(200_000, seed=6))
    shape = [len(labels) for labels in STATES]
    found = np.bincount(np.ravel_multi_index(tuple(drawn.astype(int)), shape), minlength=24) / 200_000
    assert np.abs(found - joint(mixture).ravel()).max() < 0.005
    with pytest.raises(ChoiceError, match="0 or more"):
        mixture.sample(-1)


def test_a_part_that_holds_the_evidence_impossible_drops_out() -> None:
    column = (Column("a", ("no", "yes")),)
    tree = JunctionTree(1, (1,), ())
    never, always = (
        JunctionTreeModel(column, tree, (np.array(values),)) for values in ([1.0, 0.0], [0.0, 1.0])
    )
    mixture = Mixture(np.array([0.25, 0.75]), (never, always))
    yes = mixture.condition({"a": "yes"})
    assert yes.model.components == (always,) or len(yes.model.components) == 1
    assert yes.log_probability == pytest.approx(log(0.75))
    assert mixture.log_likelihood(np.array([[0, 1]])).tolist() == pytest.approx([log(0.25), log(0.75)])
    with pytest.raises(InputError, match="impossible"):
        Mixture(np.array([1.0, 0.0]), (never, always)).condition({"a": "yes"})
    with pytest.raises(InputError, match="no state 'maybe'"):
        mixture.condition({"a": "maybe"})
    assert np.array_equal(log_sum(np.full((2, 1), -np.inf)), [-np.inf])


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ((0.5, 0.5), "3 components"),
        ((0.5, 0.2, 0.2), "sum to 1"),
        ((1.5, -0.5, 0.0), "sum to 1"),
        ((np.nan, 0.5, 0.5), "sum to 1"),
    ],
)
def test_wrong_weights_are_no_mixture(weights: tuple[float, ...], words: str) -> None:
    components = mixture_of(0).components
    with pytest.raises(ValueError, match=words):
        Mixture(np.array(weights), components)


def test_components_over_different_columns_are_no_mixture() -> None:
    one = mixture_of(0).components[0]
    assert isinstance(one, JunctionTreeModel)
    other = array_model([Column(f"{c.name}2", c.states) for c in one.columns], one.tree, one.values)
    with pytest.raises(ValueError, match="different columns"):
        Mixture(np.array([0.5, 0.5]), (one, other))
    with pytest.raises(ValueError, match="0 components"):
        Mixture(np.array([]), ())


def two_parts(rows: int, seed: int) -> DataTable:
    """Rows of two kinds: six columns that copy the first, or its opposite, with some noise."""
    generator = np.random.default_rng(seed)
    first = generator.integers(0, 2, rows)
    kind = generator.integers(0, 2, rows)
    pattern = np.array([[0, 0, 0, 0, 0, 0], [0, 1, 0, 1, 0, 1]])
    codes = (first[:, None] ^ pattern[kind]) ^ (generator.random((rows, 6)) < 0.05)
    return DataTable(tuple("abcdef"), (("0", "1"),) * 6, codes.T.astype(np.uint8))


def test_two_parts_are_found_and_are_worth_more_than_one_tree() -> None:
    train, test = two_parts(2000, 1), two_parts(2000, 2)
    one, two = (fitted(Mixtures((k,)), train, treewidth=1, seed=1) for k in (1, 2))
    single = fit(Learner(treewidth=1)(train, Run()), train)
    mean = one.log_likelihood(test).mean()
    assert mean == pytest.approx(single.log_likelihood(test).mean(), abs=1e-9)
    assert two.log_likelihood(test).mean() > mean + 0.05
    assert two.parameters == sum(c.parameters for c in two.components) + 1
    assert two.n == 6
    assert two.names == tuple("abcdef")


def test_the_seed_decides_and_weights_act_as_repeated_rows() -> None:
    table = table_of(40, 7, weights=True)
    assert table.weights is not None
    repeated = DataTable(table.names, table.states, np.repeat(table.codes, table.weights, axis=1))
    mixture, again = (fitted(Mixtures(rounds=2), rows, treewidth=1, seed=3) for rows in (table, repeated))
    assert np.array_equal(mixture.weights, again.weights)
    assert [c.tree for c in mixture.components] == [c.tree for c in again.components]


def test_validation_chooses_the_size_and_the_prior_and_records_its_trials() -> None:
    train, validation = two_parts(1000, 1), two_parts(1000, 2)
    run = run_for()
    mixture = fitted(Mixtures((1, 2, 4, 8), restarts=2), train, validation, treewidth=1, run=run)
    tried = mixture.provenance["sizes_tried"]
    likelihoods = [one["validation_log_likelihood"] for one in tried]
    assert len(mixture.components) == tried[int(np.argmax(likelihoods))]["components"] > 1
    mean = mixture.log_likelihood(validation).mean()
    assert mean == pytest.approx(max(likelihoods), abs=1e-9)
    assert any("per validation row" in words for words in run.notes)
    assert {one["treewidth"] for one in tried} == {1}
    with pytest.raises(ChoiceError, match="validation rows that choose one"):
        fitted(Mixtures((1, 2)), train, treewidth=1)


def test_validation_chooses_narrower_trees_where_they_are_better() -> None:
    train, validation = table_of(40, 1), table_of(400, 2)  # independent columns
    model = fitted(Mixtures((1,)), train, validation, 2, score=MaximumLikelihood(), ess=0.1)
    tried = model.provenance["sizes_tried"]
    assert [(one["components"], one["treewidth"]) for one in tried] == [(1, 2), (1, 1)]
    best = max(tried, key=lambda one: one["validation_log_likelihood"])
    assert model.tree.treewidth == best["treewidth"]


def test_as_many_components_as_rows_can_be_had_and_no_more() -> None:
    table = DataTable(("a", "b"), (("0", "1"),) * 2, np.array([[0, 0, 1], [0, 1, 1]]))
    assert len(fitted(Mixtures((3,)), table, treewidth=1).components) == 3
    with pytest.raises(ChoiceError, match="3 distinct rows"):
        fitted(Mixtures((4,)), table, treewidth=1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": 0},
        {"restarts": 0},
        {"components": (0,)},
        {"components": (2, 1)},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ChoiceError):
        Mixtures(**wrong)


def test_the_learner_accepts_any_backend_and_reports_failures() -> None:
    table = two_parts(200, 1)
    exact = Learner(backend=REGISTRY["dp"], treewidth=2)(table, Run())
    assert max(clique.bit_count() for clique in exact.cliques) <= 3
    assert Learner(backend=None, treewidth=9)(table, Run()).n == 6
    with pytest.raises(ChoiceError, match="treewidth"):
        Learner(treewidth=-1)
    few = Constraints(max_cliques=3)  # or the forest would do
    table = DataTable(("a", "b", "c", "d", "e"), (("0", "1"),) * 5, np.eye(5, dtype=np.uint8))
    with pytest.raises(LimitError, match="found no tree"):
        Learner(backend=REGISTRY["brute"], treewidth=2, constraints=few)(table, run_for(0))


def two_switches(rows: int, seed: int) -> DataTable:
    """Half of the rows copy c to d, the others e to d, where a is 1; elsewhere the other way round."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, 2, (6, rows))
    codes[3] = np.where(codes[0] == codes[5], codes[2], codes[4])
    return DataTable(tuple("abcdef"), (("0", "1"),) * 6, codes)


def test_a_run_that_ends_within_the_first_round_leaves_a_mixture_of_the_trees_so_far() -> None:
    table = two_switches(300, 3)

    def interrupt_the_second(run: Run, note: str) -> None:
        if note.startswith("tree 2"):
            run.interrupt()

    mixture = fitted(Mixtures((3,)), table, treewidth=1, run=run_for(act=interrupt_the_second))
    assert len(mixture.components) == 3
    assert mixture.provenance["stop"] == "interrupted"
    late = fitted(Mixtures((3,)), table, treewidth=1, seconds=0)
    assert late.provenance["stop"] == "time"


def test_the_search_for_a_tree_begins_at_the_old_one() -> None:
    table = two_switches(300, 4)
    begun: list[object] = []

    def solve_from(self: KnownTree, *_arguments: object) -> Outcome:
        begun.append(self.tree)
        return Outcome(None)

    old = Learner(treewidth=1)(table, Run())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KnownTree, "solve", solve_from)
        Learner(treewidth=2)(table, Run(), old)
    assert begun == [old]
    assert Learner(backend=REGISTRY["dp"], treewidth=2)(table, Run(), old).treewidth <= 2
