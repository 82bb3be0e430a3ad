"""A page per registered backend, generated from its docstrings, capabilities and options.

The pages have no text of their own: what a page lacks, a docstring lacks. Docstrings are read as Markdown, in
which an indented block is a formula and a name has backticks.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jtsolve.backends.registry import REGISTRY
from jtsolve.backends.support.solver import SolverBackend
from jtsolve.core.problem import ALL_FEATURES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sphinx.application import Sphinx

    from jtsolve.core.backend import Backend

_REFERENCES = re.compile(r"^References:[ ]*$|^References: (?=\S)", re.MULTILINE)
_COST = re.compile(r"^(Time|Memory)\b")
_SECTION = re.compile(r"^(?:Args|Raises|Returns|Attributes):$", re.MULTILINE)


_CHOOSING = (
    "`--backend NAME` selects one of these; `auto`, the default, selects the exact backend with the least "
    "predicted time among those that accept the problem and fit the limits, else the strongest heuristic.\n"
)


class UndescribedError(Exception):
    """A backend lacks a description that its page needs."""


def write_pages(folder: Path, registry: Mapping[str, Backend] = REGISTRY) -> None:
    """Writes a page for each backend and an index; pages of removed backends are deleted.

    Raises:
        UndescribedError: a docstring lacks the references, the cost, or an option.
    """
    pages = {f"{name}.md": page(backend) for name, backend in registry.items()}
    pages["index.md"] = index(registry)
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # Sphinx reads changed files again
            path.write_text(text, encoding="utf-8")


def index(registry: Mapping[str, Backend]) -> str:
    """Returns the page that lists the backends."""
    lines = [
        "# Backends\n",
        _CHOOSING,
        "| backend | kind | variables | constraints | |",
        "|---|---|---|---|---|",
        *(
            f"| [{name}]({name}.md) | {_kind(backend)} | {_variables(backend)} | {_constraints(backend)} "
            f"| {_class_paragraphs(backend)[0]} |"
            for name, backend in registry.items()
        ),
        "\n```{toctree}\n:hidden:\n",
        *registry,
        "```",
    ]
    return "\n".join(lines) + "\n"


def page(backend: Backend) -> str:
    """Returns the page of a backend, in Markdown.

    Raises:
        UndescribedError: a docstring lacks the references, the cost, or an option.
    """
    body, references = _module_parts(backend)
    paragraphs = body.split("\n\n")
    cost = [text for text in paragraphs if _COST.match(text)]
    if not cost:
        raise UndescribedError(
            f"backend '{backend.name}': the docstring of its module does not state the cost; "
            "begin a paragraph of it with 'Time'"
        )
    method = [text for text in paragraphs[1:] if text not in cost]
    sections = [
        f"# {backend.name}",
        "\n\n".join(_class_paragraphs(backend)),
        "## Supported problems\n\n" + _capabilities(backend),
        "## How it works\n\n" + "\n\n".join([_first_sentence(paragraphs[0]), *method]),
        "## Time and memory\n\n" + "\n\n".join(cost),
        "## Options\n\n" + _options(backend),
        "## References\n\n" + references,
        f"Its module is `{type(backend).__module__}`; measurements are in [Benchmarks](../benchmarks.md).",
    ]
    return "\n\n".join(_linked(section) for section in sections) + "\n"


def _kind(backend: Backend) -> str:
    return "exact" if backend.capabilities.exact else "heuristic"


def _variables(backend: Backend) -> str:
    most = backend.capabilities.max_variables
    return "any number" if most is None else f"at most {most}"


def _constraints(backend: Backend) -> str:
    missing = sorted(f"`{feature.value}`" for feature in ALL_FEATURES - backend.capabilities.features)
    return f"all but {', '.join(missing)}" if missing else "all"


def _module_parts(backend: Backend) -> tuple[str, str]:
    """Returns the docstring of the backend's module without its references, and the references."""
    documentation = inspect.getdoc(sys.modules[type(backend).__module__]) or ""
    body, *rest = _REFERENCES.split(documentation)
    if len(rest) != 1:
        raise UndescribedError(
            f"backend '{backend.name}': the docstring of its module has no section 'References:'; add one, "
            "with authors, title, venue and year"
        )
    return body.strip(), inspect.cleandoc(rest[0])


def _first_sentence(title: str) -> str:
    """Returns the first line of a module's docstring without the name of the backend before it."""
    text = re.sub(r"^`\w+`: ", "", title)
    return text[0].upper() + text[1:]


def _class_paragraphs(backend: Backend) -> list[str]:
    """Returns the paragraphs of the backend's docstring before its arguments."""
    return _SECTION.split(inspect.getdoc(type(backend)) or "")[0].strip().split("\n\n")


def _capabilities(backend: Backend) -> str:
    """Returns the declared capabilities as a list."""
    capabilities = backend.capabilities
    proof = "proves that its tree is optimal when it finishes" if capabilities.exact else "no proof"
    lines = [
        f"Kind: {_kind(backend)}; {proof}.",
        f"Variables: {_variables(backend)}.",
        f"Constraints: {_constraints(backend)}.",
    ]
    if not capabilities.exact:
        lines.append(
            f"Rank: {capabilities.rank}; where no exact backend fits, `auto` selects one of the highest rank."
        )
    if capabilities.threads > 1:
        lines.append(f"Threads: `auto` selects it with at least {capabilities.threads}.")
    if isinstance(backend, SolverBackend):
        lines.append(f"Needs: the package `{backend.package}`, which is installed with jtsolve.")
    refusal = "Any other problem is refused with every reason before any work."
    return "\n".join(f"- {line}" for line in lines) + f"\n\n{refusal}"


def _options(backend: Backend) -> str:
    """Returns the options, each with its values, default and meaning."""
    options = REGISTRY.describe(backend).options
    if not options:
        return "None."
    usage = f"`{backend.name}:{options[0].name}=VALUE`, in the shell and in Python; commas join several.\n"
    lines = [usage]
    for option in options:
        if not option.meaning:
            raise UndescribedError(
                f"backend '{backend.name}': the option '{option.name}' is not described; add it to 'Args:' "
                f"in the docstring of {type(backend).__name__}"
            )
        lines += [
            f"`{option.name}`",
            f": *{option.values}*; default `{option.default}`",
            "",
            f"  {option.meaning}",
            "",
        ]
    return "\n".join(lines).rstrip()


def _linked(text: str) -> str:
    """Returns the text with the names of pages of this documentation as links to them."""
    return re.sub(r"\bdocs/(\w+)\.md\b", r"[](../\1.md)", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Writes the pages before Sphinx searches for pages."""
    app.connect("builder-inited", lambda one: write_pages(Path(one.srcdir) / "backends"))
    return {"parallel_read_safe": True}
