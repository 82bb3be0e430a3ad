"""`jt.Model`: the answers of the commands on models, frames of the kind that came in, files by suffix."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from random_models import chain, random_model, random_network

import jtsolve as jt
from jtsolve.core.formats import MODEL
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.models.mixture import Mixture
from jtsolve.models.model import JunctionTreeModel
from jtsolve.models.network import NetworkModel
from jtsolve.networks.files import read_network
from jtsolve.networks.write import to_bif

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Command

FRAME = pd.DataFrame(
    {"a": [0, 1] * 30, "b": [True, True, False] * 20, "c": ["x", "y", "y", "x"] * 15},
    index=[f"r{i}" for i in range(60)],
)


@pytest.fixture(scope="module")
def fitted() -> jt.Model:
    return jt.learn(FRAME, treewidth=1).fit()


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """A network whose largest clique has 8^7 cells: pairs of seven causes have a common effect each."""
    path = tmp_path / "wide.bif"
    pairs = [(u, v) for v in range(7) for u in range(v)]
    network = random_network([8] * 7 + [2] * len(pairs), [*[()] * 7, *pairs], 0)
    path.write_text(to_bif(network), encoding="utf-8")
    return path


# Frames


def test_answers_about_a_frame_are_of_its_kind_with_its_index(fitted: jt.Model, tmp_path: Path) -> None:
    fitted.write(tmp_path / "m.json")
    for model in (fitted, jt.Model.read(tmp_path / "m.json")):
        asked = FRAME[:7].assign(b=None)
        for answer in (model.predict(asked, "b"), model.loglik(asked), model.impute(asked)):
            assert answer.index.equals(asked.index)
        assert isinstance(model.impute(asked), pd.DataFrame)
        assert model.impute(asked)["a"].tolist() == FRAME["a"][:7].tolist()
        assert model.predict(asked, "b", probabilities=True).index.equals(asked.index)
        other = pl.from_pandas(asked.assign(b=pd.Series(dtype=bool)))
        assert isinstance(model.predict(other, "b"), pl.Series)
        assert isinstance(model.impute(other), pl.DataFrame)
        assert model.predict(other, "b").to_list() == model.predict(asked, "b").tolist()
    assert isinstance(fitted.sample(3), pd.DataFrame)
    assert isinstance(jt.Model.read(tmp_path / "m.json").sample(3), pl.DataFrame)


def test_gaps_are_filled_with_the_most_probable_completion(fitted: jt.Model) -> None:
    asked = FRAME[:6].astype(object)
    asked.iloc[0, 2] = asked.iloc[1, 1] = None
    filled = fitted.impute(asked)
    assert not filled.isna().any().any()
    best = fitted.mpe(given={"a": asked.iloc[0, 0], "b": asked.iloc[0, 1]})
    assert filled.iloc[0, 2] == best["c"][0]


def test_without_names_every_variable_is_queried(fitted: jt.Model, command: Command, tmp_path: Path) -> None:
    found = fitted.query(given={"a": 1})
    assert found.columns.tolist() == ["variable", "state", "probability"]
    assert found.groupby("variable")["probability"].sum().round(9).eq(1).all()
    fitted.write(tmp_path / "m.json")
    targets = command.json("query", tmp_path / "m.json", "--given", "a=1")["targets"]
    listed = [p for target in targets for p in target["probabilities"]]
    assert found["probability"].tolist() == pytest.approx(listed)
    numbers = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=list("xyz"))
    gaussian = jt.learn(numbers, treewidth=1, score="gaussian-bic").fit()
    assert gaussian.query(given={"y": 1.0})["variable"].tolist() == ["x", "z"]


# The words of the shell


def test_facts_are_those_that_show_prints(fitted: jt.Model, command: Command, tmp_path: Path) -> None:
    fitted.write(tmp_path / "m.json")
    shown = command.json("show", tmp_path / "m.json")
    assert fitted.facts() == {key: fact for key, fact in shown.items() if key != "model"}
    assert fitted.parameters == shown["parameters"]
    assert fitted.entropy == pytest.approx(shown["entropy_nats"])
    assert command("show", tmp_path / "m.json") == 0
    text = command.out
    fitted.show()
    fitted.show(graph=True)
    assert command("show", tmp_path / "m.json", "--graph") == 0
    fitted.show(tmp_path / "m.svg")
    assert command("show", tmp_path / "m.json", "--output", tmp_path / "n.svg") == 0
    assert (tmp_path / "m.svg").read_bytes() == (tmp_path / "n.svg").read_bytes()
    assert "entropy nats" in text
    with pytest.raises(ChoiceError, match=r"\.svg, \.png, \.html or \.dot"):
        fitted.show(tmp_path / "m.pdf")


def test_a_mixture_is_shown_part_by_part(capsys: pytest.CaptureFixture[str]) -> None:
    parts = (random_model(1, 3), random_model(1, 3))
    jt.Model(Mixture(np.array([0.25, 0.75]), parts)).show()
    text = capsys.readouterr().out
    assert "component 2" in text
    assert "0.75" in text
    with pytest.raises(ChoiceError, match="a sum of 2 trees"):
        assert jt.Model(Mixture(np.array([0.25, 0.75]), parts)).entropy


# Files


@pytest.mark.parametrize("to", MODEL.formats)
def test_a_file_is_written_in_the_format_of_its_suffix(
    fitted: jt.Model, command: Command, tmp_path: Path, to: str
) -> None:
    fitted.write(tmp_path / "m.json")
    for name in (f"n.{to}", f"n.{to}.gz"):
        fitted.write(tmp_path / name)
    assert command("export", tmp_path / "m.json", "--to", to) == 0
    assert (tmp_path / f"n.{to}").read_text(encoding="utf-8") == command.out == fitted.export(to)
    if to in ("json", "bif", "uai"):
        assert jt.Model.read(tmp_path / f"n.{to}.gz").model.n == 3


def test_other_suffixes_are_refused_with_the_list(fitted: jt.Model, tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match=r"\.json, \.bif, \.bifxml"):
        fitted.write(tmp_path / "m.xdsl")
    assert not list(tmp_path.iterdir())


def test_a_network_is_written_as_it_is_and_its_tables_only_if_they_fit(
    wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtsolve.core.run.free_memory", lambda: 50_000_000)
    monkeypatch.setattr("jtsolve.models.network.from_network", lambda _network: pytest.fail("it works"))
    model = jt.Model.read(wide)
    model.write(tmp_path / "same.bif")
    pairs = zip(read_network(tmp_path / "same.bif").nodes, read_network(wide).nodes, strict=True)
    for mine, other in pairs:
        assert (mine.name, mine.parents) == (other.name, other.parents)
        np.testing.assert_allclose(mine.table, other.table, rtol=1e-12)
    model.write(tmp_path / "tree.td")
    for name in ("m.json", "m.uai"):
        with pytest.raises(LimitError, match="GB"):
            model.write(tmp_path / name)
        assert not (tmp_path / name).exists()


def test_a_network_answers_as_its_junction_tree(tmp_path: Path) -> None:
    network = random_network((2, 3, 2), ((), (0,), (0, 1)), 1)
    model = NetworkModel(network)
    whole = model.junction_tree("a test")
    groups = [["V0"], ["V1"], ["V2"], ["V2", "V0"]]
    for mine, other in zip(*(one.posterior(groups, {}).tables for one in (model, whole)), strict=True):
        np.testing.assert_allclose(mine, other)
    assert model.entropy() == pytest.approx(whole.entropy())
    rows = np.array([[0, -1], [-1, 2], [1, -1]], dtype=np.int32)
    assert (model.complete(rows) == whole.complete(rows)).all()
    assert (model.predict(rows, 1) == whole.predict(rows, 1)).all()
    jt.Model(model).write(tmp_path / "m.json")
    assert isinstance(jt.Model.read(tmp_path / "m.json").model, JunctionTreeModel)


@pytest.mark.parametrize("library", ["networkx", "pyagrum", "pgmpy"])
def test_models_go_to_other_libraries_and_back(library: str) -> None:
    pytest.importorskip(library)
    model = jt.Model(chain(4))
    back = jt.Model.of(getattr(model, f"to_{library}")())
    found = back.model.junction_tree("a test")
    for mine, other in zip(found.marginals(), chain(4).marginals(), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-9)
    with pytest.raises(ChoiceError, match=r"pyagrum\.BayesNet"):
        jt.Model.of({})


# Start-up

LOADED = """
import json, sys, time
from jtsolve.cli import run
code = run(["query", sys.argv[1], "--given", "V0=s0"], time.monotonic())
sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
"""


def test_a_query_loads_no_backend_and_no_compiler(tmp_path: Path) -> None:
    jt.Model(chain(4)).write(tmp_path / "m.json")
    process = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", LOADED, str(tmp_path / "m.json")], capture_output=True, check=True, text=True
    )
    code, modules = json.loads(process.stderr)
    assert code == 0
    ours: list[Any] = [name for name in modules if name.startswith("jtsolve")]
    assert len(ours) <= 80
    assert not [name for name in ours if name.startswith(("jtsolve.backends", "jtsolve.solving"))]
    for heavy in ("numba", "polars", "scipy", "networkx", "pandas", "rich"):
        assert heavy not in modules
