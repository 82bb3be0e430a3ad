"""Bootstrap strengths of edges: in which share of resampled data the best tree has each edge.

Each of B resamples draws the rows of the data with replacement and goes through the whole search. A share is
no posterior probability: it says how far the choice of one tree depends on the rows at hand. It works with
every score and backend, far beyond what can be averaged over. Reference: N. Friedman, M. Goldszmidt and
A. Wyner, Data analysis with Bayesian networks: a bootstrap approach, UAI 1999.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.cluster import ClusterLostError, WorkersLostError
from jtsolve.core.backend import Limits
from jtsolve.core.problem import Constraints
from jtsolve.core.result import Status, Stop
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.progress import tell
from jtsolve.scoring.problem import problem_from_table
from jtsolve.solving import Interruption, Recorder, choose, interruptible, require_backend, verified
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.cluster import Cluster
    from jtsolve.core.backend import Backend
    from jtsolve.core.result import Result
    from jtsolve.scoring.score import LocalScore
    from jtsolve.solving import Listener
    from jtsolve.tables.table import Table


@dataclass(frozen=True, slots=True, eq=False)
class Strengths:
    """Bootstrap strengths of edges.

    Attributes:
        edges: shape (n, n): the share of the resamples whose tree has the edge.
        resamples: done; fewer than asked for if it was stopped.
        wanted: asked for.
        optimal: how many of the trees are proved to be the best of their resample.
        backend: that found them.
        seed: of the resamples.
        stop: why it ended.
    """

    edges: NDArray[np.float64]
    resamples: int
    wanted: int
    optimal: int
    backend: str
    seed: int
    stop: Stop = Stop.FINISHED


@dataclass(frozen=True, slots=True)
class Search:
    """How the tree of each resample is found.

    Args:
        score: of the columns.
        treewidth: of the trees.
        backend: searches; None for the choice of `auto`.
        constraints: on every tree.
    """

    score: LocalScore
    treewidth: int
    backend: Backend | None = None
    constraints: Constraints = Constraints()  # noqa: RUF009 - a frozen value

    def __call__(
        self, table: Table, limits: Limits, listener: Listener | None, interruption: Interruption
    ) -> Result:
        """Returns the verified result for a table."""
        problem = problem_from_table(
            table,
            self.score,
            treewidth=self.treewidth,
            constraints=self.constraints,
            limits=limits,
            backend=self.backend,
        )
        backend = self.backend or choose(problem, limits).backend
        require_backend(problem, backend)
        return verified(problem, backend, limits, Recorder(problem, limits, listener, interruption))


def bootstrap(
    table: Table,
    count: int,
    search: Search,
    limits: Limits | None = None,
    listener: Listener | None = None,
    *,
    cluster: Cluster | None = None,
) -> Strengths:
    """Searches for the trees of resampled data.

    Ctrl-C, the end of the time and the loss of the cluster keep the resamples done. Each may take an equal
    share of the time left. Without a time limit, workers find the same strengths as this process.

    Args:
        table: the data; rows weigh as much as they stand for.
        count: resamples.
        search: finds a tree.
        limits: time, memory, threads and seed; None for the defaults.
        listener: receives progress.
        cluster: searches, a task for each resample; None for this process, one after the other.

    Raises:
        ChoiceError: the count is not positive, the backend refuses the problem, or no tree meets the
            constraints.
        InputError: a resample cannot be scored.
        LimitError: the limits or the loss of the cluster ended it before the first tree, or do not let a tree
            be found.
        KeyboardInterrupt: Ctrl-C or SIGTERM came before the first tree.
    """
    if count < 1:
        raise ChoiceError(f"{count} resamples give no strengths; ask for 1 or more")
    limits = limits or Limits()
    seen = np.zeros((table.n, table.n))
    done = optimal = 0
    name, stop = "", Stop.FINISHED
    seeds = np.random.SeedSequence(limits.seed).spawn(count)
    with interruptible() as interruption:
        job = _Resampling(table, search, limits, listener, interruption)
        try:
            for found in job.here(seeds) if cluster is None else job.on(cluster, seeds):
                for u, v in found.edges:
                    seen[u, v] += 1
                    seen[v, u] += 1
                done, name = done + 1, found.backend
                optimal += found.optimal
        except (ClusterLostError, WorkersLostError):
            if not done:
                raise
            stop = Stop.LOST
        if not done and interruption.wanted:
            raise KeyboardInterrupt
    if not done:
        raise LimitError("the time ended before the first resample; allow more time")
    if stop is Stop.FINISHED and done < count:
        stop = Stop.INTERRUPTED if interruption.wanted else Stop.TIME
    return Strengths(seen / done, done, count, optimal, name, limits.seed, stop)


@dataclass(frozen=True, slots=True)
class _Resample:
    """What a resample contributes."""

    edges: tuple[tuple[int, int], ...]
    optimal: bool
    backend: str


@dataclass(frozen=True, slots=True)
class _Resampling:
    """The searches of all resamples."""

    table: Table
    search: Search
    limits: Limits
    listener: Listener | None
    interruption: Interruption

    @property
    def left(self) -> float | None:
        """The seconds left, or None for no limit."""
        return None if self.limits.time is None else self.limits.time - self.limits.elapsed

    @property
    def ended(self) -> bool:
        """Whether to begin nothing any more."""
        return self.interruption.wanted or (self.left is not None and self.left <= 0)

    def here(self, seeds: Sequence[np.random.SeedSequence]) -> Iterator[_Resample]:
        """Yields the findings one after the other."""
        for done, seed in enumerate(seeds):
            left = self.left
            if self.ended:
                return
            share = None if left is None else left / (len(seeds) - done)
            own = replace(self.limits, time=share, started=monotonic())
            counted = None if self.listener is None else _ResampleProgress(self.listener, done, len(seeds))
            result = self.search(_drawn(self.table, seed), own, counted, self.interruption)
            if self.interruption.wanted:  # this search was cut short
                return
            yield _found(result)

    def on(self, cluster: Cluster, seeds: Sequence[np.random.SeedSequence]) -> Iterator[_Resample]:
        """Yields what workers find, as it comes."""
        with cluster.connected() as workers:
            data = workers.share(self.table)
            left = self.left
            if self.ended:
                return
            turns = -(-len(seeds) // workers.threads)
            own = replace(self.limits, time=None if left is None else left / turns, threads=1)
            futures = [workers.submit(_searched, data, self.search, own, seed) for seed in seeds]
            with closing(workers.as_completed(futures, stop=lambda: self.ended)) as finished:
                for done, future in enumerate(finished):
                    tell(self.listener, f"{done + 1} of {len(seeds)} resamples", (done + 1) / len(seeds))
                    yield workers.taken(future)


def _searched(table: Table, search: Search, limits: Limits, seed: np.random.SeedSequence) -> _Resample:
    """Returns the findings of a resample; called on a worker."""
    own = replace(limits, started=monotonic())
    return _found(search(_drawn(table, seed), own, None, Interruption()))


def _drawn(table: Table, seed: np.random.SeedSequence) -> Table:
    return resampled(table, np.random.default_rng(seed))


def _found(result: Result) -> _Resample:
    edges = tuple(sorted(_tree_of(result).graph_edges))
    return _Resample(edges, result.status is Status.OPTIMAL, result.backend)


def resampled(table: Table, generator: np.random.Generator) -> Table:
    """Returns as many rows, drawn from those of the table with replacement.

    Rows of states are drawn as weights, so that the data are not copied.
    """
    if not isinstance(table, DataTable):
        rows = generator.integers(table.rows, size=table.rows)
        return replace(table, values=table.values[:, rows])
    each = np.ones(table.rows) if table.weights is None else table.weights
    weights = generator.multinomial(table.total, each / table.total)
    kept = np.flatnonzero(weights)
    return replace(table, codes=table.codes[:, kept], weights=weights[kept])


@dataclass(frozen=True, slots=True)
class _ResampleProgress:
    """Tells how many resamples are done, in place of the progress of the backend."""

    listener: Listener
    done: int
    count: int

    def __call__(self, **news: Any) -> None:
        part = min(1.0, news["done"] or 0.0)
        note = f"resample {self.done + 1} of {self.count}"
        self.listener(**{**news, "done": (self.done + part) / self.count, "note": note})


def _tree_of(result: Result) -> Any:
    if result.tree is not None:
        return result.tree
    if result.status is Status.INFEASIBLE:
        raise ChoiceError("no tree meets the constraints; leave some out")
    raise LimitError(
        f"backend '{result.backend}' found no tree of a resample within its share of the time; allow more "
        "time, fewer resamples, or take a faster backend, such as forward"
    )
