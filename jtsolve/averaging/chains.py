"""Chains over decomposable graphs, for where the exact sums do not fit.

Each of at least four chains starts elsewhere (the graph without edges, the best tree, random trees) and is a
ladder of temperatures whose neighbours exchange their graphs: chains that change one edge at a time at one
temperature stay for ever in one of two regimes of some posteriors, each of them looking calm. What the chains
say is compared; if they do not agree, the posterior says that it has not converged.

Each graph counts once, in proportion to e^score · odds^edges: no junction trees are counted.

Time: about 10^6 proposals a second and core, of 10^2 a round and temperature. Memory: 8 n bytes a round and
chain.

References: see `kernels.edge_chain` and `diagnostics`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.averaging.diagnostics import effective_size, split_r_hat, standard_error
from jtsolve.core.backend import Capabilities, needs_table
from jtsolve.core.problem import Feature
from jtsolve.core.scores import StoppedError, colex_table
from jtsolve.core.threads import run_tasks
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import count_bounded_subsets, members
from jtsolve.errors import ChoiceError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.cluster import Cluster
    from jtsolve.core.backend import Limits, Report
    from jtsolve.core.problem import Problem


@dataclass(frozen=True, slots=True)
class ChainConstants:
    """The constants of the chains."""

    most_r_hat: float = 1.01
    least_size: float = 400.0
    most_difference: float = 0.05
    """Chains have converged if R̂, effective sizes, and the largest difference of an edge's probability
    between two of them meet these; the first two as Vehtari et al. advise."""
    certain: float = 0.01
    """Edges with a probability within this of 0 or 1 have too few changes for R̂."""
    steps: int = 100
    """Proposals at a temperature in a round: exchanges are frequent, and take little of the time."""
    points: int = 250
    """Of each chain in a trace."""
    thinned: int = 1000
    """Graphs of each chain from which cliques and separators are counted."""


CHAINS = ChainConstants()


def _has_every_score(problem: Problem) -> str | None:
    lowest = float(colex_table(problem.scores, problem.max_clique_size).min())
    if lowest > -np.inf:
        return None
    return "Chains need the score of every set: through the gaps they might not reach every graph."


MOVABLE = Capabilities(
    features=frozenset({Feature.MAX_TREEWIDTH, Feature.FORBIDDEN_EDGES}),
    max_variables=63,
    rules=(needs_table, lambda problem: None if needs_table(problem) else _has_every_score(problem)),
)
"""What chains support: from any graph that meets these constraints, edges can be removed one by one."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """How the chains run.

    Args:
        chains: how many, at least 2.
        temperatures: graphs in a chain; 1 for no tempering.
        hottest: the exponent of the weights at the last temperature; the others are between it and 1.
        rounds: the most rounds of 100 proposals a temperature; they end when they have converged.
        cluster: runs each chain as tasks, with the same result; None for threads of this process.
    """

    chains: int = 4
    temperatures: int = 12
    hottest: float = 0.05
    rounds: int = 40_000
    cluster: Cluster | None = None

    def __post_init__(self) -> None:
        if self.chains < 2:  # noqa: PLR2004 - two can be compared
            raise ChoiceError(f"{self.chains} chains cannot be compared; run 2 or more")
        if self.temperatures < 1 or not 0 < self.hottest <= 1:
            raise ChoiceError(
                f"{self.temperatures} temperatures down to an exponent of {self.hottest} make no ladder: "
                "give 1 or more, and a number above 0 and at most 1"
            )
        if self.rounds < 100:  # noqa: PLR2004 - halves of fewer rounds cannot be compared
            raise ChoiceError(f"{self.rounds} rounds are too few to compare chains; run 100 or more")

    @property
    def betas(self) -> NDArray[np.float64]:
        """The exponents of the weights, 1 first."""
        last = max(1, self.temperatures - 1)
        return np.array([float(self.hottest) ** (t / last) for t in range(self.temperatures)], np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Traces:
    """What chains went through, thinned, and how well each edge is known.

    Attributes:
        rounds: shape (points,): the rounds, after the warm-up, at which the traces were taken.
        scores: shape (chains, points): ln of the weight of the graph, up to a constant, in nats.
        edges_in_graph: shape (chains, points): its number of edges.
        errors: shape (n, n): the Monte Carlo standard error of each edge's probability.
        differences: shape (n, n): by how much it differs between two chains at most.
    """

    rounds: NDArray[np.int64]
    scores: NDArray[np.float64]
    edges_in_graph: NDArray[np.int64]
    errors: NDArray[np.float64]
    differences: NDArray[np.float64]

    def figure(self, names: Sequence[str], title: str) -> Any:
        """Returns the picture of the traces and of the edges in which the chains differ most."""
        from jtsolve.averaging.pictures import traces

        lines = {"score, nats": self.scores.tolist(), "edges": self.edges_in_graph.tolist()}
        pairs = combinations(range(len(names)), 2)
        differences = [(f"{names[u]}–{names[v]}", float(self.differences[u, v])) for u, v in pairs]
        return traces(self.rounds.tolist(), lines, differences, CHAINS.most_difference, title)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """What the chains saw after the warm-up.

    Attributes:
        graphs: shape (chains, rounds, n): the neighbours of each vertex as bit masks.
        heights: shape (chains, rounds): ln of the weight of each graph, up to a constant.
        converged: whether all diagnostics are met.
        diagnostics: as JSON values.
    """

    graphs: NDArray[np.int64]
    heights: NDArray[np.float64]
    converged: bool
    diagnostics: dict[str, Any]

    def edges(self) -> NDArray[np.float64]:
        """Returns the mean over all chains of each edge, shape (n, n)."""
        mean: NDArray[np.float64] = edge_shares(self.graphs).mean(axis=0)
        return mean

    def traces(self) -> Traces:
        """Returns the traces, and the errors of all edges."""
        rounds, n = self.graphs.shape[1:]
        at = np.linspace(0, rounds - 1, min(rounds, CHAINS.points)).astype(int)
        shares = edge_shares(self.graphs)
        errors = np.zeros((n, n))
        for u, v in np.argwhere(np.triu(shares.any(axis=0) & (shares < 1).any(axis=0))).tolist():
            errors[u, v] = errors[v, u] = standard_error((self.graphs[:, :, u] >> v & 1).astype(np.float64))
        return Traces(
            rounds + at,
            self.heights[:, at],
            self.sizes[:, at],
            errors,
            shares.max(axis=0) - shares.min(axis=0),
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of edges of each graph: shape (chains, rounds)."""
        sizes: NDArray[np.int64] = np.bitwise_count(self.graphs).sum(axis=2, dtype=np.int64) // 2
        return sizes

    def trees(self) -> list[JunctionTree]:
        """Returns the junction trees of some graphs, equally spaced, of every chain."""
        rounds = self.graphs.shape[1]
        at = np.linspace(0, rounds - 1, min(rounds, CHAINS.thinned)).astype(int)
        rows, counts = np.unique(
            self.graphs[:, at].reshape(-1, self.graphs.shape[2]), axis=0, return_counts=True
        )
        trees = (JunctionTree.from_neighbours(row) for row in rows.tolist())
        return [tree for tree, count in zip(trees, counts.tolist(), strict=True) for _ in range(count)]


