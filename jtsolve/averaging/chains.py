"""Markov chains over decomposable graphs, for problems beyond exact sums.

Chains have different starts (the graph without edges, the best tree, random trees). Each is a ladder of
temperatures, whose neighbours exchange their graphs: a chain at one temperature that changes single edges can
remain in one of two modes of a posterior for ever, and appear stationary. All chains but that of the best
tree cool down to their temperatures first, since their coldest graphs would freeze at the start; while they
cool, the graphs of a chain are resampled in proportion to their weights. The temperatures are spaced again
(`moves.respaced`) whenever the chains are compared. If the chains disagree, the posterior is marked as not
converged.

Each graph counts once, in proportion to e^score · odds^edges: no junction trees are counted. Proposals add
or remove an edge, exchange one for another, or move a branch of the graph (`kernels.edge_chain`).

Scores come from a table, or on demand where the table would be too large (`score_table`), with the same
result.

Time: about 3·10^6 proposals per second and core; a round has 10^2, or 4n, proposals at each temperature, and
as many more at exponent 1. Memory: n²/8 bytes per round and chain.

References: see `kernels.edge_chain` and `traces`.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from math import inf, log
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.averaging.method import Draws, Tabulated, best_tree, require_supported
from jtsolve.averaging.moves import (
    ChainScores,
    ChainSetup,
    ChainState,
    advanced,
    exponents,
    proposals_of,
    respaced,
    run_rounds,
    worths_of,
)
from jtsolve.averaging.score_table import (
    MOST_SETS,
    RoundedScores,
    ScoresOnDemand,
    has_every_score,
)
from jtsolve.averaging.traces import (
    Demands,
    Sample,
    agreement_of,
    packed_neighbours,
    posterior_from_sample,
    word_count,
)
from jtsolve.cluster import ClusterLostError, WorkersLostError
from jtsolve.core.backend import Capabilities, lacks_table
from jtsolve.core.problem import ProblemFeature
from jtsolve.core.result import Stop
from jtsolve.core.scores import StoppedError
from jtsolve.core.threads import Pool, run_tasks
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import count_bounded_subsets, members, neighbours_of
from jtsolve.errors import ChoiceError, LimitError, NotConvergedError
from jtsolve.options import MEMORY, TIME, TREEWIDTH
from jtsolve.scoring.colex import ColexOrder
from jtsolve.scoring.problem import Tabulation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.averaging.method import Query
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.cluster import Cluster, Future, Workers
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits, Run
    from jtsolve.core.varset import VarSet


_FEWEST = 100
"""Minimum number of rounds for a comparison of chains."""
_MOST_TEMPERATURES = 10_000
"""With so many, 100 rounds on bridges (12 variables) take more than three seconds."""


@dataclass(frozen=True, slots=True)
class ChainConstants:
    """The constants of the chains."""

    demands: Demands = Demands()  # noqa: RUF009 - a frozen value
    rounds: int = 40_000
    """Maximum number of rounds of a chain without limits of rounds and time."""
    task: int = 10
    """Pieces of a task on a cluster, about a second: the loss if the cluster is lost."""
    steps: int = 100
    """Proposals at a temperature in a round, or four per variable if that is more: exchanges are frequent at
    little cost. Exponent 1, whose graphs are the sample, has as many as all others together: for the same
    work, the smallest effective size with 200 variables is 32 times as large, that of flare 1.6 times."""
    branches: float = 0.5
    exchanges: float = 0.25
    """Shares of the proposals that move a branch, and that exchange two edges; measured on plants."""
    cooling: int = 50
    """Rounds of cooling per variable, at most half of all rounds: about 10^6 proposals for a graph of 69
    variables."""
    cooled: float = 0.25
    """Maximum share of a time limit for cooling."""
    tables: float = 0.125
    """Share of the memory for the hash tables of scores on demand, all chains together."""
    slots: int = 1 << 14
    wanted: int = 1 << 12
    """See `score_table.ScoresOnDemand`."""
    search: float = 20.0
    """Maximum seconds of the search for the best tree, the start of one chain; less under a time limit."""


CHAINS = ChainConstants()


def _numbers_sets(problem: Problem) -> str | None:
    if count_bounded_subsets(problem.n, problem.max_clique_size) <= MOST_SETS:
        return None
    return (
        f"{problem.n} variables have too many sets of up to {problem.max_clique_size} variables; bound "
        "the treewidth."
    )


MOVABLE = Capabilities(
    features=frozenset(
        {ProblemFeature.MAX_TREEWIDTH, ProblemFeature.FORBIDDEN_EDGES, ProblemFeature.REAL_VARIABLES}
    ),
    rules=(has_every_score, _numbers_sets),
)
"""Constraints that chains support: those that the removal of an edge preserves."""


FOR_CHAINS = Tabulation(seconds=60.0, share=0.25)
"""A table of millions of sets costs less than half as many scores on demand."""


@dataclass(frozen=True, slots=True)
class Chains(Tabulated):
    """Chains of graphs at several temperatures, which run until convergence.

    Args:
        chains: number of chains, at least 2.
        temperatures: number of temperatures, at most 10,000; 1 for no tempering; none: chosen by the scores.
        rounds: maximum number of rounds, with 100 proposals, or four per variable, at each temperature; none:
            as many as fit into half of the memory, and at most 40,000 without a time limit.

    Raises:
        ChoiceError: a number is out of range.
    """

    name: ClassVar[str] = "chains"
    rule: ClassVar[Tabulation] = FOR_CHAINS

    chains: int = 4
    temperatures: int | None = None
    rounds: int | None = None

    def __post_init__(self) -> None:
        if self.chains < 2:  # noqa: PLR2004 - a comparison needs two
            raise ChoiceError(f"the number of chains is {self.chains}; a comparison needs 2 or more")
        if self.temperatures is not None and not 1 <= self.temperatures <= _MOST_TEMPERATURES:
            raise ChoiceError(
                f"the number of temperatures is {self.temperatures}; give 1 to {_MOST_TEMPERATURES}"
            )
        if self.rounds is not None and self.rounds < _FEWEST:
            raise ChoiceError(f"the number of rounds is {self.rounds}; a comparison needs {_FEWEST} or more")

    def average(self, query: Query) -> GraphPosterior:
        """See `AveragingMethod`. The posterior records whether the chains have converged."""
        with query.working():
            best, sample, seconds = self._run(query)
            return query.posterior(
                best, seconds={"chains": seconds}, **posterior_from_sample(sample, query.threshold)
            )

    def draw(self, query: Query, count: int) -> Draws:
        """See `AveragingMethod`; the graphs of all chains, equally spaced."""
        with query.working():
            _, sample, _ = self._run(query)
            if query.run.stop is Stop.INTERRUPTED:
                raise KeyboardInterrupt
        if not sample.converged:
            found = sample.diagnostics
            raise NotConvergedError(
                f"the chains disagree after {found['rounds']} rounds, by up to "
                f"{found['largest_difference']:.2f} in the probability of an edge: trees drawn from them "
                f"would not be from the posterior. Ways out: a smaller {TREEWIDTH}, for which exact draws "
                f"fit, more rounds, or a larger {TIME}"
            )
        return Draws(tuple(sample.draw(count)), "chains", sample.diagnostics)

    def _run(self, query: Query) -> tuple[JunctionTree | None, Sample, float]:
        """Returns the start of the second chain, the sample, and the seconds of the chains."""
        require_supported(query.problem, MOVABLE, "chains")
        # A search that leaves the chains most of the time.
        start = best_tree(query.problem, query.run.part(min(CHAINS.search, 0.2 * query.run.left)))
        began = query.run.elapsed
        sample = run_chains(
            query.problem,
            query.edge_odds,
            query.run,
            how=self,
            start=start,
            cluster=query.cluster,
        )
        return start, sample, query.run.elapsed - began


def run_chains(
    problem: Problem,
    edge_odds: float,
    run: Run,
    *,
    how: Chains,
    start: JunctionTree | None,
    cluster: Cluster | None = None,
    constants: ChainConstants = CHAINS,
) -> Sample:
    """Runs chains until convergence, the last round, or the time limit.

    If the cluster is lost, `diagnostics["stop"]` is "lost".

    Args:
        problem: one that `MOVABLE` supports.
        edge_odds: prior odds of an edge.
        how: the options.
        start: start of the second chain; None for a random tree.
        cluster: runs each chain as tasks, with the same result; None for threads of this process.
        run: time, threads, seed and progress.
        constants: constants of the chains.

    Raises:
        StoppedError: the run stops before the first comparison.
        ClusterLostError, WorkersLostError: the cluster is lost before the first comparison.
    """
    problem = problem.guarded(run)
    running = _RunningChains(problem, edge_odds, how, start, run, cluster=cluster, constants=constants)
    sample: Sample | None = None
    for rounds in _stages(running.rounds):
        try:
            # The rates of exchange so far determine the temperatures of the next stage.
            if sample is None and run.left < inf:
                running.pace_cooling()
            running.space_temperatures()
            running.until(rounds)
        except (StoppedError, ClusterLostError, WorkersLostError) as error:
            if running.done < _FEWEST:  # too few to compare
                raise
            sample = running.sample()
            if not isinstance(error, StoppedError):
                sample.diagnostics["stop"] = Stop.LOST.value
            return sample
        sample = running.sample()
        if sample.converged:
            break
    assert sample is not None, "there are rounds"
    return sample


def _stages(rounds: int) -> Iterator[int]:
    """Yields the numbers of rounds at which chains are compared: from 2,000, each larger by half."""
    stage = min(2000, rounds)
    while True:
        yield stage
        if stage == rounds:
            return
        stage = min(3 * stage // (2 * _FEWEST) * _FEWEST, rounds)


def _most_rounds(n: int, how: Chains, limits: Limits, most: int) -> int:
    """Returns the number of rounds: as requested, or as many as fit into half of the memory.

    Raises:
        LimitError: the graphs exceed the memory limit.
    """
    each = how.chains * 4 * n * word_count(n)  # bytes
    rounds = how.rounds
    if rounds is None:
        fitting = max(_FEWEST, limits.memory_bytes // (2 * each))
        rounds = min(most, fitting) if limits.time is None else fitting
    if rounds * each > limits.memory_bytes:
        raise LimitError(
            f"the graphs of {how.chains} chains of {rounds} rounds need {rounds * each / 1e9:.3g} GB for "
            f"{n} variables, but the memory limit is {limits.memory_bytes / 1e9:.3g} GB. Fix: fewer rounds, "
            f"or a larger {MEMORY}"
        )
    return rounds


class _RunningChains:
    """Running chains and their traces."""

    def __init__(
        self,
        problem: Problem,
        edge_odds: float,
        how: Chains,
        start: JunctionTree | None,
        run: Run,
        *,
        cluster: Cluster | None,
        constants: ChainConstants,
    ) -> None:
        n, largest = problem.n, problem.max_clique_size
        self.chains, self.cluster, self.run = how.chains, cluster, run
        self.constants = constants
        real = problem.constraints.real_variables
        self.discrete = ~real & (1 << n) - 1 if real else 0
        forbidden = neighbours_of(n, map(members, problem.constraints.forbidden_edges))
        self.rounds = _most_rounds(n, how, run.limits, constants.rounds)
        log_odds = log(edge_odds)
        # Odds and scores are multiples of one unit: the sum for a graph is exact, whatever the path to it.
        rounded, colex = RoundedScores.of(problem, log_odds), ColexOrder(n, largest)
        log_odds = rounded.multiple(log_odds)
        on_demand = None
        if lacks_table(problem):
            room = int(constants.tables * run.memory / how.chains)
            on_demand = partial(ScoresOnDemand, rounded, colex, room, constants.slots, constants.wanted)
        table = rounded.table(largest) if on_demand is None else on_demand().table
        self.on_demand = [None if on_demand is None else on_demand() for _ in range(how.chains)]
        scores = ChainScores(
            *table,
            colex.before,
            largest,
            log_odds,
            packed_neighbours(self._with_star(forbidden, frozen=True)),
            n if self.discrete else -1,
        )
        worths = worths_of(problem)
        proposals = proposals_of(worths, constants.branches, constants.exchanges)
        betas = exponents(worths, how.temperatures)
        steps = max(self.constants.steps, 4 * n) if n > 1 else 0  # one variable has no pair
        self.setup = ChainSetup(betas, steps, scores, on_demand, proposals)
        generator = np.random.default_rng(run.seed)
        shape = (how.chains, temperatures := len(betas))
        self.states = generator.integers(1, 1 << 63, (how.chains, 1 + temperatures)).astype(np.uint64)
        # Starts far apart: the graph without edges, the best tree, random trees.
        starts = [[0] * n]
        if start is not None:
            starts.append(neighbours_of(n, start.graph_edges))
        while len(starts) < how.chains:
            starts.append(_random_tree(generator, forbidden, self.discrete, largest))
        starts = starts[: how.chains]
        words = np.stack([packed_neighbours(self._with_star(neighbours)) for neighbours in starts])
        self.rows = np.repeat(words[:, None], temperatures, axis=1)
        self.logs = np.zeros(shape)
        for chain, neighbours in enumerate(starts):
            tree = JunctionTree.from_neighbours(neighbours)
            self.logs[chain] = tree.score(rounded) + log_odds * len(tree.graph_edges)
        self.order = np.tile(np.arange(temperatures), (how.chains, 1))
        self.clock = np.zeros((how.chains, 2), np.int64)
        self.clock[:, 1] = min(self.constants.cooling * n, self.rounds // 2) if temperatures > 1 else 0
        if start is not None:  # the best tree is cold already
            self.clock[1, 1] = 0
        self.counts = np.zeros((how.chains, 1 + temperatures), np.int64)
        self.graphs = np.zeros((how.chains, 0, *words.shape[1:]), np.uint32)
        self.heights = np.zeros((how.chains, 0))
        self.done = self.spaced = 0
        self.swaps = np.zeros((how.chains, temperatures - 1), np.int64)

    def _with_star(self, neighbours: Sequence[VarSet], *, frozen: bool = False) -> list[VarSet]:
        """Returns neighbours with those of the star: the discrete variables; all, for frozen pairs."""
        n = len(neighbours)
        if not self.discrete:
            return list(neighbours)
        own = (1 << n) - 1 if frozen else self.discrete
        return [*(around | (own >> v & 1) << n for v, around in enumerate(neighbours)), own]

    def state(self, chain: int) -> ChainState:
        """Returns views of the state of a chain."""
        arrays = (self.states, self.rows, self.logs, self.order, self.clock, self.counts)
        return ChainState(*(array[chain] for array in arrays))

    def exchanges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the accepted and the proposed exchanges of each pair since the last spacing."""
        pairs = np.arange(len(self.setup.betas) - 1)
        parity = pairs % 2
        # A pair exchanges in every other round, after cooling and since the last spacing.
        first = np.minimum(np.maximum(self.clock[:, 1:], self.spaced), self.done)
        tried = (self.done + 1 - parity) // 2 - (first + 1 - parity) // 2
        return (self.counts[:, 2 + pairs] - self.swaps).sum(axis=0), tried.sum(axis=0)

    def space_temperatures(self) -> None:
        """Spaces the temperatures by the exchanges since the last spacing."""
        if self.done and len(self.setup.betas) > 2:  # noqa: PLR2004 - the ends stay
            accepted, tried = self.exchanges()
            betas = respaced(self.setup.betas, 1 - accepted / np.maximum(1, tried))
            self.setup = self.setup._replace(betas=betas)
            self.spaced = self.done
            self.swaps = self.counts[:, 2:].copy()

    def pace_cooling(self) -> None:
        """Runs two pieces, and limits the rounds of cooling to a share of the time left."""
        piece = self.setup.piece
        self.until(min(piece, self.rounds))  # compiles the kernels
        # The second piece, which compiles nothing, gives the seconds of a round.
        began, left = self.run.elapsed, self.run.left
        self.until(min(2 * piece, self.rounds))
        each = (self.run.elapsed - began) / piece
        most = int(self.constants.cooled * max(0.0, left) / max(each, 1e-9))
        self.clock[:, 1] = np.minimum(self.clock[:, 1], max(self.done, most))

    def until(self, rounds: int) -> None:
        """Runs all chains up to a number of rounds."""
        self._reserve(rounds)
        if self.cluster is None:
            self._in_threads(rounds)
        else:
            self._on(self.cluster, rounds)

    def _reserve(self, rounds: int) -> None:
        """Allocates traces for a number of rounds, at least twice the present one."""
        held = self.heights.shape[1]
        if rounds > held:
            more = ((0, 0), (0, min(self.rounds, max(rounds, 2 * held)) - held))
            self.graphs = np.pad(self.graphs, (*more, *((0, 0),) * (self.graphs.ndim - 2)))
            self.heights = np.pad(self.heights, more)

    def _on(self, cluster: Cluster, rounds: int) -> None:
        """Runs each chain as a sequence of tasks."""
        if not self.run.progress(note="chains"):  # before workers start
            raise StoppedError
        with cluster.connected() as workers:
            setup = workers.share(self.setup)
            while self.done < rounds:
                done = min(self.done + self.constants.task * self.setup.piece, rounds)
                self._round(workers, setup, slice(self.done, done))

    def _round(self, workers: Workers, setup: Future, part: slice) -> None:
        """Runs each chain as one task, which returns its state and trace."""
        futures = [
            workers.submit(advanced, setup, part.stop - part.start, self.state(i)) for i in range(self.chains)
        ]
        places = {future.key: i for i, future in enumerate(futures)}
        found = {}
        with closing(
            workers.as_completed(futures, stop=lambda: not self.run.progress(note="chains"))
        ) as finished:
            for future in finished:
                found[places[future.key]] = workers.result_of(future)
        if len(found) < self.chains:
            raise StoppedError
        for i, (state, graphs, heights) in found.items():
            for array, value in zip(self.state(i), state, strict=True):
                array[:] = value
            self.graphs[i, part], self.heights[i, part] = graphs, heights
        self.done = part.stop
        self.run.progress(done=self.done / self.rounds, note="chains")

    def _in_threads(self, rounds: int) -> None:
        """Runs the chains a hundred rounds at a time."""
        with Pool(self.run.threads) as pool:
            while self.done < rounds:
                part = slice(self.done, min(self.done + self.setup.piece, rounds))
                tasks = [
                    partial(
                        run_rounds,
                        self.setup,
                        self.state(i),
                        self.on_demand[i],
                        self.graphs[i, part],
                        self.heights[i, part],
                        stop=lambda: self.run.stop is not None,
                    )
                    for i in range(self.chains)
                ]
                done = part.stop / self.rounds
                run_tasks(pool, tasks, lambda _i, done=done: self.run.progress(done=done, note="chains"))  # type: ignore[misc]
                self.done = part.stop

    def sample(self) -> Sample:
        """Returns the trace after the first half, the warm-up, and whether the chains have converged."""
        kept = slice(self.done // 2, self.done)
        graphs, heights = self.graphs[:, kept], self.heights[:, kept]
        if self.discrete:
            n = graphs.shape[2] - 1
            graphs = graphs[:, :, :n] & packed_neighbours([(1 << n) - 1] * (n + 1))[:n]
            graphs = graphs[..., : word_count(n)]
        agreement = agreement_of(graphs, heights, self.constants.demands)
        proposals, accepted = self.counts[:, :2].sum(axis=0).tolist()
        temperatures, (exchanged, proposed) = len(self.setup.betas), self.exchanges()
        swap_rates = (exchanged[proposed > 0] / proposed[proposed > 0]).tolist()
        diagnostics = {
            "chains": self.chains,
            "temperatures": temperatures,
            "hottest": float(self.setup.betas[-1]),
            "proposals": proposals + self.chains * self.done * self.setup.steps * (temperatures - 1),
            "rounds": self.done,
            "cooling": int(self.clock[:, 1].max()),
            "acceptance": accepted / max(1, proposals),
            **agreement.figures(),
            "least_swap_rate": min(swap_rates, default=None),
        }
        # Graphs of cooling chains follow another distribution: none may be in the second half.
        cooled = self.clock[:, 1].max() <= kept.start
        return Sample(graphs, heights, bool(cooled and agreement.meets(self.constants.demands)), diagnostics)


def _random_tree(
    generator: np.random.Generator, forbidden: Sequence[VarSet], discrete: VarSet, largest: int
) -> list[VarSet]:
    """Returns a random forest without forbidden edges: each vertex is attached to an earlier one.

    Discrete variables come first: no path of real variables connects two of them.
    """
    n = len(forbidden)
    order = sorted(generator.permutation(n).tolist(), key=lambda v: ~discrete >> v & 1)
    edges = []
    for i, v in enumerate(order[1:] if largest > 1 else [], start=1):
        u = order[int(generator.integers(i))]
        if not forbidden[v] >> u & 1:
            edges.append((u, v))
    return neighbours_of(n, edges)
