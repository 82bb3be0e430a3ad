"""Displays of a run: a line on standard error in a terminal, one updated output in a notebook."""

import shutil
import sys
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

from jtsolve.errors import printable

if TYPE_CHECKING:
    from jtsolve.core.run import Display, Progress


def display_here() -> "Display | None":
    """Returns the display for this process; None if nobody watches, as in pipes and batch jobs."""
    if "ipykernel" in sys.modules:
        return NotebookOutput()
    return TerminalLine() if is_watched() else None


def is_watched() -> bool:
    """Tells whether standard error is a terminal; it may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


class TerminalLine:
    """Rewrites the last line of a terminal."""

    def __init__(self) -> None:
        self._width = 0

    def show(self, progress: "Progress", seconds: float) -> None:
        """See `Display`."""
        most = shutil.get_terminal_size().columns - 1  # a line that wraps cannot be rewritten
        self._write(words(progress, seconds)[:most])

    def clear(self) -> None:
        """See `Display`."""
        if self._width:
            self._write("")

    def _write(self, line: str) -> None:
        with suppress(AttributeError, OSError):  # standard error may be closed meanwhile
            sys.stderr.write(f"\r{line.ljust(self._width)}\r{line}")
            sys.stderr.flush()
        self._width = len(line)


class NotebookOutput:
    """Updates one output of a notebook's cell, which is empty in the end."""

    def __init__(self) -> None:
        self._output: Any = None

    def show(self, progress: "Progress", seconds: float) -> None:
        """See `Display`."""
        self._update(words(progress, seconds))

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


def words(progress: "Progress", seconds: float) -> str:
    """Returns a state on one line: note, percentage, score, bound and gap, seconds.

    >>> from jtsolve.core.run import Progress
    >>> words(Progress("dp", 0.5, -12.5, -12.25), 3.4)
    'dp  50%  score -12.5  bound -12.25  gap 0.25  3 s'
    """
    done = "" if progress.done is None else f"{progress.done:.0%}"
    parts = [progress.note, done, figures(progress.score, progress.bound), f"{seconds:.0f} s"]
    return printable("  ".join(part for part in parts if part)).replace("\n", " ")


def figures(score: float | None, bound: float) -> str:
    """Returns the known ones among score, bound and gap, in nats.

    >>> figures(-12.5, -12.25)
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
