"""The method `certified`: intervals that are proved to hold, beyond the range of exact sums.

Relaxed sums over trees of families bound Z and the mass of each family from above; families, then states and
sets, of little mass are dropped and charged; the remainder is summed exactly (docs/certified.md has theorems
and proofs). Rounding is part of the intervals, by a-priori bounds: `relaxed.rounding` for the sums,
`Lattice.gains` for the weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import log
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.averaging.draws import trees_of
from jtsolve.averaging.enclosure import Enclosure, enclose
from jtsolve.averaging.items import draw_neighbours
from jtsolve.averaging.method import Draws, Tabulated, best_tree, ended, require_supported
from jtsolve.averaging.multipliers import bytes_of_start, start_of
from jtsolve.averaging.parts import Intervals
from jtsolve.averaging.score_table import has_every_score
from jtsolve.core.backend import Capabilities
from jtsolve.core.problem import ProblemFeature
from jtsolve.core.result import Stop
from jtsolve.core.scores import DenseScores, StoppedError, colex_table
from jtsolve.core.varset import bounded_subsets, members, varset
from jtsolve.errors import ChoiceError, NotConvergedError
from jtsolve.options import TIME, TREEWIDTH

if TYPE_CHECKING:
    from jtsolve.averaging.method import Query
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.core.problem import Problem
    from jtsolve.core.varset import VarSet

_WIDEST = 12
"""Maximum size of a clique: a family has up to 2^11 sets of children."""


def _is_narrow(problem: Problem) -> str | None:
    if problem.max_clique_size <= _WIDEST:
        return None
    return (
        f"Cliques of up to {problem.max_clique_size} variables have too many families; bound the treewidth."
    )


CERTIFIABLE = Capabilities(
    features=frozenset(
        {ProblemFeature.MAX_TREEWIDTH, ProblemFeature.FORBIDDEN_EDGES, ProblemFeature.REQUIRED_EDGES}
    ),
    max_variables=63,
    needs_table=True,
    rules=(_is_narrow, lambda problem: None if _is_narrow(problem) else has_every_score(problem)),
)
"""What certified sums support; a set of variables is one word. Other constraints on cliques and separators
do not constrain single families."""


@dataclass(frozen=True, slots=True)
class Certified(Tabulated):
    """Intervals of the evidence and of every edge, each with a proof, for up to 63 variables.

    Args:
        tolerance: the width of the widest interval of an edge at which the sums end.

    Raises:
        ChoiceError: the tolerance is not between 0 and 1.
    """

    name: ClassVar[str] = "certified"
    main: ClassVar[str] = "tolerance"

    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise ChoiceError(f"the tolerance is {self.tolerance}; give a number between 0 and 1")

    def average(self, query: Query) -> GraphPosterior | None:
        """See `AveragingMethod`. Intervals hold even if they are wider than the tolerance."""
        with query.working():
            began = query.run.elapsed
            problem, known = self._enclosed(query)
            if known is None:
                return None
            best = known.tree if query.edge_odds == 1.0 else best_tree(query.problem, query.run)
            seconds = {"sums": query.run.elapsed - began}
            return query.posterior(best, seconds=seconds, **_parts(problem, known, query.threshold))

    def draw(self, query: Query, count: int) -> Draws | None:
        """See `AveragingMethod`: independent draws from the graphs that stay.

        Their distribution is off the posterior by the width of the evidence, in total variation.
        """
        with query.working():
            _, known = self._enclosed(query)
            if known is None:
                return None
            if query.run.stop is Stop.INTERRUPTED:
                raise KeyboardInterrupt
            if known.items is None or known.forest is None or known.width > self.tolerance:
                raise NotConvergedError(
                    f"the interval of an edge is {known.width:.2g} wide: trees drawn from the graphs summed "
                    f"would not be from the posterior. Ways out: a larger {TIME}, a smaller {TREEWIDTH}, or "
                    "a larger tolerance"
                )
            graphs = draw_neighbours(known.forest, known.items, count, query.run.seed)
            distance = -float(np.expm1(known.low - known.high))
            return Draws(tuple(trees_of(graphs)), "certified", {"total_variation": distance})

    def _enclosed(self, query: Query) -> tuple[Problem, Enclosure | None]:
        """Returns the problem with the prior's weights, and what is proved of it."""
        require_supported(query.problem, CERTIFIABLE, "certified sums")
        query.run.require_memory(
            bytes_of_start(query.problem), "certified sums need", f"a smaller {TREEWIDTH}, fewer columns."
        )
        problem = _with_odds(query.problem, query.edge_odds)
        try:
            start = start_of(problem, query.run)
        except StoppedError:
            raise ended(query.run) from None
        if start is None:
            return problem, None
        nothing = np.zeros(1)  # the weight of the best tree itself is rounded
        known = Enclosure(start.tree, self.tolerance, -start.lattice.error(nothing, nothing))
        enclose(start, known, query.run)
        return problem, known


