"""A law of the doors: shell, Python and scikit-learn give the same tree, score and model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

import jtsolve as jt
from jtsolve.cli import run
from jtsolve.estimator import JunctionTreeDensity
from jtsolve.io.result import read_result
from jtsolve.models.files.document import model_to_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jtsolve.models.files.document import AnyModel

SEED = 5


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    """A chain a – b – c – d of copies with noise, and e, which depends on nothing."""
    generator = np.random.default_rng(7)
    columns = [generator.integers(0, 3, 300)]
    for _ in range(3):
        noise = generator.integers(0, 3, 300)
        columns.append(np.where(generator.random(300) < 0.7, columns[-1], noise))
    columns.append(generator.integers(0, 2, 300))
    return pl.DataFrame(dict(zip("abcde", columns, strict=True)))


@pytest.fixture
def data(frame: pl.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    frame.write_csv(path)
    return path


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., Path]:
    """Runs a command with an output, and returns the path of it."""

    def call(*words: object) -> Path:
        output = tmp_path / "output.json"
        assert run([*map(str, words), "--seed", str(SEED), "--quiet", "--output", str(output)], 0.0) == 0
        return output

    return call


def tables(model: AnyModel) -> dict[str, Any]:
    """Returns the document of a model without remarks on where its data came from."""
    document: dict[str, Any] = json.loads(model_to_json(model))
    del document["provenance"]
    return document


CONSTRAINTS: list[tuple[list[str], dict[str, Any]]] = [
    ([], {}),
    (["--forbid", "a,b"], {"forbid": [("a", "b")]}),
    (["--require", "a,e", "--forbid", "b,c"], {"require": [("a", "e")], "forbid": [("b", "c")]}),
    (["--constraint", "max_separator_size=1"], {"constraints": {"max_separator_size": 1}}),
    (["--constraint", "min_separator_size=1"], {"constraints": {"min_separator_size": 1}}),
]


@pytest.mark.parametrize("score", ["bic", "bdeu", "bdeu:ess=10", "aic"])
@pytest.mark.parametrize(("words", "options"), CONSTRAINTS, ids=lambda one: str(one)[:40])
def test_shell_and_python_find_the_same_tree(
    frame: pl.DataFrame,
    data: Path,
    shell: Callable[..., Path],
    *,
    score: str,
    words: list[str],
    options: dict[str, Any],
) -> None:
    by_shell = read_result(shell("solve", data, "--treewidth", 2, "--score", score, *words))
    for source in (frame, frame.to_pandas(), data):
        learned = jt.learn(source, treewidth=2, score=score, seed=SEED, **options)
        assert learned.score == by_shell.score
        assert learned.status == by_shell.status.value
        assert set(map(frozenset, learned.cliques)) == set(map(frozenset, by_shell.cliques))


@pytest.mark.parametrize("kind", ["tree", "mixture:2", "features:support=20", "lem", "average:20"])
@pytest.mark.parametrize("score", [None, "bdeu:ess=3"])
def test_shell_and_python_fit_the_same_model(
    frame: pl.DataFrame, data: Path, shell: Callable[..., Path], kind: str, score: str | None
) -> None:
    width = [] if kind == "lem" else ["--treewidth", 1]
    scored = [] if score is None else ["--score", score]
    by_shell = jt.Model.read(shell("fit", data, "--model", kind, *width, *scored))
    for source in (frame, data):
        fitted = jt.fit(source, kind, treewidth=1 if width else None, score=score, seed=SEED)
        assert tables(fitted.model) == tables(by_shell.model)  # type: ignore[arg-type]  # no network
        assert np.array_equal(np.array(fitted.loglik(frame)), np.array(by_shell.loglik(frame)))


def test_the_tree_of_a_solution_and_of_its_file_has_the_same_model(
    frame: pl.DataFrame, data: Path, shell: Callable[..., Path], tmp_path: Path
) -> None:
    learned = jt.learn(frame, treewidth=2)
    learned.write(tmp_path / "result.json")
    by_shell = jt.Model.read(shell("fit", data, "--tree", tmp_path / "result.json"))
    expected = np.array(by_shell.loglik(frame))
    for fitted in (learned.fit(), jt.fit(frame, tree=learned), jt.fit(frame, tree=tmp_path / "result.json")):
        assert np.allclose(np.array(fitted.loglik(frame)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("treewidth", [1, 2])
@pytest.mark.parametrize("score", ["bic", "bdeu"])
def test_scikit_learn_fits_the_same_model(frame: pl.DataFrame, treewidth: int, score: str) -> None:
    density = JunctionTreeDensity(
        treewidth=treewidth, local_score=score, backend="dp", smoothing=1.0, random_state=SEED
    )
    fitted = jt.fit(frame, treewidth=treewidth, score=score, backend="dp", smoothing=1.0, seed=SEED)
    expected = np.array(fitted.loglik(frame))
    assert np.allclose(density.fit(frame.to_pandas()).score_samples(frame.to_pandas()), expected, atol=1e-9)
