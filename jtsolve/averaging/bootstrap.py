"""Bootstrap strengths of edges: the share of resampled data sets whose best tree has an edge.

Each of B resamples draws the rows of the data with replacement and repeats the whole search. The share is not
a posterior probability: it measures how much the choice of a single tree depends on the observed rows. The
bootstrap works with every score and backend, far beyond the reach of averaging. Reference: N. Friedman, M.
Goldszmidt and A. Wyner, Data analysis with Bayesian networks: a bootstrap approach, UAI 1999.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from jtsolve.averaging.auto import Auto
from jtsolve.averaging.parts import Strengths
from jtsolve.cluster import ClusterLostError, WorkersLostError
from jtsolve.core.result import Status, Stop, require_tree
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import StoppedError
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.models.learning.learner import Learner
from jtsolve.options import TIME
from jtsolve.tables.partitions import PartitionedTable
from jtsolve.tables.table import DataTable, MixedTable, rows_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jtsolve.averaging.method import AveragingMethod, Draws, Query
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.cluster import Cluster
    from jtsolve.core.backend import Backend
    from jtsolve.scoring.problem import Tabulation
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import Table


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The posterior by another method, and the share of resamples whose best tree has an edge.

    Args:
        replicates: number of resamples, at least 1.
        backend: finds the tree of each resample; none: chosen by auto.
        posterior: the method that computes the posterior.

    Raises:
        ChoiceError: the number of resamples is not positive.
    """

    name: ClassVar[str] = "bootstrap"
    main: ClassVar[str] = "replicates"

    replicates: int = 100
    backend: Backend | None = None
    posterior: AveragingMethod = Auto()  # noqa: RUF009 - a frozen value

    def __post_init__(self) -> None:
        if self.replicates < 1:
            raise ChoiceError(f"the number of resamples is {self.replicates}; give 1 or more")

    def average(self, query: Query) -> GraphPosterior | None:
        """See `AveragingMethod`.

        If no resample is completed, the posterior remains, and `diagnostics["no_bootstrap"]` gives the
        reason.
        """
        if query.rows is None:
            raise ChoiceError(
                "bootstrap resamples rows, and an instance has none; give data, or in Python the solution "
                "of learn"
            )
        problem = query.problem
        posterior = self.posterior.average(query)
        if posterior is None:
            return None
        width = problem.max_clique_size - 1
        learner = Learner(query.rows.score, self.backend, width, constraints=problem.constraints)
        try:
            strengths = bootstrap(
                query.rows.table, self.replicates, learner, query.run, cluster=query.cluster
            )
        except (LimitError, KeyboardInterrupt) as error:
            stop = Stop.INTERRUPTED if isinstance(error, KeyboardInterrupt) else Stop.TIME
            why = {"stop": stop.value, "reason": str(error)}
            return replace(posterior, diagnostics={**posterior.diagnostics, "no_bootstrap": why})
        return replace(posterior, bootstrap=strengths)

    def draw(self, query: Query, count: int) -> Draws | None:  # noqa: ARG002 - of the protocol
        """Refuses: see `AveragingMethod`."""
        raise ChoiceError(
            "trees of resamples are no draws from the posterior; use exact, certified or chains"
        )

    def tabulation(self, n: int, largest: int, limits: Limits, *, drawn: bool = False) -> Tabulation:
        """See `AveragingMethod`."""
        return self.posterior.tabulation(n, largest, limits, drawn=drawn)


