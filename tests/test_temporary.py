from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from jtsolve.core.files import write_atomically
from jtsolve.core.temporary import temporary_folder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HOLDER = """
import pathlib, sys, time
from jtsolve.core.temporary import locked_file, locked_folder
_, folder = locked_folder()
(folder / "scores").write_bytes(b"part of a table")
handle, path = locked_file(pathlib.Path(sys.argv[1]))
print(folder, path, sep="\\n", flush=True)
time.sleep(600)
"""


def test_files_of_killed_processes_are_removed_and_those_of_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    foreign = tmp_path / ".other.tmp"
    foreign.touch()
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:  # noqa: S603 - our own
        assert holder.stdout is not None
        made = {holder.stdout.readline().strip() for _ in range(2)}

        def left() -> set[str]:
            with temporary_folder() as folder:
                write_atomically(tmp_path / "result.json", b"{}")
                assert folder.is_dir()
            assert not folder.exists()
            return {str(path) for path in tmp_path.iterdir()}

        ours = {str(foreign), str(tmp_path / "result.json")}
        assert left() == made | ours
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        assert left() == ours
