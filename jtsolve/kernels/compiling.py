"""Tells when a kernel is compiled: the first run after an installation takes some seconds more."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from numba.core import event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Announcer(event.Listener):  # type: ignore[misc]  # numba is untyped
    def __init__(self, announce: Callable[[], object]) -> None:
        self._announce = announce
        self._said = False

    def on_start(self, _event: object) -> None:
        if not self._said:
            self._said = True
            self._announce()

    def on_end(self, _event: object) -> None:
        """Nothing: what follows speaks for itself."""


@contextmanager
def announced(announce: Callable[[], object]) -> Iterator[None]:
    """Calls `announce` once if anything is compiled within; kernels in the cache on disk do not count."""
    with event.install_listener("numba:compile", _Announcer(announce)):
        yield
