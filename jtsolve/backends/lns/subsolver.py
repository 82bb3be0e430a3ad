"""Regions of a junction tree solved exactly: many at a time where the exact backend can, else one by one.

Many at a time: if there is no constraint but a bound on the treewidth, and the exact backend has a solver for
groups of small problems. Threads take a group each; what the groups are does not depend on their number.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.lns.region import Noise, local_problem, local_scores, shape_of
from jtsolve.backends.support.report import DerivedReport
from jtsolve.core.backend import Backend, Limits, Report, SmallTask, SolvesSmall
from jtsolve.core.problem import Feature, Problem
from jtsolve.core.varset import VarSet, is_subset, members, varset

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from jtsolve.backends.lns.tree import Region
    from jtsolve.core.backend import SmallAnswer, SmallSolver


class Part(NamedTuple):
    """What is best over a region's variables, covering what the region covers.

    Attributes:
        value: its score in nats.
        cliques: of a tree that has it; none if the value is no more than what was asked for.
        edges: of that tree.
        gap: how much more another tree may have, in nats.
    """

    value: float
    cliques: list[VarSet]
    edges: tuple[tuple[int, int], ...]
    gap: float


def small_solver(exact: Backend, problem: Problem, region: int) -> SmallSolver | None:
    """Returns the solver for groups of regions of at most so many variables, if there is one for them."""
    if not isinstance(exact, SolvesSmall) or problem.constraints.features - {Feature.MAX_TREEWIDTH}:
        return None
    solver = exact.small_solver(problem.max_clique_size)
    return solver if region <= solver.most else None


class RegionSolver:
    """Solves regions of one problem.

    Args:
        problem: the whole.
        exact: the exact backend.
        region: the most variables of a region.
        limits: the memory, the threads and the seed are passed on.
        report: is asked whether to go on.
    """

    def __init__(self, problem: Problem, exact: Backend, region: int, limits: Limits, report: Report) -> None:
        self.problem, self.exact = problem, exact
        self.report = DerivedReport(report, lambda _news: None, same_problem=False)
        self.inner = Limits(memory=limits.memory_bytes, threads=1, seed=limits.seed)
        self.small = small_solver(exact, problem, region)
        self.pool = ThreadPoolExecutor(limits.workers) if self.small and limits.workers > 1 else None

    @property
    def group(self) -> int:
        """How many regions take as long as one."""
        return 1 if self.small is None else self.small.group

    def close(self) -> None:
        """Ends the threads."""
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def solve(
        self, regions: Sequence[Region], targets: Sequence[float], noises: Sequence[Noise | None]
    ) -> list[Part | None]:
        """Returns the best part for each region, with a tree if it scores more than the target in nats.

        Noise counts for what is best, and for the target, not for the value. None: cut short.
        """
        if self.small is None:
            return [self._one(region, noise) for region, noise in zip(regions, noises, strict=True)]
        return self._many(self.small, regions, targets, noises)

    def _one(self, region: Region, noise: Noise | None) -> Part | None:
        local = local_problem(self.problem, region, noise)
        outcome = self.exact.solve(local.problem, self.inner, self.report)
        if outcome.tree is None:
            return None
        gap = max(0.0, outcome.bound - outcome.tree.score(local.problem.scores))
        return self._part(region, local.whole(outcome.tree.cliques), outcome.tree.edges, gap)

    def _many(
        self,
        small: SmallSolver,
        regions: Sequence[Region],
        targets: Sequence[float],
        noises: Sequence[Noise | None],
    ) -> list[Part | None]:
        variables = [tuple(members(region.variables)) for region in regions]
        width = self.problem.max_clique_size
        scores = local_scores(self.problem.scores, variables, width, noises)
        tasks = []
        for region, chosen, values, target in zip(regions, variables, scores, targets, strict=True):
            renamed = {v: i for i, v in enumerate(chosen)}
            covered = tuple(varset(renamed[v] for v in members(mask)) for mask in region.covered)
            masks = shape_of(len(chosen), min(len(chosen), width)).masks
            tasks.append(SmallTask(len(chosen), masks, values, covered, target))
        # Problems of a group take as long as the largest of it.
        order = sorted(range(len(tasks)), key=lambda i: tasks[i].variables)
        groups = [order[start : start + small.group] for start in range(0, len(order), small.group)]
        call: Callable[[list[int]], list[SmallAnswer]] = lambda group: small([tasks[i] for i in group])  # noqa: E731
        answers = map(call, groups) if self.pool is None else self.pool.map(call, groups)
        parts: list[Part | None] = [None] * len(tasks)
        for group, found in zip(groups, answers, strict=True):
            for i, answer in zip(group, found, strict=True):
                gap = _rounding(scores[i], len(variables[i]))
                if answer.cliques:
                    cliques = [varset(variables[i][v] for v in members(one)) for one in answer.cliques]
                    parts[i] = self._part(regions[i], cliques, answer.edges, gap)
                else:
                    parts[i] = Part(answer.value, [], (), gap)
        return parts

    def _part(
        self, region: Region, cliques: list[VarSet], edges: tuple[tuple[int, int], ...], gap: float
    ) -> Part | None:
        """Returns a tree over a region's variables with its score, computed anew; None unless it covers."""
        if not all(any(is_subset(one, clique) for clique in cliques) for one in region.covered):
            return None  # an exact backend that rounds, and was stopped
        scores = self.problem.scores
        value = sum(scores.score(clique) for clique in cliques)
        value -= sum(scores.score(cliques[a] & cliques[b]) for a, b in edges)
        return Part(value, cliques, edges, gap)


def _rounding(scores: NDArray[np.float64], variables: int) -> float:
    """Returns by how much rounding can have lowered an optimum: that of 4n additions of such scores."""
    high = float(np.abs(scores[scores > -inf]).max())
    return 4 * variables * float(np.finfo(np.float64).eps) * 2 * variables * high
