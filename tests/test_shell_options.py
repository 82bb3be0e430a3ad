"""Constraints, validation rows and continued comparisons from the shell."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jtsolve.cli import run
from jtsolve.core.problem import Constraints
from jtsolve.errors import InputError
from jtsolve.io.instance import read_problem
from jtsolve.io.result import read_result

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    Call: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: str | Path) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments], time.monotonic())
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """A chain of copies with noise, a – b – c – d."""
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, 2, 300)]
    for _ in range(3):
        columns.append(np.where(rng.random(300) < 0.85, columns[-1], 1 - columns[-1]))
    path = tmp_path / "chain.csv"
    path.write_text("\n".join(["a,b,c,d", *(",".join(map(str, row)) for row in np.array(columns).T)]) + "\n")
    return path


def cliques(path: Path) -> set[str]:
    return {"".join(clique) for clique in read_result(path).cliques}


def test_constraints_hold_for_data_and_instances(command: Call, chain: Path, tmp_path: Path) -> None:
    result, instance = tmp_path / "r.json", tmp_path / "i.json"
    assert command("solve", chain, "--treewidth", "1", "--output", result)[0] == 0
    assert cliques(result) == {"ab", "bc", "cd"}
    asked = ["--forbid", "a,b", "--require", "a,d"]
    asked += ["--constraint", "min_separator_size=1", "--constraint", "forbidden_cliques=b,c"]
    assert command("solve", chain, "--treewidth", "1", *asked, "--output", result)[0] == 0
    of_data = cliques(result)
    assert "ad" in of_data
    assert not of_data & {"ab", "bc"}
    assert command("score", chain, "--max-size", "2", "--output", instance)[0] == 0
    assert command("solve", instance, "--treewidth", "1", *asked, "--output", result)[0] == 0
    assert cliques(result) == of_data
    assert command("score", chain, "--max-size", "2", *asked, "--output", instance)[0] == 0
    assert command("solve", instance, "--treewidth", "1", "--output", result)[0] == 0
    assert cliques(result) == of_data
    assert read_problem(instance).constraints.min_separator_size == 1
    few = ["--max-size", "3", "--constraint", "max_cliques=2"]
    assert command("solve", chain, *few, "--output", result)[0] == 0
    assert len(cliques(result)) <= 2
    apart = ["--treewidth", "2", "--constraint", "max_separator_size=0"]
    assert command("solve", chain, *apart, "--output", result)[0] == 0
    assert set(map(len, read_result(result).separators)) <= {0}


def test_averages_and_draws_are_of_graphs_that_meet_the_constraints(command: Call, chain: Path) -> None:
    asked = ["--treewidth", "1", "--forbid", "a,b"]
    code, out, _ = command("average", chain, "--trees", "5", *asked)
    assert code == 0
    assert all(["a", "b"] not in json.loads(line)["cliques"] for line in out.splitlines())
    assert command("average", chain, *asked, "--quiet")[0] == 0
    code, _, err = command("average", chain, "--treewidth", "1", "--constraint", "max_cliques=2")
    assert code == 2
    assert "max_cliques" in err


def test_a_result_is_checked_under_the_constraints_of_its_run(
    command: Call, chain: Path, tmp_path: Path
) -> None:
    result, instance = tmp_path / "r.json", tmp_path / "i.json"
    assert command("score", chain, "--max-size", "2", "--output", instance)[0] == 0
    asked = ["--forbid", "a,b", "--require", "a,d"]
    assert command("solve", instance, "--treewidth", "1", *asked, "--output", result)[0] == 0
    code, _, err = command("check", instance, result)
    assert code == 1
    for name in ("forbidden_edges", "required_edges"):
        assert f"made with other {name} than the problem requires; give 'jtsolve check' the constraint" in err
    assert command("check", instance, result, *asked)[0] == 0
    assert command("check", instance, result, *asked, "--forbid", "b,c")[0] == 1
    assert "--forbid: for results only" in command("check", instance, "--forbid", "a,b")[2]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.toml", 'max_treewidth = 1\nforbidden_edges = [["a", "b"]]\n'),
        ("c.json", '{"max_treewidth": 1, "forbidden_edges": [["a", "b"]]}'),
    ],
)
def test_constraints_are_read_from_a_file(
    name: str, text: str, command: Call, chain: Path, tmp_path: Path
) -> None:
    path, result = tmp_path / name, tmp_path / "r.json"
    path.write_text(text)
    assert command("solve", chain, "--constraint", path, "--forbid", "b,c", "--output", result)[0] == 0
    assert not cliques(result) & {"ab", "bc"}
    assert read_result(result).treewidth == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--forbid", "a"], "--forbid a: an edge joins two variables"),
        (["--forbid", "a,z"], "there is no variable 'z'. Fix: use one of 'a', 'b', 'c', 'd'."),
        (["--forbid", "a,b", "--require", "a,b"], "edge a – b is both required and forbidden"),
        (["--constraint", "c.toml", "--require", "a,b"], "edge a – b is both required and forbidden"),
        (["--constraint", "wrong.toml"], "docs/formats.md"),
        (["--constraint", "broken.json"], "it cannot be read"),
    ],
)
def test_wrong_constraints_are_named(
    words: list[str], message: str, command: Call, chain: Path, tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text('forbidden_edges = [["a", "b"]]')
    (tmp_path / "wrong.toml").write_text('forbidden = [["a", "b"]]')
    (tmp_path / "broken.json").write_text("{")
    placed = [tmp_path / word if word.endswith(("toml", "json")) else word for word in words]
    for first in (
        ["solve", chain, "--treewidth", "1"],
        ["score", chain, "--max-size", "2", "--output", tmp_path / "i.json"],
    ):
        code, out, err = command(*first, *placed)
        assert (code, message in err) == (2, True), err
        assert "scored in" not in out  # nothing has been scored for nothing


def test_joined_constraints_are_both() -> None:
    one = Constraints(max_treewidth=3, min_separator_size=1, allowed_separators=frozenset({1, 2}))
    two = Constraints(max_treewidth=2, max_cliques=4, allowed_separators=frozenset({2, 4}))
    both = one.joined(two)
    assert both == two.joined(one)
    assert (both.max_treewidth, both.min_separator_size, both.max_cliques) == (2, 1, 4)
    assert both.allowed_separators == frozenset({2})
    assert one.joined(Constraints()) == one
    with pytest.raises(InputError, match="both required and forbidden"):
        Constraints(forbidden_edges=frozenset({3})).joined(Constraints(required_edges=frozenset({3})))


def test_fit_reports_the_gap_of_its_tree_and_accepts_constraints(
    command: Call, chain: Path, tmp_path: Path
) -> None:
    model = tmp_path / "m.json"
    code, out, _ = command("fit", chain, "--treewidth", "1", "--forbid", "a,b", "--output", model)
    assert code == 0
    for word in ("status", "optimal", "tree score", "bound", "gap"):
        assert word in out
    code, out, _ = command("fit", chain, "--treewidth", "1", "--forbid", "a,b", "--json", "--output", model)
    facts = json.loads(out)
    assert (facts["status"], facts["gap"]) == ("optimal", pytest.approx(0.0, abs=1e-6))
    assert json.loads(model.read_text())["provenance"]["tree_score"] == facts["tree_score"]
    more = ["--model", "mixture:components=2", "--forbid", "a,b"]
    assert command("fit", chain, "--treewidth", "1", *more, "--output", model)[0] == 0
    infeasible = ["--forbid", "a,b", "--forbid", "a,c", "--forbid", "a,d"]
    infeasible += ["--constraint", "min_separator_size=1"]
    code, _, err = command("fit", chain, "--treewidth", "1", *infeasible, "--output", model)
    assert (code, "no tree meets the constraints" in err) == (2, True)


def test_a_given_tree_accepts_no_constraints(command: Call, chain: Path, tmp_path: Path) -> None:
    result, model = tmp_path / "r.json", tmp_path / "m.json"
    assert command("solve", chain, "--treewidth", "1", "--output", result)[0] == 0
    code, _, err = command("fit", chain, "--tree", result, "--forbid", "a,b", "--output", model)
    assert (code, "leave out constraints" in err) == (2, True)
    assert command("fit", chain, "--tree", result, "--output", model)[0] == 0


def test_values_of_validation_alone_get_the_share_of_the_prior(
    command: Call, chain: Path, tmp_path: Path
) -> None:
    train, validation, model = tmp_path / "t.csv", tmp_path / "v.csv", tmp_path / "m.json"
    lines = chain.read_text().splitlines()
    train.write_text("\n".join([f"{line},{'e' if i == 0 else 0}" for i, line in enumerate(lines)]) + "\n")
    validation.write_text("a,b,c,d,e\n0,0,1,1,0\n1,1,1,?,7\n")
    words: list[str | Path] = ["fit", train, "--treewidth", "1", "--validate", validation, "--output", model]
    assert command(*words)[0] == 0
    found = json.loads(model.read_text())
    assert found["provenance"]["states_of_validation"] == {"e": ["7"]}
    assert next(v for v in found["variables"] if v["name"] == "e")["states"] == ["0", "7"]
    assert json.loads(command("loglik", model, validation, "--json")[1])["impossible_rows"] == 0


def test_validation_rows_are_read_before_the_search(
    command: Call, chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_more: object) -> None:
        raise AssertionError

    monkeypatch.setattr("jtsolve.scoring.problem.plan_scores", fail)
    validation = tmp_path / "v.csv"
    validation.write_text("a,b,c\n0,0,1\n")
    words: list[str | Path] = ["--treewidth", "1", "--validate", validation, "--output", tmp_path / "m.json"]
    code, _, err = command("fit", chain, *words)
    assert (code, "there is none called 'd'" in err) == (2, True)


def test_loglik_sums_out_missing_columns_and_counts_weights(
    command: Call, chain: Path, tmp_path: Path
) -> None:
    model, rows = tmp_path / "m.json", tmp_path / "rows.csv"
    assert command("fit", chain, "--treewidth", "1", "--output", model)[0] == 0
    rows.write_text("a,b,c,d,w\n0,0,0,1,3\n1,?,1,1,1\n")

    def facts(*more: str) -> dict[str, float]:
        code, out, err = command("loglik", model, rows, "--json", *more)
        assert code == 0, err
        found: dict[str, float] = json.loads(out)
        return found

    plain, weighted = facts(), facts("--weights", "w")
    assert (plain["rows"], weighted["rows"]) == (2, 4)
    assert facts("--drop", "b,c,d")["mean"] == pytest.approx(facts("--drop", "b", "--drop", "c,d")["mean"])
    assert facts("--drop", "b")["mean"] > plain["mean"]
    for words, message in (
        (["--missing", "refuse"], "rows are not changed here; give sum or state"),
        (["--drop", "a,b,c,d"], "--drop leaves out every variable"),
    ):
        code, _, err = command("loglik", model, rows, *words)
        assert (code, message in err) == (2, True)
