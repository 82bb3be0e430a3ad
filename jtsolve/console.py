"""Displays of a run: a line on standard error in a terminal, one updated output in a notebook."""

import shutil
import sys
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

from jtsolve.errors import printable

if TYPE_CHECKING:
    from jtsolve.core.run import Display, Progress


def display_here(*, wanted: bool | None = None) -> "Display | None":
    """Returns the display for this process.

    Args:
        wanted: whether progress is shown; None to show it in terminals and notebooks, and elsewhere, as in
            pipes and batch jobs, only that kernels are being compiled.
    """
    if wanted is False:
        return None
    if "ipykernel" in sys.modules:
        return NotebookOutput()
    return TerminalLine() if wanted or is_watched() else FirstRunLine()


def is_watched() -> bool:
    """Returns whether standard error is a terminal; it may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


class TerminalLine:
    """Rewrites the last line of a terminal."""

    def __init__(self) -> None:
        self._width = 0

    def show(self, progress: "Progress", seconds: float, limit: float | None = None) -> None:
        """See `Display`."""
        most = shutil.get_terminal_size().columns - 1  # a line that wraps cannot be rewritten
        self._write(progress_line(progress, seconds, limit)[:most])

    def clear(self) -> None:
        """See `Display`."""
        if self._width:
            self._write("")

    def _write(self, line: str) -> None:
        with suppress(AttributeError, OSError):  # standard error may be closed meanwhile
            sys.stderr.write(f"\r{line.ljust(self._width)}\r{line}")
            sys.stderr.flush()
        self._width = len(line)


class FirstRunLine:
    """Announces once that kernels are being compiled, which delays a first run by seconds."""

    announced = False

    def show(self, progress: "Progress", seconds: float, limit: float | None = None) -> None:  # noqa: ARG002
        """See `Display`."""
        from jtsolve.core.run import COMPILING

        if progress.note.startswith(COMPILING) and not FirstRunLine.announced:
            FirstRunLine.announced = True
            with suppress(AttributeError, OSError):  # standard error may be closed
                sys.stderr.write(f"jtsolve: {progress.note}\n")

    def clear(self) -> None:
        """See `Display`."""


class NotebookOutput:
    """Updates one output of a notebook's cell, which is empty in the end."""

    def __init__(self) -> None:
        self._output: Any = None

    def show(self, progress: "Progress", seconds: float, limit: float | None = None) -> None:
        """See `Display`."""
        self._update(progress_line(progress, seconds, limit))

    def clear(self) -> None:
        """See `Display`."""
        if self._output is not None:
            self._update("")

    def _update(self, text: str) -> None:
        from IPython.display import display

        content = {"text/plain": text}
        if self._output is None:
            self._output = display(content, raw=True, display_id=True)
        else:
            self._output.update(content, raw=True)


def progress_line(progress: "Progress", seconds: float, limit: float | None = None) -> str:
    """Returns a state on one line: note, percentage, seconds, and figures; the last may be cut off.

    >>> from jtsolve.core.run import Progress
    >>> progress_line(Progress("dp", 0.5, -12.5, -12.25, 10.0), 3.4, 60)
    'dp  50 %  3 of 60 s  score -12.5  gap 2.5 %'

    Args:
        progress: the state.
        seconds: since the start of the run.
        limit: time limit of the run in seconds, if any.
    """
    done = "" if progress.done is None else f"{100 * progress.done:.0f} %"
    time = f"{seconds:.0f} s" if limit is None else f"{seconds:.0f} of {limit:g} s"
    parts = [progress.note, done, time, figures(progress.score, progress.bound, progress.gain)]
    return printable("  ".join(part for part in parts if part)).replace("\n", " ")


def figures(score: float | None, bound: float, gain: float | None = None) -> str:
    """Returns the score, and the gap as a share of the gain; if the gain is unknown, bound and gap in nats.

    >>> figures(-12.5, -12.25), figures(-12.5, -12.25, 10.0)
    ('score -12.5  bound -12.25  gap 0.25', 'score -12.5  gap 2.5 %')
    >>> figures(-12.5, 80.0, 10.0)
    'score -12.5  no useful bound yet'

    Args:
        score: of the incumbent, in nats; None without one.
        bound: upper bound on every score, in nats; inf if unknown.
        gain: of the incumbent over the graph without edges, in nats; None if unknown.
    """
    parts = [] if score is None else [f"score {score:.8g}"]
    if bound == inf:
        return "  ".join(parts)
    gap = None if score is None else max(0.0, bound - score)
    if gap is None or gain is None or gain <= 0:
        parts.append(f"bound {bound:.8g}")
        parts += [] if gap is None else [f"gap {gap:.3g}"]
    else:
        parts.append(f"gap {100 * gap / gain:.2g} %" if gap <= gain else "no useful bound yet")
    return "  ".join(parts)
