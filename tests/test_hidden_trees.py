"""Hidden Chow–Liu trees: exact sums, what EM finds, files, and rows without the hidden columns."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from commands import Command
from fitting import fitted, run_for

from jtsolve.core.problem import Constraints
from jtsolve.errors import ChoiceError
from jtsolve.models.files.document import read_model
from jtsolve.models.learning.hidden_trees import HiddenTrees
from jtsolve.models.learning.tree import Tree
from jtsolve.models.mixture import Mixture
from jtsolve.models.model import JunctionTreeModel
from jtsolve.models.rows import read_rows
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.core.run import Run

SMALL = HiddenTrees((3,), batch=100)


def classes(rows: int, seed: int, n: int = 8) -> DataTable:
    """Returns rows of variables that depend on each other through one class of three only."""
    generator = np.random.default_rng(seed)
    shown = np.random.default_rng(0).dirichlet([0.4] * 3, (n, 3))
    which = generator.integers(0, 3, rows)
    chance = np.cumsum(shown[:, which], axis=2)
    codes = (generator.random((n, rows, 1)) > chance).sum(axis=2).clip(max=2)
    return DataTable(tuple("abcdefgh"[:n]), (("x", "y", "z"),) * n, codes.astype(np.uint8))


def test_the_model_sums_over_the_hidden_variables() -> None:
    table = classes(200, 1, n=3)
    model = fitted(SMALL, table)
    assert model.names == ("a", "b", "c", "hidden a", "hidden b", "hidden c")
    assert isinstance(model, JunctionTreeModel)
    assert model.tree.treewidth == 1
    every = np.array(list(product(range(3), repeat=6)), dtype=np.int32).T
    whole = np.exp(model.log_likelihood(every)).reshape(27, 27)
    assert whole.sum() == pytest.approx(1, abs=1e-12)
    rows = DataTable(table.names, table.states, every[:3, ::27].astype(np.uint8))
    assert np.exp(model.log_likelihood(rows)) == pytest.approx(whole.sum(axis=1), abs=1e-12)
    # EM sums in 32 bits.
    mean = model.provenance["hidden_tree"]["tried"][0]["log_likelihood"]
    assert np.mean(model.log_likelihood(table)) == pytest.approx(mean, abs=1e-5)
    shares = np.bincount(table.codes[0], minlength=3) / 200
    assert model.marginals()[0] == pytest.approx(shares, abs=0.05)


def test_a_class_that_no_row_shows_is_found() -> None:
    train, valid, test = (classes(rows, seed) for rows, seed in ((1500, 1), (500, 2), (1500, 3)))
    found = [
        float(np.mean(model.log_likelihood(test)))
        for model in (
            fitted(HiddenTrees((2, 3, 6)), train, valid, seed=1),
            fitted(Tree(), train, treewidth=1, backend="chowliu"),
        )
    ]
    assert found[0] > found[1] + 0.1


def test_rows_for_validation_choose_and_may_have_gaps() -> None:
    train, valid = classes(300, 1), classes(200, 2)
    codes = valid.codes.astype(np.int32)
    codes[0, ::2] = -1
    model = fitted(HiddenTrees((2, 3, 4), batch=100), train, codes)
    tried = model.provenance["hidden_tree"]["tried"]
    best = max(tried, key=lambda one: one["log_likelihood"])
    assert model.provenance["hidden_tree"]["states"] == best["states"]
    hidden = np.full((8, 200), -1, dtype=np.int32)
    mean = np.mean(model.log_likelihood(np.concatenate([codes, hidden])))
    assert mean == pytest.approx(best["log_likelihood"], abs=1e-5)


def test_equal_seeds_equal_models_and_weights_count() -> None:
    table = classes(120, 1, n=4)
    one, other = (fitted(SMALL, table).log_likelihood(table) for _ in range(2))
    assert (one == other).all()
    doubled = DataTable(table.names, table.states, table.codes, np.full(120, 2))
    shown = [fitted(HiddenTrees((2,)), rows, ess=50.0).marginals()[0] for rows in (table, doubled)]
    assert np.abs(shown[0] - shown[1]).max() > 1e-6  # the prior weighs less


def test_a_constant_column_one_row_and_no_edge_give_a_model() -> None:
    one = DataTable(("a", "b"), (("0",), ("0", "1")), np.zeros((2, 1), dtype=np.uint8))
    assert np.isfinite(fitted(SMALL, one).log_likelihood(one)).all()
    table = classes(50, 1, n=2)
    model = fitted(HiddenTrees((2,)), table, constraints=Constraints(forbidden_edges=frozenset({0b11})))
    assert isinstance(model, JunctionTreeModel)
    assert 0b1100 not in model.tree.cliques
    assert np.isfinite(model.log_likelihood(table)).all()


def test_an_interruption_and_the_time_limit_keep_the_best_tables() -> None:
    table = classes(300, 1)

    def interrupt_the_third(run: Run, note: str) -> None:
        if len(reports) == 2:
            run.interrupt()
        reports.append(note)

    reports: list[str] = []
    run = run_for(act=interrupt_the_third)
    assert fitted(SMALL, table, run=run).provenance["stop"] == "interrupted"
    assert sum("batches" in one for one in reports) == 3
    assert fitted(SMALL, table, seconds=0).provenance["stop"] == "time"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"states": (1,)}, "at least one, from 2 on"),
        ({"states": ()}, "at least one, from 2 on"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ChoiceError, match=words):
        HiddenTrees(**settings)  # type: ignore[arg-type]


def test_data_that_leave_no_choice_or_no_name_are_refused() -> None:
    table = classes(20, 1, n=2)
    with pytest.raises(ChoiceError, match="validation rows"):
        fitted(HiddenTrees((2, 4)), table)
    with pytest.raises(ChoiceError, match="needs a prior"):
        fitted(SMALL, table, ess=0.0)
    named = DataTable(("a", "hidden a"), table.states, table.codes)
    with pytest.raises(ChoiceError, match="rename it"):
        fitted(SMALL, named)


def test_a_hidden_tree_from_the_command_line_reads_rows_without_hidden_columns(
    tmp_path: Path, capsys: Any
) -> None:
    command, out = Command(capsys), tmp_path / "m.json"
    train, valid = (
        written(classes(rows, seed, n=4), tmp_path / f"{rows}.csv") for rows, seed in ((300, 1), (100, 2))
    )
    options = ("--model", "hidden:2,3", "--score", "bic", "--output", out)
    assert command("fit", train, *options) == 2
    assert (
        "several numbers of hidden states need validation rows that choose one; give --validate"
        in command.err
    )
    assert command("fit", train, *options, "--treewidth", "2") == 2
    assert "the model 'hidden' does not use --treewidth" in command.err
    facts = command.json("fit", train, *options, "--validate", valid)
    model = read_model(out)
    assert isinstance(model, JunctionTreeModel)
    assert [column.hidden for column in model.columns] == [False] * 4 + [True] * 4
    assert facts["hidden_tree"]["states"] == model.columns[4].arity
    said = command.json("loglik", out, valid)
    codes = read_rows(valid, model.columns)
    assert (codes[4:] == -1).all()
    assert said["mean"] == pytest.approx(model.log_likelihood(codes).mean())
    assert command("query", out, "--target", "a", "--given", "b=x") == 0, command.err
    # Rows that have the hidden columns count with them.
    assert command("sample", out, "--rows", "20", "--output", tmp_path / "s.csv") == 0, command.err
    assert (read_rows(tmp_path / "s.csv", model.columns) >= 0).all()


def written(table: DataTable, path: Path) -> Path:
    """Writes a table."""
    rows = [",".join(table.states[v][code] for v, code in enumerate(row)) for row in table.codes.T]
    path.write_text("\n".join([",".join(table.names), *rows, ""]), encoding="utf-8")
    return path


def test_trees_of_other_first_tables_are_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = Command(capsys)
    table, test = classes(300, 1), classes(500, 2)
    one, both = (fitted(HiddenTrees((3,), count, batch=100), table) for count in (1, 2))
    other = fitted(SMALL, table, seed=1)
    assert isinstance(both, Mixture)
    assert both.provenance["hidden_tree"]["trees"] == 2
    single = [model.log_likelihood(test) for model in (one, other)]
    assert both.log_likelihood(test) == pytest.approx(np.logaddexp(*single) - np.log(2), abs=1e-9)
    data, out = tmp_path / "d.csv", tmp_path / "m.json"
    rows = np.array(list("xyz"))[table.codes.T]
    data.write_text("\n".join(",".join(row) for row in ["abcdefgh", *rows]), encoding="utf-8")
    assert command("fit", data, "--model", "hidden:3,components=2", "--output", out) == 0
    assert isinstance(read_model(out), Mixture)
    assert command("loglik", out, data) == 0
    assert command("fit", data, "--model", "hidden:3,components=2,3", "--output", out) == 2
