"""Docstrings of public functions have the sections that a reader needs: arguments, shapes and errors.

Three kinds of functions state them elsewhere: kernels of numba, which comment on their arrays and have no
annotations; commands, whose docstring is the text of `--help` and whose options have a text each; and methods
that implement or extend a protocol, whose docstring holds for all implementations.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest
from documents import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    Function = ast.FunctionDef | ast.AsyncFunctionDef

_SHAPE = re.compile(r"\bshapes?\b|\(\w[\w .+*^-]*,( ?\w[\w .+*^-]*,?)*\)")
_UNDOCUMENTED = {"NotImplementedError", "AssertionError"}


class _Public(NamedTuple):
    name: str
    function: Function
    owner: ast.ClassDef | None

    def carries(self) -> bool:
        """Whether its docstring holds for implementations: that of a protocol which refers to no other."""
        bases = [] if self.owner is None else self.owner.bases
        refers = (ast.get_docstring(self.function) or "").startswith("See `")
        return not refers and any(ast.unparse(base).startswith("Protocol") for base in bases)


def _public(body: list[ast.stmt], path: str, owner: ast.ClassDef | None = None) -> Iterator[_Public]:
    for node in body:
        if isinstance(node, ast.If):
            yield from _public(node.body, path, owner)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public(node.body, f"{path}.{node.name}", node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield _Public(f"{path}.{node.name}", node, owner)


def _parameters(function: Function) -> list[ast.arg]:
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return [argument for argument in named if argument.arg not in {"self", "cls"}]


def _signature(function: Function) -> tuple[str, ...]:
    return (function.name, *(argument.arg.lstrip("_") for argument in _parameters(function)))


def _raises(node: ast.AST) -> bool:
    """Whether the body itself raises an error that it names: no re-raised one, none of a nested function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Raise) and child.exc is not None:
            kind = ast.unparse(child.exc).partition("(")[0].rpartition(".")[2]
            if (isinstance(child.exc, ast.Call) or kind[0].isupper()) and kind not in _UNDOCUMENTED:
                return True
        elif not isinstance(child, ast.FunctionDef | ast.Lambda | ast.ClassDef) and _raises(child):
            return True
    return False


@cache
def _functions() -> list[_Public]:
    found: list[_Public] = []
    for path in sorted((ROOT / "jtsolve").rglob("*.py")):
        module = path.relative_to(ROOT).with_suffix("").parts
        if "kernels" not in module and not any(re.match(r"_(?!_init__$)", part) for part in module):
            found += _public(ast.parse(path.read_text(encoding="utf-8")).body, ".".join(module))
    protocols = {_signature(one.function) for one in found if one.carries()}
    commands = re.compile(r"Annotated\[|\bOptions\b")
    return [
        one
        for one in found
        if not commands.search(ast.unparse(one.function.args))
        if one.owner is None or one.carries() or _signature(one.function) not in protocols
    ]


def _missing(function: Function) -> Iterator[str]:
    text = ast.get_docstring(function) or ""
    annotations = [*(argument.annotation for argument in _parameters(function)), function.returns]
    if len(_parameters(function)) >= 3 and "Args:" not in text:
        yield "Args:"
    if any("NDArray" in ast.unparse(one) for one in annotations if one) and not _SHAPE.search(text):
        yield "shape"
    if _raises(function) and "Raises:" not in text:
        yield "Raises:"


def _misnamed(function: Function) -> bool:
    """Whether a name in the arguments is that of no parameter, or occurs twice."""
    section = re.search(r"^Args:\n((?: {4}.*\n?|\n)+)", ast.get_docstring(function) or "", re.MULTILINE)
    if section is None:
        return False
    lines = re.findall(r"^ {4}([\w*]+(?:, [\w*]+)*):", section[1], re.MULTILINE)
    names = [name.lstrip("*") for line in lines for name in line.split(", ")]
    more = [one.arg for one in (function.args.vararg, function.args.kwarg) if one]
    known = {*more, *(one.arg for one in _parameters(function))}
    return len(set(names)) < len(names) or not known.issuperset(names)


def test_arguments_are_documented_once_under_their_names() -> None:
    assert [one.name for one in _functions() if _misnamed(one.function)] == []


@pytest.mark.parametrize("section", ["Args:", "shape", "Raises:"])
def test_every_public_function_has_the_sections_that_its_reader_needs(section: str) -> None:
    assert [one.name for one in _functions() if section in _missing(one.function)] == []
