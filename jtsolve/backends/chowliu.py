"""Treewidth 1 as a maximum-weight spanning forest, for any number of variables.

A chordal graph without triangles is a forest, and its score is Σ_v s(v) + Σ_{ab ∈ E} g(a,b) with the gain
g(a,b) = s(ab) − s(a) − s(b): for maximum-likelihood scores, the mutual information. The best forest is a
maximum spanning tree without its edges of no gain. Constraints only change the weights: a required edge
outweighs all others, a forbidden one is absent, and a connected graph needs the edges of no gain.

Constraints on the degrees of variables (one that may not be a separator, or not a clique by itself) do not
fit a spanning forest; the rules refuse them.

Time O(n²), with each pair scored once; memory O(n) besides the scores.

References:
    Chow and Liu, Approximating discrete probability distributions with dependence trees, IEEE Trans. Inf.
    Theory 1968. Prim, Shortest connection networks and some generalizations, Bell Syst. Tech. J. 1957 (the
    dense form; here with maxima, and a new root where no edge can be added).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.core.backend import Capabilities, Estimate
from jtsolve.core.machine import base_memory
from jtsolve.core.problem import LOCAL_FEATURES
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.sparsity import arities_of, ties_of
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, is_subset, members, neighbours_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits

_PAIR = 2
_FIRST_TREE = 0.5
"""Seconds until the first intermediate forest; each later one has twice the time of the one before."""
_AT_LEAST = 0.5
"""Processor seconds granted even past the deadline: a forest without edges is no answer."""
_ROWS_PER_REPORT = 256
"""Rows between two reports: at n = 10,000 about a tenth of a second."""


def _supports_treewidth(problem: Problem) -> str | None:
    if problem.max_clique_size <= _PAIR:
        return None
    return (
        f"It finds trees of treewidth 1 only (max_treewidth at most 1), and this problem allows "
        f"{problem.max_clique_size - 1}."
    )


def _scores_every_variable(problem: Problem) -> str | None:
    missing = [v for v, score in enumerate(_singles(problem)) if score == -inf]
    if not missing:
        return None
    return f"Some variables have no score by themselves, such as '{problem.names[missing[0]]}'."


def _accepts_min_separator_size(problem: Problem) -> str | None:
    least = problem.constraints.min_separator_size
    if least < _PAIR or problem.n <= _PAIR:
        return None
    return (
        f"The constraint min_separator_size of {least} cannot be met at treewidth 1, where it is at most 1."
    )


def _bounds_no_degree(problem: Problem) -> str | None:
    limits = problem.constraints
    if problem.n <= _PAIR or problem.max_clique_size < _PAIR:
        return None  # no variable can have two edges
    reasons = []
    if limits.max_separator_size == 0:
        reasons.append("The constraint max_separator_size of 0 requires a matching, not a forest.")
    singles = [1 << v for v in range(problem.n)] if limits.allowed_separators is not None else []
    excluded = {
        "forbidden_separators": [mask for mask in limits.forbidden_separators if mask.bit_count() == 1],
        "allowed_separators": [mask for mask in singles if mask not in (limits.allowed_separators or ())],
    }
    reasons += [
        f"The constraint {name} bounds the degree of variable '{problem.names[min(masks).bit_length() - 1]}'."
        for name, masks in excluded.items()
        if masks
    ]
    return " ".join(reasons) or None


def _accepts_forbidden_cliques(problem: Problem) -> str | None:
    joined = 0
    for edge in problem.constraints.required_edges:
        joined |= edge
    alone = [mask for mask in problem.constraints.forbidden_cliques if mask.bit_count() == 1]
    bad = min((mask for mask in alone if not is_subset(mask, joined)), default=None)
    if bad is None or (_must_connect(problem) and problem.n > 1):
        return None  # every variable gets an edge
    name = problem.names[bad.bit_length() - 1]
    return f"The constraint forbidden_cliques requires an edge at variable '{name}'."


def _must_connect(problem: Problem) -> bool:
    """Returns whether the empty set may not be a separator, so that the graph must be connected."""
    return not problem.permits_separator(0)


def _singles(problem: Problem) -> NDArray[np.float64]:
    """Returns the scores of the single variables, shape (n,)."""
    return problem.scores.batch(np.arange(problem.n, dtype=np.intp)[:, None])


@dataclass(frozen=True, slots=True)
class ChowLiu:
    """Finds the best forest, the junction tree of treewidth at most 1. Exact, for any number of variables."""

    name: ClassVar[str] = "chowliu"
    capabilities: ClassVar[Capabilities] = Capabilities(
        features=LOCAL_FEATURES,
        exact=True,
        rules=(
            _supports_treewidth,
            _scores_every_variable,
            _accepts_min_separator_size,
            _bounds_no_degree,
            _accepts_forbidden_cliques,
        ),
    )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:  # noqa: ARG002 - the protocol's signature
        """See `Backend.estimate`: some ten vectors of n besides the scores; timed on 10^8 pairs."""
        return Estimate(memory=base_memory() + 200 * problem.n, seconds=1e-3 + 5e-8 * problem.n**2)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`; stopped early, it builds a forest from the pairs scored so far.

        After a time limit or an interruption it still has half a second of processor time.
        """
        self.estimate(problem, limits).require_memory(self.name, limits)
        pairs = _PairGains.of(problem)
        if pairs is None:
            return Outcome(None, bound=-inf)
        families, stop = _prim(problem, pairs, report)
        connected = sum(not parents for _, parents in families) == 1
        if _must_connect(problem) and not connected:
            return Outcome(None, bound=-inf) if stop is None else Outcome(None, stop=stop)
        tree = JunctionTree.from_families(families)
        if stop is not None:
            return Outcome(tree, stop=stop)
        return Outcome(tree, bound=tree.score(problem.scores), stats={"ties": ties_of(problem)})


