"""Selecting the undirected graph of a table, within the limits of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.selection.running import within_limits

if TYPE_CHECKING:
    from jtsolve.core.run import Run
    from jtsolve.core.selection import Selection
    from jtsolve.selection.choices import Plan
    from jtsolve.tables.table import ContinuousTable, DataTable


def selected(plan: Plan, table: DataTable | ContinuousTable, run: Run) -> Selection:
    """Returns the graph that a plan selects.

    Raises:
        LimitError: the time is over.
    """
    with run.phase("selecting"):
        return within_limits(lambda: plan.run(table, run), run)
