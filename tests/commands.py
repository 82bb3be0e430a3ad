"""Runs commands of jtsolve in the process of the tests."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from jtsolve.cli import run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Command:
    """Runs commands and keeps their output."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = ""
        self.err = ""

    def __call__(self, *arguments: str | Path) -> int:
        code = run([str(argument) for argument in arguments], time.monotonic())
        self.out, self.err = self._capsys.readouterr()
        return code

    def json(self, *arguments: str | Path) -> Any:
        assert self(*arguments, "--json") == 0, self.err
        return json.loads(self.out)
