"""`search`: local search on junction trees, by annealing, tabu search or hill climbing. A heuristic.

It starts from the best tree of some other backends, draws moves of several kinds (`moves`), and accepts some.
`annealing` accepts a move of gain g with probability min(1, exp(g/T)), while T falls geometrically. `tabu`
accepts the best move of a sample, even a loss, unless it brings back a clique that one of the last moves
removed; a tree better than all before is always accepted. `climb` accepts the best move of a sample while it
gains.

A round ends when T has reached its end, or after many samples without a better tree. The next one restarts
from the best tree, the first, or a random one, and may start with perturbed data: a climb under noisy scores.
If anyone else has reported a better tree, that is the best tree from the next round on. Rounds of annealing
become longer and hotter as they fail. Between samples, a tree edge moves to other cliques that contain its
separator: another junction tree of the same graph, with other moves.

All moves of a sample are drawn on the current tree, and their scores are looked up in one batch per size;
annealing then judges them in order until one is accepted, which is equivalent to drawing them one by one.

The moves and the options are described in docs/heuristics.md.

Constraints: a move that violates one is rejected. While gains are summed, a set without a score counts as the
sum of its variables' scores; no accepted tree contains one.

Time: some microseconds for each move drawn, and its scores, independently of the number of variables; a copy
of a better tree, O(n), when it is left.

References:
    Kirkpatrick, Gelatt, Vecchi, Optimization by simulated annealing, Science, 1983. Glover, Tabu search, part
    I, ORSA Journal on Computing, 1989. Elidan, Ninio, Friedman, Schuurmans, Data perturbation for escaping
    local maxima in learning, AAAI 2002 (they reweight the data; here the scores get normal noise).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf
from random import Random
from typing import TYPE_CHECKING, ClassVar, Literal

from jtsolve.backends.search.moves import MOVES, Move, Proposals
from jtsolve.backends.search.scores import BYTES_PER_SCORE, CACHED_SCORES, CachedScores
from jtsolve.backends.support.mutable_tree import MutableTree
from jtsolve.backends.support.remembered import remembered
from jtsolve.backends.support.report import NewIncumbents
from jtsolve.backends.support.starts import best_start, least_gain
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.core.problem import ALL_FEATURES, Feature, Problem
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.varset import is_subset, key_of

if TYPE_CHECKING:
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet


@dataclass(frozen=True, slots=True)
class _Tuning:
    """The constants of the search."""

    least_sample: int = 8
    most_sample: int = 64
    """Moves in a sample of annealing at least, and in any sample at most."""
    cooled: float = 0.02
    """T at the end of a round, relative to its start."""
    coolest: float = 0.06
    """T at the start of the first round, relative to the highest: short cold rounds improve a good start at
    once, while hot ones have to be long."""
    first_round: int = 100
    """Moves drawn per variable in the first round of annealing, but at most 3 n² in all."""
    growth: float = 2.0
    """Factor by which a round is longer and hotter than the one before it, if that failed."""
    few: int = 16
    """Variables up to which the search ends after as many moves as with these: with few variables and a bound
    on the number of cliques, most moves are refused, and n³ are soon over."""
    patience: int = 2
    """Consecutive samples per variable without a better tree before a round of `tabu` or `climb` ends."""
    walk: int = 4
    """Moves per variable of the random walk to a random tree."""
    partners: int = 12
    """Partners of each variable that moves prefer."""
    most_paired: int = 512
    """Variables up to which all pairs are scored to find partners: a few seconds for 10^4 rows."""
    rehung: int = 2
    """Tree edges that move before each sample."""


_TUNING = _Tuning()


@dataclass(frozen=True, slots=True)
class LocalSearch:
    """Local search on junction trees: annealing, tabu search or hill climbing. Heuristic.

    It supports all constraints but `forbidden_graphs`.

    It returns a tree that meets all constraints or none at all, and never claims that there is none.

    Args:
        start: backends that give first trees, of which the best is taken.
        method: how moves are chosen.
        temperature: the highest T at the start of a round of annealing, as a multiple of the first tree's
            gain over the empty graph per variable; at least 0.
        tabu: samples for which a removed clique may not come back, at least 1.
        restart: where the rounds after the first start.
        noise: of the perturbed data after a restart: the standard deviation, in the unit of `temperature`; 0
            for none.
        patience: the search ends after the round in which `patience`·n³ consecutive moves, with n at least
            16, gave no better tree; above 0.
        steps: the largest number of moves to draw; None for no limit.

    Raises:
        ValueError: there is no start, or a number is out of range.
    """

    start: tuple[Backend, ...]
    method: Literal["annealing", "tabu", "climb"] = "annealing"
    temperature: float = 0.5
    tabu: int = 20
    restart: Literal["best", "first", "random"] = "best"
    noise: float = 0.0
    patience: float = 10.0
    steps: int | None = None

    name: ClassVar[str] = "search"

    def __post_init__(self) -> None:
        if not self.start:
            raise ValueError("there is no backend to start from; give at least one, such as forward")
        if not 0 <= self.temperature < inf or not 0 <= self.noise < inf:
            raise ValueError("temperature and noise must be at least 0, and finite")
        if not 0 < self.patience < inf:
            raise ValueError("patience must be above 0, and finite")
        if self.tabu < 1 or (self.steps is not None and self.steps < 1):
            raise ValueError("tabu and steps must be at least 1")

    @property
    def capabilities(self) -> Capabilities:
        """All constraints but `forbidden_graphs`; it improves the trees of others."""
        return Capabilities(
            features=ALL_FEATURES - {Feature.FORBIDDEN_GRAPHS},
            rank=1 + max(one.capabilities.rank for one in self.start),
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`: the starts, the cached scores, and the rounds."""
        starts = [backend.estimate(problem, limits) for backend in self.start]
        memory = max(start.memory for start in starts) + BYTES_PER_SCORE * CACHED_SCORES + 5000 * problem.n
        return Estimate(memory, sum(start.seconds for start in starts) + 0.2 * problem.n)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        self.estimate(problem, limits).require_memory(self.name, limits)
        best = best_start(self.start, problem, limits, report)
        if best is None:
            return Outcome(None, stop=report.stop or Stop.FINISHED, stats={"note": "no start gave a tree"})
        if problem.max_clique_size == 1 or problem.n == 1:
            return Outcome(best)  # the only tree
        return _MoveSearch(self, problem, limits, report, best).outcome()


