from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from processes import ended

from jtsolve.core.processes import ProcessTree, end_with_parent, function_named, start_python

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

SLEEP = [sys.executable, "-c", "import time; time.sleep(1000)"]
MEBIBYTES = 64


def with_children(pipe: Connection) -> None:
    """Starts a child in this session and one in another, sends their numbers, and waits."""
    children = [subprocess.Popen(SLEEP, start_new_session=new) for new in (False, True)]  # noqa: S603
    held = bytearray(os.urandom(1) * (MEBIBYTES << 20))
    pipe.send([child.pid for child in children])
    pipe.recv()
    del held


def start() -> tuple[ProcessTree, Connection, list[int]]:
    tree, pipe = start_python(f"{__name__}:with_children")
    return tree, pipe, pipe.recv()


def test_a_process_is_killed_with_its_descendants_in_any_session() -> None:
    tree, pipe, children = start()
    tree.kill()
    assert ended(*children)
    assert tree.process.returncode == -signal.SIGKILL
    with pytest.raises(EOFError):
        pipe.recv()
    tree.kill()  # nothing is left to kill


def test_descendants_that_were_seen_are_killed_even_if_the_process_has_ended() -> None:
    tree, pipe, children = start()
    assert tree.memory() > MEBIBYTES << 20
    pipe.send(None)
    tree.process.wait()
    assert tree.memory() > 0  # the children's
    tree.kill()
    assert ended(*children)


def test_a_process_ends_with_its_parent_and_so_do_its_descendants(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    program = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from pathlib import Path\n"
        "from test_processes import start\n"
        "tree, pipe, children = start()\n"
        f"Path({str(note)!r}).write_text(' '.join(map(str, [tree.process.pid, *children])))\n"
        "print(flush=True)\n"
        "pipe.recv()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:  # noqa: S603
        assert parent.stdout is not None
        parent.stdout.readline()
        parent.kill()
    assert ended(*map(int, note.read_text(encoding="utf-8").split()))


FORKED = """
import os, sys, jtsolve as jt
table = {"rain": ["yes", "no"] * 30, "wet": ["yes", "no", "no"] * 20}
model = jt.learn(table, treewidth=1).fit()
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
try:
    model.loglik(table)
except jt.ChoiceError as error:
    print(error, model.query("wet").height)
"""


def test_a_forked_process_says_at_once_that_it_cannot_read_tables() -> None:
    program = [sys.executable, "-W", "ignore", "-c", FORKED]
    said = subprocess.check_output(program, text=True)  # noqa: S603 - ours
    assert 'get_context("spawn")' in said
    assert said.endswith(" 2\n")  # questions need no table


def test_a_lifeline_that_closes_kills_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = threading.Event()
    texts = iter([b"x", b""])

    def kill(group: int, number: int) -> None:
        assert (group, number) == (0, signal.SIGKILL)
        killed.set()

    monkeypatch.setattr(os, "getpgrp", os.getpid)
    monkeypatch.setattr(os, "read", lambda *_: next(texts))
    monkeypatch.setattr(os, "killpg", kill)
    monkeypatch.setattr("psutil.Process.children", lambda *_, **__: [])
    end_with_parent()
    assert killed.wait(60)


def test_a_process_that_does_not_lead_its_group_has_no_lifeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpgrp", lambda: -1)
    before = threading.active_count()
    end_with_parent()
    assert threading.active_count() == before


def test_a_function_is_found_by_its_name() -> None:
    assert function_named("pathlib:Path") is Path
