"""Rows of discrete models: the check of their codes, and likelihoods at treewidth 1.

There, as in hidden Chow–Liu trees, messages are matrix products over many rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.models.columns import Column
    from jtsolve.models.layout import Layout
    from jtsolve.tables.table import Codes


_BLOCK = 1 << 22
"""Entries of the messages computed at a time, states × rows."""
_SMALL = 1e-250
"""Sums above this are exact to rounding even if some of their terms underflow."""


def forest_rows(layout: Layout, families: NDArray[np.float64], codes: Codes) -> NDArray[np.float64]:
    """Returns ln P(observed values) of rows with missing values, for a tree of treewidth 1.

    Each message is one matrix product for all rows, without logarithms.

    Args:
        layout: of the tree.
        families: its factors, shape (cells,); see `messages.families`.
        codes: shape (variables, rows), negative for missing values.

    Returns:
        Shape (rows,); NaN where a probability is 0, or too small relative to others.
    """
    out = np.zeros(codes.shape[1])
    block = max(1, _BLOCK // sum(layout.arities))
    for start in range(0, len(out), block):
        own, logs = codes[:, start : start + block], out[start : start + block]
        # P(values below v | v), up to a factor that `logs` accounts for; 0 for states excluded by the row.
        below = [
            ((row == np.arange(arity)[:, None]) | (row < 0)).astype(np.float64)
            for row, arity in zip(own, layout.arities, strict=True)
        ]
        for i in reversed(range(len(layout.cliques))):
            clique, separator = layout.cliques[i], layout.separators[i]
            if clique == separator:
                continue
            table = np.exp(layout.table(families, i))
            above = separator or clique[:-1]  # the first clique has two variables without a separator
            message = table if clique[:1] == above else table.T
            for v in set(clique).difference(above):
                message = message @ below[v]
            if above:
                message = below[above[0]] * message
            if not separator:
                logs += _log(message.sum(axis=0) if above else message)
                continue
            largest = message.max(axis=0)
            logs += _log(largest)
            message /= np.where(largest > _SMALL, largest, 1.0)
            states = np.where(own[above[0]] < 0, layout.arities[above[0]], 1)
            logs[(message > _SMALL).sum(axis=0) < states] = np.nan
            below[above[0]] = message
    return out


def _log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the logarithms of numbers, NaN for those that are too small."""
    logs: NDArray[np.float64] = np.log(np.where(values > _SMALL, values, np.nan))
    return logs


def gaps_of(columns: Sequence[Column], codes: Codes) -> NDArray[np.bool_]:
    """Returns whether each row has a missing value.

    Raises:
        InputError: the codes have a wrong shape or type, or one is out of range.
    """
    if codes.ndim != 2 or codes.shape[0] != len(columns) or codes.dtype.kind not in "ui":  # noqa: PLR2004 - columns, rows
        raise InputError(
            "rows",
            "",
            f"an array of shape {codes.shape} and type {codes.dtype} for {len(columns)} variables",
            "give integers of shape (variables, rows)",
        )
    gaps = np.zeros(codes.shape[1], dtype=np.bool_)
    for column, row in zip(columns, codes, strict=True):
        if row.size and (row.min() < -1 or row.max() >= column.arity):
            raise InputError(
                "rows",
                f"column '{column.name}'",
                f"codes range from {row.min()} to {row.max()}, but there are {column.arity} states",
                "number the states from 0, with -1 for a missing value",
            )
        if row.dtype.kind == "i":
            gaps |= row < 0
    return gaps
