"""`jtsolve fit`, `loglik`, `query`, `mpe`, `sample`, `export`, `show` on models: answers, files, refusals."""

from __future__ import annotations

import gzip
import json
from math import exp, log
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from fitting import fit
from random_models import brute, chain, precision_matrix, random_model
from readers import read_numbers, read_states

from jtsolve.cli.inference import parse_assignments
from jtsolve.core.machine import resident_memory
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import InputError
from jtsolve.listing import table
from jtsolve.models.columns import Column
from jtsolve.models.files.document import read_model
from jtsolve.models.files.opening import to_pace, write_model
from jtsolve.models.files.uai import read_uai, to_uai
from jtsolve.models.learning.mixed_tree import fit_mixed
from jtsolve.models.mixed import MixedTreeModel
from jtsolve.models.model import JunctionTreeModel
from jtsolve.networks.files import read_network
from jtsolve.networks.write import to_bif

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Command


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "d.csv"
    codes = np.random.default_rng(1).integers(0, 3, (80, 5))
    codes[:, 1] = codes[:, 0]
    path.write_text("a,b,c,d,e\n" + "\n".join(",".join(map(str, row)) for row in codes), encoding="utf-8")
    return path


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "n.csv"
    values = np.random.default_rng(2).normal(size=(60, 3)) @ np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1.0]])
    path.write_text("x,y,z\n" + "\n".join(",".join(map(str, row)) for row in values), encoding="utf-8")
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.json"
    write_model(random_model(4, 4, zeros=False), path)
    return path


def discrete(path: Path) -> JunctionTreeModel:
    found = read_model(path)
    assert isinstance(found, JunctionTreeModel)
    return found


# fit and loglik


