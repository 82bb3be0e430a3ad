"""Gaussian distributions on junction trees: a mean, and the covariance of each clique.

ln p(x) = Σ_C ln p(x_R | x_S), where S is the separator of C to its parent and R = C ∖ S. The precision matrix
is Σ_C K(C) - Σ_S K(S), each the inverse of a clique's or separator's covariance, padded with zeros
(S. L. Lauritzen, Graphical Models, 1996, lemma 5.5), so the full matrix is never inverted. Missing values are
integrated out by messages in canonical form (S. L. Lauritzen and F. Jensen, Statistics and Computing 11,
2001), for all rows with the same missing variables at once. Time: rows × Σ |C|², plus Σ |C|³ for each pattern
of missing variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, pi
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.varset import members
from jtsolve.errors import InputError
from jtsolve.models.columns import position
from jtsolve.models.layout import require_room, rooted
from jtsolve.tables.selection import name_list
from jtsolve.tables.table import ContinuousTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree

TOLERANCE = 1e-9
"""How far the covariances of two cliques may differ on their separator, relative to the variances."""


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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GaussianTreeModel:
    """A Gaussian distribution of the rows of a table of real numbers.

    Args:
        names: one for each variable of the tree.
        tree: the junction tree.
        mean: shape (n,).
        covariances: for each of `tree.cliques`, of its members in increasing order.
        provenance: remarks on the origin.

    Attributes:
        nodes: the cliques from the root down, each after its parent.

    Raises:
        ValueError: names repeat, a shape is wrong, a number is not finite, or a covariance is not symmetric
            positive definite or disagrees with its neighbour.
    """

    names: tuple[str, ...]
    tree: JunctionTree
    mean: NDArray[np.float64]
    covariances: tuple[NDArray[np.float64], ...]
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    nodes: tuple[GaussianClique, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.names) != self.tree.n or len(set(self.names)) < self.tree.n or not all(self.names):
            raise ValueError(f"{self.tree.n} variables need as many names, all distinct")
        if np.shape(self.mean) != (self.tree.n,) or len(self.covariances) != len(self.tree.cliques):
            raise ValueError("the number of means or covariances does not match the tree")
        for clique, matrix in zip(self.tree.cliques, self.covariances, strict=True):
            size = clique.bit_count()
            if np.shape(matrix) != (size, size) or not np.isfinite(matrix).all():
                raise ValueError(f"a covariance is not a finite matrix of {size} × {size}")
        if not np.isfinite(self.mean).all():
            raise ValueError("a mean is not finite")
        object.__setattr__(self, "mean", _frozen(self.mean))
        object.__setattr__(self, "covariances", tuple(map(_frozen, self.covariances)))
        object.__setattr__(self, "nodes", tuple(self._nodes()))

    def __repr__(self) -> str:
        size = f"{self.n} variables, {len(self.tree.cliques)} cliques, {self.parameters} parameters"
        return f"GaussianTreeModel({size})"

    def _repr_html_(self) -> str:
        from jtsolve.draw.html import as_html

        return as_html([repr(self)], self.tree, self.names)

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.names)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names, as model files have them."""
        return self.names

    @property
    def parameters(self) -> int:
        """The number of free parameters: a mean and a variance for each variable, and the graph's edges."""
        return 2 * self.n + len(self.tree.graph_edges)

    def variable(self, name: str) -> int:
        """Returns the position of a variable; see `columns.position`."""
        return position(self.names, name)

    def _nodes(self) -> Iterator[GaussianClique]:
        order, parent = rooted(self.tree)
        for place, i in enumerate(order):
            above = parent[place]
            inside = tuple(members(self.tree.cliques[i]))
            shared = self.tree.cliques[i] & self.tree.cliques[order[above]] if above >= 0 else 0
            separator = tuple(members(shared))
            matrix = self.covariances[i]
            precision, log_determinant = inverted(matrix)
            if separator:
                at = [inside.index(v) for v in separator]
                there = list(members(self.tree.cliques[order[above]]))
                over = [there.index(v) for v in separator]
                own = matrix[np.ix_(at, at)]
                scale = np.sqrt(np.outer(np.diag(own), np.diag(own)))
                other = self.covariances[order[above]][np.ix_(over, over)]
                if (np.abs(own - other) > TOLERANCE * scale).any():
                    raise ValueError("the covariances of two cliques disagree on their separator")
                inner, inner_log = inverted(own)
                precision[np.ix_(at, at)] -= inner
                log_determinant -= inner_log
            rest = len(inside) - len(separator)
            constant = -0.5 * (rest * log(2 * pi) + log_determinant)
            yield GaussianClique(inside, separator, above, precision, constant)


def gaussian_log_likelihood(
    model: GaussianTreeModel, rows: ContinuousTable | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the log density of every row, in nats.

    Args:
        model: the distribution.
        rows: a table with the model's columns; or numbers of shape (variables, rows), with NaN for missing
            values, which are integrated out.

    Raises:
        InputError: a column is missing, the shape is wrong, or a number is infinite.
    """
    if isinstance(rows, ContinuousTable):
        missing = [name for name in model.names if name not in rows.names]
        if missing:
            raise InputError(
                "table", "columns", f"there is none called {name_list(missing)}", "give every column"
            )
        values = rows.values[[rows.names.index(name) for name in model.names]]
    else:
        values = np.asarray(rows, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != model.n or np.isinf(values).any():  # noqa: PLR2004 - columns and rows
        reason = f"they are not finite numbers of shape ({model.n}, rows)"
        raise InputError("rows", "", reason, "give numbers, NaN for missing ones")
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


def collect(
    model: GaussianTreeModel, observed: NDArray[np.bool_], centred: NDArray[np.float64]
) -> list[Message]:
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


def precision_matrix(model: GaussianTreeModel) -> NDArray[np.float64]:
    """Returns the precision matrix, zero for variables that share no clique.

    Raises:
        LimitError: n × n numbers do not fit in memory.
    """
    require_room(model.n**2, "the precision matrix", "the precisions of the cliques, `model.nodes`", 8)
    matrix = np.zeros((model.n, model.n))
    for node in model.nodes:
        matrix[np.ix_(node.members, node.members)] += node.precision
    return matrix


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


def _frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    copy = np.array(array, dtype=np.float64)
    copy.setflags(write=False)
    return copy
