"""Functions of sets that remember their values, for any number of variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from jtsolve.core.varset import VarSet, key_of

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def remembered(function: Callable[[VarSet], T], n: int, most: int = 1 << 18) -> Callable[[VarSet], T]:
    """Returns a function of subsets of {0..n-1} that computes each value once; when full, it forgets all.

    >>> asked = []
    >>> squared = remembered(lambda mask: asked.append(mask) or mask**2, 100)
    >>> squared(3), squared(3), asked
    (9, 9, [3])
    """
    key, known = key_of(n), dict[int | bytes, T]()

    def value(mask: VarSet) -> T:
        place = key(mask)
        if place not in known:
            if len(known) >= most:
                known.clear()
            known[place] = function(mask)
        return known[place]

    return value
