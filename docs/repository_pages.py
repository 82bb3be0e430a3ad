"""Adapts links and docstrings to Sphinx."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_MODULE = re.compile(r"^- `(jtsolve[\w.]+)`$", re.MULTILINE)
_MARKS = re.compile(r"(`[^`]*`)|([*|]|(?<=\w)_(?=\W|$))")


def adapt(_app: Sphinx, name: str, source: list[str]) -> None:
    """Redirects links that leave the folder; documents the modules that the reference lists."""
    if name == "api":
        source[0] = _MODULE.sub(
            "### \\1\n\n```{eval-rst}\n.. automodule:: \\1\n   :members:\n```\n", source[0]
        )
    source[0] = source[0].replace("](../instances/README.md)", "](instances.md)").replace(".ipynb)", ".md)")


def escape(_app: Sphinx, what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Escapes marks of reStructuredText that are plain text in our docstrings, such as |C|."""
    if what in {"attribute", "data", "property"}:
        lines.insert(0, "\\")  # invisible; without it napoleon reads text before a colon as a type
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[number] = _MARKS.sub(lambda found: found[1] or "\\" + found[2], line)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers both."""
    app.connect("source-read", adapt)
    app.connect("autodoc-process-docstring", escape, priority=100)  # before napoleon
    return {"parallel_read_safe": True}
