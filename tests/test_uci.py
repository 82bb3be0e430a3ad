"""The shipped UCI instances: their scores, their recorded optima, and the scripts that make both."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

import make_uci
import prove
from jtsolve.core.problem import Problem, Variable
from jtsolve.core.result import Result, Status, Stop
from jtsolve.core.scores import DenseScores, colex_table
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import varset
from jtsolve.errors import InputError
from jtsolve.io.instance import read_problem, write_problem
from jtsolve.verify.result import check
from make_uci import make_problem
from prove import Optima, Optimum, known_optima, optima_path, read_optima, run_solve, treewidths_of
from raw_tables import RECIPES, Recipe, read_table

INSTANCES = Path(__file__).parents[1] / "instances" / "uci"

AGREED = (
    ("nursery", None, -125991.575788),
    ("bridges", None, -2630.457413),
    ("flare", None, -6713.663684),
    ("tic-tac-toe", 2, -9694.706378),
    ("tic-tac-toe", 3, -9517.222598),
)
"""Optima on which Junctor and an independent program agree, to 1e-5 (from scores of six decimals)."""

BAYESIAN_NETWORK_OPTIMA = {
    "tic-tac-toe": -9423.068333,
    "zoo": -642.258667,
    "bridges": -2417.735937,
    "flare": -6700.761563,
    "nursery": -125717.168109,
    "voting": -4615.928424,
    "tumor": -4017.069933,
    "lymph": -2203.327739,
}
"""Published or recomputed optima of Bayesian networks under the same score: no junction tree scores more."""


def shipped(name: str) -> Problem:
    return read_problem(INSTANCES / f"{name}.json.gz")


def recorded(name: str) -> Optima:
    path = optima_path(INSTANCES / f"{name}.json.gz")
    assert path.exists(), f"{path.name} is missing: run python instances/prove.py {name}"
    return read_optima(path)


def tree_of(problem: Problem, optimum: Optimum) -> JunctionTree:
    index = {name: v for v, name in enumerate(problem.names)}
    neighbours = [0] * problem.n
    for names in optimum.cliques:
        clique = varset(index[name] for name in names)
        for name in names:
            neighbours[index[name]] |= clique & ~(1 << index[name])
    return JunctionTree.from_neighbours(neighbours)


# The scores.


def test_all_instances_are_shipped() -> None:
    assert {path.name for path in INSTANCES.glob("*.json.gz")} == {f"{name}.json.gz" for name in RECIPES}


@pytest.mark.parametrize("name", ["bridges", "flare", "nursery"])
def test_scores_equal_those_of_junctor(name: str, shared: Path) -> None:
    reference = read_problem(shared / "data" / "scores" / f"{name}.score")
    ours = shipped(name)
    assert reference.n == ours.n
    difference = colex_table(ours.scores, ours.n) - colex_table(reference.scores, ours.n)
    assert np.abs(difference).max() <= 1e-6


@pytest.mark.parametrize("name", RECIPES)
def test_shipped_instance_equals_the_recomputed_one(name: str, shared: Path) -> None:
    again = make_problem(RECIPES[name], shared / "data" / "uci")
    ours = shipped(name)
    assert again.variables == ours.variables
    assert dict(again.provenance) == {**ours.provenance, "jtsolve": again.provenance["jtsolve"]}
    assert isinstance(ours.scores, DenseScores)
    assert isinstance(again.scores, DenseScores)
    # ln and Γ of another C library may differ in the last digit.
    np.testing.assert_allclose(again.scores.values, ours.scores.values, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", RECIPES)
def test_variables_have_their_observed_states(name: str) -> None:
    problem = shipped(name)
    assert problem.name == name
    assert problem.scores.max_size == (problem.n if problem.n <= 13 else 5)
    for variable in problem.variables:
        assert isinstance(variable.states, tuple)
        assert len(set(variable.states)) == len(variable.states) > 0


# Reading raw files.

TOY = Recipe(
    name="toy",
    file="toy.data",
    sha256="",
    columns=("id", "colour", "size", "weight"),
    skip=1,
    drop=("id",),
    quartiles=("weight",),
)
TOY_TEXT = b"header\n1, red,10,0.5\n2,?,9,1\n\n3,red,9,2\n4,blue,x,3\n"


def toy(**changes: object) -> Recipe:
    return replace(TOY, sha256=hashlib.sha256(TOY_TEXT).hexdigest(), **changes)  # type: ignore[arg-type]


def test_raw_values_are_states_and_quartiles_cut(tmp_path: Path) -> None:
    (tmp_path / "toy.data").write_bytes(TOY_TEXT)
    table = read_table(toy(), tmp_path)
    assert table.names == ("colour", "size", "weight")
    assert table.states[0] == ("?", "blue", "red")
    assert table.states[1] == ("9", "10", "x")
    assert table.states[2] == ("< 0.875", ">= 0.875, < 1.5", ">= 1.5, < 2.25", ">= 2.25")
    assert table.codes.T.tolist() == [[2, 1, 0], [0, 0, 1], [2, 0, 2], [1, 2, 3]]
    assert "weight" in table.provenance["coding"]


def test_packed_files_are_unpacked_and_rows_are_limited(tmp_path: Path) -> None:
    (tmp_path / "toy.data.gz").write_bytes(gzip.compress(TOY_TEXT))
    table = read_table(toy(file="toy.data.gz", rows=2, quartiles=()), tmp_path)
    assert table.codes.shape == (3, 2)


def test_another_raw_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "toy.data").write_bytes(TOY_TEXT + b"5,red,9,1\n")
    with pytest.raises(InputError, match=r"toy\.data: its decompressed content has the sha256"):
        read_table(toy(), tmp_path)


def test_a_missing_raw_file_ends_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make_uci.main(["--data", str(tmp_path), "--output", str(tmp_path / "out"), "zoo"]) == 2
    assert "zoo.data: there is no such file" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []


def test_an_unknown_name_ends_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        make_uci.main(["--data", str(tmp_path), "--output", str(tmp_path / "out"), "zebra"])
    assert "no such data set: zebra" in capsys.readouterr().err


def test_the_script_writes_the_same_bytes_twice(tmp_path: Path, shared: Path) -> None:
    written = []
    for _ in range(2):
        data = str(shared / "data" / "uci")
        assert make_uci.main(["--data", data, "--output", str(tmp_path), "nursery"]) == 0
        written.append((tmp_path / "nursery.json.gz").read_bytes())
    assert written[0] == written[1]


# The recorded optima.


@pytest.mark.parametrize("name", RECIPES)
def test_recorded_trees_have_the_recorded_scores(name: str) -> None:
    problem = shipped(name)
    optima = recorded(name)
    assert optima.digest == problem.digest()
    assert [entry.treewidth for entry in optima.optima] == treewidths_of(INSTANCES / f"{name}.json.gz")
    for entry in optima.optima:
        bounded = problem.with_treewidth(entry.treewidth)
        tree = tree_of(bounded, entry)
        result = Result(
            instance=problem.name,
            digest=optima.digest,
            names=problem.names,
            constraints=bounded.constraints,
            backend=entry.proved_by,
            options={},
            status=Status.OPTIMAL,
            stop=Stop.FINISHED,
            tree=tree,
            score=entry.score,
            bound=entry.bound,
            seconds={"total": entry.seconds},
        )
        assert check(bounded, result) == ()
        assert sorted(map(sorted, entry.cliques)) == sorted(
            sorted(problem.names[v] for v in range(problem.n) if clique >> v & 1) for clique in tree.cliques
        )


@pytest.mark.parametrize("name", RECIPES)
def test_recorded_optima_rise_with_the_treewidth_to_the_known_bound(name: str) -> None:
    scores = [entry.score for entry in recorded(name).optima]
    assert all(after >= before - 1e-6 for before, after in pairwise(scores))
    assert scores[-1] <= BAYESIAN_NETWORK_OPTIMA.get(name, 0.0)


@pytest.mark.parametrize(("name", "treewidth", "score"), AGREED)
def test_recorded_optima_are_those_of_other_programs(name: str, treewidth: int | None, score: float) -> None:
    (entry,) = (entry for entry in recorded(name).optima if entry.treewidth == treewidth)
    assert entry.score == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("name", RECIPES)
def test_recorded_forests_have_the_weight_of_kruskals(name: str) -> None:
    """Chow and Liu: the best forest has the greatest sum of gains s(ab) - s(a) - s(b)."""
    problem = shipped(name)
    score = problem.scores.score
    alone = [score(1 << v) for v in range(problem.n)]
    gains = sorted(
        (alone[a] + alone[b] - score(1 << a | 1 << b), a, b) for b in range(problem.n) for a in range(b)
    )
    part = list(range(problem.n))
    total = sum(alone)
    for loss, a, b in gains:
        if loss < 0 and part[a] != part[b]:
            total -= loss
            part = [part[a] if other == part[b] else other for other in part]
    assert recorded(name).optima[0].score == pytest.approx(total, abs=1e-6)


def test_the_table_of_optima_is_up_to_date() -> None:
    text = (INSTANCES.parent / "README.md").read_text(encoding="utf-8")
    again = prove.with_table(text, prove.optima_table(INSTANCES))
    assert text == again, "run python instances/prove.py --table"


# The script that proves.


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    values = np.random.default_rng(3).normal(size=16)
    values[0] = 0.0
    path = tmp_path / "tiny.json.gz"
    write_problem(Problem(tuple(map(Variable, "ABCD")), DenseScores(4, 4, values), name="tiny"), path)
    return path


def entry_of(treewidth: int | None, score: float) -> Optimum:
    return Optimum(treewidth, score, score, [["A", "B", "C", "D"]], "dp", {}, "", 0.0, {})


def test_prove_writes_each_optimum_and_resumes(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[int | None] = []

    def run_until_treewidth_3(_instance: Path, treewidth: int | None, _extra: list[str]) -> Optimum:
        if treewidth == 3 and 3 not in ran:
            ran.append(3)
            raise RuntimeError("out of memory")
        ran.append(treewidth)
        return entry_of(treewidth, -1.0)

    monkeypatch.setattr(prove, "run_solve", run_until_treewidth_3)
    folder = ["--folder", str(tiny.parent)]
    assert prove.main(folder) == 1
    assert "out of memory" in capsys.readouterr().err
    assert [entry.treewidth for entry in known_optima(tiny).optima] == [1, 2]
    assert prove.main([*folder, "tiny"]) == 0
    assert ran == [1, 2, 3, 3, 4, None]
    assert prove.main([*folder, "--treewidth", "2", "--again"]) == 0
    assert ran[6:] == [2]
    assert [entry.treewidth for entry in known_optima(tiny).optima] == [1, 2, 3, 4, None]


def test_prove_rewrites_the_table(tiny: Path) -> None:
    folder = tiny.parent / "uci"
    folder.mkdir()
    tiny.rename(folder / tiny.name)
    readme = tiny.parent / "README.md"
    readme.write_text(f"above\n{prove.TABLE_BEGIN}\nold\n{prove.TABLE_END}\nbelow\n")
    prove.write_optima(
        prove.add_optimum(known_optima(folder / tiny.name), entry_of(2, -1.25)),
        optima_path(folder / tiny.name),
    )
    assert prove.main(["--folder", str(folder), "--table"]) == 0
    lines = readme.read_text().splitlines()
    assert lines[0] == "above"
    assert lines[4] == "| tiny | 4 | 4 |  | -1.250000 |  |  |  |"
    assert lines[6] == "below"


def test_optima_of_other_scores_are_not_kept(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stale = msgspec.structs.replace(known_optima(tiny), digest="sha256:0", optima=[entry_of(1, -1.0)])
    prove.write_optima(stale, optima_path(tiny))
    assert known_optima(tiny).optima == []
    assert "its scores have changed" in capsys.readouterr().out


def test_prove_runs_the_command_line(tiny: Path) -> None:
    optimum = run_solve(tiny, 2, ["--threads", "1"])
    assert optimum.command == "jtsolve solve tiny.json.gz --treewidth 2 --threads 1"
    assert optimum.score == pytest.approx(optimum.bound, abs=1e-6)
    assert set(optimum.versions) == {"jtsolve", "python", "numpy", "numba"}
    assert optimum.machine["threads"] == 1


def test_prove_mistakes_no_failure_for_an_optimum(tiny: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match=r"tiny\.json\.gz, treewidth 2: exit code 4"):
        run_solve(tiny, 2, ["--memory-limit", "0.000001"])
    assert capfd.readouterr().out == ""


def test_prove_mistakes_no_feasible_tree_for_an_optimum(tiny: Path) -> None:
    with pytest.raises(RuntimeError, match="feasible, not optimal"):
        run_solve(tiny, 2, ["--backend", "forward"])