def test_a_model_is_fitted_on_the_best_tree(command: Command, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    facts = command.json("fit", data, "--treewidth", "1", "--score", "bdeu:ess=2", "--output", out)
    found = discrete(out)
    assert facts["smoothing_ess"] == 2.0
    assert facts["parameters"] == found.parameters
    assert found.provenance["tree_score"] == pytest.approx(found.provenance["bound"])
    assert (found.values == fit(found.tree, read_states(data), ess=2).values).all()
    assert any(clique & 0b11 == 0b11 for clique in found.tree.cliques)
    assert command("fit", data, "--treewidth", "1", "--backend", "chowliu", "--output", out) == 0
    assert "smoothing ess" in command.out
    assert command("fit", data, "--treewidth", "1", "--output", out, "--quiet") == 0
    assert command.out == ""


def test_scores_are_computed_on_demand_where_a_table_would_take_long(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtsolve.scoring.scorer.CountingScorer.nanoseconds", 9e5)
    wide = tmp_path / "wide.csv"
    codes = np.random.default_rng(1).integers(0, 3, (40, 120)).tolist()
    wide.write_text("\n".join(",".join(map(str, row)) for row in [[f"V{v}" for v in range(120)], *codes]))
    monkeypatch.setattr("jtsolve.scoring.problem.tabulate_with", lambda *_, **__: pytest.fail("a table"))
    # 7,261 sets would take 6.5 s. The last batch of `chowliu` is empty.
    limits = ("--threads", "1", "--time-limit", "5")
    options = ("--treewidth", "1", "--score", "bic", "--backend", "chowliu", "--output", tmp_path / "m.json")
    assert command("fit", wide, *options, *limits) == 0
    assert discrete(tmp_path / "m.json").tree.treewidth == 1


def test_fit_has_the_data_options_of_score(command: Command, data: Path, tmp_path: Path) -> None:
    out, text = tmp_path / "m.json", tmp_path / "d.txt"
    text.write_text(
        data.read_text(encoding="utf-8").replace(",", ";").replace("0;0;", "none;0;"), encoding="utf-8"
    )
    read = ("--read", "separator=semicolon,missing_values=none")
    options = ("--columns", "e,a,b", "--missing", "state", *read)
    cuts = ("--discretise", "mdlp", "--read", "class_column=c", "--validate", text)
    assert command("fit", text, "--treewidth", "1", *options, *cuts, "--output", out) == 0
    found = discrete(out)
    assert found.names == ("e", "a", "b")
    assert found.columns[1].states == ("1", "2", "?")
    assert command("loglik", out, text, *read) == 0
    assert command("loglik", out, text, "--read", "separator=dot") == 2
    assert "there is no separator 'dot'" in command.err
    result = tmp_path / "r.json"
    assert command("solve", data, "--treewidth", "1", "--output", result, "--quiet") == 0
    assert command("fit", data, "--tree", result, "--columns", "a", "--output", tmp_path / "n.json") == 2
    assert "leave out --columns" in command.err


def test_sets_are_scored_up_to_the_size_that_the_backend_reads(
    command: Command, data: Path, tmp_path: Path
) -> None:
    model = tmp_path / "m.json"
    options = ["--treewidth", "1", "--backend", "consistent:q=2"]
    assert command("fit", data, *options, "--output", model) == 0
    assert json.loads(model.read_text(encoding="utf-8"))["provenance"]["backend"] == "consistent"
    assert command("solve", data, *options) == 0


def test_a_model_is_fitted_on_the_tree_of_a_result(command: Command, data: Path, tmp_path: Path) -> None:
    result, out = tmp_path / "r.json", tmp_path / "m.json.gz"
    assert command("solve", data, "--score", "bic", "--treewidth", "2", "--output", result, "--quiet") == 0
    assert command("fit", data, "--tree", result, "--smoothing", "0", "--output", out) == 0
    names = [set(clique) for clique in json.loads(result.read_text(encoding="utf-8"))["cliques"]]
    found = discrete(out)
    assert [set(entry["clique"]) for entry in command.json("show", out)["tables"]] == names
    assert found.provenance["smoothing_ess"] == 0
    assert found.provenance["tree"] == "r.json"
    assert command("fit", data, "--tree", result, "--drop", "a", "--output", out) == 2
    assert "the columns lack 'a'" in command.err


def test_the_prior_is_chosen_on_validation_rows(command: Command, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    assert command("fit", data, "--treewidth", "2", "--validate", data, "--output", out) == 0
    assert discrete(out).provenance["smoothing_ess"] == 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give --treewidth, --tree or --graph"),
        (["--tree", "r.json", "--graph", "g.json"], "give one of the two"),
        (["--treewidth", "1", "--smoothing", "1", "--validate", "v.csv"], "give one of the two"),
        (["--treewidth", "1", "--backend", "auto:a=1"], "has no options"),
        (["--treewidth", "1", "--smoothing", "-1"], "0 or more"),
    ],
)
def test_unsupported_fits_are_refused(
    command: Command, numbers: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    data = numbers if "gaussian-bic" in options else tmp_path / "s.csv"
    if data != numbers:
        data.write_text("a,b,c\n0,1,0\n1,0,0\n", encoding="utf-8")
    assert command("fit", data, *options, "--output", tmp_path / "m.json") == 2
    assert message in command.err


def test_a_model_does_not_replace_its_data_and_needs_a_known_suffix(command: Command, data: Path) -> None:
    assert command("fit", data, "--treewidth", "1", "--output", data) == 2
    assert "replace the input" in command.err
    assert command("fit", data, "--treewidth", "1", "--output", data.with_name("m.bif")) == 2
    assert "written as .json" in command.err


def test_without_a_tree_within_the_limits_no_model_is_written(
    command: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from jtsolve import solving
    from jtsolve.core.result import Status
    from jtsolve.models.learning import tree

    solve = solving.solve

    def nothing(*arguments: Any) -> Any:
        return replace(solve(*arguments), tree=None, score=None, status=Status.UNKNOWN)

    monkeypatch.setattr(tree, "solve", nothing)
    assert command("fit", data, "--treewidth", "1", "--output", tmp_path / "m.json") == 4
    assert "found no tree within the limits" in command.err


def test_log_likelihoods_of_rows_with_gaps_are_printed_and_written(
    command: Command, data: Path, tmp_path: Path
) -> None:
    out, rows, each = tmp_path / "m.json", tmp_path / "rows.csv", tmp_path / "each.csv"
    command("fit", data, "--treewidth", "2", "--output", out)
    rows.write_text("a,b,c,d,e\n0,0,1,2,\n0,,1,2,1\n1,1,1,1,1\n", encoding="utf-8")
    facts = command.json("loglik", out, rows, "--output", each)
    codes = np.array([[0, 0, 1], [0, -1, 1], [1, 1, 1], [2, 2, 1], [-1, 1, 1]])
    expected = discrete(out).log_likelihood(codes)
    assert pl.read_csv(each)["loglik"].to_list() == expected.tolist()
    assert facts["mean"] == pytest.approx(expected.mean())
    assert facts["rows"] == 3
    assert command("loglik", out, rows, "--missing-values", "NA") == 2
    rows.write_text("a,b,c,d,e\n0,0,1,2,7\n", encoding="utf-8")
    assert command("loglik", out, rows) == 2
    assert "'7' is none of its states" in command.err


def test_impossible_rows_are_counted(command: Command, data: Path, tmp_path: Path) -> None:
    out, rows = tmp_path / "m.json", tmp_path / "rows.csv"
    command("fit", data, "--treewidth", "2", "--smoothing", "0", "--output", out)
    rows.write_text("a,b,c,d,e\n0,1,1,2,0\n", encoding="utf-8")
    facts = command.json("loglik", out, rows)
    assert (facts["impossible_rows"], facts["mean"]) == (1, None)
    assert command("loglik", out, rows) == 0
    assert "impossible rows" in command.out


# Gaussian models


def test_gaussian_models_are_fitted_queried_drawn_and_shown(
    command: Command, numbers: Path, tmp_path: Path
) -> None:
    out = tmp_path / "g.json"
    options = ("--score", "gaussian-bic", "--treewidth", "1", "--output", out)
    assert command("fit", numbers, *options) == 0
    found = read_model(out)
    assert isinstance(found, MixedTreeModel)
    expected = fit_mixed(found.tree, read_numbers(numbers), ess=0.0)
    means = [one.posterior([found.names], {}).means[0].tolist() for one in (found, expected)]
    assert means[0] == means[1]
    assert command.json("loglik", out, numbers)["rows"] == 60
    gaps = tmp_path / "gaps.csv"
    gaps.write_text("z,x,y\n1.5,,0.5\n,?,\n", encoding="utf-8")
    each = found.log_likelihood(np.array([[np.nan, np.nan], [0.5, np.nan], [1.5, np.nan]]))
    assert command.json("loglik", out, gaps)["mean"] == pytest.approx(each.mean())
    gaps.write_text("0.1,high,1\n", encoding="utf-8")
    assert command("loglik", out, gaps, "--read", "header=false") == 2
    assert "'high' is not a finite number" in command.err
    answer = command.json("query", out, "--target", "x,z", "--given", "y=1.5")
    assert len(answer["targets"][0]["covariance"]) == 2
    assert command("query", out, "--given", "y=1.5") == 0
    assert "y" not in [line.split()[0] for line in command.out.splitlines() if line.strip()]
    assert command("query", out, "--target", 'x,"z"') == 0
    assert "cov 2" in command.out
    answer = command.json("mpe", out, "--given", "y=1.5")
    (best,) = answer["best"]
    y = found.names.index("y")
    sigma = np.linalg.inv(precision_matrix(found))
    center = np.array(means[0])
    mean = center + sigma[:, y] / sigma[y, y] * (1.5 - center[y])
    assert [best["values"][name] for name in found.names] == pytest.approx(mean)
    shift = mean - center
    joint = -0.5 * (np.linalg.slogdet(2 * np.pi * sigma)[1] + shift @ np.linalg.solve(sigma, shift))
    of_y = -0.5 * (np.log(2 * np.pi * sigma[y, y]) + shift[y] ** 2 / sigma[y, y])
    assert best["log_density"] == pytest.approx(joint)
    assert best["log_density_given_evidence"] == pytest.approx(joint - of_y)
    assert command("mpe", out, "--given", "y=1.5") == 0
    assert "ln density(all | evidence)" in command.out
    assert command("sample", out, "--rows", "5", "--given", "y=1.5") == 0
    drawn = pl.read_csv(command.out.encode())
    assert drawn["y"].to_list() == [1.5] * 5
    assert drawn["x"].n_unique() == 5
    assert command.json("show", out)["entropy_nats"] > 0
    assert command("show", out) == 0
    assert command("show", out, "--output", tmp_path / "g.svg") == 0
    assert command("export", out, "--to", "td") == 0
    refusals: list[list[str | Path]] = [
        ["mpe", out, "--best", "2"],
        ["mpe", out, "--likelihood", "y=1"],
        ["export", out, "--to", "bif"],
        ["query", out, "--likelihood", "y=1"],
        ["sample", out, "--rows", "1", "--likelihood", "y=1"],
    ]
    for refused in refusals:
        assert command(*refused) == 2
        assert "real" in command.err
    assert command("query", out, "--given", "y=high") == 2
    assert "'high' is not a number" in command.err


# Queries


def test_probabilities_are_printed_given_hard_and_soft_evidence(command: Command, model: Path) -> None:
    found = discrete(model)
    joint = brute(found)
    weights = [float(k + 1) for k in range(found.columns[1].arity)]
    soft = f"V1={':'.join(map(str, weights))}"
    answer = command.json("query", model, "--target", "V3,V2", "--given", "V0=s0", "--likelihood", soft)
    posterior = np.einsum("bcd,b->dc", joint[0], weights)
    assert answer["log_probability_of_evidence"] == pytest.approx(log(posterior.sum()))
    target = answer["targets"][0]
    assert target["variables"] == ["V3", "V2"]
    np.testing.assert_allclose(target["probabilities"], (posterior / posterior.sum()).ravel(), atol=1e-12)
    assert target["states"][0] == ["s0", "s0"]
    assert command("query", model, "--given", "V0=s0") == 0
    assert "ln P(evidence)" in command.out
    assert all(name in command.out for name in found.names)
    assert command("query", model, "--target", "V1") == 0
    assert "ln P(evidence)" not in command.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "X"], "there is no 'X'"),
        (["--given", "X=1"], "does not begin with a variable"),
        (["--given", "V0=s9"], "no state 's9'"),
        (["--given", "V0=s0", "--given", "V0=s0"], "given twice"),
        (["--given", "V0=s0", "--likelihood", "V0=1:1"], "its state is given"),
        (["--likelihood", "V0=1:high"], "'high' is not a number"),
    ],
)
def test_invalid_queries_are_refused(command: Command, model: Path, options: list[str], message: str) -> None:
    assert command("query", model, *options) == 2
    assert message in command.err
    assert command.out == ""


