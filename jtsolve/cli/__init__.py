"""The command line, assembled of commands.

Heavy imports are inside the commands, so that `--help` answers at once. The modules do without
`from __future__ import annotations`, since typer reads the annotations.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from errno import EDQUOT, EFBIG, ENAMETOOLONG, ENOSPC, EROFS
from functools import cache
from importlib import import_module
from io import StringIO, TextIOWrapper
from itertools import pairwise
from pathlib import Path
from traceback import format_exc
from typing import Annotated, Any

import typer
from typer.main import get_command

from jtsolve.cli.help import PanelCommand
from jtsolve.cli.output import (
    INTERNAL,
    INTERRUPTED,
    WRONG_USE,
    emit,
    exit_code,
    print_error,
    print_note,
    writing_output,
)
from jtsolve.core.formats import SUFFIXES, suffix_of
from jtsolve.core.outputs import one_call
from jtsolve.errors import ChoiceError, InputError, JtsolveError, at
from jtsolve.options import MEMORY, TREEWIDTH, Door, worded

__all__ = ["COMMANDS", "app", "run"]

# Idle threads of OpenBLAS, which numpy loads, wait actively for 2^26 cycles each: longer than many commands
# run. 2^16 cycles are enough to bridge two matrix products.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")

_MODULES = {
    **{module: (module,) for module in ("solve", "fit", "average", "select", "population")},
    "show": ("show",),
    "inference": ("query", "mpe", "sample", "export"),
    "rows": ("impute", "loglik"),
    "instances": ("score", "convert", "decode"),
    "verdicts": ("check", "explain"),
    "compare": ("compare", "report", "run"),
    "choices": ("backends", "scores", "models", "methods"),
    "data": ("data",),
}
COMMANDS = {name: module for module, names in _MODULES.items() for name in names}
"""The module of each command, in the order of the help."""

_ELSEWHERE = {
    **dict.fromkeys(
        ("predict", "classify"),
        "'impute' fills in missing values; 'query' computes probabilities",
    ),
    **dict.fromkeys(("learn", "train", "search"), "'solve' finds a tree, and 'fit' a model"),
    **dict.fromkeys(("infer", "marginals", "ask"), "'query' computes probabilities"),
    **dict.fromkeys(("plot", "draw", "print"), "'show' draws or prints a file"),
    "encode": "'convert' writes an instance as a formula: OUT ends in .wcnf, .lp, .mps or .pbtxt",
    "triangulate": "'show GRAPH' shows the junction tree of a graph",
}
"""Commands of other programs, and their counterparts here."""


def _print_version(requested: bool) -> None:  # noqa: FBT001 - the signature of typer's callbacks
    if requested:
        from jtsolve.core.version import __version__

        emit(f"jtsolve {__version__}")
        raise typer.Exit


def main(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Learn junction trees: chordal Markov networks of bounded treewidth.

    Exit codes: 0 a tree was found; 1 a check found a fault; 2 wrong usage or bad input; 3 proved infeasible;
    4 no tree within the limits; 5 chains that did not converge; 130 interrupted without a tree.
    """


_UsageError: Any = typer.BadParameter.__mro__[1]
"""The usage error of click, which typer does not export."""
_NO_NUMBER = re.compile(r"is not a valid (int|float)(eger)?( range)?")
_KINDS = {"int": "whole number", "float": "number"}
"""Words of a usage error for the types of numbers, and ours."""


def app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Returns the commands of these names, whose modules are imported here."""
    # Plain help: loading rich would take longer than reading the help; tracebacks are for developers.
    assembled = typer.Typer(rich_markup_mode=None, no_args_is_help=True, pretty_exceptions_enable=False)
    assembled.callback()(main)
    for name in names:
        command = getattr(import_module(f"jtsolve.cli.{COMMANDS[name]}"), name)
        if isinstance(command, typer.Typer):
            assembled.add_typer(command, name=name)
        else:
            assembled.command(name, cls=PanelCommand)(command)
    return assembled


@cache
def _commands(first: str | None) -> Any:
    """Returns the command that the first argument names, or all of them; assembled once, since it is slow."""
    return get_command(app() if first not in COMMANDS else app([first]))


def _help_written(arguments: Sequence[str]) -> AbstractContextManager[None]:
    """Returns the handler of errors in writing help, which commands also print without arguments."""
    requested = any(
        word in ("--help", "--help-all", "--version") or word.endswith("-completion") for word in arguments
    )
    return writing_output() if requested or len(arguments) <= 1 else nullcontext()


def _called(arguments: list[str], started: float) -> int:
    """Calls the command; usage errors quote arguments, and so are escaped and shortened like all messages."""
    if arguments and arguments[0] in _ELSEWHERE:
        raise ChoiceError(f"there is no command '{arguments[0]}'; {_ELSEWHERE[arguments[0]]}")
    words = [part for word in arguments for part in (word.split("=", 1) if word[:2] == "--" else [word])]
    for before, word in pairwise(["jtsolve", *words]):  # typer would take an empty one for the current folder
        if not word:
            raise InputError(f"argument after '{before}'", "", "it is empty", "give a name or a value")
    for word in arguments:  # a Path would lose the slash
        if word.endswith("/") and suffix_of(word) in SUFFIXES and not Path(word).is_dir():
            raise InputError(word, "", "there is no such directory", "leave out the slash to name a file")
    command, code = _commands(arguments[0] if arguments else None), 0
    try:
        with one_call(), _help_written(arguments):
            code = command(arguments, prog_name="jtsolve", obj=started, standalone_mode=False)
    except _UsageError as error:
        text = StringIO()
        error.show(file=text)
        for line in text.getvalue().split("\n")[:-1]:
            print_note(_NO_NUMBER.sub(lambda found: f"is no {_KINDS[found[1]]}", line))
        return WRONG_USE
    return code or 0


@at(Door.SHELL)
def run(arguments: Sequence[str], started: float, interrupted: Callable[[], bool] = lambda: False) -> int:
    """Runs one command and returns the exit code of the process.

    Args:
        arguments: without the program's name.
        started: `time.monotonic()` at the start; time limits count from there.
        interrupted: returns whether a signal has raised a `KeyboardInterrupt`, which extension modules may
            turn into another exception while they are loaded.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal whose encoding lacks '├' still shows the tree, with escapes for the branches.
            stream.reconfigure(errors="backslashreplace")
    try:
        # In a separate context, whose limits on reading end with the command.
        code = copy_context().run(_called, list(arguments), started)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except (JtsolveError, MemoryError) as error:
        without = f"out of memory; give a smaller {TREEWIDTH}, or a {MEMORY}"
        print_error(str(error) or worded(without, Door.SHELL))
        return exit_code(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of polars, too: exit code 1 would mean a failed check
        if isinstance(error, OSError) and error.errno == ENAMETOOLONG:
            print_error(f"the name of a file is too long: '{str(error.filename)[:60]}…'; give a shorter one")
            return WRONG_USE
        if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT, EFBIG, EROFS):  # temporary files
            print_error(f"a file cannot be written ({error.strerror}); free space, or set TMPDIR")
            return WRONG_USE
        if not interrupted():
            print_error(f"this is a bug in jtsolve; please report it with this traceback\n{format_exc()}")
            return INTERNAL
        code = INTERRUPTED
    if code == INTERRUPTED:
        solving = "solve" in arguments[:1]
        print_error(f"interrupted before {'a tree was found' if solving else 'it was finished'}")
    return code
