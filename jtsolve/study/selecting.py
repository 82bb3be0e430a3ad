"""Selecting the undirected graph of a table, within the limits of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.selection.running import within_limits

if TYPE_CHECKING:
    from jtsolve.core.run import Run
    from jtsolve.core.selection import Selection
    from jtsolve.selection.choices import SelectionPlan
    from jtsolve.tables.table import ContinuousTable, DataTable

_MATRICES = 12
"""Of a number for each pair of columns, at the peak: correlations, precisions, gradients, and copies."""


def selected(plan: SelectionPlan, table: DataTable | ContinuousTable, run: Run) -> Selection:
    """Returns the graph that a plan selects.

    Args:
        plan: the method and its options.
        table: its columns are the vertices.
        run: limits, seed and progress.

    Raises:
        LimitError: the time is over, or the memory does not suffice.
    """
    run.require_memory(_MATRICES * 8 * table.n**2, "the matrices of the columns need", "fewer columns")
    with run.phase("selecting"):
        return within_limits(lambda: plan.run(table, run), run)
