"""Faults of mixed tables and of questions to their models: a sentence with the column and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import jtsolve as jt
from jtsolve.cli import run
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 60
_DRAWS = np.random.default_rng(0)
NUMBERS = _DRAWS.normal(size=(2, ROWS)).round(3)
PLAIN: dict[str, list[Any]] = {
    "s": _DRAWS.choice(["a", "b"], ROWS).tolist(),
    "x": NUMBERS[0].tolist(),
    "y": NUMBERS[1].tolist(),
}


FLAGS = {"real": ("--read", "real="), "missing": ("--missing", "")}


def written(columns: dict[str, list[Any]], path: Path) -> str:
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join("" if x is None else str(x) for x in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("more", "options", "words"),
    [
        ({"c": [1.5] * ROWS}, {"real": "c"}, ("column 'c'", "every value is 1.5", "leave the column out")),
        (
            {"c": [1.5] * 9 + [None] * (ROWS - 9)},
            {"real": "c", "missing": "em"},
            ("column 'c'", "every value is 1.5", "leave the column out"),
        ),
        ({"z": (2 * NUMBERS[0] + 1).tolist()}, {}, ("x, z", "linearly dependent", "leave one of them out")),
        (
            {"z": [None, *(NUMBERS[0] * 4 + 2).tolist()[1:]]},
            {"missing": "em"},
            ("x, z", "linearly dependent", "leave one of them out"),
        ),
        ({"z": [float("inf"), *NUMBERS[1][1:]]}, {}, ("column 'z'", "'inf' is infinite", "states")),
        (
            {"z": [float("-inf"), *NUMBERS[1][1:]]},
            {"real": "z"},
            ("column 'z'", "not a finite number", "drop"),
        ),
        ({"t": list("aabbc") * 12}, {"real": "t"}, ("column 't'", "not a finite number", "states")),
    ],
)
def test_faults_of_columns_are_named_with_a_remedy_at_each_door(
    more: dict[str, list[Any]],
    options: dict[str, Any],
    words: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = PLAIN | more
    with pytest.raises(InputError) as caught:
        jt.fit(data, treewidth=2, **options)
    flags = [part for name, value in options.items() for part in (FLAGS[name][0], FLAGS[name][1] + value)]
    path = written(data, tmp_path / "data.csv")
    assert run(["fit", path, "--treewidth", "2", "--output", str(tmp_path / "m.json"), *flags], 0.0) == 2
    reported = " ".join(capsys.readouterr().err.split())
    for word in words:
        assert word in str(caught.value)
        assert word in reported


def test_small_cells_have_densities_and_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    data = PLAIN | {"rare": ["odd", *["even"] * (ROWS - 1)]}
    model = jt.fit(data, treewidth=2, require=[("rare", "x")])
    assert np.isfinite(model.loglik(data).to_numpy()).all()
    few = {name: column[:5] for name, column in PLAIN.items()}
    with pytest.raises(InputError, match="need"):
        jt.fit({name: column[:2] for name, column in few.items()}, treewidth=2, real=("x", "y"))
    capsys.readouterr()


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ("s=zebra", ("'s'", "no state 'zebra'", "'a', 'b'")),
        ("x=inf", ("'x'", "not a finite number", "give a number")),
        ("x=tall", ("'x'", "'tall' is not a number")),
        ("q=1", ("variable", "'q")),
    ],
)
def test_evidence_outside_the_support_is_refused_at_each_door(
    evidence: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, path = jt.fit(PLAIN, treewidth=2), tmp_path / "m.json"
    model.write(path)
    name, value = evidence.split("=")
    with pytest.raises(InputError) as caught:
        model.query(given={name: float(value) if value == "inf" else value})
    assert run(["query", str(path), "--given", evidence], 0.0) == 2
    reported = " ".join(capsys.readouterr().err.split())
    for word in words:
        assert word in str(caught.value)
        assert word in reported


@pytest.mark.parametrize(
    ("marks", "score", "words"),
    [
        (["s"], "cg", ("'s'", "holds states", "leave real_variables out")),
        (["x"], "cg", ("'y'", "is real", "leave real_variables out")),
        (["x"], "gaussian-bic", ("'y'", "is real", "leave real_variables out")),
        (["s"], "bic", ("'s'", "holds states", "leave real_variables out")),
    ],
)
def test_marks_that_contradict_the_score_are_refused_at_each_door(
    marks: list[str], score: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {"cg": "sxy", "gaussian-bic": "xy", "bic": "st"}[score]
    data = {name: column for name, column in (PLAIN | {"t": list("aabbc") * 12}).items() if name in kept}
    path, constraint = written(data, tmp_path / "data.csv"), f"real_variables={','.join(marks)}"
    for call in (jt.learn, jt.fit):
        with pytest.raises(InputError) as caught:
            call(data, treewidth=1, score=score, constraints={"real_variables": marks})
        assert all(word in str(caught.value) for word in words)
    assert run(["solve", path, "--treewidth", "1", "--score", score, "--constraint", constraint], 0.0) == 2
    reported = " ".join(capsys.readouterr().err.split())
    assert all(word in reported for word in words)
