"""Mixtures in files and on the command line: round trips, refusals, and fits that are stopped early."""

from __future__ import annotations

import csv
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
import schemas
from fitting import fit, fitted, run_for
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_model
from runs import ImpatientRun
from test_mixtures import mixture_of, table_of, two_parts

from jtsolve.core.result import Stop
from jtsolve.core.run import Limits, Run
from jtsolve.errors import InputError, JtsolveError, LimitError
from jtsolve.models.files.document import model_to_json, read_model
from jtsolve.models.files.opening import write_model
from jtsolve.models.learning.mixture_em import Mixtures
from jtsolve.models.mixture import Mixture
from jtsolve.models.model import JunctionTreeModel

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Command

    from jtsolve.tables.table import DataTable


def write_table(path: Path, table: DataTable) -> Path:
    lines = [",".join(table.names), *(",".join(map(str, row)) for row in table.codes.T.tolist())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def train(tmp_path: Path) -> Path:
    return write_table(tmp_path / "train.csv", two_parts(600, 1))


@pytest.fixture
def valid(tmp_path: Path) -> Path:
    return write_table(tmp_path / "valid.csv", two_parts(400, 2))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "mixture.json"
    write_model(mixture_of(3), path)
    return path


def mixture(path: Path) -> Mixture:
    found = read_model(path)
    assert isinstance(found, Mixture)
    return found


# Files


@pytest.mark.parametrize("name", ["m.json", "m.json.gz"])
@pytest.mark.parametrize("seed", range(5))
def test_a_mixture_comes_back_from_its_file_to_the_bit(tmp_path: Path, seed: int, name: str) -> None:
    parts = [random_model(seed, 5), random_model(seed, 5)]
    weights = np.random.default_rng(seed).dirichlet([1, 1])
    written = Mixture(weights, tuple(parts), {"seed": seed})
    write_model(written, tmp_path / name)
    found = mixture(tmp_path / name)
    assert np.array_equal(found.weights, weights)
    assert found.columns == written.columns
    assert dict(found.provenance) == {"seed": seed}
    for part, other in zip(parts, found.components, strict=True):
        assert isinstance(other, JunctionTreeModel)
        assert part.tree == other.tree
        assert np.array_equal(part.values, other.values)
    assert model_to_json(found) == model_to_json(written)


def test_files_of_mixtures_follow_the_schema(model: Path) -> None:
    document = json.loads(model.read_bytes())
    jsonschema.validate(document, schemas.MODEL)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"cliques": []}, schemas.MODEL)


BASE = json.loads(model_to_json(mixture_of(3)))


