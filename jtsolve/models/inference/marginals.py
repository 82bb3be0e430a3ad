"""Checks of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.errors import InputError, LimitError
from jtsolve.models.columns import position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.models.columns import Column, RealColumn

MOST_CELLS = 1 << 26
"""Default limit for the largest table of a marginal: half a gigabyte."""


def require_small(cells: int, variables: int, most_cells: int = MOST_CELLS) -> None:
    """Checks the size of the largest table of a joint marginal.

    Args:
        cells: of the largest table.
        variables: of the marginal.
        most_cells: largest number allowed.

    Raises:
        LimitError: it has more cells than allowed.
    """
    if cells > most_cells:
        raise LimitError(
            f"the joint marginal of {variables} variables needs a table of {cells:.3g} cells, "
            f"{8 * cells / 1e9:.3g} GB, but {most_cells:.3g} cells are allowed. Ways out: fewer "
            "variables, or separate marginals of variables that are close in the tree"
        )


def targets_of(names: Sequence[str], columns: Sequence[Column | RealColumn]) -> tuple[int, ...]:
    """Returns the positions of the variables of a query.

    Raises:
        InputError: there is none, one is unknown, or one is named twice.
    """
    known = [column.name for column in columns]
    targets = tuple(position(known, name) for name in names)
    if not targets or len(set(targets)) < len(targets):
        reason = "there are none, or one is named twice"
        raise InputError("query", "variables", reason, "name at least one, and each once")
    return targets
