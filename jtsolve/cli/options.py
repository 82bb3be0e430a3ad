"""Options of commands: rows of the table of `jtsolve.options`, and further ones that several commands share.

`with_options` gives a command its rows, and their values as its argument `options`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve import options as table
from jtsolve.cli.output import emit, json_text, put, show_findings
from jtsolve.errors import ChoiceError, no_such
from jtsolve.options import READ, Door, Option, worded
from jtsolve.tables.options import COVARIANCE, DATA, MISSING_IN_ROWS, ROWS, names_in

if TYPE_CHECKING:
    from jtsolve.core.run import Run
    from jtsolve.study.restrictions import Restrictions

OF_TREE = (table.FORBID, table.REQUIRE, table.CONSTRAINTS)
LIMITS = (table.TIME, table.MEMORY, table.THREADS)
JSON = Option("json", bool, "Print JSON, and nothing else.", default=False)
QUIET = Option("quiet", bool, "Print nothing but errors.", default=False)
OF_STATES = tuple(row for row in DATA if row not in {COVARIANCE, ROWS})
"""Options of data without a covariance."""

SEARCH, OF_DATA = "Search", "Data"
_WORDS = {*DATA, MISSING_IN_ROWS}
_PANELS = {
    SEARCH: {table.TREEWIDTH, table.MODEL, table.TREE, table.GRAPH, table.BACKEND, table.SMOOTHING}
    | {table.VALIDATE, table.K_BEST, table.WITHIN, table.METHOD, table.EDGE_ODDS, table.TREES},
    "Constraints": {*OF_TREE},
    OF_DATA: {table.SCORE, table.MAX_SIZE, *_WORDS},
    "Limits": {*LIMITS, table.SEED, table.EXECUTOR},
}
"""Rows by the panel of the help that lists them; others are in the last one."""
_EXPERT = {table.MAX_SIZE, table.EXECUTOR}
"""Rows that only `--help-all` lists."""


def declared(row: Option) -> Any:
    """Returns the declaration of a row for typer."""
    explained = worded(row.help, Door.SHELL)
    if row.type is tuple:
        explained = f"{explained.removesuffix('.')}; may be repeated."
    return typer.Option(
        row.flag,
        metavar=row.metavar,
        min=row.least,
        help=explained,
        readable=False,
        rich_help_panel=next((panel for panel, rows in _PANELS.items() if row in rows), None),
        hidden=row in _EXPERT,
    )


def file_option(text: str, *, metavar: str = "FILE") -> Any:
    """Returns the declaration of an option that names a file or folder.

    Outputs need not be readable, and our messages on unreadable inputs are more precise than typer's.
    """
    return typer.Option(readable=False, metavar=metavar, help=text)


def file_argument(metavar: str, text: str) -> Any:
    """Returns the declaration of an argument that names a file or folder; see `file_option`."""
    return typer.Argument(readable=False, metavar=metavar, help=text)


Instance = Annotated[Path, file_argument("INSTANCE", "The instance, or the data file.")]
Data = Annotated[Path, file_argument("DATA", "The data file.")]
Model = Annotated[Path, file_argument("MODEL", "A model of 'jtsolve fit', or a network (.bif, .uai).")]
ResultFile = Annotated[Path | None, file_option("Write the result here.")]


class Options(SimpleNamespace):
    """The options of a command by the names of their rows; those of a run have defaults.

    Attributes:
        held: the rows that the command has.
        read: the texts of `--read`, which holds some of them.
        started: `time.monotonic()` at the start of the program.
        silent: whether only the result and the findings of the data check are printed, as with `--json`; with
            `--quiet`, nothing but errors is.
    """

    held: Sequence[Option]
    started: float
    read: list[str] | None = None
    time = memory = threads = None
    seed = 0
    json = quiet = silent = False

    def run(self) -> "Run":
        """Returns the run of the command."""
        from jtsolve.console import display_here
        from jtsolve.core.machine import allow_memory, memory_bytes
        from jtsolve.core.run import Console, Limits, Run
        from jtsolve.core.run import silent as ignore

        most = memory_bytes(self.memory)
        allow_memory(most)
        limits = Limits(self.time, most, self.threads, self.seed, self.started)
        console = Console(
            None if self.quiet else display_here(),
            ignore if self.silent or self.json or self.quiet else emit,
            ignore if self.quiet else show_findings,
        )
        return Run(limits, console)

    def show(self, facts: Any, text: Callable[[], str]) -> None:
        """Prints facts as JSON, or text for people, or nothing with `--quiet`."""
        if self.json:
            emit(json_text(facts))
        elif not self.quiet:
            emit(text())

    def deliver(self, document: bytes, text: Callable[[], str], output: Path | None) -> None:
        """Writes an answer to a file and prints it; one of hours is printed even if it cannot be written.

        Args:
            document: the answer as JSON.
            text: returns it for people.
            output: the file; None for none.
        """
        try:
            if output is not None:
                put(document, output)
        finally:
            if self.json:
                emit(document)
            elif not self.quiet:
                emit(text())

    def restrictions(self) -> "Restrictions":
        """Returns the constraints on the tree, by names."""
        from jtsolve.study.restrictions import Restrictions

        forbid, require = (map(names_in, texts or ()) for texts in (self.forbid, self.require))
        return Restrictions.given(forbid, require, self.constraints)

    @property
    def reading(self) -> dict[str, Any]:
        """The given options of data by name, as `tables.reading.reading_of` takes them."""
        rows = {row.name: row for row in self.held if row in _WORDS}
        own = {name: vars(self)[name] for name, row in rows.items() if not row.within}
        found = {name: value for name, value in own.items() if value is not None and value is not False}
        found |= _read_in(self.read or [], {name: row for name, row in rows.items() if row.within})
        lists = [name for name in found if rows[name].type is tuple]
        return found | {name: [one for text in found[name] for one in names_in(text)] for name in lists}

    def flags(self, rows: Iterable[Option]) -> list[str]:
        """Returns the flags of those rows that are given, and `--read` if it is."""
        direct = [row.flag for row in rows if not row.within and vars(self)[row.name] != _unset(row)]
        return [*direct, *[READ] * bool(self.read)]


def with_options(*rows: Option) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command rows of the table, in the place of its parameter `options`, which has their values."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        given = list(_parameters(rows))
        parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        for name, own in signature(command).parameters.items():
            parameters += given if name == "options" else [own.replace(kind=Parameter.KEYWORD_ONLY)]

        def run(context: typer.Context, **values: Any) -> None:
            own = {one.name: values.pop(one.name) for one in given}
            command(**values, options=Options(**own, held=rows, started=context.obj))

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # of `inspect`
        return run

    return decorate


def _parameters(rows: Iterable[Option]) -> Iterator[Parameter]:
    """Yields the parameters of rows, and `read` for those within it."""
    kinds: dict[type, Any] = {tuple: list[str] | None, bool: bool}
    kind: Any
    for row in rows:
        if not row.within:
            kind = Annotated[kinds.get(row.type, row.type | None), declared(row)]
            yield Parameter(row.name, Parameter.KEYWORD_ONLY, default=_unset(row), annotation=kind)
    if within := [row.name for row in rows if row.within]:
        words = f"Further options: {', '.join(within)}; may be repeated."
        read = typer.Option(READ, metavar="KEY=VALUE", help=words, rich_help_panel=OF_DATA)
        kind = Annotated[list[str] | None, read]
        yield Parameter("read", Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _unset(row: Option) -> Any:
    """Returns the value of a row that is not given: of data, None or False."""
    if row.type is bool:
        return False
    return None if row.type is tuple or row in _WORDS else row.default


def _read_in(texts: Sequence[str], within: Mapping[str, Option]) -> dict[str, Any]:
    """Returns the options in texts "separator=tab,decimal=comma"; a part without a key continues a value."""
    found: dict[str, list[str]] = {}
    for text in texts:
        key = ""
        for part in text.split(","):
            name, equals, value = part.partition("=")
            if equals and name in within:
                key = name
                found.setdefault(key, []).append(value)
            elif key:
                found[key][-1] += f",{part}"
            elif name in within:
                raise ChoiceError(f"{READ} {text}: '{name}' has no value; write {name}=VALUE")
            else:
                raise ChoiceError(f"{READ} {text}: {no_such('option', name, within)}")
    return {name: _typed(within[name], values) for name, values in found.items()}


def _typed(option: Option, texts: list[str]) -> Any:
    """Returns the value in texts: all of names, and otherwise the last."""
    text = texts[-1]
    if option.type is bool:
        if text not in ("true", "false"):
            raise ChoiceError(f"{READ} {option.name}={text}: write true or false")
        return text == "true"
    if option.type is int:
        try:
            return int(text)
        except ValueError:  # or Python reads no number of so many digits
            raise ChoiceError(f"{READ} {option.name}={text}: it is not a number") from None
    return texts if option.type is tuple else text
