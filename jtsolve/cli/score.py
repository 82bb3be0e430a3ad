"""`jtsolve score`: an instance from data."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.limits import make_limits
from jtsolve.cli.output import emit, require_writable
from jtsolve.cli.progress import is_watched
from jtsolve.errors import ChoiceError, LimitError

if TYPE_CHECKING:
    from jtsolve.backend import Limits
    from jtsolve.problem import Problem
    from jtsolve.scores import LocalScores
    from jtsolve.scoring.options import Coding
    from jtsolve.scoring.prior import StructurePrior
    from jtsolve.scoring.score import LocalScore
    from jtsolve.scoring.scorer import Scorer
    from jtsolve.scoring.tabulate import TableEstimate

JUNCTOR = "junctor"


def score(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(readable=False, metavar="DATA", help="The data file.")],
    output: Annotated[
        Path,
        typer.Option(readable=False, metavar="INSTANCE", help="Write it here (.json, .json.gz)."),
    ],
    max_size: Annotated[
        int, typer.Option(metavar="K", min=1, help="The largest sets to score: the treewidth plus one.")
    ],
    score: Annotated[
        str, typer.Option(metavar="NAME", help="bdeu, bdj, ml, aic, bic, mdl; gaussian-bic, bge.")
    ] = "bdeu",
    ess: Annotated[
        float | None, typer.Option(metavar="A", help="Equivalent sample size of bdeu; the default is 1.")
    ] = None,
    edge_penalty: Annotated[
        float, typer.Option(metavar="NATS", help="Structure prior: a penalty for each edge.")
    ] = 0.0,
    parameter_penalty: Annotated[
        float, typer.Option(metavar="NATS", help="Structure prior: a penalty for each free parameter.")
    ] = 0.0,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Columns to keep, in this order; the default is all.")
    ] = None,
    drop: Annotated[str | None, typer.Option(metavar="A,B,…", help="Columns to leave out.")] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="NAME", help="The column that counts how often each row occurs.")
    ] = None,
    missing: Annotated[
        str,
        typer.Option(metavar="HOW", help="refuse, state, drop-rows, drop-columns, impute-mode."),
    ] = "refuse",
    missing_values: Annotated[
        str | None,
        typer.Option(
            metavar="W,W,…", help="Words that stand for a missing value; default: nothing, ?, NA, NaN, …"
        ),
    ] = None,
    discretise: Annotated[
        str | None, typer.Option(metavar="HOW", help="Cut continuous columns: quantile:4 or width:4.")
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(readable=False, metavar="FILE", help="Declared states, or cuts, of columns (JSON)."),
    ] = None,
    max_states: Annotated[
        int, typer.Option(metavar="N", min=1, help="The largest number of states of a column.")
    ] = 1000,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="The first line is a row; columns are V1, V2, ….")
    ] = False,
    separator: Annotated[
        str | None, typer.Option(metavar="NAME", help="comma, semicolon, tab or blank; default: found out.")
    ] = None,
    also: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="Write the scores also for 'junctor', as .score.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds from start to finish.")
    ] = None,
    memory_limit: Annotated[
        float | None, typer.Option(metavar="GB", help="Memory; the default is 80 % of what is free.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads; the default is all cores.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Score all small sets of the columns of a data file.

    Reads CSV, TSV, blank-separated text, Parquet, Arrow, Weka's ARFF, GOBNILP's and blip's .dat;
    packed ones too. Says what it will cost before it begins, and refuses what exceeds the limits. Ctrl-C
    leaves no file.
    """
    from jtsolve.scoring.prior import StructurePrior

    outputs = _outputs(output, also)
    for path in outputs:
        require_writable(path, data, *([schema] if schema else []))
    task = Task(
        data=data,
        score=chosen_score(score, ess),
        max_size=max_size,
        prior=StructurePrior(edge_penalty, parameter_penalty),
        coding=make_coding(
            columns=columns,
            drop=drop,
            weights=weights,
            missing=missing,
            missing_values=missing_values,
            discretise=discretise,
            schema=schema,
            max_states=max_states,
        ),
        header=not no_header,
        separator=_separator(separator),
    )
    limits = make_limits(time_limit, memory_limit, threads, 0, context.obj)
    say = silent if quiet else emit
    problem = score_data(task, limits, say, shows_progress=not quiet and is_watched())

    from jtsolve.instance import write_problem

    for path in outputs:
        write_problem(problem, path)
        say(f"{path}: {_size(path.stat().st_size)} written")


