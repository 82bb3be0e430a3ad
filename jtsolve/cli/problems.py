"""The problem of a command: that of an instance file, or of a data file that is scored."""

from typing import TYPE_CHECKING

from jtsolve.cli.options import LIMITS, OF_TREE
from jtsolve.errors import ChoiceError
from jtsolve.options import EXECUTOR, MAX_SIZE, SCORE, SEED, TREEWIDTH
from jtsolve.tables.options import DATA, is_data

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jtsolve.cli.options import Options
    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Run
    from jtsolve.scoring.problem import Tabulation
    from jtsolve.study.study import Study
    from jtsolve.tables.partitions import AnyTable

PROBLEM = (TREEWIDTH, *OF_TREE, SCORE, MAX_SIZE, *DATA, *LIMITS, SEED, EXECUTOR)
"""Rows of a problem in an instance file, or that of a data file, and the limits of its solution."""


def read_task(
    options: "Options",
    instance: "Path",
    run: "Run",
    default: str,
    *,
    backend: "Backend | None" = None,
    rule: "Callable[[int, int], Tabulation] | None" = None,
) -> "tuple[Problem, Study | None, AnyTable | None]":
    """Returns the problem in an instance file, or that of a data file with its study and its table.

    Args:
        options: the rows of `PROBLEM`; without a rule, the executor counts Parquet files by partitions.
        instance: the file.
        run: limits, progress and messages.
        default: the score of data where none is named; a named one marks any file as data.
        backend: decides which sets are scored, and when; None for auto.
        rule: when to tabulate the scores, by the number of columns and the largest size; None for the rule of
            the backend.

    Raises:
        ChoiceError: options for data are given for an instance.
    """
    restrictions = options.restrictions()
    executor = options.executor if rule is None else EXECUTOR.default
    if not is_data(instance, options.score):
        from jtsolve.io.instance import read_problem

        given = [*options.flags((MAX_SIZE, *DATA)), *[EXECUTOR.flag] * (executor != EXECUTOR.default)]
        if given:
            raise ChoiceError(
                f"{', '.join(given)}: for data files only; add {SCORE(default)} to read "
                f"{instance.name} as data"
            )
        problem = restrictions.on(read_problem(instance, run))
        return problem.with_treewidth(options.treewidth), None, None
    from jtsolve.study.arguments import data_of, data_score, held_cluster
    from jtsolve.study.study import Study

    with held_cluster(executor, options.threads) as cluster:
        data = data_of(instance, options.reading, cluster)
        score = data_score(options.score, data, default)
        study = Study(data, score, options.treewidth, restrictions, backend, options.max_size)
        return study.prepared(run, rule)
