"""Shells complete commands, options and their values, as a shell asks for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def offered(words: str) -> list[str]:
    """The completions of bash after these words, the last one unfinished."""
    environment = {
        **os.environ,
        "_JTSOLVE_COMPLETE": "complete_bash",
        "COMP_WORDS": f"jtsolve {words}",
        "COMP_CWORD": str(len(words.split(" "))),
    }
    command = [sys.executable, "-m", "jtsolve"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("so", ["solve"]),
        ("solve --backend cl", ["clutter"]),
        ("score --score b", ["bdeu", "bdj", "bic", "bge"]),
        ("fit --missing drop", ["drop-rows", "drop-columns"]),
        ("fit --model h", ["hidden"]),
        ("export --to bif", ["bif", "bifxml"]),
    ],
)
def test_a_shell_offers_commands_options_and_values(words: str, expected: list[str]) -> None:
    assert offered(words) == expected


def test_the_script_for_a_shell_is_shown() -> None:
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "jtsolve", "--show-completion", "bash"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    assert "_JTSOLVE_COMPLETE=complete_bash" in done.stdout