@dataclass(frozen=True, slots=True)
class Task:
    """What to score, and how."""

    data: Path
    score: "LocalScore"
    max_size: int
    coding: "Coding"
    prior: "StructurePrior | None" = None
    header: bool = True
    separator: str | None = None


def chosen_score(name: str, ess: float | None) -> "LocalScore":
    """Returns the score asked for."""
    from jtsolve.scoring import REGISTRY
    from jtsolve.scoring.bdeu import Bdeu

    if name not in REGISTRY:
        raise ChoiceError(f"there is no score '{name}'; there are {', '.join(REGISTRY)}")
    if ess is None:
        return REGISTRY[name]
    if name != Bdeu.name:
        raise ChoiceError(
            f"an equivalent sample size is for the score 'bdeu', not for '{name}'; leave out --ess"
        )
    return Bdeu(ess)


_SETS_IN_ADVANCE = 20_000_000
"""Where nothing needs a table, more sets than these are not scored in advance: 160 MB."""


def score_data(
    task: Task,
    limits: "Limits",
    say: Callable[[str], None],
    *,
    shows_progress: bool,
    on_demand: bool = False,
) -> "Problem":
    """Reads data, says what scoring them will cost, and returns the problem.

    Args:
        task: what to score.
        limits: on time and memory.
        say: takes what there is to say, line by line.
        shows_progress: whether there is a display.
        on_demand: whether the scores may be computed when they are asked for, where a table has too many.

    Raises:
        InputError: the data are not as they have to be.
        LimitError: the work would exceed the limits, or has.
    """
    from jtsolve.cli.progress import progress
    from jtsolve.kernels.compiling import announced
    from jtsolve.scoring.lazy import DataScores
    from jtsolve.scoring.reading import read_numbers, read_states
    from jtsolve.scoring.score import is_discrete
    from jtsolve.scoring.scorer import make_scorer
    from jtsolve.scoring.tabulate import estimate, tabulate_with

    read = read_states if is_discrete(task.score) else read_numbers
    table = read(task.data, task.coding, header=task.header, separator=task.separator)
    max_size = min(task.max_size, table.n)  # all sets of at most ten of eight variables are all sets
    scorer = make_scorer(table, task.score, max_size, task.prior)
    cost = estimate(scorer, max_size, limits.workers)
    if on_demand and cost.sets > _SETS_IN_ADVANCE:
        say(f"{table.total} rows of {table.n} variables; {cost.sets} sets, scored on demand")
        return _problem(task, scorer, DataScores(table, task.score, max_size, prior=task.prior))
    say(_forecast(scorer, cost))
    _require_room(scorer, max_size, limits)
    note = f"{cost.sets} sets by {task.score.name}"
    with progress(note, shown=shows_progress) as listener:

        def report(*, done: float) -> bool:
            if listener is not None:
                listener(seconds=limits.elapsed, score=None, bound=inf, done=done, note=note)
            return limits.time is None or limits.elapsed < limits.time

        def announce() -> None:
            if listener is not None:
                compiling = "compiling the kernels (first run only)"
                listener(seconds=limits.elapsed, score=None, bound=inf, done=None, note=compiling)

        began = time.perf_counter()
        with announced(announce):
            scores = tabulate_with(scorer, max_size, workers=limits.workers, progress=report)
        say(f"scored in {time.perf_counter() - began:.2f} s")
    return _problem(task, scorer, scores)


def _problem(task: Task, scorer: "Scorer", scores: "LocalScores") -> "Problem":
    """Returns the problem with these scores of the data."""
    from jtsolve.problem import Problem, Variable
    from jtsolve.scoring.table import DataTable

    table = scorer.table
    states: list[tuple[str, ...] | None] = [None] * table.n
    if isinstance(table, DataTable):
        states = list(table.states)
    variables = tuple(map(Variable, table.names, states))
    return Problem(variables, scores, name=_stem(task.data), provenance=_provenance(task, scorer))


