"""Inference in Gaussian models: log densities, covariances across cliques, conditionals, samples.

The precision matrix is Σ_C K(C) - Σ_S K(S), each the inverse of a clique's or separator's covariance, padded
with zeros (S. L. Lauritzen, Graphical Models, 1996, lemma 5.5), so the full matrix is never inverted. Missing
values are integrated out by messages in canonical form (S. L. Lauritzen and F. Jensen, Statistics and
Computing 11, 2001), for all rows with the same missing variables at once. A conditional is again a Gaussian,
on the tree without the observed variables: messages go up, then moments down. Covariances with a variable q
propagate from a clique that contains it: Cov(R, q) = A Cov(S, q), where A is the regression of R on S. Time:
rows × Σ |C|², plus Σ |C|³ for each pattern of missing variables and each conditional.
"""

from __future__ import annotations

from math import log, pi
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members, varset
from jtsolve.models.layout import rooted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

TOLERANCE = 1e-9
"""How far the covariances of two cliques may differ on their separator, relative to the variances."""


class GaussianTree(Protocol):
    """The moments of a Gaussian model, as inference reads them; see `gaussian.GaussianTreeModel`."""

    @property
    def tree(self) -> JunctionTree: ...  # noqa: D102
    @property
    def mean(self) -> NDArray[np.float64]: ...  # noqa: D102
    @property
    def covariances(self) -> tuple[NDArray[np.float64], ...]: ...  # noqa: D102
    @property
    def nodes(self) -> tuple[GaussianClique, ...]: ...  # noqa: D102


class GaussianClique(NamedTuple):
    """A clique of the rooted tree: ln p(x_R | x_S) = constant - d' K d / 2 with d = x - mean.

    Attributes:
        members: increasing.
        separator: members shared with the parent, increasing.
        parent: its place in the order; -1 at the root.
        precision: K, shape (members, members).
        constant: see above.
    """

    members: tuple[int, ...]
    separator: tuple[int, ...]
    parent: int
    precision: NDArray[np.float64]
    constant: float


def rooted_cliques(
    tree: JunctionTree, covariances: Sequence[NDArray[np.float64]]
) -> Iterator[GaussianClique]:
    """Yields the cliques from the root down, each after its parent.

    Raises:
        ValueError: a covariance is not symmetric positive definite, or disagrees with its neighbour.
    """
    order, parent = rooted(tree)
    for place, i in enumerate(order):
        above = parent[place]
        inside = tuple(members(tree.cliques[i]))
        shared = tree.cliques[i] & tree.cliques[order[above]] if above >= 0 else 0
        separator = tuple(members(shared))
        matrix = covariances[i]
        precision, log_determinant = inverted(matrix)
        if separator:
            at = [inside.index(v) for v in separator]
            there = list(members(tree.cliques[order[above]]))
            over = [there.index(v) for v in separator]
            own = matrix[np.ix_(at, at)]
            scale = np.sqrt(np.outer(np.diag(own), np.diag(own)))
            other = covariances[order[above]][np.ix_(over, over)]
            if (np.abs(own - other) > TOLERANCE * scale).any():
                raise ValueError("the covariances of two cliques disagree on their separator")
            inner, inner_log = inverted(own)
            precision[np.ix_(at, at)] -= inner
            log_determinant -= inner_log
        rest = len(inside) - len(separator)
        constant = -0.5 * (rest * log(2 * pi) + log_determinant)
        yield GaussianClique(inside, separator, above, precision, constant)


