"""Tests replace public names of the package only; its constants are passed as values."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest


def internals_patched(source: str) -> list[str]:
    """Returns the targets of patches that are private names or constants of the package."""
    tree = ast.parse(source)
    foreign = {
        name.asname or name.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
        if not (getattr(node, "module", None) or name.name).startswith("jtsolve")
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    targets = [
        target_of(*call.args)
        for call in calls
        if ast.unparse(call.func).rpartition(".")[2] in ("setattr", "delattr", "patch", "object")
    ]
    return [one for one in targets if one.split(".")[0] not in foreign and is_internal(one)]


def target_of(first: ast.expr, *more: ast.expr) -> str:
    """Returns the dotted target of a patch, or "" for a module of the tests."""
    if isinstance(first, ast.Constant | ast.JoinedStr):
        text = ast.unparse(first).strip("'")
        return text if text.startswith("jtsolve.") else ""
    name = more[0].value if more and isinstance(more[0], ast.Constant) else None
    return f"{ast.unparse(first)}.{name if isinstance(name, str) else '_unknown'}"


def is_internal(target: str) -> bool:
    parts = [part for part in target.split(".") if not part.startswith("__")]
    return any(part.startswith("_") or (part.isupper() and len(part) > 1) for part in parts)


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("*.py")), ids=lambda path: path.name)
def test_no_private_name_or_constant_is_patched(path: Path) -> None:
    assert internals_patched(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "monkeypatch.setattr('jtsolve.solving._WAIT', 1)",
        "from jtsolve import solving as module\nmonkeypatch.setattr(module, 'REGISTRY', {})",
        "patch.object(module._Class, 'run', None)",
        "for name in NAMES:\n    monkeypatch.setattr(name, 1)",
    ],
)
def test_patches_of_internals_are_found(source: str) -> None:
    assert internals_patched(source)
