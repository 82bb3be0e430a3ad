"""Measures the size of the package and of its interfaces, and the start-up time of some programs.

    python tools/size.py [--root CHECKOUT] [--runs 5]

`--root` measures another checkout, such as an older one. Code lines exclude blank lines, comments and
docstrings. Programs run warm: the first run of each, which may compile kernels, does not count.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parent.parent

DOORS = ("cli", "api", "estimator", "study")
"""Packages between the user and the solvers."""

MODELS = {"FeatureTree", "JunctionTreeModel", "MixedTreeModel", "Mixture", "Network"}
"""Classes of models."""

COMMENTED = ("backends/clutter", "averaging/kernels", "backends/lns", "backends/merging")
"""Packages that implement papers, whose loops need comments."""

_PRAGMA = re.compile(r"#\s*(noqa|type: ignore|pragma)[^#]*$")
_LAYOUT = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.COMMENT,
}

_LOADED = """
import sys
loaded = [name for name in sys.modules if name.partition(".")[0] == "jtsolve"]
sys.stderr.write(" ".join(["", *loaded]))
"""

_COMMAND = f"""
import sys
from jtsolve.cli import run
run(sys.argv[1:], 0.0)
{_LOADED}
"""

_QUERY = f"""
import sys
import jtsolve as jt
jt.Model.read(sys.argv[1]).query("a")
{_LOADED}
"""

_OPTIONS = """
import json, typer
from typer.main import get_command
from jtsolve.cli import app
def commands(command, name):
    if hasattr(command, "commands"):
        for key, inner in command.commands.items():
            yield from commands(inner, f"{name} {key}")
    else:
        yield name, command
found = {}
for name, command in commands(get_command(app if isinstance(app, typer.Typer) else app()), "jtsolve"):
    context = command.make_context(name, [], resilient_parsing=True)
    options = sum(parameter.param_type_name == "option" for parameter in command.params)
    found[name] = options, len(command.get_help(context).splitlines())
print(json.dumps(found))
"""

_MODEL = """
import sys, jtsolve as jt
jt.learn({"a": [0, 1, 1, 0] * 9, "b": [0, 1, 0, 1] * 9}, 1).fit().write(sys.argv[1])
"""


class Size(NamedTuple):
    """Lines, lines of code, and comments other than pragmas."""

    lines: int
    code: int
    comments: int

    def __add__(self, other: Size) -> Size:  # type: ignore[override]  # not a longer tuple
        """Returns the sums."""
        return Size(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    @property
    def density(self) -> float:
        """Comments per 100 lines of code."""
        return 100 * self.comments / max(1, self.code)


def size_of(text: str) -> Size:
    r"""Returns the size of a module.

    >>> size_of('"Docs."\n\nx = 1  # why\ny = 2  # noqa: E501\n')
    Size(lines=4, code=2, comments=1)
    """
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Expr) and is_constant and isinstance(ast.literal_eval(node.value), str):
            documentation.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    comments = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments += not _PRAGMA.match(token.string)
        elif token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    return Size(text.count("\n"), len(code - documentation), comments)


def model_tests(text: str) -> int:
    """Returns the number of `isinstance` tests on classes of models.

    >>> model_tests("isinstance(x, Mixture | FeatureTree) or isinstance(x, int)")
    1
    """
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and any(isinstance(part, ast.Name) and part.id in MODELS for part in ast.walk(node.args[1]))
        for node in ast.walk(ast.parse(text))
    )


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to measure")
    parser.add_argument("--runs", type=int, default=5, help="runs of each program; 0 for none")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    print_sizes(root / "jtsolve")
    if arguments.runs:
        print_surface(root)
        print_starts(root, arguments.runs)


def print_sizes(package: Path) -> None:
    """Prints lines, comments, and `isinstance` tests on classes of models."""
    sizes: dict[str, Size] = {}
    files: dict[str, Size] = {}
    tests: Counter[str] = Counter()
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(package).as_posix()
        files[name] = size_of(text)
        part = name.partition("/")[0] if "/" in name else "api" if name == "api.py" else "(root)"
        sizes[part] = sizes.get(part, Size(0, 0, 0)) + files[name]
        tests[part] += model_tests(text)
    total = _sum(files.values())
    doors = sum(size.lines for part, size in sizes.items() if part in DOORS)
    print(f"{'package':24} {'lines':>7} {'code':>7} {'comments per 100':>17}")
    for part, size in [*sizes.items(), ("all", total)]:
        print(f"{part:24} {size.lines:7} {size.code:7} {size.density:17.1f}")
    for part in COMMENTED:
        size = _sum(size for name, size in files.items() if name.startswith(f"{part}/"))
        print(f"{part:24} {size.lines:7} {size.code:7} {size.density:17.1f}")
    print(f"\nlines of {' + '.join(DOORS)}: {doors}")
    where = ", ".join(f"{part} {count}" for part, count in tests.most_common() if count)
    print(f"isinstance tests on classes of models: {tests.total()} ({where})")


def _sum(sizes: Iterable[Size]) -> Size:
    total = Size(0, 0, 0)
    for size in sizes:
        total += size
    return total


def print_surface(root: Path) -> None:
    """Prints the numbers of options, and the longest help."""
    found = json.loads(_python(root, "-c", _OPTIONS).stdout)
    longest = max(found, key=lambda name: found[name][1])
    print(f"option slots over {len(found)} commands: {sum(options for options, _ in found.values())}")
    print(f"longest --help: {found[longest][1]} lines ({longest})")


def print_starts(root: Path, runs: int) -> None:
    """Prints the modules loaded and the processor seconds of some programs."""
    with tempfile.TemporaryDirectory() as folder:
        for name, words in starts(root, Path(folder)).items():
            modules = modules_loaded(root, words)
            seconds = [_seconds(root, words) for _ in range(runs)]
            print(f"{name}: {len(modules)} modules of jtsolve, {median(seconds):.2f} processor seconds warm")


def starts(root: Path, folder: Path) -> dict[str, list[str]]:
    """Returns programs, as arguments of Python, by name; they read a model in the folder."""
    model, instance = str(folder / "model.json"), str(root / "instances/uci/nursery.json.gz")
    _python(root, "-c", _MODEL, model)
    return {
        "solve --backend dp": ["-c", _COMMAND, "solve", instance, "--treewidth", "2", "--backend", "dp"],
        "query": ["-c", _COMMAND, "query", model],
        "Model.read(…).query(…)": ["-c", _QUERY, model],
    }


def modules_loaded(root: Path, words: list[str]) -> list[str]:
    """Returns the modules of jtsolve that a program of `starts` has loaded at its end."""
    return _python(root, *words).stderr.rpartition("\n")[2].split()


def _seconds(root: Path, words: list[str]) -> float:
    """Returns the processor seconds of a program."""
    before = os.times()
    _python(root, *words)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def _python(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # Byte code is cached, as it is for installed packages.
    cached = {"PYTHONDONTWRITEBYTECODE": ""}
    environment = {**os.environ, **cached, "PYTHONPATH": str(root), "COLUMNS": "80"}
    return subprocess.run(
        [sys.executable, *words], cwd=root, env=environment, capture_output=True, text=True, check=True
    )


if __name__ == "__main__":
    main()
