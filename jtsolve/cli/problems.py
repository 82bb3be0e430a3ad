"""The problem of a command: that of an instance file, or of a data file that is scored."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtsolve.cli.options import (
    ConstraintOptions,
    Executor,
    Instance,
    LimitOptions,
    MatrixOptions,
    MaxSize,
    ScoreName,
    Seed,
    Treewidth,
    flags_given,
)
from jtsolve.errors import ChoiceError
from jtsolve.options import EXECUTOR, MAX_SIZE, SCORE
from jtsolve.tables.options import is_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Run
    from jtsolve.scoring.problem import Tabulation
    from jtsolve.study.study import Study
    from jtsolve.tables.partitions import AnyTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemOptions:
    """A problem in an instance file, or that of a data file; and the limits of its solution."""

    instance: Instance
    treewidth: Treewidth = None
    constrain: ConstraintOptions
    score: ScoreName = None
    max_size: MaxSize = None
    table: MatrixOptions
    spend: LimitOptions
    seed: Seed = 0
    executor: Executor = EXECUTOR.default

    def read(
        self,
        run: "Run",
        default: str,
        *,
        backend: "Backend | None" = None,
        executor: str = EXECUTOR.default,
        rule: "Callable[[int, int], Tabulation] | None" = None,
    ) -> "tuple[Problem, Study | None, AnyTable | None]":
        """Returns the problem in an instance file, or that of a data file with its study and its table.

        Args:
            run: limits, progress and messages.
            default: the score of data where none is named; a named one marks any file as data.
            backend: decides which sets are scored, and when; None for auto.
            executor: counts Parquet files by partitions.
            rule: when to tabulate the scores, by the number of columns and the largest size; None for the
                rule of the backend.

        Raises:
            ChoiceError: options for data are given for an instance.
        """
        restrictions = self.constrain.restrictions()
        if not is_data(self.instance, self.score):
            from jtsolve.io.instance import read_problem

            given = [*[MAX_SIZE.flag] * (self.max_size is not None), *flags_given(self.table)]
            given += [EXECUTOR.flag] * (executor != EXECUTOR.default)
            if given:
                raise ChoiceError(
                    f"{', '.join(given)}: for data files only; add {SCORE(default)} to read "
                    f"{self.instance.name} as data"
                )
            problem = restrictions.on(read_problem(self.instance, run))
            return problem.with_treewidth(self.treewidth), None, None
        from jtsolve.study.arguments import data_score, held_cluster
        from jtsolve.study.data import Data
        from jtsolve.study.study import Study

        with held_cluster(executor, self.spend.threads) as cluster:
            data = Data(self.instance, self.table.reading(), cluster)
            score = data_score(self.score, data, default)
            study = Study(data, score, self.treewidth, restrictions, backend, self.max_size)
            return study.prepared(run, rule)