def test_impossible_evidence_and_joints_too_large_are_refused(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    columns = (Column("a", ("x", "y")), Column("b", ("u", "v")))
    tables = (np.array([[0.5, 0.0], [0.0, 0.5]]),)
    write_model(JunctionTreeModel(columns, JunctionTree(2, (0b11,), ()), tables), path)
    assert command("query", path, "--given", "a=x,b=v") == 2
    assert "impossible together" in command.err
    write_model(chain(60), path)
    assert command("query", path, "--target", ",".join(f"V{i}" for i in range(60))) == 4
    assert "e+18 cells" in command.err


def test_states_with_commas_are_parsed() -> None:
    names = ("size", "size of b")
    assert parse_assignments(["size=> 1, <= 2,size of b=x"], names, "--given") == {
        "size": "> 1, <= 2",
        "size of b": "x",
    }
    with pytest.raises(InputError, match="NAME=VALUE"):
        parse_assignments(["x"], names, "--given")


def test_the_best_explanations_are_printed(command: Command, model: Path) -> None:
    joint = brute(discrete(model))
    answer = command.json("mpe", model, "--given", "V0=s0", "--best", "3")
    expected = np.sort(joint[0].ravel())[::-1][:3]
    assert [exp(entry["log_probability"]) for entry in answer["best"]] == pytest.approx(expected.tolist())
    assert all(entry["states"]["V0"] == "s0" for entry in answer["best"])
    assert command("mpe", model) == 0
    assert "best 1" in command.out


def test_rows_are_drawn_to_the_output_or_a_file(command: Command, model: Path, tmp_path: Path) -> None:
    assert command("sample", model, "--rows", "5", "--seed", "3", "--given", "V0=s0") == 0
    lines = command.out.split()
    assert lines[0] == "V0,V1,V2,V3"
    assert all(line.startswith("s0,") for line in lines[1:])
    text = command.out
    for name in ("r.csv", "r.csv.gz"):
        assert (
            command(
                "sample", model, "--rows", "5", "--seed", "3", "--given", "V0=s0", "--output", tmp_path / name
            )
            == 0
        )
    assert (tmp_path / "r.csv").read_text(encoding="utf-8") == text
    assert gzip.decompress((tmp_path / "r.csv.gz").read_bytes()).decode() == text


def test_more_rows_than_the_memory_holds_as_text_are_refused(command: Command, model: Path) -> None:
    # Their codes alone, one byte each, would fit.
    assert command("sample", model, "--rows", str(1 << 31)) == 4
    assert "fewer rows, into several files" in command.err


# Files


def test_models_are_exported_and_networks_of_other_programs_are_read(
    command: Command, model: Path, tmp_path: Path
) -> None:
    expected = discrete(model).marginals()
    files = {to: tmp_path / f"out.{to}" for to in ("bif", "bifxml", "uai", "td", "dot", "json")}
    for to, path in files.items():
        assert command("export", model, "--to", to, "--output", path) == 0
        assert command.out == ""
    assert files["td"].read_text(encoding="utf-8") == to_pace(discrete(model).tree)
    assert files["json"].read_bytes() == model.read_bytes()
    assert len(read_network(files["bif"]).nodes) == 4
    for path in (files["bif"], files["uai"]):
        answer = command.json("query", path)
        for target, single in zip(answer["targets"], expected, strict=True):
            np.testing.assert_allclose(target["probabilities"], single, atol=1e-12)
    np.testing.assert_allclose(read_uai(files["uai"]).marginals()[2], expected[2], atol=1e-12)
    assert command("export", model, "--to", "uai") == 0
    assert command.out == to_uai(discrete(model))
    assert command("export", model, "--to", "bif") == 0
    assert command.out == to_bif(discrete(model).network("a test"))
    assert command("export", model, "--to", "xlsx") == 2
    assert "json, bif, bifxml" in command.err


def test_a_model_is_shown_with_table_sizes_and_information_across_separators(
    command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "m.json"
    write_model(chain(4), path)
    assert command("show", path) == 0
    assert "{V1, V2}  4 cells" in command.out
    assert "sep {V1}  H 0." in command.out
    facts = command.json("show", path)
    assert facts["cells"] == 12
    assert facts["separators"][0]["mutual_information"] > 0
    for name in ("m.png", "m.dot"):
        assert command("show", path, "--output", tmp_path / name) == 0
    assert "\\n4 cells" in (tmp_path / "m.dot").read_text(encoding="utf-8")
    assert (tmp_path / "m.png").read_bytes()[:4] == b"\x89PNG"
    network = tmp_path / "n.bif"
    network.write_text(to_bif(chain(3).network("a test")), encoding="utf-8")
    assert command("show", network) == 0
    assert "8" in command.out


def test_a_result_is_shown_as_json(command: Command, data: Path, tmp_path: Path) -> None:
    result = tmp_path / "r.json"
    command("solve", data, "--score", "bic", "--treewidth", "1", "--output", result, "--quiet")
    assert command.json("show", result) == json.loads(result.read_text(encoding="utf-8"))


def test_printed_tables_escape_control_sequences() -> None:
    assert "\x1b" not in table(["name", "value"], [["\x1b[31mred", 1.5]])


@pytest.mark.parametrize(
    "words",
    [
        "query {model}",
        "mpe {model}",
        "sample {model} --rows 100",
        "impute {model} {data}",
        "loglik {model} {data}",
        "export {model} --to uai",
        "show {model}",
    ],
)
def test_the_memory_limit_counts_what_the_process_holds(
    command: Command, tmp_path: Path, model: Path, words: str
) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("a,b,c\nx,,\n", encoding="utf-8")
    arguments = words.format(model=model, data=data).split()
    assert command(*arguments, "--memory-limit", "0.001") == 4
    assert "GB of which the program holds already, but the limit is 0.001 GB" in command.err


def test_fit_and_query_refuse_tables_beyond_the_memory_limit_in_advance(
    command: Command, tmp_path: Path
) -> None:
    rows = np.random.default_rng(1).integers(0, 150, (600, 3))
    data, model = tmp_path / "codes.csv", tmp_path / "m.json"
    data.write_text("a,b,c\n" + "\n".join(",".join(f"s{v}" for v in row) for row in rows), encoding="utf-8")
    tree = tmp_path / "tree.csv"
    tree.write_text("source,target\na,b\nb,c\na,c\n", encoding="utf-8")
    words = ("fit", data, "--graph", tree, "--quiet", "--output", model)
    held = resident_memory() / 1e9
    assert command(*words, "--memory-limit", str(held + 0.06)) == 4  # 3.4 million cells of 40 bytes
    assert "the tables of the cliques" in command.err
    assert not model.exists()
