"""The most probable completion of rows: argmax P(missing values | observed values), for every row.

A discrete junction tree is a mixed one without real variables: `mixed.maximised` maximises over the cells
that are consistent with each row, for many rows at once. Time for a row: linear in the cells of all cliques.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.models.inference.likelihood import gaps_of
from jtsolve.models.inference.mixed import MixedClique, maximised
from jtsolve.tables.raw import GAP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.models.layout import CliqueTables
    from jtsolve.tables.table import Codes


def completed(model: CliqueTables, rows: Codes) -> NDArray[np.int32]:
    """Returns the rows with their missing values filled in, shape (variables, rows).

    A row whose observed values are impossible keeps its gaps.

    Args:
        model: the distribution.
        rows: codes of shape (variables, rows), with -1 for missing values.

    Raises:
        InputError: the codes have a wrong shape or type, or one is out of range.
    """
    codes = np.asarray(rows)
    gaps = gaps_of(model.columns, codes)
    filled = codes.astype(np.int32)
    if not gaps.any():
        return filled
    # Equal rows have equal completions.
    different, place = np.unique(filled[:, gaps], axis=1, return_inverse=True)
    best = maximised(_cliques(model), np.where(different < 0, np.nan, different))
    different = np.where(np.isnan(best), GAP, best)
    filled[:, gaps] = different[:, place]
    return filled


def _cliques(model: CliqueTables) -> list[MixedClique]:
    """Returns the cliques of the same distribution as a mixed model."""
    layout, found = model.layout, []
    for i, clique in enumerate(layout.cliques):
        axes = layout.separator_first(i)
        weights = np.exp(np.transpose(layout.table(model.families, i), axes)).ravel()
        members, shared = tuple(clique[k] for k in axes), len(layout.separators[i])
        dims = tuple(layout.arities[v] for v in members)
        none = np.zeros((weights.size, 0, 0))
        found.append(
            MixedClique(
                members,
                (),
                shared,
                0,
                layout.parent[i],
                dims,
                weights,
                np.zeros((weights.size, 0)),
                none,
                none,
            )
        )
    return found