def _stem(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    return name.rpartition(".")[0] or name


def _provenance(task: Task, scorer: "Scorer") -> dict[str, Any]:
    from dataclasses import asdict

    from jtsolve import __version__

    # asdict: scores are dataclasses, which their protocol cannot say.
    parameters = asdict(task.score)  # type: ignore[call-overload]
    penalties = {f"{name}_penalty": value for name, value in asdict(scorer.prior).items() if value}
    return {
        **scorer.table.provenance,
        "score": task.score.name,
        **parameters,
        **penalties,
        "jtsolve": __version__,
    }


def _forecast(scorer: "Scorer", cost: "TableEstimate") -> str:
    """Returns what the data are, and what scoring them is predicted to cost."""
    table = scorer.table
    return (
        f"{table.total} rows of {table.n} variables; {cost.sets} sets, {_duration(cost.seconds)}, "
        f"{_size(cost.file_bytes)} as .json or {_size(cost.packed_bytes)} as .json.gz"
    )


def _duration(seconds: float) -> str:
    return "less than a second" if seconds < 1 else f"about {seconds:.2g} s"


def _size(count: int) -> str:
    """Returns a number of bytes in words.

    >>> _size(1500), _size(25_000_000)
    ('1.5 kB', '25 MB')
    """
    unit, name = (1e3, "kB") if count < 1e6 else (1e6, "MB") if count < 1e9 else (1e9, "GB")  # noqa: PLR2004
    return f"{count / unit:.3g} {name}"


def _require_room(scorer: "Scorer", max_size: int, limits: "Limits") -> None:
    """Refuses a table that exceeds the limits, with the largest size that does not.

    Raises:
        LimitError: with the need, the limit and the ways out.
    """
    from jtsolve.files import LARGEST
    from jtsolve.machine import resident_memory
    from jtsolve.scoring.tabulate import estimate

    def excess(size: int) -> str | None:
        cost = estimate(scorer, size, limits.workers)
        if held + cost.memory > limits.memory_bytes:
            need, limit = (held + cost.memory) / 1e9, limits.memory_bytes / 1e9
            return f"{need:.3g} GB of memory, but the limit is {limit:.3g} GB"
        if cost.file_bytes > LARGEST:
            return (
                f"a file of {cost.file_bytes / 1e9:.3g} GB, but no more than {LARGEST / 1e9:.3g} GB are read"
            )
        if left is not None and cost.seconds > left:
            return f"about {cost.seconds:.3g} s, but {max(0.0, left):.3g} s are left"
        return None

    held = resident_memory()
    left = None if limits.time is None else limits.time - limits.elapsed
    reason = excess(max_size)
    if reason is None:
        return
    fitting = next((size for size in range(max_size - 1, 0, -1) if excess(size) is None), None)
    way = f"--max-size {fitting}, " if fitting else ""
    raise LimitError(
        f"the scores of all sets of at most {max_size} of {scorer.table.n} variables need {reason}. "
        f"Ways out: {way}fewer columns (--columns, --drop), or a larger limit"
    )


def _outputs(output: Path, also: str | None) -> list[Path]:
    """Returns the files to write, and finds out whether their names tell a format."""
    if not output.name.endswith((".json", ".json.gz")):
        raise ChoiceError(f"{output}: an instance is written as .json or .json.gz; give such a name")
    if also is None:
        return [output]
    if also != JUNCTOR:
        raise ChoiceError(f"scores are written also for '{JUNCTOR}', not for '{also}'")
    stem = output.name.removesuffix(".gz").removesuffix(".json")
    return [output, output.with_name(f"{stem}.score")]


def make_coding(
    *,
    missing: str,
    discretise: str | None,
    columns: str | None = None,
    drop: str | None = None,
    weights: str | None = None,
    missing_values: str | None = None,
    schema: Path | None = None,
    max_states: int = 1000,
) -> "Coding":
    """Returns the coding that options ask for."""
    from jtsolve.scoring.options import GAPS, Coding, Discretisation
    from jtsolve.scoring.reading import read_schema

    return Coding(
        columns=None if columns is None else _names(columns),
        drop=() if drop is None else _names(drop),
        weights=weights,
        missing=missing,  # type: ignore[arg-type]  # checked there
        gaps=GAPS if missing_values is None else _names(missing_values),
        discretise=None if discretise is None else Discretisation.parse(discretise),
        schema={} if schema is None else read_schema(schema),
        max_states=max_states,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _separator(name: str | None) -> str | None:
    from jtsolve.scoring.separated import SEPARATORS

    if name is None:
        return None
    if name not in SEPARATORS:
        raise ChoiceError(f"there is no separator '{name}'; there are {', '.join(SEPARATORS)}")
    return SEPARATORS[name]


def silent(_text: str) -> None:
    """Says nothing."""
