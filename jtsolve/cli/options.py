"""The options that several commands share, each written once, and groups of them.

`grouped` lets a command take a group, a frozen dataclass of options, as one parameter.
"""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli import completion
from jtsolve.errors import ChoiceError
from jtsolve.scoring.score import DEFAULT_SCORE
from jtsolve.wording import names_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jtsolve.cluster import Cluster
    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Constraints, Problem
    from jtsolve.core.run import Console, Run
    from jtsolve.io.documents import ConstraintsDocument
    from jtsolve.scoring.score import LocalScore
    from jtsolve.tables.dialect import Dialect
    from jtsolve.tables.options import Coding

AUTO = "auto"

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
Treewidth = Annotated[int | None, typer.Option(metavar="K", min=0, help="Largest clique size minus one.")]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of everything random.")]

# Search

BackendName = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="The backend; see 'jtsolve backends'.", autocompletion=completion.backends
    ),
]
BackendOptions = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the backend; may be repeated.")
]
TimeLimit = Annotated[
    float | None, typer.Option(metavar="S", help="Seconds from start to finish, reading included.")
]
MemoryLimit = Annotated[
    float | None, typer.Option(metavar="GB", help="Memory; the default is 80 % of the free memory.")
]
Threads = Annotated[int | None, typer.Option(metavar="N", min=1, help="Threads; the default is all cores.")]

LOCAL = "local"
Executor = Annotated[
    str, typer.Option(metavar="NAME", help="local, dask (workers on this machine), or dask=ADDRESS.")
]
Keep = Annotated[
    Path | None,
    typer.Option(
        file_okay=False, readable=False, metavar="FOLDER", help="Of partitions: keep the counts here."
    ),
]

# Data

ScoreName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="bdeu, bdj, ml, aic, bic, mdl, qnml; gaussian-bic, bge. "
        f"Default: {DEFAULT_SCORE}, or bdeu with --ess.",
        autocompletion=completion.among(completion.scores),
    ),
]
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
Ess = Annotated[
    float | None, typer.Option(metavar="A", help="Equivalent sample size of bdeu; its default is 1.")
]
MaxSize = Annotated[
    int | None,
    typer.Option(metavar="K", min=1, help="Of data: the largest scored sets; the default is treewidth + 1."),
]
Columns = Annotated[
    str | None, typer.Option(metavar="A,B,…", help="Columns to keep, in this order; the default is all.")
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="A,B,…", help="Columns to leave out; may be repeated.")
]
Weights = Annotated[
    str | None, typer.Option(metavar="NAME", help="The column that counts how often each row occurs.")
]
Missing = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="Missing values: refuse, state, drop-rows, drop-columns, impute-mode.",
        autocompletion=completion.among(completion.missing),
    ),
]
MissingValues = Annotated[
    str | None,
    typer.Option(
        metavar="W,W,…", help="Words that stand for a missing value; default: nothing, ?, NA, NaN, …"
    ),
]
Discretise = Annotated[
    str | None, typer.Option(metavar="HOW", help="Cut continuous columns: quantile:4, width:4 or mdlp:CLASS.")
]
ClassColumn = Annotated[
    str | None, typer.Option("--class", metavar="NAME", help="The class column, by which mdlp cuts.")
]
Schema = Annotated[
    Path | None,
    typer.Option(readable=False, metavar="FILE", help="Declared states, or cuts, of columns (JSON)."),
]
States = Annotated[
    list[str] | None,
    typer.Option(metavar="A,B,…", help="Columns of numbers that are states, not quantities; never cut."),
]
MaxStates = Annotated[int, typer.Option(metavar="N", min=1, help="The largest number of states of a column.")]
NoHeader = Annotated[
    bool, typer.Option("--no-header", help="The first line is a row; columns are V1, V2, ….")
]
Separator = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="comma, semicolon, tab, pipe, blank, or the mark itself; default: found out.",
        autocompletion=completion.among(completion.separators),
    ),
]
DecimalMark = Annotated[
    str, typer.Option(metavar="MARK", help="point or comma; with comma, 1.234,5 is read as 1234.5.")
]
Encoding = Annotated[
    str, typer.Option(metavar="NAME", help="Encoding of text, such as utf-8, utf-16 or cp1252.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Make the warnings of the data check errors.")]

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
        from jtsolve.backends.parse import make_backend, split_backend, split_options

        pairs = self.option or []
        if self.backend == AUTO:
            if pairs:
                raise ChoiceError(
                    f"the option '{pairs[0]}' is for a backend, but auto chooses that; give --backend NAME"
                )
            return None
        name, options = split_backend(self.backend)
        return make_backend(name, options | split_options(pairs))


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """What a run may spend."""

    time_limit: TimeLimit = None
    memory_limit: MemoryLimit = None
    threads: Threads = None

    def run(
        self,
        started: float,
        seed: int = 0,
        *,
        quiet: bool = False,
        say: "Callable[[str], None] | None" = None,
    ) -> "Run":
        """Returns the run of a command.

        Args:
            started: `time.monotonic()` at the start of the process.
            seed: of everything random.
            quiet: whether to show neither progress nor findings.
            say: receives messages; None for nobody.
        """
        from jtsolve.core.machine import memory_bytes
        from jtsolve.core.run import Limits, Run

        limits = Limits(self.time_limit, memory_bytes(self.memory_limit), self.threads, seed, started)
        return Run(limits, console_of(quiet=quiet, say=say))


