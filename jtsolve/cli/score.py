"""`jtsolve score`: an instance from data."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.options import (
    LOCAL,
    ConstraintOptions,
    Data,
    DataOptions,
    Ess,
    Executor,
    Keep,
    LimitOptions,
    Quiet,
    ScoreName,
    cluster_named,
    grouped,
    held,
    make_score,
)
from jtsolve.cli.output import emit, require_writable
from jtsolve.cli.scoring import DataFile, bytes_in_words, score_file
from jtsolve.errors import ChoiceError
from jtsolve.wording import names_in

ALSO = {"junctor": "score", "jkl": "jkl", "pss": "pss"}
"""By the names on the command line, the suffixes of the files of other programs."""


@grouped
def score(
    context: typer.Context,
    *,
    data: Data,
    output: Annotated[
        Path, typer.Option(readable=False, metavar="INSTANCE", help="Write it here (.json, .json.gz).")
    ],
    max_size: Annotated[
        int, typer.Option(metavar="K", min=1, help="The largest sets to score: the treewidth plus one.")
    ],
    score: ScoreName = None,
    ess: Ess = None,
    edge_penalty: Annotated[
        float, typer.Option(metavar="NATS", help="Structure prior: a penalty for each edge.")
    ] = 0.0,
    parameter_penalty: Annotated[
        float, typer.Option(metavar="NATS", help="Structure prior: a penalty for each free parameter.")
    ] = 0.0,
    table: DataOptions,
    constrain: ConstraintOptions,
    also: Annotated[
        str | None,
        typer.Option(
            metavar="F,F,…",
            help="Write other formats beside it: junctor (.score), jkl (GOBNILP), pss (urlearning).",
        ),
    ] = None,
    spend: LimitOptions,
    executor: Executor = LOCAL,
    keep: Keep = None,
    quiet: Quiet = False,
) -> None:
    """Score all small sets of the columns of a data file.

    Reads CSV, TSV, blank-separated text, Parquet, Arrow, Weka's ARFF, GOBNILP's and blip's .dat; compressed
    ones too; a folder or a pattern of Parquet files as one table. Predicts time and size first, and refuses
    what exceeds the limits. Ctrl-C leaves no file.

    --executor dask counts Parquet files by partitions on --threads workers of this machine, or on those of a
    scheduler. With --keep FOLDER, the same command goes on where it was stopped.
    """
    from jtsolve.scoring.prior import StructurePrior

    outputs = _outputs(output, also)
    for path in outputs:
        require_writable(path, data, *([table.schema] if table.schema else []))
    run = spend.run(context.obj, quiet=quiet, say=None if quiet else emit)
    with held(cluster_named(executor, spend.threads)) as cluster:
        problem = score_file(
            DataFile.of(data, make_score(score, ess), table).on(cluster, keep),
            max_size,
            run,
            prior=StructurePrior(edge_penalty, parameter_penalty),
            named=constrain.of,
            also=tuple(path.suffix.removeprefix(".") for path in outputs[1:]),
        )

    from jtsolve.io.instance import write_problem

    constrained = constrain.on(problem)
    for path in outputs:
        write_problem(constrained if path is output else problem, path)
        run.say(f"{path}: {bytes_in_words(path.stat().st_size)} written")


def _outputs(output: Path, also: str | None) -> list[Path]:
    """Returns the files to write, the instance first; refuses names without a format."""
    if not output.name.endswith((".json", ".json.gz")):
        raise ChoiceError(f"{output}: an instance is written as .json or .json.gz; give such a name")
    formats = dict.fromkeys(names_in(also)) if also is not None else {}
    for name in formats:
        if name not in ALSO:
            raise ChoiceError(f"scores are also written for {', '.join(ALSO)}, not for '{name}'")
    stem = output.name.removesuffix(".gz").removesuffix(".json")
    return [output, *(output.with_name(f"{stem}.{ALSO[name]}") for name in formats)]
