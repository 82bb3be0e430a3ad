"""`merging`: trees from diverse starts, and the best tree that their cliques make together. A heuristic.

Local search ends in local optima that only a joint change of many cliques leaves: on plants at treewidth 2,
the last tree of `lns` and the optimum differ in 35 of 67 cliques, and no change of fewer than 18 is a gain.
But other descents find these cliques, each of them some. So, in rounds:

1. Some trees, greedy ones of perturbed scores and ones grown in a random order in turn (`starts`), each
   descend to a local optimum of the scores themselves. They may be far worse than the best tree.
2. The cliques of these trees, of the best tree and of the trees of the last rounds, with all their subsets,
   form a small problem (`union`) of a few hundred sets. The exact backend finds its best tree, starting from
   the best one known, whose cliques are among them.
3. A better tree is improved by a short local search.

A merge that times out is abandoned, and the next one uses fewer trees. After an easy merge the next one uses
more, except in trajectories (below), where the last tree is enough.

A run starts with the best forest, then a local search from a greedy tree. With cliques of more than 3
variables, another local search starts from the forest and widens it step by step, so that the first merge
combines trees of different widths. All descents start from trees of treewidth 2 at most, and widen likewise.
Rounds and another local search alternate: when one has found no better tree for as long as all work before it
took, the other continues from the best. After a number of consecutive rounds without a better tree, the local
search gets the rest of the time. The run ends with it, or when one of its regions contains all variables,
which is a proof.

With cliques of more than 3 and a problem of at most 80 variables, *trajectories* replace this alternation. A
trajectory begins with an improved tree of treewidth 2: the first with the best tree of rounds at that
treewidth, the others with one grown in a random order. It is lifted (`lifting`) with scores that favour some
variables; the best of some lifts is the current tree. Each descent starts near it, at the tree where a
descent from it under such scores ends. Once these find nothing better, or the current tree is as good as the
best one of another trajectory, both are merged and another trajectory begins.

A better tree of another member of a portfolio becomes the best tree. The constraints supported are those of
the local searches; a start that violates them is left out.

Time: some tenths of a second for each descent, two thirds of the total. Memory: that of the backends it uses,
and n² bonuses.

References:
    Cook and Seymour, Tour merging via branch-decomposition, INFORMS Journal on Computing 2003: the best
    tour in the union of tours that descents found. Ours: trees for tours; the union of cliques with their
    subsets; an LP with clutter inequalities instead of dynamic programming on the union; starts
    grown in a random order beside perturbed ones; trajectories, and lifts.
    Charon and Hudry, The noising method, Operations Research Letters 1993: descents by perturbed scores.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from math import inf, isfinite
from time import thread_time
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.backends.merging.lifting import lifted
from jtsolve.backends.merging.starts import favouring, grown_tree, perturbed
from jtsolve.backends.merging.union import union_problem
from jtsolve.backends.support.report import DerivedReport, NewIncumbents
from jtsolve.backends.support.starts import KnownTree
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.core.estimates import estimate_of, objections_of
from jtsolve.core.problem import ALL_FEATURES, Problem
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import StoppedError, own_scores

if TYPE_CHECKING:
    from jtsolve.backends.merging.starts import PerturbedScores
    from jtsolve.core.backend import News
    from jtsolve.core.tree import JunctionTree


@dataclass(frozen=True, slots=True)
class _Tuning:
    """The constants of the rounds, measured on seven sets of 37 to 111 variables."""

    forest: float = 4.0
    """Processor seconds for the forest, which is then that of the pairs scored so far."""
    seconds: float = 3.0
    """Processor seconds after which a merge is abandoned: a longer one rarely has a better tree."""
    easy: float = 1.0
    """Seconds within which a merge is easy, so that the next uses the cliques of more trees."""
    large: int = 80
    """Variables above which perturbations are smaller, and fewer trees are kept."""
    wide: int = 4
    """Size of cliques from which on a round has one tree, as two make too many sets, and descents start from
    narrower trees: with starts of full width, the worst of three seeds on plants at treewidth 3 was 1,746
    nats lower after 20 s. Up to `large` variables, trajectories replace turns with `otherwise`."""
    noise: float = 0.5
    noise_of_large: float = 0.3
    """Standard deviation of the bonus of an edge in perturbed scores, as a multiple of the gain per edge of
    the best tree: up to `large` variables, and above."""
    least_noise: float = 0.04
    """Lower end of the noise of starts near the current tree, as a share: it is log-uniform up to 1."""
    narrow: int = 2
    """Treewidth at which trajectories begin."""
    narrow_rounds: int = 1
    """Consecutive rounds there without a better tree, before the first trajectory begins."""
    widenings: int = 3
    """Maximum number of lifts of a trajectory: larger treewidths are left to local searches."""
    lifts: int = 4
    """Number of lifts; the best is kept. On plants at treewidth 3, two of four seeds exceeded −240,660 in
    75 s with one, and six of eight with three or four; eight are no better."""
    idle: int = 9
    """Rounds of a trajectory without a better tree, before another begins."""
    trajectories: int = 3
    """Consecutive trajectories without a better tree, before the run ends if there is no time limit."""
    least_patience: float = 5.0
    """Least seconds without a better tree before the searches alternate, per tree of a round. On plants at
    treewidth 2, all of three seeds find the optimum within 11 s; with 3 s in all, one does in 30 s."""
    abandoned_pairs: int = 2
    """Abandoned merges of two trees, after which no other merge is tried."""
    tolerance: float = 1e-7
    """Nats by which a tree has to be better."""


_TUNING = _Tuning()


@dataclass(frozen=True, slots=True)
class Merging:
    """Merges trees of many descents into the best tree of their cliques. Heuristic, for tens to hundreds.

    It returns a tree that meets all constraints or none at all. Without a first tree, `otherwise` gets all
    the time.

    Args:
        forest: backend for the best forest, which is the first tree unless it objects; None for none.
        greedy: backend for the greedy trees, of the scores and of perturbed ones.
        descent: local search that ends at a local optimum; its option `start` is set.
        improve: local search for the first tree and better ones; its option `start` is set.
        exact: solves the merged problems; its option `start` is set.
        otherwise: local search that alternates with rounds that find nothing, and gets the rest of the time
            after the last one or where even merges of two trees are abandoned; its option `start` is set;
            None to end after the last round.
        rounds: the largest number of consecutive rounds without a better tree, before `otherwise`.

    Raises:
        ValueError: a number is out of range, or a backend is not exact or lacks the option.
    """

    greedy: Backend
    descent: Backend
    improve: Backend
    exact: Backend
    forest: Backend | None = None
    otherwise: Backend | None = None
    rounds: int = 15

    name: ClassVar[str] = "merging"

    def __post_init__(self) -> None:
        if not self.exact.capabilities.exact:
            raise ValueError(f"'{self.exact.name}' is not exact; give an exact backend, such as clutter")
        for part in (self.descent, self.improve, self.exact, self.otherwise):
            if part is not None and not hasattr(part, "start"):
                raise ValueError(f"'{part.name}' has no option 'start'; give one that improves trees")
        if self.rounds < 0:
            raise ValueError("rounds must be at least 0")

    @property
    def capabilities(self) -> Capabilities:
        """The constraints that the local searches and `exact` support; a rank above theirs."""
        searches = self.descent.capabilities, self.improve.capabilities

        def objection(problem: Problem) -> str | None:
            parts = (part.capabilities for part in (self.descent, self.improve, self.exact))
            # Constraints are left to `features` below, the intersection of all parts.
            reasons = [r for one in parts for r in replace(one, features=ALL_FEATURES).objections(problem)]
            return " ".join(dict.fromkeys(reasons)) or None

        features = searches[0].features & searches[1].features & self.exact.capabilities.features
        rank = 1 + max(one.rank for one in searches)
        return Capabilities(features=features, rank=rank, rules=(objection,))

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`: the greedy tree and local searches, and n² bonuses."""
        parts = [self.greedy, self.descent, self.improve]
        costs = [estimate_of(one, problem, limits) for one in parts if not objections_of(one, problem)]
        memory = max(cost.memory for cost in costs) + 24 * problem.n**2
        memory += 1_000_000 * min(problem.n, 100)  # the families of merges
        return Estimate(memory, sum(cost.seconds for cost in costs))

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        self.estimate(problem, limits).require_memory(self.name, limits)
        return _Rounds(self, problem, limits, report).outcome()


