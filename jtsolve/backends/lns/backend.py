"""`lns`: large-neighbourhood search. A heuristic that improves a tree by exact solves of its parts.

It begins with the best tree of some other backends. Over and over, it takes a connected part of the tree, a
region of at most so many variables; finds a best junction tree over them by an exact backend, such that what
hangs on the region can hang on the new part (`region`); and puts it in if it is better. How good a best
one is depends only on the variables and on what it has to cover: it is kept, and no region is solved twice in
vain.

Before each region, a tree edge moves to other cliques that hold its separator: another junction tree of the
same graph, with other regions. After many regions in a row without success, the regions become larger; of
the largest, fewer are tried, since they take long. After these, the search goes back to the best tree and is
kicked: some regions are solved under noisy scores and put in as they come. Most regions then begin at cliques
that are new since the kick, and fewer are tried. Where the search comes back to the best tree, the next kick
is stronger; where it ends at a worse one, weaker.
If another member of a portfolio has reported a better tree, that is the best one from the next kick on.

It ends when a region of all variables is solved, which is a proof, or after so many kicks in a row without a
better tree. Constraints: those on cliques, separators and edges, as far as the exact backend has them.
More in docs/lns.md.

Time: that of the exact backend on `region` variables for each step: some milliseconds.

References:
    Pisinger and Ropke, Large neighborhood search, Handbook of Metaheuristics, 2010 (the frame). Ramaswamy and
    Szeider, Turbocharging treewidth-bounded Bayesian network structure learning, AAAI 2021 (the same idea for
    Bayesian networks).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from random import Random
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.backends.lns.region import Noise
from jtsolve.backends.lns.subsolver import RegionSolver, small_solver
from jtsolve.backends.lns.tree import draw_region, region_of, region_score, rehang, splice
from jtsolve.backends.support.mutable_tree import MutableTree
from jtsolve.core.backend import Backend, Capabilities, Estimate, Limits, Report
from jtsolve.core.problem import LOCAL_FEATURES, Problem, Variable
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import SparseScores
from jtsolve.core.varset import members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.backends.lns.subsolver import Part
    from jtsolve.backends.lns.tree import Region
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet

_TOLERANCE = 1e-7
"""Nats by which a tree has to be better: above the noise of the sums within a region."""
_SMALLEST = 4
"""Variables of the smallest regions that are worth a solve."""
_PATIENCE = 20
_PATIENCE_PER_CLIQUE = 4
"""Regions in a row without success before the next size: so many, and so many for each clique that is new, as
each begins some regions. On plants at treewidth 2, two seeds, no worse than 40 and 2 for each clique."""
_USUAL = 10
"""Variables of regions that are searched freely. One of two more takes ten times as long."""
_RARER = 8
"""By how much fewer the regions above that are: then all sizes take about as long."""
_GROUPS_OF_LARGE = 2
"""Groups at a time of regions above that: more would be more than the share of such regions after a kick."""
_STRONGER, _WEAKER = 1.3, 1.1
"""Factors of the strength of kicks: constant if about one in four leads back to the best tree."""
_STRONGEST = 16.0
"""By how much kicks may become stronger or weaker than the first."""
_KEPT = 1 << 18
"""Regions whose best is kept, and scores: some tens of megabytes each."""
_CLIQUES_PER_GROUP = 16
"""Cliques for each group of regions solved at a time: with more, they would get into one another's way."""
_MOST_GROUPS = 8
"""Groups at a time: enough for as many threads."""


_LARGEST_SCORE = 1e90
"""Nats; the bonuses of a region are up to some 10^6 times the largest score, and scores end at 10^100."""


def _leaves_room_for_bonuses(problem: Problem) -> str | None:
    """Objects to scores so large that a region's scores with its bonuses would be no scores."""
    if max(map(abs, problem.scores.extremes())) <= _LARGEST_SCORE:
        return None
    return f"It adds bonuses to scores, and takes none beyond ±{_LARGEST_SCORE:g} nats."