@dataclass(frozen=True, slots=True)
class _PairGains:
    """The gains of the pairs, row by row: inf for a required edge, -inf for a forbidden one.

    Args:
        problem: with the scores of the pairs.
        singles: shape (n,), the scores of the variables in nats.
        free: shape (n,), the states of the variables less one, which break ties; 0 if unknown.
        required: the required neighbours of each variable.
        absent: the forbidden neighbours of each variable.
    """

    problem: Problem
    singles: NDArray[np.float64]
    free: NDArray[np.int64]
    required: dict[int, list[int]]
    absent: dict[int, list[int]]

    @classmethod
    def of(cls, problem: Problem) -> _PairGains | None:
        """Returns the gains; None if the required edges have a cycle, or constraints exclude every forest."""
        limits = problem.constraints
        most = limits.max_clique_cells
        if most is not None and any(problem.cells(1 << v) > most for v in range(problem.n)):
            return None
        if not all(problem.permits_clique(edge) for edge in limits.required_edges):
            return None
        if limits.required_edges and not _is_forest(problem.n, limits.required_edges):
            return None
        forbidden = {edge for edge in limits.forbidden_cliques if edge.bit_count() == _PAIR}
        return cls(
            problem,
            _singles(problem),
            np.array(arities_of(problem) or [1] * problem.n) - 1,
            _adjacency(limits.required_edges),
            _adjacency(limits.forbidden_edges | forbidden),
        )

    def row(self, v: int, others: NDArray[np.intp]) -> NDArray[np.float64]:
        """Returns g(v,u) for every u in `others`, which is increasing; the same shape."""
        if self.problem.max_clique_size < _PAIR:
            return np.full(others.size, -inf)
        scores = self.problem.scores.batch(np.column_stack((np.minimum(others, v), np.maximum(others, v))))
        gains = _gains(scores, self.singles[v], self.singles[others])
        if v in self.absent:
            gains[np.isin(others, self.absent[v])] = -inf
        if (most := self.problem.constraints.max_clique_cells) is not None:
            gains[(self.free[v] + 1) * (self.free[others] + 1) > most] = -inf
        return np.maximum(gains, self.only_required(v, others))

    def only_required(self, v: int, others: NDArray[np.intp]) -> NDArray[np.float64]:
        """Returns inf for every u in `others` that is a required neighbour of v, -inf for the rest."""
        if v not in self.required:
            return np.full(others.size, -inf)
        return np.where(np.isin(others, self.required[v]), inf, -inf)