def _with_odds(problem: Problem, edge_odds: float) -> Problem:
    """Returns the problem with ln odds for each pair in the scores of sets."""
    if edge_odds == 1.0:
        return problem
    width = problem.max_clique_size
    masks = np.array(list(bounded_subsets(problem.n, width)), dtype=np.int64)
    sizes = np.bitwise_count(masks).astype(np.int64)
    values = colex_table(problem.scores, width) + log(edge_odds) * (sizes * (sizes - 1) // 2)
    return replace(problem, scores=DenseScores(problem.n, width, values))


def _parts(problem: Problem, known: Enclosure, threshold: float) -> dict[str, Any]:
    """Returns the parts of the posterior."""
    n, width, score = problem.n, problem.max_clique_size, known.tree.score(problem.scores)
    low, high = known.edges()
    cliques, separators, connected, count = _of_graphs(known)
    most_edges = width * (width - 1) // 2 + (n - width) * (width - 1)
    pairs = np.triu_indices(n, 1)
    (fewest,), (largest,) = known.over_all_graphs(np.array([known.kept[pairs].sum()]), most_edges)
    listed = []
    for found, most in ((cliques, 1.0), (separators, float(n - 1))):
        masks, shares = list(found), np.array(list(found.values()))
        below, above = known.over_all_graphs(shares, most, n + 2.0)
        rows = [
            (mask, (a + b) / 2, (a, b))
            for mask, a, b in zip(masks, below.tolist(), np.minimum(above, most).tolist(), strict=True)
            if b >= threshold and a > 0
        ]
        listed.append(sorted(rows, key=lambda row: (-row[1], row[0])))
    (one,), (other,) = known.over_all_graphs(np.array([connected]), 1.0)
    (few,), (many,) = known.over_all_graphs(np.array([count]), float(n))
    intervals = Intervals(
        (float(np.nextafter(score + known.low, -np.inf)), float(np.nextafter(score + known.high, np.inf))),
        low,
        high,
        (float(one), min(1.0, float(other))),
        tuple(bounds for _, _, bounds in listed[0]),
        tuple(bounds for _, _, bounds in listed[1]),
        (max(float(fewest), float(low[pairs].sum())), min(float(largest), float(high[pairs].sum()))),
        (max(1.0, float(few)), min(float(n), float(many))),
    )
    return {
        "log_evidence": score + (known.low + known.high) / 2,
        "edges": (low + high) / 2,
        "cliques": tuple((mask, p) for mask, p, _ in listed[0]),
        "separators": tuple((mask, p) for mask, p, _ in listed[1]),
        "connected": sum(intervals.connected) / 2,
        "method": "certified",
        "converged": intervals.width <= known.tolerance,
        "intervals": intervals,
        "diagnostics": {
            "tolerance": known.tolerance,
            "width": intervals.width,
            "log_evidence_above_best": [known.low, known.high],
            "total_variation": -float(np.expm1(known.low - known.high)),
            "items": 0 if known.items is None else known.items.count,
            "complete": _complete(problem, known, threshold),
        },
    }


def _complete(problem: Problem, known: Enclosure, threshold: float) -> list[list[Any]]:
    """Returns the bounds of the probability that three and more variables are complete, by names."""
    found: dict[tuple[int, ...], float] = {}
    if known.items is None or known.forest is None:
        for clique in map(tuple, map(members, known.tree.cliques)):
            found |= {A: 1.0 for size in range(3, len(clique) + 1) for A in combinations(clique, size)}
    else:
        families, listed = known.forest.lattice.families, known.forest.listed
        for f in np.flatnonzero(known.items.uses).tolist():
            u, parents = int(listed.vertex[f]), families.members_of(int(listed.parents[f]))
            for size in range(2, len(parents) + 1):
                for rest in combinations(parents, size):
                    A = tuple(sorted((u, *rest)))
                    found[A] = found.get(A, 0.0) + float(known.items.uses[f])
    low, high = known.over_all_graphs(np.array(list(found.values())), 1.0)
    ends = zip(found, low.tolist(), np.minimum(high, 1.0).tolist(), strict=True)
    rows = [[[problem.names[v] for v in A], a, b] for A, a, b in ends if b >= threshold]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def _of_graphs(known: Enclosure) -> tuple[dict[VarSet, float], dict[VarSet, float], float, float]:
    """Returns the means over the graphs that stay: of cliques, separators, connectedness, number of cliques.

    In the tree of a graph, the number of families with S∪u = A less those with S = A is 1 if A is a clique,
    and minus the number of times that it is a separator.
    """
    if known.items is None or known.forest is None:
        tree = known.tree
        separators = {mask: float(tree.separators.count(mask)) for mask in set(tree.separators)}
        connected = float(0 not in separators)
        return dict.fromkeys(tree.cliques, 1.0), separators, connected, float(len(tree.cliques))
    families, listed, items = known.forest.lattice.families, known.forest.listed, known.items
    count = families.sizes.size
    cliques = np.bincount(listed.union, items.bare, count)
    made, used = (np.bincount(at, items.uses, count) for at in (listed.union, listed.parents))
    joints = cliques - made + used
    joints[0] -= 1.0  # of the components, the root's has no separator
    named = [varset(families.members_of(at)) for at in range(count)]
    tiny = 1e-12  # the differences are rounded
    return (
        {mask: p for mask, p in zip(named, cliques.tolist(), strict=True) if p > tiny},
        {mask: p for mask, p in zip(named, joints.tolist(), strict=True) if p > tiny},
        items.connected,
        float(cliques.sum()),
    )
