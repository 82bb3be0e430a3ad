"""Small hand-made comparisons for tests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
from problems import gaussian, named

from jtsolve.compare.folder import ComparisonPlan
from jtsolve.compare.reporting.tables import Comparison
from jtsolve.compare.running.run import file_digest, row_of
from jtsolve.compare.spec import InstanceFile, Row, RunStatus, Spec
from jtsolve.io.instance import write_problem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jtsolve.core.problem import Constraints
    from jtsolve.io.result import ResultDocument


def make_instance(
    folder: Path, label: str = "small", n: int = 5, seed: int = 7, constraints: Constraints | None = None
) -> InstanceFile:
    path = folder / f"{label}.json"
    write_problem(named(gaussian(seed, n), constraints, label), path)
    return InstanceFile(str(path), label, file_digest(path))


def make_spec(instance: InstanceFile, backend: str = "brute", **more: object) -> Spec:
    spec = Spec("jtsolve-run", 1, instance, backend, memory_limit=4.0)
    return msgspec.structs.replace(spec, **more)


def make_row(spec: Spec, **more: object) -> Row:
    """Returns the row of a run in this process, changed."""
    row = row_of(spec, time.monotonic())
    return msgspec.structs.replace(row, seconds=1.5, **more)


def changed(row: Row, **more: object) -> Row:
    """Returns a row whose result contradicts it."""
    result: ResultDocument | None = row.result
    assert result is not None
    result = msgspec.structs.replace(result, **more)
    return msgspec.structs.replace(row, result=result, status=RunStatus(result.status.value))


def make_plan(rows: Sequence[Row]) -> ComparisonPlan:
    specs = [row.spec for row in rows]
    machine = {"processor": "P", "cores": 2, "platform": "L", "python": "3", "numpy": "2", "numba": "0"}
    return ComparisonPlan("jtsolve-comparison", 1, "jtsolve compare …", "2020-01-01", machine, specs)


def compared(rows: Sequence[Row]) -> Comparison:
    return Comparison(list(rows), (), len(rows))
