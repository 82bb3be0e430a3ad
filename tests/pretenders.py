"""Solvers for tests of `jtsolve.backends.support.solver`, in a module that loads quickly."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

from jtsolve.backends.support.solver import SolverMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.backends.support.solver import SolverInput


def finds_nothing(_send: Callable[[SolverMessage], None], _work: SolverInput) -> float:
    """Claims infeasibility."""
    return -inf


def never_ends(send: Callable[[SolverMessage], None], work: SolverInput) -> float:
    """Sends its tree and a bound, then runs until it is killed."""
    send(SolverMessage(tree=work.tree))
    send(SolverMessage(bound=1000.0))
    while True:
        time.sleep(1000)  # without a waiting parent


def proves_nothing(_send: Callable[[SolverMessage], None], _work: SolverInput) -> float:
    """Ends without a tree or a bound."""
    return inf
