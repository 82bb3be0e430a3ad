"""`search`: local search on junction trees, by hill climbing with perturbed data, or tabu. A heuristic.

The search starts from the best tree of some other backends and draws samples of moves of several kinds
(`moves`). `climb` makes the best move of a sample if it is a gain. `tabu` makes the best move even at a loss,
unless it restores a clique that one of the last moves removed; a tree better than all before is always
accepted.

A round ends after many consecutive samples without a better tree. The next one restarts from the best tree
with perturbed data: a climb under noisy scores. A better incumbent of another backend becomes the best tree
at the next restart. Between samples, a tree edge moves to other cliques that contain its separator: another
junction tree of the same graph has other moves.

All moves of a sample are drawn on the current tree, and their scores are computed in one batch per size. The
moves and the options are described in docs/heuristics.md.

Constraints: a move that violates one is rejected. A set without a score counts as the sum of its variables'
scores in gains; no accepted tree contains one.

Time: some microseconds for each move drawn, and its scores, independently of the number of variables; a copy
of a better tree, O(n), when the search leaves it.

References:
    Glover, Tabu search, part I, ORSA Journal on Computing, 1989. Elidan, Ninio, Friedman, Schuurmans, Data
    perturbation for escaping local maxima in learning, AAAI 2002 (they reweight the data; here the scores get
    normal noise).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from random import Random
from typing import TYPE_CHECKING, ClassVar, Literal

from jtsolve.backends.search.moves import MOVES, Move, MoveProposals
from jtsolve.backends.search.scores import BYTES_PER_SCORE, CACHED_SCORES, NoisyScores
from jtsolve.backends.support.mutable_tree import MutableTree
from jtsolve.backends.support.remembered import remembered
from jtsolve.backends.support.report import NewIncumbents
from jtsolve.backends.support.starts import best_start, least_gain
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.core.estimates import estimate_of
from jtsolve.core.problem import ALL_FEATURES, Problem, ProblemFeature
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.varset import count_bounded_subsets, is_subset, key_of

if TYPE_CHECKING:
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree


@dataclass(frozen=True, slots=True)
class _Tuning:
    """The constants of the search."""

    sample: int = 64
    """Moves in a sample at most."""
    few: int = 16
    """Least n in the n³ moves of the search's patience: with few variables and a bound on the number of
    cliques, most moves are rejected."""
    patience: int = 2
    """Consecutive samples per variable without a better tree before a round ends."""
    tabu: int = 20
    """Samples during which a removed clique may not be restored."""
    noise: float = 0.2
    """Perturbation of the data: the largest standard deviation, as a multiple of the first tree's gain over
    the empty graph per variable."""
    partners: int = 12
    """Partners of each variable that moves prefer."""
    most_paired: int = 512
    """Variables up to which all pairs are scored to find partners: a few seconds for 10^4 rows."""
    rehung: int = 2
    """Tree edges that move before each sample."""


_TUNING = _Tuning()


@dataclass(frozen=True, slots=True)
class LocalSearch:
    """Local search on junction trees: hill climbing with restarts, or tabu search. Heuristic.

    It supports all constraints but `forbidden_graphs`.

    It returns a tree that meets all constraints or none at all, and never claims infeasibility.

    Args:
        start: backends whose best tree is the first tree.
        method: how moves are chosen.
        patience: the search ends after the round in which `patience`·n³ consecutive moves, with n at least
            16, gave no better tree; above 0.
        steps: the largest number of moves to draw; None for no limit.

    Raises:
        ValueError: there is no start, or a number is out of range.
    """

    start: tuple[Backend, ...]
    method: Literal["climb", "tabu"] = "climb"
    patience: float = 10.0
    steps: int | None = None

    name: ClassVar[str] = "search"

    def __post_init__(self) -> None:
        if not self.start:
            raise ValueError("there is no backend to start from; give at least one, such as forward")
        if not 0 < self.patience < inf:
            raise ValueError("patience must be above 0, and finite")
        if self.steps is not None and self.steps < 1:
            raise ValueError("steps must be at least 1")

    @property
    def capabilities(self) -> Capabilities:
        """All constraints but `forbidden_graphs`; it improves the trees of others."""
        return Capabilities(
            features=ALL_FEATURES - {ProblemFeature.FORBIDDEN_GRAPHS},
            rank=1 + max(one.capabilities.rank for one in self.start),
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`: the starts, the cached scores, and the rounds."""
        starts = [estimate_of(backend, problem, limits) for backend in self.start]
        cached = min(CACHED_SCORES, count_bounded_subsets(problem.n, problem.max_clique_size))
        memory = max(start.memory for start in starts) + BYTES_PER_SCORE * cached + 5000 * problem.n
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
        self.scores = NoisyScores(problem.scores, self.random)
        partners = self.scores.partners(_TUNING.partners) if problem.n <= _TUNING.most_paired else []
        self.proposals = MoveProposals(self.random, problem.max_clique_size, partners)
        self.good_clique = remembered(problem.permits_clique, problem.n)
        self.good_separator = remembered(problem.permits_separator, problem.n)
        self.max_cliques = min(problem.n, problem.constraints.max_cliques or problem.n)
        self.tree, self.value = MutableTree(start), start.score(problem.scores)
        self.reported = self.best_value = self.value
        self.best = self.tree.copy()
        self.incumbents = NewIncumbents(report)
        # Makes the noise relative to the scale of the scores.
        self.unit = abs(self.value - sum(self.scores.own)) / problem.n
        self.key = key_of(problem.n)
        # From the keys of removed cliques to the last sample in which a move may not restore them.
        self.tabu: dict[int | bytes, int] = {}
        self.proposed = self.accepted = self.samples = self.rounds = 0
        self.stop: Stop | None = None

    def outcome(self) -> Outcome:
        """Runs rounds until `patience`·n³ consecutive moves gave no better tree."""
        last = 0
        patience = self.options.patience * max(self.problem.n, _TUNING.few) ** 3
        while self.stop is None and self.proposed - last < patience:
            before = self.best_value
            if self.rounds:
                self.restart()
            search = self.tabu_search if self.options.method == "tabu" else self.climb
            search(_TUNING.patience * self.problem.n)
            self.rounds += 1
            self.report_best()
            if self.best_value > before + self.tolerance:
                last = self.proposed
        stats = {"proposed": self.proposed, "accepted": self.accepted, "rounds": self.rounds}
        return Outcome(self.best.frozen(), stop=self.stop or Stop.FINISHED, stats=stats)

    def restart(self) -> None:
        """Goes back to the best tree, and perturbs the data there."""
        self.report(note=f"round {self.rounds + 1}")
        self.adopt()
        self.tree, self.value, self.tabu = self.best.copy(), self.best_value, {}
        self.scores.perturb(_TUNING.noise * self.random.random() * self.unit)
        self.climb(1 + self.problem.n // 8)
        self.scores.perturb(0.0)

    def adopt(self) -> None:
        """Makes the report's incumbent the best tree if it scores more."""
        tree = self.incumbents.new()
        if tree is not None and (score := tree.score(self.problem.scores)) > self.best_value + self.tolerance:
            self.best, self.best_value, self.reported = MutableTree(tree), score, score

    def climb(self, patience: int) -> None:
        """Makes the best move of each sample if it gains, under the noise."""
        failures = 0
        while failures < patience and self.stop is None:
            failures += 1
            for gain, move in self.ranked():
                if gain <= self.tolerance:
                    break
                # The noise affects the ranking only, not the value of the tree.
                if self.make(move, self.scores.gain(move.plus, move.minus)):
                    failures = 0
                    break

    def tabu_search(self, patience: int) -> None:
        """Makes the best move of each sample that is not tabu, or whose tree is better than all before."""
        failures = 0
        while failures < patience and self.stop is None:
            failures += 1
            for gain, move in self.ranked():
                better = self.value + gain > self.best_value + self.tolerance
                if not better and self.is_tabu(move):
                    continue
                if self.make(move, gain):
                    failures = 0 if better else failures
                    self.make_tabu()
                    break

    def is_tabu(self, move: Move) -> bool:
        """Returns whether a move restores a clique that one of the last moves removed."""
        fresh = [move.change.fresh] if move.change.fresh >= 0 else []
        masks = (*move.change.masks.values(), *fresh)
        return any(self.tabu.get(self.key(mask), -1) >= self.samples for mask in masks)

    def make_tabu(self) -> None:
        """Makes the cliques that the last move removed tabu."""
        for node, before in self.tree.touched.items():
            if before is not None and self.tree.cliques.get(node) != before[0]:
                self.tabu[self.key(before[0])] = self.samples + _TUNING.tabu
        # Expired entries are harmless; this keeps the dictionary small.
        if len(self.tabu) > 100 * _TUNING.tabu:
            self.tabu = {key: until for key, until in self.tabu.items() if until >= self.samples}

    def ranked(self) -> list[tuple[float, Move]]:
        """Returns a sample with its gains under the noise, in decreasing order."""
        moves = self.sample(min(_TUNING.sample, 4 * self.problem.n))
        gains = [
            (self.scores.gain(one.plus, one.minus) + self.scores.noise(one.plus, one.minus), one)
            for one in moves
        ]
        return sorted(gains, key=lambda entry: -entry[0])

    def sample(self, size: int) -> list[Move]:
        """Returns random moves of the current tree, with their scores cached; none once the search stops."""
        if self.options.steps is not None:
            size = min(size, self.options.steps - self.proposed)
        self.stop = self.report.stop or (Stop.STEPS if size <= 0 else None)
        if self.stop is not None:
            return []
        self.samples += 1
        for _ in range(_TUNING.rehung):
            self.tree.move_tree_edge(self.random)
        moves: list[Move] = []
        for _ in range(size):
            move = MOVES[int(self.random.random() * len(MOVES))](self.tree, self.proposals)
            if move is not None:
                moves.append(move)
        self.proposed += size
        self.scores.fetch([mask for move in moves for mask in (*move.plus, *move.minus)])
        return moves

    def make(self, move: Move, gain: float) -> bool:
        """Makes a move unless it violates a constraint; returns whether it was made."""
        # A copy takes O(n): a better tree is copied only when the search is about to leave it.
        if gain < 0 and self.value > self.best_value + self.tolerance:
            self.save_best()
        self.tree.apply(move.change)
        if not self.permitted():
            self.tree.undo()
            return False
        self.value += gain
        self.accepted += 1
        return True

    def permitted(self) -> bool:
        """Returns whether the tree meets the constraints, if it did before the last move."""
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
        """Returns whether the tree has each required edge that the last move may have removed."""
        required = self.problem.constraints.required_edges
        if not required:
            return True
        # An edge that no changed clique contained is still in a clique.
        before = [state[0] for state in self.tree.touched.values() if state is not None]
        return all(
            any(is_subset(edge, clique) for clique in self.tree.cliques.values())
            for edge in required
            if any(is_subset(edge, clique) for clique in before)
        )

    def save_best(self) -> None:
        """Copies the current tree as the best one."""
        self.best, self.best_value = self.tree.copy(), self.value

    def report_best(self) -> None:
        """Reports the best tree."""
        if self.value > self.best_value + self.tolerance:
            self.save_best()
        if self.best_value > self.reported:
            tree = self.best.frozen()
            # Sums of differences drift.
            self.best_value = self.reported = tree.score(self.problem.scores)
            self.report(tree=tree)
