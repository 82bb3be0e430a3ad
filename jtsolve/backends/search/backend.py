"""`search`: local search on junction trees, by annealing, with a tabu list, or uphill. A heuristic.

It begins with the best tree of some other backends, draws moves of several kinds (`moves`), and takes
some. `annealing` takes a move of gain g with the probability min(1, exp(g/T)), while T falls geometrically.
`tabu` takes the best move of a sample, a loss too, unless it brings back a clique that one of the last moves
took away; a tree that is better than all before is always welcome. `climb` takes the best move of a sample
while it gains.

A round ends when T has reached its end, or after many samples without a better tree. The next one is a
restart from the best tree, the first, or a random one, and may begin with perturbed data: a climb under
noisy scores. If someone else has reported a better tree, that is the best tree from the next round on.
Rounds of annealing become longer and hotter as they fail. Between samples a tree edge moves
to other cliques that hold its separator: another junction tree of the same graph, with other moves.

All moves of a sample are drawn for the tree at hand, and their scores are looked up in one batch a size; in
annealing they are then judged one after the other until one is taken, which is the same as to draw them one
by one.

The moves and the options are described in docs/heuristics.md.

Constraints: a move that breaks one is not taken. Sets without a score count as the sum of their variables'
scores while gains are summed, and are in no tree that is taken.

Time: some microseconds for each move drawn, and its scores, whatever the number of variables; the copy of a
better tree, O(n), when it is left.

References:
    Kirkpatrick, Gelatt, Vecchi, Optimization by simulated annealing, Science, 1983. Glover, Tabu search, part
    I, ORSA Journal on Computing, 1989. Elidan, Ninio, Friedman, Schuurmans, Data perturbation for escaping
    local maxima in learning, AAAI 2002 (there the data are weighted anew; here the scores get normal noise).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf
from random import Random
from typing import TYPE_CHECKING, ClassVar, Literal

from jtsolve.backends.search.moves import MOVES, Drawing, Move
from jtsolve.backends.search.scores import BYTES_PER_SCORE, KEPT, KnownScores
from jtsolve.backends.support.mutable_tree import MutableTree
from jtsolve.core.backend import Backend, Capabilities, Estimate, Limits, Report
from jtsolve.core.problem import ALL_FEATURES, Feature, Problem
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.varset import is_subset

if TYPE_CHECKING:
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet

_TOLERANCE = 1e-7
"""Nats by which a tree has to be better: above the noise of the sums of gains."""
_LEAST, _SAMPLE = 8, 64
"""Moves in a sample of annealing at least, and in any sample at most."""
_COOLED = 0.02
"""T at the end of a round, as a share of T at its beginning."""
_COOLEST = 0.06
"""T at the beginning of the first round, as a share of the highest: cold and short rounds improve a good
start at once, hot ones need to be long."""
_ROUND = 100
"""Moves drawn for each variable in the first round of annealing, but no more than 3 n² in all."""
_LONGER = 2.0
"""By how much a round is longer, and hotter, than the one before it, if that failed."""
_IN_VAIN = 2
"""Samples in a row without a better tree before a round of `tabu` or `climb` ends, for each variable."""
_WALK = 4
"""Moves of the random walk to a random tree, for each variable."""
_PARTNERS = 12
"""Partners of each variable that moves prefer."""
_MOST_PAIRED = 512
"""Variables of a problem whose pairs are all scored to find partners: some seconds for 10^4 rows."""
_REHANG = 2
"""Tree edges that move before each sample."""


@dataclass(frozen=True, slots=True)
class LocalSearch:
    """Local search on junction trees: annealing, tabu list or hill climbing. Heuristic.

    It supports all constraints but `forbidden_graphs`.

    It returns a tree that meets all constraints or none at all, and never claims that there is none.

    Args:
        start: give the first trees; the best is taken.
        method: how moves are chosen.
        temperature: the highest T at the beginning of a round of annealing, as a multiple of what the first
            tree gains on the empty graph per variable; at least 0.
        tabu: samples for which a clique that was taken away may not come back, at least 1.
        restart: where the rounds after the first begin.
        noise: of the perturbed data after a restart: the standard deviation, as a multiple like that of
            `temperature`; 0 for none.
        patience: ends after the round in which so many times n³ moves in a row gave no better tree, above 0.
        steps: the most moves to look at; None for no limit.

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
        """See `Backend.estimate`: that of the starts, the scores that are kept, and the rounds."""
        parts = [backend.estimate(problem, limits) for backend in self.start]
        memory = max(part.memory for part in parts) + BYTES_PER_SCORE * KEPT + 5000 * problem.n
        return Estimate(memory, sum(part.seconds for part in parts) + 0.2 * problem.n)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        self.estimate(problem, limits).require_memory(self.name, limits)
        best: JunctionTree | None = None
        score = -inf
        for backend in self.start:
            if report.stop is not None or backend.capabilities.objections(problem):
                continue
            tree = backend.solve(problem, limits, report).tree
            if tree is not None and (value := tree.score(problem.scores)) > score:
                best, score = tree, value
        if best is None:
            return Outcome(None, stop=report.stop or Stop.FINISHED, stats={"note": "no start gave a tree"})
        report(tree=best)
        if problem.max_clique_size == 1 or problem.n == 1:
            return Outcome(best)  # the only tree
        return _Search(self, problem, limits, report, best).outcome()


