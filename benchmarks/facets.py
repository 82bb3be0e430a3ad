"""Facets of the chordal graph polytope on four or five variables against the solutions of the clutter LP.

    python benchmarks/facets.py --problems 4000 --sizes 6 7 8

The *chordal graph polytope* is the convex hull of the vectors c(A) = [A is complete in G], |A| ≥ 2, over all
chordal graphs G (Studený and Cussens, IJAR 2017). An induced subgraph of a chordal graph is chordal. So the
point c(A) = Σ x(v,P) over the families with v ∈ A ⊆ P∪v, which a solution of the LP implies for k variables,
is in the polytope on these k, or a facet of this polytope cuts the solution off. The polytope on 4 variables
has 61 vertices, that on 5 has 822: a small linear program decides whether a point is inside.

The problems have independent normal scores (`tests/problems.py`). `clutter`'s LP is solved by the simplex
method alone, given the best tree, until no clutter inequality is violated; a gap is more than 0.001 nats with
a fractional solution. All subsets of variables on which the solution is fractional are tried. The table has a
line for each number of variables.
"""

from __future__ import annotations

import argparse
import sys
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from problems import gaussian, named

from jtsolve.backends.brute import chordal_trees
from jtsolve.backends.clutter.branch_and_bound import BranchAndBound
from jtsolve.backends.clutter.separation import InOutPoint, Point, separate
from jtsolve.backends.clutter.simplex import SIMPLEX, CuttingPlanes
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import UNSTOPPABLE
from jtsolve.core.varset import VarSet, is_subset, varset
from jtsolve.families.families import choose_root, families_of
from jtsolve.solving import Recorder, solve

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.core.problem import Problem

_SIZES = (4, 5)
_GAP = 1e-3
_INTEGRAL = 1e-6
_OUTSIDE = 1e-4
"""A point whose L1 distance from the polytope is larger is outside."""


def sets_of(variables: Iterable[int]) -> list[VarSet]:
    """Returns the sets of at least two of these variables, in an order that depends only on them."""
    inside = sorted(variables)
    return [varset(some) for size in range(2, len(inside) + 1) for some in combinations(inside, size)]


def vertices(k: int) -> NDArray[np.float64]:
    """Returns the vertices of the polytope as columns: which of `sets_of` are complete in a chordal graph."""
    sets = sets_of(range(k))
    graphs = [[any(is_subset(one, c) for c in tree.cliques) for one in sets] for tree in chordal_trees(k)]
    return np.array(graphs, dtype=np.float64).T


def distance(point: NDArray[np.float64], hull: NDArray[np.float64]) -> float:
    """Returns the least sum of absolute differences to a convex combination of the columns."""
    rows, columns = hull.shape
    weights = np.vstack([hull, np.ones(columns)])
    slack = np.vstack([np.eye(rows), np.zeros(rows)])
    cost = np.concatenate([np.zeros(columns), np.ones(2 * rows)])
    limits = np.append(point, 1.0)
    found = linprog(cost, A_eq=np.hstack([weights, slack, -slack]), b_eq=limits, method="highs")
    return float(found.fun)


def fractional(problem: Problem) -> dict[VarSet, float] | None:
    """Returns c of a solution of the LP with a gap; None if the LP has no gap.

    Raises:
        RuntimeError: the LP solver failed.
    """
    tree = solve(problem, REGISTRY.parse("dp")).tree
    assert tree is not None, "without constraints there is a tree"
    families = families_of(problem, choose_root(problem, tree))
    report = Recorder(problem, Run())
    search = BranchAndBound.for_problem(problem, families, Limits(threads=1), report, keep_stages=False)
    search.best.offer(tree)
    subproblem = search.root.subproblem
    complete: dict[VarSet, float] = {}
    violated = True

    def check(point: Point, bound: Bound) -> bool:
        nonlocal violated
        exactly = InOutPoint(0.0, 0.0, 1e-6)
        found = separate(subproblem, bound, point, exactly, pool=None, report=UNSTOPPABLE)
        violated = bool(found.clutters)
        complete.clear()
        for at, slot, value in zip(*(part.tolist() for part in point), strict=True):
            v = int(subproblem.families.members[at, slot])
            for some in sets_of(subproblem.families.members_of(at)):
                if some >> v & 1:
                    complete[some] = complete.get(some, 0.0) + value
        return True

    while violated and not subproblem.closed:  # rounds may also end early, where branching would gain more
        cuts = CuttingPlanes(subproblem, None, SIMPLEX, polish=False)
        cuts.run(check, UNSTOPPABLE)
        if cuts.failures:
            raise RuntimeError("the LP solver failed")
    if subproblem.closed or subproblem.gap_of(subproblem.units) < _GAP:
        return None
    return complete if is_fractional(list(complete.values())) else None


def is_fractional(values: Sequence[float]) -> bool:
    """Returns whether a value is not integral."""
    return max(abs(value - round(value)) for value in values) > _INTEGRAL


def main() -> None:
    """Tries all problems and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=4000, help="of each number of variables")
    parser.add_argument("--sizes", type=int, nargs="+", default=[6, 7, 8], help="numbers of variables")
    parser.add_argument("--seed", type=int, default=0, help="of the first problem")
    arguments = parser.parse_args()
    polytopes = {k: vertices(k) for k in _SIZES}
    print("| variables | problems | with a gap |" + "".join(f" sets of {k} | outside |" for k in _SIZES))
    print("|--:|--:|--:|" + "--:|--:|" * len(_SIZES))
    for n in arguments.sizes:
        gaps, counts = 0, []
        for seed in range(arguments.seed, arguments.seed + arguments.problems):
            complete = fractional(named(gaussian(seed, n, n)))
            if complete is None:
                continue
            gaps += 1
            for k, hull in polytopes.items():
                for some in combinations(range(n), k):
                    point = [complete.get(one, 0.0) for one in sets_of(some)]
                    if is_fractional(point):
                        counts.append((k, distance(np.array(point), hull) > _OUTSIDE))
        cells = [f"{sum(size == k for size, _ in counts)} | {counts.count((k, True))}" for k in _SIZES]
        print(f"| {n} | {arguments.problems} | {gaps} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
