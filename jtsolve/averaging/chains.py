"""Chains over decomposable graphs, for where the exact sums do not fit.

Each of at least four chains starts elsewhere (the graph without edges, the best tree, random trees) and is a
ladder of temperatures whose neighbours exchange their graphs: chains that change one edge at a time at one
temperature stay for ever in one of two regimes of some posteriors, each of them looking calm. All chains but
that of the best tree are cooled down to their temperatures first, or their coldest graphs would freeze where
they start; as the graphs of a chain cool, they are drawn anew in proportion to their weights. The
temperatures are spaced anew (`tempering`) whenever the chains are compared. If they do not agree, the
posterior says that it has not converged.

Each graph counts once, in proportion to e^score · odds^edges: no junction trees are counted. Proposals add
or remove an edge, take one for another, or move a branch of the graph; on request, they add or remove
several edges at once (`kernels.edge_chain`), and blocks of the graph at temperature 1 are redrawn, exactly,
after every hundred rounds (`blocks`).

Time: about 2·10^6 proposals a second and core, of 10^2, or 4n, a round and temperature. Memory: n²/8 bytes a
round and chain.

References: see `kernels.edge_chain` and `diagnostics`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.averaging.blocks import blocks_of
from jtsolve.averaging.diagnostics import effective_size, split_r_hat, standard_error
from jtsolve.averaging.junction_trees import trees_of
from jtsolve.averaging.tempering import exponents, partners_of, respaced, worths_of
from jtsolve.cluster import ClusterLostError, WorkersLostError
from jtsolve.core.backend import Capabilities, lacks_table
from jtsolve.core.problem import Feature
from jtsolve.core.result import Stop
from jtsolve.core.scores import StoppedError, colex_table
from jtsolve.core.threads import run_tasks
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import count_bounded_subsets, members
from jtsolve.errors import ChoiceError, LimitError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.averaging.blocks import Blocks
    from jtsolve.averaging.tempering import Partners
    from jtsolve.cluster import Cluster, Future, Workers
    from jtsolve.core.backend import Limits, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.varset import VarSet


LARGEST_BLOCK = 12
"""Exact sums of 12 variables take a few hundredths of a second."""

WORD = 32
"""As in `kernels.edge_chain`, which is not loaded before a chain begins."""


@dataclass(frozen=True, slots=True)
class ChainConstants:
    """The constants of the chains."""

    most_r_hat: float = 1.01
    least_size: float = 1500.0
    most_difference: float = 0.05
    """Chains have converged if R̂, effective sizes, and the largest difference of an edge's probability
    between two of them meet these; R̂ as Vehtari et al. advise, who ask for a size of 400: with 553, an edge
    of flare was wrong by 0.045, with 1,000 by 0.052, and with 1,500 by 0.024 at most (ten runs)."""
    error_bound: float = 4.0
    """A difference of this many Monte Carlo standard errors does not count: at an effective size of 1,500,
    one of four chains knows a probability of 1/2 to 0.026, and many pairs are compared."""
    rounds: int = 40_000
    """The most rounds of a chain, where neither they nor the time are limited."""
    piece: int = 100
    """Rounds of a thread at a time, after which a block may be drawn."""
    task: int = 1000
    """Rounds of a task on a cluster, about a second; as many are lost when it is."""
    certain: float = 0.01
    """Edges with a probability within this of 0 or 1 have too few changes for R̂."""
    steps: int = 100
    """Proposals at a temperature in a round, or four for each variable if that is more: exchanges are
    frequent, and take little of the time."""
    branches: float = 0.5
    exchanges: float = 0.25
    """The shares of proposals to move a branch, and of an edge for another; measured on plants."""
    cooling: int = 50
    """Rounds for each variable, half of all at most, in which chains cool down: about 10^6 proposals a graph
    of 69 variables."""
    search: float = 20.0
    """Seconds at most to search for the tree from which one chain starts; less where time is limited."""
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
    needs_table=True,
    rules=(lambda problem: None if lacks_table(problem) else _has_every_score(problem),),
)
"""What chains support: from any graph that meets these constraints, edges can be removed one by one."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """How the chains run.

    Args:
        chains: how many, at least 2.
        temperatures: graphs in a chain; 1 for no tempering; None: as many as the scores need.
        hottest: the exponent of the weights at the last temperature; the others are between it and 1. None:
            by the scores.
        rounds: the most rounds of 100 proposals a temperature, or four for each variable; they end when they
            have converged. None: 40,000; where time is limited, as many as fit in half of the memory.
        several: the share of proposals to add or remove edges, a quarter of all, that may do so with several
            at once.
        block: the most variables that are drawn at once, exactly, within the rest; 0 for none.
        cluster: runs each chain as tasks, with the same result; None for threads of this process.
    """

    chains: int = 4
    temperatures: int | None = None
    hottest: float | None = None
    rounds: int | None = None
    several: float = 0.0
    block: int = 0
    cluster: Cluster | None = None

    def __post_init__(self) -> None:
        if self.chains < 2:  # noqa: PLR2004 - two can be compared
            raise ChoiceError(f"{self.chains} chains cannot be compared; run 2 or more")
        if self.temperatures is not None and self.temperatures < 1:
            raise ChoiceError(f"{self.temperatures} temperatures make no ladder: give 1 or more")
        if self.hottest is not None and not 0 < self.hottest <= 1:
            raise ChoiceError(
                f"temperatures down to an exponent of {self.hottest} make no ladder: "
                "give a number above 0 and at most 1"
            )
        if not 0 <= self.several <= 1:
            raise ChoiceError(f"a share of {self.several} of the proposals makes no sense; give 0 to 1")
        if self.rounds is not None and self.rounds < 100:  # noqa: PLR2004 - halves of fewer rounds cannot be compared
            raise ChoiceError(f"{self.rounds} rounds are too few to compare chains; run 100 or more")
        if not 0 <= self.block <= LARGEST_BLOCK:
            raise ChoiceError(
                f"blocks of {self.block} variables cannot be drawn; give 0, for none, to {LARGEST_BLOCK}"
            )


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
        graphs: shape (chains, rounds, n, words), uint32: the neighbours of each vertex, in words of 32.
        heights: shape (chains, rounds): ln of the weight of each graph, up to a constant.
        converged: whether all diagnostics are met.
        diagnostics: as JSON values.
    """

    graphs: NDArray[np.uint32]
    heights: NDArray[np.float64]
    converged: bool
    diagnostics: dict[str, Any]

    def edges(self) -> NDArray[np.float64]:
        """Returns the mean over all chains of each edge, shape (n, n)."""
        mean: NDArray[np.float64] = edge_shares(self.graphs).mean(axis=0)
        return mean

    def traces(self) -> Traces:
        """Returns the traces, and the errors of all edges."""
        rounds, n = self.graphs.shape[1:3]
        at = np.linspace(0, rounds - 1, min(rounds, CHAINS.points)).astype(int)
        shares = edge_shares(self.graphs)
        errors = np.zeros((n, n))
        for u, v in np.argwhere(np.triu(shares.any(axis=0) & (shares < 1).any(axis=0))).tolist():
            errors[u, v] = errors[v, u] = standard_error(edge_trace(self.graphs, u, v))
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
        sizes: NDArray[np.int64] = np.bitwise_count(self.graphs).sum(axis=(2, 3), dtype=np.int64) // 2
        return sizes

    def trees(self) -> list[JunctionTree]:
        """Returns the junction trees of some graphs, equally spaced, of every chain."""
        rounds = self.graphs.shape[1]
        at = np.linspace(0, rounds - 1, min(rounds, CHAINS.thinned)).astype(int)
        return trees_of(neighbours_of(self.graphs[:, at]))


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

    Where the cluster is lost, "stop" of the diagnostics is "lost".

    Args:
        problem: one that `require_movable` takes.
        edge_odds: prior odds of an edge.
        ladder: how the chains run.
        start: where the second chain starts; None for a random tree.
        limits: time, threads, seed.
        report: is asked whether to continue.

    Raises:
        StoppedError: the report asked to end before anything could be compared.
        ClusterLostError, WorkersLostError: the cluster was lost before.
    """
    run = _Run(problem, edge_odds, ladder, start, limits)
    sample: Sample | None = None
    for rounds in _stages(run.rounds):
        try:
            run.space_temperatures()
            run.until(rounds, report)
        except (StoppedError, ClusterLostError, WorkersLostError) as error:
            if sample is None:
                raise
            sample = run.sample()
            if not isinstance(error, StoppedError):
                sample.diagnostics["stop"] = Stop.LOST.value
            return sample
        sample = run.sample()
        if sample.converged:
            break
    assert sample is not None, "a ladder has rounds"
    return sample


class Scores(NamedTuple):
    """What weighs a graph, and how it is moved.

    Attributes:
        table: the scores in colex order, in nats.
        before: see `kernels.edge_chain.score_of`.
        largest: the size of the largest clique.
        log_odds: ln of the prior odds of an edge.
        forbidden: shape (n, words): the vertices to which a vertex must not be adjacent.
        branches: the share of proposals to move a branch.
        exchanges: the share of proposals of an edge for another.
        several: the share of the others in which X and Y may have several members.
    """

    table: NDArray[np.float64]
    before: NDArray[np.int64]
    largest: int
    log_odds: float
    forbidden: NDArray[np.uint32]
    branches: float
    exchanges: float
    several: float


class _Shared(NamedTuple):
    """What all chains read."""

    betas: NDArray[np.float64]
    steps: int
    scores: Scores
    partners: Partners
    blocks: Blocks | None


class _ChainState(NamedTuple):
    """Where a chain is; see `kernels.edge_chain` for all but the last: blocks tried, and blocks drawn."""

    random: NDArray[Any]
    rows: NDArray[Any]
    logs: NDArray[Any]
    order: NDArray[Any]
    clock: NDArray[Any]
    counts: NDArray[Any]
    drawn: NDArray[Any]


def _advance(
    shared: _Shared, state: _ChainState, graphs: NDArray[np.uint32], heights: NDArray[np.float64]
) -> None:
    """Runs a chain for as many rounds as there are places in its trace; writes state and trace."""
    from jtsolve.averaging.kernels.edge_chain import run_chain

    for start in range(0, len(heights), CHAINS.piece):
        part = slice(start, min(start + CHAINS.piece, len(heights)))
        rounds = part.stop - start
        random, rows, logs, order, clock, counts, drawn = state
        run_chain(
            random,
            rows,
            logs,
            order,
            clock,
            shared.betas,
            rounds,
            shared.steps,
            shared.scores,
            shared.partners,
            graphs[part],
            heights[part],
            counts,
        )
        if shared.blocks is not None:
            cold, drawn[0] = order[0], drawn[0] + 1
            generator = np.random.default_rng(int(random[0]))
            if found := shared.blocks.redraw(neighbours_of(rows[cold][None])[0], generator):
                rows[cold], drawn[1] = words_of(found[0]), drawn[1] + 1
                logs[cold] += found[1]


def _advanced(
    shared: _Shared, rounds: int, state: _ChainState
) -> tuple[_ChainState, NDArray[np.uint32], NDArray[np.float64]]:
    """Returns the state of a chain after some rounds, and its trace; called on a worker."""
    state = _ChainState(*(array.copy() for array in state))
    graphs, heights = np.zeros((rounds, *state.rows.shape[1:]), np.uint32), np.zeros(rounds)
    _advance(shared, state, graphs, heights)
    return state, graphs, heights


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
        forbidden = [0] * n
        for edge in problem.constraints.forbidden_edges:
            for v in members(edge):
                forbidden[v] |= edge ^ (1 << v)
        each = ladder.chains * 4 * n * word_count(n)  # bytes a round
        if ladder.rounds is None and limits.time is not None:
            self.rounds = max(CHAINS.rounds, limits.memory_bytes // (2 * each))
        else:
            self.rounds = ladder.rounds or CHAINS.rounds
        if self.rounds * each > limits.memory_bytes:
            raise LimitError(
                f"the graphs of {ladder.chains} chains of {self.rounds} rounds need "
                f"{self.rounds * each / 1e9:.3g} GB for {n} variables, but the memory limit is "
                f"{limits.memory_bytes / 1e9:.3g} GB. Fix: fewer rounds"
            )
        before = np.array(
            [[count_bounded_subsets(v, k) for k in range(largest + 1)] for v in range(n)], np.int64
        )
        table = colex_table(problem.scores, largest)
        scores = Scores(
            table,
            before,
            largest,
            log(edge_odds),
            words_of(forbidden),
            CHAINS.branches,
            CHAINS.exchanges,
            float(ladder.several),
        )
        blocks = None
        if ladder.block and start is not None:
            score = problem.scores.score
            blocks = blocks_of(start, ladder.block, score, largest, odds=edge_odds, forbidden=forbidden)
        worths = worths_of(problem)
        betas = exponents(worths, ladder.temperatures, ladder.hottest)
        steps = max(CHAINS.steps, 4 * n) if n > 1 else 0  # one variable has no pair
        self.shared = _Shared(betas, steps, scores, partners_of(worths), blocks)
        generator = np.random.default_rng(limits.seed)
        shape = (ladder.chains, temperatures := len(betas))
        self.states = generator.integers(1, 1 << 63, (ladder.chains, 1)).astype(np.uint64)
        starts = [[0] * n]
        if start is not None:
            starts.append(_neighbours(n, start.graph_edges))
        while len(starts) < ladder.chains:
            starts.append(_random_tree(generator, n, forbidden, largest))
        starts = starts[: ladder.chains]
        words = np.stack([words_of(neighbours) for neighbours in starts])
        self.rows = np.repeat(words[:, None], temperatures, axis=1)
        self.logs = np.zeros(shape)
        for chain, neighbours in enumerate(starts):
            tree = JunctionTree.from_neighbours(neighbours)
            self.logs[chain] = tree.score(problem.scores) + log(edge_odds) * len(tree.graph_edges)
        self.order = np.tile(np.arange(temperatures), (ladder.chains, 1))
        self.clock = np.zeros((ladder.chains, 2), np.int64)
        self.clock[:, 1] = min(CHAINS.cooling * n, self.rounds // 2) if temperatures > 1 else 0
        if start is not None:
            self.clock[1, 1] = 0
        self.counts = np.zeros((ladder.chains, 2 + 2 * temperatures), np.int64)
        self.drawn = np.zeros((ladder.chains, 2), np.int64)
        self.graphs = np.zeros((ladder.chains, self.rounds, *words.shape[1:]), np.uint32)
        self.heights = np.zeros((ladder.chains, self.rounds))
        self.done = self.spaced = 0
        self.swaps = np.zeros((ladder.chains, temperatures - 1), np.int64)

    def state(self, chain: int) -> _ChainState:
        """Returns where a chain is: views."""
        arrays = (self.states, self.rows, self.logs, self.order, self.clock, self.counts, self.drawn)
        return _ChainState(*(array[chain] for array in arrays))

    def exchanges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the accepted and the tried exchanges of each pair since the temperatures were spaced."""
        pairs = np.arange(len(self.shared.betas) - 1)
        parity = pairs % 2
        first = np.minimum(np.maximum(self.clock[:, 1:], self.spaced), self.done)
        tried = (self.done + 1 - parity) // 2 - (first + 1 - parity) // 2
        return (self.counts[:, 3 + pairs] - self.swaps).sum(axis=0), tried.sum(axis=0)

    def space_temperatures(self) -> None:
        """Spaces the temperatures by the exchanges since they were last spaced."""
        if self.done and len(self.shared.betas) > 2:  # noqa: PLR2004 - the ends stay
            accepted, tried = self.exchanges()
            betas = respaced(self.shared.betas, 1 - accepted / np.maximum(1, tried))
            self.shared = self.shared._replace(betas=betas)
            self.spaced = self.done
            self.swaps = self.counts[:, 3 : 2 + len(betas)].copy()

    def until(self, rounds: int, report: Report) -> None:
        """Runs all chains up to a number of rounds."""
        if self.ladder.cluster is None:
            self._in_threads(rounds, report)
        else:
            self._on(self.ladder.cluster, rounds, report)

    def _on(self, cluster: Cluster, rounds: int, report: Report) -> None:
        """Runs each chain as a task for a while, again and again."""
        if not report(note="chains"):  # before workers start
            raise StoppedError
        with cluster.connected() as workers:
            shared = workers.share(self.shared)
            while self.done < rounds:
                self._round(workers, shared, slice(self.done, min(self.done + CHAINS.task, rounds)), report)

    def _round(self, workers: Workers, shared: Future, part: slice, report: Report) -> None:
        """Runs each chain as one task, which returns its state and trace."""
        futures = [
            workers.submit(_advanced, shared, part.stop - part.start, self.state(i))
            for i in range(self.ladder.chains)
        ]
        places = {future.key: i for i, future in enumerate(futures)}
        found = {}
        with closing(workers.as_completed(futures, stop=lambda: not report(note="chains"))) as finished:
            for future in finished:
                found[places[future.key]] = workers.taken(future)
        if len(found) < self.ladder.chains:
            raise StoppedError
        for i, (state, graphs, heights) in found.items():
            for array, value in zip(self.state(i), state, strict=True):
                array[:] = value
            self.graphs[i, part], self.heights[i, part] = graphs, heights
        self.done = part.stop
        report(done=self.done / self.rounds, note="chains")

    def _in_threads(self, rounds: int, report: Report) -> None:
        """Runs the chains a hundred rounds at a time."""
        from jtsolve.core.compiling import announced

        with announced(lambda: report(note="compiling the kernels (first run only)")):
            pool = ThreadPoolExecutor(self.workers)
            try:
                while self.done < rounds:
                    part = slice(self.done, min(self.done + CHAINS.piece, rounds))
                    tasks = [
                        partial(
                            _advance, self.shared, self.state(i), self.graphs[i, part], self.heights[i, part]
                        )
                        for i in range(self.ladder.chains)
                    ]
                    done = part.stop / self.rounds
                    run_tasks(pool, tasks, lambda _i, done=done: report(done=done, note="chains"))  # type: ignore[misc]
                    self.done = part.stop
            finally:
                pool.shutdown(cancel_futures=True)

    def sample(self) -> Sample:
        """Returns what was seen after the first half, the warm-up, and whether the chains agree."""
        kept = slice(self.done // 2, self.done)
        graphs, heights = self.graphs[:, kept], self.heights[:, kept]
        shares = edge_shares(graphs)
        upper = np.triu_indices(self.n, 1)
        means = shares.mean(axis=0)[upper]
        sizes = np.bitwise_count(graphs).sum(axis=(2, 3)) / 2
        r_hats = [split_r_hat(heights), split_r_hat(sizes)]
        effective, beyond = min(effective_size(heights), effective_size(sizes)), 0.0
        for u, v, p in zip(*(index.tolist() for index in upper), means, strict=True):
            if CHAINS.certain < p < 1 - CHAINS.certain:
                trace = edge_trace(graphs, u, v)
                r_hats.append(split_r_hat(trace))
                effective = min(effective, effective_size(trace))
                beyond = max(beyond, _beyond_error(trace))
        difference = float((shares.max(axis=0) - shares.min(axis=0)).max())
        proposals, accepted, trips = self.counts[:, :3].sum(axis=0).tolist()
        temperatures, (exchanged, proposed) = len(self.shared.betas), self.exchanges()
        swap_rates = (exchanged[proposed > 0] / proposed[proposed > 0]).tolist()
        converged = (
            self.clock[:, 1].max() <= kept.start
            and max(r_hats) <= CHAINS.most_r_hat
            and effective >= CHAINS.least_size
            and beyond <= CHAINS.most_difference
        )
        diagnostics = {
            "chains": self.ladder.chains,
            "temperatures": temperatures,
            "hottest": float(self.shared.betas[-1]),
            "proposals": proposals * temperatures,
            "rounds": self.done,
            "acceptance": accepted / max(1, proposals),
            "r_hat": {
                "score": _finite(r_hats[0]),
                "edges_in_graph": _finite(r_hats[1]),
                "worst_edge": _finite(max(r_hats[2:], default=1.0)),
            },
            "effective_sample_size": effective,
            "largest_difference": difference,
            "difference_beyond_error": beyond,
            "least_swap_rate": min(swap_rates, default=None),
            "round_trips": trips,
        }
        if self.shared.blocks is not None:
            tried, drawn = self.drawn.sum(axis=0).tolist()
            diagnostics |= {"block": self.ladder.block, "blocks_tried": tried, "blocks_drawn": drawn}
        return Sample(graphs, heights, bool(converged), diagnostics)


def _beyond_error(traces: NDArray[np.float64]) -> float:
    """Returns the largest difference between the means of two chains, less what its errors explain."""
    means = traces.mean(axis=1)
    errors = np.array([standard_error(trace[None]) for trace in traces])
    differences = np.abs(means[:, None] - means) - CHAINS.error_bound * np.hypot(errors[:, None], errors)
    return max(0.0, float(differences.max()))


def _finite(value: float) -> float | None:
    """Returns a number for JSON: None for R̂ of chains that never moved and differ."""
    return value if np.isfinite(value) else None


def edge_trace(graphs: NDArray[np.uint32], u: int, v: int) -> NDArray[np.float64]:
    """Returns 1 where a graph has the edge, else 0: shape (chains, rounds)."""
    trace: NDArray[np.float64] = (graphs[:, :, u, v // WORD] >> v % WORD & 1).astype(np.float64)
    return trace


def edge_shares(graphs: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Returns in which share of the graphs of each chain each edge is: shape (chains, n, n)."""
    n = graphs.shape[2]
    shares = [(graphs[..., v // WORD] >> v % WORD & 1).mean(axis=1) for v in range(n)]
    return np.stack(shares, axis=2)


def word_count(n: int) -> int:
    """Returns the words of a row of n bits."""
    return -(-n // WORD)


def words_of(neighbours: Sequence[VarSet]) -> NDArray[np.uint32]:
    """Returns the rows of a graph in words: shape (n, words)."""
    n = len(neighbours)
    data = b"".join(mask.to_bytes(4 * word_count(n), "little") for mask in neighbours)
    return np.frombuffer(data, "<u4").astype(np.uint32).reshape(n, -1)


def neighbours_of(graphs: NDArray[np.uint32]) -> list[tuple[VarSet, ...]]:
    """Returns the neighbours of each vertex, of graphs of any shape (…, n, words)."""
    data = np.ascontiguousarray(graphs, "<u4").reshape(-1, *graphs.shape[-2:])
    return [tuple(int.from_bytes(row.tobytes(), "little") for row in rows) for rows in data]


def _neighbours(n: int, edges: Iterable[tuple[int, int]]) -> list[VarSet]:
    neighbours = [0] * n
    for u, v in edges:
        neighbours[u] |= 1 << v
        neighbours[v] |= 1 << u
    return neighbours


def _random_tree(
    generator: np.random.Generator, n: int, forbidden: Sequence[VarSet], largest: int
) -> list[VarSet]:
    """Returns a random forest without forbidden edges: each vertex joins an earlier one."""
    order = generator.permutation(n).tolist()
    edges = []
    for i, v in enumerate(order[1:] if largest > 1 else [], start=1):
        u = order[int(generator.integers(i))]
        if not forbidden[v] >> u & 1:
            edges.append((u, v))
    return _neighbours(n, edges)
