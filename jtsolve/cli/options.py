"""The options that several commands share, each written once, and groups of them.

`grouped` lets a command take a group, a frozen dataclass of options, as one parameter.
"""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli import completion
from jtsolve.errors import ChoiceError
from jtsolve.options import (
    BACKEND,
    ESS,
    EXECUTOR,
    MAX_SIZE,
    MEMORY,
    SCORE,
    SEED,
    THREADS,
    TIME,
    TREEWIDTH,
    Option,
)
from jtsolve.scoring.score import DEFAULT_SCORE
from jtsolve.tables.options import DATA, all_names_in, names_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jtsolve.cluster import Cluster
    from jtsolve.core.backend import Backend, Limits
    from jtsolve.core.problem import Constraints, Problem
    from jtsolve.io.documents import ConstraintsDocument
    from jtsolve.scoring.score import LocalScore
    from jtsolve.tables.options import Reading

AUTO = BACKEND.default


def declared(option: Option, complete: Callable[[str], Any] | None = None, more: str = ".") -> Any:
    """Returns the declaration of an option for typer.

    Args:
        option: to declare.
        complete: offers values that are found as the shell asks.
        more: the end of its help.
    """
    if option.choices:
        complete = completion.among(lambda: option.choices)
    return typer.Option(
        option.flag,
        metavar=option.metavar,
        min=option.least,
        help=option.help.removesuffix(".") + more,
        readable=False,
        autocompletion=complete,
    )


Instance = Annotated[Path, typer.Argument(readable=False, metavar="INSTANCE", help="The instance file.")]
Data = Annotated[Path, typer.Argument(readable=False, metavar="DATA", help="The data file.")]
Model = Annotated[
    Path,
    typer.Argument(
        readable=False, metavar="MODEL", help="A model of 'jtsolve fit', or a network (.bif, .uai)."
    ),
]
ResultFile = Annotated[
    Path | None, typer.Option(readable=False, metavar="FILE", help="Write the result here.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
Treewidth = Annotated[int | None, declared(TREEWIDTH)]
Seed = Annotated[int, declared(SEED)]

# Search

BackendName = Annotated[str, declared(BACKEND, completion.among(completion.backends))]
BackendOptions = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the backend; may be repeated.")
]
TimeLimit = Annotated[float | None, declared(TIME)]
MemoryLimit = Annotated[float | None, declared(MEMORY)]
Threads = Annotated[int | None, declared(THREADS)]

LOCAL = "local"
Executor = Annotated[str, declared(EXECUTOR)]
Keep = Annotated[
    Path | None,
    typer.Option(
        file_okay=False, readable=False, metavar="FOLDER", help="Of partitions: keep the counts here."
    ),
]

# Data

ScoreName = Annotated[str | None, declared(SCORE, completion.among(completion.scores))]
ScoreOfData = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"The score of a data file; default: {DEFAULT_SCORE}. For any file name.",
        autocompletion=completion.among(completion.scores),
    ),
]
ScoreOfPosterior = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The score of a data file; default: bdeu. For any file name.",
        autocompletion=completion.among(completion.scores),
    ),
]
Ess = Annotated[float | None, declared(ESS)]
MaxSize = Annotated[int | None, declared(MAX_SIZE)]

# Constraints

Forbid = Annotated[
    list[str] | None, typer.Option(metavar="A,B", help="No edge between these two; may be repeated.")
]
Require = Annotated[
    list[str] | None, typer.Option(metavar="A,B", help="An edge between these two; may be repeated.")
]
ForbidClique = Annotated[
    list[str] | None, typer.Option(metavar="A,B,…", help="Not a maximal clique; may be repeated.")
]
MinSeparator = Annotated[
    int | None, typer.Option(metavar="K", min=0, help="The least separator size; 1: a connected graph.")
]
MaxSeparator = Annotated[int | None, typer.Option(metavar="K", min=0, help="The largest separator size.")]
MaxCliques = Annotated[int | None, typer.Option(metavar="K", min=1, help="The most maximal cliques.")]
ConstraintsFile = Annotated[
    Path | None,
    typer.Option(readable=False, metavar="FILE", help="Constraints by the names of the instance format."),
]
WithinGraph = Annotated[
    Path | None,
    typer.Option(
        readable=False,
        metavar="FILE",
        help="No edge outside a triangulation of this graph, result, results or posterior; of a selection, "
        "of its superset.",
    ),
]
RequireGraph = Annotated[
    Path | None, typer.Option(readable=False, metavar="FILE", help="Every edge of this graph or result.")
]

