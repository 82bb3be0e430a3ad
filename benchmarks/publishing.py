"""Tables of the benchmarks: printed with the machine and the command, and written as CSV."""

from __future__ import annotations

import csv
import shlex
import sys
from typing import TYPE_CHECKING, Any

from jtsolve.core.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def publish(rows: list[dict[str, Any]], columns: Sequence[str], threads: int, output: Path | None) -> None:
    """Prints the rows as a Markdown table; writes OUTPUT.csv if there is an output."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(row.get(column, "")) for column in columns) + " |" for row in rows]
    machine = ", ".join(f"{key} {value}" for key, value in describe_machine(threads).items())
    table = "\n".join([*lines, "", f"Machine: {machine}.", f"Command: `python {shlex.join(sys.argv)}`", ""])
    print(table)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.with_suffix(".csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, columns)
            writer.writeheader()
            writer.writerows(rows)