def console_of(*, quiet: bool = False, say: "Callable[[str], None] | None" = None) -> "Console":
    """Returns the console of a command: progress and findings on standard error, unless it is quiet."""
    from jtsolve.cli.output import warn
    from jtsolve.console import display_here
    from jtsolve.core.run import Console, silent

    return Console(None if quiet else display_here(), say or silent, silent if quiet else warn)


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


@dataclass(frozen=True, slots=True)
class DataOptions:
    """How to read a data file."""

    separator: Separator = None
    decimal: DecimalMark = "point"
    no_header: NoHeader = False
    encoding: Encoding = "utf-8"
    columns: Columns = None
    drop: Drop = None
    weights: Weights = None
    missing: Missing = None
    missing_values: MissingValues = None
    discretise: Discretise = None
    class_column: ClassColumn = None
    schema: Schema = None
    states: States = None
    max_states: MaxStates = 1000
    strict: Strict = False

    def coding(self) -> "Coding":
        """Returns the coding of the cells."""
        from jtsolve.tables.options import GAPS, Coding, Discretisation
        from jtsolve.tables.reading import read_declarations

        declared, declared_class = ({}, None) if self.schema is None else read_declarations(self.schema)
        return Coding(
            columns=None if self.columns is None else names_in(self.columns),
            drop=all_names_in(self.drop),
            weights=self.weights,
            missing=self.missing or "refuse",  # type: ignore[arg-type]  # checked there
            gaps=GAPS if self.missing_values is None else names_in(self.missing_values),
            discretise=None if self.discretise is None else Discretisation.parse(self.discretise),
            schema=declared,
            class_column=self.class_column or declared_class,
            max_states=self.max_states,
            states=all_names_in(self.states),
            decimal=self.decimal,  # type: ignore[arg-type]  # checked there
        )

    def gaps_for(self, model: object) -> tuple[str, ...]:
        """Returns the words for a missing value in rows for a model: its own, unless others are given."""
        from jtsolve.tables.options import gaps_of

        return gaps_of(model) if self.missing_values is None else names_in(self.missing_values)

    def dialect(self) -> "Dialect":
        """Returns how the file is written."""
        from jtsolve.tables.dialect import Dialect

        return Dialect(not self.no_header, self.separator, self.encoding)


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
        from jtsolve.io.constraints import read_constraints
        from jtsolve.io.documents import ConstraintsDocument

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


def all_names_in(texts: "Sequence[str] | None") -> tuple[str, ...]:
    """Returns the words of an option that may be repeated."""
    return tuple(name for text in texts or () for name in names_in(text))


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
    changed = [entry.name for entry in fields(options) if getattr(options, entry.name) != entry.default]
    return {name: f"--{name.removesuffix('_column').replace('_', '-')}" for name in changed}


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
