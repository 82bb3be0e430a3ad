"""The command `jtsolve`, also as `python -m jtsolve`."""

from __future__ import annotations

import signal

_signals: list[int] = []


class _Interrupted(KeyboardInterrupt):
    """A signal. Python kills itself at exit if a plain `KeyboardInterrupt` once passed through `exec`."""


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    """Raises a signal like Ctrl-C, and records it, since module loading may turn it into another error."""
    _signals.append(number)
    while frame is not None:
        if frame.f_code is _again.__code__:  # it would be lost there, too
            signal.setitimer(signal.ITIMER_REAL, _SOON)
            return
        frame = frame.f_back
    raise _Interrupted


def _again(failure: sys.UnraisableHookArgs) -> None:
    """Repeats a signal received within a destructor, where Python prints the exception and continues."""
    if isinstance(failure.exc_value, _Interrupted):
        signal.setitimer(signal.ITIMER_REAL, _SOON)
    else:
        sys.__unraisablehook__(failure)


def _repeat(_number: int, _frame: object) -> None:
    """Passes the last signal to its current handler; a foreign alarm ends the process."""
    signal.raise_signal(_signals[-1] if _signals else signal.SIGTERM)


_HANDLERS = {signal.SIGINT: _interrupt, signal.SIGTERM: _interrupt, signal.SIGALRM: _repeat}
if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup makes it
    _HANDLERS[signal.SIGHUP] = _interrupt
for _number, _handler in _HANDLERS.items():  # before anything else is loaded
    signal.signal(_number, _handler)

import sys  # noqa: E402
import time  # noqa: E402
import types  # noqa: E402, TC003 - signal has loaded it

_SOON = 0.01
"""Seconds until a signal is repeated."""

STARTED = time.monotonic()
"""The start of the process, as nearly as Python can tell: before anything heavy is loaded. The kernel's own
record would be wrong after an `exec` from a shell script, whose time would be counted too."""


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    sys.unraisablehook = _again
    try:
        from jtsolve.cli import run

        code = run(sys.argv[1:], STARTED, lambda: bool(_signals))
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT  # as shells count; nothing of ours need be loaded yet
    except Exception:
        if not _signals:
            raise
        code = 128 + signal.SIGINT
    for number in _HANDLERS:  # the answer is printed, and the exit code is final
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


if __name__ == "__main__":
    main()
