"""A discrete distribution that factorises over a junction tree, given by the marginals of its cliques.

    P(x) = Π_C P(x_C) / Π_S P(x_S)   (C over the cliques, S over the separators)

Reference: S. L. Lauritzen, Graphical Models, 1996, section 4.4 (decomposable models).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.models.columns import position
from jtsolve.models.layout import Layout, layout_of
from jtsolve.models.messages import disagreement, families, separator_sums

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.columns import Column

TOLERANCE = 1e-9
"""How far two tables may differ on their separator, and a table's sum from 1: well above the rounding error
of 10^7 summands, well below that of files with few digits."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JunctionTreeModel:
    """A distribution of the rows of a table of states.

    Args:
        columns: one for each variable of the tree, in its order.
        tree: the junction tree.
        tables: the marginal of each of `tree.cliques`, one axis a member in increasing order. They are
            copied; the attribute holds views of `values`.
        provenance: remarks on the origin.

    Attributes:
        layout: of `values` and `families`.
        values: the tables side by side, from the root down; read-only.
        families: ln P(C) - ln P(S), S the separator to the parent, for every cell of `values`; read-only.

    Raises:
        ValueError: names repeat, or a table has the wrong shape, is not a distribution, or disagrees with its
            neighbour on their separator.

    The tables of neighbours agree only up to rounding. A separator's table is always summed from the clique
    farther from the root, so that P sums to 1.
    """

    columns: tuple[Column, ...]
    tree: JunctionTree
    tables: tuple[NDArray[np.float64], ...]
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    layout: Layout = field(init=False, repr=False)
    values: NDArray[np.float64] = field(init=False, repr=False)
    families: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            raise ValueError("two columns have the same name")
        layout = layout_of(self.tree, tuple(column.arity for column in self.columns))
        values = _side_by_side(self.tables, layout)
        if not (np.isfinite(values).all() and values.min() >= 0):
            raise ValueError("a table has an entry that is not a probability")
        below = separator_sums(values, layout)
        totals = np.add.reduceat(values, layout.offset[:-1])
        if np.abs(totals - 1).max() > TOLERANCE or disagreement(values, below, layout) > TOLERANCE:
            raise ValueError("a table does not sum to 1, or two tables disagree on their separator")
        logs = families(values, below, layout)
        for array in (values, logs):
            array.setflags(write=False)
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "families", logs)
        object.__setattr__(self, "tables", _in_tree_order(values, layout))

    def __reduce__(self) -> tuple[Any, ...]:
        """Supports copying and pickling: derived attributes are recomputed."""
        return model_of, (self.columns, self.tree, self.values, dict(self.provenance))

    def __repr__(self) -> str:
        size = f"{self.n} variables, {len(self.tree.cliques)} cliques, {self.parameters} parameters"
        return f"JunctionTreeModel({size})"

    def _repr_html_(self) -> str:
        from jtsolve.draw import as_html

        return as_html([repr(self)], self.tree, self.names)

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(column.name for column in self.columns)

    @property
    def parameters(self) -> int:
        """The number of free parameters: Σ_C (cells - 1) - Σ_S (cells - 1)."""
        return self.layout.cells - self.layout.separator_cells

    def variable(self, name: str) -> int:
        """Returns the position of a variable; see `columns.position`."""
        return position(self.names, name)

    def variables(self, names: Iterable[str]) -> tuple[int, ...]:
        """Returns the positions of variables; see `variable`."""
        return tuple(self.variable(name) for name in names)


def model_of(
    columns: Sequence[Column],
    tree: JunctionTree,
    values: NDArray[np.float64],
    provenance: Mapping[str, Any] | None = None,
) -> JunctionTreeModel:
    """Returns the model of tables in one array, as in `Layout`."""
    layout = layout_of(tree, tuple(column.arity for column in columns))
    tables = _in_tree_order(values, layout)
    return JunctionTreeModel(tuple(columns), tree, tables, MappingProxyType(dict(provenance or {})))


def _in_tree_order(values: NDArray[np.float64], layout: Layout) -> tuple[NDArray[np.float64], ...]:
    """Returns views of the tables in the order of `tree.cliques`."""
    places = sorted(range(len(layout.order)), key=layout.order.__getitem__)
    return tuple(layout.table(values, place) for place in places)


def _side_by_side(tables: Sequence[NDArray[np.float64]], layout: Layout) -> NDArray[np.float64]:
    """Returns the tables in one array, from the root down; checks their number and shapes."""
    if len(tables) != len(layout.order):
        raise ValueError(f"{len(layout.order)} cliques need as many tables, not {len(tables)}")
    for place, i in enumerate(layout.order):
        if np.shape(tables[i]) != layout.dims(place):
            raise ValueError(
                f"the table of clique {list(layout.cliques[place])} has the shape {np.shape(tables[i])}, "
                f"not {layout.dims(place)}"
            )
    return np.concatenate([np.asarray(tables[i], dtype=np.float64).ravel() for i in layout.order])
