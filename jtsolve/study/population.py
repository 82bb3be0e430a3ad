"""The size of a population from a table of lists."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.averaging.population import PopulationPosterior, population_posterior, require_room
from jtsolve.errors import ChoiceError, InputError, name_list, use_one_of
from jtsolve.options import DELTA, MOST, STRATA
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.tables.options import COLUMNS, WEIGHTS
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.study.data import Data

_ON, _OFF = ("1", "1.0", "True", "true"), ("0", "0.0", "False", "false")
_LEAST_CANDIDATES = 300


def population_of(
    data: Data, run: Run, most: int | None = None, delta: float | None = None, strata: str | None = None
) -> PopulationPosterior:
    """Returns the posterior of the size of a population.

    Args:
        data: a row for each case, or for each set of lists with its count; a column of 0 and 1 for each list.
        run: limits and progress.
        most: the largest number of unobserved cases; None for the number of observed ones, at least 300.
        delta: the prior cases of a cell; None for 2^−lists, one case in all.
        strata: the column that divides the cases into populations; None for one. In each, lists without a
            case are left out.

    Raises:
        InputError: the table cannot be read, or its columns are not lists.
        ChoiceError: a number is out of range, or there is only one list.
        LimitError: the limits are too small.
    """
    if most is not None and (isinstance(most, bool) or not isinstance(most, Integral) or most < 1):
        raise ChoiceError(f"{MOST(most)} leaves no candidate; give a whole number of 1 or more")
    if delta is not None and not (isinstance(delta, Real) and 0 < delta < np.inf):
        raise ChoiceError(f"{DELTA(delta)}: give a finite number above 0")
    columns = data.reading.coding.columns
    if strata is not None and columns:
        data = data.columns([*(name for name in columns if name != strata), strata])
    table = data.read(Bdeu(), run, kinds=())
    assert isinstance(table, DataTable), "no cluster reads it, and the score is of states"
    table.require_whole_weights("a population counts cases", f"give whole numbers as {WEIGHTS}")
    if strata is not None and strata not in table.names:
        reason = f"there is none called {name_list([strata])}"
        raise InputError(data.place, "columns", reason, use_one_of(strata, table.names))
    lists = [v for v, name in enumerate(table.names) if name != strata]
    if len(lists) < 2:  # noqa: PLR2004 - overlaps
        raise ChoiceError(f"{data.place}: one list overlaps with none; give two or more as {COLUMNS}")
    require_room(len(lists), most or max(_LEAST_CANDIDATES, int(table.total)), run)
    on = np.array([_on_list(table, v, data.place) for v in lists])
    if nowhere := np.count_nonzero(~on.any(axis=0)):
        reason = f"{nowhere} rows are on no list: such cases are unobserved, their number is estimated"
        raise InputError(data.place, "", reason, "leave these rows out")
    names = [table.names[v] for v in lists]
    times = np.ones(table.rows, np.int64) if table.weights is None else table.weights
    if strata is None:
        found = _posterior(names, on, times, most, delta, run)
    else:
        column, parts = table.names.index(strata), {}
        for code, name in enumerate(table.states[column]):
            if not (rows := table.codes[column] == code).any():
                continue
            some = np.flatnonzero(on[:, rows].any(axis=1))
            if some.size < 2:  # noqa: PLR2004 - overlaps
                reason = "only one list has cases: it overlaps with none"
                remedy = "leave the stratum out, or join it with another"
                raise InputError(data.place, f"stratum '{name}'", reason, remedy)
            chosen = [names[i] for i in some]
            parts[name] = _posterior(chosen, on[np.ix_(some, rows)], times[rows], most, delta, run)
        found = PopulationPosterior.of_strata(parts)
    for name, one in (found.strata or {"": found}).items():
        if one.interval()[1] == one.sizes[-1]:
            where = f"stratum '{name}': " if name else ""
            most = one.probabilities.size
            run.say(f"{where}the interval ends at the largest candidate; give {MOST} with more than {most}")
    return found


def _on_list(table: DataTable, v: int, place: str) -> NDArray[np.bool_]:
    """Returns which rows are on a list.

    Raises:
        InputError: the column has other values than 0 and 1, or no 1.
    """
    on = np.zeros(table.rows, np.bool_)
    for code, state in enumerate(table.states[v]):
        if state in _ON:
            on |= table.codes[v] == code
        elif state not in _OFF:
            remedy = (
                f"write 1 where the list has the case, else 0; or choose the lists as {COLUMNS}, and a "
                f"column of counts as {WEIGHTS}, of strata as {STRATA}"
            )
            reason = f"'{state}' is neither 0 nor 1"
            raise InputError(place, f"column '{table.names[v]}'", reason, remedy)
    if not on.any():
        raise InputError(place, f"column '{table.names[v]}'", "the list has no case", "leave it out")
    return on


def _posterior(  # noqa: PLR0917 - one for each argument of `population_of`
    names: list[str],
    on: NDArray[np.bool_],
    times: NDArray[np.int64],
    most: int | None,
    delta: float | None,
    run: Run,
) -> PopulationPosterior:
    """Returns the posterior of one population from the rows of each list, shape (lists, rows)."""
    most = max(_LEAST_CANDIDATES, int(times.sum())) if most is None else int(most)
    counts = np.zeros(1 << len(names), np.int64)
    np.add.at(counts, (1 << np.arange(len(names))) @ on, times)
    return population_posterior(names, counts, most, delta or 2.0 ** -len(names), run)
