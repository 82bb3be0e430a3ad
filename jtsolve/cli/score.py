"""`jtsolve score`: an instance from data."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jtsolve.cli.options import (
    OF_DATA,
    ConstraintOptions,
    Data,
    DataOptions,
    Executor,
    Keep,
    LimitOptions,
    Quiet,
    ScoreName,
    chosen_score,
    grouped,
)
from jtsolve.core.formats import SCORED
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.options import EXECUTOR
from jtsolve.scoring.score import MIXED_SCORE
from jtsolve.tables.options import names_in

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits, Run
    from jtsolve.scoring.problem import ScoringPlan
    from jtsolve.scoring.scorer import Scorer
    from jtsolve.scoring.tabulate import TableEstimate
    from jtsolve.study.study import Study

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
        int,
        typer.Option(
            metavar="K",
            min=1,
            help="The largest sets to score: the treewidth plus one.",
            rich_help_panel=OF_DATA,
        ),
    ],
    score: ScoreName = None,
    edge_penalty: Annotated[
        float,
        typer.Option(
            metavar="NATS",
            help="Structure prior: a penalty for each edge.",
            rich_help_panel=OF_DATA,
            hidden=True,
        ),
    ] = 0.0,
    parameter_penalty: Annotated[
        float,
        typer.Option(
            metavar="NATS",
            help="Structure prior: a penalty for each free parameter.",
            rich_help_panel=OF_DATA,
            hidden=True,
        ),
    ] = 0.0,
    table: DataOptions,
    constrain: ConstraintOptions,
    spend: LimitOptions,
    executor: Executor = EXECUTOR.default,
    keep: Keep = None,
    also: Annotated[
        str | None,
        typer.Option(
            metavar="F,F,…",
            help="Write other formats beside it: junctor (.score), jkl (GOBNILP), pss (urlearning).",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Score all small sets of the columns of a data file.

    Reads CSV, TSV, blank-separated text, Parquet, Arrow, Weka's ARFF, GOBNILP's and blip's .dat; compressed
    ones too; a folder or a pattern of Parquet files as one table. Predicts time and size first, and refuses
    what exceeds the limits. Ctrl-C leaves no file.
    """
    outputs = _outputs(output, also)
    claim_outputs(*outputs)

    from jtsolve.io.instance import write_problem
    from jtsolve.scoring.prior import StructurePrior
    from jtsolve.study.arguments import held_cluster
    from jtsolve.study.data import Data as StudyData
    from jtsolve.study.study import Study

    run = spend.run(context.obj, quiet=quiet)
    restrictions = constrain.restrictions()
    with held_cluster(executor, spend.threads) as cluster:
        study = Study(
            StudyData(data, table.reading(), cluster, keep),
            chosen_score(score, MIXED_SCORE),
            max_size=max_size,
            prior=StructurePrior(edge_penalty, parameter_penalty),
        )
        kinds = tuple(path.suffix.removeprefix(".") for path in outputs[1:])
        problem = score_all(study, run, also=kinds, check=restrictions.of)
    constrained = restrictions.on(problem)
    for path in outputs:
        write_problem(constrained if path is output else problem, path)
        run.say(f"{path}: {bytes_in_words(path.stat().st_size)} written")


def score_all(
    study: "Study",
    run: "Run",
    *,
    also: tuple[str, ...] = (),
    check: Callable[[Sequence[str]], object] = len,
) -> "Problem":
    """Returns the problem of a study with a table of all scores; announces the predicted cost first.

    Args:
        study: without restrictions.
        run: limits, progress and messages.
        also: suffixes of further files that will be written.
        check: is given the columns' names before they are scored, and may raise an error.

    Raises:
        LimitError: the table, or a file of it, exceeds the limits; names the largest size that does not.
    """
    from jtsolve.scoring.problem import WHOLE
    from jtsolve.study.study import forecast

    table = study.read(run)
    study = study.settled(table)
    check(table.names)
    plan = study.plan(table, run, WHOLE)
    cost = plan.cost
    run.say(
        f"{forecast(plan)}, {bytes_in_words(cost.file_bytes)} as .json or "
        f"{bytes_in_words(cost.packed_bytes)} as .json.gz{_forecast_also(plan, also)}"
    )
    obstacle = _obstacle(plan.scorer, plan.max_size, cost, plan.run.limits, also)
    if obstacle is not None:
        raise _no_room(plan, obstacle, also)
    return study.scored(plan, run)


