"""Fixtures and hooks of several test modules."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from commands import Command
from hypothesis import settings
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from tally import Tally

from jtsolve.cluster import Workers, local_workers
from jtsolve.console import FirstRunLine

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


# A deadline would be a timed assertion: a busy machine must not fail a test.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


class Untraced(event.Listener):  # type: ignore[misc]  # numba has no types
    """Suspends the tracer of coverage while numba compiles, which it would slow by a factor of 1.6."""

    def __init__(self) -> None:
        self.depth = 0
        self.tracer: Any = None

    def on_start(self, _event: event.Event) -> None:
        """Counts nested compilations: a kernel compiles those that it calls."""
        if self.depth == 0:
            self.tracer = sys.gettrace()
            sys.settrace(None)
        self.depth += 1

    def on_end(self, _event: event.Event) -> None:
        """Restores the tracer."""
        self.depth -= 1
        if self.depth == 0:
            sys.settrace(self.tracer)


event.register("numba:compile", Untraced())


def compile_once() -> None:
    """Makes one of several test processes compile a kernel; the others wait for the cached file."""
    compile_here = Dispatcher.compile
    file = Path(__file__).parent / "__pycache__" / "compiling"
    file.parent.mkdir(exist_ok=True)
    locks = file.open("wb")  # a byte for each kernel

    def compile_one(self: Any, signature: Any) -> Any:
        place = crc32(f"{self.py_func.__module__}.{self.py_func.__qualname__}".encode())
        with global_compiler_lock:  # first, so that its holder waits for other processes only
            fcntl.lockf(locks, fcntl.LOCK_EX, 1, place)
            try:
                return compile_here(self, signature)
            finally:
                fcntl.lockf(locks, fcntl.LOCK_UN, 1, place)

    setattr(Dispatcher, "compile", compile_one)  # noqa: B010 - mypy refuses the plain form


compile_once()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of public data sets beside the repository; tests that need it are skipped without it."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{folder} is missing, and CI must run the tests that need it")
        pytest.skip(f"{folder} is missing: the public data sets are not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def workers() -> Iterator[Workers]:
    """Two Dask workers in this process: they start at once, and monkeypatches apply to them too."""
    pytest.importorskip("distributed")
    with local_workers(2, processes=False) as found:
        yield found


@pytest.fixture
def terminate() -> Iterator[None]:
    """Handles signals as the program does, and restores the previous handlers afterwards."""
    from jtsolve import __main__ as program  # loading it handles signals

    before = {number: signal.getsignal(number) for number in program._HANDLERS}
    hook = sys.unraisablehook
    for number, handler in program._HANDLERS.items():
        signal.signal(number, handler)
    yield
    sys.unraisablehook = hook
    program._signals.clear()
    for number, earlier in before.items():
        signal.signal(number, earlier)


TALLY = pytest.StashKey[Tally]()


def pytest_configure(config: pytest.Config) -> None:
    FirstRunLine.announced = True  # no announcement by the first test that compiles a kernel
    config.stash[TALLY] = Tally()
    # Commands under test would inherit that a background job ignores SIGINT, or that nohup ignores SIGHUP.
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)


def pytest_collection_finish() -> None:
    gc.freeze()  # what was imported and collected lives to the end; no garbage collection need traverse it


@pytest.fixture(scope="session")
def tally(request: pytest.FixtureRequest) -> Tally:
    """Counts the runs and refusals of each backend, for the table at the end of the run."""
    return request.config.stash[TALLY]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Adds the counts of one of several test processes (pytest-xdist); a crashed one has none."""
    plain = getattr(node, "workeroutput", {}).get("tally")
    if plain is not None:
        node.config.stash[TALLY].add(plain)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Passes the counts to the main process, which judges the totals."""
    counted = session.config.stash[TALLY]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["tally"] = counted.to_plain()
    elif counted.idle() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[TALLY].counts or config.stash[TALLY].required:
        terminalreporter.section("contract: backends")
        for line in config.stash[TALLY].lines():
            terminalreporter.line(line, red=line.startswith("FAILED"))