def with_part(**change: Any) -> dict[str, Any]:
    """The components, the second of them changed."""
    parts = BASE["components"]
    return {"components": [parts[0], parts[1] | change, parts[2]]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version"),
        ({"kind": "mix"}, "'mix'"),
        ({"kind": "discrete"}, "weights"),
        ({"mean": None}, "unknown field 'mean'"),
        ({"weights": [0.5, 0.5]}, r"\$\.weights: 3 components"),
        ({"weights": [0.5, 0.5, 0.5]}, "sum to 1"),
        ({"weights": [1.5, -0.5, 0.0]}, "sum to 1"),
        ({"weights": []}, "length"),
        ({"components": []}, "length"),
        ({"variables": [{"name": "p"}, *BASE["variables"][1:]]}, "need states"),
        ({"variables": [BASE["variables"][0]] * 4}, "occurs twice"),
        (with_part(cliques=[["s", "p"]]), r"components\[1\]\.cliques\[0\]: its members are not variables"),
        (with_part(tables=[]), r"components\[1\]\.tables: 2 cliques need as many"),
        (with_part(tables=["AAAA", "AAAA"]), r"components\[1\]\.tables\[0\]: it holds 3 bytes"),
        (with_part(tree_edges=[]), r"components\[1\]\.cliques"),
        (with_part(weight=1), "unknown field 'weight'"),
    ],
)
def test_a_mixture_with_anything_wrong_is_refused_at_its_place(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(BASE | change), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_model(path)


@given(st.data())
@settings(deadline=None, max_examples=100)
def test_a_damaged_mixture_gives_an_error_of_ours_or_a_model(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    text = bytearray(model_to_json(mixture_of(1, (0.25, 0.75))))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.getbasetemp() / "damaged-mixture.json"
    path.write_bytes(bytes(text) or b"x")
    try:
        read_model(path)
    except JtsolveError:
        return


# Fitting on the command line


def test_a_mixture_is_fitted_as_in_python(command: Command, train: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    options = ("--model", "mixture:2,restarts=2", "--treewidth", "1", "--score", "bic", "--seed", "3")
    facts = command.json("fit", train, *options, "--smoothing", "2", "--output", out)
    found = mixture(out)
    expected = fitted(Mixtures((2,), restarts=2), two_parts(600, 1), treewidth=1, ess=2.0, seed=3)
    # The file's states may be numbered in another order: rows are compared by the probability they have.
    rows = np.unique(two_parts(600, 1).codes, axis=1)
    order = [[column.states.index(label) for label in ("0", "1")] for column in found.columns]
    codes = np.array([np.array(own)[row] for own, row in zip(order, rows, strict=True)])
    assert found.log_likelihood(codes) == pytest.approx(expected.log_likelihood(rows), abs=0.05)
    assert [part["weight"] for part in facts["parts"]] == found.weights.tolist()
    assert facts["parameters"] == found.parameters
    assert facts["stop"] == "finished"
    assert found.provenance["backend"] == "forward"
    assert found.provenance["smoothing_ess"] == 2.0


def test_validation_rows_choose_the_size_and_one_component_is_a_tree(
    command: Command, train: Path, valid: Path, tmp_path: Path
) -> None:
    out = tmp_path / "m.json"
    options = ("--treewidth", "1", "--validate", valid, "--output", out)
    assert command("fit", train, "--model", "mixture:1,2", *options) == 0, command.err
    assert "sizes tried" in command.out
    assert "weights" in command.out
    assert len(mixture(out).components) == 2
    facts = command.json("fit", train, "--model", "mixture:1", "--backend", "chowliu", *options)
    single = read_model(out)
    assert isinstance(single, JunctionTreeModel)
    assert single.provenance["backend"] == "chowliu"
    assert [size["components"] for size in facts["sizes_tried"]] == [1]
    assert command("mpe", out) == 0


def test_validation_rows_may_have_gaps(command: Command, train: Path, tmp_path: Path) -> None:
    rows = tmp_path / "gaps.csv"
    rows.write_text("a,b,c,d,e,f\n0,?,0,1,0,1\n1,1,1,?,1,1\n", encoding="utf-8")
    out = tmp_path / "m.json"
    options = ("--model", "mixture", "--treewidth", "1", "--validate", rows, "--output", out)
    facts = command.json("fit", train, *options)
    codes = np.array([[0, 1], [-1, 1], [0, 1], [1, -1], [0, 1], [1, 1]])
    expected = mixture(out).log_likelihood(codes).mean()
    assert facts["sizes_tried"][0]["validation_log_likelihood"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "mixture:2,4", "--treewidth", "1"], "give --validate"),
        (["--model", "mixture:two", "--treewidth", "1"], "'components' of model 'mixture' cannot be 'two'"),
        (["--model", "mixture:4,2", "--treewidth", "1"], "increasing numbers"),
        (["--model", "mixture:0", "--treewidth", "1"], "increasing numbers"),
        (["--model", "mixture:none", "--treewidth", "1"], "increasing numbers"),
        (["--model", "mixture"], "give --treewidth"),
        (["--model", "tree:restarts=2", "--treewidth", "1"], "no option 'restarts'"),
        (["--model", "mixture", "--treewidth", "1", "--backend", "auto:seed=1"], "has no options"),
        (["--model", "mixture", "--treewidth", "1", "--smoothing", "0"], "above 0"),
        (["--model", "mixture:700", "--treewidth", "1"], "distinct rows"),
    ],
)
def test_an_invalid_mixture_is_refused(
    command: Command, train: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    out = tmp_path / "m.json"
    assert command("fit", train, *options, "--output", out) == 2
    assert message in command.err
    assert command.out == ""
    assert not out.exists()


def test_a_mixture_learns_its_own_trees(command: Command, train: Path, tmp_path: Path) -> None:
    tree, out = tmp_path / "tree.json", tmp_path / "m.json"
    assert command("solve", train, "--treewidth", "1", "--backend", "chowliu", "--output", tree) == 0
    assert command("fit", train, "--model", "mixture", "--tree", tree, "--output", out) == 2
    assert "the model 'mixture' does not use --tree" in command.err
    assert not out.exists()


# Ends


def test_a_fit_without_time_ends_with_an_error(command: Command, train: Path, tmp_path: Path) -> None:
    arguments = ("--model", "mixture", "--treewidth", "1", "--output", tmp_path / "m.json")
    assert command("fit", train, *arguments, "--time-limit", "1e-9") == 4
    assert "the time limit ended the reading" in command.err


def mean(found: Mixture, table: DataTable) -> float:
    return float(found.log_likelihood(table).mean())


def test_the_time_limit_ends_a_fit_with_the_mixture_so_far() -> None:
    table = two_parts(500, 4)
    whole = fitted(Mixtures((3,)), table, treewidth=1)
    assert whole.provenance["stop"] == "finished"
    run = ImpatientRun(8, Stop.TIME)
    found = fitted(Mixtures((3,)), table, treewidth=1, run=run)
    assert found.provenance["stop"] == "time"
    assert len(found.components) == 3
    assert run.asked < 30
    assert mean(found, table) <= mean(whole, table) + 1e-9


def interrupted_at(words: str) -> Run:
    """Returns a run that is interrupted at the first note with these words."""

    def act(run: Run, note: str) -> None:
        if words in note:
            run.interrupt()

    return run_for(act=act)


@pytest.mark.parametrize("at", ["round 2", "iteration 2", "iteration 1", "tree 2"])
def test_ctrl_c_keeps_the_best_mixture(at: str) -> None:
    found = fitted(Mixtures(), two_parts(300, 5), treewidth=1, run=interrupted_at(at))
    assert found.provenance["stop"] == "interrupted"
    assert len(found.components) == 2


def test_ctrl_c_after_the_first_start_keeps_the_likelier_mixture() -> None:
    table, starts = two_parts(300, 5), []

    def act(run: Run, note: str) -> None:
        if note.startswith("round 1, iteration 1:"):
            starts.append(note)
            if len(starts) == 2:
                run.interrupt()

    found = fitted(Mixtures(restarts=3), table, treewidth=1, run=run_for(act=act))
    assert len(starts) == 2
    assert found.provenance["stop"] == "interrupted"
    assert mean(found, table) >= mean(fitted(Mixtures(), table, treewidth=1), table) - 1e-9


@pytest.mark.parametrize("validation", [None, two_parts(300, 6)])
def test_ctrl_c_before_the_first_tree_leads_to_forests(validation: DataTable | None) -> None:
    run = run_for()
    run.interrupt()
    found = fitted(Mixtures(), two_parts(300, 5), validation, treewidth=1, backend="chowliu", run=run)
    assert found.provenance["stop"] == "interrupted"


def test_ctrl_c_while_sizes_are_tried_keeps_the_best_size() -> None:
    train, valid = two_parts(400, 1), two_parts(400, 2)
    run = interrupted_at("components 2, treewidth 1: ")
    found = fitted(Mixtures((1, 2, 4)), train, valid, treewidth=1, run=run)
    assert found.provenance["stop"] == "interrupted"
    assert len(found.components) == 2


def test_an_interrupted_size_is_compared_with_the_size_before() -> None:
    train, valid = table_of(300, 1), table_of(300, 2)
    run = interrupted_at("tree 1 of 2")
    found = fitted(Mixtures((1, 2)), train, valid, treewidth=1, backend="brute", run=run)
    assert isinstance(found, JunctionTreeModel)
    assert found.provenance["stop"] == "interrupted"
    assert [size["components"] for size in found.provenance["sizes_tried"]] == [1, 2]


def test_a_size_that_is_cut_short_is_tried_with_the_prior_it_has() -> None:
    train, valid = two_parts(400, 1), two_parts(400, 2)
    run = interrupted_at("round 1, iteration 9")
    found = fitted(Mixtures((2, 4)), train, valid, treewidth=1, run=run)
    assert found.provenance["stop"] == "interrupted"
    assert found.provenance["smoothing_ess"] == 1.0
    assert len(found.provenance["sizes_tried"]) == 1


def test_a_limit_of_memory_is_not_mistaken_for_the_end() -> None:
    train, valid = two_parts(100, 1), two_parts(100, 2)
    with pytest.raises(LimitError, match="memory"):
        fitted(Mixtures((1,)), train, valid, treewidth=1, run=Run(Limits(memory=1)))


def test_sigterm_acts_as_ctrl_c_and_the_mixture_is_written(
    command: Command, train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def progress(self: Run, *, note: str | None = None, **news: Any) -> bool:
        if note is not None and note.startswith("round 1, iteration 2:"):
            os.kill(os.getpid(), signal.SIGTERM)
        return reported(self, note=note, **news)

    reported = Run.progress
    monkeypatch.setattr(Run, "progress", progress)
    before = signal.getsignal(signal.SIGTERM)
    out = tmp_path / "m.json"
    assert command("fit", train, "--model", "mixture", "--treewidth", "1", "--output", out) == 0
    assert signal.getsignal(signal.SIGTERM) == before
    assert "interrupted: the best model so far" in command.out
    assert len(mixture(out).components) == 2


def test_another_thread_fits_and_leaves_signals_alone(command: Command, train: Path, tmp_path: Path) -> None:
    arguments = ("fit", train, "--model", "mixture", "--treewidth", "1", "--output", tmp_path / "m.json")
    before = signal.getsignal(signal.SIGTERM)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(command, *arguments).result() == 0
    assert signal.getsignal(signal.SIGTERM) == before


# Commands


def test_commands_answer_as_the_mixture_does(command: Command, model: Path, tmp_path: Path) -> None:
    found = mixture(model)
    target = command.json("query", model, "--target", "s,q", "--given", "p=yes")
    known = found.condition({"p": "yes"})
    assert target["log_probability_of_evidence"] == pytest.approx(known.log_probability)
    expected = known.model.posterior([("s", "q")], {}).tables[0].ravel()
    assert target["targets"][0]["probabilities"] == pytest.approx(expected)
    singles = command.json("query", model)["targets"]
    assert singles[1]["probabilities"] == pytest.approx(found.posterior([("q",)], {}).tables[0])
    assert command("sample", model, "--rows", "5", "--seed", "2") == 0
    drawn, codes = list(csv.DictReader(command.out.splitlines())), found.sample(5, 2)
    assert [row["q"] for row in drawn] == [found.columns[1].states[code] for code in codes[1]]
    rows = tmp_path / "rows.csv"
    rows.write_text("p,q,r,s\nno,b,1,y\nyes,?,0,x\n", encoding="utf-8")
    facts = command.json("loglik", model, rows)
    logs = found.log_likelihood(np.array([[0, 1], [1, -1], [1, 0], [1, 0]]))
    assert facts["mean"] == pytest.approx(logs.mean())


def test_show_lists_the_weights_and_the_trees(command: Command, model: Path) -> None:
    assert command("show", model) == 0
    for words in ("component 3", "0.3", "{p, q, r}  12 cells", "sep"):
        assert words in command.out
    assert not any(line.endswith(" ") for line in command.out.splitlines())
    facts = command.json("show", model)
    assert [part["weight"] for part in facts["parts"]] == [0.5, 0.3, 0.2]
    assert facts["parts"][1]["tables"][0] == {"clique": ["p", "q", "r"], "cells": 12}


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["mpe"], "the most probable explanation"),
        (["export", "--to", "bif"], "bif"),
        (["export", "--to", "uai"], "uai"),
        (["export", "--to", "td"], "td"),
        (["export", "--to", "dot"], "dot"),
        (["show", "--output", "m.dot"], "a drawing"),
    ],
)
def test_requests_for_one_tree_are_refused_with_the_reason(
    command: Command, model: Path, arguments: list[str], what: str
) -> None:
    assert command(arguments[0], model, *arguments[1:]) == 2
    assert f"{what} is for models of one junction tree" in command.err
    assert "a sum of 3 trees has no junction tree" in command.err
    assert command.out == ""


def test_a_mixture_is_exported_as_json(command: Command, model: Path) -> None:
    assert command("export", model, "--to", "json") == 0
    assert command.out.encode() == model.read_bytes()


def test_more_shares_than_memory_are_refused() -> None:
    run = Run(Limits(memory=1000))
    with pytest.raises(LimitError, match="responsibilities"):
        fitted(Mixtures((4,)), two_parts(100, 1), treewidth=1, run=run)


def test_a_memory_limit_holds_for_mixtures(command: Command, train: Path, tmp_path: Path) -> None:
    arguments = ("--model", "mixture", "--treewidth", "1", "--output", tmp_path / "m.json")
    assert command("fit", train, *arguments, "--memory-limit", "0.001") == 4
    assert "limit is 0.001 GB" in command.err


def test_the_smoothing_that_was_chosen_is_in_the_remarks() -> None:
    train, valid = two_parts(300, 1), two_parts(300, 2)
    found = fitted(Mixtures((1,)), train, valid, treewidth=1)
    expected = fit(found.tree, train, ess=found.provenance["smoothing_ess"])
    assert found.values == pytest.approx(expected.values)
