"""A region of a junction tree as a problem for any exact backend.

A junction tree over the region's variables U can replace the region if and only if it covers every boundary
separator B_j, that is, if some clique contains it. Scores express this:

    f'(A) = f(A) + M · #{j : B_j ⊆ A}.

By running intersection, the cliques that contain B_j form a subtree, with one separator less than cliques, so
a tree gains M once for every B_j that it covers. The current tree covers all of them; M exceeds the
difference of any two trees' scores, so an optimal tree covers all of them too.

The region inherits the constraints of the problem: bounds on sizes unchanged; forbidden and required edges,
forbidden cliques, forbidden and allowed separators if they are within U. (A required edge within U that a
clique outside contains is within a B_j. A clique equal to some B_j will be merged into a neighbour, so it is
not forbidden here.) A set with too many cells has no score here, so that solvers of small problems need not
support that constraint. Only a bound on the number of cliques cannot be expressed within a region.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.core.permitted import Masks, within_cells
from jtsolve.core.problem import Problem, Variable
from jtsolve.core.scores import DenseScores, LocalScores, SparseScores
from jtsolve.core.varset import VarSet, bounded_subsets, members, renumbered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from jtsolve.backends.lns.tree import Region


class Noise(NamedTuple):
    """Normal noise on the scores of sets of two or more variables.

    Attributes:
        deviation: its standard deviation, in nats.
        generator: of the random numbers.
    """

    deviation: float
    generator: np.random.Generator


@dataclass(frozen=True, slots=True)
class RegionProblem:
    """A region as a problem, whose variable i is the variable `variables[i]` of the whole."""

    problem: Problem
    variables: tuple[int, ...]

    def whole(self, cliques: Iterable[VarSet]) -> list[VarSet]:
        """Returns cliques of the region's problem as sets of the whole."""
        return [renumbered(clique, self.variables) for clique in cliques]


def region_problem(problem: Problem, region: Region, noise: Noise | None = None) -> RegionProblem:
    """Returns the problem over the region's variables U.

    Args:
        problem: over all variables.
        region: a subtree of the incumbent.
        noise: added to the scores; None for none.
    """
    variables = tuple(members(region.variables))
    # A clique at the boundary lies within one of the whole tree there.
    boundary = frozenset(mask for _, _, mask in region.boundary)
    limits = problem.constraints
    constraints = replace(
        limits,
        max_treewidth=None,
        max_cliques=None,
        max_clique_cells=None,
        forbidden_cliques=limits.forbidden_cliques - boundary,
        forbidden_graphs=frozenset(),
    ).restricted_to(variables)
    width = min(len(variables), problem.max_clique_size)
    place = {v: i for i, v in enumerate(variables)}
    covered = frozenset(renumbered(mask, place) for mask in region.covered)
    scores = _scores(problem, np.array(variables), width, covered, noise)
    return RegionProblem(Problem(_names(len(variables)), scores, constraints, "region"), variables)


@lru_cache(maxsize=64)
def _names(n: int) -> tuple[Variable, ...]:
    return tuple(Variable(str(v)) for v in range(n))


class RegionShape(NamedTuple):
    """The sets of at most `width` of m variables in colex order, shared by all regions of this shape.

    Attributes:
        masks: shape (K,).
        rows: for each size from 1, the positions of its sets in the order, and their members, shape
            (count, size).
        contains: shape (K, m): 1 where a set contains a variable, else 0.
    """

    masks: NDArray[np.int64]
    rows: tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]
    contains: NDArray[np.float64]


@lru_cache(maxsize=16)
def shape_of(m: int, width: int) -> RegionShape:
    """Returns the sets of at most `width` of m variables."""
    masks = np.array(list(bounded_subsets(m, width)), dtype=np.int64)
    sizes = np.bitwise_count(masks)
    rows = []
    for size in range(1, width + 1):
        places = np.flatnonzero(sizes == size)
        chosen = [list(members(int(mask))) for mask in masks[places]]
        rows.append((places, np.array(chosen, dtype=np.intp)))
    return RegionShape(masks, tuple(rows), (masks[:, None] >> np.arange(m) & 1).astype(np.float64))


def region_scores(
    problem: Problem,
    regions: Sequence[Sequence[int]],
    width: int,
    noises: Sequence[Noise | None],
) -> list[NDArray[np.float64]]:
    """Returns the noisy scores, shape (K,), of each region's small sets in colex order.

    There is one batch of scores for each size, over all regions.

    Args:
        problem: over all variables.
        regions: the variables of each.
        width: maximum size of the sets.
        noises: added to the scores of each region; None for none.
    """
    scores = problem.scores
    arrays = [np.array(variables, dtype=np.intp) for variables in regions]
    shapes = [shape_of(array.size, min(array.size, width)) for array in arrays]
    found = [np.zeros(shape.masks.size) for shape in shapes]
    # Sizes outside, regions inside: one batch of scores serves all regions.
    for size in range(1, width + 1):
        some = [i for i, shape in enumerate(shapes) if size <= len(shape.rows)]
        if not some:
            break
        values = scores.batch(np.concatenate([arrays[i][shapes[i].rows[size - 1][1]] for i in some]))
        end = 0
        for i in some:
            places = shapes[i].rows[size - 1][0]
            found[i][places] = values[end : end + places.size]
            end += places.size
    most = problem.constraints.max_clique_cells
    for values, shape, array, noise in zip(found, shapes, arrays, noises, strict=True):
        if most is not None:
            values[~within_cells([problem.variables[v] for v in array], Masks(shape.masks), most)] = -inf
        # Single variables get no noise: it would move all trees alike.
        if noise is not None:
            larger = np.bitwise_count(shape.masks) > 1
            values[larger] += noise.deviation * noise.generator.standard_normal(int(larger.sum()))
    return found


def _scores(
    problem: Problem,
    variables: NDArray[np.intp],
    width: int,
    covered: frozenset[VarSet],
    noise: Noise | None,
) -> LocalScores:
    """Returns f' over the variables, normalised, which keeps M small and shifts all trees' scores alike."""
    m = variables.size
    shape = shape_of(m, width)
    values = region_scores(problem, [variables.tolist()], width, [noise])[0]
    # Normalised: each set loses the scores of its members, which every tree has once in all.
    exists = values > -inf
    values[~exists] = 0.0
    values -= shape.contains @ values[shape.rows[0][0]]
    # A tree has at most m cliques and m - 1 separators: two trees differ by less than 4m times the largest.
    bonus = 4 * m * float(np.abs(values[exists]).max()) + 1.0
    for separator in covered:
        values[shape.masks & separator == separator] += bonus
    if exists.all():
        return DenseScores(m, width, values)
    found = np.flatnonzero(exists)
    return SparseScores(m, dict(zip(shape.masks[found].tolist(), values[found].tolist(), strict=True)))
