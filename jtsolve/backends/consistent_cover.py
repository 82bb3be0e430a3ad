"""Exact covers by CP-SAT: disjoint sets, of those on offer, that cover all variables wanted.

A greedy cover may miss one that exists: of {a,b,c}, {a,b,d} and {c} it may take {a,b,c} first and never cover
d by {a,b,d}. An exact cover is a Boolean for each set and "exactly one" for each variable; CP-SAT decides it.

References:
    Karp, Reducibility among combinatorial problems, 1972 (exact cover is NP-complete).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.errors import ChoiceError
from jtsolve.varset import VarSet, members

if TYPE_CHECKING:
    from collections.abc import Sequence

_DETERMINISTIC_LIMIT = 60.0
"""Of CP-SAT's own measure of work; covers of some tens of sets take less than 0.01."""


def require_solver() -> None:
    """Raises ChoiceError if CP-SAT is not installed."""
    try:
        import ortools.sat.python.cp_model  # noqa: F401, PLC0415 - only when it is asked for
    except ImportError as error:
        raise ChoiceError(
            "exact covers need CP-SAT, which is not installed; install jtsolve[solvers], or take cover=greedy"
        ) from error


def exact_cover(wanted: VarSet, offered: Sequence[VarSet]) -> list[int] | None:
    """Returns positions of disjoint offered sets whose union is `wanted`, or None if there are none.

    >>> exact_cover(0b1111, [0b0111, 0b1011, 0b1100, 0b0100])
    [1, 3]
    """
    from ortools.sat.python import cp_model  # noqa: PLC0415 - an extra, and half a second

    model = cp_model.CpModel()
    first = {mask: i for i, mask in reversed(list(enumerate(offered)))}  # equal sets are one
    taken = {i: model.new_bool_var("") for i in sorted(first.values())}
    for v in members(wanted):
        model.add_exactly_one(taken[i] for i in taken if offered[i] >> v & 1)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = _DETERMINISTIC_LIMIT
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    chosen = [i for i, variable in taken.items() if solver.boolean_value(variable)]
    union = 0
    for i in chosen:
        if offered[i] & union:
            return None
        union |= offered[i]
    return chosen if union == wanted else None
