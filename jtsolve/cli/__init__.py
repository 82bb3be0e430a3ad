"""The command line: one module per command, assembled here.

Heavy imports are inside the commands, so that `--help` answers at once. The modules do without
`from __future__ import annotations`, since typer reads the annotations. Paths are declared `readable=False`:
outputs need not be readable, and our own messages on unreadable inputs say more than typer's.
"""

import sys
from collections.abc import Callable, Sequence
from contextvars import copy_context
from errno import ENAMETOOLONG
from functools import cache
from io import StringIO, TextIOWrapper
from traceback import format_exc
from typing import Annotated, Any

import typer
from typer.main import get_command

from jtsolve.cli.average import average
from jtsolve.cli.check import check
from jtsolve.cli.choices import backends, methods, models, scores
from jtsolve.cli.compare import compare
from jtsolve.cli.convert import convert
from jtsolve.cli.data import data
from jtsolve.cli.decode import decode
from jtsolve.cli.encode import encode
from jtsolve.cli.export import export
from jtsolve.cli.fit import fit
from jtsolve.cli.help import PanelCommand
from jtsolve.cli.impute import impute
from jtsolve.cli.loglik import loglik
from jtsolve.cli.mpe import mpe
from jtsolve.cli.output import INTERNAL, INTERRUPTED, WRONG_USE, complain, exit_code, murmur
from jtsolve.cli.query import query
from jtsolve.cli.recommend import recommend
from jtsolve.cli.report import report
from jtsolve.cli.run import run as run_one
from jtsolve.cli.sample import sample
from jtsolve.cli.score import score
from jtsolve.cli.select import select
from jtsolve.cli.show import show
from jtsolve.cli.solve import solve
from jtsolve.errors import JtsolveError, at
from jtsolve.options import Door

__all__ = ["app", "run"]

# Plain help: rich would take longer to load than the help takes to read, and tracebacks are for developers.
app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, pretty_exceptions_enable=False)
for command in (
    solve,
    score,
    check,
    backends,
    scores,
    models,
    methods,
    recommend,
    compare,
    report,
    run_one,
    convert,
    encode,
    decode,
    show,
    select,
    average,
):
    app.command("run" if command is run_one else None, cls=PanelCommand)(command)
for of_models in (fit, loglik, impute, query, mpe, sample, export):
    app.command(cls=PanelCommand)(of_models)
app.add_typer(data, name="data")


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the signature of typer's callbacks
    if wanted:
        from jtsolve.core.version import __version__

        sys.stdout.write(f"jtsolve {__version__}\n")
        raise typer.Exit


@app.callback()
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
"""Which typer does not export."""


@cache
def _commands() -> Any:
    """Returns the commands as typer assembles them: once, since that takes longer than many a command."""
    return get_command(app)


def _called(arguments: list[str], started: float) -> int:
    """Calls the command; a usage error quotes the arguments, so it is escaped and cut like all messages."""
    try:
        code = _commands()(arguments, prog_name="jtsolve", obj=started, standalone_mode=False)
    except _UsageError as error:
        text = StringIO()
        error.show(file=text)
        for line in text.getvalue().split("\n")[:-1]:
            murmur(line)
        return WRONG_USE
    return code or 0


@at(Door.SHELL)
def run(arguments: Sequence[str], started: float, interrupted: Callable[[], bool] = lambda: False) -> int:
    """Runs one command and returns the exit code of the process.

    Args:
        arguments: without the program's name.
        started: `time.monotonic()` at the start; time limits count from there.
        interrupted: tells whether a signal has raised a `KeyboardInterrupt`, which extension modules may turn
            into another exception while they are loaded.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal whose encoding lacks '├' still shows the tree, with escapes for the branches.
            stream.reconfigure(errors="backslashreplace")
    try:
        # In a context of its own, whose limits on reading end with the command.
        code = copy_context().run(_called, list(arguments), started)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except (JtsolveError, MemoryError) as error:
        complain(str(error) or "out of memory; lower the treewidth, or set a --memory-limit")
        return exit_code(error)
    except Exception as error:  # noqa: BLE001 - Python's own exit code, 1, would say that a check failed
        if isinstance(error, OSError) and error.errno == ENAMETOOLONG:
            complain(f"the name of a file is too long: '{str(error.filename)[:60]}…'; give a shorter one")
            return WRONG_USE
        if not interrupted():
            complain(f"this is a bug in jtsolve; please report it with this traceback\n{format_exc()}")
            return INTERNAL
        code = INTERRUPTED
    if code == INTERRUPTED:
        solving = "solve" in arguments[:1]
        complain(f"interrupted before {'a tree was found' if solving else 'it was finished'}")
    return code
