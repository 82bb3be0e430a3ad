"""Progress on standard error: a live line in a terminal, a plain one in a notebook."""

import sys
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING

from jtsolve.errors import LimitError
from jtsolve.tables.options import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jtsolve.core.backend import Limits
    from jtsolve.solving import Listener
    from jtsolve.tables.distinct import Watch


@contextmanager
def progress(note: str, *, shown: bool) -> "Iterator[Listener | None]":
    """Shows a note, the fraction done, score, bound and gap while the body runs; then clears the line.

    Args:
        note: shown until the listener gets another.
        shown: whether to show anything; if not, there is no listener.
    """
    if not shown:
        yield None
        return
    if not is_watched():
        with _plain_line(note) as listener:
            yield listener
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(note, total=None, state="")

        def listen(
            *, seconds: float, score: float | None, bound: float, done: float | None, note: str | None
        ) -> None:
            del seconds  # the display has its own clock, which runs between reports
            if done is not None:
                display.update(task, total=1.0, completed=done)
            if note is not None:
                display.update(task, description=note)
            display.update(task, state=state(score, bound))

        yield listen


@contextmanager
def _plain_line(note: str) -> "Iterator[Listener]":
    """Rewrites one line of standard error, which notebooks show without any extension."""
    width, latest = 0, note

    def write(text: str) -> None:
        nonlocal width
        sys.stderr.write(f"\r{text.ljust(width)}")
        sys.stderr.flush()
        width = len(text)

    def listen(
        *, seconds: float, score: float | None, bound: float, done: float | None, note: str | None
    ) -> None:
        nonlocal latest
        latest = note or latest
        parts = [latest, "" if done is None else f"{done:.0%}", state(score, bound), f"{seconds:.0f} s"]
        write("  ".join(part for part in parts if part))

    write(note)
    yield listen
    write("")
    sys.stderr.write("\r")


def tell(listener: "Listener | None", note: str, done: float | None = None) -> None:
    """Shows a note and the fraction done, where there is no tree yet."""
    if listener is not None:
        listener(seconds=0.0, score=None, bound=inf, done=done, note=note)


def reading_watch(name: str, limits: "Limits", listener: "Listener | None") -> "Watch":
    """Returns the watch on the reading of data, which tells of its progress and ends it at the limits."""
    from jtsolve.core.machine import resident_memory

    def watch(*, rows: int, memory: int) -> None:
        tell(listener, f"reading {name}: {rows} rows")
        if limits.time is not None and limits.elapsed >= limits.time:
            raise LimitError(
                f"the time limit ended the reading of {name} after {rows} rows; nothing is written. "
                f"Ways out: more time, fewer columns ({COLUMNS})"
            )
        need = resident_memory() + memory
        if need > limits.memory_bytes:
            what = f"the distinct rows among the first {rows} of {name} need" if rows else f"{name} needs"
            raise LimitError(
                f"{what} {need / 1e9:.3g} GB of memory, but the limit is {limits.memory_bytes / 1e9:.3g} GB. "
                f"Ways out: a larger limit, or fewer columns ({COLUMNS}), which have fewer distinct rows"
            )

    return watch


def is_watched() -> bool:
    """Tells whether standard error is a terminal; it may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


def in_notebook() -> bool:
    """Tells whether this process is the kernel of a notebook."""
    return "ipykernel" in sys.modules


def state(score: float | None, bound: float) -> str:
    """Returns the known ones among score, bound and gap, in nats.

    >>> state(-12.5, -12.25)
    'score -12.5  bound -12.25  gap 0.25'
    """
    parts = []
    if score is not None:
        parts.append(f"score {score:.8g}")
    if bound < inf:
        parts.append(f"bound {bound:.8g}")
    if score is not None and bound < inf:
        parts.append(f"gap {max(0.0, bound - score):.3g}")
    return "  ".join(parts)