class _MoveSearch:
    """The state of the search: the current tree, the best tree, and the round."""

    def __init__(
        self, options: LocalSearch, problem: Problem, limits: Limits, report: Report, start: JunctionTree
    ) -> None:
        self.options, self.problem, self.report = options, problem, report
        self.tolerance = least_gain(problem, start)
        self.random = Random(limits.seed)  # noqa: S311 - nothing here is secret
        self.scores = CachedScores(problem.scores, self.random)
        partners = self.scores.partners(_TUNING.partners) if problem.n <= _TUNING.most_paired else []
        self.proposals = Proposals(self.random, problem.max_clique_size, partners)
        self.good_clique = remembered(problem.permits_clique, problem.n)
        self.good_separator = remembered(problem.permits_separator, problem.n)
        self.max_cliques = min(problem.n, problem.constraints.max_cliques or problem.n)
        self.first = MutableTree(start)
        self.tree, self.value = self.first.copy(), start.score(problem.scores)
        self.first_value = self.reported = self.best_value = self.value
        self.best = self.tree.copy()
        self.incumbents = NewIncumbents(report)
        # Makes temperatures and noise independent of the scale of the scores.
        self.unit = abs(self.value - self.scores.empty_graph) / problem.n
        self.key = key_of(problem.n)
        self.tabu: dict[
            int | bytes, int
        ] = {}  # from cliques' keys to the last sample in which they may not come back
        self.looked_at = self.taken = self.samples = self.rounds = 0
        self.stop: Stop | None = None

    def outcome(self) -> Outcome:
        """Runs the search."""
        idle = last = 0
        patience = self.options.patience * max(self.problem.n, _TUNING.few) ** 3
        while self.stop is None and self.looked_at - last < patience:
            before = self.best_value
            if self.rounds:
                self.restart()
            self.round(idle)
            self.rounds += 1
            self.tell()
            idle += 1
            if self.best_value > before + self.tolerance:
                idle, last = 0, self.looked_at
        stats = {"looked_at": self.looked_at, "taken": self.taken, "rounds": self.rounds}
        return Outcome(self.best.frozen(), stop=self.stop or Stop.FINISHED, stats=stats)

    def restart(self) -> None:
        """Goes to the start of the next round, and perturbs the data there."""
        self.report(note=f"round {self.rounds + 1}")
        self.adopt()
        first = self.options.restart == "first"
        self.tree = (self.first if first else self.best).copy()
        self.value = self.first_value if first else self.best_value
        self.tabu = {}
        if self.options.restart == "random":
            # At an infinite temperature every move is accepted: a random walk.
            self.anneal(_TUNING.walk * self.problem.n, inf)
        if self.options.noise:
            self.scores.perturb(self.options.noise * self.random.random() * self.unit)
            self.climb(1 + self.problem.n // 8)
            self.scores.perturb(0.0)

    def adopt(self) -> None:
        """Takes the report's incumbent if it scores more."""
        tree = self.incumbents.take()
        if tree is not None and (score := tree.score(self.problem.scores)) > self.best_value + self.tolerance:
            self.best, self.best_value, self.reported = MutableTree(tree), score, score

    def round(self, idle: int) -> None:
        """Runs a round, after `idle` rounds without a better tree."""
        if self.options.method == "annealing":
            first = min(_TUNING.first_round, 3 * self.problem.n) * self.problem.n
            growth = _TUNING.growth ** min(idle, 30)
            heat = self.options.temperature * min(1.0, _TUNING.coolest * growth)
            self.anneal(int(first * growth), heat * self.unit)
            self.climb(1 + self.problem.n // 4)
        elif self.options.method == "tabu":
            self.tabu_search(_TUNING.patience * self.problem.n)
        else:
            self.climb(_TUNING.patience * self.problem.n)

    def anneal(self, length: int, temperature: float) -> None:
        """Draws `length` moves while T falls from `temperature`; an infinite one stays infinite."""
        begun, size = self.looked_at, _TUNING.least_sample
        while (done := self.looked_at - begun) < length:
            moves = self.sample(min(size, length - done))
            heat = temperature * _TUNING.cooled ** (done / length)
            # Large batches cost less per move, but an accepted move wastes the rest of its sample.
            size = min(2 * size, _TUNING.most_sample)
            for move in moves:
                self.looked_at += 1
                gain = self.scores.gain(move.plus, move.minus)
                accepted = gain >= 0 or (heat > 0 and self.random.random() < exp(gain / heat))
                if accepted and self.take(move, gain):
                    # The other moves were drawn on the tree before this one.
                    size = max(size // 4, _TUNING.least_sample)
                    break
            if self.stop is not None:
                return

    def climb(self, patience: int) -> None:
        """Takes the best move of each sample if it gains, under the noise."""
        failures = 0
        while failures < patience and self.stop is None:
            failures += 1
            for gain, move in self.ranked():
                if gain <= self.tolerance:
                    break
                # The noise only ranks; the value of the tree is that of the scores themselves.
                if self.take(move, self.scores.gain(move.plus, move.minus)):
                    failures = 0
                    break

    def tabu_search(self, patience: int) -> None:
        """Takes the best move of each sample that is not tabu, or gives a better tree than all before."""
        failures = 0
        while failures < patience and self.stop is None:
            failures += 1
            for gain, move in self.ranked():
                better = self.value + gain > self.best_value + self.tolerance
                if not better and self.is_tabu(move):
                    continue
                if self.take(move, gain):
                    failures = 0 if better else failures
                    self.make_tabu()
                    break

    def is_tabu(self, move: Move) -> bool:
        """Tells whether a move brings back a clique that one of the last moves removed."""
        return any(self.tabu.get(self.key(mask), -1) >= self.samples for mask in _new_cliques(move))

    def make_tabu(self) -> None:
        """Makes the cliques that the last move removed tabu."""
        for node, before in self.tree.touched.items():
            if before is not None and self.tree.cliques.get(node) != before[0]:
                self.tabu[self.key(before[0])] = self.samples + self.options.tabu
        # Entries expire by themselves; this only keeps the dictionary small.
        if len(self.tabu) > 100 * self.options.tabu:
            self.tabu = {key: until for key, until in self.tabu.items() if until >= self.samples}

    def ranked(self) -> list[tuple[float, Move]]:
        """Returns a sample with its gains under the noise, in decreasing order."""
        moves = self.sample(min(_TUNING.most_sample, 4 * self.problem.n))
        self.looked_at += len(moves)
        gains = [
            (self.scores.gain(one.plus, one.minus) + self.scores.noise(one.plus, one.minus), one)
            for one in moves
        ]
        return sorted(gains, key=lambda entry: -entry[0])

    def sample(self, size: int) -> list[Move]:
        """Returns random moves of the current tree, with their scores cached; none if it has to stop."""
        if self.options.steps is not None:
            size = min(size, self.options.steps - self.looked_at)
        self.stop = self.report.stop or (Stop.STEPS if size <= 0 else None)
        if self.stop is not None:
            return []
        self.samples += 1
        for _ in range(_TUNING.rehung):
            self.tree.rehang(self.random)
        moves: list[Move] = []
        for _ in range(size):
            move = MOVES[int(self.random.random() * len(MOVES))](self.tree, self.proposals)
            if move is not None:
                moves.append(move)
        self.looked_at += size - len(moves)
        self.scores.fetch([mask for move in moves for mask in (*move.plus, *move.minus)])
        return moves

    def take(self, move: Move, gain: float) -> bool:
        """Makes a move, unless it violates a constraint."""
        # A copy takes O(n): a better tree is copied only when it is about to be left.
        if gain < 0 and self.value > self.best_value + self.tolerance:
            self.keep()
        self.tree.apply(move.change)
        if not self.permitted():
            self.tree.undo()
            return False
        self.value += gain
        self.taken += 1
        return True

    def permitted(self) -> bool:
        """Tells whether the tree meets the constraints, if it did before the last move."""
        tree = self.tree
        if len(tree.cliques) > self.max_cliques:
            return False
        for node, before in tree.touched.items():
            if node not in tree.cliques:
                continue
            clique = tree.cliques[node]
            if (before is None or before[0] != clique) and not self.good_clique(clique):
                return False
            if not all(self.good_separator(separator) for separator in tree.adjacent[node].values()):
                return False
        return self.holds_required()

    def holds_required(self) -> bool:
        """Tells whether the tree has each required edge that the last move may have removed."""
        required = self.problem.constraints.required_edges
        if not required:
            return True
        # An edge that no changed clique held is still where it was.
        before = [state[0] for state in self.tree.touched.values() if state is not None]
        return all(
            any(is_subset(edge, clique) for clique in self.tree.cliques.values())
            for edge in required
            if any(is_subset(edge, clique) for clique in before)
        )

    def keep(self) -> None:
        """Takes the current tree as the best one."""
        self.best, self.best_value = self.tree.copy(), self.value

    def tell(self) -> None:
        """Reports the best tree."""
        if self.value > self.best_value + self.tolerance:
            self.keep()
        if self.best_value > self.reported:
            tree = self.best.frozen()
            # Sums of differences drift.
            self.best_value = self.reported = tree.score(self.problem.scores)
            self.report(tree=tree)


def _new_cliques(move: Move) -> list[VarSet]:
    """Returns the sets that a move makes cliques, if no neighbour contains them."""
    return [*move.change.masks.values(), *([move.change.fresh] if move.change.fresh >= 0 else [])]
