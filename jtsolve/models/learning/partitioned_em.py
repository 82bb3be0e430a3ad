"""Structural EM of a mixture whose rows lie in partitions; see `mixture_em`.

It begins with a mixture of the first partition that has rows. Then rounds over all partitions alternate:

1. Tables and weights are fitted: a task computes the responsibilities of its rows, and the expected counts of
   every component's cells under them; their sums are all that the M-step needs. The figures are those of one
   process up to rounding.
2. A tree is learned for every component from rows drawn in proportion to its responsibilities, which are
   scored where they lie. It replaces the old one if its expected score over all rows is higher.

Time: an iteration reads all partitions, and takes rows × Σ |C| for each component; a round of trees scores
all of them once for each component. Reference: A. P. Dempster, N. M. Laird and D. B. Rubin, Journal of the
Royal Statistical Society B 39, 1977.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.result import Stop
from jtsolve.errors import InputError
from jtsolve.models.inference.likelihood import log_likelihood
from jtsolve.models.learning.em_run import EmRun
from jtsolve.models.learning.fit import Counts, count
from jtsolve.models.learning.mixture_em import fit_mixture
from jtsolve.models.messages import log_sum
from jtsolve.models.mixture import Mixture

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from jtsolve.cluster import Workers
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.learning.mixture_em import EmOptions
    from jtsolve.models.model import JunctionTreeModel
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
    """Returns a mixture fitted to all partitions, trees included.

    Ctrl-C returns the mixture so far, as `fit_mixture` does, and so does the loss of the cluster. The
    provenance records under "stop" why EM ended: "finished", "time", "interrupted" or "lost".

    Args:
        table: the partitions.
        components: see `fit_mixture`.
        how: see there; its iterations and tolerance hold for all partitions too.
        progress: called with messages.
        deadline: of `time.monotonic()`, at which to return the mixture of the last M-step.

    Raises:
        InputError: a partition cannot be read.
        ChoiceError, LimitError, KeyboardInterrupt: as `fit_mixture`, of one partition.
        ClusterLostError: the cluster was lost before the first mixture.
    """
    with table.cluster.held() as cluster, cluster.connected() as workers:
        rows = replace(table, cluster=cluster, folder=None)  # drawn rows are nothing to keep
        first = fit_mixture(_first(workers, rows), components, how, progress, deadline=deadline)
        run = _Run(rows, workers, how, progress, deadline, first)
        stop = Stop(first.provenance["stop"])
        if stop is not Stop.INTERRUPTED:
            stop = run.go()
    remarks = {**table.provenance, "smoothing_ess": how.ess, "stop": stop.value}
    return replace(run.mixture, provenance=remarks)


@dataclass(slots=True, eq=False)
class _Run(EmRun):
    """EM over all partitions; `mixture` is that of the last M-step."""

    table: PartitionedTable
    workers: Workers
    how: EmOptions
    progress: Callable[[str], None]
    deadline: float | None
    mixture: Mixture

    def fit(self) -> None:
        """See `EmRun`."""
        self.refit(self.mixture)
        for turn in range(self.how.rounds):
            models = self.relearned(self.mixture, turn)
            if [one.tree for one in models] == _trees(self.mixture):
                break
            self.refit(replace(self.mixture, components=models))

    def total(self, table: PartitionedTable, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns the sum of a function's results for all partitions; None without any rows."""
        leaves = table.each(self.workers, function, *map(self.workers.share, arguments))
        return self.workers.result(self.workers.total(leaves, summed))

    def refit(self, mixture: Mixture) -> None:
        """Runs EM with the trees of a mixture."""
        before = -inf
        for step in range(self.how.iterations):
            trees = tuple(_trees(mixture))
            found: Expected = self.total(self.table, expected, mixture, trees)
            mixture = Mixture(found.shares / found.shares.sum(), self.maximised(mixture, trees, found))
            self.mixture = mixture
            mean = found.logs / self.table.total
            self.progress(f"all partitions, iteration {step + 1}: {mean:.4f} nats per row")
            if mean - before < self.how.tolerance or self.is_late:
                break
            before = mean

    def maximised(
        self, mixture: Mixture, trees: Sequence[JunctionTree], found: Expected
    ) -> tuple[JunctionTreeModel, ...]:
        """Returns the components of these trees with the tables of the M-step."""
        return tuple(
            Counts(mixture.columns, tree, cells, float(share), {}).model(self.how.ess)
            for tree, cells, share in zip(trees, found.cells, found.shares, strict=True)
        )

    def relearned(self, mixture: Mixture, turn: int) -> tuple[JunctionTreeModel, ...]:
        """Returns the components after a round of trees: each the new one if it is better than the old one.

        Raises:
            LimitError: the deadline has passed, or the learner found no tree.
        """
        old = tuple(_trees(mixture))
        new = []
        for k, tree in enumerate(old):
            part = replace(self.table, weighted=Drawn(mixture, k, (self.how.seed, turn, k)))
            rows = self.total(part, _rows)
            self.progress(f"tree {k + 1} of {len(old)}, from {rows or 0} rows of all partitions")
            new.append(self.how.trees(replace(part, total=int(rows)), self.deadline) if rows else tree)
        several = old, tuple(new)
        found = [self.total(self.table, expected, mixture, trees) for trees in several]
        models = [self.maximised(mixture, trees, one) for trees, one in zip(several, found, strict=True)]
        before, after = (self.total(self.table, expected_scores, mixture, one) for one in models)
        price = np.log(np.maximum(found[0].shares, 1.0)) / 2
        return tuple(
            b if after[k] - price[k] * b.parameters > before[k] - price[k] * a.parameters else a
            for k, (a, b) in enumerate(zip(*models, strict=True))
        )


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The rows of a component, drawn by its responsibilities; the same ones whenever they are asked for."""

    mixture: Mixture
    component: int
    seed: tuple[int, ...]

    def __call__(self, table: DataTable, place: int) -> DataTable | None:
        """See `tables.partitions.Weighting`."""
        logs = self.mixture.log_joint(table)
        share = np.minimum(np.exp(logs[self.component] - log_sum(logs)), 1.0)
        weights = np.random.default_rng([*self.seed, place]).binomial(_times(table).astype(np.int64), share)
        kept = weights > 0
        return replace(table, codes=table.codes[:, kept], weights=weights[kept]) if kept.any() else None


def expected(table: DataTable, mixture: Mixture, trees: Sequence[JunctionTree]) -> Expected:
    """Returns the E-step for the rows of a table, with the cells of some trees; called on a worker."""
    logs = mixture.log_joint(table)
    totals = log_sum(logs)
    shares = np.exp(logs - totals)
    times = _times(table)
    cells = tuple(count(tree, table, share).cells for tree, share in zip(trees, shares, strict=True))
    return Expected(cells, shares @ times, float(totals @ times))


def expected_scores(
    table: DataTable, mixture: Mixture, models: Sequence[JunctionTreeModel]
) -> NDArray[np.float64]:
    """Returns the expected log-likelihood of the rows of each component under a model, in nats."""
    logs = mixture.log_joint(table)
    belongs = np.exp(logs - log_sum(logs)) * _times(table)
    return np.array(
        [share @ log_likelihood(model, table) for share, model in zip(belongs, models, strict=True)]
    )


def _rows(table: DataTable) -> int:
    """Returns the rows of a partition, with their weights."""
    return table.total


def _times(table: DataTable) -> NDArray[np.float64]:
    return np.ones(table.rows) if table.weights is None else table.weights.astype(np.float64)


def summed(several: Sequence[Any]) -> Any:
    """Returns the sum of what partitions have, arrays or `Expected`; None stands for no rows."""
    present = [one for one in several if one is not None]
    if not present or not isinstance(present[0], Expected):
        return np.sum(present, axis=0) if present else None
    cells = tuple(np.sum(parts, axis=0) for parts in zip(*(one.cells for one in present), strict=True))
    return Expected(cells, np.sum([one.shares for one in present], axis=0), sum(one.logs for one in present))


def _first(workers: Workers, table: PartitionedTable) -> DataTable:
    """Returns the first partition that has rows."""
    for place in range(len(table.parts)):
        found: DataTable | None = workers.result(table.each(workers, _itself, among=[place])[0])
        if found is not None:
            return found
    raise InputError("table", "rows", "there are none", "give a table with rows")


def _trees(mixture: Mixture) -> list[JunctionTree]:
    """Returns the trees of the components, junction trees all."""
    return [component.structure("the E-step by partitions") for component in mixture.components]


def _itself(table: DataTable) -> DataTable:
    return table
