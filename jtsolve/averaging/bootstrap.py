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
from jtsolve.core.problem import Constraints
from jtsolve.core.result import Status, Stop
from jtsolve.core.run import Run
from jtsolve.core.scores import StoppedError
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.scoring.problem import problem_from_table
from jtsolve.solving import solve
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.cluster import Cluster
    from jtsolve.core.backend import Backend
    from jtsolve.core.result import Result
    from jtsolve.core.run import Limits
    from jtsolve.scoring.score import LocalScore
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

    def __call__(self, table: Table, run: Run) -> Result:
        """Returns the verified result for a table."""
        problem = problem_from_table(
            table,
            self.score,
            treewidth=self.treewidth,
            constraints=self.constraints,
            run=run,
            backend=self.backend,
        )
        return solve(problem, self.backend, run)


def bootstrap(
    table: Table,
    count: int,
    search: Search,
    run: Run | None = None,
    *,
    cluster: Cluster | None = None,
) -> Strengths:
    """Searches for the trees of resampled data.

    A signal, the end of the time and the loss of the cluster keep the resamples done. Each may take an equal
    share of the time left. Without a time limit, workers find the same strengths as this process.

    Args:
        table: the data; rows weigh as much as they stand for.
        count: resamples.
        search: finds a tree.
        run: limits and seed, progress and interruption; None for the defaults.
        cluster: searches, a task for each resample; None for this process, one after the other.

    Raises:
        ChoiceError: the count is not positive, the backend refuses the problem, or no tree meets the
            constraints.
        InputError: a resample cannot be scored.
        LimitError: the limits or the loss of the cluster ended it before the first tree, or do not let a tree
            be found.
        KeyboardInterrupt: a signal came before the first tree.
    """
    if count < 1:
        raise ChoiceError(f"{count} resamples give no strengths; ask for 1 or more")
    run = run or Run()
    seen = np.zeros((table.n, table.n))
    done = optimal = 0
    name, stop = "", Stop.FINISHED
    seeds = np.random.SeedSequence(run.seed).spawn(count)
    with run.interruptible():
        job = _Resampling(table, search, run)
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
        if not done and run.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
    if not done:
        raise LimitError("the time ended before the first resample; allow more time")
    if stop is Stop.FINISHED and done < count:
        stop = run.stop or Stop.TIME
    return Strengths(seen / done, done, count, optimal, name, run.seed, stop)


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
    run: Run

    def here(self, seeds: Sequence[np.random.SeedSequence]) -> Iterator[_Resample]:
        """Yields the findings one after the other."""
        for done, seed in enumerate(seeds):
            if not self.run.progress(note=f"resample {done + 1} of {len(seeds)}", done=done / len(seeds)):
                return
            part = self.run.part(self.run.left / (len(seeds) - done), silent=True)
            try:
                result = self.search(_drawn(self.table, seed), part)
            except StoppedError:
                return
            if self.run.stop is Stop.INTERRUPTED:  # this search was cut short
                return
            yield _found(result)

    def on(self, cluster: Cluster, seeds: Sequence[np.random.SeedSequence]) -> Iterator[_Resample]:
        """Yields what workers find, as it comes."""
        with cluster.connected() as workers:
            data = workers.share(self.table)
            if self.run.stop is not None:
                return
            turns = -(-len(seeds) // workers.threads)
            own = self.run.part(self.run.left / turns, threads=1).limits
            seconds = None if own.time is None else own.time - own.elapsed
            futures = [workers.submit(_searched, data, self.search, own, seconds, seed) for seed in seeds]
            with closing(workers.as_completed(futures, stop=lambda: self.run.stop is not None)) as finished:
                for done, future in enumerate(finished, start=1):
                    self.run.progress(note=f"{done} of {len(seeds)} resamples", done=done / len(seeds))
                    yield workers.taken(future)


def _searched(
    table: Table, search: Search, limits: Limits, seconds: float | None, seed: np.random.SeedSequence
) -> _Resample:
    """Returns the findings of a resample; called on a worker, whose clock is another."""
    run = Run(replace(limits, time=seconds, started=monotonic()))
    return _found(search(_drawn(table, seed), run))


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


def _tree_of(result: Result) -> Any:
    if result.tree is not None:
        return result.tree
    if result.status is Status.INFEASIBLE:
        raise ChoiceError("no tree meets the constraints; leave some out")
    raise LimitError(
        f"backend '{result.backend}' found no tree of a resample within its share of the time; allow more "
        "time, fewer resamples, or take a faster backend, such as forward"
    )