class _Search:
    """The tree at hand, the best tree, and where the round stands."""

    def __init__(
        self, options: LocalSearch, problem: Problem, limits: Limits, report: Report, start: JunctionTree
    ) -> None:
        self.options, self.problem, self.report = options, problem, report
        self.random = Random(limits.seed)  # noqa: S311 - nothing here is secret
        self.scores = KnownScores(problem.scores, self.random)
        partners = self.scores.partners(_PARTNERS) if problem.n <= _MOST_PAIRED else []
        self.drawing = Drawing(self.random, problem.max_clique_size, partners)
        self.good_clique = lru_cache(1 << 16)(problem.permits_clique)
        self.good_separator = lru_cache(1 << 16)(problem.permits_separator)
        self.max_cliques = min(problem.n, problem.constraints.max_cliques or problem.n)
        self.first = MutableTree(start)
        self.tree, self.value = self.first.copy(), start.score(problem.scores)
        self.first_value = self.reported = self.best_value = self.value
        self.best = self.tree.copy()
        self.seen: JunctionTree | None = None  # the incumbent that was looked at last
        self.unit = abs(self.value - self.scores.empty_graph) / problem.n
        self.tabu: dict[VarSet, int] = {}  # cliques, and the sample until which they may not come back
        self.looked_at = self.taken = self.samples = self.rounds = 0
        self.stop: Stop | None = None

    def outcome(self) -> Outcome:
        """Searches until there is a reason to end."""
        idle = last = 0
        patience = self.options.patience * self.problem.n**3
        while self.stop is None and self.looked_at - last < patience:
            before = self.best_value
            if self.rounds:
                self.begin_again()
            self.round(idle)
            self.rounds += 1
            self.tell()
            idle += 1
            if self.best_value > before + _TOLERANCE:
                idle, last = 0, self.looked_at
        stats = {"looked_at": self.looked_at, "taken": self.taken, "rounds": self.rounds}
        return Outcome(self.best.frozen(), stop=self.stop or Stop.FINISHED, stats=stats)

    def begin_again(self) -> None:
        """Goes to where the next round begins, and perturbs the data there."""
        self.report(note=f"round {self.rounds + 1}")
        self.adopt()
        first = self.options.restart == "first"
        self.tree = (self.first if first else self.best).copy()
        self.value = self.first_value if first else self.best_value
        self.tabu = {}
        if self.options.restart == "random":
            self.anneal(_WALK * self.problem.n, inf)
        if self.options.noise:
            self.scores.perturb(self.options.noise * self.random.random() * self.unit)
            self.uphill(1 + self.problem.n // 8)
            self.scores.perturb(0.0)

    def adopt(self) -> None:
        """Takes the best tree of all as the best one, if it scores more: that of another in a portfolio."""
        tree = self.report.incumbent
        if tree is None or tree is self.seen:
            return
        self.seen = tree
        score = tree.score(self.problem.scores)
        if score > self.best_value + _TOLERANCE:
            self.best, self.best_value, self.reported = MutableTree(tree), score, score

    def round(self, idle: int) -> None:
        """Searches until the round's end."""
        if self.options.method == "annealing":
            first = min(_ROUND, 3 * self.problem.n) * self.problem.n
            longer = _LONGER ** min(idle, 30)
            heat = self.options.temperature * min(1.0, _COOLEST * longer)
            self.anneal(int(first * longer), heat * self.unit)
            self.uphill(1 + self.problem.n // 4)
        elif self.options.method == "tabu":
            self.avoid(_IN_VAIN * self.problem.n)
        else:
            self.uphill(_IN_VAIN * self.problem.n)

    def anneal(self, length: int, temperature: float) -> None:
        """Looks at so many moves while T falls from `temperature`; where it is infinite, it stays so."""
        begun, size = self.looked_at, _LEAST
        while (done := self.looked_at - begun) < length:
            moves = self.sample(min(size, length - done))
            heat = temperature * _COOLED ** (done / length)
            size = min(2 * size, _SAMPLE)
            for move in moves:
                self.looked_at += 1
                gain = self.scores.gain(move.plus, move.minus)
                welcome = gain >= 0 or (heat > 0 and self.random.random() < exp(gain / heat))
                if welcome and self.take(move, gain):
                    size = max(size // 4, _LEAST)
                    break
            if self.stop is not None:
                return

    def uphill(self, patience: int) -> None:
        """Takes the best move of each sample that gains, under the noise if there is any."""
        failures = 0
        while failures < patience and self.stop is None:
            failures += 1
            for gain, move in self.ranked():
                if gain <= _TOLERANCE:
                    break
                if self.take(move, self.scores.gain(move.plus, move.minus)):
                    failures = 0
                    break

    def avoid(self, patience: int) -> None:
        """Takes the best move of each sample that is not tabu, or leads to a better tree than all before."""
        failures = 0
        while failures < patience and self.stop is None:
            failures += 1
            for gain, move in self.ranked():
                better = self.value + gain > self.best_value + _TOLERANCE
                if not better and any(self.tabu.get(m, -1) >= self.samples for m in _brought(move)):
                    continue
                if self.take(move, gain):
                    failures = 0 if better else failures
                    self.forbid()
                    break

    def forbid(self) -> None:
        """Makes the cliques that the last move took away tabu."""
        for node, before in self.tree.touched.items():
            if before is not None and self.tree.cliques.get(node) != before[0]:
                self.tabu[before[0]] = self.samples + self.options.tabu
        if len(self.tabu) > 100 * self.options.tabu:
            self.tabu = {mask: until for mask, until in self.tabu.items() if until >= self.samples}

    def ranked(self) -> list[tuple[float, Move]]:
        """Returns a sample with its gains under the noise, the best first."""
        moves = self.sample(min(_SAMPLE, 4 * self.problem.n))
        self.looked_at += len(moves)
        gains = [
            (self.scores.gain(one.plus, one.minus) + self.scores.noise(one.plus, one.minus), one)
            for one in moves
        ]
        return sorted(gains, key=lambda entry: -entry[0])

    def sample(self, size: int) -> list[Move]:
        """Returns random moves of the tree at hand, their scores looked up; asks whether to go on."""
        if self.options.steps is not None:
            size = min(size, self.options.steps - self.looked_at)
        self.stop = self.report.stop or (Stop.STEPS if size <= 0 else None)
        if self.stop is not None:
            return []
        self.samples += 1
        for _ in range(_REHANG):
            self.tree.rehang(self.random)
        moves: list[Move] = []
        for _ in range(size):
            move = MOVES[int(self.random.random() * len(MOVES))](self.tree, self.drawing)
            if move is not None:
                moves.append(move)
        self.looked_at += size - len(moves)
        self.scores.fetch([mask for move in moves for mask in (*move.plus, *move.minus)])
        return moves

    def take(self, move: Move, gain: float) -> bool:
        """Makes a move, unless it breaks a constraint."""
        if gain < 0 and self.value > self.best_value + _TOLERANCE:
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
        """Tells whether a clique holds each required edge that the last move may have taken away."""
        required = self.problem.constraints.required_edges
        if not required:
            return True
        before = [state[0] for state in self.tree.touched.values() if state is not None]
        return all(
            any(is_subset(edge, clique) for clique in self.tree.cliques.values())
            for edge in required
            if any(is_subset(edge, clique) for clique in before)
        )

    def keep(self) -> None:
        """Takes the tree at hand as the best one."""
        self.best, self.best_value = self.tree.copy(), self.value

    def tell(self) -> None:
        """Reports the best tree."""
        if self.value > self.best_value + _TOLERANCE:
            self.keep()
        if self.best_value > self.reported:
            tree = self.best.frozen()
            self.best_value = self.reported = tree.score(
                self.problem.scores
            )  # differences add up their noise
            self.report(tree=tree)


def _brought(move: Move) -> list[VarSet]:
    """Returns the sets that a move makes cliques, but for those that others will hold."""
    return [*move.change.masks.values(), *([move.change.fresh] if move.change.fresh >= 0 else [])]
