"""The report of a small comparison, for the gallery: the page of `jtsolve report`.

For speed, the runs share the process of the documentation's build; runs of `jtsolve compare` are separate
processes whose limits are enforced from outside.
"""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jtsolve.compare.folder import ComparisonPlan
from jtsolve.compare.reporting.judge import judge
from jtsolve.compare.reporting.page import html
from jtsolve.compare.reporting.tables import Comparison
from jtsolve.compare.running.run import file_digest, row_of
from jtsolve.compare.spec import InstanceFile, Row, Spec
from jtsolve.core.machine import describe_machine

if TYPE_CHECKING:
    from sphinx.application import Sphinx

INSTANCES = ("nursery", "tic-tac-toe", "poker", "bridges", "flare", "zoo")
BACKENDS = ("clutter", "dp", "forward", "lns:kicks=5", "search:steps=9999")
TREEWIDTH = 2
_ROOT = Path(__file__).parents[1]


def write(app: Sphinx, exception: Exception | None) -> None:
    """Writes the page into the site after a successful build."""
    if exception is None and app.builder.format == "html":
        target = Path(app.outdir) / "comparison"
        target.mkdir(exist_ok=True)
        (target / "report.html").write_text(report(), encoding="utf-8")


def report() -> str:
    """Returns the page."""
    with contextlib.chdir(_ROOT):  # paths on the page are relative to it
        return _report()


def _report() -> str:
    specs = [
        _spec(instance, backend, seed)
        for instance in INSTANCES
        for backend in BACKENDS
        for seed in ((0, 1) if backend.startswith(("lns", "search")) else (0,))
    ]
    _row(specs[0])  # imports and compilation are not measured
    rows = [_row(spec) for spec in specs]
    machine = describe_machine(1)
    plan = ComparisonPlan("jtsolve-comparison", 1, machine["command"], _now(), machine, specs)
    return html(Comparison(rows, judge(rows), len(specs)), plan)


def _spec(instance: str, backend: str, seed: int) -> Spec:
    path = f"instances/uci/{instance}.json.gz"
    file = InstanceFile(path, instance, file_digest(path))
    return Spec("jtsolve-run", 1, file, backend, seed, TREEWIDTH, 20.0, 2.0)


def _row(spec: Spec) -> Row:
    started = time.monotonic()
    row = row_of(spec, started)
    # The peak is that of the whole build, not of the run.
    return msgspec.structs.replace(row, seconds=time.monotonic() - started, started=_now(), peak_memory=None)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def setup(app: Sphinx) -> dict[str, bool]:
    """Writes the page when the site is built."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}
