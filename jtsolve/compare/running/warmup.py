"""Uncounted first runs, which compile the kernels of every backend and cache them on disk."""

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

    from jtsolve.compare.spec import Spec

_VARIABLES = 14
"""With fewer, several backends need no kernels."""
_LARGEST_SET = 4
_SECONDS = 20.0
"""Time limit: more than the compilation of any backend; an anytime search uses all of it."""


def rehearsals(specs: Sequence[Spec], place: Path) -> list[Spec]:
    """Returns a run on a small problem for every backend of the specifications.

    Args:
        specs: the runs to come.
        place: a folder for the file of the small problem.
    """
    path = place / "warm-up.json.gz"
    write_problem(_small_problem(), path)
    instance = InstanceFile(str(path.resolve()), "warm-up", file_digest(path))
    first: dict[str, Spec] = {}
    for spec in specs:
        first.setdefault(spec.backend, spec)
    return [
        msgspec.structs.replace(
            spec, instance=instance, treewidth=None, time_limit=min(_SECONDS, spec.time_limit or _SECONDS)
        )
        for spec in first.values()
    ]


def _small_problem() -> Problem:
    """Returns a problem of independent normal scores."""
    values = np.random.default_rng(0).standard_normal(count_bounded_subsets(_VARIABLES, _LARGEST_SET))
    values[0] = 0.0
    names = tuple(Variable(f"v{i}") for i in range(_VARIABLES))
    return Problem(names, DenseScores(_VARIABLES, _LARGEST_SET, values), name="warm-up")
