"""Exit codes, standard output and standard error."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jtsolve.errors import (
    InputError,
    InternalError,
    JtsolveError,
    LimitError,
    NotConvergedError,
    on_one_line,
    printable,
)

FOUND = 0
FAULTY = 1
WRONG_USE = 2
INFEASIBLE = 3
NO_TREE = 4
NOT_CONVERGED = 5
INTERNAL = 70
"""EX_SOFTWARE of BSD's sysexits.h."""
_LONGEST_LINE = 1000
_LONGEST_FINDING = 8000
"""Characters of a finding, whose advice names all columns: enough for some 500."""

INTERRUPTED = 130
"""128 + SIGINT, as shells count."""


def exit_code(error: JtsolveError | MemoryError) -> int:
    """Returns the exit code for an error that ends a command."""
    if isinstance(error, InternalError):
        return INTERNAL
    if isinstance(error, NotConvergedError):
        return NOT_CONVERGED
    return NO_TREE if isinstance(error, LimitError | MemoryError) else WRONG_USE


def print_error(message: str) -> None:
    """Writes an error to standard error, if it is open; the exit code reports it in any case."""
    with suppress(AttributeError, OSError):  # sys.stderr is None if it was closed at the start
        sys.stderr.write(f"jtsolve: {printable(message)}\n")
        sys.stderr.flush()


def print_faults(source: str | Path, faults: Iterable[str]) -> None:
    """Writes a line for each fault of a source to standard error; faults quote input."""
    for fault in faults:
        print_error(on_one_line(f"{source}: {fault}", _LONGEST_LINE))


def print_note(message: str, longest: int = _LONGEST_LINE) -> None:
    """Writes a line of progress or a remark to standard error, if it is open."""
    with suppress(AttributeError, OSError):
        sys.stderr.write(f"{on_one_line(message, longest)}\n")
        sys.stderr.flush()


def show_findings(title: str, findings: Sequence[object]) -> None:
    """Writes findings to standard error, a line each; nothing if there are none."""
    if findings:
        for line in (f"{title}:", *(f"  {finding}" for finding in findings)):
            print_note(line, _LONGEST_FINDING)


def emit(text: str | bytes) -> None:
    """Writes text, its control characters escaped, or UTF-8 bytes to standard output; one newline ends them.

    A reader that closed the pipe, such as `head`, is no error.

    Raises:
        InputError: standard output cannot be written, for another reason.
    """
    if sys.stdout is None:  # it was closed when Python started
        raise InputError("standard output", "", "it is closed", "leave it open, or use --quiet")
    with writing_output():
        if isinstance(text, bytes):
            sys.stdout.buffer.write(text.rstrip(b"\n") + b"\n")
        else:
            sys.stdout.write(printable(text.rstrip("\n")) + "\n")


def put(data: bytes, output: str | Path | None) -> None:
    """Writes data to a file, or prints them without one."""
    if output is None:
        emit(data)
        return
    from jtsolve.core.files import write_atomically

    write_atomically(output, data)


def json_text(value: Any) -> str:
    """Returns a value as JSON; numbers that are not finite become null."""
    from jtsolve.io.documents import indented_json, json_value

    return indented_json(json_value(value))


def facts_table(title: str, facts: Mapping[str, Any]) -> str:
    """Returns a table with a line for each fact."""
    from jtsolve.listing import table

    return table([title, ""], [[name.replace("_", " "), fact] for name, fact in facts.items()])


@contextmanager
def writing_output() -> Iterator[None]:
    """Flushes standard output after the body, which only writes to it.

    Raises:
        InputError: as `emit`.
    """
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _abandon_output()
    except OSError as error:
        _abandon_output()
        reason = f"it cannot be written ({error.strerror})"
        raise InputError("standard output", "", reason, "free space, or write elsewhere") from None


def _abandon_output() -> None:
    """Redirects standard output to nowhere: flushing its buffer at exit would fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
