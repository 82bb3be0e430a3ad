"""One run: its clock, limits, seed, progress, interruption and messages, from the front door to the kernels.

A front door makes a `Run` and hands it down. Learners, readers and searches report progress to it, from any
thread, and stop on request. The run alone controls the display: a thread draws its newest state, first after
a second, then four times a second, so that reports cost next to nothing.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from math import inf
from numbers import Integral, Real
from time import monotonic, process_time  # not the module: the field `time` hides it in the class body
from typing import TYPE_CHECKING, Any, Protocol

from jtsolve.core.machine import allowed_memory, cores, free_memory, require_memory, resident_memory
from jtsolve.core.result import Incumbent, Stop
from jtsolve.errors import ChoiceError, LimitError, printable
from jtsolve.options import TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LOGGER = logging.getLogger("jtsolve")
"""Level info: the choice of a backend, and the result; debug: every new score or bound."""

COMPILING = "compiling the kernels"

_UNSEEN_SECONDS = 1.0
"""Shorter runs show nothing."""
_SECONDS_BETWEEN_DRAWINGS = 0.25
_LEAST_SECONDS = 1e-9
"""Time limit of a part that is over before it begins: limits are above 0."""
_READING_SECONDS = 0.2
"""Processor seconds granted to the reading of small files even past the time limit, so that a limit below the
start-up time still leads to a tree."""
_HELD_PER_BYTE = 3
"""Bytes held at the peak for a byte of text: the text, its numbers as objects, and as an array."""
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run, and its seed.

    Args:
        time: seconds of wall clock from `started`, including everything; None for no limit.
        memory: bytes that the process may hold; None for the limit of the call, else those it holds plus 80 %
            of the free memory.
        threads: at least 1; None for all cores available to the process.
        seed: for everything random.
        started: `time.monotonic()` at the start.

    Raises:
        ChoiceError: a limit is not positive, or no number.
    """

    time: float | None = None
    memory: int | None = None
    threads: int | None = None
    seed: int = 0
    started: float = field(default_factory=monotonic)

    def __post_init__(self) -> None:
        for name in ("time", "memory", "threads"):
            value = getattr(self, name)
            is_number = isinstance(value, Real)
            if value is not None and not (is_number and value > 0):
                raise ChoiceError(f"the limit '{name}' is {value}; it must be a number above 0")
        if not isinstance(self.seed, Integral):
            raise ChoiceError(f"the seed is {self.seed}; it must be a whole number")
        if self.memory is None:  # fixed here: choosing and solving must see the same limit
            most = allowed_memory()
            usual = resident_memory() + int(0.8 * free_memory())
            object.__setattr__(self, "memory", usual if most is None else most)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return monotonic() - self.started

    @property
    def left(self) -> float:
        """Seconds until the end, below 0 past it; inf without a limit."""
        return inf if self.time is None else self.time - self.elapsed

    @property
    def workers(self) -> int:
        """The number of threads to use."""
        return self.threads or cores()

    @property
    def memory_bytes(self) -> int:
        """The bytes that the process may hold."""
        assert self.memory is not None, "set by the constructor"
        return self.memory


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run, for a display.

    Attributes:
        note: the current phase, in a few words.
        done: the fraction of the phase that is done, 0 to 1; None if unknown.
        score: of the best tree so far, in nats, or None.
        bound: no tree scores more, in nats; inf if unknown.
        gain: of that tree over the graph without edges, in nats; None if unknown.
    """

    note: str = ""
    done: float | None = None
    score: float | None = None
    bound: float = inf
    gain: float | None = None


class Display(Protocol):
    """Shows the state of a run; the run calls it at most four times a second, in one thread at a time."""

    def show(self, progress: Progress, seconds: float, limit: float | None = None) -> None:
        """Draws a state in place of the last one.

        Args:
            progress: the state.
            seconds: since the start of the run.
            limit: time limit of the run in seconds, if any.
        """
        ...

    def clear(self) -> None:
        """Clears the display."""
        ...


def silent(*_message: object) -> None:
    """Shows no message."""


def _log(title: str, findings: Sequence[object]) -> None:
    """Logs each finding as a warning."""
    for finding in findings:
        LOGGER.warning("%s: %s", printable(title), printable(str(finding)))


@dataclass(frozen=True, slots=True)
class Console:
    """The outputs of a run: its display and the receivers of its messages; made by a front door.

    Args:
        display: of the state; None to show none.
        say: receives messages for the user, a line each.
        warn: receives the name of a check and its findings, at least one.
        improved: receives every better score or bound, from any thread.
    """

    display: Display | None = None
    say: Callable[[str], None] = silent
    warn: Callable[[str, Sequence[object]], None] = _log
    improved: Callable[[Incumbent], object] = silent


@dataclass(slots=True)
class _Interruption:
    """Whether the user has interrupted, and whether signals are handled; shared by a run and its parts."""

    requested: bool = False
    by_signals: bool = False


class _Screen:
    """A console with the state that it shows; shared by a run and its parts."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress = Progress()
        self.is_drawing = False
        self._lock = threading.Lock()

    def update(self, news: dict[str, Any]) -> None:
        """Merges news into the state; a new note begins a phase with nothing done."""
        with self._lock:
            if news.get("note") not in (None, self.progress.note):
                news = {"done": None, **news}
            self.progress = replace(self.progress, **news)

    def show_message(self, call: Callable[..., None], *arguments: Any) -> None:
        """Hands a message to the console, above the line that is drawn."""
        with self._lock:
            if self.console.display is not None:
                self.console.display.clear()
            call(*arguments)

    @contextmanager
    def drawn(self, limits: Limits) -> Iterator[None]:
        """Draws the state from a thread while the body runs, then clears it; if it is not drawn already."""
        display = self.console.display
        if display is None or self.is_drawing:
            yield
            return
        ended = threading.Event()

        def draw(display: Display) -> None:
            pause = max(_UNSEEN_SECONDS - limits.elapsed, _SECONDS_BETWEEN_DRAWINGS)
            while not ended.wait(pause):
                with self._lock:
                    display.show(self._shown(), limits.elapsed, limits.time)
                pause = _SECONDS_BETWEEN_DRAWINGS

        # By the context, a notebook assigns the output of a thread to a cell.
        thread = threading.Thread(
            target=copy_context().run, args=(draw, display), name="display", daemon=True
        )
        self.is_drawing = True
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.is_drawing = False
            display.clear()

    def _shown(self) -> Progress:
        """Returns the state; while kernels are being compiled, a note of it.

        The module that counts compilations is not loaded for this: that takes longer than many runs.
        """
        # None, too, while another thread is loading the module.
        compiling_now = getattr(sys.modules.get("jtsolve.core.compiling"), "compiling_now", None)
        if compiling_now is None or (how_often := compiling_now()) is None:
            return self.progress
        return replace(self.progress, note=f"{COMPILING} {how_often}", done=None)


