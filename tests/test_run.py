"""`core.run`: one clock, one interruption, one throttled display."""

import os
import signal
import sys
import threading
import time
from math import inf
from types import ModuleType

import pytest

from jtsolve.console import FirstRunLine, NotebookOutput, TerminalLine, display_here, figures, is_watched
from jtsolve.core import run as core_run
from jtsolve.core.machine import resident_memory
from jtsolve.core.result import Stop
from jtsolve.core.run import COMPILING, Console, Limits, Progress, Run
from jtsolve.errors import ChoiceError, LimitError


class Recording:
    """A display that records its calls."""

    def __init__(self) -> None:
        self.states: list[Progress] = []
        self.cleared = 0

    def show(self, progress: Progress, seconds: float, limit: float | None = None) -> None:
        assert seconds >= 0
        assert limit is None or limit > 0
        self.states.append(progress)

    def clear(self) -> None:
        self.cleared += 1


def started_long_ago(time_limit: float | None = None, memory: int | None = None) -> Limits:
    return Limits(time_limit, memory, started=time.monotonic() - 10)


def until(condition: object, seconds: float = 10.0) -> None:
    ends = time.monotonic() + seconds
    while not condition() and time.monotonic() < ends:  # type: ignore[operator]
        time.sleep(0.01)


def test_a_default_run_never_stops() -> None:
    run = Run()
    assert run.progress(note="a", done=0.5, score=-1.0, bound=0.0)
    assert run.stop is None
    assert run.left == inf


def test_a_run_stops_at_its_time_limit_and_when_it_is_interrupted() -> None:
    assert Run(started_long_ago(9)).stop is Stop.TIME
    run = Run(started_long_ago(9))
    run.interrupt()
    assert run.stop is Stop.INTERRUPTED
    assert not run.progress(note="b")


def test_a_part_ends_earlier_and_never_later() -> None:
    run = Run(Limits(time=1000, seed=3, threads=2))
    assert run.part(0).stop is Stop.TIME
    assert run.part(-5).stop is Stop.TIME
    assert run.part(10).left < 11
    assert run.part(1e6).left <= 1000
    assert (run.part().seed, run.part().threads) == (3, 2)


def test_an_interruption_reaches_all_parts_and_the_whole() -> None:
    run = Run()
    part = run.part(100).part(silent=True)
    part.interrupt()
    assert run.stop is Stop.INTERRUPTED
    assert run.part().stop is Stop.INTERRUPTED


def test_short_runs_show_nothing() -> None:
    display = Recording()
    run = Run(console=Console(display))
    with run.phase("reading"):
        for _ in range(1000):
            run.progress(done=0.5)
    assert not display.states


def test_the_newest_state_is_shown_a_few_times_a_second_though_no_further_report_comes() -> None:
    display = Recording()
    run = Run(started_long_ago(), Console(display))
    with run.phase("reading"):
        for done in range(10_000):
            run.progress(note="scoring", done=done / 10_000)
        run.progress(score=-2.0, bound=-1.0)
        until(lambda: display.states)
    assert display.states[-1] == Progress("scoring", 0.9999, -2.0, -1.0)
    assert len(display.states) <= 5
    assert display.cleared


def test_a_new_note_begins_without_a_fraction() -> None:
    display = Recording()
    run = Run(started_long_ago(), Console(display))
    with run.phase("one"):
        run.progress(done=0.5)
        run.progress(note="two")
        until(lambda: display.states)
    assert display.states[-1] == Progress("two")


def test_the_phase_around_a_phase_is_shown_again() -> None:
    display = Recording()
    run = Run(started_long_ago(), Console(display))
    with run.phase("around"):
        with run.phase("within"):
            run.progress(done=0.5)
        until(lambda: display.states)
    assert display.states[-1] == Progress("around")


def test_progress_comes_from_any_thread_and_from_parts_unless_they_are_silent() -> None:
    display = Recording()
    run = Run(started_long_ago(), Console(display))
    with run.phase("search"):
        run.part(silent=True).progress(score=9.0)
        thread = threading.Thread(target=lambda: run.part(5).progress(score=-3.0))
        thread.start()
        thread.join()
        until(lambda: display.states)
    assert display.states[-1].score == -3.0


def test_compilation_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    from jtsolve.core import compiling

    monkeypatch.setattr(compiling, "compiling_now", lambda: "(in each run)")
    display = Recording()
    run = Run(started_long_ago(), Console(display))
    with run.phase("search"):
        until(lambda: display.states)
    assert display.states[-1].note == f"{COMPILING} (in each run)"
    monkeypatch.setitem(sys.modules, "jtsolve.core.compiling", ModuleType("half loaded"))
    display = Recording()
    with Run(started_long_ago(), Console(display)).phase("search"):
        until(lambda: display.states)
    assert display.states[-1].note == "search"


def test_findings_are_logged_escaped(caplog: pytest.LogCaptureFixture) -> None:
    Run().warn("check", ["\x1b[2J", "a\u202eb"])
    assert caplog.messages == ["check: \\u001b[2J", "check: a\\u202eb"]


