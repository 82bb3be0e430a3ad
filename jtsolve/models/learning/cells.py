"""The cliques of conditional Gaussian models from the moments of their cells, in closed form or by EM.

On a strongly decomposable graph, each clique is estimated from its own table. The probabilities are
(n_i + a/q)/(N + a), as for discrete models. Cell i has the mean (Σ x + κ x̄)/(n_i + κ) and the covariance
(S_i + 2W)/(n_i + 2) + diag(h²/12), as in the score `cg`; the regressions follow from them. With a common
covariance, it is W + diag(h²/12). Without discrete members, the covariances are those of the data times
N/(N + a), and the variances those of the data. Where rows differ in weight, as in a mixture, diag(h²/12) is
added, since a component could otherwise shrink to equal values.

Expectation-maximisation (EM) replaces the moments of rows with gaps by their expectations given the observed
values. It begins with the rows that are complete on each clique, and ends once the log-likelihood of the
observed values, plus that of the prior of the probabilities, gains less than `_GAIN` nats per row. Without
smoothed covariances, no step can lower this sum; with them, EM ends with the last step before a decrease.

References:
    S. L. Lauritzen, Graphical Models, Oxford 1996, chapter 6. S. L. Lauritzen, The EM algorithm for graphical
    association models with missing data, Computational Statistics & Data Analysis 19, 1995.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.marks import strongly_rooted
from jtsolve.core.varset import members, varset
from jtsolve.errors import ChoiceError
from jtsolve.models.inference.mixed import (
    MixedClique,
    Place,
    blocks,
    collect,
    completed,
    conditional_shares,
    joint_cell,
    moments,
)
from jtsolve.scoring.score import CellMoments
from jtsolve.scoring.scores.cg import ConditionalGaussian
from jtsolve.tables.table import ContinuousTable, stacked_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.tables.table import Table

_MEAN = 0.5
"""Rows with the overall mean that smooth the mean of each cell, κ."""
_GAIN = 1e-5
"""Gain in nats per row below which EM ends."""
_MOST_STEPS = 200
_LEAST_ROWS = 20
"""Minimum number of rows, complete on a clique, with which EM begins; otherwise, it uses imputed rows."""


class CellSums(NamedTuple):
    """The sums over the rows in each cell of a clique.

    Attributes:
        counts: shape (cells,): the sums of their weights.
        means: shape (cells, real members); arbitrary in empty cells.
        scatter: shape (cells, real members, real members): Σ (x − mean)(x − mean)ᵀ.
    """

    counts: NDArray[np.float64]
    means: NDArray[np.float64]
    scatter: NDArray[np.float64]


class Estimates(NamedTuple):
    """The parameters of a tree.

    Attributes:
        cliques: from the root down.
        sums: the observed or expected sums from which they are estimated.
        trace: for each step of EM, the log-likelihood of the observed values plus that of the prior, in nats;
            empty without gaps.
        log_likelihood: of the observed values in the last step; 0 without gaps.
    """

    cliques: tuple[MixedClique, ...]
    sums: tuple[CellSums, ...]
    trace: tuple[float, ...] = ()
    log_likelihood: float = 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """The number of steps of EM and its result, for the provenance of a model; empty without gaps."""
        if not self.trace:
            return {}
        return {"em": {"steps": len(self.trace), "log_likelihood": self.log_likelihood}}


def strongly_rooted_tree(tree: JunctionTree, states: Sequence[int]) -> list[Place]:
    """Returns a strongly rooted junction tree of the same graph.

    Args:
        tree: over the columns.
        states: the number of states of each column; 0 for a real one.

    Raises:
        ChoiceError: the graph is not strongly decomposable.
    """
    try:
        root, *others = strongly_rooted(tree, varset(v for v, count in enumerate(states) if not count))
    except ValueError:
        raise ChoiceError(
            "the graph of the tree is not strongly decomposable: a path of real variables connects discrete "
            "ones that are not adjacent; learn a tree from the table"
        ) from None
    places = []
    for clique, separator, parent in (root._replace(parent=-1), *others):
        above, rest = list(members(separator)), list(members(clique & ~separator))
        discrete = tuple(v for v in (*above, *rest) if states[v])
        real = tuple(v for v in (*rest, *above) if not states[v])
        shared, free = sum(states[v] > 0 for v in above), sum(not states[v] for v in rest)
        places.append(Place(discrete, real, shared, free, parent, tuple(states[v] for v in discrete)))
    return places


def estimate_parameters(
    tree: JunctionTree,
    table: Table,
    *,
    ess: float = 0.0,
    score: ConditionalGaussian | None = None,
    run: Run | None = None,
    steps: int = _MOST_STEPS,
    weights: NDArray[np.float64] | None = None,
) -> Estimates:
    """Returns the parameters of a tree, by EM if the table has gaps.

    Args:
        tree: over the columns.
        table: the data.
        ess: see `mixed_tree.fit_mixed`.
        score: see `mixed_tree.fit_mixed`.
        run: its end ends EM; None for no limit.
        steps: maximum number of steps of EM.
        weights: shape (rows,); see `mixed_tree.fit_mixed`.

    Raises:
        ChoiceError: the graph is not strongly decomposable.
        ValueError: a covariance is singular.
    """
    score = score or ConditionalGaussian()
    states = [()] * table.n if isinstance(table, ContinuousTable) else table.states
    places = strongly_rooted_tree(tree, [len(labels or ()) for labels in states])
    rows, gaps = stacked_columns(table), table.gaps if weights is None else None
    weights = np.ones(table.rows) if weights is None else weights
    if (own := getattr(table, "weights", None)) is not None:
        weights = weights * own * getattr(table, "unit", 1.0)
    observed = rows if gaps is None else np.where(gaps, np.nan, rows)
    with np.errstate(over="ignore"):
        # The smallest difference between two values of each column.
        steps_of = (np.diff(np.unique(column[~np.isnan(column)])) for column in observed)
        rounding = np.array([step.min(initial=inf) for step in steps_of]) ** 2 / 12
    floor = rounding if weights.min() < weights.max() else np.zeros(table.n)

    def parameters(sums: Sequence[CellSums], prior: float) -> tuple[MixedClique, ...]:
        return tuple(
            _parameters(place, own, rounding if place.discrete else floor, prior, score)
            for place, own in zip(places, sums, strict=True)
        )

    if gaps is None:
        sums = tuple(_observed(place, rows, weights) for place in places)
        return Estimates(parameters(sums, ess), sums)
    sums = tuple(_complete(place, rows, gaps, weights) for place in places)
    cliques, trace, before, likelihood = parameters(sums, max(ess, 1.0)), [-inf], sums, -inf
    origin = np.array([np.mean(column[~np.isnan(column)]) for column in observed])
    for step in range(steps):
        total, expected = _expected(cliques, observed, weights, origin)
        prior = sum(ess / one.cells * float(np.log(one.weights).sum()) for one in cliques) if ess else 0.0
        if total + prior < trace[-1]:
            sums = before
            break
        trace.append(total + prior)
        likelihood = total
        before, sums = sums, expected
        note = f"EM, step {step + 1}: {total / weights.sum():.4f} nats a row"
        if trace[-1] - trace[-2] < _GAIN * weights.sum() or (run and not run.progress(note=note)):
            break
        cliques = parameters(sums, ess)
    return Estimates(parameters(sums, ess), sums, tuple(trace[1:]), likelihood)


def cells_with_drawn_gaps(
    cliques: Sequence[MixedClique], table: Table, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Returns the values of a table, shape (n, rows); gaps are drawn given the rest of their row.

    Args:
        cliques: of the model, from the root down.
        table: the data.
        generator: of the draws.
    """
    rows = stacked_columns(table)
    if table.gaps is None:
        return rows
    found = np.where(table.gaps, np.nan, rows)
    for part in blocks(cliques, table.rows):
        _, kept = collect(cliques, found[:, part])
        found[:, part] = completed(cliques, kept, found[:, part], generator)
    return found


