"""`jtsolve score`: an instance from data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jtsolve.cli.options import (
    OF_DATA,
    ConstraintOptions,
    Data,
    Executor,
    LimitOptions,
    MatrixOptions,
    Quiet,
    ScoreName,
    expand_option_groups,
    file_option,
)
from jtsolve.core.formats import SCORED
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import LimitError
from jtsolve.options import EXECUTOR
from jtsolve.scoring.score import MIXED_SCORE

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits, Run
    from jtsolve.scoring.problem import ScoringPlan
    from jtsolve.scoring.tabulate import TableEstimate
    from jtsolve.study.study import Study


@expand_option_groups
def score(
    context: typer.Context,
    *,
    data: Data,
    output: Annotated[Path, file_option("Write it here (.json, .json.gz).", metavar="INSTANCE")],
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
    table: MatrixOptions,
    constrain: ConstraintOptions,
    spend: LimitOptions,
    executor: Executor = EXECUTOR.default,
    quiet: Quiet = False,
) -> None:
    """Score all small sets of the columns of a data file.

    Reads CSV, TSV, blank-separated text, Parquet, Arrow, Weka's ARFF, GOBNILP's and blip's .dat; compressed
    ones too; a folder or a pattern of Parquet files as one table. Predicts time and size first, and refuses
    scoring that exceeds the limits. Ctrl-C leaves no file.
    """
    claim_outputs(output, kind=SCORED)

    from jtsolve.io.instance import write_problem
    from jtsolve.study.arguments import data_score, held_cluster
    from jtsolve.study.data import Data as StudyData
    from jtsolve.study.study import Study

    run, restrictions = spend.run(context.obj, quiet=quiet), constrain.restrictions()
    with held_cluster(executor, spend.threads) as cluster:
        source = StudyData(data, table.reading(), cluster)
        named = data_score(score, source, MIXED_SCORE)
        problem = _scored(Study(source, named, restrictions=restrictions, max_size=max_size), run)
    write_problem(problem, output)
    run.say(f"{output}: {bytes_in_words(output.stat().st_size)} written")


def _scored(study: "Study", run: "Run") -> "Problem":
    """Returns the problem of a study with a table of all scores; announces the predicted cost first.

    Raises:
        LimitError: the table, or its file, exceeds the limits; names the largest size that does not.
    """
    from jtsolve.scoring.problem import WHOLE
    from jtsolve.study.study import forecast

    table = study.read(run)
    study = study.settled(table)
    plan = study.plan(table, run, WHOLE)
    cost = plan.cost
    run.say(
        f"{forecast(plan)}, {bytes_in_words(cost.file_bytes)} as .json or "
        f"{bytes_in_words(cost.packed_bytes)} as .json.gz"
    )
    obstacle = _obstacle(cost, plan.run.limits)
    if obstacle is not None:
        raise _no_room(plan, obstacle)
    return study.scored(plan, run)


def bytes_in_words(count: int) -> str:
    """Returns a number of bytes in words.

    >>> bytes_in_words(1500), bytes_in_words(25_000_000)
    ('1.5 kB', '25 MB')
    """
    unit, name = (1e3, "kB") if count < 1e6 else (1e6, "MB") if count < 1e9 else (1e9, "GB")  # noqa: PLR2004
    return f"{count / unit:.3g} {name}"


def _obstacle(cost: "TableEstimate", limits: "Limits") -> str | None:
    """Returns by how much a table, or its file, exceeds the limits, or None."""
    from jtsolve.core.files import LARGEST
    from jtsolve.scoring.problem import WHOLE

    obstacle = WHOLE.obstacle(cost, limits)
    if obstacle is None and cost.file_bytes > LARGEST:
        obstacle = f"a file of {cost.file_bytes / 1e9:.3g} GB, but at most {LARGEST / 1e9:.3g} GB are read"
    return obstacle


def _no_room(plan: "ScoringPlan", obstacle: str) -> LimitError:
    """Returns the refusal of a table that exceeds the limits, with the largest size that does not."""
    from jtsolve.scoring.tabulate import estimate

    scorer, limits = plan.scorer, plan.run.limits

    def fits(size: int) -> bool:
        return _obstacle(estimate(scorer, size, limits.workers), limits) is None

    fitting = next(filter(fits, range(plan.max_size - 1, 0, -1)), None)
    way = f"--max-size {fitting}, " if fitting else ""
    return LimitError(
        f"the scores of all sets of at most {plan.max_size} of {scorer.table.n} variables need {obstacle}. "
        f"Ways out: {way}fewer columns (--columns), or a larger limit"
    )