def log_densities(model: GaussianTree, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the log density of every row, in nats; shape (variables, rows), NaN for missing numbers."""
    gaps = np.isnan(values)
    out = np.empty(values.shape[1])
    patterns, which = np.unique(gaps, axis=1, return_inverse=True)
    for k, pattern in enumerate(patterns.T):
        chosen = np.flatnonzero(which.ravel() == k)
        out[chosen] = collect(model, ~pattern, values[:, chosen] - model.mean[:, None])[-1].constant
    return out


class Message(NamedTuple):
    """The log potential of a clique's subtree: constant + h' d - d' K d / 2.

    Attributes:
        open: unobserved members outside the separator, to be integrated out.
        kept: unobserved members of the separator.
        precision: K over (open, kept), before integration over `open`.
        linear: h over (open, kept), shape (members, rows), before it too.
        constant: shape (rows,), after it.
    """

    open: tuple[int, ...]
    kept: tuple[int, ...]
    precision: NDArray[np.float64]
    linear: NDArray[np.float64]
    constant: NDArray[np.float64]


def collect(model: GaussianTree, observed: NDArray[np.bool_], centred: NDArray[np.float64]) -> list[Message]:
    """Returns the messages towards the root, from the last clique to the root.

    Args:
        model: the distribution.
        observed: whether each variable is.
        centred: shape (n, rows), values minus means; arbitrary where unobserved.
    """
    inbox: list[list[Message]] = [[] for _ in model.nodes]
    sent: list[Message] = []
    for place in reversed(range(len(model.nodes))):
        node = model.nodes[place]
        message = _message(node, inbox[place], observed, centred)
        sent.append(message)
        if node.parent >= 0:
            inbox[node.parent].append(message)
    return sent


def _message(
    node: GaussianClique, inbox: list[Message], observed: NDArray[np.bool_], centred: NDArray[np.float64]
) -> Message:
    """Returns the message of one clique, given those of its children."""
    kept = tuple(v for v in node.separator if not observed[v])
    free = tuple(v for v in node.members if not observed[v] and v not in node.separator)
    inside = free + kept
    at = [node.members.index(v) for v in inside]
    seen = [k for k, v in enumerate(node.members) if observed[v]]
    known = centred[[node.members[k] for k in seen]]
    precision = node.precision[np.ix_(at, at)].copy()
    linear = -node.precision[np.ix_(at, seen)] @ known
    constant = node.constant - 0.5 * np.einsum(
        "ir,ij,jr->r", known, node.precision[np.ix_(seen, seen)], known, optimize=True
    )
    for child in inbox:
        slot = [inside.index(v) for v in child.kept]
        matrix, vector = reduced(child)
        precision[np.ix_(slot, slot)] += matrix
        linear[slot] += vector
        constant += child.constant
    count = len(free)
    if count:
        solved, log_determinant = inverted(precision[:count, :count])
        quadratic = np.einsum("ir,ij,jr->r", linear[:count], solved, linear[:count], optimize=True)
        constant = constant + 0.5 * (count * log(2 * pi) - log_determinant + quadratic)
    return Message(free, kept, precision, linear, constant)


def reduced(message: Message) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns K and h over the kept members after integration over the open ones."""
    k = len(message.open)
    if not k:
        return message.precision, message.linear
    slope = message.precision[k:, :k] @ inverted(message.precision[:k, :k])[0]
    return (
        message.precision[k:, k:] - slope @ message.precision[:k, k:],
        message.linear[k:] - slope @ message.linear[:k],
    )


def inverted(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Returns the inverse of a covariance or precision matrix, and ln of the matrix's determinant.

    Raises:
        ValueError: it is not symmetric positive definite.
    """
    try:
        root = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise ValueError("a covariance is not positive definite") from None
    if not np.allclose(matrix, matrix.T, rtol=TOLERANCE, atol=0):
        raise ValueError("a covariance is not symmetric")
    half = np.linalg.solve(root, np.eye(len(matrix)))
    return half.T @ half, 2 * float(np.log(np.diag(root)).sum())


def covariance(model: GaussianTree, wanted: Sequence[int]) -> NDArray[np.float64]:
    """Returns the covariances of some variables, wherever they lie in the tree."""
    out = np.empty((len(wanted), len(wanted)))
    for k, q in enumerate(wanted):
        out[:, k] = _covariances_with(model, q)[list(wanted)]
    return (out + out.T) / 2


def _covariances_with(model: GaussianTree, q: int) -> NDArray[np.float64]:
    """Returns Cov(v, q) for every variable v."""
    cliques = model.tree.cliques
    home = next(i for i, clique in enumerate(cliques) if clique >> q & 1)
    order, parent = rooted(model.tree, home)
    found = np.zeros(model.tree.n)
    inside = list(members(cliques[home]))
    found[inside] = model.covariances[home][:, inside.index(q)]
    for i, above in zip(order[1:], parent[1:], strict=True):
        inside = list(members(cliques[i]))
        separator = list(members(cliques[i] & cliques[order[above]]))
        rest = [v for v in inside if v not in separator]
        at, over = [inside.index(v) for v in separator], [inside.index(v) for v in rest]
        matrix = model.covariances[i]
        weights = np.linalg.solve(matrix[np.ix_(at, at)], found[separator])
        found[rest] = matrix[np.ix_(over, at)] @ weights
    return found


class Conditional(NamedTuple):
    """The distribution of the other variables given observed values.

    Attributes:
        left: the other variables, increasing.
        tree: of these.
        mean: of these.
        covariances: of the cliques of the tree.
        log_density: of the observed values, in nats.
    """

    left: list[int]
    tree: JunctionTree
    mean: NDArray[np.float64]
    covariances: tuple[NDArray[np.float64], ...]
    log_density: float


def conditional(model: GaussianTree, observed: NDArray[np.bool_], values: NDArray[np.float64]) -> Conditional:
    """Returns the distribution of the other variables, at least one, given observed values.

    Args:
        model: the distribution.
        observed: whether each variable is.
        values: shape (n,), arbitrary where unobserved.
    """
    sent = collect(model, observed, (values - model.mean)[:, None])
    left = [int(v) for v in np.flatnonzero(~observed)]
    new = {v: k for k, v in enumerate(left)}
    mean = np.zeros(model.tree.n)
    moments: list[tuple[list[int], NDArray[np.float64]]] = []
    for node, message in zip(model.nodes, reversed(sent), strict=True):
        free, kept = list(message.open), list(message.kept)
        k = len(free)
        matrix = np.zeros((k + len(kept), k + len(kept)))
        if kept:
            above, theirs = moments[node.parent]
            at = [above.index(v) for v in kept]
            matrix[k:, k:] = theirs[np.ix_(at, at)]
        if k:
            spread, _ = inverted(message.precision[:k, :k])
            slope = -spread @ message.precision[:k, k:]
            mean[free] = spread @ message.linear[:k, 0] + slope @ mean[kept]
            matrix[:k, k:] = slope @ matrix[k:, k:]
            matrix[k:, :k] = matrix[:k, k:].T
            matrix[:k, :k] = spread + matrix[:k, k:] @ slope.T
        moments.append((free + kept, (matrix + matrix.T) / 2))
    bags = [varset(new[v] for v in inside) for inside, _ in moments]
    edges = [(node.parent, place) for place, node in enumerate(model.nodes) if node.parent >= 0]
    tree = JunctionTree.from_nodes(len(left), bags, edges)
    covariances = []
    for clique in tree.cliques:
        inside, matrix = moments[bags.index(clique)]
        order = [inside.index(left[v]) for v in members(clique)]
        covariances.append(matrix[np.ix_(order, order)])
    return Conditional(
        left, tree, mean[left] + model.mean[left], tuple(covariances), float(sent[-1].constant[0])
    )


def conditional_means(model: GaussianTree, v: int, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the mean of v given the other numbers of each row, NaN for missing: one solve a pattern."""
    others = [u for u in range(model.tree.n) if u != v]
    if not others:
        return np.full(rows.shape[1], model.mean[v])
    matrix = covariance(model, [*others, v])
    centred = rows[others] - model.mean[others, None]
    out = np.full(rows.shape[1], model.mean[v])
    patterns, place = np.unique(~np.isnan(centred), axis=1, return_inverse=True)
    for k, observed in enumerate(patterns.T):
        inside = np.flatnonzero(observed)
        slopes = np.linalg.solve(matrix[np.ix_(inside, inside)], matrix[inside, -1])
        chosen = place.ravel() == k
        out[chosen] += slopes @ centred[inside][:, chosen]
    return out


def drawn(model: GaussianTree, rows: int, seed: int) -> NDArray[np.float64]:
    """Returns independent rows, shape (variables, rows), reproducible by seed."""
    generator = np.random.default_rng(seed)
    out = np.zeros((model.tree.n, rows))
    for node in model.nodes:
        at = [node.members.index(v) for v in node.separator]
        rest = [k for k in range(len(node.members)) if k not in at]
        spread, _ = inverted(node.precision[np.ix_(rest, rest)])
        slope = -spread @ node.precision[np.ix_(rest, at)]
        noise = np.linalg.cholesky(spread) @ generator.standard_normal((len(rest), rows))
        out[[node.members[k] for k in rest]] = slope @ out[list(node.separator)] + noise
    return out + model.mean[:, None]
