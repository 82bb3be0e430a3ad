"""Shells complete commands and options, as a shell asks for it."""

from __future__ import annotations

import os
import subprocess
import sys


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


def test_a_shell_offers_commands_and_options() -> None:
    assert offered("so") == ["solve"]
    assert offered("export --o") == ["--output"]


def test_the_script_for_a_shell_is_shown() -> None:
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "jtsolve", "--show-completion", "bash"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    assert "_JTSOLVE_COMPLETE=complete_bash" in done.stdout
