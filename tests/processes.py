"""Waiting for other processes."""

from __future__ import annotations

from contextlib import suppress

import psutil

_SECONDS = 60.0
"""A kill takes effect after milliseconds, or seconds on a busy machine."""


def ended(*pids: int) -> bool:
    """Waits for processes to end; returns whether all have ended, zombies included."""
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            try:
                process.wait(_SECONDS)
            except psutil.TimeoutExpired:
                if process.status() != psutil.STATUS_ZOMBIE:
                    return False
    return True