def require_movable(problem: Problem) -> None:
    """Refuses a problem that the chains do not take.

    Raises:
        RefusedError: with every reason.
    """
    objections = MOVABLE.objections(problem)
    if objections:
        raise RefusedError("chains", objections)


def run_chains(
    problem: Problem,
    edge_odds: float,
    limits: Limits,
    report: Report,
    *,
    ladder: Ladder,
    start: JunctionTree | None,
) -> Sample:
    """Runs chains until they have converged, or to the end of the ladder's rounds or of the time.

    Args:
        problem: one that `require_movable` takes.
        edge_odds: prior odds of an edge.
        ladder: how the chains run.
        start: where the second chain starts; None for a random tree.
        limits: time, threads, seed.
        report: is asked whether to continue.

    Raises:
        StoppedError: the report asked to end before anything could be compared.
    """
    run = _Run(problem, edge_odds, ladder, start, limits)
    sample: Sample | None = None
    for rounds in _stages(ladder.rounds):
        try:
            run.until(rounds, report)
        except StoppedError:
            if sample is None:
                raise
            return sample
        sample = run.sample()
        if sample.converged:
            break
    assert sample is not None, "a ladder has rounds"
    return sample


def _advanced(
    shared: tuple[NDArray[np.float64], tuple[Any, ...]], rounds: int, state: list[NDArray[Any]]
) -> tuple[list[NDArray[Any]], NDArray[np.int64], NDArray[np.float64]]:
    """Returns the state of a chain after some rounds, and its trace; called on a worker."""
    from jtsolve.averaging.kernels.edge_chain import run_chain

    betas, scores = shared
    states, rows, logs, order, counts = (array.copy() for array in state)
    graphs, heights = np.zeros((rounds, rows.shape[1]), np.int64), np.zeros(rounds)
    run_chain(states, rows, logs, order, betas, rounds, CHAINS.steps, *scores, graphs, heights, counts)
    return [states, rows, logs, order, counts], graphs, heights


