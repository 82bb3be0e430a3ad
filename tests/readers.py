"""Tables of data for tests: read without the data check, and scored as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state_rows import PLAIN, read_states

from jtsolve.core.run import Run
from jtsolve.scoring.scorers import make_scorer
from jtsolve.scoring.tabulate import proceed_in, tabulate_with
from jtsolve.tables.options import Coding, Dialect
from jtsolve.tables.reading import read_checked
from jtsolve.tables.source import BLOCKS, Blocks
from jtsolve.tables.table import ContinuousTable

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.core.scores import DenseScores
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.table import Table

__all__ = ["read_numbers", "read_states", "tabulate"]


def read_numbers(
    data: str | Path | Frame, coding: Coding = PLAIN, blocks: Blocks = BLOCKS
) -> ContinuousTable:
    """Returns the table of real numbers in a file or frame."""
    table = read_checked(data, coding, Dialect(), cells="numbers", kinds=(), blocks=blocks)
    assert isinstance(table, ContinuousTable)
    return table


def tabulate(table: Table, score: ScoreFunction, max_size: int, *, run: Run | None = None) -> DenseScores:
    """Returns the scores of all sets of at most `max_size` columns."""
    run = run or Run()
    scorer = make_scorer(table, score, max_size)
    return tabulate_with(scorer, max_size, workers=run.threads, proceed=lambda done: proceed_in(run, done))
