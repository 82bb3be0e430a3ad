"""Claims of wrong backends, and requirements on all backends for the choice of one."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
from problems import gaussian, named

from jtsolve.backends.registry import REGISTRY
from jtsolve.cli import run
from jtsolve.core.backend import Capabilities, Estimate
from jtsolve.core.problem import ALL_FEATURES, Constraints, Problem, Variable
from jtsolve.core.result import Outcome, Status
from jtsolve.core.run import Run
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import ChoiceError, InternalError
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.solving import choose_backend, solve
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.core.backend import Backend, Report
    from jtsolve.core.run import Limits


@dataclass(frozen=True, slots=True)
class Liar:
    """Claims an outcome without any work."""

    outcome: Outcome = field(repr=False)

    name: ClassVar[str] = "liar"
    capabilities: ClassVar[Capabilities] = Capabilities(features=ALL_FEATURES, exact=True)

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:  # noqa: ARG002 - the protocol
        return Estimate(0, 0.0)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:  # noqa: ARG002 - the protocol
        return self.outcome


SIX = named(gaussian(1, 6, 3))
EDGELESS = JunctionTree.from_families([(v, 0) for v in range(6)])
LOW = EDGELESS.score(SIX.scores)


@pytest.mark.parametrize(
    "outcome",
    [Outcome(EDGELESS, bound=LOW), Outcome(None, bound=LOW), Outcome(None, bound=-inf)],
    ids=["optimal", "bound", "infeasible"],
)
def test_a_bound_below_the_best_forest_is_an_internal_error(outcome: Outcome) -> None:
    with pytest.raises(InternalError, match=r"'liar' claims the bound .*, but the best forest scores"):
        solve(SIX, Liar(outcome))


def test_the_score_of_the_best_forest_is_a_bound_that_may_be_claimed() -> None:
    best = solve(SIX.with_treewidth(1), REGISTRY["chowliu"]).score
    assert best is not None
    assert best > LOW + 1
    assert solve(SIX, Liar(Outcome(EDGELESS, bound=best))).bound == best


def test_a_bound_is_not_compared_with_a_forest_that_the_constraints_may_exclude() -> None:
    problem = named(gaussian(1, 6, 3), Constraints(forbidden_graphs=frozenset({frozenset({0b11})})))
    assert solve(problem, Liar(Outcome(None, bound=-inf))).status is Status.INFEASIBLE


def test_no_forest_is_built_where_many_scores_would_have_to_be_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n = 200
    codes = np.zeros((n, 9), dtype=np.int64)
    table = DataTable(tuple(f"v{i}" for i in range(n)), (("0", "1"),) * n, codes)
    problem = Problem(tuple(map(Variable, table.names)), DataScores(table, Bdeu(), 2))
    monkeypatch.setattr(type(REGISTRY["chowliu"]), "solve", None)  # to call it would be an error
    assert solve(problem, Liar(Outcome(None, bound=0.0))).bound <= 0.0


def test_a_choice_asks_each_nested_backend_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Backend] = []
    for name in ("forward", "lns", "clutter", "search"):
        kind = type(REGISTRY[name])

        def estimate(self: Any, problem: Problem, limits: Limits, known: Any = kind.estimate) -> Estimate:
            asked.append(self)
            found: Estimate = known(self, problem, limits)
            return found

        monkeypatch.setattr(kind, "estimate", estimate)
    problem = named(gaussian(1, 8, 3))
    choose_backend(problem, Run())
    assert REGISTRY["forward"] in asked
    assert len(asked) == len(set(asked))
    choose_backend(problem, Run())
    assert asked.count(REGISTRY["forward"]) == 2  # nothing is kept from one choice to the next


PLUG_IN = """
from dataclasses import dataclass
from typing import ClassVar
from jtsolve.cli import run
from jtsolve.core.backend import Capabilities, Estimate
from jtsolve.core.result import Outcome

@dataclass(frozen=True)
class Eager:
    name: ClassVar[str] = "eager"
    capabilities: ClassVar[Capabilities] = Capabilities(exact=True)
    def estimate(self, problem, limits):
        return Estimate(0, 0.0)
    def solve(self, problem, limits, report):
        return Outcome(None, bound=-1e9)
"""


def test_a_backend_of_another_package_is_loaded_by_name_and_never_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = tmp_path / "eager-1.0.dist-info"
    facts.mkdir()
    (tmp_path / "eager_backend.py").write_text(PLUG_IN, encoding="utf-8")
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: eager\nVersion: 1.0\n", encoding="utf-8")
    entries = "[jtsolve.backends]\neager = eager_backend:Eager\nbroken = no_such_module:Backend\n"
    (facts / "entry_points.txt").write_text(entries, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert choose_backend(SIX, Run()).backend.name in REGISTRY
    assert "eager_backend" not in sys.modules
    with pytest.raises(InternalError, match="'eager' claims the bound"):
        solve(SIX, REGISTRY.parse("eager"))
    with pytest.raises(ChoiceError, match="the backend 'broken' from no_such_module:Backend cannot be used"):
        REGISTRY.parse("broken")
    assert run(["backends"], 0.0) == 0
    printed = capsys.readouterr()
    assert "\neager: exact" in printed.out
    (warning,) = printed.err.splitlines()
    assert warning.startswith("the backend 'broken' from no_such_module:Backend cannot be used: ")
