"""The most probable configuration (MPE) of a product of factors, or the k best ones, exactly.

Max-product elimination along a junction tree (R. G. Cowell, A. P. Dawid, S. L. Lauritzen and D. J.
Spiegelhalter, Probabilistic Networks and Expert Systems, 1999, section 6.4.1), with lists of the k largest
values in place of maxima: each clique, from the leaves to the root, is a table of logarithms; each cell of
its separator keeps the k largest log probabilities of the subtree, and backpointers. (E. L. Lawler,
Management Science 18, 1972, and D. Nilsson, Statistics and Computing 8, 1998, obtain the same by k
single-best runs.)

Time: cells × k² × neighbours. Memory: the largest table and all separators for k = 1, which is less than a
calibrated tree needs; cells × k × neighbours for more. Ties go to the first cells, where the separator's
variables come before the others.
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.core.tree import adjacency
from jtsolve.core.varset import members, varset
from jtsolve.errors import ChoiceError
from jtsolve.models.answers import Configuration
from jtsolve.models.layout import host_cliques, require_room, rooted, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.columns import Column


class _Backpointers(NamedTuple):
    """The origin of each list entry at a clique.

    Attributes:
        merges: for each child, by cell and entry: index in the list before the merge × length of the child's
            list + index in the child's list.
        lengths: of the child's list, at each merge.
        best: by separator cell and entry: cell of the other members × width + index in its list.
        width: length of the lists of the clique's cells.
    """

    merges: list[NDArray[np.int64]]
    lengths: list[int]
    best: NDArray[np.int64]
    width: int


def most_probable(
    tree: JunctionTree,
    columns: Sequence[Column],
    factors: Sequence[tuple[tuple[int, ...], NDArray[np.float64]]],
    k: int,
    *,
    run: Run,
) -> list[Configuration]:
    """Returns the k best configurations, best first; fewer if the others are impossible.

    Args:
        tree: a junction tree of the variables.
        columns: the variables.
        factors: the variables of each factor, within a clique, and its logarithms, shape (states, …).
        k: at least 1.
        run: receives progress.

    Raises:
        ChoiceError: k is below 1.
        LimitError: the tables do not fit in memory; raised before they are built.
    """
    arities = [column.arity for column in columns]
    order, parent = rooted(tree)
    cliques = [tree.cliques[i] for i in order]
    pairs = zip(cliques, parent, strict=True)
    separators = [clique & cliques[above] if above >= 0 else 0 for clique, above in pairs]
    sizes, separator_sizes = (
        [prod(arities[v] for v in members(one)) for one in each] for each in (cliques, separators)
    )
    _require_lists(tree, sizes, sum(separator_sizes), k)
    terms: list[list[tuple[tuple[int, ...], NDArray[np.float64]]]] = [[] for _ in cliques]
    hosts = host_cliques([varset(variables) for variables, _ in factors], cliques)
    for host, factor in zip(hosts, factors, strict=True):
        terms[host].append(factor)
    children: list[list[int]] = [[] for _ in cliques]
    for place in range(1, len(cliques)):
        children[parent[place]].append(place)
    messages: dict[int, NDArray[np.float64]] = {}
    choices: list[_Backpointers] = []
    for done, place in enumerate(reversed(range(len(cliques)))):
        run.progress(note="maximising", done=sum(sizes[place + 1 :]) / sum(sizes) if done else None)
        inner = tuple(members(separators[place]))
        scope = (*inner, *members(cliques[place] & ~separators[place]))
        lists = np.zeros([*(arities[v] for v in scope), 1])
        for variables, logs in terms[place]:
            lists[..., 0] += spread(logs, variables, scope)
        terms[place] = []
        merges, lengths = [], []
        for child in children[place]:
            # The entries of a list are one more axis, the last.
            below = spread(messages.pop(child), (*members(separators[child]), -1), (*scope, -1))
            if lists.shape[-1] == below.shape[-1] == 1:
                lists += below  # in place: one table is alive at a time
                picked = np.broadcast_to(np.int64(0), (sizes[place], 1))
            else:
                sums = lists[..., :, None] + below[..., None, :]
                picked, lists = _largest(sums.reshape(*sums.shape[:-2], -1), k)
            merges.append(picked.reshape(sizes[place], -1))
            lengths.append(below.shape[-1])
        best, found = _largest(lists.reshape(separator_sizes[place], -1), k)
        choices.append(_Backpointers(merges, lengths, best, lists.shape[-1]))
        messages[place] = found.reshape([*(arities[v] for v in inner), -1])
    choices.reverse()

    def followed(entry: int) -> tuple[str, ...]:
        """Returns the configuration of an entry of the root's list."""
        codes = [0] * len(columns)
        stack = [(0, entry)]
        while stack:
            place, entry = stack.pop()
            choice, row = choices[place], 0
            for v in members(separators[place]):
                row = row * arities[v] + codes[v]
            others, entry = divmod(int(choice.best[row, entry]), choice.width)
            cell = row * (sizes[place] // separator_sizes[place]) + others
            for v in reversed(list(members(cliques[place] & ~separators[place]))):
                others, codes[v] = divmod(others, arities[v])
            merged = list(zip(children[place], choice.merges, choice.lengths, strict=True))
            for child, merge, length in reversed(merged):
                entry, other = divmod(int(merge[cell, entry]), length)
                stack.append((child, other))
        return tuple(column.states[code] for column, code in zip(columns, codes, strict=True))

    return [
        Configuration(followed(entry), float(value))
        for entry, value in enumerate(messages[0])
        if value > -np.inf
    ]


def _require_lists(tree: JunctionTree, sizes: Sequence[int], separator_cells: int, k: int) -> None:
    """Checks k, and that the lists of k configurations fit in memory."""
    if k < 1:
        raise ChoiceError(f"{k} configurations are requested; give a number of 1 or more")
    if k == 1:
        # A table; for each separator, the maxima and their places.
        each = 8 + ceil(16 * separator_cells / max(sizes))
        way = "more evidence, which removes its variables from the tables"
        require_room(max(sizes), "the largest table of the tree", way, each)
        return
    # Lists, backpointers, and the pairs of entries at a merge.
    widest = max([1, *map(len, adjacency(len(tree.cliques), tree.edges))])
    each = 8 * k * (k + 2 + widest)
    require_room(sum(sizes), f"the {k} best configurations", "a smaller k", each)


def _largest(lists: NDArray[np.float64], k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns the places of the k largest entries along the last axis, decreasing, and the entries."""
    first = lists.argmax(axis=-1)[..., None]
    picked = first if k == 1 else np.argsort(-lists, axis=-1, kind="stable")[..., :k]
    return picked, np.take_along_axis(lists, picked, axis=-1)