def _prim(
    problem: Problem, pairs: _PairGains, report: Report
) -> tuple[list[tuple[int, VarSet]], Stop | None]:
    """Grows the forest from variable 0 by the edge of the largest gain, then of the fewest parameters.

    An edge of gain 0 is left out. Edges are compared by gain and then by parameters, so that of all best
    forests with the fewest edges, this one has the fewest parameters.

    A run of seconds reports intermediate forests, in which each variable outside is linked to its best
    neighbour inside. When stopped, it continues with the gains known so far and the required edges, in a
    fraction of the time; the forest meets all constraints but connectedness.

    Returns:
        The families (v, parents) in the order of arrival, and why scoring stopped early, or None.
    """
    n = problem.n
    least = -inf if _must_connect(problem) else 0.0  # an edge is kept if its gain is larger
    others = np.arange(n, dtype=np.intp)
    gain = np.full(n, -inf)  # of the best edge between each of the others and the forest
    parent = np.zeros(n, dtype=np.intp)
    cost = np.zeros(n, dtype=np.int64)  # parameters of that edge
    families: list[tuple[int, VarSet]] = []
    stop = None
    began, used = monotonic(), thread_time()
    # An intermediate forest may lack required edges or be disconnected.
    next_tree = _FIRST_TREE if least == 0 and not pairs.required else inf

    def linked(some: Any) -> list[tuple[int, VarSet]]:
        """Returns the families of some of the others, by their best edges so far."""
        known = zip(others[some].tolist(), gain[some].tolist(), parent[some].tolist(), strict=True)
        return [(u, 1 << p if g > least else 0) for u, g, p in known]

    while others.size:
        tied = np.flatnonzero(gain == gain.max())
        best = int(tied[np.argmin(cost[tied])])
        v = int(others[best])
        families += linked([best])
        others, gain, parent, cost = (np.delete(array, best) for array in (others, gain, parent, cost))
        if len(families) % _ROWS_PER_REPORT == 0:
            report(done=1 - (others.size / n) ** 2, note="scoring pairs")
        if stop is None and others.size:
            stop = report.stop
            if thread_time() - used < _AT_LEAST:
                stop = None
            if (elapsed := monotonic() - began) > next_tree:
                report(tree=JunctionTree.from_families([*families, *linked(slice(None))]))
                next_tree = 2 * elapsed
            if stop is not None:  # only the required edges of the rest may still change
                free = ~np.isin(others, list(pairs.required))
                families += linked(free)
                others, gain, parent, cost = (array[~free] for array in (others, gain, parent, cost))
        fresh = pairs.row(v, others) if stop is None else pairs.only_required(v, others)
        parameters = pairs.free[v] * pairs.free[others]
        better = (fresh > gain) | (fresh == gain) & (parameters < cost)
        gain = np.where(better, fresh, gain)
        parent = np.where(better, v, parent)
        cost = np.where(better, parameters, cost)
    return families, stop


def _gains(pairs: NDArray[np.float64], single: float, singles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns s(uv) − s(u) − s(v), rounded once, so that equal gains are equal whichever end comes first.

    Each sum is exact with its rounding error (T. J. Dekker, A floating-point technique for extending the
    available precision, Numerische Mathematik 18, 1971; here in D. E. Knuth's form, for any order).
    """
    whole = np.where(pairs > -inf, pairs, 0.0)
    first, lost = _exact_sum(whole, np.float64(-single))
    second, more = _exact_sum(first, -singles)
    return np.where(pairs > -inf, second + (lost + more), -inf)


def _exact_sum(a: NDArray[np.float64], b: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns fl(a + b) and the rounding error, a + b less that, which is exact."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _adjacency(edges: Iterable[VarSet]) -> dict[int, list[int]]:
    adjacent: dict[int, list[int]] = {}
    for edge in edges:
        u, v = members(edge)
        adjacent.setdefault(u, []).append(v)
        adjacent.setdefault(v, []).append(u)
    return adjacent


def _is_forest(n: int, edges: Iterable[VarSet]) -> bool:
    """Returns whether the edges have no cycle: one makes the graph non-chordal, or contains a triangle."""
    try:
        return JunctionTree.from_neighbours(neighbours_of(n, map(members, edges))).treewidth < _PAIR
    except ValueError:
        return False
