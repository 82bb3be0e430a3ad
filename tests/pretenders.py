"""Solvers for tests of `jtsolve.backends.support.run`, in a module that loads quickly."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

from jtsolve.backends.support.run import News

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.backends.support.run import Work


def finds_nothing(_say: Callable[[News], None], _work: Work) -> float:
    """Claims that there is no tree."""
    return -inf


def never_ends(say: Callable[[News], None], work: Work) -> float:
    """Tells of the tree that it was given and of a bound, and goes on until it is killed."""
    say(News(tree=work.tree))
    say(News(bound=1000.0))
    while True:
        time.sleep(1000)  # nobody waits for it
