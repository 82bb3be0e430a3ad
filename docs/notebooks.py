"""Executes the notebooks in docs/gallery, and writes their pages when the site is built.

    python docs/notebooks.py

runs every notebook and stores its outputs. Jupyter is not needed: a cell is a program whose last expression
is shown as text, as HTML if it has `_repr_html_`, and as SVG if it is a figure of matplotlib or the path of
an SVG file. Cells run in a temporary folder.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

GALLERY = Path(__file__).parent / "gallery"


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Returns the notebook with the outputs of its code cells, run in order in one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                outputs = _outputs("".join(cell["source"]), names, count)
                cells.append({**cell, "execution_count": count, "outputs": outputs})
            else:
                cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Runs a cell; returns its outputs in the format of notebooks."""
    program = ast.parse(source)
    last = program.body.pop() if isinstance(program.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "cell", "exec"), names)  # noqa: S102 - our own notebooks
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": lines(repr(value))}
        if (page := getattr(value, "_repr_html_", lambda: None)()) is not None:
            data["text/html"] = lines(page)
        if hasattr(value, "savefig"):
            drawn = io.StringIO()
            value.savefig(drawn, format="svg", bbox_inches="tight", metadata={"Date": None})
            data["image/svg+xml"] = lines(drawn.getvalue())
        if isinstance(value, Path) and value.suffix == ".svg":
            data["image/svg+xml"] = lines(value.read_text(encoding="utf-8"))
        result = {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
        outputs.append(result)
    return outputs


def lines(text: str) -> list[str]:
    """Returns the lines of a text as notebooks store them."""
    return text.splitlines(keepends=True)


def page(notebook: dict[str, Any]) -> str:
    """Returns the notebook as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text", [])})
            shown = data.get("image/svg+xml") or data.get("text/html")
            if shown:
                picture = "".join(shown)
                picture = picture[picture.find("<svg") :] if "image/svg+xml" in data else picture
                parts.append(f'```{{raw}} html\n<div class="output">{picture}</div>\n```')
            else:
                parts.append("```text\n" + "".join(data["text/plain"]).rstrip() + "\n```")
    return "\n\n".join(parts) + "\n"


def read(path: Path) -> dict[str, Any]:
    """Returns a notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def write_pages(_app: Sphinx | None = None) -> None:
    """Writes a page beside each notebook."""
    for path in GALLERY.glob("*.ipynb"):
        text, target = page(read(path)), path.with_suffix(".md")
        # Sphinx reads changed files again.
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def main() -> int:
    """Executes all notebooks and stores them."""
    import matplotlib as mpl

    mpl.rcParams["svg.hashsalt"] = "jtsolve"
    for path in sorted(GALLERY.glob("*.ipynb")):
        text = json.dumps(executed(read(path)), ensure_ascii=False, indent=1) + "\n"
        path.write_text(text, encoding="utf-8")
    return 0


def setup(app: Sphinx) -> dict[str, bool]:
    """Writes the pages before the site is read."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    sys.exit(main())
