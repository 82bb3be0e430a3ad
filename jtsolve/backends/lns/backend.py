"""`lns`: large-neighbourhood search, which improves a tree by exact solves of its parts. A heuristic.

The search starts from the best tree of some other backends. Each step chooses a region, a connected part of
the tree with a bounded number of variables; an exact backend finds a best junction tree over them to which
the rest of the tree can be attached (`region`); that tree replaces the region if it scores more. The optimum
of a region depends only on its variables and on the separators that it has to cover, so it is stored, and no
region is solved twice.

With larger cliques, regions are slower to solve and kicks change more of the tree. If the start has a smaller
treewidth than is allowed, the search begins at its treewidth and increases the bound by one, each time for
half of the time left. Otherwise a larger bound can give a worse tree (insurance, 27 variables, BIC).

Before each region, a tree edge moves to other cliques that contain its separator: another junction tree of
the same graph has other regions. After many consecutive failures the regions become larger; fewer of the
largest are tried, since they are slow. After these, the search returns to the best tree and is kicked: some
regions are solved under noisy scores and replaced unconditionally. Most regions then start at cliques that
are new since the kick. If the search returns to the best tree, the next kick is stronger; if it ends at a
worse tree, the next kick is weaker. If another member of a portfolio has reported a better tree, the next
kick starts from it.

The search ends when it has solved a region of all variables, which is a proof, or after a number of
consecutive kicks without a better tree. It supports the constraints on cliques, separators and edges that the
exact backend supports. See docs/lns.md.

Time: that of the exact backend on `region` variables for each step: some milliseconds.

References:
    Pisinger and Ropke, Large neighborhood search, Handbook of Metaheuristics, 2010 (the framework). Ramaswamy
    and Szeider, Turbocharging treewidth-bounded Bayesian network structure learning, AAAI 2021 (the same idea
    for Bayesian networks).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from random import Random
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from jtsolve.backends.lns.region import Noise
from jtsolve.backends.lns.subsolver import RegionSolver, small_solver
from jtsolve.backends.lns.tree import draw_region, region_of, region_score, splice
from jtsolve.backends.support.mutable_tree import MutableTree
from jtsolve.backends.support.remembered import remembered
from jtsolve.backends.support.report import NewIncumbents, ending_at
from jtsolve.backends.support.starts import best_start, least_gain
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.core.estimates import estimate_of
from jtsolve.core.machine import base_memory
from jtsolve.core.problem import LOCAL_FEATURES, Problem, Variable
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import SparseScores, StoppedError, own_scores
from jtsolve.core.varset import key_of, members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.backends.lns.subsolver import RegionOptimum
    from jtsolve.backends.lns.tree import Region
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree


_Key: TypeAlias = tuple[int | bytes, frozenset[int | bytes]]
"""A region by its variables and covered sets."""


@dataclass(frozen=True, slots=True)
class _Tuning:
    """The constants of the search."""

    smallest: int = 4
    """Variables of the smallest regions worth a solve."""
    at_once: int = 12
    """Maximum number of variables solved as one region, which is as fast as a search."""
    patience: int = 20
    patience_per_clique: int = 4
    """Consecutive failures before the next size: a constant, and a number per new clique, since regions
    start there. On plants at treewidth 2, two seeds, no worse than 40 and 2 per clique."""
    usual: int = 10
    """Maximum number of variables of regions that are tried freely; 12 take ten times as long."""
    rarer: int = 8
    """Divisor of the number of larger regions, so that all sizes get about the same time."""
    most_groups: int = 8
    """Groups of regions solved at a time: enough for as many threads."""
    most_large_groups: int = 2
    """The same of larger regions: more would exceed their share after a kick."""
    cliques_per_group: int = 16
    """Cliques of the tree for each group: regions of more groups would overlap."""
    stronger: float = 1.3
    weaker: float = 1.1
    """Factors of the strength of kicks: in balance if about one kick in four leads back to the best tree."""
    strongest: float = 16.0
    """Maximum strength of a kick; its inverse is the minimum. The first kick has strength 1."""
    narrowest: int = 2
    rungs: int = 3
    fewer_kicks: int = 4
    """The least treewidth that is searched before larger ones, the number of such treewidths, and the
    divisor of the number of kicks at each."""
    per_copy: int = 100
    """Variables per improvement that may precede a copy and report of a better tree: the time of a copy is
    proportional to their number."""
    cache: int = 1 << 18
    """Region optima stored, and scores: tens of megabytes each."""
    largest_score: float = 1e90
    """Nats; the bonuses of a region reach some 10^6 times the largest score, and scores end at 10^100."""


_TUNING = _Tuning()


def _leaves_room_for_bonuses(problem: Problem) -> str | None:
    """Objects to scores so large that with the bonuses of a region they would exceed the range of scores."""
    if max(map(abs, problem.scores.extremes())) <= _TUNING.largest_score:
        return None
    return f"It adds bonuses to scores, and accepts none beyond ±{_TUNING.largest_score:g} nats."


@dataclass(frozen=True, slots=True)
class LargeNeighbourhoodSearch:
    """Large-neighbourhood search: exact solves of parts of a tree. Heuristic, the strongest one here.

    It returns a tree that meets all constraints or none at all. Without a first tree, it solves problems that
    fit into one region; only then can it prove infeasibility.

    Args:
        exact: solves the regions.
        start: backends whose best tree is the first tree.
        region: the largest number of variables of a region, at least 4, and at most the limit of `exact`.
        kicks: the largest number of consecutive kicks without a better tree.
        steps: the largest number of exact solves; None for no limit.

    Raises:
        ValueError: `exact` is not exact, there is no start, or a number is out of range.
    """

    exact: Backend
    start: tuple[Backend, ...]
    region: int = 12
    kicks: int = 200
    steps: int | None = None

    name: ClassVar[str] = "lns"

    def __post_init__(self) -> None:
        if not self.exact.capabilities.exact:
            raise ValueError(f"'{self.exact.name}' is not exact; give an exact backend, such as dp")
        if not self.start:
            raise ValueError("there is no backend to start from; give at least one, such as forward")
        most = self.exact.capabilities.max_variables
        if self.region < _TUNING.smallest or (most is not None and self.region > most):
            raise ValueError(
                f"regions of {self.region} variables; give at least {_TUNING.smallest}"
                + ("" if most is None else f" and at most {most}, the limit of '{self.exact.name}'")
            )
        if self.kicks < 0 or (self.steps is not None and self.steps < 1):
            raise ValueError("kicks must be at least 0, and steps at least 1")

    @property
    def capabilities(self) -> Capabilities:
        """The local constraints that the exact backend supports: regions inherit them."""
        features = LOCAL_FEATURES & self.exact.capabilities.features
        rank = 2 + max(one.capabilities.rank for one in self.start)  # measured to be better than `search`
        return Capabilities(
            features=features, rank=rank, searches_wide=True, rules=(_leaves_room_for_bonuses,)
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`: the starts, and a thousand regions for each kick."""
        size = min(self.region, problem.n)
        width = min(size, problem.max_clique_size)
        example = Problem(
            tuple(Variable(str(v)) for v in range(size)), SparseScores(size, {(1 << width) - 1: 0.0})
        )
        starts = [estimate_of(backend, problem, limits) for backend in self.start]
        inner = self.exact.estimate(example, limits)
        memory = max(estimate.memory for estimate in [inner, *starts])
        if (small := small_solver(self.exact, problem, size)) is not None:
            memory = max(memory, base_memory(kernels=True)) + limits.workers * small.memory(size)
        if size < problem.n:
            memory += 300 * _TUNING.cache
        seconds = sum(estimate.seconds for estimate in starts) + 10.0 * problem.n / size
        return Estimate(memory, seconds)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        self.estimate(problem, limits).require_memory(self.name, limits)
        best = best_start(self.start, problem, limits, report)
        if best is None and problem.n <= self.region and report.stop is None:
            return self.exact.solve(problem, limits, report)  # one region, which needs no tree around it
        if best is None:
            return Outcome(None, stop=report.stop or Stop.FINISHED, stats={"note": "no start gave a tree"})
        options, steps = self, 0
        # Invariant: `best` is feasible at `width`, and no worse than the tree of the treewidth before.
        for width in self.narrower(problem, best):
            # Half of the steps and of the time left.
            some = None if options.steps is None else max(1, options.steps // 2)
            rung = replace(options, kicks=self.kicks // _TUNING.fewer_kicks, steps=some)
            half = inf if limits.time is None else (limits.elapsed + limits.time) / 2
            # Neither its bounds nor the trees of others hold for both problems.
            part = replace(ending_at(report, limits, half, bounds=False), same_problem=False)
            search = _RegionSearch(rung, problem.with_treewidth(width), limits, part, best)
            best = search.outcome().tree or best
            steps += search.steps
            options = self if self.steps is None else replace(self, steps=self.steps - steps)
        outcome = _RegionSearch(options, problem, limits, report, best).outcome()
        return replace(outcome, stats={**outcome.stats, "steps": outcome.stats["steps"] + steps})

    def narrower(self, problem: Problem, start: JunctionTree) -> range:
        """Returns the treewidths to search first: those from the start's to below the largest allowed."""
        if problem.n <= self.region or self.steps == 1:
            return range(0)
        least = max(_TUNING.narrowest, start.treewidth)
        return range(least, min(problem.max_clique_size - 1, least + _TUNING.rungs))


class _RegionSearch:
    """The state of the search: the current tree, the best tree, and the optima of regions solved so far."""

    def __init__(
        self,
        options: LargeNeighbourhoodSearch,
        problem: Problem,
        limits: Limits,
        report: Report,
        start: JunctionTree,
        *,
        cache: int = _TUNING.cache,
    ) -> None:
        self.options, self.problem, self.report, self.cache = options, problem, report, cache
        self.solver = RegionSolver(problem, options.exact, min(options.region, problem.n), limits, report)
        self.tolerance = least_gain(problem, start)
        self.random = Random(limits.seed)  # noqa: S311 - nothing here is secret
        self.generator = np.random.default_rng(limits.seed)
        self.current, self.value = MutableTree(start), start.score(problem.scores)
        self.best, self.best_value = self.current.copy(), self.value
        self.found = start  # the same tree as `best`
        largest = min(options.region, problem.n)
        whole = largest == problem.n <= _TUNING.at_once
        least = largest if whole else min(_TUNING.smallest, largest)
        self.sizes = sorted({max(least, largest - less) for less in (6, 4, 2, 0)})
        self.incumbents = NewIncumbents(report)
        self.level = 0
        self.failures = 0  # consecutive, without an improvement
        self.idle_kicks = 0
        self.strength = 1.0
        self.fresh = 0  # nodes from this number on are new since the last kick
        self.key = key_of(problem.n)
        self.optima: dict[_Key, float] = {}
        self.score = remembered(problem.scores.score, problem.n, cache)
        self.own = own_scores(problem.scores).tolist()
        self.bound = inf
        self.steps = self.improvements = self.kicks = 0
        self.saved = 0  # improvements when the best tree was last copied

    def outcome(self) -> Outcome:
        """Runs the search."""
        try:
            stop = self.run()
        except StoppedError:
            stop = self.report.stop or Stop.TIME
        finally:
            self.solver.close()
        self.save_best()
        stats = {"steps": self.steps, "improvements": self.improvements, "kicks": self.kicks}
        return Outcome(self.found, self.bound, stop, stats)

    def run(self) -> Stop:
        """Searches until there is a reason to stop, and returns it."""
        while self.idle_kicks <= self.options.kicks and self.bound == inf:
            if (stop := self.report.stop) is not None:
                return stop
            if self.steps == self.options.steps:
                return Stop.STEPS
            # Small regions first, larger ones once these fail, a kick once the largest fail.
            if self.failures < self.patience():
                self.improve()
            elif self.level + 1 < len(self.sizes):
                self.level += 1
                self.failures = 0
            else:
                self.kick()
        return Stop.FINISHED

    def improve(self) -> None:
        """Solves some regions that may be improved, and replaces those that are."""
        chosen: dict[_Key, tuple[Region, float]] = {}
        most = self.batch_size()
        # Other junction trees of the same graph have other regions.
        for _ in range(most):
            self.current.move_tree_edge(self.random)
        fresh = self.new_nodes()
        # Twice as many draws as solves: some regions are optimal already, or drawn twice.
        for _ in range(2 * most):
            region = self.draw(fresh, self.sizes[self.level])
            self.failures += 1
            if region.variables.bit_count() > self.options.region:
                continue  # a single clique that is too large to solve
            old = region_score(self.current, region, self.score)
            key = (self.key(region.variables), frozenset(map(self.key, region.covered)))
            # An unknown optimum counts as inf: only regions known to be at theirs are skipped.
            if self.optima.get(key, inf) > old + self.tolerance:
                chosen.setdefault(key, (region, old))
            if len(chosen) == most:
                break
        if not chosen:
            return
        regions, olds = zip(*chosen.values(), strict=True)
        # A tree is traced only where it would replace the region; elsewhere the value is enough.
        targets = [old + self.tolerance for old in olds]
        optima = self.solve(regions, targets, [None] * len(regions))
        for key, region, old, optimum in zip(chosen, regions, olds, optima, strict=True):
            if optimum is not None:
                self.record_optimum(key, region, old, optimum)
        # With many variables, a copy costs more than a solve: save some improvements together.
        if self.improvements >= self.saved + self.problem.n // _TUNING.per_copy:
            self.save_best()
        if optima[0] is not None and not regions[0].boundary:  # the region holds all variables
            # An optimum below the tolerance is not adopted, but is still a bound.
            self.bound = max(self.best_value, optima[0].value) + optima[0].gap

    def patience(self) -> int:
        """Returns the number of consecutive failures before the next size."""
        regions = _TUNING.patience + _TUNING.patience_per_clique * len(self.new_nodes())
        return regions if self.sizes[self.level] <= _TUNING.usual else max(1, regions // _TUNING.rarer)

    def batch_size(self) -> int:
        """Returns the number of regions to solve at a time, which grows with the tree."""
        usual = self.sizes[self.level] <= _TUNING.usual
        most = _TUNING.most_groups if usual else _TUNING.most_large_groups
        groups = max(1, min(most, len(self.current.cliques) // _TUNING.cliques_per_group))
        # A group needs the time of one region, so that only whole groups are worth a call.
        size = self.solver.group * (groups if self.solver.group > 1 else 1)
        return size if self.options.steps is None else min(size, self.options.steps - self.steps)

    def record_optimum(self, key: _Key, region: Region, old: float, optimum: RegionOptimum) -> None:
        """Stores the optimum of a region, and replaces the region if that is better."""
        # Optima never change, so that forgetting them costs only time.
        if len(self.optima) == self.cache:
            self.optima.clear()
        # The solver rounds; the region itself shows that the optimum is no less than `old`.
        self.optima[key] = max(old, optimum.value)
        if optimum.value > old + self.tolerance and self.replace_region(region, optimum, old):
            self.improvements += 1
            self.failures = 0
            # New cliques may allow cheap improvements: half of the time, the next regions are smaller.
            self.level = max(0, self.level - self.random.randrange(2))

    def kick(self) -> None:
        """Returns to the best tree and replaces some of its regions: more after many unsuccessful kicks."""
        self.save_best()
        if self.kicks:
            self.strength = self.adapted()
        self.kicks += 1
        self.idle_kicks += 1
        self.level = self.failures = 0
        self.report(note=f"kick {self.kicks}")
        self.adopt()
        self.current, self.value = self.best.copy(), self.best_value
        # Node numbers only grow, so the nodes from here on are those that the kick makes.
        self.fresh = self.current.next
        usual = [size for size in self.sizes if size <= _TUNING.usual] or self.sizes[:1]
        # More regions after each 20 kicks without a better tree: to leave a larger basin.
        count = max(1, min(3, len(self.current.cliques) // 8)) + self.idle_kicks // 20
        if self.options.steps is not None:
            count = min(count, self.options.steps - self.steps)
        while count > 0:
            some = min(count, self.solver.group)
            count -= some
            fresh = self.new_nodes()
            drawn = [self.draw(fresh, self.random.choice(usual)) for _ in range(some)]
            regions = [one for one in drawn if one.variables.bit_count() <= self.options.region]
            if not regions:
                continue
            olds = [region_score(self.current, region, self.score) for region in regions]
            noises = [self.noise(region, old) for region, old in zip(regions, olds, strict=True)]
            # No target: the noise decides, even for a worse tree.
            optima = self.solve(regions, [-inf] * len(regions), noises)
            for region, old, optimum in zip(regions, olds, optima, strict=True):
                if optimum is not None:
                    self.replace_region(region, optimum, old)

    def adapted(self) -> float:
        """Returns the strength of the next kick: more if the last was too weak to leave the best tree."""
        # Back at the best tree: the kick did not leave its basin. Elsewhere it was too strong.
        if self.value > self.best_value - self.tolerance:
            return min(self.strength * _TUNING.stronger, _TUNING.strongest)
        return max(self.strength / _TUNING.weaker, 1 / _TUNING.strongest)

    def noise(self, region: Region, old: float) -> Noise:
        """Returns the noise for a region whose tree scores `old`."""
        gain = abs(old - sum(self.own[v] for v in members(region.variables)))
        # Relative to the gain per variable, so that the strength has a meaning on every data set; uniform,
        # since weak and strong kicks succeed at different times.
        deviation = self.strength * self.random.random() * gain / region.variables.bit_count()
        return Noise(deviation, self.generator)

    def adopt(self) -> None:
        """Makes the report's incumbent the best tree if it scores more."""
        tree = self.incumbents.new()
        if tree is not None and (score := tree.score(self.problem.scores)) > self.best_value + self.tolerance:
            self.best, self.best_value, self.idle_kicks = MutableTree(tree), score, 0
            self.found = tree

    def new_nodes(self) -> list[int]:
        """Returns the nodes that are new since the last kick; before the first, all nodes."""
        return [node for node in self.current.cliques if node >= self.fresh]

    def draw(self, fresh: list[int], size: int) -> Region:
        """Returns a random region that starts, with probability 7/8, at one of the new nodes."""
        # New cliques are where regions are not yet optimal; 1 in 8 starts elsewhere.
        fits = fresh and self.random.randrange(8)
        start = self.random.choice(fresh) if fits else self.current.random_node(self.random)
        return draw_region(self.current, start, size, self.random)

    def solve(
        self, regions: Sequence[Region], targets: Sequence[float], noises: Sequence[Noise | None]
    ) -> list[RegionOptimum | None]:
        """See `RegionSolver.solve`."""
        self.steps += len(regions)
        return self.solver.solve(regions, targets, noises)

    def replace_region(self, region: Region, optimum: RegionOptimum, old: float) -> bool:
        """Replaces a region that scored `old` by its optimum, and returns whether it could.

        A replacement of another region may have removed nodes of this one. If all are there, the tree within
        is unchanged, though other nodes may be attached to it.
        """
        if any(node not in self.current.cliques for node in region.nodes):
            return False
        # Only the boundary may have changed: its separators have not, so the optimum still covers them.
        now = region_of(self.current, region.nodes, region.variables)
        splice(self.current, now, optimum.cliques, optimum.edges, self.random)
        self.value += optimum.value - old
        return True

    def save_best(self) -> None:
        """Copies and reports the current tree if it is the best one."""
        self.saved = self.improvements
        if self.value <= self.best_value + self.tolerance:
            return
        tree = self.current.frozen()
        self.value = self.best_value = tree.score(self.problem.scores)  # sums of differences drift
        self.best, self.found = self.current.copy(), tree
        self.idle_kicks = 0
        self.report(tree=tree)
