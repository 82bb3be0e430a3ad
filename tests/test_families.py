"""Scores written for programs for Bayesian networks, and read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jtsolve.core.problem import Problem, Variable
from jtsolve.core.run import Run
from jtsolve.core.scores import DenseScores
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.io.bn_scores import family_bytes, family_text
from jtsolve.io.foreign import read_gobnilp, read_urlearning
from jtsolve.io.instance import read_problem, write_problem
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.tabulate import tabulate
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from pathlib import Path


def random_problem(n: int, max_size: int, seed: int = 0) -> Problem:
    values = np.random.default_rng(seed).normal(size=count_bounded_subsets(n, max_size)) * 100
    values[0] = 0.0
    return Problem(tuple(Variable(f"X{v}", 3) for v in range(n)), DenseScores(n, max_size, values), name="a")


def values_of(problem: Problem) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    assert isinstance(problem.scores, DenseScores)
    return problem.scores.values


@pytest.mark.parametrize("ending", ["jkl", "pss"])
@pytest.mark.parametrize(("n", "max_size"), [(1, 1), (4, 1), (6, 3), (5, 5)])
def test_families_are_read_back_as_the_same_scores(
    ending: str, n: int, max_size: int, tmp_path: Path
) -> None:
    path = tmp_path / f"a.{ending}"
    for seed in range(4):
        problem = random_problem(n, max_size, seed)
        write_problem(problem, path)
        found = read_problem(path)
        assert found.names == problem.names
        assert found.scores.max_size == max_size
        np.testing.assert_allclose(values_of(found), values_of(problem), rtol=0, atol=1e-11)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(-8, 8), min_size=15, max_size=15))
def test_whole_numbers_and_ties_are_read_back_to_the_bit(numbers: list[int]) -> None:
    scores = DenseScores(4, 4, np.array([0.0, *map(float, numbers)]))
    variables = tuple(map(Variable, "ABCD"))
    for kind, read in (("jkl", read_gobnilp), ("pss", read_urlearning)):
        found = read(family_text(scores, variables, "a", kind), "a", "a", Run())
        assert values_of(found).tolist() == scores.values.tolist()


def test_each_family_is_a_difference_of_scores() -> None:
    scores = DenseScores(2, 2, np.array([0.0, -1.0, -2.0, -2.5]))
    variables = (Variable("A", ("lo", "hi")), Variable("B"))
    assert family_text(scores, variables, "a", "jkl") == (
        b"2\nA 2\n-1.0 0\n-0.5 1 B\nB 2\n-2.0 0\n-1.5 1 A\n"
    )
    assert family_text(scores, variables, "a", "pss") == (
        b"META parent_limit=1\nVAR A\nMETA arity=2\nMETA values=lo,hi\n-1.0\n-0.5 B\nVAR B\n-2.0\n-1.5 A\n"
    )


def test_states_are_kept_where_the_format_can_hold_them(tmp_path: Path) -> None:
    variables = (Variable("A", ("lo", "hi")), Variable("B", ("<= 1", "> 1")), Variable("C", 4), Variable("D"))
    problem = Problem(variables, DenseScores(4, 1, np.zeros(5)))
    write_problem(problem, tmp_path / "a.pss")
    assert [variable.states for variable in read_problem(tmp_path / "a.pss").variables] == [
        ("lo", "hi"),
        2,
        4,
        None,
    ]


@pytest.mark.parametrize("ending", ["jkl", "pss"])
@pytest.mark.parametrize("name", ["a b", "#a", "a\tb"])
def test_names_that_the_formats_cannot_hold_are_refused(name: str, ending: str, tmp_path: Path) -> None:
    problem = Problem((Variable(name),), DenseScores(1, 1, np.zeros(2)))
    with pytest.raises(ChoiceError, match=r"cannot hold the name .*; rename the column, or write \.json"):
        write_problem(problem, tmp_path / f"a.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_files_that_could_not_be_read_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtsolve.io.bn_scores.LARGEST", 1000)
    with pytest.raises(LimitError, match=r"would take .* GB, but no more than 1e-06 GB are read\. Ways out"):
        write_problem(random_problem(6, 3), tmp_path / "a.jkl")


def test_the_predicted_size_is_that_of_the_file() -> None:
    names = tuple(f"column {v}".replace(" ", "_") for v in range(12))
    codes = np.random.default_rng(0).integers(0, 3, (12, 200))
    scores = tabulate(DataTable(names, (tuple("abc"),) * 12, codes), Bdeu(), 4)
    for kind in ("jkl", "pss"):
        size = len(family_text(scores, tuple(map(Variable, names)), "a", kind))
        assert family_bytes(names, 4) == pytest.approx(size, rel=0.1)
