"""The size of a population from a table of lists."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.averaging.population import PopulationPosterior, population_posterior, require_room
from jtsolve.errors import ChoiceError, InputError
from jtsolve.options import DELTA, MOST
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.tables.options import COLUMNS, WEIGHTS
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from jtsolve.core.run import Run
    from jtsolve.study.data import Data

_ON, _OFF = ("1", "1.0", "True", "true"), ("0", "0.0", "False", "false")
_LEAST_CANDIDATES = 300


def population_of(
    data: Data, run: Run, most: int | None = None, delta: float | None = None
) -> PopulationPosterior:
    """Returns the posterior of the size of a population.

    Args:
        data: a row for each case, or for each set of lists with its count; a column of 0 and 1 for each list.
        run: limits and progress.
        most: the largest number of unobserved cases; None for that of the observed, or 300.
        delta: the prior cases of a cell; None for 2^−lists, one case in all.

    Raises:
        InputError: the table cannot be read, or its columns are not lists.
        ChoiceError: the numbers make no sense, or there is one list.
        LimitError: the limits are too small.
    """
    if most is not None and (isinstance(most, bool) or not isinstance(most, Integral) or most < 1):
        raise ChoiceError(f"{MOST(most)} leaves no candidate; give a whole number of 1 or more")
    if delta is not None and not (isinstance(delta, Real) and 0 < delta < np.inf):
        raise ChoiceError(f"{DELTA(delta)}: give a finite number above 0")
    table = data.read(Bdeu(), run, kinds=())
    assert isinstance(table, DataTable), "no cluster reads it, and the score is of states"
    table.require_whole_weights("a population counts cases", f"give whole numbers as {WEIGHTS}")
    if table.n < 2:  # noqa: PLR2004 - overlaps
        raise ChoiceError(f"{data.place}: one list overlaps with none; give two or more as {COLUMNS}")
    most = max(_LEAST_CANDIDATES, int(table.total)) if most is None else int(most)
    require_room(table.n, most, run)
    caught = np.zeros(table.rows, np.int64)
    for v, (name, states) in enumerate(zip(table.names, table.states, strict=True)):
        for code, state in enumerate(states):
            if state in _ON:
                caught |= (table.codes[v] == code).astype(np.int64) << v
            elif state not in _OFF:
                raise InputError(
                    data.place,
                    f"column '{name}'",
                    f"'{state}' is neither 0 nor 1",
                    f"write 1 where the list has the case, else 0; or choose the lists as {COLUMNS}, and a "
                    f"column of counts as {WEIGHTS}",
                )
        if not (caught >> v & 1).any():
            raise InputError(data.place, f"column '{name}'", "the list has no case", "leave it out")
    if not caught.all():
        raise InputError(
            data.place,
            "",
            f"{np.count_nonzero(caught == 0)} rows are on no list: such cases are unobserved, their number "
            "is estimated",
            "leave these rows out",
        )
    counts = np.zeros(1 << table.n, np.int64)
    np.add.at(counts, caught, 1 if table.weights is None else table.weights)
    found = population_posterior(table.names, counts, most, delta or 2.0**-table.n, run)
    if found.interval()[1] == found.sizes[-1]:
        run.say(f"the interval ends at the largest candidate; give {MOST} with more than {most}")
    return found