def test_messages_and_findings_go_to_the_console_above_the_line() -> None:
    said: list[object] = []
    display = Recording()
    run = Run(console=Console(display, said.append, lambda title, findings: said.append((title, *findings))))
    run.say("scored")
    run.warn("data check", [])
    run.warn("data check", ["a constant column"])
    run.part(silent=True).say("of a part")
    assert said == ["scored", ("data check", "a constant column")]
    assert display.cleared == 2


def test_findings_are_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    Run().warn("data check", ["a constant column"])
    assert caplog.messages == ["data check: a constant column"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_interrupts_and_the_second_has_its_previous_effect(number: signal.Signals) -> None:
    caught: list[int] = []
    before = signal.signal(number, lambda number, _frame: caught.append(number))
    try:
        run = Run()
        with run.interruptible(), run.part().interruptible():
            os.kill(os.getpid(), number)
            until(lambda: run.stop)
            assert run.stop is Stop.INTERRUPTED
            assert not caught
            os.kill(os.getpid(), number)
            until(lambda: caught)
            assert caught == [number]
        assert signal.getsignal(number) is not signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        run = Run()
        with run.interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
        assert run.stop is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_leave_signals_alone() -> None:
    handlers: list[object] = []

    def work() -> None:
        with Run().interruptible():
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGTERM)]


def test_memory_and_time_are_required_with_need_limit_and_remedies() -> None:
    run = Run(started_long_ago(9, memory=resident_memory() + 10**8))
    with pytest.raises(
        LimitError, match=r"the table needs .* GB of memory, .* GB of which .* larger memory=, fewer columns"
    ):
        run.require_memory(10**9, "the table needs", "fewer columns")
    with pytest.raises(LimitError, match=r"of which the program holds already, but the limit is 1e-09 GB"):
        Run(Limits(memory=1)).require_memory(1, "the table needs", "fewer columns")
    with pytest.raises(LimitError, match=r"the time limit ended the reading; nothing is written\. .*columns"):
        run.require_time("the reading", "fewer columns")
    Run().require_memory(0, "the table needs", "fewer columns")
    Run().require_time("the reading", "fewer columns")
    interrupted = Run()
    interrupted.interrupt()
    with pytest.raises(KeyboardInterrupt):
        interrupted.require_time("the reading", "fewer columns")


def test_small_files_are_read_however_late_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Run(started_long_ago(9))
    late.require_reading(100)
    monkeypatch.setattr(core_run, "process_time", lambda: 1e9)
    with pytest.raises(LimitError, match=r"time limit of 9 s was over before the input was read"):
        late.require_reading(100)
    with pytest.raises(LimitError, match="reading the input needs"):
        Run(Limits(memory=1)).require_reading(100)


def test_limits_that_are_not_positive_numbers_are_refused() -> None:
    for wrong in ({"time": 0}, {"memory": -1}, {"threads": "2"}, {"seed": 0.5}):
        with pytest.raises(ChoiceError):
            Limits(**wrong)


def test_a_line_is_rewritten_and_cleared_and_never_wraps(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    line = TerminalLine()
    line.clear()
    assert capsys.readouterr().err == ""
    line.show(Progress("reading data.csv"), 3)
    line.show(Progress("x" * 30, 0.5), 4)
    line.show(Progress("dp"), 5)
    line.clear()
    lines = capsys.readouterr().err.split("\r")
    assert [text.strip() for text in lines[::2]] == ["", "reading data.csv  3", 19 * "x", "dp  5 s", ""]
    assert all(len(text) <= 19 for text in lines)


def test_a_closed_standard_error_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert not is_watched()
    TerminalLine().show(Progress("dp"), 5)


def test_a_notebook_has_one_output_which_is_updated_and_empty_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outputs: list[list[str]] = []

    class Handle:
        def __init__(self, first: str) -> None:
            self.texts = [first]
            outputs.append(self.texts)

        def update(self, content: dict[str, str], *, raw: bool) -> None:
            assert raw
            self.texts.append(content["text/plain"])

    def display(content: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        return Handle(content["text/plain"])

    module = ModuleType("IPython.display")
    module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    shown = display_here()
    assert isinstance(shown, NotebookOutput)
    shown.clear()
    assert not outputs
    run = Run(started_long_ago(), Console(shown))
    for note in ("reading", "solving"):
        with run.phase(note):
            until(lambda note=note: outputs and note in outputs[0][-1])
    assert len(outputs) == 1
    assert outputs[0][-1] == ""


def test_without_a_terminal_only_compilation_is_announced_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FirstRunLine, "announced", False)
    for note in ("search", COMPILING, "search", COMPILING):
        shown = display_here()
        assert isinstance(shown, FirstRunLine)
        shown.show(Progress(note), 2.0)
        shown.clear()
    assert capsys.readouterr().err == f"jtsolve: {COMPILING}\n"
    assert display_here(wanted=False) is None
    assert isinstance(display_here(wanted=True), TerminalLine)


def test_only_known_figures_are_shown() -> None:
    assert figures(None, inf) == ""
    assert figures(-3.0, inf) == "score -3"
    assert figures(None, 2.5) == "bound 2.5"
