"""Feature trees before their probabilities: the weights of the rows behind each node, good for any prior."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from jtsolve.models.features.nodes import Product, Split, TableLeaf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.models.features.context import Feature
    from jtsolve.models.features.nodes import Node


class CountedLeaf(NamedTuple):
    """A table before its probabilities: the weights of its cells, and which of them are allowed."""

    variables: tuple[int, ...]
    counts: NDArray[np.float64]
    mask: NDArray[np.bool_]

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weights of the rows in its cells, shape (cells,)."""
        return self.counts.ravel()

    @property
    def shares(self) -> NDArray[np.float64]:
        """The shares of the prior in its cells, shape (cells,)."""
        shares: NDArray[np.float64] = self.mask.ravel() / self.mask.sum()
        return shares


class CountedSplit(NamedTuple):
    """A split before its probability: the weights of the rows on the path, and of those where it holds."""

    feature: Feature
    total: float
    holds: float
    kids: tuple[int, int]

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weights of the rows on its branches, shape (2,)."""
        return np.array([self.total - self.holds, self.holds])

    @property
    def shares(self) -> NDArray[np.float64]:
        """The shares of the prior on its branches, shape (2,)."""
        return np.full(2, 0.5)


CountedNode: TypeAlias = Product | CountedSplit | CountedLeaf


def probabilities(nodes: Sequence[CountedNode], priors: Sequence[float]) -> Iterator[NDArray[np.float64]]:
    """Yields the probabilities of the circuit's branches for each prior, shape (branches,).

    The first branch leads to the root.
    """
    counted = [node for node in nodes if not isinstance(node, Product)]
    weights = [np.zeros(1), *(node.weights for node in counted)]
    totals = np.repeat([own.sum() for own in weights], [own.size for own in weights])
    counts, shares = np.concatenate(weights), np.concatenate([np.ones(1), *(node.shares for node in counted)])
    yield from ((counts + ess * shares) / (totals + ess) for ess in priors)


def with_prior(nodes: Sequence[CountedNode], ess: float) -> tuple[Node, ...]:
    """Returns the nodes with their probabilities for a prior."""
    (found,) = probabilities(nodes, [ess])
    out: list[Node] = []
    start = 1
    for node in nodes:
        if isinstance(node, Product):
            out.append(node)
            continue
        own = found[start : start + node.weights.size]
        start += own.size
        if isinstance(node, CountedSplit):
            out.append(Split(node.feature, float(own[1]), node.kids))
        else:
            out.append(TableLeaf(node.variables, own.reshape(node.counts.shape)))
    return tuple(out)
