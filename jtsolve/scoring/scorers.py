"""The scorer of a table with any kind of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.errors import ChoiceError
from jtsolve.options import MAX_SIZE
from jtsolve.scoring.mixed import MixedScorer, scored_columns
from jtsolve.scoring.score import is_discrete, is_gaussian, is_mixed, score_for
from jtsolve.scoring.scorer import counting_scorer, gaussian_scorer
from jtsolve.tables.partitions import PartitionedTable
from jtsolve.tables.table import ContinuousTable, DataTable, MixedTable

if TYPE_CHECKING:
    from jtsolve.scoring.score import MixedScore, ScoreFunction
    from jtsolve.scoring.scorer import Scorer
    from jtsolve.tables.partitions import AnyTable


def make_scorer(table: AnyTable, score: ScoreFunction, max_size: int) -> Scorer:
    """Returns the scorer of sets of at most `max_size` columns.

    Args:
        table: the data.
        score: to compute.
        max_size: size of the largest sets.

    Raises:
        ChoiceError: the score does not fit the kind of table, or `max_size` is not from 1 to n.
        InputError: the table has too few rows, or the sets too many cells.
    """
    if not 1 <= max_size <= table.n:
        raise ChoiceError(
            f"sets of {max_size} variables are requested, but there are {table.n}; give {MAX_SIZE}, "
            f"from 1 to {table.n}"
        )
    if is_mixed(score) and isinstance(table, ContinuousTable):
        table = MixedTable(table.names, None, table, table.provenance)
    if is_mixed(score) and isinstance(table, MixedTable):
        return _mixed(table, score, max_size)
    score = score_for(score, table)
    if isinstance(table, DataTable | PartitionedTable) and is_discrete(score):
        return counting_scorer(table, score, max_size)
    if isinstance(table, ContinuousTable) and is_gaussian(score):
        return gaussian_scorer(table, score, max_size)
    needed = "states" if is_discrete(score) else "real numbers"
    given = (
        "both" if isinstance(table, MixedTable) else "states" if needed == "real numbers" else "real numbers"
    )
    raise ChoiceError(f"the score '{score.name}' is for columns of {needed}, but these hold {given}")


def _mixed(table: MixedTable, score: MixedScore, max_size: int) -> MixedScorer:
    states = table.discrete
    size = 0 if states is None else min(max_size, states.n)
    discrete = None if states is None else counting_scorer(states, score.discrete, size)
    columns = scored_columns(table, score)
    gaussian = gaussian_scorer(columns, score.gaussian, min(max_size, columns.n))
    return MixedScorer.of(table, score, discrete, gaussian, max_size)
