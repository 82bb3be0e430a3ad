"""Data files on the command line: read and scored, with forecasts, progress and refusals."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from jtsolve.errors import ChoiceError, LimitError
from jtsolve.tables.suffixes import title_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.cli.options import DataOptions
    from jtsolve.cluster import Cluster
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits, Run
    from jtsolve.scoring.prior import StructurePrior
    from jtsolve.scoring.problem import ScoringPlan, Tabulation
    from jtsolve.scoring.score import LocalScore
    from jtsolve.scoring.scorer import Scorer
    from jtsolve.scoring.tabulate import TableEstimate
    from jtsolve.tables.dialect import Dialect
    from jtsolve.tables.options import Coding
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import Table


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file, how to read it, and the score of its columns."""

    path: Path
    score: "LocalScore"
    coding: "Coding"
    dialect: "Dialect"
    strict: bool = False
    cluster: "Cluster | None" = None
    folder: Path | None = None

    @classmethod
    def of(cls, path: Path, score: "LocalScore", options: "DataOptions") -> "DataFile":
        """Returns a data file to be read as the options say; raises what they raise."""
        return cls(path, score, options.coding(), options.dialect(), options.strict)

    def on(self, cluster: "Cluster | None", folder: Path | None = None) -> "DataFile":
        """Returns the file to be read by partitions on a cluster; by this process if that is None.

        Raises:
            ChoiceError: a folder is to keep the counts, but there is no cluster; or the score is Gaussian.
        """
        from jtsolve.scoring.score import require_counts

        if folder is not None and cluster is None:
            raise ChoiceError("--keep is for counts by partitions; give --executor dask, or leave it out")
        if cluster is not None:
            require_counts(self.score)
        return replace(self, cluster=cluster, folder=folder)

    @property
    def name(self) -> str:
        """The name of a problem made of it."""
        return title_of(self.path)

    def read(self, run: "Run", size: int | None = None) -> "Table":
        """Returns its table, of states or numbers as the score needs; stops at the limits.

        The run shows the findings of the data check; with `strict`, they are an error.

        Args:
            run: time, memory and progress.
            size: the largest wanted clique; None if unknown.
        """
        from jtsolve.scoring.score import is_discrete
        from jtsolve.tables.reading import read_checked

        with run.phase(f"reading {self.path.name}"):
            return read_checked(
                self.path,
                self.coding,
                self.dialect,
                discrete=is_discrete(self.score),
                size=size,
                strict=self.strict,
                run=run,
            )

    def surveyed(self, run: "Run", size: int | None = None) -> "AnyTable":
        """Returns its table as `read` does, or in partitions if it is on a cluster."""
        if self.cluster is None:
            return self.read(run, size)
        from jtsolve.tables.partitions import IN_PARTITIONS, read_partitioned

        self.dialect.refuse(str(self.path), IN_PARTITIONS)
        with run.phase(f"reading {self.path.name}"):
            return read_partitioned(
                self.path,
                self.coding,
                self.cluster,
                size=size,
                folder=self.folder,
                strict=self.strict,
                run=run,
            )


def plan_file(
    data: DataFile,
    max_size: int | None,
    run: "Run",
    tabulation: "Tabulation",
    *,
    prior: "StructurePrior | None" = None,
) -> "ScoringPlan":
    """Reads a file and plans its scoring."""
    table = data.surveyed(run, max_size)
    return plan_table(table, data.score, max_size, run, tabulation, prior=prior)


def plan_table(
    table: "AnyTable",
    score: "LocalScore",
    max_size: int | None,
    run: "Run",
    tabulation: "Tabulation",
    *,
    prior: "StructurePrior | None" = None,
) -> "ScoringPlan":
    """Plans the scoring of a table."""
    from jtsolve.scoring.problem import plan_scores

    with run.phase("planning the scores"):
        return plan_scores(table, score, max_size, run, tabulation=tabulation, prior=prior)


def score_plan(plan: "ScoringPlan", name: str) -> "Problem":
    """Returns the problem of a plan; a tabulation shows progress."""
    from jtsolve.scoring.lazy import DataScores

    if plan.obstacle is not None:
        return plan.problem(name=name)
    with plan.run.phase(f"{plan.cost.sets} sets by {plan.scorer.score.name}"):
        began = time.perf_counter()
        problem = plan.problem(name=name)
    seconds = time.perf_counter() - began
    if isinstance(problem.scores, DataScores):
        plan.run.say(f"the time limit ended the scoring after {seconds:.2f} s; scores are computed on demand")
    else:
        plan.run.say(f"scored in {seconds:.2f} s")
    return problem


def score_file(
    data: DataFile,
    max_size: int,
    run: "Run",
    *,
    prior: "StructurePrior | None" = None,
    also: tuple[str, ...] = (),
    named: "Callable[[Sequence[str]], object]" = lambda _names: None,
    rule: "Callable[[int, int], Tabulation] | None" = None,
) -> "Problem":
    """Returns the problem of a data file with a table of all scores; says the predicted cost first.

    `named` is given the columns' names before they are scored, and may raise an error. `rule` tells, of so
    many variables and sets of at most so many, whether scores on demand do.

    Raises:
        LimitError: the table, or a file of it with a suffix in `also`, exceeds the limits; names the largest
            size that does not.
    """
    from jtsolve.scoring.problem import WHOLE

    plan = plan_file(data, max_size, run, WHOLE, prior=prior)
    named(plan.scorer.table.names)
    if rule is not None:
        plan = plan.under(rule(plan.scorer.table.n, plan.max_size))
    if not plan.required:
        run.say(forecast(plan))
        return score_plan(plan, data.name)
    cost = plan.cost
    run.say(
        f"{forecast(plan)}, {bytes_in_words(cost.file_bytes)} as .json or "
        f"{bytes_in_words(cost.packed_bytes)} as .json.gz{_forecast_also(plan, also)}"
    )
    obstacle = _obstacle(plan.scorer, plan.max_size, cost, run.limits, also)
    if obstacle is not None:
        raise _no_room(plan, obstacle, also)
    return score_plan(plan, data.name)


def forecast(plan: "ScoringPlan") -> str:
    """Returns the size of the data, and how long a table takes or why there is none."""
    table = plan.scorer.table
    size = f"{table.total} rows of {table.n} variables"
    if plan.obstacle is not None:
        return f"{size}; scores are computed on demand: a table would need {plan.obstacle}"
    seconds = plan.cost.seconds
    duration = "less than a second" if seconds < 1 else f"about {seconds:.2g} s"
    return f"{size}; {plan.cost.sets} sets{_passes(plan)}, {duration}"


def _passes(plan: "ScoringPlan") -> str:
    """Returns how sets and partitions are divided into tasks; nothing for a table on one machine."""
    from jtsolve.scoring.tabulate import passes
    from jtsolve.tables.partitions import PartitionedTable

    table = plan.scorer.table
    if not isinstance(table, PartitionedTable):
        return ""
    with table.cluster.connected() as workers:
        blocks, threads = passes(table, plan.max_size, workers), workers.threads
    parts = len(table.parts)
    return (
        f" in {blocks} block{'s' * (blocks > 1)} × {parts} partition{'s' * (parts > 1)} on {threads} "
        f"worker{'s' * (threads > 1)}"
    )


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
