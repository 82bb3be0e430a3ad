"""An uncounted first run of every backend, which compiles the kernels and caches them on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from jtsolve.compare.running.run import file_digest
from jtsolve.compare.spec import InstanceFile
from jtsolve.core.problem import Problem, Variable
from jtsolve.core.scores import DenseScores
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.io.instance import write_problem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jtsolve.compare.running.local import Executor
    from jtsolve.compare.spec import Spec

_VARIABLES = 9
_LARGEST_SET = 4
_SECONDS = 20.0
"""Time limit: more than the compilation of any backend; an anytime search uses all of it."""


def warm_up(specs: Sequence[Spec], executor: Executor, place: Path) -> None:
    """Runs every backend of the specifications once on a small problem, and discards the rows.

    Args:
        specs: the runs to come.
        executor: performs them.
        place: a folder for the file of the small problem.
    """
    path = place / "warm-up.json.gz"
    write_problem(_small_problem(), path)
    instance = InstanceFile(str(path.resolve()), "warm-up", file_digest(path))
    first: dict[str, Spec] = {}
    for spec in specs:
        first.setdefault(spec.backend, spec)
    rehearsals = [
        msgspec.structs.replace(
            spec, instance=instance, treewidth=None, time_limit=min(_SECONDS, spec.time_limit or _SECONDS)
        )
        for spec in first.values()
    ]
    executor.execute(rehearsals, lambda _row: None)


def _small_problem() -> Problem:
    """Returns a problem of independent normal scores."""
    values = np.random.default_rng(0).standard_normal(count_bounded_subsets(_VARIABLES, _LARGEST_SET))
    values[0] = 0.0
    names = tuple(Variable(f"v{i}") for i in range(_VARIABLES))
    return Problem(names, DenseScores(_VARIABLES, _LARGEST_SET, values), name="warm-up")
