"""Runs the examples of a page, in order, in one folder.

- A `python` block that begins with a comment `# NAME.py` is written to that file; any other is a doctest,
  and shares its names with those of the page before it.
- In a `console` block, `$ ` begins a command for the shell, which the next line continues after a
  backslash. The following lines are its output on either stream, compared as in doctests, with `...` for
  omissions; without lines, nothing is compared. A command succeeds, unless its output begins with `jtsolve:
  `, as errors do. A plain `jtsolve …` runs in this process, which has all modules loaded.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from jtsolve.cli import run

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.py)\n")
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# What a reader types runs this checkout with this interpreter, installed or not.
_SHELL = 'jtsolve() { "$PYTHON" -m jtsolve "$@"; }; python() { "$PYTHON" "$@"; }\n'


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and the line on which it begins, from 1."""

    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """Returns the blocks of a page that are examples."""
    return [
        Block(found[1], found[2], page.count("\n", 0, found.start()) + 2) for found in _BLOCK.finditer(page)
    ]


def run_examples(page: str, name: str, folder: Path) -> tuple[int, list[str]]:
    """Runs the examples of a page.

    Args:
        page: its text.
        name: what to call it in reports.
        folder: where they run; a current folder from which files are imported, too.

    Returns:
        How many examples ran, and a report of each that failed.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    tried = 0
    failures: list[str] = []
    for block in blocks(page):
        if block.language == "console":
            for command, expected in _COMMAND.findall(block.text):
                tried += 1
                failures += _run_command(command, expected, f"{name}, line {block.line}", folder)
        elif file := _FILE.match(block.text):
            tried += 1
            (folder / file[1]).write_text(block.text, encoding="utf-8")
        else:
            parsed = doctest.DocTestParser().get_doctest(block.text, names, name, name, block.line - 1)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            words: list[str] = []
            runner.run(parsed, out=words.append, clear_globs=False)
            names = parsed.globs
            tried += len(parsed.examples)
            if runner.failures:
                failures.append("".join(words))
    return tried, failures


def _run_command(command: str, expected: str, place: str, folder: Path) -> list[str]:
    """Runs a command and returns its fault, if any."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {"PYTHON": sys.executable, "PYTHONPATH": path, "COLUMNS": "80"}
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    if words[:1] == ["jtsolve"] and not set(command) & set("|&;<>$`*"):
        code, printed = _run_here(words[1:], environment)
    else:
        code, printed = _run_in_shell(command, environment, folder)
    if (code != 0) != bool(re.search("^jtsolve: ", expected, re.MULTILINE)):
        return [f"{place}: '{command}' ends with exit code {code}:\n{printed}"]
    if expected and not doctest.OutputChecker().check_output(expected, printed, _FLAGS):
        return [f"{place}: '{command}' prints\n{printed}\nand not\n{expected}"]
    return []


def _run_here(words: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Returns the exit code and the output of a command of jtsolve."""
    printed = StringIO()
    with patch.dict(os.environ, environment), redirect_stdout(printed), redirect_stderr(printed):
        code = run(words, time.monotonic())
    return code, printed.getvalue()


def _run_in_shell(command: str, environment: dict[str, str], folder: Path) -> tuple[int, str]:
    """Returns the exit code and the output of a command line of the shell."""
    done = subprocess.run(  # noqa: S603 - the pages are ours
        ["bash", "-c", _SHELL + command],  # noqa: S607 - where it lies differs between systems
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.returncode, done.stdout
