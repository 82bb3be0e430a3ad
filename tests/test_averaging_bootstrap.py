"""Bootstrap strengths of edges."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from problems import gaussian, named
from runs import ReportingRun

from jtsolve.averaging.average import draw_trees
from jtsolve.averaging.bootstrap import Bootstrap, bootstrap, resampled
from jtsolve.averaging.parts import Strengths
from jtsolve.averaging.posterior import GraphPosterior
from jtsolve.backends.registry import REGISTRY
from jtsolve.cli import run
from jtsolve.core.problem import Constraints
from jtsolve.core.run import Limits, Run
from jtsolve.errors import ChoiceError, LimitError, RefusedError
from jtsolve.io.instance import write_problem
from jtsolve.models.learning.learner import Learner
from jtsolve.scoring.problem import problem_from_table
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.scores.bge import Bge
from jtsolve.solving import solve
from jtsolve.tables.table import ContinuousTable, DataTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LEARNER = Learner(Bdeu(1.0), REGISTRY["chowliu"], 1)


def table(rows: int = 60) -> DataTable:
    """Two columns that are alike, one that hangs on them a little, and one on none."""
    generator = np.random.default_rng(3)
    a = generator.integers(0, 2, rows)
    c = np.where(generator.random(rows) < 0.65, a, 1 - a)
    codes = np.array([a, a, c, generator.integers(0, 2, rows)])
    return DataTable(tuple("abcd"), (("0", "1"),) * 4, codes)


def command(*arguments: object) -> int:
    return run([str(argument) for argument in arguments], 0.0)


def test_strengths_are_the_shares_of_the_best_trees_of_resampled_rows() -> None:
    data = table()
    found = bootstrap(data, 12, LEARNER, Run(Limits(seed=5)))
    expected = np.zeros((4, 4))
    for seed in np.random.SeedSequence(5).spawn(12):
        rows = np.repeat(np.arange(60), np.random.default_rng(seed).multinomial(60, np.full(60, 1 / 60)))
        problem = problem_from_table(replace(data, codes=data.codes[:, rows]), Bdeu(1.0), treewidth=1)
        tree = solve(problem, REGISTRY["dp"]).tree
        assert tree is not None
        for u, v in tree.graph_edges:
            expected[u, v] += 1 / 12
            expected[v, u] += 1 / 12
    assert np.allclose(found.edges, expected)
    assert found.edges[0, 1] == 1
    assert 0 < found.edges[0, 3] + found.edges[1, 3] + found.edges[2, 3] < 3
    assert (found.resamples, found.wanted, found.optimal, found.backend) == (12, 12, 12, "chowliu")


def test_a_seed_gives_the_same_strengths_and_another_others() -> None:
    one, same, other = (bootstrap(table(), 10, LEARNER, Run(Limits(seed=seed))).edges for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()


def test_resamples_have_the_total_weight_of_the_data() -> None:
    weighted = replace(table(), weights=np.arange(1, 61))
    drawn = resampled(weighted, np.random.default_rng(0))
    assert drawn.total == weighted.total == 1830
    numbers = ContinuousTable(("x", "y"), np.random.default_rng(0).normal(size=(2, 30)))
    drawn = resampled(numbers, np.random.default_rng(0))
    assert isinstance(drawn, ContinuousTable)
    assert drawn.rows == 30
    assert len(np.unique(drawn.values[0])) < 30
    assert set(drawn.values[0]) <= set(numbers.values[0])
    assert bootstrap(numbers, 3, Learner(Bge(), REGISTRY["chowliu"], 1)).resamples == 3


def interrupting(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes Ctrl-C come in the search after this many."""
    original: Callable[..., Any] = Learner.search
    calls = iter(range(1000))

    def search(self: Learner, data: Any, run: Any) -> Any:
        if next(calls) == after:
            run.interrupt()
        return original(self, data, run)

    monkeypatch.setattr(Learner, "search", search)


def test_ctrl_c_keeps_the_resamples_done(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = bootstrap(table(), 4, LEARNER)
    interrupting(4, monkeypatch)
    found = bootstrap(table(), 10, LEARNER)
    assert (found.resamples, found.wanted) == (4, 10)
    assert (found.edges == complete.edges).all()


def test_ctrl_c_before_the_first_tree_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupting(0, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        bootstrap(table(), 10, LEARNER)


def test_data_that_cannot_be_resampled_are_refused() -> None:
    with pytest.raises(ChoiceError, match="1 or more"):
        Bootstrap(replicates=0)
    with pytest.raises(ChoiceError, match="no draws from the posterior"):
        draw_trees(named(gaussian(1, 3)), 2, method="bootstrap:3")
    with pytest.raises(LimitError, match="before the first resample"):
        bootstrap(table(), 3, LEARNER, Run(Limits(time=1e-9)))
    with pytest.raises(RefusedError, match="chowliu"):
        bootstrap(table(), 3, replace(LEARNER, treewidth=2))
    impossible = Constraints(required_edges=frozenset({0b11}))
    with pytest.raises(ChoiceError, match="no tree meets"):
        bootstrap(table(), 3, Learner(Bdeu(1.0), REGISTRY["dp"], 0, constraints=impossible))


def test_progress_counts_resamples() -> None:
    notes: list[tuple[str, float]] = []

    def heard(*, note: str | None, done: float | None, **_: Any) -> None:
        notes.append((str(note), done or 0.0))

    bootstrap(table(), 3, LEARNER, ReportingRun(heard))
    assert {note for note, _ in notes} == {f"resample {k} of 3" for k in (1, 2, 3)}
    parts = [done for _, done in notes]
    assert parts == sorted(parts)


def failing(error: BaseException) -> Callable[..., Strengths]:
    def fail(*_: Any, **__: Any) -> Strengths:
        raise error

    return fail


def test_average_has_strengths_beside_the_posterior(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, output = tmp_path / "d.csv", tmp_path / "p.json"
    rows = table().codes.T.tolist()
    data.write_text("a,b,c,d\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    how = "bootstrap:6,backend=chowliu,posterior=exact(draws=200)"
    options = ("--score", "bdeu", "--treewidth", 1, "--output", output)
    assert command("average", data, *options, "--method", how) == 0
    text = capsys.readouterr().out
    assert "6 of 6 resamples, trees by chowliu" in text
    found = GraphPosterior.read(output)
    assert isinstance(found.bootstrap, Strengths)
    assert (found.bootstrap.edges == bootstrap(table(), 6, LEARNER).edges).all()
    assert sum(found.diagnostics["edges_in_graph"]) == pytest.approx(1)
    assert sum(found.diagnostics["treewidth"]) == pytest.approx(1)
    for error, code in ((LimitError("too late"), 4), (KeyboardInterrupt(), 130)):
        output.unlink()
        monkeypatch.setattr("jtsolve.averaging.bootstrap.bootstrap", failing(error))
        assert command("average", data, *options, "--method", how) == code
        assert "no resample was done" in capsys.readouterr().err
        kept = GraphPosterior.read(output)
        assert kept.bootstrap is None
        assert kept.diagnostics["no_bootstrap"]["reason"] == str(error)
    write_problem(named(gaussian(1, 4)), output)
    assert command("average", output, "--method", "bootstrap:3") == 2
    assert "an instance has none" in capsys.readouterr().err
