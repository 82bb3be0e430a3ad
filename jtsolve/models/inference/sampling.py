"""Exact sampling: the root first, then each clique given its separator.

For samples given evidence, condition the model first. Time for a row: one binary search for each clique.
Memory: a copy of the tables, and a block of random numbers.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.models.layout import require_room
from jtsolve.models.protocol import require_draws
from jtsolve.tables.table import code_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.models.layout import CliqueTables
    from jtsolve.tables.table import Codes

BLOCK = 1 << 14
"""Rows drawn at a time: the random numbers for 100 cliques take 13 MB."""


def sample(model: CliqueTables, rows: int, seed: int = 0) -> Codes:
    """Returns independent rows as codes, shape (variables, rows).

    Reproducible by model, number of rows and seed (numpy's PCG64).

    Args:
        model: the distribution.
        rows: at least 0.
        seed: at least 0.

    Raises:
        ChoiceError: a number is negative.
        LimitError: the rows do not fit in memory.
    """
    from jtsolve.models.kernels.rows import draw

    require_draws(rows, seed)
    layout = model.layout
    shape = layout.shape
    cumulative, member, own = _cumulative(model)
    arity = np.where(member >= 0, np.array(layout.arities)[member], 0)
    kind = np.dtype(code_type(max(layout.arities)))
    require_room(len(model.columns) * rows, f"{rows} rows", "fewer rows, in several files", kind.itemsize)
    out = np.zeros((len(model.columns), rows), dtype=kind)
    generator = np.random.default_rng(seed)
    for start in range(0, rows, BLOCK):
        stop = min(start + BLOCK, rows)
        uniform = generator.random((len(layout.order), stop - start))
        draw(uniform, cumulative, layout.offset, member, arity, own, shape.size, out[:, start:stop])
    return out


def _cumulative(
    model: CliqueTables,
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Returns arguments of `kernels.rows.draw`: cumulative sums, members, and sizes of separators."""
    layout = model.layout
    sums = np.empty(layout.cells)
    member = np.full_like(layout.shape.member, -1)
    own = np.array([len(separator) for separator in layout.separators], dtype=np.int64)
    for place, clique in enumerate(layout.cliques):
        axes = layout.separator_first(place)
        member[place, : len(clique)] = [clique[k] for k in axes]
        table = np.transpose(layout.table(model.values, place), axes)
        rows = np.cumsum(table.reshape(prod(table.shape[: own[place]]), -1), axis=1)
        # Normalised to end at exactly 1, so that a last state of probability 0 is never drawn.
        totals = rows[:, -1:]
        np.divide(rows, totals, out=rows, where=totals > 0)
        sums[layout.offset[place] : layout.offset[place + 1]] = rows.ravel()
    return sums, member, own
