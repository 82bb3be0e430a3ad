"""The command line with misbehaving backends, for tests of comparisons and their child processes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.backend import Capabilities, Estimate, Report
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.tree import JunctionTree

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits

PROGRAM = (sys.executable, str(Path(__file__).resolve()), "run", "--inside")


@dataclass(frozen=True, slots=True)
class Strange:
    """Reports a tree at once, and then misbehaves.

    Args:
        does: its behaviour after the tree.
        note: a file: "deaf" writes the number of its child there; "endless" ends once it exists.
    """

    does: str = "endless"
    note: str = ""
    name: ClassVar[str] = "strange"
    capabilities: ClassVar[Capabilities] = Capabilities()

    def estimate(self, _problem: Problem, _limits: Limits) -> Estimate:
        return Estimate(10**6, 1.0)

    def solve(self, problem: Problem, _limits: Limits, report: Report) -> Outcome:
        print("words of a solver", flush=True)  # noqa: T201 - on purpose
        edgeless = JunctionTree(
            problem.n, tuple(1 << v for v in range(problem.n)), tuple((0, v) for v in range(1, problem.n))
        )
        report(tree=edgeless, bound=1e6)
        if self.does == "abort":
            os.abort()
        if self.does == "leave":
            os._exit(3)
        if self.does == "hog":
            held = []
            while True:
                held.append(bytearray(os.urandom(1) * (1 << 25)))
        if self.does == "deaf":
            with subprocess.Popen(["sleep", "600"], start_new_session=True) as child:  # noqa: S607
                Path(self.note).write_text(str(child.pid), encoding="ascii")
                while True:
                    ctypes.CDLL(None).pause()
        while report() and not (self.note and Path(self.note).exists()):
            threading.Event().wait(0.02)
        return Outcome(None, stop=report.stop or Stop.FINISHED)


def register() -> None:
    """Registers the backends."""
    registry: Any = REGISTRY
    registry["strange"] = Strange()


if __name__ == "__main__":
    register()
    from jtsolve.__main__ import main
    from jtsolve.compare.running import local

    local.perform = partial(local.perform, program=PROGRAM)
    main()
