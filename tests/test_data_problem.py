"""`problem_from_table`: one rule decides between a table of scores and scores on demand."""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pytest
from readers import tabulate

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.backend import ReadsLargerSets
from jtsolve.core.problem import Constraints
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import DenseScores, StoppedError
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.models.learning.learner import Learner
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.problem import (
    BEFORE_SEARCH,
    FOR_ALL_SCORES,
    FOR_HEURISTICS,
    WHOLE,
    WITHIN_LIMITS,
    Tabulation,
    plan_scores,
    problem_from_table,
    tabulation_for,
)
from jtsolve.scoring.scores.bic import Bic
from jtsolve.scoring.scores.gaussian_bic import GaussianBic
from jtsolve.scoring.tabulate import TableEstimate
from jtsolve.tables.table import ContinuousTable, DataTable

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem

CODES = np.random.default_rng(1).integers(0, 3, (5, 80))
TABLE = DataTable(("a", "b", "c", "d", "e"), (("0", "1", "2"),) * 5, CODES, provenance={"data": "d.csv"})
NEVER = Tabulation(seconds=-1.0, share=0.5)


def test_the_problem_has_the_columns_the_scores_and_the_constraints() -> None:
    constraints = Constraints(forbidden_edges=frozenset({0b11}), max_treewidth=3)
    problem = problem_from_table(TABLE, Bic(), treewidth=2, constraints=constraints, name="five")
    assert problem.names == TABLE.names
    assert problem.variables[0].states == ("0", "1", "2")
    assert problem.constraints == replace(constraints, max_treewidth=2)
    assert problem.name == "five"
    assert isinstance(problem.scores, DenseScores)
    assert problem.scores.values.tolist() == tabulate(TABLE, Bic(), 3).values.tolist()
    facts = problem.provenance
    assert (facts["data"], facts["score"]) == ("d.csv", "bic")


def test_numbers_have_no_states_and_sizes_stop_at_the_number_of_columns() -> None:
    table = ContinuousTable(("x", "y"), np.random.default_rng(0).normal(size=(2, 30)))
    problem = problem_from_table(table, GaussianBic(), max_size=9)
    assert problem.variables[0].states is None
    assert problem.scores.max_size == 2
    assert problem.constraints == Constraints()


def test_few_columns_need_no_size() -> None:
    assert problem_from_table(TABLE, Bic()).max_clique_size == 5
    columns = tuple(f"V{v}" for v in range(27))
    wide = DataTable(columns, (("0", "1"),) * 27, np.tile([[0, 1]], (27, 1)))
    with pytest.raises(ChoiceError, match="give treewidth="):
        problem_from_table(wide, Bic())


def test_scores_on_demand_equal_those_of_the_table() -> None:
    lazy = problem_from_table(TABLE, Bic(), treewidth=2, tabulation=NEVER)
    assert isinstance(lazy.scores, DataScores)
    table = problem_from_table(TABLE, Bic(), treewidth=2)
    assert [lazy.scores.score(mask) for mask in range(32)] == [table.scores.score(mask) for mask in range(32)]


def cost(seconds: float, memory: int) -> TableEstimate:
    return TableEstimate(1, seconds, memory, 0, 0)


def test_seconds_and_bytes_decide() -> None:
    limits = Limits(memory=1 << 50)
    assert BEFORE_SEARCH.obstacle(cost(2.9, 0), limits) is None
    assert BEFORE_SEARCH.obstacle(cost(11, 0), limits) == "about 11 s, but at most 3 s are allowed"
    assert WITHIN_LIMITS.obstacle(cost(1e9, 0), limits) is None
    over = Limits(time=4.0, memory=1 << 50, started=time.monotonic() - 5)
    assert WITHIN_LIMITS.obstacle(cost(1, 0), over) == "about 1 s, but at most 0 s are allowed"
    assert BEFORE_SEARCH.obstacle(cost(0, 1 << 48), limits) is None
    needed = BEFORE_SEARCH.obstacle(cost(0, 3 << 48), limits)
    assert needed is not None
    assert "GB of memory, but at most" in needed
    assert WITHIN_LIMITS.obstacle(cost(0, 3 << 48), limits) is None


