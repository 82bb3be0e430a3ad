"""The notebooks of the gallery run, and their stored outputs are those of their programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import notebooks

if TYPE_CHECKING:
    from pathlib import Path

PATHS = sorted(notebooks.GALLERY.glob("*.ipynb"))


def texts(notebook: dict[str, Any]) -> list[str]:
    """Returns the outputs as text."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    return ["".join(one.get("data", {}).get("text/plain", one.get("text", []))) for one in outputs]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_stored_outputs_are_those_of_the_programs(path: Path) -> None:
    stored = notebooks.read(path)
    assert texts(notebooks.executed(stored)) == texts(stored), "run: python docs/notebooks.py"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_page_has_every_cell_with_its_picture(path: Path) -> None:
    notebook = notebooks.read(path)
    page = notebooks.page(notebook)
    assert page.startswith("# ")
    assert page.count("```python") == sum(cell["cell_type"] == "code" for cell in notebook["cells"])
    assert re.search(r"```\{raw\} html\n<div class=\"output\">", page)


def test_printed_text_and_a_failing_cell() -> None:
    cell = {"cell_type": "code", "source": ["print(1)\n", "2 + 3"]}
    (printed, value) = notebooks.executed({"cells": [cell]})["cells"][0]["outputs"]
    assert (printed["text"], value["data"]["text/plain"]) == (["1\n"], ["5"])
    with pytest.raises(ZeroDivisionError):
        notebooks.executed({"cells": [{"cell_type": "code", "source": ["1 / 0"]}]})
