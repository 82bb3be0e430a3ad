"""`jtsolve score`: an instance from data."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.limits import make_limits
from jtsolve.cli.output import emit, require_writable
from jtsolve.cli.progress import is_watched
from jtsolve.cli.scored import Task, chosen_score, in_words, make_coding, names_in, score_data, silent
from jtsolve.errors import ChoiceError

ALSO = {"junctor": "score", "jkl": "jkl", "pss": "pss"}
"""By the names on the command line, the endings of the files of other programs."""


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
        str, typer.Option(metavar="NAME", help="bdeu, bdj, ml, aic, bic, mdl, qnml; gaussian-bic, bge.")
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
        str | None,
        typer.Option(metavar="HOW", help="Cut continuous columns: quantile:4, width:4 or mdlp:CLASS."),
    ] = None,
    class_column: Annotated[
        str | None, typer.Option("--class", metavar="NAME", help="The column of classes, by which mdlp cuts.")
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
        str | None,
        typer.Option(
            metavar="F,F,…",
            help="Write other formats beside it: junctor (.score), jkl (GOBNILP), pss (urlearning).",
        ),
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
            class_column=class_column,
            max_states=max_states,
        ),
        header=not no_header,
        separator=_separator(separator),
        also=tuple(path.suffix.removeprefix(".") for path in outputs[1:]),
    )
    limits = make_limits(time_limit, memory_limit, threads, 0, context.obj)
    say = silent if quiet else emit
    problem = score_data(task, limits, say, shows_progress=not quiet and is_watched())

    from jtsolve.io.instance import write_problem

    for path in outputs:
        write_problem(problem, path)
        say(f"{path}: {in_words(path.stat().st_size)} written")


def _outputs(output: Path, also: str | None) -> list[Path]:
    """Returns the files to write, the instance first, and finds out whether their names tell a format."""
    if not output.name.endswith((".json", ".json.gz")):
        raise ChoiceError(f"{output}: an instance is written as .json or .json.gz; give such a name")
    formats = dict.fromkeys(names_in(also)) if also is not None else {}
    for name in formats:
        if name not in ALSO:
            raise ChoiceError(f"scores are written also for {', '.join(ALSO)}, not for '{name}'")
    stem = output.name.removesuffix(".gz").removesuffix(".json")
    return [output, *(output.with_name(f"{stem}.{ALSO[name]}") for name in formats)]


def _separator(name: str | None) -> str | None:
    from jtsolve.tables.csv_text import SEPARATORS

    if name is None:
        return None
    if name not in SEPARATORS:
        raise ChoiceError(f"there is no separator '{name}'; there are {', '.join(SEPARATORS)}")
    return SEPARATORS[name]
