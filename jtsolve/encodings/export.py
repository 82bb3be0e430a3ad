"""A problem as a file for an outside solver: the family formulation in one of several formats."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING

from jtsolve.encodings.family import encode_family, predicted_memory
from jtsolve.encodings.formats import cpsat_proto, lp, mps, wcnf
from jtsolve.encodings.rounding import rounded
from jtsolve.errors import LimitError
from jtsolve.families.families import choose_root, families_of
from jtsolve.options import TREEWIDTH

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem

_FINEST = 30
"""The unit is at least 2^-30 nats, 10^-9, so that the sum of all weights fits 64 bits."""


def export(problem: Problem, target: str, memory: int | None = None) -> str:
    """Returns a problem as the text of a file, with comments that identify the instance.

    `encodings.answers` reads a solver's answer to it, knowing only n.

    Args:
        problem: with its constraints.
        target: the format, one of `core.formats.FORMULA`.
        memory: limit of the formula in bytes, or None.

    Raises:
        LimitError: the formula needs more memory, or has weights beyond 64 bits.
    """
    need = predicted_memory(problem)
    if memory is not None and need > memory:
        raise LimitError(
            f"the formula needs about {need / 1e9:.3g} GB, and {memory / 1e9:.3g} GB are free. Ways "
            f"out: a smaller {TREEWIDTH}; jtsolve convert --prune-below, for fewer sets."
        )
    families, unit = rounded(families_of(problem, choose_root(problem, None)), _FINEST)
    formula = encode_family(families).formula
    treewidth = problem.max_clique_size - 1
    remarks = (
        f"jtsolve: instance {dumps(problem.name)}, {problem.digest()}, treewidth at most {treewidth}",
        f"the score of a tree is within {unit.slack:.3g} nats of the objective",
        "adjacent_a_b, number b(b-1)/2 + a + 1 for a < b: an edge joins variables a and b, counted from 0",
    )
    if target == "wcnf":
        return wcnf(formula, unit, remarks)
    if target == "cpsat-proto":
        return cpsat_proto(formula, unit, remarks)
    return lp(formula, remarks) if target == "lp" else mps(formula, remarks)
