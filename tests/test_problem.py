from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from problems import draw_constraints, gaussian, named, random_problem, repeatable

from jtsolve.backends.brute import chordal_trees, meets_constraints
from jtsolve.core.permitted import Masks, MemberRows, permitted_cliques, permitted_separators
from jtsolve.core.problem import Constraints, Problem, ProblemFeature, Variable
from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import InputError
from jtsolve.families.families import families_of, predicted_sets
from jtsolve.families.sets import all_sets, masks_of
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.ml import MaximumLikelihood
from jtsolve.tables.table import DataTable


def problem(n: int = 3, **constraints: Any) -> Problem:
    scores = DenseScores(n, n, -np.arange(2.0**n))
    return Problem(tuple(Variable(f"V{v}") for v in range(n)), scores, Constraints(**constraints), "p")


@pytest.mark.parametrize(
    ("constraints", "reason"),
    [
        ({"max_treewidth": -1}, "max_treewidth: -1 is below 0"),
        ({"max_separator_size": -1}, "max_separator_size: -1 is below 0"),
        ({"min_separator_size": -2}, "min_separator_size: -2 is below 0"),
        ({"max_cliques": 0}, "max_cliques: 0 is below 1"),
        ({"max_clique_cells": 0}, "max_clique_cells: 0 is below 1"),
        ({"max_clique_cells": 2**53 + 1}, "max_clique_cells: .* is above 2\\^53"),
        ({"max_clique_cells": 8}, "max_clique_cells: the number of states of 'V0' is not known"),
        ({"forbidden_edges": frozenset({0b111})}, "forbidden_edges: .* is not a pair"),
        ({"required_edges": frozenset({0b1})}, "required_edges: .* is not a pair"),
        (
            {"required_edges": frozenset({0b11, 0b101}), "forbidden_edges": frozenset({0b11})},
            "both required and forbidden",
        ),
    ],
)
def test_wrong_constraints_are_refused(constraints: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        problem(**constraints)


@pytest.mark.parametrize("seed", range(30))
def test_arrays_of_sets_meet_the_constraints_as_single_sets_do(seed: int) -> None:
    random = repeatable(seed)
    features = frozenset(random.sample(list(ProblemFeature), 4))
    given = named(gaussian(seed, 5), draw_constraints(random, 5, features))
    given = replace(given, constraints=replace(given.constraints, max_treewidth=None))
    masks = np.arange(1 << 5)
    rows, _, sizes = all_sets(5, 5)
    for sets, listed in ((Masks(masks), masks.tolist()), (MemberRows(rows, sizes), masks_of(rows, sizes))):
        assert permitted_cliques(given, sets).tolist() == [given.permits_clique(mask) for mask in listed]
        separators = [given.permits_separator(mask) for mask in listed]
        assert permitted_separators(given, sets).tolist() == separators


def test_the_bound_on_cells_leaves_no_larger_set_in_a_listing() -> None:
    arities = [2, 3, 2, 5, 4, 2]
    small = Problem(
        tuple(Variable(str(v), arity) for v, arity in enumerate(arities)),
        gaussian(0, 6),
        Constraints(max_clique_cells=20),
    )
    fits = [mask for mask in range(1 << 6) if small.cells(mask) <= 20]
    assert small.max_clique_size == max(map(int.bit_count, fits)) == 3
    assert sorted(families_of(small).masks()) == fits
    assert predicted_sets(small) == len(fits)


def test_features_are_the_constraints_that_differ_from_the_default() -> None:
    assert Constraints().features == frozenset()
    assert Constraints(max_treewidth=0, allowed_separators=frozenset()).features == {
        ProblemFeature.MAX_TREEWIDTH,
        ProblemFeature.ALLOWED_SEPARATORS,
    }


def test_every_feature_is_a_field() -> None:
    assert {feature.value for feature in ProblemFeature} == set(Constraints.__dataclass_fields__)


def test_mentioned_is_the_union() -> None:
    constraints = Constraints(
        forbidden_edges=frozenset({0b11}),
        forbidden_separators=frozenset({0b1000}),
        allowed_separators=frozenset({0b100000}),
    )
    assert constraints.mentioned() == 0b101011
    assert Constraints(forbidden_graphs=frozenset({frozenset({0b101})})).mentioned() == 0b101


def test_counts_and_names_must_fit() -> None:
    good = problem()
    with pytest.raises(InputError, match="2 variables, but scores over 3"):
        replace(good, variables=good.variables[:2])
    with pytest.raises(InputError, match=r"variables\[1\]: the name is empty"):
        replace(good, variables=(Variable("A"), Variable(""), Variable("B")))
    with pytest.raises(InputError, match=r"variables\[2\]: the name 'A' is used twice"):
        replace(good, variables=(Variable("A"), Variable("B"), Variable("A")))
    with pytest.raises(InputError, match="a set holds a variable above 2"):
        replace(good, constraints=Constraints(forbidden_cliques=frozenset({0b1000})))
    with pytest.raises(InputError, match="rows: 0 rows"):
        replace(good, rows=0)


def test_rows_are_those_of_the_data_and_stay_with_the_problem() -> None:
    table = DataTable(("a",), (("no", "yes"),), np.array([[0, 1]]), np.array([3, 4]))
    lazy = Problem((Variable("a"),), DataScores(table, MaximumLikelihood(), 1))
    assert lazy.rows == 7
    assert replace(lazy, scores=DenseScores(1, 1, np.zeros(2))).with_treewidth(0).rows == 7
    assert problem().rows is None


def test_the_largest_clique_is_bounded_by_everything() -> None:
    assert problem().max_clique_size == 3
    assert problem(max_treewidth=1).max_clique_size == 2
    assert problem(max_treewidth=9).max_clique_size == 3
    pairs = DenseScores(3, 2, np.zeros(7))
    assert replace(problem(), scores=pairs).max_clique_size == 2


def test_with_treewidth_only_tightens() -> None:
    loose = problem()
    assert loose.with_treewidth(None) is loose
    assert loose.with_treewidth(1).constraints.max_treewidth == 1
    assert problem(max_treewidth=2).with_treewidth(5).constraints.max_treewidth == 2
    assert problem(max_treewidth=2).with_treewidth(1).constraints.max_treewidth == 1


def test_permitted_cliques() -> None:
    free = problem()
    assert [free.permits_clique(mask) for mask in (0b0, 0b1, 0b111)] == [False, True, True]
    assert not problem(max_treewidth=1).permits_clique(0b111)
    assert not problem(forbidden_cliques=frozenset({0b11})).permits_clique(0b11)
    assert problem(forbidden_cliques=frozenset({0b11})).permits_clique(0b111)
    assert not problem(forbidden_edges=frozenset({0b11})).permits_clique(0b111)
    sparse = replace(free, scores=SparseScores(3, {0b11: 0.0}))
    assert [sparse.permits_clique(mask) for mask in (0b11, 0b1)] == [True, False]


def test_permitted_separators() -> None:
    assert [problem().permits_separator(mask) for mask in (0b0, 0b111)] == [True, True]
    assert not problem(min_separator_size=1).permits_separator(0)
    assert not problem(max_separator_size=1).permits_separator(0b11)
    assert not problem(forbidden_separators=frozenset({0})).permits_separator(0)
    allowed = problem(allowed_separators=frozenset({0b1}))
    assert [allowed.permits_separator(mask) for mask in (0b1, 0b10)] == [True, False]
    sparse = replace(problem(), scores=SparseScores(3, {0b11: 0.0}))
    assert [sparse.permits_separator(mask) for mask in (0b11, 0b1)] == [True, False]


class Lazy:
    """Scores computed on demand."""

    n = 1
    max_size = 1

    def __repr__(self) -> str:
        return "Lazy()"

    def score(self, mask: int) -> float:
        return -float(mask)

    def batch(self, sets: Any) -> Any:
        return -sets.sum(axis=1)

    def extremes(self) -> tuple[float, float]:
        return -1.0, 0.0


def test_the_digest_depends_on_names_and_scores_and_on_nothing_else() -> None:
    base = problem()
    assert base.digest().startswith("sha256:")
    assert problem().digest() == base.digest()
    assert replace(base, constraints=Constraints(max_treewidth=1), name="q", rows=9).digest() == base.digest()
    variables = (Variable("X"), *base.variables[1:])
    sparse = SparseScores(3, {0b1: -1.0})
    others = [
        replace(base, variables=variables),
        replace(base, scores=DenseScores(3, 2, np.zeros(7))),
        replace(base, scores=sparse),
        replace(base, scores=SparseScores(3, {0b1: -1.5})),
        replace(base, scores=SparseScores(3, {0b10: -1.0})),
        Problem((Variable("A"),), Lazy()),
    ]
    assert len({base.digest(), *(other.digest() for other in others)}) == 7


@pytest.mark.parametrize("feature", ProblemFeature, ids=lambda feature: feature.value)
def test_a_tree_is_permitted_if_it_meets_every_constraint(feature: ProblemFeature) -> None:
    seen = set()
    for seed in range(20):
        asked = random_problem(seed, 4, frozenset({feature}))
        for tree in chordal_trees(4):
            seen.add(asked.permits(tree))
            assert asked.permits(tree) == meets_constraints(asked, tree)
    assert seen == {False, True}


def test_a_tree_over_other_variables_is_not_permitted() -> None:
    assert not problem().permits(JunctionTree(1, (1,), ()))
