"""The nodes of a feature tree; positions are those in its list of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from jtsolve.models.features.context import feature_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.models.features.context import Feature
    from jtsolve.models.model import JunctionTreeModel


@dataclass(frozen=True, slots=True)
class Split:
    """An F-node: a feature, and its subtrees where it fails and where it holds.

    Args:
        feature: undecided by the path.
        probability: of the feature, given the path.
        kids: positions of the nodes where it does not hold (first) and holds, in the list of nodes.
    """

    feature: Feature
    probability: float
    kids: tuple[int, int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "feature", feature_of(self.feature))


@dataclass(frozen=True, slots=True)
class Product:
    """An A-node that decomposes: independent parts. Without kids: every variable is fixed.

    Args:
        kids: positions of the parts in the list of nodes.
    """

    kids: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TableLeaf:
    """A leaf: the joint distribution of the open variables.

    Args:
        variables: increasing.
        values: one axis a variable, over the states that the path leaves; 0 where a clause forbids the cell.
    """

    variables: tuple[int, ...]
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)


@dataclass(frozen=True, slots=True, eq=False)
class TreeLeaf:
    """A leaf: a junction tree over the open variables, which no clause may bind.

    Args:
        variables: increasing.
        model: its columns are those of the variables, with the states that the path leaves.
    """

    variables: tuple[int, ...]
    model: JunctionTreeModel


Node: TypeAlias = Split | Product | TableLeaf | TreeLeaf


def kids_of(node: Node) -> tuple[int, ...]:
    """Returns the kids of a node; none of a leaf."""
    return node.kids if isinstance(node, Split | Product) else ()
