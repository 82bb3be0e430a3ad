"""Trees drawn from the posterior: exactly and independently where the tables fit, else from chains."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.averaging.chains import Ladder, run_chains
from jtsolve.averaging.draws import arrange, draw_graphs
from jtsolve.averaging.junction_trees import trees_of
from jtsolve.averaging.running import ended, first_tree, is_exact, require_room
from jtsolve.averaging.sums import compute
from jtsolve.averaging.traces import neighbours_of
from jtsolve.averaging.weights import weights_of
from jtsolve.core.result import Stop
from jtsolve.core.run import Run
from jtsolve.core.scores import StoppedError
from jtsolve.errors import ChoiceError, NotConvergedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jtsolve.averaging.posterior import Method
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree


@dataclass(frozen=True, slots=True)
class Draws:
    """Trees drawn from the posterior, all of equal weight.

    Attributes:
        trees: canonical junction trees, in the order drawn; equal graphs share one.
        method: "exact": independent draws; "chains": equally spaced graphs of chains that have converged.
        diagnostics: of the chains, as JSON values; empty for exact draws.
    """

    trees: tuple[JunctionTree, ...]
    method: Method
    diagnostics: Mapping[str, Any]


def draw_trees(
    problem: Problem,
    count: int,
    *,
    method: str = "auto",
    run: Run | None = None,
    edge_odds: float = 1.0,
    ladder: Ladder | None = None,
) -> Draws | None:
    """Draws graphs from the posterior, and returns their canonical junction trees.

    Args:
        problem: scores and constraints.
        count: how many trees.
        method: "exact"; "chains"; "auto": exact where the problem and the memory allow it, else chains.
        run: limits and seed, progress and interruption; None for the defaults.
        edge_odds: prior odds of an edge against none.
        ladder: how chains run; None for the defaults.

    Returns:
        The draws, or None if no graph meets the constraints.

    Raises:
        ChoiceError: the method, the odds or the count make no sense.
        RefusedError: the problem asks for what draws do not support; with every reason.
        NotConvergedError: the chains disagree.
        LimitError: the tables need more memory than allowed, or the time limit came first.
        KeyboardInterrupt: a signal came first.
    """
    if count < 1:
        raise ChoiceError(f"{count} trees make no sample; draw at least 1")
    run = run or Run()
    require_room(count, problem.n, run.limits)
    with run.interruptible():
        try:
            if not is_exact(problem, method, run.limits, drawn=True):
                start = first_tree(problem, run)
                return _of_chains(problem, count, edge_odds, ladder or Ladder(), start, run=run)
            sums = compute(weights_of(problem, edge_odds), run, drawn=True)
            if sums.log_total == -inf:
                return None
            graphs = draw_graphs(arrange(sums, run), count, run)
            return Draws(tuple(trees_of(map(tuple, graphs.tolist()))), "exact", {})
        except StoppedError:
            raise ended(run) from None


def _of_chains(
    problem: Problem,
    count: int,
    edge_odds: float,
    ladder: Ladder,
    start: JunctionTree | None,
    *,
    run: Run,
) -> Draws:
    """Returns graphs of all chains, equally spaced."""
    sample = run_chains(problem, edge_odds, run, ladder=ladder, start=start)
    if run.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    if not sample.converged:
        found = sample.diagnostics
        raise NotConvergedError(
            f"the chains disagree after {found['rounds']} rounds, by up to {found['largest_difference']:.2f} "
            "in the probability of an edge: trees drawn from them would not be from the posterior. Ways out: "
            "a smaller treewidth, for which exact draws fit, more rounds, or more time"
        )
    graphs = sample.graphs.reshape(-1, *sample.graphs.shape[2:])
    at = np.linspace(0, len(graphs) - 1, count + 2).astype(int)[1:-1]
    return Draws(tuple(trees_of(neighbours_of(graphs[at]))), "chains", sample.diagnostics)
