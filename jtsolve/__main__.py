"""The command `jtsolve`, also as `python -m jtsolve`."""

from __future__ import annotations

import signal
import sys
import time
from typing import NoReturn

STARTED = time.monotonic()
"""The start of the process as good as it can be had: before anything heavy is loaded. The kernel's own record
of the start would be wrong after an `exec` from a shell script, whose time would be counted too."""


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        from jtsolve.cli import run

        code = run(sys.argv[1:], STARTED)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT  # as shells count; nothing of ours need be loaded yet
    sys.exit(code)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    """Makes SIGTERM what Ctrl-C is."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
