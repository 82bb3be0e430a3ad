"""Inference in conditional Gaussian models on strongly rooted junction trees, for many rows at once.

    ln p(x) = Σ over cliques of ln p(d_R | d_S) + ln N(y_R; α(d) + B(d) y_S, Ω(d)),

where S is the separator of a clique to its parent, R the rest of the clique, d its discrete and y its real
members; R is real or S is discrete. Messages to the root are exact and never merge normal distributions: in
each cell, the real members of R are integrated out; then, if S is discrete, the discrete members of R are
summed out. The exact means and covariances of each cell are passed towards the leaves. Zeros mask the
observed real members, so that one pass serves all rows, whatever their gaps.

Time: rows × cells × |C|³ for each clique.

References:
    S. L. Lauritzen, Propagation of probabilities, means and variances in mixed graphical association models,
    Journal of the American Statistical Association 87, 1992. S. L. Lauritzen, F. Jensen, Stable local
    computation with conditional Gaussian distributions, Statistics and Computing 11, 2001.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log, pi, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.run import Run
from jtsolve.models.messages import log_sum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_BLOCK, _ALL_CLIQUES = 1 << 21, 1 << 22
"""Numbers in the largest temporary array, and in those of all cliques that are alive at a time; few stay in
the cache."""
_COPIES = 2
"""Copies of these arrays."""
_FEW = 200_000
"""Cells of all rows with gaps up to which numpy is used: 0.06 s, where the kernel compiles for one second."""
_ROWS, _PARTIAL_ROWS = 1 << 12, 1 << 16
"""Complete rows at a time, whose cells stay in the cache, and rows with gaps, copied for the kernel."""


@dataclass(frozen=True, slots=False, eq=False)
class Place:
    """A clique without parameters.

    Args:
        discrete: members, those of the separator first.
        real: members, those outside the separator first.
        shared: the number of discrete members of the separator.
        free: the number of real members outside it.
        parent: position of the parent, which comes first; -1 at the root.
        dims: the numbers of states of `discrete`.
    """

    discrete: tuple[int, ...]
    real: tuple[int, ...]
    shared: int
    free: int
    parent: int
    dims: tuple[int, ...]

    @property
    def cells(self) -> int:
        """The number of cells."""
        return prod(self.dims)

    @property
    def shared_cells(self) -> int:
        """The number of cells of the separator."""
        return prod(self.dims[: self.shared])

    @property
    def members(self) -> tuple[int, ...]:
        """All members."""
        return (*self.discrete, *self.real)


@dataclass(frozen=True, slots=False, eq=False)
class MixedClique(Place):
    """A clique, conditional on its separator to the parent.

    Args:
        weights: P(d_R | d_S), shape (cells,), the last discrete member varying fastest.
        intercepts: α, shape (cells, free).
        slopes: B, shape (cells, free, real members of the separator).
        covariances: Ω, shape (cells, free, free).
    """

    weights: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    slopes: NDArray[np.float64]
    covariances: NDArray[np.float64]

    @cached_property
    def coordinates(self) -> NDArray[np.int64]:
        """The state of each discrete member in each cell, shape (members, cells)."""
        return np.indices(self.dims).reshape(len(self.dims), -1)

    @cached_property
    def form(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """The canonical form: ln p = g + hᵀy − yᵀKy/2 in each cell, y the real members.

        The shapes are (cells,), (cells, k) and (cells, k, k).
        """
        with np.errstate(divide="ignore"):
            g = np.log(self.weights)
        r, k = self.free, len(self.real)
        if not r:
            return g, np.zeros((self.cells, k)), np.zeros((self.cells, k, k))
        precision = np.linalg.inv(self.covariances)
        root = np.concatenate([np.broadcast_to(np.eye(r), (self.cells, r, r)), -self.slopes], axis=2)
        matrix = np.swapaxes(root, 1, 2) @ precision @ root
        linear = np.einsum("qij,qik,qk->qj", root, precision, self.intercepts)
        own = np.einsum("qi,qij,qj->q", self.intercepts, precision, self.intercepts)
        return g - 0.5 * (r * log(2 * pi) + np.linalg.slogdet(self.covariances)[1] + own), linear, matrix


class Message(NamedTuple):
    """The messages through a clique, for each row.

    Attributes:
        own: ln P(d_R | d_S, the evidence below and in the clique), shape (rows, cells).
        shift: of the mean of y_R, shape (rows, cells, free).
        slope: of that mean on y_S, shape (rows, cells, free, others).
        spread: the covariance of y_R given y_S; zero where a member is observed.
        gaps: whether each real member is missing, shape (rows, members).
    """

    own: NDArray[np.float64]
    shift: NDArray[np.float64]
    slope: NDArray[np.float64]
    spread: NDArray[np.float64]
    gaps: NDArray[np.bool_]


def blocks(cliques: Sequence[MixedClique], rows: int) -> Iterator[slice]:
    """Yields slices of rows whose temporary arrays are small.

    Raises:
        LimitError: those of one slice exceed the memory limit.
    """
    sizes = [clique.cells * max(1, len(clique.real)) ** 2 for clique in cliques]
    size = max(1, min(_BLOCK // max(sizes), _ALL_CLIQUES // sum(sizes)))
    need = _COPIES * 8 * min(size, rows) * (sum(sizes) + max(sizes))
    Run().require_memory(need, "the messages between cliques need", "fewer rows")
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def log_densities(cliques: Sequence[MixedClique], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns ln of the density of each row, in nats; -inf where it is impossible.

    Args:
        cliques: of the model, from the root down.
        rows: shape (variables, rows): codes of states and numbers, NaN where missing.
    """
    complete = ~np.isnan(rows).any(axis=0)
    if complete.all():
        return of_complete(cliques, rows)
    found = np.empty(rows.shape[1])
    found[complete] = of_complete(cliques, rows[:, complete])
    found[~complete] = of_partial(cliques, rows[:, ~complete])
    return found