class _Rounds:
    """The state of the rounds: the best tree, and the trees of the last rounds."""

    def __init__(
        self, options: Merging, problem: Problem, limits: Limits, report: Report, how: _Tuning = _TUNING
    ) -> None:
        self.options, self.problem, self.limits, self.report = options, problem, limits, report
        self.how = how
        self.generator = np.random.default_rng(limits.seed)
        self.wide = problem.max_clique_size >= self.how.wide
        small = problem.n <= self.how.large
        self.has_trajectories = self.wide and small
        self.group, recent = (1, 1) if self.wide else (3, 12) if small else (3, 3)
        self.noise = self.how.noise if small else self.how.noise_of_large
        self.recent: deque[JunctionTree] = deque(maxlen=recent)
        self.fresh: list[JunctionTree] = []  # of this round
        self.best: JunctionTree | None = None
        self.score = -inf
        self.incumbents = NewIncumbents(report)
        self.made = self.merges = self.abandoned = self.better = 0
        self.abandoned_pairs = 0  # abandoned merges of two trees
        self.current: JunctionTree | None = None  # the tree that the rounds improve
        self.idle = 0  # consecutive rounds that did not improve it
        self.last_score = -inf  # its score after the last round
        self.failed_trajectories = 0  # consecutive ones without a better tree than all before
        self.began = limits.elapsed
        self.last_gain = 0.0  # seconds until the active search took over, or found a better tree

    def outcome(self) -> Outcome:
        """Runs the rounds; a stop during scoring or growing keeps the best tree."""
        try:
            return self.run()
        except StoppedError:
            return Outcome(self.best, stop=self.report.stop or Stop.TIME, stats=self.stats())

    def run(self) -> Outcome:
        """Runs the rounds."""
        bound = self.begin()
        self.last_gain, self.last_score, self.current = self.elapsed, self.score, self.best
        otherwise = self.options.otherwise
        if self.best is None and bound == inf and otherwise is not None and self.report.stop is None:
            return otherwise.solve(self.problem, self.limits, self.report)
        while self.best is not None and bound == inf and self.report.stop is None:
            # In this order: another trajectory, the final local search, a turn of `otherwise`, a round.
            stuck = self.idle > self.options.rounds
            if self.may_begin_trajectory and (
                self.idle > min(self.how.idle, self.options.rounds) or self.has_met_best
            ):
                self.begin_trajectory(self.best)
                continue
            if otherwise is not None and (stuck or self.abandoned_pairs >= self.how.abandoned_pairs):
                found = self.improve(otherwise, self.best, self.report)
                return Outcome(self.best, found.bound, found.stop, {**found.stats, **self.stats()})
            if stuck:
                break
            if otherwise is not None and not self.has_trajectories and self.is_stalled():
                self.last_gain = self.elapsed
                bound = self.improve(otherwise, self.best, self.until_stalled()).bound
                self.last_gain = self.elapsed
            else:
                if self.offer(self.incumbents.new()) or not self.has_trajectories:
                    self.current = self.best
                self.step(self.current or self.best)
        return Outcome(self.best, bound, self.report.stop or Stop.FINISHED, self.stats())

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.limits.elapsed - self.began

    def is_stalled(self) -> bool:
        """Returns whether the active search has found nothing for as long as all work before it took."""
        least = max(self.last_gain, self.how.least_patience * self.group)
        return self.elapsed > self.last_gain + least

    @property
    def may_begin_trajectory(self) -> bool:
        """Whether another trajectory may begin: without a time limit, only until some fail."""
        return self.has_trajectories and (
            self.failed_trajectories < self.how.trajectories or self.limits.time is not None
        )

    @property
    def has_met_best(self) -> bool:
        """Whether the current tree is as good as the best one, of another trajectory."""
        current, best = self.current, self.best
        if current is None or current is best:
            return False
        return self.value(current) > self.score - self.how.tolerance

    def until_stalled(self) -> DerivedReport:
        """Returns a report that ends a search once it is stalled, and passes on trees only."""
        return DerivedReport(self.report, self.offer_news, lambda: Stop.TIME if self.is_stalled() else None)

    def stats(self) -> dict[str, int]:
        """Returns the counts of a run."""
        counts = {"descents": self.made, "merges": self.merges}
        return counts | {"abandoned": self.abandoned, "better": self.better}

    def begin(self) -> float:
        """Finds the first trees: forest, greedy tree, local search; returns a bound, inf for none."""
        forest = self.options.forest
        narrow = self.problem.with_treewidth(1)
        if forest is not None and not forest.capabilities.objections(narrow):
            self.offer(forest.solve(narrow, self.limits, self.part(self.how.forest)).tree)
        if self.report.stop is not None:
            return inf
        first = self.best
        self.offer(self.greedy(self.problem))
        if self.best is None or self.report.stop is not None:
            return inf
        found = self.descend(self.options.improve, self.best)
        if found.bound == inf and first is not None and self.wide:
            # From a narrower tree the local search widens step by step: the first merge combines widths.
            start = self.widened(self.narrow_tree()) if self.has_trajectories else first
            widened = self.descend(self.options.improve, start or first)
            self.recent.extend(tree for tree in (found.tree, widened.tree) if tree is not None)
            return widened.bound
        return found.bound

    def step(self, current: JunctionTree) -> None:
        """Descends from another start or, with a group of such trees, merges them with the current one."""
        if len(self.fresh) < self.group and self.add_descent(current):
            return
        # Steps 2 and 3 of a round: the merged problem contains `current`, so its optimum is no worse.
        self.report(note=f"merge {self.merges + 1}")
        merged = self.merge(current, [*self.recent, *self.fresh])
        self.recent.extend(self.fresh)
        self.fresh.clear()
        if merged is not None and self.value(merged) > self.value(current) + self.how.tolerance:
            self.better += 1
            current = self.improved(merged)
            self.recent.append(current)
        self.current = current
        # Descents between two merges may have improved the best tree, too: compare with the last round.
        self.idle = 0 if self.value(current) > self.last_score + self.how.tolerance else self.idle + 1
        self.last_score = self.value(current)

    def begin_trajectory(self, best: JunctionTree) -> None:
        """Merges the current tree with the best one and, if that gains nothing, begins another trajectory."""
        before, last = self.score, self.current
        self.idle, self.current = 0, best
        # Merges of a trajectory use its own trees only, as their cliques are compatible.
        self.recent.clear()
        merged = None if last is None or last is best else self.merge(best, [last])
        if merged is not None and self.value(merged) > before + self.how.tolerance:
            self.current = self.improved(merged)
        else:
            # Grow a narrow tree, lift it width by width, and improve it at full width.
            start = self.widened(self.far_start())
            found = None if start is None else self.descend(self.options.improve, start).tree
            self.current = found or best
        self.failed_trajectories = (
            0 if self.score > before + self.how.tolerance else self.failed_trajectories + 1
        )
        self.last_score = self.value(self.current)

    def improved(self, tree: JunctionTree) -> JunctionTree:
        """Returns a tree after a short local search."""
        self.offer(tree)
        found = self.descend(self.options.improve, tree).tree
        return tree if found is None else max(tree, found, key=self.value)

    def value(self, tree: JunctionTree) -> float:
        """Returns the score of a tree."""
        return tree.score(self.problem.scores)

    def add_descent(self, current: JunctionTree) -> bool:
        """Descends from another start; returns whether to continue, as long as most starts are feasible."""
        self.report(note=f"descent {self.made + 1}")
        start = self.start(current)
        self.made += 1
        found = None if start is None else self.descend(self.options.descent, start).tree
        if found is not None:
            self.fresh.append(found)
        # Where constraints forbid most starts, a round merges the trees it has after as many attempts.
        return found is not None or self.made <= self.group * (self.merges + 2)

    def merge(self, best: JunctionTree, trees: list[JunctionTree]) -> JunctionTree | None:
        """Returns the best tree of the cliques of all trees, or the best one found before it is abandoned."""
        cliques = {clique for tree in (best, *trees) for clique in tree.cliques}
        # `best` is a tree of this problem: the exact backend starts from it and returns nothing worse.
        problem = union_problem(self.problem, cliques)
        began = thread_time()
        inner = Limits(memory=self.limits.memory_bytes, threads=1, seed=self.limits.seed)
        exact: Any = self.options.exact
        outcome: Outcome = replace(exact, start=KnownTree(best)).solve(
            problem, inner, self.part(self.how.seconds)
        )
        self.merges += 1
        # Adapt the size of merges: first the number of recent trees, then that of new ones.
        most = self.recent.maxlen or 0
        if outcome.stop is not Stop.FINISHED:
            self.abandoned += 1
            if most == 0:
                self.abandoned_pairs += self.group == 1
                self.group = max(1, self.group // 2)
            most //= 2
        elif thread_time() - began < self.how.easy and (most == 0 or not self.has_trajectories):
            most += 1
        self.recent = deque(self.recent, most)
        return outcome.tree

    def start(self, current: JunctionTree) -> JunctionTree | None:
        """Returns a tree to descend from, or None if it violates the constraints."""
        return self.descend_perturbed(current) if self.has_trajectories else self.far_start()

    def far_start(self) -> JunctionTree | None:
        """Returns a narrow tree that is far from others, or None if it violates the constraints."""
        width = min(self.problem.n, self.problem.max_clique_size, self.how.wide - 1)
        # Both kinds in turn: each finds optima that the other misses (`starts`).
        if self.has_trajectories or self.made % 2:
            tree = grown_tree(self.problem.scores, width, self.generator, self.report)
            if self.problem.permits(tree) and isfinite(self.value(tree)):
                return tree
        return self.greedy(self.perturbed(self.generator.uniform(0.5, 1.5)).with_treewidth(width - 1))

    def narrow_tree(self) -> JunctionTree | None:
        """Returns the best narrow tree of a few rounds."""
        options = replace(self.options, otherwise=None, rounds=self.how.narrow_rounds)
        narrow = self.problem.with_treewidth(self.how.narrow)
        return options.solve(narrow, self.inner(), self.part()).tree

    def widened(self, tree: JunctionTree | None) -> JunctionTree | None:
        """Returns a narrow tree improved and lifted width by width; None if it violates a constraint.

        Of some lifts it keeps the one from which a descent ends best.
        """
        most = min(self.problem.max_clique_size - 1, self.how.narrow + self.how.widenings)
        # Invariant: `tree` has treewidth `width` at most, and is feasible for that treewidth.
        for width in range(self.how.narrow, most):
            if tree is None:
                return None
            narrow, wider = (self.problem.with_treewidth(one) for one in (width, width + 1))
            tree = self.search(self.options.improve, tree, narrow, self.silent()).tree or tree
            lifts = [lifted(self.favouring(), tree, width + 2) for _ in range(self.how.lifts)]
            # A lift is optimal for perturbed scores: it may lack true scores, or violate a constraint.
            starts = [one for one in lifts if wider.permits(one) and isfinite(self.value(one))]
            ends = [self.search(self.options.descent, one, wider, self.silent()).tree for one in starts]
            tree = max((end for end in ends if end is not None), key=self.value, default=None)
        return tree

    def descend_perturbed(self, current: JunctionTree) -> JunctionTree | None:
        """Returns where a descent from a tree ends with perturbed scores, by little or by much."""
        # The noising method: the local optimum of noisy scores is the start of the next descent.
        problem = replace(self.problem, scores=self.favouring())
        return self.search(self.options.descent, current, problem, self.silent()).tree

    def favouring(self) -> PerturbedScores:
        """Returns scores that favour some variables, by little or by much."""
        # Log-uniform: small and large noise are equally likely, as the useful scale is unknown.
        share = self.how.least_noise ** self.generator.uniform()
        deviation = self.noise * share * self.gain_per_edge()
        return favouring(self.problem.scores, deviation, self.generator)

    def perturbed(self, share: float) -> Problem:
        """Returns the problem with perturbed scores; the deviation is that share of the noise."""
        deviation = self.noise * share * self.gain_per_edge()
        return replace(self.problem, scores=perturbed(self.problem.scores, deviation, self.generator))

    def greedy(self, problem: Problem) -> JunctionTree | None:
        """Returns the greedy tree of a problem with other scores; None if it breaks a constraint."""
        backend = self.options.greedy
        if backend.capabilities.objections(problem):
            return None
        tree = backend.solve(problem, self.inner(), self.silent()).tree
        return tree if tree is not None and self.problem.permits(tree) else None

    def descend(self, search: Any, tree: JunctionTree) -> Outcome:
        """Runs a local search from a tree, and offers its result.

        It does not see the incumbent: it would continue from there, and all descents would end alike.
        """
        return self.improve(search, tree, self.part())

    def improve(self, search: Any, tree: JunctionTree, report: Report) -> Outcome:
        """Runs a local search from a tree, and offers its result."""
        outcome = self.search(search, tree, self.problem, report)
        self.offer(outcome.tree)
        return outcome

    def search(self, search: Any, tree: JunctionTree, problem: Problem, report: Report) -> Outcome:
        """Runs a local search from a tree."""
        start = (KnownTree(tree),) if isinstance(search.start, tuple) else KnownTree(tree)
        outcome: Outcome = replace(search, start=start).solve(problem, self.inner(), report)
        return outcome

    def inner(self) -> Limits:
        """Returns the limits of a part, with its own seed."""
        seed = int(self.generator.integers(1 << 31))
        return replace(self.limits, seed=seed)

    def gain_per_edge(self) -> float:
        """Returns the gain of the best tree over the empty graph, per edge, in nats."""
        assert self.best is not None, "there is one before the first round"
        empty = float(own_scores(self.problem.scores).sum())
        return abs(self.score - empty) / max(1, len(self.best.graph_edges))

    def part(self, seconds: float = inf) -> DerivedReport:
        """Returns a report that ends after some seconds of this thread, and passes on trees only.

        Bounds may hold for a part of the trees only.
        """
        end = thread_time() + seconds

        def ends() -> Stop | None:
            return Stop.TIME if seconds < inf and thread_time() > end else None

        return DerivedReport(self.report, self.offer_news, ends, same_problem=False)

    def silent(self) -> DerivedReport:
        """Returns a report without news, which stops with the whole."""
        return DerivedReport(self.report, lambda _news: None, same_problem=False)

    def offer_news(self, news: News) -> None:
        """Offers the tree of a message."""
        self.offer(news.get("tree"))

    def offer(self, tree: JunctionTree | None) -> bool:
        """Records and reports a tree if it is the best."""
        if tree is None or tree is self.best:
            return False
        score = tree.score(self.problem.scores)
        if score <= self.score + self.how.tolerance or not self.problem.permits(tree):
            return False
        self.best, self.score = tree, score
        self.last_gain = self.elapsed
        self.report(tree=tree)
        return True
