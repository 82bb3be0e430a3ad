"""Where the clutter LP leaves a gap: do inequalities on four or five variables cut off its solution?

    python benchmarks/facets.py --problems 4000 --sizes 6 7 8

The *chordal graph polytope* is the convex hull of the vectors c(A) = [A is complete in G], |A| ≥ 2, over all
chordal graphs G (Studený and Cussens, IJAR 2017). An induced subgraph of a chordal graph is chordal. So what
a solution of the LP says of k variables, c(A) = Σ x(v,P) over the families with v ∈ A ⊆ P∪v, is in the
polytope on these k, or a facet of that cuts the solution off. The polytope on 4 variables has 61 vertices,
that on 5 has 822: whether a point is within is a small linear program.

The problems have independent normal scores (`tests/problems.py`). `clutter`'s LP is solved by the simplex
method alone, with the best tree known and until no clutter inequality is violated; a gap is more than 0.001
nats with a fractional solution. All subsets of its variables on which that is fractional are tried. The table
has a line for each number of variables.
"""

from __future__ import annotations

import argparse
import sys
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import networkx as nx
import numpy as np
from scipy.optimize import linprog

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from problems import gaussian, named

from jtsolve.backends.clutter.branch_and_bound import BranchAndBound
from jtsolve.backends.clutter.separation import InOutPoint, Point, separate
from jtsolve.backends.clutter.simplex import CuttingPlanes
from jtsolve.backends.parse import parse_backend
from jtsolve.core.backend import Limits
from jtsolve.families.families import choose_root, families_of
from jtsolve.solving import Recorder, solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.core.problem import Problem

_SIZES = (4, 5)
_GAP = 1e-3
_INTEGRAL = 1e-6
_OUTSIDE = 1e-4
"""The sum of the distances of all c(A) from the polytope, above which a point is outside."""

Complete = dict[frozenset[int], float]


class Polytope(NamedTuple):
    """The sets of at least two of k variables, and shape (sets, chordal graphs): which are complete."""

    sets: list[frozenset[int]]
    vertices: NDArray[np.float64]


def polytope(k: int) -> Polytope:
    """Returns the chordal graph polytope by its vertices."""
    sets = [frozenset(some) for size in range(2, k + 1) for some in combinations(range(k), size)]
    pairs = list(combinations(range(k), 2))
    vertices = []
    for mask in range(1 << len(pairs)):
        graph = nx.empty_graph(k)
        graph.add_edges_from(pair for i, pair in enumerate(pairs) if mask >> i & 1)
        if nx.is_chordal(graph):
            vertices.append([all(graph.has_edge(u, v) for u, v in combinations(some, 2)) for some in sets])
    return Polytope(sets, np.array(vertices, dtype=np.float64).T)


def distance(point: NDArray[np.float64], hull: NDArray[np.float64]) -> float:
    """Returns the least sum of absolute differences to a convex combination of the columns."""
    rows, columns = hull.shape
    weights = np.vstack([hull, np.ones(columns)])
    slack = np.vstack([np.eye(rows), np.zeros(rows)])
    cost = np.concatenate([np.zeros(columns), np.ones(2 * rows)])
    limits = np.append(point, 1.0)
    found = linprog(cost, A_eq=np.hstack([weights, slack, -slack]), b_eq=limits, method="highs")
    return float(found.fun)


def fractional(problem: Problem) -> Complete | None:
    """Returns which sets are complete in a solution of the LP that leaves a gap; None if there is none."""
    tree = solve(problem, parse_backend("dp")).tree
    assert tree is not None, "without constraints, there is one"
    families = families_of(problem, choose_root(problem, tree))
    search = BranchAndBound.whole(
        problem, families, Limits(threads=1), Recorder(problem, Limits()), keep_stages=False
    )
    search.best.offer(tree)
    subproblem = search.root.subproblem
    latest: list[tuple[Point, Bound, list[tuple[int, frozenset[int]]]]] = []

    def listen(point: Point, bound: Bound) -> bool:
        inside = [frozenset(subproblem.families.members_of(at)) for at in point.union.tolist()]
        vertex = subproblem.families.members[point.union, point.slot].tolist()
        latest[:] = [(point, bound, list(zip(vertex, inside, strict=True)))]
        return True

    while not subproblem.closed:
        CuttingPlanes(subproblem, None).run(listen, lambda: True)
        if subproblem.closed:
            break
        point, bound, arrivals = latest[0]
        if np.abs(point.value - np.round(point.value)).max() < _INTEGRAL:
            break
        exactly = InOutPoint(0.0, 0.0, 1e-6)
        left = separate(subproblem, bound, point, exactly, pool=None, should_continue=lambda: True)
        if left.clutters:  # it ended as branching would have done more
            continue
        if subproblem.gap_of(subproblem.units) < _GAP:
            break
        complete: Complete = {}
        for (v, inside), value in zip(arrivals, point.value.tolist(), strict=True):
            for size in range(len(inside)):
                for others in combinations(sorted(inside - {v}), size):
                    some = frozenset(others) | {v}
                    complete[some] = complete.get(some, 0.0) + value
        return complete
    return None


def main() -> None:
    """Tries all problems, and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=4000, help="of each number of variables")
    parser.add_argument("--sizes", type=int, nargs="+", default=[6, 7, 8], help="numbers of variables")
    parser.add_argument("--seed", type=int, default=0, help="of the first problem")
    arguments = parser.parse_args()
    polytopes = {k: polytope(k) for k in _SIZES}
    print("| variables | problems | with a gap |" + "".join(f" sets of {k} | outside |" for k in _SIZES))
    print("|--:|--:|--:|" + "--:|--:|" * len(_SIZES))
    for n in arguments.sizes:
        gaps, counts = 0, []
        for seed in range(arguments.seed, arguments.seed + arguments.problems):
            complete = fractional(named(gaussian(seed, n, n)))
            if complete is None:
                continue
            gaps += 1
            for k, (sets, vertices) in polytopes.items():
                for some in combinations(range(n), k):
                    point = [complete.get(frozenset(some[i] for i in one), 0.0) for one in sets]
                    if np.abs(np.array(point) - np.round(point)).max() > _INTEGRAL:
                        counts.append((k, distance(np.array(point), vertices) > _OUTSIDE))
        cells = [f"{sum(size == k for size, _ in counts)} | {counts.count((k, True))}" for k in _SIZES]
        print(f"| {n} | {arguments.problems} | {gaps} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