def _stages(rounds: int) -> Iterator[int]:
    """Yields the rounds after which the chains are compared: doubling from 2,000."""
    stage = min(2000, rounds)
    while True:
        yield stage
        if stage == rounds:
            return
        stage = min(2 * stage, rounds)


class _Run:
    """The chains and their traces."""

    def __init__(
        self, problem: Problem, edge_odds: float, ladder: Ladder, start: JunctionTree | None, limits: Limits
    ) -> None:
        n, largest = problem.n, problem.max_clique_size
        self.ladder, self.workers, self.n = ladder, limits.workers, n
        forbidden = np.zeros(n, np.int64)
        for edge in problem.constraints.forbidden_edges:
            for v in members(edge):
                forbidden[v] |= edge ^ (1 << v)
        before = np.array(
            [[count_bounded_subsets(v, k) for k in range(largest + 1)] for v in range(n)], np.int64
        )
        self.scores = (colex_table(problem.scores, largest), before, largest, log(edge_odds), forbidden)
        generator = np.random.default_rng(limits.seed)
        shape = (ladder.chains, ladder.temperatures)
        self.states = generator.integers(1, 1 << 63, (ladder.chains, 1)).astype(np.uint64)
        starts = [np.zeros(n, np.int64)]
        if start is not None:
            starts.append(_rows(start))
        while len(starts) < ladder.chains:
            starts.append(_random_tree(generator, n, forbidden, largest))
        self.rows = np.repeat(np.array(starts[: ladder.chains])[:, None], ladder.temperatures, axis=1)
        self.logs = np.zeros(shape)
        for chain in range(ladder.chains):
            tree = JunctionTree.from_neighbours(self.rows[chain, 0].tolist())
            self.logs[chain] = tree.score(problem.scores) + log(edge_odds) * len(tree.graph_edges)
        self.order = np.tile(np.arange(ladder.temperatures), (ladder.chains, 1))
        self.counts = np.zeros((ladder.chains, 2 + 2 * ladder.temperatures), np.int64)
        self.graphs = np.zeros((ladder.chains, ladder.rounds, n), np.int64)
        self.heights = np.zeros((ladder.chains, ladder.rounds))
        self.done = 0

    def until(self, rounds: int, report: Report) -> None:
        """Runs all chains up to a number of rounds."""
        if self.ladder.cluster is None:
            self._in_threads(rounds, report)
        else:
            self._on(self.ladder.cluster, rounds, report)

    def _on(self, cluster: Cluster, rounds: int, report: Report) -> None:
        """Runs each chain as a task, which returns its state and trace."""
        part = slice(self.done, rounds)
        own = (self.states, self.rows, self.logs, self.order, self.counts)
        with cluster.connected() as workers:
            shared = workers.share((self.ladder.betas, self.scores))
            futures = [
                workers.submit(_advanced, shared, part.stop - part.start, [array[i].copy() for array in own])
                for i in range(self.ladder.chains)
            ]
            places = {future.key: i for i, future in enumerate(futures)}
            found = {}
            with closing(workers.as_completed(futures, stop=lambda: not report(note="chains"))) as finished:
                for future in finished:
                    found[places[future.key]] = future.result()
        if len(found) < self.ladder.chains:
            raise StoppedError
        for i, (state, graphs, heights) in found.items():
            for array, value in zip(own, state, strict=True):
                array[i] = value
            self.graphs[i, part], self.heights[i, part] = graphs, heights
        self.done = rounds
        report(done=rounds / self.ladder.rounds, note="chains")

    def _in_threads(self, rounds: int, report: Report) -> None:
        """Runs the chains a hundred rounds at a time."""
        from jtsolve.averaging.kernels.edge_chain import run_chain
        from jtsolve.core.compiling import announced

        piece = 100
        with announced(lambda: report(note="compiling the kernels (first run only)")):
            pool = ThreadPoolExecutor(self.workers)
            try:
                while self.done < rounds:
                    part = slice(self.done, min(self.done + piece, rounds))
                    tasks = [
                        partial(
                            run_chain,
                            self.states[i],
                            self.rows[i],
                            self.logs[i],
                            self.order[i],
                            self.ladder.betas,
                            part.stop - part.start,
                            CHAINS.steps,
                            *self.scores,
                            self.graphs[i, part],
                            self.heights[i, part],
                            self.counts[i],
                        )
                        for i in range(self.ladder.chains)
                    ]
                    done = part.stop / self.ladder.rounds
                    run_tasks(pool, tasks, lambda _i, done=done: report(done=done, note="chains"))  # type: ignore[misc]
                    self.done = part.stop
            finally:
                pool.shutdown(cancel_futures=True)

    def sample(self) -> Sample:
        """Returns what was seen after the first half, the warm-up, and whether the chains agree."""
        kept = slice(self.done // 2, self.done)
        graphs, heights = self.graphs[:, kept].copy(), self.heights[:, kept].copy()
        shares = edge_shares(graphs)
        upper = np.triu_indices(self.n, 1)
        means = shares.mean(axis=0)[upper]
        open_pairs = [
            (int(u), int(v))
            for u, v, p in zip(*upper, means, strict=True)
            if CHAINS.certain < p < 1 - CHAINS.certain
        ]
        sizes = np.bitwise_count(graphs).sum(axis=2) / 2
        traces = [heights, sizes.astype(np.float64)]
        traces += [(graphs[:, :, u] >> v & 1).astype(np.float64) for u, v in open_pairs]
        r_hats = [split_r_hat(trace) for trace in traces]
        effective = min(map(effective_size, traces))
        spread = shares.max(axis=0) - shares.min(axis=0)
        difference = float(spread.max())
        proposals, accepted, trips = self.counts[:, :3].sum(axis=0).tolist()
        swaps = self.counts[:, 3 : 2 + self.ladder.temperatures] / self.done
        converged = (
            max(r_hats) <= CHAINS.most_r_hat
            and effective >= CHAINS.least_size
            and difference <= CHAINS.most_difference
        )
        diagnostics = {
            "chains": self.ladder.chains,
            "temperatures": self.ladder.temperatures,
            "proposals": proposals * self.ladder.temperatures,
            "rounds": self.done,
            "acceptance": accepted / proposals,
            "r_hat": {
                "score": _finite(r_hats[0]),
                "edges_in_graph": _finite(r_hats[1]),
                "worst_edge": _finite(max(r_hats[2:], default=1.0)),
            },
            "effective_sample_size": effective,
            "largest_difference": difference,
            "least_swap_rate": float(swaps.min()) if swaps.size else None,
            "round_trips": trips,
        }
        return Sample(graphs, heights, bool(converged), diagnostics)


def _finite(value: float) -> float | None:
    """Returns a number for JSON: None for R̂ of chains that never moved and differ."""
    return value if np.isfinite(value) else None


def edge_shares(graphs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns in which share of the graphs of each chain each edge is: shape (chains, n, n)."""
    n = graphs.shape[2]
    return np.stack([(graphs >> v & 1).mean(axis=1) for v in range(n)], axis=2)


def _rows(tree: JunctionTree) -> NDArray[np.int64]:
    rows = np.zeros(tree.n, np.int64)
    for u, v in tree.graph_edges:
        rows[u] |= 1 << v
        rows[v] |= 1 << u
    return rows


def _random_tree(
    generator: np.random.Generator, n: int, forbidden: NDArray[np.int64], largest: int
) -> NDArray[np.int64]:
    """Returns a random forest without forbidden edges: each vertex joins an earlier one."""
    rows = np.zeros(n, np.int64)
    order = generator.permutation(n).tolist()
    for i, v in enumerate(order[1:] if largest > 1 else [], start=1):
        u = order[int(generator.integers(i))]
        if not forbidden[v] >> u & 1:
            rows[u] |= 1 << v
            rows[v] |= 1 << u
    return rows