def _observed(place: Place, rows: NDArray[np.float64], weights: NDArray[np.float64]) -> CellSums:
    """Returns the sums of rows that are complete on a clique."""
    q, k = place.cells, len(place.real)
    cell = joint_cell(rows, place.discrete, place.dims)
    counts = np.bincount(cell, weights, minlength=q).astype(np.float64)
    y = rows[list(place.real)].T
    total, scatter = np.zeros((q, k)), np.zeros((q, k, k))
    if not k:
        return CellSums(counts, total, scatter)
    np.add.at(total, cell, y * weights[:, None])
    means = total / np.where(counts > 0, counts, 1.0)[:, None]
    centred = y - means[cell]
    np.add.at(scatter, cell, (centred * weights[:, None])[:, :, None] * centred[:, None, :])
    return CellSums(counts, means, scatter)


def _complete(
    place: Place, rows: NDArray[np.float64], gaps: NDArray[np.bool_], weights: NDArray[np.float64]
) -> CellSums:
    """Returns the sums of the rows that are complete on a clique, scaled to the weight of all rows."""
    full: NDArray[np.bool_] = np.logical_not(gaps[list(place.members)].any(axis=0))
    if full.sum() < _LEAST_ROWS:
        full[:] = True
    found = _observed(place, rows[:, full], weights[full])
    scale = weights.sum() / weights[full].sum()
    return CellSums(found.counts * scale, found.means, found.scatter * scale)


