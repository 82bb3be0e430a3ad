"""The share of the contract that a backend runs: all of it, or a stated share for costly backends.

A backend that starts a process and a solver for every problem, however small (0.05 to 0.5 seconds), would
need an hour where others need a minute; `search` makes all its steps on a problem of three variables too
(0.2 seconds, others 0.01). The share is drawn by a checksum of the problem's description: the same problems
in every run, spread over all constraints, in any order of the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Share:
    """A share of the problems, which are identified by keys.

    Args:
        small: one in this many of the problems of up to five variables, which brute force solves too.
        large: one in this many of those of six to eight.
        most: the variables of the largest of these.
        limits: one in this many of those on which limits and interruption are tried.
    """

    small: int = 1
    large: int = 1
    most: int = 8
    limits: int = 1

    def has(self, n: int, key: str) -> bool:
        """Returns whether a problem with n variables is in the share."""
        return n <= self.most and _number(key) % (self.small if n <= 5 else self.large) == 0


WHOLE = Share()

COSTLY: Mapping[str, Share] = {
    "cpsat": Share(small=12, large=2, most=6, limits=5),
    "ilp": Share(small=12, large=2, most=6, limits=5),
    "maxsat": Share(small=12, large=2, most=6, limits=5),
    "search": Share(small=8, large=2),
}
"""The share of each backend that does not run the whole contract: some 50 problems; of `search`, 80."""


def share_of(name: str) -> Share:
    """Returns the share of a backend."""
    return COSTLY.get(name, WHOLE)


def drawn(choices: Sequence[T], key: str) -> T:
    """Returns one of the choices, determined by the key, independently of the shares."""
    return choices[_number(f"choice of {key}") % len(choices)]


def _number(key: str) -> int:
    return crc32(key.encode())
