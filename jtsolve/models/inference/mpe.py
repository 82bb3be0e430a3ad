"""The most probable configuration (MPE), or the k best, exactly.

Dynamic programming over k-best lists: messages towards the root carry, for each cell of the separator, the k
largest log probabilities of the subtree and backpointers. (E. L. Lawler, Management Science 18, 1972, and
D. Nilsson, Statistics and Computing 8, 1998, obtain the same by k single-best runs.) Time: cells × k² ×
neighbours; memory: cells × k × neighbours. Ties go to the first cells in the order of the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.core.tree import adjacency
from jtsolve.errors import ChoiceError
from jtsolve.models.layout import require_room
from jtsolve.models.protocol import Configuration

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.layout import CliqueTables, Layout


class _Backpointers(NamedTuple):
    """The origin of each list entry at a clique.

    Attributes:
        merges: for each child, by cell and entry: index in the list before the merge × length of the child's
            list + index in the child's list.
        lengths: of the child's list, at each merge.
        cells: by separator cell and entry: clique cell × width + index in its list.
        width: length of the lists of the clique's cells.
    """

    merges: list[NDArray[np.int64]]
    lengths: list[int]
    cells: NDArray[np.int64]
    width: int


def most_probable(model: CliqueTables, k: int = 1) -> list[Configuration]:
    """Returns the k most probable configurations, best first; fewer if the others are impossible.

    Args:
        model: the distribution; condition it first to explain evidence.
        k: at least 1.

    Raises:
        ChoiceError: k is below 1.
        LimitError: the lists do not fit in memory.
    """
    layout = model.layout
    require_lists(model.tree, layout.cells, k)
    children: list[list[int]] = [[] for _ in layout.order]
    for place in range(1, len(layout.order)):
        children[layout.parent[place]].append(place)
    messages: list[NDArray[np.float64]] = [np.empty(0)] * len(layout.order)
    choices: list[_Backpointers] = [_Backpointers([], [], np.empty(0, np.int64), 0)] * len(layout.order)
    for place in reversed(range(len(layout.order))):
        lists = layout.table(model.families, place).reshape(-1, 1)
        merges, lengths = [], []
        for child in children[place]:
            message = messages[child][_projection(layout, place, layout.shape.above[child])]
            pairs = (lists[:, :, None] + message[:, None, :]).reshape(len(lists), -1)
            picked, lists = _largest(pairs, k)
            merges.append(picked)
            lengths.append(message.shape[1])
        cell_of = np.argsort(_projection(layout, place, layout.shape.own[place]), kind="stable")
        separator_cells = int(layout.shape.separator[place + 1] - layout.shape.separator[place])
        rows = lists[cell_of].reshape(separator_cells, -1)
        picked, messages[place] = _largest(rows, k)
        inside = rows.shape[1] // lists.shape[1]
        at = cell_of.reshape(separator_cells, inside)
        cells = np.take_along_axis(at, picked // lists.shape[1], axis=1) * lists.shape[1]
        choices[place] = _Backpointers(merges, lengths, cells + picked % lists.shape[1], lists.shape[1])
    return [
        Configuration(_followed(model, children, choices, entry), float(value))
        for entry, value in enumerate(messages[0][0])
        if value > -np.inf
    ]


def require_lists(tree: JunctionTree, cells: int, k: int, *, limit: int | None = None, also: int = 0) -> None:
    """Checks that the lists of k configurations fit.

    Args:
        tree: of the model.
        cells: of its tables.
        k: entries of a list.
        limit: most bytes; None for the free memory.
        also: further bytes per cell.

    Raises:
        ChoiceError: k is below 1.
        LimitError: they do not.
    """
    if k < 1:
        raise ChoiceError(f"{k} configurations are requested; give a number of 1 or more")
    # Lists, backpointers, and the pairs of entries at a merge.
    widest = max([1, *map(len, adjacency(len(tree.cliques), tree.edges))])
    each = 8 * k * (k + 2 + widest) + also
    require_room(cells, f"the {k} best configurations", "a smaller k", each, limit=limit)


def _largest(rows: NDArray[np.float64], k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns the indices of the k largest entries of each row, decreasing, and the entries."""
    best = np.argmax(rows, axis=1)[:, None]
    picked = best if k == 1 else np.argsort(-rows, axis=1, kind="stable")[:, :k]
    return picked, np.take_along_axis(rows, picked, axis=1)


def _projection(layout: Layout, place: int, stride: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the cell that each cell of a clique projects to."""
    dims = layout.dims(place)
    cells = np.zeros(dims, dtype=np.int64)
    for k, arity in enumerate(dims):
        cells += (np.arange(arity) * stride[k]).reshape([-1 if j == k else 1 for j in range(len(dims))])
    return cells.ravel()


def _followed(
    model: CliqueTables, children: list[list[int]], choices: list[_Backpointers], entry: int
) -> tuple[str, ...]:
    """Follows the backpointers from an entry of the root's list; returns its configuration."""
    layout = model.layout
    codes = [0] * len(model.columns)
    stack = [(0, 0, entry)]
    while stack:
        place, separator_cell, entry = stack.pop()
        choice = choices[place]
        cell, entry = divmod(int(choice.cells[separator_cell, entry]), choice.width)
        for v, code in zip(layout.cliques[place], np.unravel_index(cell, layout.dims(place)), strict=True):
            codes[v] = int(code)
        merged = list(zip(children[place], choice.merges, choice.lengths, strict=True))
        for child, merge, length in reversed(merged):
            entry, other = divmod(int(merge[cell, entry]), length)
            steps = layout.shape.own[child]
            at = sum(codes[v] * int(steps[k]) for k, v in enumerate(layout.cliques[child]) if steps[k])
            stack.append((child, at, other))
    return tuple(column.states[code] for column, code in zip(model.columns, codes, strict=True))
