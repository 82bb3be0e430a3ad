"""The problem whose trees have only cliques that some given trees have, and their subsets."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.scores import SparseScores
from jtsolve.core.varset import VarSet, members, set_table, varset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jtsolve.core.problem import Problem


def union_problem(problem: Problem, cliques: Iterable[VarSet]) -> Problem:
    """Returns the problem with scores for the cliques, their subsets and single variables only.

    Every tree of it is a tree of the whole problem, with the same score.
    """
    sets: list[set[tuple[int, ...]]] = [set() for _ in range(problem.max_clique_size + 1)]
    sets[1].update((v,) for v in range(problem.n))
    # Separators of a tree are subsets of its cliques, so that all subsets make every mixture possible.
    for clique in cliques:
        inside = tuple(members(clique))
        for size in range(1, len(inside) + 1):
            sets[size].update(combinations(inside, size))
    pairs: list[tuple[VarSet, float]] = []
    for some in sets:
        if some:
            rows = sorted(some)
            values = problem.scores.batch(np.array(rows, dtype=np.intp)).tolist()
            pairs += [(varset(row), value) for row, value in zip(rows, values, strict=True) if value > -inf]
    return replace(problem, scores=SparseScores(problem.n, set_table(problem.n, pairs)), ceilings=None)
