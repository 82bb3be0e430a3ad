"""Members for tests of the portfolio, in a small module that child processes load quickly."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from jtsolve.core.backend import Capabilities, Estimate
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import StoppedError
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import LimitError

if TYPE_CHECKING:
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits


@dataclass(frozen=True, slots=True)
class Member:
    """Behaves as its field requires."""

    does: str
    path: str = ""
    bytes: int = 1 << 27  # more than a process holds
    frugal: int = 0  # bytes where those do not fit
    exact: bool = False
    seconds: float = 1.0
    certificate: str | None = None

    name: ClassVar[str] = "member"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(exact=self.exact)

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:  # noqa: ARG002
        fits = self.bytes <= limits.memory_bytes or not self.frugal
        return Estimate(self.bytes if fits else self.frugal, self.seconds)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        edgeless = JunctionTree(
            problem.n,
            tuple(1 << v for v in range(problem.n)),
            tuple((v, v + 1) for v in range(problem.n - 1)),
        )
        full = JunctionTree(problem.n, ((1 << problem.n) - 1,), ())
        if self.does == "crash":
            os._exit(3)
        if self.does == "raise":
            raise ZeroDivisionError("nothing to divide by")
        if self.does == "raise oddly":
            raise Odd(1, 2)
        if self.does == "stop":
            raise StoppedError
        if self.does == "refuse":
            raise LimitError("too little")
        if self.does == "break":
            report(tree=full)
        if self.does == "break at the end":
            return Outcome(full)
        if self.does == "wait":
            report(tree=edgeless)
            while report(done=0.5, note="waiting"):
                pass
            return Outcome(edgeless, stop=report.stop or Stop.FINISHED, stats={"stopped": True})
        if self.does == "hang":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
            Path(self.path).write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
            report(tree=edgeless)
            while True:
                pass
        if self.does == "prove":
            report(tree=edgeless)
            return Outcome(edgeless, edgeless.score(problem.scores))
        if self.does == "follow":
            while (tree := report.incumbent) is None and report(note="waiting"):
                pass
            return Outcome(tree, inf if tree is None else tree.score(problem.scores))
        if self.does == "prove none":
            return Outcome(None, bound=float("-inf"))
        return Outcome(edgeless, stop=Stop.STEPS, stats=self.seen(limits))

    @staticmethod
    def seen(limits: Limits) -> dict[str, int | bool]:
        return {
            "seed": limits.seed,
            "threads": limits.workers,
            "memory": limits.memory_bytes,
            "timed": limits.time is not None,
        }


class Odd(Exception):  # noqa: N818
    """An error that cannot be rebuilt from its arguments."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")