# Queries

Given = Annotated[
    list[str] | None,
    typer.Option(metavar="A=x,B=y", help="Evidence, NAME=STATE,NAME=STATE; may be repeated."),
]
Likelihood = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A=P:P", help="Soft evidence, NAME=P:P:…, a likelihood for each state; may be repeated."
    ),
]
TableMemory = Annotated[
    float | None,
    typer.Option("--memory-limit", metavar="GB", help="Memory of the tables; by default the free memory."),
]
Rows = Annotated[int, typer.Option(metavar="N", min=1, help="The number of rows to draw.")]
DrawSeed = Annotated[int, typer.Option(metavar="S", min=0, help="The same seed draws the same rows.")]


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Which backend searches."""

    backend: BackendName = AUTO
    option: BackendOptions = None

    def chosen(self) -> "Backend | None":
        """Returns the backend, or None for `auto`."""
        from jtsolve.backends.registry import REGISTRY
        from jtsolve.core.choice_texts import pairs, split

        given = self.option or []
        if self.backend == AUTO:
            if given:
                raise ChoiceError(
                    f"the option '{given[0]}' is for a backend, but auto chooses that; give --backend NAME"
                )
            return None
        name, options = split(self.backend)
        return REGISTRY.make(name, options | pairs(given))


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """What a run may spend."""

    time_limit: TimeLimit = None
    memory_limit: MemoryLimit = None
    threads: Threads = None

    def limits(self, started: float, seed: int = 0) -> "Limits":
        """Returns the limits, which reading keeps from now on."""
        from jtsolve.core.backend import Limits
        from jtsolve.core.files import guard_reading
        from jtsolve.core.machine import memory_bytes

        limits = Limits(self.time_limit, memory_bytes(self.memory_limit), self.threads, seed, started)
        guard_reading(limits.guard())
        return limits


@dataclass(frozen=True, slots=True)
class ScoringOptions:
    """How to score data, for commands that take instances too."""

    score: ScoreOfData = None
    max_size: MaxSize = None
    ess: Ess = None


@dataclass(frozen=True, slots=True)
class PosteriorScoringOptions:
    """How to score data for a posterior: by a log marginal likelihood, so that weights are probabilities."""

    score: ScoreOfPosterior = None
    max_size: MaxSize = None
    ess: Ess = None


def _group(options: "Sequence[Option]") -> Any:
    """Returns a dataclass of options: None, or False for a flag, if one is not given."""
    kinds: dict[type, tuple[Any, Any]] = {tuple: (list[str] | None, None), bool: (bool, False)}
    held: list[Any] = []
    for option in options:
        kind, absent = kinds.get(option.type, (option.type | None, None))
        stated = option.type in (int, str) and option.default is not None
        default = f"; default: {option.default}." if stated else "."
        shown = declared(option, more=default)
        entry = field(default=absent, metadata={"option": option})
        held.append((option.name, Annotated[kind, shown], entry))
    return make_dataclass("Group", held, frozen=True)


class DataOptions(_group(DATA)):  # type: ignore[misc]
    """How to read a data file: the options of `tables.options`, as the shell takes them."""

    def given(self) -> dict[str, Any]:
        """Returns the given options by name, with the values of a hand-written file."""
        values = {option: getattr(self, option.name) for option in DATA}
        return {
            option.name: not option.default if option.type is bool else value
            for option, value in values.items()
            if value is not None and value is not False
        }

    def reading(self) -> "Reading":
        """Returns how to read it.

        Raises:
            ChoiceError: an invalid value or combination.
            InputError: the schema is invalid.
        """
        from jtsolve.tables.reading import reading_of_words

        return reading_of_words(self.given())

    def gaps_for(self, model: object) -> tuple[str, ...]:
        """Returns the words for a missing value in rows for a model: its own, unless others are given."""
        from jtsolve.tables.options import gaps_of

        return all_names_in(self.missing_values) or gaps_of(model)


@dataclass(frozen=True, slots=True)
class ConstraintOptions:
    """Constraints on the tree, besides the treewidth."""

    forbid: Forbid = None
    require: Require = None
    forbid_clique: ForbidClique = None
    min_separator: MinSeparator = None
    max_separator: MaxSeparator = None
    max_cliques: MaxCliques = None
    constraints: ConstraintsFile = None
    within_graph: WithinGraph = None
    require_graph: RequireGraph = None

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return bool(flags_given(self))

    def documents(self) -> "list[tuple[ConstraintsDocument, str]]":
        """Returns the constraints of the file and of the other options, each with its source for messages."""
        from jtsolve.io.documents import ConstraintsDocument
        from jtsolve.io.settings import read_constraints

        found = (
            [] if self.constraints is None else [(read_constraints(self.constraints), str(self.constraints))]
        )
        document = ConstraintsDocument(
            max_separator_size=self.max_separator,
            min_separator_size=self.min_separator or 0,
            forbidden_edges=[edge_in(text, "--forbid") for text in self.forbid or []],
            required_edges=[edge_in(text, "--require") for text in self.require or []],
            forbidden_cliques=[list(names_in(text)) for text in self.forbid_clique or []],
            max_cliques=self.max_cliques,
        )
        return [*found, (document, "options")]

    def of(self, names: "Sequence[str]") -> "Constraints":
        """Returns the constraints on variables of these names.

        Raises:
            InputError: the file is invalid, a name is unknown, or constraints contradict each other.
        """
        from jtsolve.core.problem import Constraints
        from jtsolve.io.documents import constraints_from_document, with_names

        joint = Constraints()
        for document, source in self.documents():
            own = constraints_from_document(document, names, source, "constraints")
            with with_names(names, source, "constraints"):
                joint = joint.joined(own)
        if self.within_graph is None and self.require_graph is None:
            return joint

        from jtsolve.selection.supersets import constraints_within, read_screened, read_superset

        files = ((self.within_graph, read_screened), (self.require_graph, read_superset))
        around, inside = (
            None if path is None else read(path).aligned(names, str(path)) for path, read in files
        )
        with with_names(names, "options", "constraints"):
            return joint.joined(constraints_within(around, inside))

    def on(self, problem: "Problem") -> "Problem":
        """Returns the problem under its own constraints and these.

        Raises:
            InputError: as `of`.
        """
        from dataclasses import replace

        from jtsolve.io.documents import with_names

        more = self.of(problem.names)
        with with_names(problem.names, "options", "constraints"):
            return replace(problem, constraints=problem.constraints.joined(more))

    @property
    def treewidth(self) -> int | None:
        """The treewidth that the file of constraints allows, or None."""
        bounds = [document.max_treewidth for document, _ in self.documents()]
        return min((bound for bound in bounds if bound is not None), default=None)


def cluster_named(executor: str, workers: int | None) -> "Cluster | None":
    """Returns the Dask cluster of an executor, by default with a worker a core of this machine."""
    if executor == LOCAL:
        return None
    from jtsolve.cluster import Cluster
    from jtsolve.core.machine import cores

    return Cluster.named(executor, workers or cores())


@contextmanager
def held(cluster: "Cluster | None") -> "Iterator[Cluster | None]":
    """Yields a cluster with its connection; None for None."""
    if cluster is None:
        yield None
        return
    with cluster.held() as connected:
        yield connected


def make_score(name: str | None, ess: float | None) -> "LocalScore":
    """Returns the score of that name; None is bdeu with an equivalent sample size, else the default."""
    from jtsolve.scoring.registry import named_score

    return named_score(name or (DEFAULT_SCORE if ess is None else "bdeu"), ess)


def edge_in(text: str, option: str) -> tuple[str, str]:
    """Returns the two names of an edge.

    Raises:
        ChoiceError: there are not two.
    """
    names = names_in(text)
    if len(names) != 2:  # noqa: PLR2004 - an edge joins two
        raise ChoiceError(
            f"{option} {text}: an edge joins two variables; give two names, such as {option} A,B"
        )
    return names[0], names[1]


def flags_given(options: Any) -> list[str]:
    """Returns the flags of a group that differ from their default.

    >>> flags_given(DataOptions(drop=["a"], class_column="b"))
    ['--drop', '--class']
    """
    return list(flags_of(options).values())


def flags_of(options: Any) -> dict[str, str]:
    """Returns, by field, the flags of a group that differ from their default."""
    changed = [entry for entry in fields(options) if getattr(options, entry.name) != entry.default]
    return {
        entry.name: option.flag
        if (option := entry.metadata.get("option"))
        else f"--{entry.name.replace('_', '-')}"
        for entry in changed
    }


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Returns a command in whose signature, which typer reads, the options of a group replace the group."""
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            parameters += signature(groups[name]).parameters.values()
        else:
            parameters.append(parameter)

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(*(given.pop(entry.name) for entry in fields(group)))
        command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    by_name = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = Signature(by_name)  # type: ignore[attr-defined]  # inspect looks for it
    return run
