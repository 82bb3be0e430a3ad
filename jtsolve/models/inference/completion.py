"""The most probable completion of rows: argmax P(missing values | observed values), for every row.

The same maximisation as `mpe`, for many rows at once: over the cells consistent with each row only. Time for
a row: all cells once, plus those consistent with it twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.models.inference.likelihood import gaps_of

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
    from jtsolve.models.kernels.completion import complete

    codes = np.asarray(rows)
    gaps = gaps_of(model.columns, codes)
    filled = codes.astype(np.int32)
    if gaps.any():
        # Equal rows have equal completions.
        different, place = np.unique(filled[:, gaps], axis=1, return_inverse=True)
        different = np.ascontiguousarray(different)
        complete(different, model.families, model.layout.shape)
        filled[:, gaps] = different[:, place]
    return filled
