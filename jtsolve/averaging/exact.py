"""The method `exact`: the sums over all graphs, and independent draws from them."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.averaging.device.plan import SumsPlan
from jtsolve.averaging.device.run import DeviceSums, on_host, summed
from jtsolve.averaging.draws import arrange_tables, draw_graphs, trees_of
from jtsolve.averaging.features import features_of
from jtsolve.averaging.method import Draws, Tabulated, best_tree, require_room, require_supported
from jtsolve.averaging.plan import TableSizes
from jtsolve.averaging.posterior import ROUNDING
from jtsolve.averaging.sums import Sums
from jtsolve.averaging.traces import distribution
from jtsolve.averaging.weights import EXACT, MOST_VARIABLES, ON_DEVICE, set_weights
from jtsolve.core.cuda import DeviceChoice, choose_device
from jtsolve.core.varset import members
from jtsolve.errors import ChoiceError, InternalError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.averaging.features import GraphFeatures
    from jtsolve.averaging.method import Query
    from jtsolve.averaging.plain import PlainSums
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits, Run


@dataclass(frozen=True, slots=True)
class Exact(Tabulated):
    """Sums over all decomposable graphs, each exactly once.

    Args:
        treewidths: whether to compute the exact posterior of the treewidth, by one more sum for each value.
        draws: number of independent draws, which estimate the posterior of the number of edges, and of the
            treewidth unless it is exact, with Monte Carlo errors; 0 for none.
        device: "cpu"; "cuda" for an NVIDIA device, which needs the extra `gpu`; or "auto" for a device if one
            exists, supports the problem, and is predicted to save two seconds or more.

    Raises:
        ChoiceError: the number of draws is negative.
    """

    name: ClassVar[str] = "exact"

    treewidths: bool = False
    draws: int = 0
    device: DeviceChoice = "auto"

    def __post_init__(self) -> None:
        if self.draws < 0:
            raise ChoiceError(f"the number of draws is {self.draws}; give 0 or more")

    def average(self, query: Query) -> GraphPosterior | None:
        """See `AveragingMethod`."""
        problem = self._summable(query)
        require_room(self.draws, query.problem.n, query.run.limits)
        with query.working():
            parts = self._parts(query, problem)
            if parts is None:
                return None
            return query.posterior(best_tree(query.problem, query.run), **parts)

    def draw(self, query: Query, count: int) -> Draws | None:
        """See `AveragingMethod`."""
        problem, run = self._summable(query), query.run
        with query.working():
            sums = self._sums(query, problem, drawn=True)
            if sums.log_total == -inf:
                return None
            graphs = _drawn(on_host(sums), count, run)
            return Draws(tuple(trees_of(map(tuple, graphs.tolist()))), "exact", {})

    def fits(self, n: int, largest: int, limits: Limits, *, drawn: bool = False, plain: bool = True) -> bool:
        """Returns whether exact sums of n variables fit the memory of the machine or of a device.

        Args:
            n: the number of variables.
            largest: the size of the largest set.
            limits: of memory.
            drawn: whether graphs are to be drawn; then the tables must fit the memory of the machine.
            plain: whether a device supports the problem.
        """
        if n > MOST_VARIABLES:
            return False
        drawn = drawn or self.draws > 0
        plan = TableSizes(n, min(largest, n), drawn=drawn)
        if plan.estimate(limits.workers).memory <= limits.memory_bytes:
            return True
        if drawn or not plain or self.device == "cpu":
            return False
        return choose_device("auto", [SumsPlan(n, plan.width)], inf) is not None

    def _parts(self, query: Query, problem: Problem) -> dict[str, Any] | None:
        """Returns the parts of the posterior, or None if no graph meets the constraints."""
        run = query.run
        sums = self._sums(query, problem, drawn=self.draws > 0)
        log_total, rounding, seconds = sums.log_total, sums.precision, dict(sums.seconds)
        if log_total == -inf:
            return None
        began, device = run.elapsed, "cuda" if isinstance(sums, DeviceSums) else "cpu"
        host = on_host(sums) if self.draws else None
        features = features_of(sums, run) if isinstance(sums, Sums) else sums.features()
        seconds["features"] = run.elapsed - began
        graphs = None if host is None else _drawn(host, self.draws, run)
        del sums, host  # gigabytes
        _require_identity(features)
        diagnostics: dict[str, Any] = {
            "rounding": rounding,
            "expected_cliques": float(features.clique.sum()),
            "device": device,
        }
        names = query.problem.names
        diagnostics["complete"] = [
            [[names[v] for v in members(mask)], p, p]
            for mask, p in features.listed(features.complete, query.threshold)
            if mask.bit_count() > 2  # noqa: PLR2004 - pairs are the edges
        ]
        if graphs is not None:
            edges = np.bitwise_count(graphs).sum(axis=1, dtype=np.int64) // 2
            diagnostics |= distribution("edges_in_graph", edges, self.draws)
            widths = np.array([tree.treewidth for tree in trees_of(map(tuple, graphs.tolist()))])
            diagnostics |= distribution("treewidth", widths, self.draws)
        if self.treewidths:
            diagnostics.pop("treewidth_errors", None)
            diagnostics["treewidth"] = self._treewidths(query, log_total)
        return {
            "log_evidence": log_total,
            "edges": features.edges(query.problem.n),
            "cliques": features.listed(features.clique, query.threshold),
            "separators": features.listed(features.separator, query.threshold),
            "connected": features.connected,
            "method": "exact",
            "diagnostics": diagnostics,
            "seconds": seconds,
        }

    def _summable(self, query: Query) -> Problem:
        """Returns the problem with the star of marks.

        Raises:
            RefusedError: exact sums do not support the problem; with every reason.
        """
        problem = query.problem.with_star()
        require_supported(problem, ON_DEVICE if self.device == "cuda" else EXACT, "exact sums")
        return problem

    def _sums(self, query: Query, problem: Problem, *, drawn: bool = False) -> Sums | PlainSums | DeviceSums:
        """Returns the sums of a problem."""
        weights = set_weights(problem, query.edge_odds)
        plain = not ON_DEVICE.objections(problem)
        return summed(weights, query.run, self.device, plain=plain, drawn=drawn)

    def _treewidths(self, query: Query, log_total: float) -> list[float]:
        """Returns P(treewidth = k), k = 0, 1, …: differences of sums with bounded treewidth."""
        below = 0.0
        found = []
        for width in range(1, query.problem.max_clique_size):
            problem = query.problem.with_treewidth(width - 1).with_star()
            upto = exp(min(0.0, self._sums(query, problem).log_total - log_total))
            found.append(max(0.0, upto - below))
            below = upto
        return [*found, max(0.0, 1.0 - below)]


def _drawn(sums: Sums, count: int, run: Run) -> NDArray[np.int64]:
    """Returns the neighbours of each vertex in drawn graphs, shape (count, n); `sums` is consumed."""
    star = 1 << (sums.weights.n - 1) if sums.weights.star else 0
    graphs = draw_graphs(arrange_tables(sums, run), count, run)
    return graphs[:, :-1] & ~star if star else graphs


def _require_identity(features: GraphFeatures) -> None:
    """Raises InternalError unless the expected number of cliques is one more than that of separators."""
    surplus = float(features.clique.sum() - features.separator.sum())
    if not abs(surplus - 1.0) <= ROUNDING:
        raise InternalError(f"expected cliques exceed expected separators by {surplus} instead of 1")
