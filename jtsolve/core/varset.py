"""Sets of variables as bit masks.

A `VarSet` is a Python int of any length: variable i is bit i, so 0b100101 is {0, 2, 5} and 0 is the empty
set. Union, intersection and difference are `|`, `&` and `& ~`; the size is `int.bit_count`. Increasing masks
are in colexicographic order, in which score tables are stored.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import comb
from operator import mul
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VarSet: TypeAlias = int

_HASHED_BITS = 61
"""Python hashes a number modulo 2^61 − 1, so that bits v and v + 61 count alike: all 499,500 pairs of 1,000
variables have 1,891 hashes."""


def key_of(n: int) -> Callable[[VarSet], int | bytes]:
    """Returns a function from subsets of {0..n-1} to keys of dictionaries: equal for equal sets only.

    Up to 61 variables the mask is its own key; beyond, its bytes are, whose hashes do not collide.

    >>> key_of(61)(0b101), list(key_of(62)(0b101))
    (5, [5, 0, 0, 0, 0, 0, 0, 0])
    """
    if n <= _HASHED_BITS:
        return int
    size = (n + 7) // 8
    return lambda mask: mask.to_bytes(size, "little")


def set_table(n: int, pairs: Iterable[tuple[VarSet, float]]) -> Mapping[VarSet, float]:
    """Returns a number for each of some subsets of {0..n-1}, in their order, under keys that do not collide.

    >>> set_table(70, [(1 << 69, 0.5)])[1 << 69]
    0.5
    """
    if n <= _HASHED_BITS:
        return dict(pairs)
    key = key_of(n)
    return ByteTable((n + 7) // 8, {key(mask): value for mask, value in pairs})


@dataclass(frozen=True, slots=True, eq=False)
class ByteTable(Mapping[VarSet, float]):
    """Numbers by the bytes of sets; see `key_of`."""

    size: int
    values_by_key: dict[int | bytes, float]

    def __getitem__(self, mask: VarSet) -> float:
        return self.values_by_key[mask.to_bytes(self.size, "little")]

    def __iter__(self) -> Iterator[VarSet]:
        return (int.from_bytes(key, "little") for key in self.values_by_key if isinstance(key, bytes))

    def __len__(self) -> int:
        return len(self.values_by_key)


def varset(members: Iterable[int]) -> VarSet:
    """Returns the set of the given variables.

    >>> bin(varset([0, 2, 5]))
    '0b100101'
    """
    mask = 0
    for member in members:
        mask |= 1 << member
    return mask


def members(mask: VarSet) -> Iterator[int]:
    """Yields the variables of a set in increasing order.

    >>> list(members(0b100101))
    [0, 2, 5]
    """
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def renumbered(mask: VarSet, place: Mapping[int, int] | Sequence[int]) -> VarSet:
    """Returns the set in which variable v is called `place[v]`.

    >>> bin(renumbered(0b101, [2, 1, 3]))
    '0b1100'
    """
    return varset(place[v] for v in members(mask))


def neighbours_of(n: int, edges: Iterable[Iterable[int]]) -> list[VarSet]:
    """Returns the neighbours of each of n vertices.

    >>> neighbours_of(3, [(0, 1), (2, 1)])
    [2, 5, 2]
    """
    around = [0] * n
    for u, v in edges:
        around[u] |= 1 << v
        around[v] |= 1 << u
    return around


def connects(neighbours: Sequence[VarSet], u: int, v: int, without: VarSet) -> bool:
    """Returns whether some path joins two vertices outside a set.

    Searches from both ends in turn, so it ends once the smaller of the two components is explored.

    Args:
        neighbours: of each vertex.
        u: one end.
        v: the other end.
        without: the vertices that the path avoids.
    """
    seen = [1 << u, 1 << v]
    frontiers = [1 << u, 1 << v]
    side = 0
    while frontiers[side]:
        lowest = frontiers[side] & -frontiers[side]
        fresh = neighbours[lowest.bit_length() - 1] & ~seen[side] & ~without
        if fresh & seen[1 - side]:
            return True
        seen[side] |= fresh
        frontiers[side] = (frontiers[side] ^ lowest) | fresh
        side = 1 - side
    return False


def is_subset(inner: VarSet, outer: VarSet) -> bool:
    """Returns whether every variable of `inner` is in `outer`; the empty set is in every set.

    >>> is_subset(0b101, 0b111), is_subset(0b101, 0b110)
    (True, False)
    """
    return not inner & ~outer


def subsets(mask: VarSet) -> Iterator[VarSet]:
    """Yields all 2^|mask| subsets of a set in increasing order, the empty set first.

    >>> list(subsets(0b101))
    [0, 1, 4, 5]
    """
    subset = 0
    while True:
        yield subset
        if subset == mask:
            return
        subset = (subset - mask) & mask


def bounded_subsets(n: int, max_size: int) -> Iterator[VarSet]:
    """Yields the subsets of {0..n-1} with at most `max_size` members in increasing (colex) order.

    >>> list(bounded_subsets(3, 1))
    [0, 1, 2, 4]
    """
    yield 0
    for top in range(n):
        if max_size > 0:
            yield from ((1 << top) | rest for rest in bounded_subsets(top, max_size - 1))


@lru_cache(maxsize=4096)
def count_bounded_subsets(n: int, max_size: int) -> int:
    """Returns the number of subsets of {0..n-1} with at most `max_size` members (0 if it is negative).

    >>> count_bounded_subsets(4, 2)
    11
    """
    return sum(comb(n, size) for size in range(max_size + 1))


def colex_rank(mask: VarSet, max_size: int) -> int:
    """Returns the position of a set among the sets of at most `max_size` members in colex order.

    The sets before `mask` agree with it above some member and lack that member: with j members above
    member v, there are as many as subsets of {0..v-1} of size at most `max_size` - j.

    >>> [colex_rank(mask, 2) for mask in (0b000, 0b001, 0b011, 0b100, 0b101)]
    [0, 1, 3, 4, 5]
    """
    rank = 0
    for member in reversed(list(members(mask))):
        rank += count_bounded_subsets(member, max_size)
        max_size -= 1
    return rank


def largest_within(arities: Sequence[int], cells: int) -> int:
    """Returns the size of the largest sets with at most this many joint states.

    >>> largest_within([5, 2, 3], 10)
    2
    """
    return bisect_right(list(accumulate(sorted(arities), mul)), cells)


def count_within(arities: Sequence[int], cells: int, size: int) -> int:
    """Returns the number of small sets of variables with few joint states, including ∅.

    >>> count_within([5, 2, 3], 10, 2)  # ∅, three of one, {5, 2} and {2, 3}
    6

    Args:
        arities: the number of states of each variable.
        cells: maximum number of joint states.
        size: maximum number of variables.
    """
    found = Counter({(0, 1): 1})  # sets by their size and joint states
    for arity in arities:
        for (length, states), count in list(found.items()):
            if length < size and states * arity <= cells:
                found[length + 1, states * arity] += count
    return found.total()