def of_partial(cliques: Sequence[MixedClique], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns ln of the density of rows with missing values, shape (rows,); see `log_densities`."""
    found, cells = np.empty(rows.shape[1]), sum(clique.cells for clique in cliques)
    if found.size * cells <= _FEW:
        for part in blocks(cliques, found.size):
            found[part] = collect(cliques, rows[:, part])[0]
        return found
    from jtsolve.models.kernels.mixed import sum_rows

    block = 8 * len(rows) * min(_PARTIAL_ROWS, found.size)
    Run().require_memory(block, "rows with missing values need", "fewer rows, in several files")
    places = _places(cliques)
    work = [part.copy() for part in places[-3:]]
    lists = [np.empty(size, np.int64) for size in (cells, len(cliques))]
    message = np.empty(max(clique.shared_cells for clique in cliques))
    for start in range(0, found.size, _PARTIAL_ROWS):
        part = slice(start, start + _PARTIAL_ROWS)
        sum_rows(places, np.ascontiguousarray(rows[:, part].T), *work, *lists, message, found[part])
    return found


def _places(cliques: Sequence[MixedClique]) -> Any:
    """Returns the `kernels.mixed.Places` of cliques."""
    from jtsolve.models.kernels.mixed import Places

    sizes, positions, above = [], [], []
    for i, one in enumerate(cliques):
        r, k, root = one.free, len(one.real), one.parent < 0
        sizes.append((len(one.discrete), k, r, one.parent, one.cells, one.shared_cells))
        shared = [] if root else [cliques[one.parent].real.index(v) for v in one.real[r:]]
        positions.append([0] * r + shared)
        above.append(np.zeros(0, np.int64) if root else above_of(cliques, i))
    d, k, _, _, cells, _ = each = np.array(sizes).T
    lengths = np.stack((d, k, [one.size for one in above], cells, cells * k, cells * k * k))
    forms = zip(*(one.form for one in cliques), strict=True)
    return Places(
        np.ascontiguousarray(each.T),
        np.ascontiguousarray((np.cumsum(lengths, axis=1) - lengths).T),
        np.array([v for one in cliques for v in one.discrete], np.int64),
        np.array([states for one in cliques for states in one.dims], np.int64),
        np.array([v for one in cliques for v in one.real], np.int64),
        np.array([place for places in positions for place in places], np.int64),
        np.concatenate(above),
        *(np.concatenate([part.ravel() for part in form]) for form in forms),
    )


def conditional_shares(weights: NDArray[Any], shared_cells: int) -> NDArray[np.float64]:
    """Returns P(d_R | d_S) from weights of the cells of a clique; uniform where all weights are 0.

    Weights and result have shape (cells,).
    """
    table = weights.reshape(shared_cells, -1)
    sums = table.sum(axis=1, keepdims=True)
    return np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), 1.0 / table.shape[1]).ravel()


def joint_cell(
    rows: NDArray[Any], discrete: Sequence[int], dims: Sequence[int], kind: Any = np.int64
) -> NDArray[Any]:
    """Returns the cell of each row among those of discrete variables, all observed, shape (rows,).

    Args:
        rows: shape (n, rows).
        discrete: the variables.
        dims: their numbers of states.
        kind: an integer type for the cells.
    """
    cell = np.zeros(rows.shape[1], dtype=kind)
    for v, states in zip(discrete, dims, strict=True):
        cell *= states
        cell += rows[v].astype(kind, copy=False)
    return cell


def of_complete(cliques: Sequence[MixedClique], rows: NDArray[Any]) -> NDArray[np.float64]:
    """Returns ln of the density of complete rows, shape (rows,); see `log_densities`."""
    total = np.zeros(rows.shape[1])
    # Small types are several times as fast.
    kind = np.min_scalar_type(max(clique.cells for clique in cliques))
    for start in range(0, total.size, _ROWS):
        part, found = rows[:, start : start + _ROWS], total[start : start + _ROWS]
        for clique in cliques:
            g, linear, matrix = clique.form
            cell = joint_cell(part, clique.discrete, clique.dims, kind).astype(np.intp)
            found += g[cell]
            if clique.real:
                y = part[list(clique.real)].T
                found += np.einsum("ri,ri->r", linear[cell], y)
                found -= 0.5 * np.einsum("ri,rij,rj->r", y, matrix[cell], y)
    return total


def collect(
    cliques: Sequence[MixedClique],
    rows: NDArray[np.float64],
    likelihoods: Sequence[NDArray[np.float64] | None] = (),
    *,
    maximum: bool = False,
) -> tuple[NDArray[np.float64], list[Message]]:
    """Returns ln of the density of each row, shape (rows,), and the messages of the cliques.

    Args:
        cliques: of the model, from the root down.
        rows: see `log_densities`.
        likelihoods: of each variable, of its states; None, or absent, for 1.
        maximum: maximise over missing values in place of summing and integrating.
    """
    count = rows.shape[1]
    waiting = [_potential(clique, rows, likelihoods) for clique in cliques]
    kept: list[Message] = []
    total = np.zeros(count)
    for i in reversed(range(len(cliques))):
        clique, (g, h, matrix, gaps) = cliques[i], waiting[i]
        r, k, q = clique.free, len(clique.real), clique.cells
        shift, slope = np.zeros((count, q, r)), np.zeros((count, q, r, k - r))
        spread: NDArray[np.float64] = np.zeros((count, q, r, r))
        if r:
            held = np.eye(r) * ~gaps[:, None, :r, None]
            inverse, logs = _inverted(matrix[:, :, :r, :r] + held)
            spread = inverse * (gaps[:, None, :r, None] & gaps[:, None, None, :r])
            shift = np.einsum("rqij,rqj->rqi", spread, h[:, :, :r])
            slope = -spread @ matrix[:, :, :r, r:]
            g = g + 0.5 * np.einsum("rqi,rqi->rq", shift, h[:, :, :r])
            if not maximum:
                g = g + 0.5 * (gaps[:, :r].sum(axis=1)[:, None] * log(2 * pi) - logs)
            h = h[:, :, r:] - np.einsum("rqij,rqj->rqi", matrix[:, :, r:, :r], shift)
            matrix = matrix[:, :, r:, r:] + matrix[:, :, r:, :r] @ slope
        message, own = g, np.zeros_like(g)
        if k == r:  # the separator is discrete
            parts = g.reshape(count, clique.shared_cells, -1)
            message = parts.max(axis=2) if maximum else log_sum(parts, axis=2)
            safe = np.where(np.isfinite(message), message, 0.0)
            own = (parts - safe[:, :, None]).reshape(count, q)
        kept.append(Message(own, shift, slope, spread, gaps))
        if clique.parent < 0:
            total = message[:, 0]
            continue
        above, up = above_of(cliques, i), waiting[clique.parent]
        up[0][...] += message[:, above]
        if k > r:
            at = [cliques[clique.parent].real.index(v) for v in clique.real[r:]]
            up[1][:, :, at] += h[:, above]
            up[2][np.ix_(range(count), range(above.size), at, at)] += matrix[:, above]
    return total, kept[::-1]


def _inverted(matrices: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the inverses of symmetric positive definite matrices, and ln of their determinants."""
    if matrices.shape[-1] == 1:  # most cliques; ten times as fast
        return 1 / matrices, np.log(matrices[..., 0, 0])
    inverses = np.asarray(np.linalg.inv(matrices), dtype=np.float64)
    return inverses, np.asarray(np.linalg.slogdet(matrices)[1], dtype=np.float64)


def _potential(
    clique: MixedClique,
    rows: NDArray[np.float64],
    likelihoods: Sequence[NDArray[np.float64] | None],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Returns the canonical form of a clique given the observations of each row, and the gaps."""
    form = clique.form
    g = np.broadcast_to(form[0], (rows.shape[1], clique.cells)).copy()
    for at, v in enumerate(clique.discrete):
        state = clique.coordinates[at]
        seen = ~np.isnan(rows[v])
        g[seen] = np.where(state[None] == rows[v][seen, None], g[seen], -np.inf)
        if at >= clique.shared and likelihoods and (weights := likelihoods[v]) is not None:
            with np.errstate(divide="ignore"):
                g += np.log(weights)[state][None]
    y = rows[list(clique.real)].T
    gaps = np.isnan(y)
    y = np.where(gaps, 0.0, y)
    known = np.einsum("qij,rj->rqi", form[2], y)
    g += np.einsum("qi,ri->rq", form[1], y) - 0.5 * np.einsum("rqi,ri->rq", known, y)
    h = (form[1][None] - known) * gaps[:, None, :]
    matrix = form[2][None] * (gaps[:, None, :, None] & gaps[:, None, None, :])
    return g, h, matrix, gaps


def above_of(cliques: Sequence[MixedClique], i: int) -> NDArray[np.int64]:
    """Returns the cell of a clique's separator for each cell of its parent, shape (cells of the parent,)."""
    clique = cliques[i]
    parent = cliques[clique.parent]
    cell = np.zeros(parent.cells, dtype=np.int64)
    for v, states in zip(clique.discrete[: clique.shared], clique.dims, strict=False):
        cell = cell * states + parent.coordinates[parent.discrete.index(v)]
    return cell


class CliqueMoments(NamedTuple):
    """The exact moments of a clique in each row: P(cell), and means and covariances of its real members."""

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]


def moments(
    cliques: Sequence[MixedClique], kept: Sequence[Message], rows: NDArray[np.float64]
) -> list[CliqueMoments]:
    """Returns the moments of all cliques given the observed cells of each row, after `collect`.

    Args:
        cliques: of the model, from the root down.
        kept: the messages of `collect`.
        rows: shape (n, rows), NaN where missing.
    """
    found: list[CliqueMoments] = []
    count = rows.shape[1]
    for i, (clique, message) in enumerate(zip(cliques, kept, strict=True)):
        r, k, q = clique.free, len(clique.real), clique.cells
        weights, mean = np.ones((count, 1)), np.zeros((count, 1, k - r))
        spread = np.zeros((count, 1, k - r, k - r))
        if clique.parent >= 0:
            up, above = found[clique.parent], above_of(cliques, i)
            at = [cliques[clique.parent].real.index(v) for v in clique.real[r:]]
            into = np.zeros((above.size, clique.shared_cells))
            into[np.arange(above.size), above] = 1.0
            weights = up.weights @ into
            safe = np.where(weights > 0, weights, 1.0)
            theirs = up.means[:, :, at]
            mean = np.einsum("rp,ps,rpi->rsi", up.weights, into, theirs) / safe[:, :, None]
            steps = theirs - mean[:, above]
            second = up.covariances[:, :, at][:, :, :, at] + steps[..., :, None] * steps[..., None, :]
            spread = np.einsum("rp,ps,rpij->rsij", up.weights, into, second) / safe[:, :, None, None]
        of = np.arange(q) // max(1, q // clique.shared_cells)
        means, covariances = np.zeros((count, q, k)), np.zeros((count, q, k, k))
        means[:, :, r:], covariances[:, :, r:, r:] = mean[:, of], spread[:, of]
        if r:
            y = np.where(message.gaps, 0.0, rows[list(clique.real)].T)
            carried = np.einsum("rqij,rqj->rqi", message.slope, means[:, :, r:])
            means[:, :, :r] = message.shift + carried + y[:, None, :r]
            cross = message.slope @ covariances[:, :, r:, r:]
            covariances[:, :, :r, r:] = cross
            covariances[:, :, r:, :r] = np.swapaxes(cross, 2, 3)
            covariances[:, :, :r, :r] = message.spread + cross @ np.swapaxes(message.slope, 2, 3)
        found.append(CliqueMoments(weights[:, of] * np.exp(message.own), means, covariances))
    return found


def components_of(
    cliques: Sequence[MixedClique],
    kept: Sequence[Message],
    given: Sequence[CliqueMoments],
    rows: NDArray[np.float64],
    v: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Returns the distribution of a real variable in each row as a mixture of normal distributions.

    Weights, means and variances have shape (rows, components). On the path up to the first clique with a
    discrete separator, each clique has all discrete members of the one below. Given a cell of this clique,
    the variable is therefore normal.

    Args:
        cliques: of the model.
        kept: the messages of `collect`.
        given: the moments of `moments`.
        rows: shape (n, rows), NaN where missing.
        v: the variable, missing in all rows.
    """
    i = next(i for i, clique in enumerate(cliques) if v in clique.real[: clique.free])
    at = cliques[i].real.index(v)
    shift, slope, spread = kept[i].shift[:, :, at], kept[i].slope[:, :, at], kept[i].spread[:, :, at, at]
    while slope.shape[2]:  # the separator has real members: to those of the parent
        below, above, i = cliques[i], above_of(cliques, i), cliques[i].parent
        clique, message = cliques[i], kept[i]
        r = clique.free
        own = np.zeros((rows.shape[1], clique.cells, len(clique.real)))
        own[:, :, [clique.real.index(u) for u in below.real[below.free :]]] = slope[:, above]
        seen = np.where(message.gaps[:, :r], 0.0, rows[list(clique.real[:r])].T)
        free = own[:, :, :r]
        shift = shift[:, above] + np.einsum("rqi,rqi->rq", free, message.shift + seen[:, None])
        slope = own[:, :, r:] + np.einsum("rqi,rqij->rqj", free, message.slope)
        spread = spread[:, above] + np.einsum("rqi,rqij,rqj->rq", free, message.spread, free)
    return given[i].weights, shift, spread


def completed(
    cliques: Sequence[MixedClique],
    kept: Sequence[Message],
    rows: NDArray[np.float64],
    generator: np.random.Generator | None,
) -> NDArray[np.float64]:
    """Returns rows without gaps, shape (n, rows), from the root down.

    Args:
        cliques: of the model.
        kept: the messages of `collect`, by maximum unless values are drawn; of each row, or of one row for
            all.
        rows: see `log_densities`; possible ones.
        generator: draws the missing values given the others; None for the most probable ones.
    """
    filled = rows.copy()
    count = rows.shape[1]
    each = np.arange(count) % len(kept[0].own)
    for clique, message in zip(cliques, kept, strict=True):
        shared = joint_cell(filled, clique.discrete[: clique.shared], clique.dims[: clique.shared])
        per = clique.cells // clique.shared_cells
        cell = shared
        if len(clique.discrete) > clique.shared:
            logs = message.own.reshape(-1, clique.shared_cells, per)[each, shared]
            if generator is None:
                pick = logs.argmax(axis=1)
            else:
                sums = np.cumsum(np.exp(logs), axis=1)
                pick = (np.asarray(generator.random(count))[:, None] * sums[:, -1:] >= sums).sum(axis=1)
            cell = shared * per + np.minimum(pick, per - 1)
            for at, v in enumerate(clique.discrete):
                filled[v] = clique.coordinates[at][cell]
        if clique.free:
            others = np.where(message.gaps[:, clique.free :], filled[list(clique.real[clique.free :])].T, 0.0)
            values = message.shift[each, cell]
            values = values + np.einsum("rij,rj->ri", message.slope[each, cell], others)
            if generator is not None:
                held = np.eye(clique.free) * ~message.gaps[:, : clique.free, None]
                if len(message.own) == 1:
                    root = np.linalg.cholesky(message.spread[0] + held)[cell]
                else:
                    root = np.linalg.cholesky(message.spread[each, cell] + held)
                noise = generator.standard_normal((count, clique.free))
                values = values + np.einsum("rij,rj->ri", root, noise) * message.gaps[:, : clique.free]
            for at, v in enumerate(clique.real[: clique.free]):
                filled[v] = np.where(message.gaps[:, at], values[:, at], filled[v])
    return filled


def maximised(cliques: Sequence[MixedClique], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns rows with their most probable missing values, shape (n, rows); impossible rows are unchanged.

    Args:
        cliques: of the model, from the root down.
        rows: see `log_densities`.
    """
    found = rows.copy()
    for part in blocks(cliques, rows.shape[1]):
        total, kept = collect(cliques, rows[:, part], maximum=True)
        filled = completed(cliques, kept, rows[:, part], None)
        found[:, part] = np.where(np.isfinite(total), filled, rows[:, part])
    return found


def covariance_and_precision(
    cliques: Sequence[MixedClique], n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns Σ and K = Σ⁻¹ of real variables, each exact up to rounding: no large matrix is inverted.

    With L = (I, −B) over (R, S), K is the sum of Lᵀ Ω⁻¹ L over the cliques; it is 0 for every pair within no
    clique. Down the tree, Σ(R, ·) = B Σ(S, ·) over all variables above, and Σ(R, R) = Ω + B Σ(S, S) Bᵀ.

    Args:
        cliques: from the root down, without discrete members.
        n: the number of variables.
    """
    covariance, precision = np.zeros((n, n)), np.zeros((n, n))
    above: list[int] = []
    for clique in cliques:
        own, separator = list(clique.real[: clique.free]), list(clique.real[clique.free :])
        slopes, rest = clique.slopes[0], clique.covariances[0]
        rows = np.hstack([np.eye(clique.free), -slopes])
        precision[np.ix_(clique.real, clique.real)] += rows.T @ np.linalg.solve(rest, rows)
        covariance[np.ix_(own, above)] = slopes @ covariance[np.ix_(separator, above)]
        covariance[np.ix_(above, own)] = covariance[np.ix_(own, above)].T
        covariance[np.ix_(own, own)] = rest + slopes @ covariance[np.ix_(separator, separator)] @ slopes.T
        above += own
    return (covariance + covariance.T) / 2, (precision + precision.T) / 2
