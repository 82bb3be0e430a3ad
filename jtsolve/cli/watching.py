"""The live view of a comparison on standard error, if that is a terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jtsolve.console import figures

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from jtsolve.compare.running.live import Board

_MOST = 16
"""Runs that are shown at a time: a terminal has few lines."""


@contextmanager
def live_view(board: "Board", console: "Console | None") -> "Iterator[None]":
    """Shows the state of a comparison while the body runs; without a console, nothing."""
    if console is None:
        yield
        return
    from rich.live import Live

    with Live(get_renderable=lambda: view(board), console=console, refresh_per_second=4, transient=True):
        yield


def view(board: "Board") -> "Table":
    """Returns the state of a comparison as a table: counts, time left, runs in progress."""
    from math import inf

    from rich.table import Table
    from rich.text import Text

    counts = board.counts()
    left = board.remaining()
    words = [f"{count} {name}" for name, count in counts.items()]
    title = "  ".join(words) + (f"   about {duration(left)} left" if left is not None else "")
    table = Table(title=Text(title), title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("instance", "treewidth", "backend", "seed", "time", "incumbent", "best so far"):
        table.add_column(heading, justify="left")
    now = time.monotonic()
    runs = board.under_way()
    for run in runs[:_MOST]:
        spec = run.spec
        limit = "" if spec.time_limit is None else f" of {spec.time_limit:g} s"
        best = board.best.get(spec.problem)
        cells = (
            spec.instance.label,
            "" if spec.treewidth is None else str(spec.treewidth),
            spec.backend,
            str(spec.seed),
            f"{now - run.since:.0f}{limit}",
            figures(run.score, inf if run.bound is None else run.bound),
            "" if best is None else f"{best[0]:.8g} by {best[1]}",
        )
        table.add_row(*map(Text, cells))
    if len(runs) > _MOST:
        table.add_row(Text(f"and {len(runs) - _MOST} more"))
    return table


def duration(seconds: float) -> str:
    """Returns a time in words.

    >>> duration(59), duration(3700)
    ('59 s', '1 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def speaker(console: "Console | None", *, quiet: bool) -> Callable[[str], None]:
    """Returns a function that reports finished runs: above the live view, on standard error, or nowhere."""
    from jtsolve.cli.output import murmur
    from jtsolve.errors import printable

    if console is not None:
        return lambda text: console.print(printable(text), markup=False, highlight=False)
    return (lambda _text: None) if quiet else murmur
