"""Gaussian distributions on junction trees: an expectation, and the covariance of each clique.

ln p(x) = Σ over cliques of ln p(x_R | x_S), R the members that are not in the separator S to the parent. The
precision matrix is Σ over cliques of K(C) - Σ over separators of K(S), each the inverse of a small
covariance, padded with zeros (S. L. Lauritzen, Graphical Models, 1996, lemma 5.5); no matrix is inverted
whole. Gaps are integrated out by messages in canonical form (S. L. Lauritzen and F. Jensen, Statistics and
Computing 11, 2001), for all rows of one pattern at once. Time: rows × Σ |C|², and Σ |C|³ for each pattern of
gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, pi
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.varset import members
from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.layout import require_room, rooted
from jtsolve.tables.selection import listed
from jtsolve.tables.table import ContinuousTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import ArrayLike, NDArray

    from jtsolve.core.tree import JunctionTree

TOLERANCE = 1e-9
"""How far the covariances of two cliques may differ on what they share, as a share of the variances."""


class Node(NamedTuple):
    """A clique seen from the root.

    Attributes:
        members: increasing.
        separator: members shared with the parent, increasing.
        parent: its place in the order; -1 at the root.
        precision: K of ln p(x_R | x_S) = constant - d' K d / 2, d = x - mean; an axis for each member, twice.
        constant: of the same.
    """

    members: tuple[int, ...]
    separator: tuple[int, ...]
    parent: int
    precision: NDArray[np.float64]
    constant: float


@dataclass(frozen=True, slots=True, eq=False)
class GaussianTreeModel:
    """A Gaussian distribution of the rows of a table of real numbers.

    Args:
        names: one for each variable of the tree.
        tree: the junction tree.
        mean: shape (n,).
        covariances: for each clique of `tree.cliques`, of its members in increasing order.
        provenance: remarks on where it is from.

    Attributes:
        nodes: the cliques from the root down, each after its parent.

    Raises:
        ValueError: names repeat, a shape is wrong, a number is not finite, a covariance is not symmetric and
            positive definite, or does not agree with its neighbour.
    """

    names: tuple[str, ...]
    tree: JunctionTree
    mean: NDArray[np.float64]
    covariances: tuple[NDArray[np.float64], ...]
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    nodes: tuple[Node, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.names) != self.tree.n or len(set(self.names)) < self.tree.n or not all(self.names):
            raise ValueError(f"{self.tree.n} variables need as many names, all different")
        if np.shape(self.mean) != (self.tree.n,) or len(self.covariances) != len(self.tree.cliques):
            raise ValueError("the expectations or the covariances are too many or too few")
        for clique, matrix in zip(self.tree.cliques, self.covariances, strict=True):
            size = clique.bit_count()
            if np.shape(matrix) != (size, size) or not np.isfinite(matrix).all():
                raise ValueError(f"a covariance of {size} variables is no finite matrix of that size")
        if not np.isfinite(self.mean).all():
            raise ValueError("an expectation is not finite")
        object.__setattr__(self, "mean", _frozen(self.mean))
        object.__setattr__(self, "covariances", tuple(map(_frozen, self.covariances)))
        object.__setattr__(self, "nodes", tuple(self._nodes()))

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
        """The number of free parameters: an expectation and a variance each, and the edges of the graph."""
        return 2 * self.n + len(self.tree.graph_edges)

    def variable(self, name: str) -> int:
        """Returns the position of a variable.

        Raises:
            InputError: there is none of this name.
        """
        if name not in self.names:
            raise InputError(
                "model", "variables", f"there is none called '{name}'", f"take one of {listed(self.names)}"
            )
        return self.names.index(name)

    def _nodes(self) -> Iterator[Node]:
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
                    raise ValueError("the covariances of two cliques do not agree on their separator")
                inner, inner_log = inverted(own)
                precision[np.ix_(at, at)] -= inner
                log_determinant -= inner_log
            rest = len(inside) - len(separator)
            yield Node(inside, separator, above, precision, -0.5 * (rest * log(2 * pi) + log_determinant))


def fit_gaussian(
    tree: JunctionTree, table: ContinuousTable, *, ess: float = 0.0, weights: ArrayLike | None = None
) -> GaussianTreeModel:
    """Returns the model of a tree fitted to real numbers: averages, and covariances within the cliques.

    Args:
        tree: over the columns of the table, in their order.
        table: the data.
        ess: how many rows the prior is worth in which the variables are independent with the variances of the
            data: covariances shrink by N / (N + ess). 0 for maximum likelihood.
        weights: shape (rows,), finite and of 0 or more; None for 1.

    Raises:
        InputError: the tree is over another number of variables, the weights are not as said, or the rows are
            too few or too dependent for the covariance of a clique to have an inverse.
        ChoiceError: `ess` is negative or not finite.
    """
    if tree.n != table.n:
        raise InputError(
            "tree",
            "",
            f"it has {tree.n} variables, and the table {table.n} columns",
            "give the tree of this table",
        )
    if not (np.isfinite(ess) and ess >= 0):
        raise ChoiceError(f"an equivalent sample size of {ess} is none; give a number of 0 or more")
    each = np.ones(table.rows) if weights is None else np.asarray(weights, dtype=np.float64)
    if each.shape != (table.rows,) or not np.isfinite(each).all() or each.min() < 0 or each.sum() <= 0:
        raise InputError(
            "weights", "", f"they are not {table.rows} finite numbers of 0 or more", "give one for each row"
        )
    total = each.sum()
    mean = table.values @ each / total
    centred = table.values - mean[:, None]
    variances = np.square(centred) @ each / total
    covariances = []
    for clique in tree.cliques:
        inside = list(members(clique))
        part = centred[inside]
        matrix = (part * each) @ part.T / (total + ess)
        np.fill_diagonal(matrix, variances[inside])
        covariances.append((matrix + matrix.T) / 2)
    remarks = {**table.provenance, "smoothing_ess": ess}
    try:
        return GaussianTreeModel(table.names, tree, mean, tuple(covariances), MappingProxyType(remarks))
    except ValueError as error:
        raise InputError(
            "table",
            "",
            f"{error}: {table.rows} rows are too few, or columns depend on one another exactly",
            "give more rows, a tree of smaller treewidth, or a prior (ess above 0)",
        ) from None


def gaussian_log_likelihood(
    model: GaussianTreeModel, rows: ContinuousTable | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the log density of every row, in nats.

    Args:
        model: the distribution.
        rows: a table with the model's columns; or numbers of shape (variables, rows), NaN where the value is
            missing: such a cell is integrated out.

    Raises:
        InputError: a column is missing, the shape is wrong, or a number is infinite.
    """
    if isinstance(rows, ContinuousTable):
        missing = [name for name in model.names if name not in rows.names]
        if missing:
            raise InputError(
                "table", "columns", f"there is none called {listed(missing)}", "give every column"
            )
        values = rows.values[[rows.names.index(name) for name in model.names]]
    else:
        values = np.asarray(rows, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != model.n or np.isinf(values).any():  # noqa: PLR2004 - columns and rows
        raise InputError(
            "rows", "", f"no finite numbers of shape ({model.n}, rows)", "give numbers, NaN for missing ones"
        )
    gaps = np.isnan(values)
    out = np.empty(values.shape[1])
    patterns, which = np.unique(gaps, axis=1, return_inverse=True)
    for k, pattern in enumerate(patterns.T):
        chosen = np.flatnonzero(which.ravel() == k)
        out[chosen] = collect(model, ~pattern, values[:, chosen] - model.mean[:, None])[-1].constant
    return out


class Message(NamedTuple):
    """What is behind a clique, as a function of its members that are open: constant + h' d - d' K d / 2.

    Attributes:
        open: the members that are neither observed nor in the separator: integrated out.
        kept: the members of the separator that are not observed.
        precision: K over (open, kept), before `open` is integrated out.
        linear: h over (open, kept), shape (members, rows).
        constant: shape (rows,), after it is.
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
        observed: which variables are.
        centred: shape (n, rows), values minus expectations; what is not observed does not matter.
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
    node: Node, inbox: list[Message], observed: NDArray[np.bool_], centred: NDArray[np.float64]
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
    """Returns K and h over the members kept, when the open ones are integrated out."""
    k = len(message.open)
    if not k:
        return message.precision, message.linear
    slope = message.precision[k:, :k] @ inverted(message.precision[:k, :k])[0]
    return (
        message.precision[k:, k:] - slope @ message.precision[:k, k:],
        message.linear[k:] - slope @ message.linear[:k],
    )


def precision_matrix(model: GaussianTreeModel) -> NDArray[np.float64]:
    """Returns the precision matrix: zero wherever two variables share no clique.

    Raises:
        LimitError: n × n numbers need more memory than there is.
    """
    require_room(model.n**2, "the precision matrix", "the precisions of the cliques, `model.nodes`", 8)
    matrix = np.zeros((model.n, model.n))
    for node in model.nodes:
        matrix[np.ix_(node.members, node.members)] += node.precision
    return matrix


def inverted(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Returns the inverse of a covariance or precision, and ln of its determinant.

    Raises:
        ValueError: it is not symmetric and positive definite.
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