@dataclass(frozen=True, slots=True)
class LargeNeighbourhoodSearch:
    """Large-neighbourhood search: exact solves of parts of a tree. Heuristic, the strongest one here.

    It returns a tree that meets all constraints or none at all, and never claims that there is none.

    Args:
        exact: solves the regions.
        start: give the first trees; the best is taken.
        region: the most variables of a region, at least 4, and no more than `exact` takes.
        kicks: ends after so many kicks in a row that give no better tree.
        strength: of the first kick: the largest standard deviation of its noise, as a multiple of what a
            region's tree gains on the empty graph per variable. It is adapted, up to sixteen times each way.
        steps: the most exact solves; None for no limit.

    Raises:
        ValueError: `exact` is not exact, there is no start, or a number is out of range.
    """

    exact: Backend
    start: tuple[Backend, ...]
    region: int = 12
    kicks: int = 200
    strength: float = 1.0
    steps: int | None = None

    name: ClassVar[str] = "lns"

    def __post_init__(self) -> None:
        if not self.exact.capabilities.exact:
            raise ValueError(f"'{self.exact.name}' is not exact; give an exact backend, such as dp")
        if not self.start:
            raise ValueError("there is no backend to start from; give at least one, such as forward")
        most = self.exact.capabilities.max_variables
        if self.region < _SMALLEST or (most is not None and self.region > most):
            raise ValueError(
                f"regions of {self.region} variables; give at least {_SMALLEST}"
                + ("" if most is None else f" and at most {most}, as '{self.exact.name}' takes")
            )
        if self.kicks < 0 or not 0 <= self.strength < inf or (self.steps is not None and self.steps < 1):
            raise ValueError("kicks and strength must be at least 0, and steps at least 1")

    @property
    def capabilities(self) -> Capabilities:
        """All constraints on parts that the exact backend supports: regions inherit them."""
        features = LOCAL_FEATURES & self.exact.capabilities.features
        rank = 2 + max(one.capabilities.rank for one in self.start)  # above that of local search, as measured
        return Capabilities(features=features, rank=rank, rules=(_leaves_room_for_bonuses,))

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`: that of the starts, and a thousand regions for each kick."""
        size = min(self.region, problem.n)
        width = min(size, problem.max_clique_size)
        example = Problem(
            tuple(Variable(str(v)) for v in range(size)), SparseScores(size, {(1 << width) - 1: 0.0})
        )
        parts = [backend.estimate(problem, limits) for backend in self.start]
        inner = self.exact.estimate(example, limits)
        memory = max(estimate.memory for estimate in [inner, *parts])
        if (small := small_solver(self.exact, problem, size)) is not None:
            memory += limits.workers * small.memory(size)
        seconds = sum(estimate.seconds for estimate in parts) + 10.0 * problem.n / size
        return Estimate(memory + 300 * _KEPT, seconds)

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
        return _Search(self, problem, limits, report, best).outcome()


class _Search:
    """The tree at hand, the best tree, and what is known of regions."""

    def __init__(
        self,
        options: LargeNeighbourhoodSearch,
        problem: Problem,
        limits: Limits,
        report: Report,
        start: JunctionTree,
    ) -> None:
        self.options, self.problem, self.report = options, problem, report
        self.solver = RegionSolver(problem, options.exact, min(options.region, problem.n), limits, report)
        self.random = Random(limits.seed)  # noqa: S311 - nothing here is secret
        self.generator = np.random.default_rng(limits.seed)
        self.current, self.value = MutableTree(start), start.score(problem.scores)
        self.best, self.best_value = self.current.copy(), self.value
        largest = min(options.region, problem.n)
        self.sizes = sorted({max(min(_SMALLEST, largest), largest - less) for less in (6, 4, 2, 0)})
        self.seen: JunctionTree | None = None  # the incumbent that was looked at last
        self.level = 0
        self.failures = 0  # regions in a row without success
        self.idle_kicks = 0
        self.strength = options.strength
        self.fresh = 0  # nodes from this number on came with the last kick, or after it
        self.known: dict[tuple[VarSet, frozenset[VarSet]], float] = {}  # what a region's best is worth
        self.scores: dict[VarSet, float] = {}
        singles = problem.scores.batch(np.arange(problem.n)[:, None]).tolist()
        self.own = [score if score > -inf else 0.0 for score in singles]
        self.bound = inf
        self.steps = self.improvements = self.kicks = 0

    def outcome(self) -> Outcome:
        """Searches until there is a reason to end."""
        from jtsolve.core.compiling import announced

        try:
            with announced(lambda: self.report(note="compiling the kernels (first run only)")):
                stop = self.run()
        finally:
            self.solver.close()
        stats = {"steps": self.steps, "improvements": self.improvements, "kicks": self.kicks}
        return Outcome(self.best.frozen(), self.bound, stop, stats)

    def run(self) -> Stop:
        """Searches; returns why it ended."""
        while self.idle_kicks <= self.options.kicks and self.bound == inf:
            if (stop := self.report.stop) is not None:
                return stop
            if self.steps == self.options.steps:
                return Stop.STEPS
            if self.failures < self.patience():
                self.improve()
            elif self.level + 1 < len(self.sizes):
                self.level += 1
                self.failures = 0
            else:
                self.kick()
        return Stop.FINISHED

    def improve(self) -> None:
        """Looks at some regions, and puts better trees in their places if there are."""
        chosen: dict[tuple[VarSet, frozenset[VarSet]], tuple[Region, float]] = {}
        wanted = self.batch()
        for _ in range(wanted):
            rehang(self.current, self.random)
        for _ in range(2 * wanted):
            region = self.pick(self.sizes[self.level])
            self.failures += 1
            if region.variables.bit_count() > self.options.region:
                continue  # one clique, and too large to solve
            old = region_score(self.current, region, self.score)
            key = (region.variables, region.covered)
            if self.known.get(key, inf) > old + _TOLERANCE:
                chosen.setdefault(key, (region, old))
            if len(chosen) == wanted:
                break
        if not chosen:
            return
        regions, olds = zip(*chosen.values(), strict=True)
        parts = self.solve(regions, [old + _TOLERANCE for old in olds], [None] * len(regions))
        for key, region, old, part in zip(chosen, regions, olds, parts, strict=True):
            if part is not None:
                self.learn(key, region, old, part)
        if self.value > self.best_value + _TOLERANCE:
            self.keep()
        if parts[0] is not None and not regions[0].boundary:
            self.bound = (
                self.best_value + parts[0].gap
            )  # a region of all variables: nothing is left to search

    def patience(self) -> int:
        """Returns how many regions in a row without success are enough at this size."""
        regions = _PATIENCE + _PATIENCE_PER_CLIQUE * len(self.new_nodes())
        return regions if self.sizes[self.level] <= _USUAL else max(1, regions // _RARER)

    def batch(self) -> int:
        """Returns how many regions to solve at a time: more where the tree has room for them side by side."""
        most = _MOST_GROUPS if self.sizes[self.level] <= _USUAL else _GROUPS_OF_LARGE
        groups = max(1, min(most, len(self.current.cliques) // _CLIQUES_PER_GROUP))
        wanted = self.solver.group * (groups if self.solver.group > 1 else 1)
        return wanted if self.options.steps is None else min(wanted, self.options.steps - self.steps)

    def learn(self, key: tuple[VarSet, frozenset[VarSet]], region: Region, old: float, part: Part) -> None:
        """Keeps what a region's best is worth; puts it in if it is better and the region is still there."""
        if len(self.known) == _KEPT:
            self.known.clear()
        self.known[key] = max(old, part.value)
        if part.value > old + _TOLERANCE and self.put(region, part, old):
            self.improvements += 1
            self.failures = 0
            self.level = max(0, self.level - self.random.randrange(2))

    def kick(self) -> None:
        """Goes back to the best tree, and changes regions of it at random: more after many in vain."""
        if self.kicks:
            self.strength = self.adapted()
        self.kicks += 1
        self.idle_kicks += 1
        self.level = self.failures = 0
        self.report(note=f"kick {self.kicks}")
        self.adopt()
        self.current, self.value = self.best.copy(), self.best_value
        self.fresh = self.current.next
        usual = [size for size in self.sizes if size <= _USUAL] or self.sizes[:1]
        count = max(1, min(3, len(self.current.cliques) // 8)) + self.idle_kicks // 20
        if self.options.steps is not None:
            count = min(count, self.options.steps - self.steps)
        while count > 0:
            some = min(count, self.solver.group)
            count -= some
            picked = [self.pick(self.random.choice(usual)) for _ in range(some)]
            regions = [one for one in picked if one.variables.bit_count() <= self.options.region]
            if not regions:
                continue
            olds = [region_score(self.current, region, self.score) for region in regions]
            noises = [self.noise(region, old) for region, old in zip(regions, olds, strict=True)]
            parts = self.solve(regions, [-inf] * len(regions), noises)
            for region, old, part in zip(regions, olds, parts, strict=True):
                if part is not None:
                    self.put(region, part, old)

    def adapted(self) -> float:
        """Returns the strength for the next kick: more if the last was too weak to leave the best tree."""
        first = self.options.strength
        if self.value > self.best_value - _TOLERANCE:
            return min(self.strength * _STRONGER, first * _STRONGEST)
        return max(self.strength / _WEAKER, first / _STRONGEST)

    def noise(self, region: Region, old: float) -> Noise:
        """Returns the noise for a region whose tree is worth `old`."""
        gain = abs(old - sum(self.own[v] for v in members(region.variables)))
        deviation = self.strength * self.random.random() * gain / region.variables.bit_count()
        return Noise(deviation, self.generator)

    def adopt(self) -> None:
        """Takes the best tree of all as the best one, if it scores more: that of another in a portfolio."""
        tree = self.report.incumbent
        if tree is None or tree is self.seen:
            return
        self.seen = tree
        score = tree.score(self.problem.scores)
        if score > self.best_value + _TOLERANCE:
            self.best, self.best_value, self.idle_kicks = MutableTree(tree), score, 0

    def new_nodes(self) -> list[int]:
        """Returns the nodes that are new since the last kick; before the first, all are."""
        return [node for node in self.current.cliques if node >= self.fresh]

    def pick(self, size: int) -> Region:
        """Returns a random region that begins, seven times of eight, at a node that is new."""
        fresh = self.new_nodes() if self.random.randrange(8) else []
        start = self.random.choice(fresh or list(self.current.cliques))
        return draw_region(self.current, start, size, self.random)

    def solve(
        self, regions: Sequence[Region], targets: Sequence[float], noises: Sequence[Noise | None]
    ) -> list[Part | None]:
        """Returns the best parts for regions; see `RegionSolver.solve`."""
        self.steps += len(regions)
        return self.solver.solve(regions, targets, noises)

    def score(self, mask: VarSet) -> float:
        """Returns s(mask) in nats, looked up once."""
        value = self.scores.get(mask)
        if value is None:
            if len(self.scores) == _KEPT:
                self.scores.clear()
            value = self.scores[mask] = self.problem.scores.score(mask)
        return value

    def put(self, region: Region, part: Part, old: float) -> bool:
        """Puts a tree over the region's variables in its place, which was worth `old`, if it is still there.

        Where another region's tree came in first, a node of this one may be gone; if none is, the tree within
        is as it was, but other nodes may hang on it.
        """
        if any(node not in self.current.cliques for node in region.nodes):
            return False
        now = region_of(self.current, region.nodes, region.variables)
        splice(self.current, now, part.cliques, part.edges, self.random)
        self.value += part.value - old
        return True

    def keep(self) -> None:
        """Takes the tree at hand as the best one."""
        tree = self.current.frozen()
        self.value = self.best_value = tree.score(self.problem.scores)  # anew: differences add up their noise
        self.best = self.current.copy()
        self.idle_kicks = 0
        self.report(tree=tree)