def _expected(
    cliques: Sequence[MixedClique],
    rows: NDArray[np.float64],
    weights: NDArray[np.float64],
    origin: NDArray[np.float64],
) -> tuple[float, tuple[CellSums, ...]]:
    """Returns the log-likelihood of rows with gaps, and the expected sums: the E-step."""
    total = 0.0
    counts = [np.zeros(clique.cells) for clique in cliques]
    firsts = [np.zeros((clique.cells, len(clique.real))) for clique in cliques]
    seconds = [np.zeros((clique.cells, *[len(clique.real)] * 2)) for clique in cliques]
    for part in blocks(cliques, rows.shape[1]):
        logs, kept = collect(cliques, rows[:, part])
        total += float(logs @ weights[part])
        for i, (each, means, covariances) in enumerate(moments(cliques, kept, rows[:, part])):
            times = each * weights[part, None]
            steps = means - origin[list(cliques[i].real)]
            counts[i] += times.sum(axis=0)
            if steps.shape[2]:
                firsts[i] += np.einsum("rq,rqi->qi", times, steps)
                weighed = times[:, :, None] * steps
                seconds[i] += np.einsum("rqi,rqj->qij", weighed, steps)
                seconds[i] += np.einsum("rq,rqij->qij", times, covariances)
    sums = []
    for clique, count, first, second in zip(cliques, counts, firsts, seconds, strict=True):
        steps = first / np.where(count > 0, count, 1.0)[:, None]
        scatter = second - count[:, None, None] * steps[:, :, None] * steps[:, None, :]
        sums.append(CellSums(count, origin[list(clique.real)] + steps, scatter))
    return total, tuple(sums)


def _parameters(
    place: Place, sums: CellSums, rounding: NDArray[np.float64], ess: float, score: ConditionalGaussian
) -> MixedClique:
    """Returns a clique estimated from the moments of its cells: the M-step."""
    least = np.diag(rounding[list(place.real)])
    counts, own, scatter = sums
    q, k, free, rows = counts.size, len(place.real), place.free, counts.sum()
    overall = counts @ own / rows
    smoothing = _MEAN if place.discrete else 0.0
    means = (counts[:, None] * own + smoothing * overall) / (counts + smoothing)[:, None] if k else own
    if place.discrete:
        cells = CellMoments(counts, scatter, np.empty(0), least, np.eye(k))
        matrices = np.broadcast_to(score.matrices(cells), (q, k, k))
    else:
        matrices = scatter / (rows + ess * (1 - np.eye(k))) + least
    slopes = np.zeros((q, free, k - free))
    if free < k and free:
        slopes = np.swapaxes(np.linalg.solve(matrices[:, free:, free:], matrices[:, free:, :free]), 1, 2)
    covariances = matrices[:, :free, :free] - slopes @ matrices[:, free:, :free]
    return MixedClique(
        **vars(place),
        weights=conditional_shares(counts + ess / q, place.shared_cells),
        intercepts=means[:, :free] - np.einsum("qij,qj->qi", slopes, means[:, free:]),
        slopes=slopes,
        covariances=(covariances + np.swapaxes(covariances, 1, 2)) / 2,
    )
