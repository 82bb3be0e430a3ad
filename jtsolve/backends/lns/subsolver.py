"""Exact solutions of regions of a junction tree: in batches where the exact backend can, else one by one.

Groups are possible if the only constraint is a bound on the treewidth and the exact backend has a solver for
groups of small problems. Each thread solves a batch; the batches do not depend on the number of threads.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.lns.region import Noise, region_problem, region_scores, shape_of
from jtsolve.backends.support.report import DerivedReport
from jtsolve.core.backend import Backend, Report, SmallTask, SolvesSmall
from jtsolve.core.problem import Problem, ProblemFeature
from jtsolve.core.run import Limits
from jtsolve.core.threads import Pool
from jtsolve.core.varset import VarSet, is_subset, members, renumbered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from jtsolve.backends.lns.tree import Region
    from jtsolve.core.backend import SmallAnswer, SmallSolver


class RegionOptimum(NamedTuple):
    """An optimum over a region's variables, among the trees that cover the region's boundary.

    Attributes:
        value: the score in nats.
        cliques: those of an optimal tree; empty if the value does not exceed the target.
        edges: those of the tree.
        gap: how much more another tree may score, in nats.
    """

    value: float
    cliques: list[VarSet]
    edges: tuple[tuple[int, int], ...]
    gap: float


def small_solver(exact: Backend, problem: Problem, region: int) -> SmallSolver | None:
    """Returns the solver for groups of regions of at most `region` variables; None if there is none.

    One region that holds all variables needs no groups, and no time to compile their solver.

    Args:
        exact: the backend that solves regions.
        problem: over all variables.
        region: maximum number of variables of a region.
    """
    if not isinstance(exact, SolvesSmall) or problem.constraints.features - {
        ProblemFeature.MAX_TREEWIDTH,
        ProblemFeature.MAX_CLIQUE_CELLS,
    }:
        return None
    solver = exact.small_solver(problem.max_clique_size)
    return solver if region <= solver.most and region < problem.n else None


class RegionSolver:
    """Solves regions of one problem.

    Args:
        problem: the whole.
        exact: the exact backend.
        region: the largest number of variables of a region.
        limits: the memory, the threads and the seed are passed on.
        report: polled for a reason to stop; it gets no news, as the trees are of other problems.
    """

    def __init__(self, problem: Problem, exact: Backend, region: int, limits: Limits, report: Report) -> None:
        self.problem, self.exact = problem, exact
        self.report = DerivedReport(report, lambda _news: None, same_problem=False)
        self.inner = Limits(memory=limits.memory_bytes, threads=1, seed=limits.seed)
        self.small = small_solver(exact, problem, region)
        self.pool = Pool(limits.workers) if self.small and limits.workers > 1 else None

    @property
    def group(self) -> int:
        """The number of regions that need the time of one."""
        return 1 if self.small is None else self.small.group

    def close(self) -> None:
        """Ends the threads."""
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def solve(
        self, regions: Sequence[Region], targets: Sequence[float], noises: Sequence[Noise | None]
    ) -> list[RegionOptimum | None]:
        """Returns the optimum of each region, with a tree if it exceeds the target in nats; None if stopped.

        Noise affects which tree is optimal, and the comparison with the target, but not the value.

        Args:
            regions: to optimise.
            targets: scores, in nats, above which the tree of a region is returned.
            noises: added to the scores of each region; None for none.
        """
        if self.small is None:
            return [self._one(region, noise) for region, noise in zip(regions, noises, strict=True)]
        return self._many(self.small, regions, targets, noises)

    def _one(self, region: Region, noise: Noise | None) -> RegionOptimum | None:
        local = region_problem(self.problem, region, noise)
        outcome = self.exact.solve(local.problem, self.inner, self.report)
        if outcome.tree is None:
            return None
        gap = max(0.0, outcome.bound - outcome.tree.score(local.problem.scores))
        return self._optimum(region, local.whole(outcome.tree.cliques), outcome.tree.edges, gap)

    def _many(
        self,
        small: SmallSolver,
        regions: Sequence[Region],
        targets: Sequence[float],
        noises: Sequence[Noise | None],
    ) -> list[RegionOptimum | None]:
        variables = [tuple(members(region.variables)) for region in regions]
        width = self.problem.max_clique_size
        scores = region_scores(self.problem, variables, width, noises)
        tasks = []
        for region, chosen, values, target in zip(regions, variables, scores, targets, strict=True):
            renamed = {v: i for i, v in enumerate(chosen)}
            covered = tuple(renumbered(mask, renamed) for mask in region.covered)
            masks = shape_of(len(chosen), min(len(chosen), width)).masks
            tasks.append(SmallTask(len(chosen), masks, values, covered, target))
        # A group needs the time of its largest problem.
        order = sorted(range(len(tasks)), key=lambda i: tasks[i].variables)
        groups = [order[start : start + small.group] for start in range(0, len(order), small.group)]
        call: Callable[[list[int]], list[SmallAnswer]] = lambda group: small([tasks[i] for i in group])  # noqa: E731
        answers = map(call, groups) if self.pool is None else self.pool.map(call, groups)
        optima: list[RegionOptimum | None] = [None] * len(tasks)
        for group, found in zip(groups, answers, strict=True):
            # `i` is the position in the caller's order, which sorting into groups has changed.
            for i, answer in zip(group, found, strict=True):
                gap = _rounding(scores[i], len(variables[i]))
                if answer.cliques:
                    cliques = [renumbered(one, variables[i]) for one in answer.cliques]
                    optima[i] = self._optimum(regions[i], cliques, answer.edges, gap)
                else:
                    optima[i] = RegionOptimum(answer.value, [], (), gap)
        return optima

    def _optimum(
        self, region: Region, cliques: list[VarSet], edges: tuple[tuple[int, int], ...], gap: float
    ) -> RegionOptimum | None:
        """Returns a tree over a region's variables with its score; None if it does not cover the boundary."""
        if not all(any(is_subset(one, clique) for clique in cliques) for one in region.covered):
            return None  # the exact backend rounds, or was stopped
        # The solver's value has bonuses and noise: the value of a region is that of the scores alone.
        scores = self.problem.scores
        value = sum(scores.score(clique) for clique in cliques)
        value -= sum(scores.score(cliques[a] & cliques[b]) for a, b in edges)
        return RegionOptimum(value, cliques, edges, gap)


def _rounding(scores: NDArray[np.float64], variables: int) -> float:
    """Returns the largest error of an optimum by rounding, in nats: that of 4n additions of such scores."""
    high = float(np.abs(scores[scores > -inf]).max())
    return 4 * variables * float(np.finfo(np.float64).eps) * 2 * variables * high
