"""The plan of a comparison: its runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from jtsolve.compare.folder import ComparisonPlan
from jtsolve.compare.grid import expand, find_files
from jtsolve.core import machine
from jtsolve.core.formats import TABLE
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.compare.grid import Grid


def planned(places: Sequence[str], grid: Grid, *, jobs: int) -> ComparisonPlan:
    """Returns the plan of a grid.

    Args:
        places: instances, or folders of them.
        grid: backends, treewidths, seeds and limits; runs share memory and cores equally by default.
        jobs: the number of runs at a time.

    Raises:
        ChoiceError: a file holds data.
    """
    files = find_files(places)
    for path in files:
        if TABLE.format_to_read(path) is not None:
            raise ChoiceError(
                f"{path}: it holds data; score it first, with 'jtsolve score {path.name} --max-size K "
                "--output INSTANCE', K the widest treewidth plus one"
            )
    if grid.memory_limit is None:
        grid = replace(grid, memory_limit=max(0.1, round(0.8 * machine.free_memory() / jobs / 1e9, 1)))
    if grid.threads is None:
        grid = replace(grid, threads=max(1, machine.cores() // jobs))
    specs = expand(grid, files)
    place = machine.describe_machine(machine.cores())
    command = place.pop("command")
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return ComparisonPlan("jtsolve-comparison", 1, command, created, place, specs)