def bootstrap(
    table: AnyTable,
    count: int,
    learner: Learner,
    run: Run | None = None,
    *,
    cluster: Cluster | None = None,
) -> Strengths:
    """Finds the best tree of each of many resamples of the data.

    Ctrl-C, the time limit and the loss of the cluster keep the resamples completed so far. Each resample has
    an equal share of the time left. Without a time limit, workers find the same strengths as this process.

    Args:
        table: the data; rows have multiplicities.
        count: number of resamples, at least 1.
        learner: finds the tree of each resample.
        run: limits and seed, progress and interruption; None for the defaults.
        cluster: runs each resample as a task; None for this process, one after the other.

    Raises:
        ChoiceError: the rows are in partitions, the backend refuses the problem, or no tree meets the
            constraints.
        InputError: a resample cannot be scored.
        LimitError: a limit, or the loss of the cluster, before the first tree.
        KeyboardInterrupt: Ctrl-C or SIGTERM before the first tree.
    """
    if isinstance(table, PartitionedTable):
        raise ChoiceError(
            "bootstrap needs all rows in one table, and these are in partitions; read them as one table"
        )
    run = run or Run()
    seen = np.zeros((table.n, table.n))
    done = optimal = 0
    name, stop = "", Stop.FINISHED
    seeds = np.random.SeedSequence(run.seed).spawn(count)
    with run.interruptible():
        data = (table, learner, run, seeds)
        try:
            for found in _here(*data) if cluster is None else _on(cluster, *data):
                for u, v in found.edges:
                    seen[u, v] += 1
                    seen[v, u] += 1
                done, name = done + 1, found.backend
                optimal += found.optimal
        except (ClusterLostError, WorkersLostError):
            if not done:
                raise
            stop = Stop.LOST
        if not done and run.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
    if not done:
        why = "the time limit was reached before the first resample was complete"
        raise LimitError(f"{why}; give a larger {TIME}")
    if stop is Stop.FINISHED and done < count:
        stop = run.stop or Stop.TIME
    return Strengths(seen / done, done, count, optimal, name, run.seed, stop)


class _Resample(NamedTuple):
    """The tree of a resample."""

    edges: tuple[tuple[int, int], ...]
    optimal: bool
    backend: str


def _here(
    table: Table, learner: Learner, run: Run, seeds: Sequence[np.random.SeedSequence]
) -> Iterator[_Resample]:
    """Yields the trees of all resamples one after the other."""
    for done, seed in enumerate(seeds):
        if not run.progress(note=f"resample {done + 1} of {len(seeds)}", done=done / len(seeds)):
            return
        try:
            found = _searched(table, learner, run.part(run.left / (len(seeds) - done), silent=True), seed)
        except StoppedError:
            return
        if run.stop is Stop.INTERRUPTED:  # the resample is incomplete
            return
        yield found


def _on(
    cluster: Cluster, table: Table, learner: Learner, run: Run, seeds: Sequence[np.random.SeedSequence]
) -> Iterator[_Resample]:
    """Yields the trees of workers as they arrive."""
    with cluster.connected() as workers:
        data = workers.share(table)
        if run.stop is not None:
            return
        turns = -(-len(seeds) // workers.threads)
        seconds = None if run.left == inf else run.left / turns
        futures = [workers.submit(_on_worker, data, learner, seconds, run.seed, seed) for seed in seeds]
        with closing(workers.as_completed(futures, stop=lambda: run.stop is not None)) as finished:
            for done, future in enumerate(finished, start=1):
                run.progress(note=f"{done} of {len(seeds)} resamples", done=done / len(seeds))
                yield workers.result_of(future)


def _on_worker(
    table: Table, learner: Learner, seconds: float | None, seed: int, drawing: np.random.SeedSequence
) -> _Resample:
    return _searched(table, learner, Run(Limits(seconds, threads=1, seed=seed)), drawing)


def _searched(table: Table, learner: Learner, run: Run, drawing: np.random.SeedSequence) -> _Resample:
    """Returns the tree of a resample."""
    result = learner.search(resampled(table, np.random.default_rng(drawing)), run)
    edges = tuple(sorted(require_tree(result).graph_edges))
    return _Resample(edges, result.status is Status.OPTIMAL, result.backend)


def resampled(table: Table, generator: np.random.Generator) -> Table:
    """Returns as many rows, drawn from those of the table with replacement.

    Rows of states are drawn as weights, so that the data are not copied.
    """
    if not isinstance(table, DataTable):
        (table.real if isinstance(table, MixedTable) else table).require_rows("a bootstrap")
        return rows_at(table, generator.integers(table.rows, size=table.rows))
    table.require_whole_weights("a bootstrap")
    each = np.ones(table.rows) if table.weights is None else table.weights
    weights = generator.multinomial(int(table.total), each / table.total)
    kept = np.flatnonzero(weights)
    return replace(table, codes=table.codes[:, kept], weights=weights[kept], gaps=None)
