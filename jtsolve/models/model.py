"""A junction tree with the tables of its cliques: a probability distribution of states.

    P(x) = Π over cliques C of P(x_C) / Π over separators S of P(x_S)

The tables are the distribution's own marginals, so that those of two cliques agree on what they share.
Reference: S. L. Lauritzen, Graphical Models, 1996, section 4.4 (decomposable models).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import InputError
from jtsolve.models.layout import Layout, layout_of
from jtsolve.tables.selection import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.columns import Column

TOLERANCE = 1e-9
"""How far two tables may differ on what they share, and a table's sum from 1: far above the rounding of sums
of 10^7 cells, far below what files with a handful of digits would have."""


@dataclass(frozen=True, slots=True, eq=False)
class JunctionTreeModel:
    """A distribution of the rows of a table of states.

    Args:
        columns: one for each variable of the tree, in its order.
        tree: the junction tree.
        tables: for each clique of `tree.cliques` its marginal: probabilities, an axis for each member in
            increasing order. Stored are copies, views of `values`.
        provenance: remarks on where it is from.

    Attributes:
        layout: where the tables lie in `values` and `families`.
        values: the tables side by side, from the root down; read-only.
        families: ln P(C) - ln P(S), S the separator to the parent, for every cell of `values`; read-only.

    Raises:
        ValueError: names repeat, or a table has the wrong shape, holds what is no probability, does not sum
            to 1, or does not agree with its neighbour on their separator.

    Two cliques' tables agree to rounding. Where a separator's table is needed, it is summed from the table of
    the clique farther from the root, so that P sums to 1.
    """

    columns: tuple[Column, ...]
    tree: JunctionTree
    tables: tuple[NDArray[np.float64], ...]
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    layout: Layout = field(init=False, repr=False)
    values: NDArray[np.float64] = field(init=False, repr=False)
    families: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        from jtsolve.models.kernels.cliques import families, separator_sums

        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            raise ValueError("two columns have the same name")
        layout = layout_of(self.tree, tuple(column.arity for column in self.columns))
        values = _side_by_side(self.tables, layout)
        if not (np.isfinite(values).all() and values.min() >= 0):
            raise ValueError("a table holds what is no probability")
        below, above = separator_sums(values, layout.shape)
        totals = np.add.reduceat(values, layout.offset[:-1])
        if np.abs(totals - 1).max() > TOLERANCE or np.abs(below - above).max() > TOLERANCE:
            raise ValueError("a table does not sum to 1, or two tables do not agree on their separator")
        logs = families(values, below, layout.shape)
        for array in (values, logs):
            array.setflags(write=False)
        views = [layout.table(values, place) for place in range(len(layout.order))]
        in_tree_order = sorted(zip(layout.order, views, strict=True), key=lambda pair: pair[0])
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "families", logs)
        object.__setattr__(self, "tables", tuple(view for _, view in in_tree_order))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and processes: what is given, from which the rest follows."""
        return model_of, (self.columns, self.tree, self.values, dict(self.provenance))

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables' names."""
        return tuple(column.name for column in self.columns)

    @property
    def parameters(self) -> int:
        """The number of free parameters: cells less one of the cliques, minus those of the separators."""
        shape = self.layout.shape
        return int(self.layout.cells - shape.separator[-1])

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

    def variables(self, names: Iterable[str]) -> tuple[int, ...]:
        """Returns the positions of variables; see `variable`."""
        return tuple(self.variable(name) for name in names)


def model_of(
    columns: Sequence[Column],
    tree: JunctionTree,
    values: NDArray[np.float64],
    provenance: Mapping[str, Any] | None = None,
) -> JunctionTreeModel:
    """Returns the model of tables that lie side by side, as `Layout` has them."""
    layout = layout_of(tree, tuple(column.arity for column in columns))
    views = [layout.table(values, place) for place in range(len(layout.order))]
    tables = tuple(
        view for _, view in sorted(zip(layout.order, views, strict=True), key=lambda pair: pair[0])
    )
    return JunctionTreeModel(tuple(columns), tree, tables, MappingProxyType(dict(provenance or {})))


def _side_by_side(tables: Sequence[NDArray[np.float64]], layout: Layout) -> NDArray[np.float64]:
    """Returns the tables in one array, from the root down.

    Raises:
        ValueError: their number or a shape is wrong.
    """
    if len(tables) != len(layout.order):
        raise ValueError(f"{len(layout.order)} cliques need as many tables, not {len(tables)}")
    for place, i in enumerate(layout.order):
        if np.shape(tables[i]) != layout.dims(place):
            raise ValueError(
                f"the table of clique {list(layout.cliques[place])} has the shape {np.shape(tables[i])}, "
                f"not {layout.dims(place)}"
            )
    return np.concatenate([np.asarray(tables[i], dtype=np.float64).ravel() for i in layout.order])
