"""The nodes of a feature tree, which refer to each other by position in its list of nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from jtsolve.errors import InputError
from jtsolve.models.features.context import feature_of
from jtsolve.models.messages import log_sum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from jtsolve.models.features.context import Feature
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.table import Codes


@dataclass(frozen=True, slots=True)
class Split:
    """An F-node: a feature, and its subtrees where it fails and where it holds.

    Args:
        feature: not decided by the path.
        probability: of the feature, given the path.
        kids: positions of the nodes where it fails, and where it holds.
    """

    feature: Feature
    probability: float
    kids: tuple[int, int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "feature", feature_of(self.feature))


@dataclass(frozen=True, slots=True)
class Product:
    """An A-node that decomposes into independent parts; it has no kids if every variable is fixed.

    Args:
        kids: positions of the parts.
    """

    kids: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TableLeaf:
    """A leaf: the joint distribution of the open variables.

    Its queries, like those of `TreeLeaf`, have local codes: ranks among the states left, -1 where missing.

    Args:
        variables: increasing.
        values: one axis for each variable, over the states left; 0 where a clause forbids the cell.
    """

    variables: tuple[int, ...]
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.values.size

    def log_likelihood(self, codes: NDArray[np.int32]) -> NDArray[np.float64]:
        """Returns ln P of local codes, shape (rows,), from shape (variables, rows)."""
        gaps = codes < 0
        with np.errstate(divide="ignore"):
            if not gaps.any():
                return np.asarray(np.log(self.values)[tuple(codes)])
            out = np.empty(codes.shape[1])
            patterns, pattern = np.unique(gaps, axis=1, return_inverse=True)
            for k, missing in enumerate(patterns.T):
                rows = pattern == k
                table = self.values.sum(axis=tuple(np.flatnonzero(missing)))
                out[rows] = np.log(table[tuple(codes[~missing][:, rows])])
        return out

    def marginals(self) -> tuple[NDArray[np.float64], ...]:
        """Returns P(v) for each variable, shape (states left,)."""
        axes = range(self.values.ndim)
        return tuple(self.values.sum(axis=tuple(other for other in axes if other != k)) for k in axes)

    def entropy(self) -> float:
        """Returns -Σ P ln P, in nats."""
        positive = self.values[self.values > 0]
        return -float(positive @ np.log(positive))

    def given(self, weights: Mapping[int, NDArray[np.float64]]) -> tuple[TableLeaf, float]:
        """Returns the leaf given likelihoods, shape (states left,), by variable, and ln P of this evidence.

        An impossible leaf is returned unchanged, with -inf.
        """
        with np.errstate(divide="ignore"):
            logs = np.log(self.values)
            for v, weight in weights.items():
                logs += np.log(weight).reshape([-1 if u == v else 1 for u in self.variables])
        total = float(log_sum(logs.ravel()))
        return (self if total == -np.inf else replace(self, values=np.exp(logs - total))), total

    def sample(self, rows: int, generator: np.random.Generator) -> Codes:
        """Returns independent rows as local codes, shape (variables, rows)."""
        sums = np.cumsum(self.values)
        # Normalised to end at exactly 1, so that a last cell of probability 0 is never drawn.
        cells = np.searchsorted(sums / sums[-1], generator.random(rows), side="right")
        return np.array(np.unravel_index(cells, self.values.shape))

    def best(self, k: int) -> list[tuple[float, tuple[int, ...]]]:
        """Returns ln P and the local codes of the k best configurations, best first."""
        flat = self.values.ravel()
        cells = np.argsort(-flat, kind="stable")[:k]
        codes = zip(*(own.tolist() for own in np.unravel_index(cells, self.values.shape)), strict=True)
        return [(log(p), own) for p, own in zip(flat[cells].tolist(), codes, strict=True) if p > 0]


@dataclass(frozen=True, slots=True, eq=False)
class TreeLeaf:
    """A leaf: a junction tree over the open variables, which no clause may bind; see `TableLeaf`.

    Args:
        variables: increasing.
        model: its columns are the variables, with the states left.
    """

    variables: tuple[int, ...]
    model: JunctionTreeModel

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.model.cells

    def log_likelihood(self, codes: NDArray[np.int32]) -> NDArray[np.float64]:
        """Returns ln P of local codes, shape (rows,), from shape (variables, rows)."""
        return self.model.log_likelihood(codes)

    def marginals(self) -> tuple[NDArray[np.float64], ...]:
        """Returns P(v) for each variable, shape (states left,)."""
        return self.model.marginals()

    def entropy(self) -> float:
        """Returns -Σ P ln P, in nats."""
        return self.model.entropy()

    def given(self, weights: Mapping[int, NDArray[np.float64]]) -> tuple[TreeLeaf, float]:
        """Returns the leaf given likelihoods, shape (states left,), by variable; see `TableLeaf.given`."""
        names = dict(zip(self.variables, self.model.names, strict=True))
        try:
            known = self.model.condition({names[v]: weight.tolist() for v, weight in weights.items()})
        except InputError:  # impossible
            return self, -np.inf
        return replace(self, model=known.model), known.log_probability

    def sample(self, rows: int, generator: np.random.Generator) -> Codes:
        """Returns independent rows as local codes, shape (variables, rows)."""
        return self.model.sample(rows, int(generator.integers(1 << 62)))

    def best(self, k: int) -> list[tuple[float, tuple[int, ...]]]:
        """Returns ln P and the local codes of the k best configurations, best first."""
        columns = self.model.columns
        return [
            (one.log_probability, tuple(c.code(state) for c, state in zip(columns, one.values, strict=True)))
            for one in self.model.explain({}, k).best
        ]


Node: TypeAlias = Split | Product | TableLeaf | TreeLeaf


def kids_of(node: Node) -> tuple[int, ...]:
    """Returns the kids of a node; none of a leaf."""
    return node.kids if isinstance(node, Split | Product) else ()
