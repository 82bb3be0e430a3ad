"""The problem of a command: that of an instance file, or of a data file that is scored."""

from pathlib import Path
from typing import TYPE_CHECKING

from jtsolve.cli.options import ConstraintOptions, MatrixOptions, flags_given
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


def read_or_score(
    path: Path,
    run: "Run",
    *,
    score: str | None,
    default: str,
    options: MatrixOptions,
    constrain: ConstraintOptions,
    treewidth: int | None,
    max_size: int | None = None,
    backend: "Backend | None" = None,
    executor: str = EXECUTOR.default,
    threads: int | None = None,
    rule: "Callable[[int, int], Tabulation] | None" = None,
) -> "tuple[Problem, Study | None, AnyTable | None]":
    """Returns the problem in an instance file, or that of a data file with its study and its table.

    Args:
        path: of the file.
        run: limits, progress and messages.
        score: names the score, and marks any file as data; None for the default.
        default: the score where none is named.
        options: how to read data.
        constrain: further constraints.
        treewidth: a bound; None for none.
        max_size: of the scored sets; None for that of the treewidth.
        backend: decides which sets are scored, and when; None for auto.
        executor: "local", "dask" or "dask=ADDRESS", to count Parquet files by partitions.
        threads: workers of a cluster on this machine.
        rule: when to tabulate the scores, by the number of columns and the largest size; None for the rule of
            the backend.

    Raises:
        ChoiceError: options for data are given for an instance.
    """
    restrictions = constrain.restrictions()
    if not is_data(path, score):
        from jtsolve.io.instance import read_problem

        given = [] if max_size is None else [MAX_SIZE.flag]
        if given := [*given, *flags_given(options)]:
            raise ChoiceError(
                f"{', '.join(given)}: for data files only; add {SCORE(default)} to read {path.name} as data"
            )
        return restrictions.on(read_problem(path, run)).with_treewidth(treewidth), None, None
    from jtsolve.study.arguments import data_score, held_cluster
    from jtsolve.study.data import Data
    from jtsolve.study.study import Study

    with held_cluster(executor, threads) as cluster:
        data = Data(path, options.reading(), cluster)
        named = data_score(score, data, default)
        return Study(data, named, treewidth, restrictions, backend, max_size).prepared(run, rule)