class Run:
    """The clock, limits, seed, progress, interruption and messages of one call of the user.

    The default never stops and shows nothing.

    Args:
        limits: of time, memory and threads, and the seed; None for the defaults.
        console: shows progress and messages; None for no display, and findings logged.

    Attributes:
        limits: as given.

    >>> run = Run(Limits(time=60.0, seed=3))
    >>> run.progress(note="counting", done=0.5), run.seed
    (True, 3)
    >>> run.interrupt()
    >>> run.progress(done=0.6), run.stop
    (False, <Stop.INTERRUPTED: 'interrupted'>)
    """

    __slots__ = ("_began", "_interruption", "_screen", "limits")

    def __init__(self, limits: Limits | None = None, console: Console | None = None) -> None:
        self.limits = limits or Limits()
        self._interruption = _Interruption()
        self._screen = _Screen(console or Console())
        self._began = process_time()

    def part(self, seconds: float = inf, *, silent: bool = False) -> Run:
        """Returns a run for a part of the work, which shares clock, interruption and console with this one.

        Args:
            seconds: from now until the part ends, unless this run ends earlier; inf for no end of its own.
            silent: whether the part shows neither progress nor messages.
        """
        limits = self.limits
        if seconds < limits.left:
            limits = replace(limits, time=max(limits.elapsed + seconds, _LEAST_SECONDS))
        part = Run(limits)
        part._interruption = self._interruption
        if not silent:
            part._screen = self._screen
        return part

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        return self.limits.seed

    @property
    def threads(self) -> int:
        """The number of threads to use."""
        return self.limits.workers

    @property
    def memory(self) -> int:
        """The bytes that the process may hold."""
        return self.limits.memory_bytes

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.limits.elapsed

    @property
    def left(self) -> float:
        """Seconds until the end, below 0 past it; inf without a limit."""
        return self.limits.left

    @property
    def stop(self) -> Stop | None:
        """Why the work has to stop now, or None to continue."""
        if self._interruption.requested:
            return Stop.INTERRUPTED
        return Stop.TIME if self.left <= 0 else None

    def interrupt(self) -> None:
        """Requests the work to stop; safe in a signal handler."""
        self._interruption.requested = True

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Makes the first SIGINT, SIGTERM or SIGHUP in the body interrupt the run; only in the main thread.

        A second signal has its previous effect. A signal that the process ignores is ignored.
        """
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or self._interruption.by_signals or self._interruption.requested:
            yield
            return
        previous: dict[int, Any] = {}

        def restore() -> None:
            while previous:
                number, handler = previous.popitem()
                signal.signal(number, handler)

        def handle(_number: int, _frame: object) -> None:
            self.interrupt()
            restore()

        for number in _SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: a handler not made by Python
                previous[number] = signal.signal(number, handle)
        self._interruption.by_signals = True
        try:
            yield
        finally:
            self._interruption.by_signals = False
            restore()

    def progress(
        self,
        *,
        note: str | None = None,
        done: float | None = None,
        score: float | None = None,
        bound: float | None = None,
        gain: float | None = None,
    ) -> bool:
        """Reports progress, from any thread; returns whether to continue.

        Args:
            note: the current phase, in a few words; this and the others: None if unchanged.
            done: the fraction of the phase that is done, 0 to 1.
            score: of the best tree so far, in nats.
            bound: no tree scores more, in nats.
            gain: of that tree over the graph without edges, in nats.
        """
        if self._screen.console.display is not None:
            news = {"note": note, "done": done, "score": score, "bound": bound, "gain": gain}
            self._screen.update({name: value for name, value in news.items() if value is not None})
        return self.stop is None

    @contextmanager
    def phase(self, note: str) -> Iterator[None]:
        """Shows a note, then the progress of the body; the phase around it is shown again at the end."""
        before = self._screen.progress
        self._screen.progress = Progress(note)
        try:
            with self._screen.drawn(self.limits):
                yield
        finally:
            self._screen.progress = before

    def improved(self, step: Incumbent) -> None:
        """Reports a better score or bound, from any thread."""
        LOGGER.debug("%.2f s: score %s, bound %s", step.seconds, step.score, step.bound)
        self._screen.console.improved(step)

    def say(self, line: str) -> None:
        """Shows a message."""
        self._screen.show_message(self._screen.console.say, line)

    def warn(self, title: str, findings: Sequence[object]) -> None:
        """Shows findings, such as those of the data check, under a title; nothing if there are none."""
        if findings:
            self._screen.show_message(self._screen.console.warn, title, findings)

    def require_memory(self, size: int, what: str, remedies: str) -> None:
        """Refuses an allocation that exceeds the memory limit.

        Args:
            size: bytes that will be held besides those held now.
            what: begins the refusal, with the verb: "the table needs".
            remedies: besides a larger limit: "fewer columns".

        Raises:
            LimitError: with the need, the limit, and the remedies.
        """
        require_memory(size, self.memory, what, remedies)

    def require_time(self, what: str, remedies: str) -> None:
        """Ends work that is useless unless it is finished.

        Args:
            what: the work, as a noun: "the reading of data.csv".
            remedies: besides a larger limit: "fewer columns".

        Raises:
            LimitError: the time is over.
            KeyboardInterrupt: the run was interrupted.
        """
        stop = self.stop
        if stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if stop is not None:
            raise LimitError(
                f"the time limit ended {what}; nothing is written. Ways out: a larger {TIME}, {remedies}"
            )

    def require_reading(self, size: int) -> None:
        """Ends the reading of a text, or the decoding of one in memory, that exceeds the limits.

        Args:
            size: bytes of the text, at least.

        Raises:
            LimitError: time or memory do not suffice.
        """
        if self.left < 0 and process_time() - self._began > _READING_SECONDS:
            raise LimitError(
                f"the time limit of {self.limits.time:g} s was over before the input was read; "
                f"give a larger {TIME}"
            )
        self.require_memory(_HELD_PER_BYTE * size, "reading the input needs", "fewer scores")
