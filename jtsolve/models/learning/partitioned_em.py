"""EM of a mixture whose rows lie in partitions: the E-step is computed where they lie.

The trees come from one partition, by the structural EM of `mixture_em`, and stay. Tables and weights are
fitted to all rows: a task computes the responsibilities of its rows, and the expected counts of every
component's cells under them; their sums over the partitions are all that the M-step needs. The figures are
those of one process up to rounding.

Time: an iteration reads all partitions, and takes rows × Σ |C| for each component. Reference: A. P. Dempster,
N. M. Laird and D. B. Rubin, Journal of the Royal Statistical Society B 39, 1977.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.result import Stop
from jtsolve.errors import InputError
from jtsolve.models.learning.fit import Counts, count
from jtsolve.models.learning.mixture_em import fit_mixture
from jtsolve.models.mixture import Mixture, log_joint, log_sum

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from jtsolve.cluster import Workers
    from jtsolve.models.learning.mixture_em import EmOptions
    from jtsolve.tables.partitions import PartitionedTable
    from jtsolve.tables.table import DataTable


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """What the E-step finds in some rows.

    Args:
        cells: for each component, the expected counts of its tree's cells.
        shares: for each component, the expected number of rows.
        logs: the log-likelihood of the rows, in nats.
    """

    cells: tuple[NDArray[np.float64], ...]
    shares: NDArray[np.float64]
    logs: float


def fit_mixture_by_partitions(
    table: PartitionedTable,
    components: int,
    how: EmOptions,
    progress: Callable[[str], None],
    *,
    deadline: float | None = None,
) -> Mixture:
    """Returns a mixture with the trees of the first partition that has rows, fitted to all partitions.

    Args:
        table: the partitions.
        components: see `fit_mixture`.
        how: see there; its iterations and tolerance hold for all partitions too.
        progress: called with messages.
        deadline: of `time.monotonic()`, at which to return the mixture of the last M-step.

    Raises:
        InputError: a partition cannot be read.
        ChoiceError, LimitError: as `fit_mixture`, of one partition.
    """
    with table.cluster.connected() as workers:
        mixture = fit_mixture(_first(workers, table), components, how, progress, deadline=deadline)
        return refitted(mixture, table, how, progress, workers, deadline=deadline)


def refitted(
    mixture: Mixture,
    table: PartitionedTable,
    how: EmOptions,
    progress: Callable[[str], None],
    workers: Workers,
    *,
    deadline: float | None = None,
) -> Mixture:
    """Returns the mixture after EM over all partitions; its trees stay."""
    columns = mixture.columns
    before = -inf
    stop = Stop.FINISHED
    for step in range(how.iterations):
        shared = workers.share(mixture)
        found: Expected = workers.result(workers.total(table.each(workers, expected, shared), summed))
        models = tuple(
            Counts(columns, one.tree, cells, float(share), {}).model(how.ess)
            for one, cells, share in zip(mixture.junction_trees, found.cells, found.shares, strict=True)
        )
        mixture = Mixture(found.shares / found.shares.sum(), models)
        mean = found.logs / table.total
        progress(f"all partitions, iteration {step + 1}: {mean:.4f} nats per row")
        if deadline is not None and monotonic() >= deadline:
            stop = Stop.TIME
            break
        if mean - before < how.tolerance:
            break
        before = mean
    remarks = {**table.provenance, "smoothing_ess": how.ess, "stop": stop.value}
    return replace(mixture, provenance=remarks)


def expected(table: DataTable, mixture: Mixture) -> Expected:
    """Returns the E-step for the rows of a table; called on a worker."""
    logs = log_joint(mixture, table)
    totals = log_sum(logs)
    shares = np.exp(logs - totals)
    times = np.ones(table.rows) if table.weights is None else table.weights.astype(np.float64)
    cells = tuple(
        count(one.tree, table, share).cells for one, share in zip(mixture.junction_trees, shares, strict=True)
    )
    return Expected(cells, shares @ times, float(totals @ times))


def summed(several: Sequence[Expected | None]) -> Expected | None:
    """Returns the sum of what partitions have; None stands for no rows."""
    present = [one for one in several if one is not None]
    if not present:
        return None
    cells = tuple(np.sum(parts, axis=0) for parts in zip(*(one.cells for one in present), strict=True))
    return Expected(cells, np.sum([one.shares for one in present], axis=0), sum(one.logs for one in present))


def _first(workers: Workers, table: PartitionedTable) -> DataTable:
    """Returns the first partition that has rows."""
    for place in range(len(table.parts)):
        found: DataTable | None = workers.result(table.each(workers, _itself, among=[place])[0])
        if found is not None:
            return found
    raise InputError("table", "rows", "there are none", "give a table with rows")


def _itself(table: DataTable) -> DataTable:
    return table
