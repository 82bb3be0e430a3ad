"""Signals: every command ends in the same way while it reads its input."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from jtsolve import __main__ as program
from jtsolve.cli import COMMANDS

if TYPE_CHECKING:
    from pathlib import Path

_WITHOUT_PIPES = {"backends", "scores", "models", "methods", "data", "compare", "report"}
"""Commands that read nothing, and two that refuse or skip pipes."""
_CALLS = {
    "solve": "pipe.csv --treewidth 1 --output out.json",
    "fit": "pipe.csv --treewidth 1 --output out.json",
    "average": "pipe.csv --treewidth 1 --output out.json",
    "select": "pipe.csv --output out.json",
    "population": "pipe.csv",
    "show": "pipe.json",
    "query": "pipe.json",
    "mpe": "pipe.json",
    "sample": "pipe.json --rows 3 --output out.csv",
    "export": "pipe.json --to bif --output out.bif",
    "impute": "pipe.json rows.csv --output out.csv",
    "loglik": "pipe.json rows.csv --output out.csv",
    "score": "pipe.csv --max-size 2 --output out.json",
    "convert": "pipe.json out.score",
    "decode": "pipe.json answer.txt --output out.json",
    "check": "instance.json pipe.json",
    "explain": "pipe.json",
    "run": "pipe.json",
}
"""The arguments of each command; it reads a pipe."""
_MORE_THAN_A_PIPE_HOLDS = 1 << 17
"""Bytes; when they are written, the command is reading."""


def test_every_command_has_a_law_of_signals() -> None:
    assert {*_CALLS, *_WITHOUT_PIPES} == {*COMMANDS}


@pytest.mark.usefixtures("terminate")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("name", _CALLS)
def test_a_signal_while_a_command_reads_ends_it_with_130_and_nothing_written(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    name: str,
    number: signal.Signals,
) -> None:
    words = _CALLS[name].split()
    (pipe,) = (word for word in words if word.startswith("pipe"))
    os.mkfifo(tmp_path / pipe)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["jtsolve", name, *words])
    main, reached = threading.main_thread().ident, threading.Event()
    assert main is not None

    def interrupt() -> None:
        with (tmp_path / pipe).open("wb", buffering=0) as writing:  # blocks until the command opens its end
            writing.write(b" " * _MORE_THAN_A_PIPE_HOLDS)
            reached.set()
            signal.pthread_kill(main, number)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(SystemExit) as end:
        program.main()
    said = capsys.readouterr()
    assert reached.is_set(), said.err
    assert end.value.code == 130
    before = "a tree was found" if name == "solve" else "it was finished"
    assert (said.out, said.err) == ("", f"jtsolve: interrupted before {before}\n")
    assert os.listdir(tmp_path) == [pipe]  # noqa: PTH208 - names
