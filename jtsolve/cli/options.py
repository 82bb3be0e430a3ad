"""The options that several commands share, declared from `jtsolve.options`, and groups of them.

`expand_option_groups` lets a command declare a group, a frozen dataclass of options, as one parameter.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from jtsolve.cli import completion
from jtsolve.errors import ChoiceError, no_such
from jtsolve.options import (
    BACKEND,
    CONSTRAINTS,
    EXECUTOR,
    FORBID,
    MAX_SIZE,
    MEMORY,
    READ,
    REQUIRE,
    SCORE,
    SEED,
    THREADS,
    TIME,
    TREEWIDTH,
    Door,
    Option,
    field_options,
    worded,
)
from jtsolve.tables.options import (
    COVARIANCE,
    CROSSTAB,
    DATA,
    DECIMAL,
    DROP,
    MISSING_IN_ROWS,
    MISSING_VALUES,
    ROWS,
    STRICT,
    WEIGHTS,
    Dialect,
    names_in,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.run import Run
    from jtsolve.study.restrictions import Restrictions
    from jtsolve.tables.options import Habits, Reading

SEARCH, OF_DATA, OF_TREE, LIMITS = "Search", "Data", "Constraints", "Limits"
"""Panels of the help."""


def declared(
    option: Option,
    panel: str | None = None,
    complete: Callable[[str], Any] | None = None,
    *,
    expert: bool = False,
) -> Any:
    """Returns the declaration of an option for typer.

    Args:
        option: to declare.
        panel: of the help; None for the last one.
        complete: returns values for shell completion, found on demand.
        expert: whether only `--help-all` lists it.
    """
    if option.choices:
        complete = completion.complete_from(lambda: option.choices)
    explained = worded(option.help, Door.SHELL)
    if option.type is tuple:
        explained = f"{explained.removesuffix('.')}; may be repeated."
    return typer.Option(
        option.flag,
        metavar=option.metavar,
        min=option.least,
        help=explained,
        readable=False,
        autocompletion=complete,
        rich_help_panel=panel,
        hidden=expert,
    )


def file_option(text: str, *, metavar: str = "FILE", flag: str | None = None) -> Any:
    """Returns the declaration of an option that names a file or folder.

    Outputs need not be readable, and our messages on unreadable inputs are more precise than typer's.

    Args:
        text: of the help.
        metavar: its value in the help.
        flag: its name; None for that of the parameter.
    """
    flags = [] if flag is None else [flag]
    return typer.Option(*flags, readable=False, metavar=metavar, help=text)


def file_argument(metavar: str, text: str) -> Any:
    """Returns the declaration of an argument that names a file or folder; see `file_option`."""
    return typer.Argument(readable=False, metavar=metavar, help=text)


Instance = Annotated[Path, file_argument("INSTANCE", "The instance, or the data file.")]
Data = Annotated[Path, file_argument("DATA", "The data file.")]
Model = Annotated[Path, file_argument("MODEL", "A model of 'jtsolve fit', or a network (.bif, .uai).")]
ResultFile = Annotated[Path | None, file_option("Write the result here.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
Treewidth = Annotated[int | None, declared(TREEWIDTH, SEARCH)]
Seed = Annotated[int, declared(SEED, LIMITS)]
BackendName = Annotated[str, declared(BACKEND, SEARCH, completion.of_kind("backends"))]
TimeLimit = Annotated[float | None, declared(TIME, LIMITS)]
MemoryLimit = Annotated[float | None, declared(MEMORY, LIMITS)]
Threads = Annotated[int | None, declared(THREADS, LIMITS)]
Executor = Annotated[str, declared(EXECUTOR, LIMITS, expert=True)]
ScoreName = Annotated[str | None, declared(SCORE, OF_DATA, completion.of_kind("scores"))]
MaxSize = Annotated[int | None, declared(MAX_SIZE, OF_DATA, expert=True)]
Forbid = Annotated[list[str] | None, declared(FORBID, OF_TREE)]
Require = Annotated[list[str] | None, declared(REQUIRE, OF_TREE)]
Constraint = Annotated[list[str] | None, declared(CONSTRAINTS, OF_TREE)]


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """The limits of a run."""

    time_limit: TimeLimit = None
    memory_limit: MemoryLimit = None
    threads: Threads = None

    def run(self, started: float, seed: int = 0, *, silent: bool = False, quiet: bool = False) -> "Run":
        """Returns the run of a command.

        Args:
            started: `time.monotonic()` at the start of the program.
            seed: of everything random.
            silent: whether only the result and the findings of the data check are printed.
            quiet: whether nothing but errors is printed.
        """
        from jtsolve.cli.output import emit, show_findings
        from jtsolve.console import display_here
        from jtsolve.core.machine import allow_memory, memory_bytes
        from jtsolve.core.run import Console, Limits, Run
        from jtsolve.core.run import silent as ignore

        most = memory_bytes(self.memory_limit)
        allow_memory(most)
        limits = Limits(self.time_limit, most, self.threads, seed, started)
        console = Console(
            None if quiet else display_here(),
            ignore if quiet or silent else emit,
            ignore if quiet else show_findings,
        )
        return Run(limits, console)


def _group(options: "Sequence[Option]") -> Any:
    """Returns a dataclass of options: None or False for one that is not given; `--read` holds the rest."""
    kinds: dict[type, Any] = {tuple: list[str] | None, bool: bool}
    held: list[Any] = []
    for option in options:
        if not option.within:
            kind, declaration = kinds.get(option.type, option.type | None), declared(option, OF_DATA)
            entry = field(default=False if option.type is bool else None, metadata={"option": option})
            held.append((option.name, Annotated[kind, declaration], entry))
    within = {option.name: option for option in options if option.within}
    words = f"Further options: {', '.join(within)}; may be repeated."
    read = typer.Option(READ, metavar="KEY=VALUE", help=words, rich_help_panel=OF_DATA)
    held.append(("read", Annotated[list[str] | None, read], field(default=None)))
    # Without a docstring, the class would get its signature, which takes milliseconds.
    namespace = {"within": within, "__doc__": "A group of options."}
    return make_dataclass("Group", held, frozen=True, namespace=namespace)


class _Given:
    """Base of the groups of options of data."""

    within: Mapping[str, Option]
    read: list[str] | None

    def given(self) -> dict[str, Any]:
        """Returns the given options by name, with the values of a hand-written file."""
        values = {option.name: getattr(self, option.name) for option in field_options(type(self))}
        found = {name: value for name, value in values.items() if value is not None and value is not False}
        return found | _read_in(self.read or [], self.within)

    def reading(self) -> "Reading":
        """Returns how to read them.

        Raises:
            ChoiceError: an invalid value or combination.
            InputError: the schema is invalid.
        """
        from jtsolve.tables.reading import reading_of_words

        return reading_of_words(self.given())


@dataclass(frozen=True)
class DataOptions(_group([one for one in DATA if one not in {COVARIANCE, ROWS}]), _Given):  # type: ignore[misc]
    """How to read a data file: the options of `tables.options`, in the spelling of the shell."""


@dataclass(frozen=True)
class MatrixOptions(_group(DATA), _Given):  # type: ignore[misc]
    """How to read a data file, or a covariance instead."""


_OF_ROWS = (MISSING_IN_ROWS, MISSING_VALUES, DECIMAL, *field_options(Dialect))


@dataclass(frozen=True)
class RowOptions(_group(_OF_ROWS), _Given):  # type: ignore[misc]
    """How to read other rows for a model, which has its own coding of the columns."""

    def __post_init__(self) -> None:
        if self.missing not in (None, *MISSING_IN_ROWS.choices):
            known = " or ".join(MISSING_IN_ROWS.choices)
            raise ChoiceError(f"--missing {self.missing}: rows are not changed here; give {known}")

    @property
    def sums(self) -> bool:
        """Whether missing values are summed over even where they are a state."""
        return bool(self.missing == "sum")

    def given(self) -> dict[str, Any]:
        """Returns the options known for all data."""
        return {name: value for name, value in super().given().items() if name != "missing"}

    def habits(self, model: object) -> "Habits":
        """Returns how rows for a model are read: as its data were, unless something else is given."""
        from jtsolve.tables.options import Habits

        return Habits.over(model, self.reading(), self.given())


@dataclass(frozen=True)
class CountedRowOptions(_group((*_OF_ROWS, DROP, WEIGHTS, CROSSTAB, STRICT)), RowOptions):  # type: ignore[misc]
    """How to read other rows for a model, and how often each counts."""


def _read_in(texts: "Sequence[str]", within: "Mapping[str, Option]") -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True)
class ConstraintOptions:
    """Constraints on the tree, besides the treewidth."""

    forbid: Forbid = None
    require: Require = None
    constraint: Constraint = None

    def restrictions(self) -> "Restrictions":
        """Returns the constraints by names."""
        from jtsolve.study.restrictions import Restrictions

        forbid = map(names_in, self.forbid or ())
        return Restrictions.given(forbid, map(names_in, self.require or ()), self.constraint)


def flags_given(options: Any) -> list[str]:
    """Returns the flags of a group that differ from their default.

    >>> flags_given(DataOptions(drop=["a"], read=["strict=true"]))
    ['--drop', '--read']
    """
    changed = [entry for entry in fields(options) if getattr(options, entry.name) != entry.default]
    return [
        option.flag if (option := entry.metadata.get("option")) else f"--{entry.name.replace('_', '-')}"
        for entry in changed
    ]


def expand_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Returns a command in whose signature, which typer reads, the options of a group replace the group."""
    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in _flat(command)]

    def run(**given: Any) -> None:
        _called(command, given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # of `inspect`
    return run


def _flat(held: Callable[..., Any]) -> Iterator[Parameter]:
    """Yields the options of a command or a group, those of an inner group in its place."""
    for parameter in signature(held).parameters.values():
        if is_dataclass(parameter.annotation):
            yield from _flat(cast("Any", parameter.annotation))
        else:
            yield parameter


def _called(held: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Calls a command, or builds a group, with the options given for all of them."""
    parameters = signature(held).parameters.items()
    return held(
        **{
            name: _called(cast("Any", one.annotation), given) if is_dataclass(one.annotation) else given[name]
            for name, one in parameters
        }
    )
