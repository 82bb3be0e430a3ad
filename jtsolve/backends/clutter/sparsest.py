"""The sparsest optimal tree: a second branch and bound, on the families left by the proof of optimality.

A tree's number of edges and that of its parameters decompose like its score (`core.sparsity`), and so does

    worth · score − size,    size = K · edges + parameters,

where K exceeds any difference between the parameters of two trees. Let T maximise this, for any worth. A tree
T' of the best score has score(T') ≥ score(T), hence size(T) ≤ size(T'): no best tree has fewer edges, and
none with as many has fewer parameters. It remains to check that T is a best tree itself, by its score. If
not, a better tree has more edges whose gain counts less than their size, and the worth of a nat is raised;
the first worth is usually enough.

Sizes are integers, and a bound within one half proves them. The worth is limited by the largest score, so
that all rounding, of scores in floating point and in the units of `bound`, stays below a quarter. If no worth
fits, parameters are ignored, and then edges too.

The families are those that the proof left: of all trees that score as much as the best up to a margin. If no
tree ties there are few, and this takes milliseconds. It ends after as long as the proof took.
"""

from __future__ import annotations

from dataclasses import replace
from math import frexp, inf
from time import thread_time
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter.branch_and_bound import BranchAndBound
from jtsolve.backends.support.report import DerivedReport
from jtsolve.core.result import RELATIVE_TOLERANCE, Stop, optimality_tolerance
from jtsolve.core.scores import SparseScores
from jtsolve.core.sparsity import SetSizes, arities_of, tree_size
from jtsolve.families.families import families_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree
    from jtsolve.families.families import Families

_TIED = 0.1
"""Scores that differ by less than this share of the tolerance of "optimal" tie."""
_FIRST_WORTH = 4
"""First worth of a nat, as a multiple of the size of the best tree."""
_RAISE = 1 << 10
_ROOM = 2.0**43
"""Largest score times worth, for n = 1: of a float's 53 bits, ten are left for fractions of a size."""
_CLOSING_GAP = 0.5
_SECONDS = 2.0
"""Minimum time limit."""


def ties_with(families: Families) -> Callable[[float], float]:
    """Returns a function of the best score: how many nats less still tie, because of rounding."""
    rounding = RELATIVE_TOLERANCE * _largest(families)
    return lambda score: min(_TIED * optimality_tolerance(score), rounding)


def _largest(families: Families) -> float:
    return float(np.abs(families.scores[families.scores > -inf]).max())


def sparsest(
    problem: Problem, families: Families, tree: JunctionTree, limits: Limits, report: Report
) -> tuple[JunctionTree, str]:
    """Returns the sparsest optimal tree, and the criteria: "edges, parameters", "edges" or none.

    Args:
        problem: the scores and constraints.
        families: at least those of all trees that score as much as the best one less `ties_with`.
        tree: one of the best score.
        limits: of the whole run.
        report: ends the work.
    """
    end = thread_time() + max(_SECONDS, limits.elapsed)  # processor time, for busy machines
    part = DerivedReport(
        report,
        lambda _: None,
        lambda: Stop.TIME if thread_time() > end else None,
        same_problem=False,
    )
    score = tree.score(problem.scores)
    least = score - ties_with(families)(score)
    largest = _largest(families)
    for sizes, ties in _sizes(problem, families):
        edges, parameters = tree_size(problem, tree)
        worth = 2.0 ** frexp(_FIRST_WORTH * (sizes.edge * edges + parameters))[1]

        while worth * largest * problem.n <= _ROOM:
            sized = _sized(problem, families, sizes, worth)
            within = families_of(sized, families.root)
            search = BranchAndBound.for_problem(sized, within, limits, part, keep_stages=False)
            search.best.closing_gap = _CLOSING_GAP
            search.best.offer(tree)
            if search.run() is not Stop.FINISHED:
                return tree, ""
            found = search.best.tree
            if found is not None and found.score(problem.scores) >= least:
                return found, ties
            worth *= _RAISE
    return tree, ""


def _sizes(problem: Problem, families: Families) -> Iterator[tuple[SetSizes, str]]:
    """Yields sizes and their criteria: edges before parameters, if precision permits, then edges alone."""
    arities = arities_of(problem)
    if arities is not None:
        listed = families.listing()
        padded = np.array([*arities, 1], dtype=float)
        cells = padded[families.members].prod(axis=1)
        # A family adds cells(P∪v) − cells(P) parameters. An edge counts more than the sum of the ranges of
        # this over the vertices, by which two trees can differ: so the order is lexicographic.
        gain = cells[listed.union] - cells[listed.parents]
        most, fewest = np.zeros(problem.n), np.full(problem.n, inf)
        np.maximum.at(most, listed.vertex, gain)
        np.minimum.at(fewest, listed.vertex, gain)
        spread = float((most - fewest).sum())
        if spread < _ROOM:
            yield SetSizes(int(spread) + 1, tuple(arities)), "edges, parameters"
    yield SetSizes(), "edges"


def _sized(problem: Problem, families: Families, sizes: SetSizes, worth: float) -> Problem:
    """Returns the problem of the families' sets, with scores worth · s(A) − size(A)."""
    values = worth * families.scores
    for size in range(1, families.width + 1):
        at = np.flatnonzero(families.sizes == size)
        values[at] -= sizes.of_rows(families.members[at, :size])
    pairs = zip(families.masks(), values.tolist(), strict=True)
    return replace(problem, scores=SparseScores(problem.n, {mask: s for mask, s in pairs if s > -inf}))