def test_exact_backends_get_a_table_within_the_limits_and_the_others_a_quick_one() -> None:
    assert tabulation_for(REGISTRY["clutter"]) is WITHIN_LIMITS
    assert tabulation_for(REGISTRY["forward"]) is FOR_HEURISTICS
    assert {tabulation_for(REGISTRY[name]) for name in ("dp", "ilp", "cpsat", "maxsat")} == {FOR_ALL_SCORES}
    assert FOR_HEURISTICS.seconds < BEFORE_SEARCH.seconds
    assert tabulation_for(None) is BEFORE_SEARCH


def test_the_backend_decides_which_sets_are_scored() -> None:
    backend = REGISTRY["consistent"]
    assert isinstance(backend, ReadsLargerSets)
    problem = problem_from_table(TABLE, Bic(), treewidth=1, backend=backend)
    assert problem.scores.max_size == min(TABLE.n, backend.largest_read(1)) > 2
    assert problem.constraints.max_treewidth == 1


def test_the_time_limit_ends_a_tabulation_and_so_does_an_interruption() -> None:
    interrupted = Run()
    interrupted.interrupt()
    plan = plan_scores(TABLE, Bic(), 3, Run())
    assert isinstance(replace(plan, run=interrupted).problem().scores, DataScores)
    with pytest.raises(StoppedError):
        replace(plan, run=interrupted, tabulation=WHOLE).problem()
    late = replace(plan, run=Run(Limits(time=1.0, started=time.monotonic() - 5)))
    assert isinstance(late.problem().scores, DataScores)
    with pytest.raises(LimitError, match="the time limit ended the scoring"):
        replace(late, tabulation=WHOLE).problem()


def test_a_table_that_is_not_required_ends_after_its_share_of_the_time() -> None:
    plan = plan_scores(TABLE, Bic(), 3, Run())
    hours = replace(plan, run=Run(Limits(time=1e4)))
    assert isinstance(hours.problem().scores, DenseScores)
    assert isinstance(replace(hours, tabulation=Tabulation(inf, 0.0)).problem().scores, DataScores)
    assert isinstance(replace(hours, tabulation=WHOLE).problem().scores, DenseScores)


def test_backends_that_need_a_table_take_few_scores_on_demand() -> None:
    assert not plan_scores(TABLE, Bic(), 3, Run(), tabulation=FOR_ALL_SCORES).required
    wide = DataTable(tuple(f"V{v}" for v in range(200)), (("0", "1"),) * 200, np.tile([[0, 1]], (200, 1)))
    for backend, required in (("dp", True), ("ilp", True), ("clutter", False)):
        tabulation = tabulation_for(REGISTRY[backend])
        assert plan_scores(wide, Bic(), 3, Run(), tabulation=tabulation).required is required


def test_learners_ask_for_a_table_where_the_backend_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[Problem] = []

    def remember(problem: Problem, *more: object) -> object:
        solved.append(problem)
        return solve(problem, *more)  # type: ignore[arg-type]

    from jtsolve.models.learning import learner
    from jtsolve.solving import solve

    monkeypatch.setattr(learner, "solve", remember)
    monkeypatch.setattr("jtsolve.scoring.scorer.CountingScorer.nanoseconds", 9e5)
    codes = np.random.default_rng(1).integers(0, 3, (14, 40))  # 470 sets: 0.4 s
    table = DataTable(tuple(f"V{v}" for v in range(14)), (("0", "1", "2"),) * 14, codes)
    run = Run(Limits(threads=1))
    assert Learner()(table, run) == Learner(backend=REGISTRY["forward"])(table, run)
    Learner(backend=REGISTRY["dp"])(table, run)
    assert [type(problem.scores) for problem in solved] == [DataScores, DataScores, DenseScores]
