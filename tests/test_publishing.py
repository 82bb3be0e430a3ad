"""What is published beside the package: metadata, the conda recipe, and the module for Benchpress."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULE = ROOT / "integrations" / "benchpress" / "jtsolve"
CONDA_NAMES = {"matplotlib": "matplotlib-base", "ortools": "ortools-python"}


def test_the_versions_agree() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    info = json.loads((MODULE / "info.json").read_text(encoding="utf-8"))
    assert f"version: {PROJECT['version']}\n" in citation
    assert f'version: "{PROJECT["version"]}"' in recipe
    assert f"version = {{{PROJECT['version']}}}" in readme
    assert info["version"] == PROJECT["version"]


def test_the_conda_recipe_has_the_dependencies_of_the_package() -> None:
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    listed = set(re.findall(r"^    - ([a-z0-9.-]+)", recipe.partition("  run:\n")[2], re.MULTILINE)) - {
        "python"
    }
    needed = {re.split(r"[ ><=;]", text)[0] for text in PROJECT["dependencies"]}
    assert listed == {CONDA_NAMES.get(name, name) for name in needed}


@pytest.mark.parametrize("score", ["bic", "gaussian-bic"])
def test_the_module_for_benchpress_writes_an_adjacency_matrix(score: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    first = generator.normal(size=200)
    columns = {"a": first, "b": first + 0.5 * generator.normal(size=200), "c": generator.normal(size=200)}
    frame = pd.DataFrame(columns)
    if score == "bic":
        frame = pd.concat([pd.DataFrame([dict.fromkeys(frame, 2)]), (frame > 0).astype(int)])
    frame.to_csv(tmp_path / "data.csv", index=False)
    files = {name: str(tmp_path / name) for name in ("adjmat", "time", "ntests")}
    (item,) = json.loads((MODULE / "schema.json").read_text(encoding="utf-8"))["items"]["examples"]
    chosen = {key: str(value) for key, value in {**item, "score": score}.items()}
    snakemake = SimpleNamespace(input={"data": str(tmp_path / "data.csv")}, output=files, wildcards=chosen)
    runpy.run_path(str(MODULE / "script.py"), {"snakemake": snakemake})
    matrix = pd.read_csv(tmp_path / "adjmat")
    assert list(matrix) == ["a", "b", "c"]
    assert matrix.to_numpy().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert float((tmp_path / "time").read_text()) > 0
    assert (tmp_path / "ntests").read_text() == "None"


def test_the_schema_of_the_module_accepts_its_examples_and_no_other_keys() -> None:
    schema = json.loads((MODULE / "schema.json").read_text(encoding="utf-8"))
    schema["$defs"] = {"flexnonnegnumnull": {"type": ["number", "null"]}}  # of Benchpress
    (example,) = schema["items"]["examples"]
    jsonschema.validate([example, {**example, "treewidth": [1, 2]}], schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate([{**example, "cutoff": 1}], schema)