def _outputs(output: Path, also: str | None) -> list[Path]:
    """Returns the files to write, the instance first; refuses names without a format."""
    SCORED.format_to_write(output)
    formats = dict.fromkeys(names_in(also)) if also is not None else {}
    for name in formats:
        if name not in ALSO:
            raise ChoiceError(f"scores are also written for {', '.join(ALSO)}, not for '{name}'")
    stem = output.name.removesuffix(".gz").removesuffix(".json")
    return [output, *(output.with_name(f"{stem}.{ALSO[name]}") for name in formats)]


def _forecast_also(plan: "ScoringPlan", also: tuple[str, ...]) -> str:
    """Returns the predicted size of each further file."""
    from jtsolve.io.bn_scores import FAMILY_FORMATS, family_bytes, require_words

    names = plan.scorer.table.names
    if not set(FAMILY_FORMATS).isdisjoint(also):
        require_words(names, "--also")
    family = family_bytes(names, plan.max_size)
    sizes = {kind: family if kind in FAMILY_FORMATS else plan.cost.file_bytes for kind in also}
    return "".join(f", {bytes_in_words(size)} as .{kind}" for kind, size in sizes.items())


def bytes_in_words(count: int) -> str:
    """Returns a number of bytes in words.

    >>> bytes_in_words(1500), bytes_in_words(25_000_000)
    ('1.5 kB', '25 MB')
    """
    unit, name = (1e3, "kB") if count < 1e6 else (1e6, "MB") if count < 1e9 else (1e9, "GB")  # noqa: PLR2004
    return f"{count / unit:.3g} {name}"


def _obstacle(
    scorer: "Scorer", max_size: int, cost: "TableEstimate", limits: "Limits", also: tuple[str, ...]
) -> str | None:
    """Returns by how much a table, or the largest file of it, exceeds the limits, or None."""
    from jtsolve.core.files import LARGEST
    from jtsolve.io.bn_scores import FAMILY_FORMATS, family_bytes
    from jtsolve.scoring.problem import WHOLE

    families = not set(FAMILY_FORMATS).isdisjoint(also)
    file = max(cost.file_bytes, family_bytes(scorer.table.names, max_size) if families else 0)
    larger = replace(cost, memory=cost.memory + 2 * (file - cost.file_bytes))
    obstacle = WHOLE.obstacle(larger, limits)
    if obstacle is None and file > LARGEST:
        obstacle = f"a file of {file / 1e9:.3g} GB, but at most {LARGEST / 1e9:.3g} GB are read"
    return obstacle


def _no_room(plan: "ScoringPlan", obstacle: str, also: tuple[str, ...]) -> LimitError:
    """Returns the refusal of a table that exceeds the limits, with the largest size that does not."""
    from jtsolve.scoring.tabulate import estimate

    scorer, limits = plan.scorer, plan.run.limits

    def fits(size: int) -> bool:
        return _obstacle(scorer, size, estimate(scorer, size, limits.workers), limits, also) is None

    fitting = next(filter(fits, range(plan.max_size - 1, 0, -1)), None)
    way = f"--max-size {fitting}, " if fitting else ""
    return LimitError(
        f"the scores of all sets of at most {plan.max_size} of {scorer.table.n} variables need {obstacle}. "
        f"Ways out: {way}fewer columns (--columns), or a larger limit"
    )
