from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import pytest

from jtsolve.core import machine
from jtsolve.core.run import Limits


def test_memory_held_is_memory_seen() -> None:
    before = machine.resident_memory()
    block = np.ones(10_000_000)
    assert machine.resident_memory() - before > 0.8 * block.nbytes
    assert machine.peak_memory() >= machine.resident_memory() * 0.9


def test_free_memory_is_no_more_than_the_control_group_has_left(tmp_path: Path) -> None:
    assert machine.free_memory(tmp_path) > 0
    (tmp_path / "memory.max").write_text("5000\n", encoding="ascii")
    (tmp_path / "memory.current").write_text("2000\n", encoding="ascii")
    assert machine.free_memory(tmp_path) == 3000
    (tmp_path / "memory.max").write_text("max\n", encoding="ascii")
    assert machine.free_memory(tmp_path) > 3000


def test_the_description_names_versions_and_threads() -> None:
    found = machine.describe_machine(3)
    assert found["threads"] == 3
    assert set(found) == {
        "jtsolve",
        "python",
        "numpy",
        "numba",
        "platform",
        "processor",
        "cores",
        "threads",
        "command",
    }


@pytest.mark.parametrize(
    ("program", "shown"), [("/some/where/jtsolve/__main__.py", "jtsolve"), ("/some/bin/jtsolve", "jtsolve")]
)
def test_the_command_names_no_folder(monkeypatch: pytest.MonkeyPatch, program: str, shown: str) -> None:
    monkeypatch.setattr(sys, "argv", [program, "solve", "a.json"])
    assert machine.describe_machine(1)["command"] == f"{shown} solve a.json"


def test_without_a_limit_held_memory_does_not_count_against_free_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jtsolve.core.run.free_memory", lambda: 1000)
    monkeypatch.setattr("jtsolve.core.run.resident_memory", lambda: 50_000)
    assert Limits().memory_bytes == 50_800
    assert Limits(memory=7).memory_bytes == 7


def test_a_system_without_proc_is_described_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_file", lambda _path: False)
    monkeypatch.setattr("platform.processor", lambda: "abacus")
    machine._processor.cache_clear()
    assert machine.describe_machine(1)["processor"] == "abacus"
    machine._processor.cache_clear()
    assert machine.peak_memory() > 0
    assert machine.resident_memory() > 0
    assert machine.free_memory() > 0


def test_the_limits_of_the_shell_and_of_the_call_count_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (resource.RLIM_INFINITY,) * 2)
    with machine.memory_of_call():
        machine.allow_memory(machine.resident_memory() + 2 * 10**7)
        assert machine.free_memory() <= 3 * 10**7
        assert Limits().memory_bytes == machine.allowed_memory()
    assert machine.allowed_memory() is None
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + 10**6
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (most, most))
    assert machine.free_memory() <= 10**6
