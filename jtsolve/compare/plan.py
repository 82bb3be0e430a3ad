"""The plan of a comparison: its runs, on instances under constraints."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from jtsolve.compare.folder import ComparisonPlan
from jtsolve.compare.grid import expand, find_files, labels
from jtsolve.core import machine
from jtsolve.core.formats import TABLE
from jtsolve.errors import ChoiceError
from jtsolve.io.instance import read_problem, write_problem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jtsolve.compare.folder import Folder
    from jtsolve.compare.grid import Grid
    from jtsolve.study.restrictions import Restrictions


def planned(
    folder: Folder, places: Sequence[str], grid: Grid, restrictions: Restrictions, *, jobs: int
) -> ComparisonPlan:
    """Returns the plan of a grid; writes its instances under the constraints.

    Args:
        folder: of the comparison.
        places: instances, or folders of them.
        grid: backends, treewidths, seeds and limits; runs share memory and cores equally by default.
        restrictions: further constraints.
        jobs: the number of runs at a time.
    """
    if grid.memory_limit is None:
        grid = replace(grid, memory_limit=max(0.1, round(0.8 * machine.free_memory() / jobs / 1e9, 1)))
    if grid.threads is None:
        grid = replace(grid, threads=max(1, machine.cores() // jobs))
    specs = expand(grid, _instances(folder, restrictions, find_files(places)))
    place = machine.describe_machine(machine.cores())
    command = place.pop("command")
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return ComparisonPlan("jtsolve-comparison", 1, command, created, place, specs)


def _instances(folder: Folder, restrictions: Restrictions, files: Sequence[Path]) -> list[Path]:
    """Returns the instances, under the constraints: those are written into RUN/instances."""
    for path in files:
        if TABLE.format_to_read(path) is not None:
            raise ChoiceError(
                f"{path}: it holds data; score it first, with 'jtsolve score {path.name} --max-size K "
                "--output INSTANCE', K the widest treewidth plus one"
            )
    if not restrictions:
        return list(files)
    folder.make()
    instances = [folder.path / "instances" / f"{label}.json.gz" for label in labels(files)]
    for path, instance in zip(files, instances, strict=True):
        instance.parent.mkdir(parents=True, exist_ok=True)
        write_problem(restrictions.on(read_problem(path)), instance)
    return instances
