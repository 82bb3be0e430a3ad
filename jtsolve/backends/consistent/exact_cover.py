"""Exact covers by CP-SAT: disjoint sets, of those on offer, that cover all variables wanted.

A greedy cover may miss one that exists: of {a,b,c}, {a,b,d} and {c} it may take {a,b,c} first and never cover
d by {a,b,d}. An exact cover is a Boolean for each set and "exactly one" for each variable; CP-SAT decides it,
in a process of its own (`worker`), as its library cannot be loaded beside other solvers'.

References:
    Karp, Reducibility among combinatorial problems, 1972 (exact cover is NP-complete).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.backends.support.worker import Call, run
from jtsolve.core.backend import Limits
from jtsolve.core.varset import VarSet, members

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from jtsolve.core.backend import Report

_DETERMINISTIC_LIMIT = 60.0
"""Of CP-SAT's own measure of work; covers of some tens of sets take less than 0.01."""


def exact_cover(wanted: VarSet, offered: Sequence[VarSet], report: Report) -> list[int] | None:
    """Returns positions of disjoint offered sets whose union is `wanted`, or None if there are none.

    None as well if the report says to stop. Of {0,1,2}, {0,1,3} and {2}, the last two cover {0,1,2,3}.
    """
    call = Call("ortools", f"{__name__}:decide", (wanted, tuple(offered)))
    chosen, _ = run(call, lambda _nothing: None, report, Limits())
    if chosen is None:
        return None
    union = 0
    for i in chosen:
        if offered[i] & union:
            return None
        union |= offered[i]
    return list(chosen) if union == wanted else None


def decide(_say: Callable[[Any], None], wanted: VarSet, offered: Sequence[VarSet]) -> list[int] | None:
    """Does the work of `exact_cover` in the process of the solver."""
    from ortools.sat.python import cp_model

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
    return [i for i, variable in taken.items() if solver.boolean_value(variable)]
