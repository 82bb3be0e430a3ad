"""Discrete distributions that factorise over a junction tree, given by the marginals of the cliques.

    P(x) = Π_C P(x_C) / Π_S P(x_S)   (C over the cliques, S over the separators)

Reference: S. L. Lauritzen, Graphical Models, 1996, section 4.4 (decomposable models).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.run import Run
from jtsolve.core.tree import JunctionTree, adjacency
from jtsolve.core.varset import members, varset
from jtsolve.models.answers import Conditioned, Description, Explanation
from jtsolve.models.columns import codes_of
from jtsolve.models.documents import column_document, parts_document
from jtsolve.models.inference.evidence import impossible, likelihoods
from jtsolve.models.inference.information import clique_marginal, described
from jtsolve.models.inference.likelihood import forest_rows, gaps_of
from jtsolve.models.inference.mixed import MixedClique, maximised, of_complete, of_partial
from jtsolve.models.inference.prediction import MOST_CELLS, WITH_EVIDENCE, joint_table, targets_of
from jtsolve.models.layout import (
    Layout,
    host_cliques,
    require_draws,
    require_room,
    rooted,
    subtree,
    table_layout,
)
from jtsolve.models.messages import families, is_fine, propagate, sums_of
from jtsolve.models.protocol import Distribution
from jtsolve.networks.network import Network, NetworkNode
from jtsolve.networks.sample import sample_codes
from jtsolve.tables.raw import GAP
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.models.answers import Evidence
    from jtsolve.models.columns import Column
    from jtsolve.tables.table import Codes

TOLERANCE = 1e-9
"""Largest difference of two tables on their separator, and of the sum of a table from 1: well above the
rounding error of 10^7 summands, well below that of files with few digits."""


@dataclass(frozen=True, eq=False, repr=False)
class JunctionTreeModel(Distribution):
    """A distribution of the rows of a table of discrete variables.

    Args:
        columns: one for each variable of the tree, in its order.
        tree: the junction tree.
        tables: the marginal of each of `tree.cliques`, one axis for each member in increasing order. They
            are copied; the attribute holds views of `values`.
        provenance: remarks on the origin.

    Attributes:
        layout: of `values` and `families`.
        values: the tables side by side, from the root down; read-only.
        families: ln P(C) - ln P(S), S the separator to the parent, for every cell of `values`; read-only.

    Raises:
        ValueError: two names are equal, or a table has the wrong shape, is not a distribution, or disagrees
            with a neighbouring one on their separator.

    The tables of neighbours agree only up to rounding. The table of a separator is always summed from the
    clique farther from the root, so that P sums to 1.
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
        layout = table_layout(self.tree, tuple(column.arity for column in self.columns))
        values = _side_by_side(self.tables, layout)
        if not (np.isfinite(values).all() and values.min() >= 0):
            raise ValueError("a table has an entry that is not a probability")
        totals = np.add.reduceat(values, layout.offset[:-1])
        logs, disagreement = families(values, layout)
        if np.abs(totals - 1).max() > TOLERANCE or disagreement > TOLERANCE:
            raise ValueError("a table does not sum to 1, or two tables disagree on their separator")
        for array in (values, logs):
            array.setflags(write=False)
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "families", logs)
        object.__setattr__(self, "tables", _in_tree_order(values, layout))

    def __reduce__(self) -> tuple[Any, ...]:
        """Supports copying and pickling: derived attributes are recomputed."""
        return array_model, (self.columns, self.tree, self.values, dict(self.provenance))

    def __repr__(self) -> str:
        size = f"{self.n} variables, {len(self.tree.cliques)} cliques, {self.parameters} parameters"
        return f"JunctionTreeModel({size})"

    @property
    def parameters(self) -> int:
        """The number of free parameters: Σ_C (cells - 1) - Σ_S (cells - 1)."""
        return self.layout.cells - self.layout.separator_cells

    @property
    def cells(self) -> int:
        """The number of cells of all tables."""
        return self.layout.cells

    @cached_property
    def cliques(self) -> tuple[MixedClique, ...]:
        """The cliques of the same distribution as a mixed model."""
        layout, found = self.layout, []
        for i, (clique, separator) in enumerate(zip(layout.cliques, layout.separators, strict=True)):
            inside = (*separator, *(v for v in clique if v not in separator))
            axes = [clique.index(v) for v in inside]
            weights = np.exp(np.transpose(layout.table(self.families, i), axes)).ravel()
            none = np.zeros((weights.size, 0))
            dims = tuple(layout.arities[v] for v in inside)
            place = (inside, (), len(separator), 0, layout.parent[i], dims)
            found.append(MixedClique(*place, weights, none, none[:, :, None], none[:, :, None]))
        return tuple(found)

    def log_likelihood(self, rows: DataTable | Codes) -> NDArray[np.float64]:
        """Returns ln P(row) for every row, in nats; -inf for impossible rows.

        A discrete junction tree is a mixed one without real variables. Time for a row: Σ |C|, plus the
        consistent cells if values are missing.

        Args:
            rows: a table with the model's columns, weights ignored; or codes of shape (variables, rows), with
                -1 for missing values, which are summed out.

        Raises:
            InputError: a column is missing, a state is unknown, or a code is out of range.
        """
        codes = codes_of(self.columns, rows) if isinstance(rows, DataTable) else np.asarray(rows)
        gaps = gaps_of(self.columns, codes)
        if not gaps.any():
            return of_complete(self.cliques, codes)
        need = 20 * len(codes) * int(gaps.sum())  # two copies, one of real numbers
        Run().require_memory(need, "rows with missing values need", "fewer rows, in several files")
        out = np.empty(codes.shape[1])
        out[~gaps] = of_complete(self.cliques, codes[:, ~gaps])
        if self.tree.treewidth <= 1:
            out[gaps] = forest_rows(self.layout, self.families, codes[:, gaps])
            gaps &= np.isnan(out)
        partial = codes[:, gaps]
        out[gaps] = of_partial(self.cliques, np.where(partial < 0, np.nan, partial))
        return out

    def condition(self, evidence: Evidence) -> Conditioned[JunctionTreeModel]:
        """Returns the distribution given hard and soft evidence, in time linear in the cells of the tables.

        Raises:
            InputError: a variable or state is unknown, a likelihood is invalid, or the evidence is
                impossible.

        >>> from jtsolve.models.columns import Column
        >>> from jtsolve.core.tree import JunctionTree
        >>> columns = (Column("rain", ("no", "yes")), Column("wet", ("no", "yes")))
        >>> tables = (np.array([[0.5, 0.25], [0.0, 0.25]]),)
        >>> model = JunctionTreeModel(columns, JunctionTree(2, (0b11,), ()), tables)
        >>> model.condition({"wet": "yes"}).model.tables[0][:, 1].tolist()
        [0.5, 0.5]
        """
        if not evidence:
            return Conditioned(self, 0.0)
        weights = likelihoods(self.columns, evidence)
        layout, values = self.layout, self.families.copy()
        with np.errstate(divide="ignore"):
            for v, weight in weights.items():
                place = layout.home[v]
                shape = [-1 if u == v else 1 for u in layout.cliques[place]]
                view = layout.table(values, place)
                view += np.log(weight).reshape(shape)
        log_probability = propagate(values, layout)
        if log_probability == -np.inf:
            raise impossible(self.columns, self.marginals(), weights, evidence)
        model = array_model(self.columns, self.tree, layout.normalised(values), self.provenance)
        return Conditioned(model, log_probability)

    def marginals(self) -> tuple[NDArray[np.float64], ...]:
        """Returns P(v) for every variable v, shape (states,)."""
        layout, found = self.layout, []
        if is_fine(layout):
            sums, firsts = sums_of(self.values, layout.single), layout.single.firsts.tolist()
            return tuple(sums[first:end] for first, end in pairwise(firsts))
        for v, place in enumerate(layout.home):
            others = tuple(k for k, u in enumerate(layout.cliques[place]) if u != v)
            found.append(layout.table(self.values, place).sum(axis=others))
        return tuple(found)

    def marginal(self, names: Sequence[str], *, most_cells: int = MOST_CELLS) -> NDArray[np.float64]:
        """Returns the joint marginal of variables, shape (states, …), axes in the given order.

        It is computed on the smallest subtree whose cliques contain the variables.

        Args:
            names: distinct variables, at least one.
            most_cells: the largest number of cells allowed.

        Raises:
            InputError: a variable is unknown or named twice.
            LimitError: the table would be larger; raised before any work.
        """
        query = varset(targets_of(names, self.columns))
        cliques, near = self.tree.cliques, adjacency(len(self.tree.cliques), self.tree.edges)
        left = [set(own) for own in near]
        leaves = [i for i, own in enumerate(left) if len(own) == 1]
        for i in leaves:  # the list grows during the iteration
            if len(left[i]) == 1 and not cliques[i] & query & ~cliques[min(left[i])]:
                j = left[i].pop()
                left[j].remove(i)
                leaves += [j] * (len(left[j]) == 1)
        kept = [i for i, own in enumerate(left) if own] or [host_cliques([query], cliques)[0]]
        inside, tree = subtree(self.tree, kept)
        part = JunctionTreeModel(
            tuple(self.columns[v] for v in inside), tree, tuple(self.tables[i] for i in kept)
        )
        return joint_table(part, targets_of(names, part.columns), most_cells)

    def explain(self, evidence: Evidence, k: int = 1, *, run: Run | None = None) -> Explanation:
        """Returns the k most probable configurations; see `protocol.Distribution`."""
        from jtsolve.models.inference.mpe import most_probable

        require_room(self.cells, *WITH_EVIDENCE)
        known = self.condition(evidence)
        layout, logs = known.model.layout, known.model.families
        factors = [(clique, layout.table(logs, place)) for place, clique in enumerate(layout.cliques)]
        best = most_probable(self.tree, self.columns, factors, k, run=run or Run())
        return Explanation(best, known.log_probability)

    def sample(self, rows: int, seed: int = 0, evidence: Evidence = MappingProxyType({})) -> Codes:
        """Returns independent rows as codes, shape (variables, rows), drawn from the Bayesian network."""
        require_draws(rows, seed, self.n)
        network = self.condition(evidence).model.network("samples")
        return sample_codes(network, rows, np.random.default_rng(seed), {})

    def complete(self, rows: Codes) -> Codes:
        """Returns rows with the most probable missing values; impossible rows keep their gaps.

        Raises:
            InputError: the codes have a wrong shape or type, or one is out of range.
        """
        codes = np.asarray(rows)
        gaps, filled = gaps_of(self.columns, codes), codes.astype(np.int32)
        if gaps.any():
            # Equal rows have equal completions.
            different, place = np.unique(filled[:, gaps], axis=1, return_inverse=True)
            best = maximised(self.cliques, np.where(different < 0, np.nan, different))
            filled[:, gaps] = np.where(np.isnan(best), GAP, best)[:, place]
        return filled

    def entropy(self) -> float:
        """Returns -Σ P ln P over all configurations, in nats. Time: linear in the cells of the cliques."""
        possible = self.values > 0
        return -float(self.values[possible] @ self.families[possible])

    def junction_tree(self, what: str) -> JunctionTreeModel:
        """Returns itself."""
        del what
        return self

    def network(self, what: str) -> Network:
        """Returns the same distribution as a Bayesian network, with the nodes in the order of the columns.

        A rooted junction tree is a network without v-structures: the parents of a variable that
        a clique adds to its separator are the separator and the variables added before it. Rows for parent
        configurations of probability 0 are uniform.
        """
        del what
        tree, nodes = self.tree, dict[int, NetworkNode]()
        order, parent = rooted(tree)
        for clique, above in zip(order, parent, strict=True):
            separator = tree.cliques[clique] & tree.cliques[order[above]] if above >= 0 else 0
            parents = list(members(separator))
            for v in members(tree.cliques[clique] & ~separator):
                column = self.columns[v]
                rows = clique_marginal(tree, self.tables, clique, (*parents, v)).reshape(-1, column.arity)
                totals, conditional = rows.sum(axis=1, keepdims=True), np.full_like(rows, 1 / column.arity)
                np.divide(rows, totals, out=conditional, where=totals > 0)
                conditional.setflags(write=False)
                nodes[v] = NetworkNode(column.name, column.states, tuple(parents), conditional)
                parents.append(v)
        return Network("jtsolve", tuple(nodes[v] for v in range(self.n)))

    def structure(self, what: str) -> JunctionTree:
        """Returns the junction tree."""
        del what
        return self.tree

    def describe(self) -> Description:
        """Returns sizes, and entropies and mutual information in nats, for people."""
        figures = {"parameters": self.parameters, "entropy_nats": self.entropy()}
        return described(self.tree, self.columns, self.tables, figures)

    def to_document(self) -> dict[str, Any]:
        """Returns the fields of a model file except format and provenance."""
        return {
            "kind": "discrete",
            "variables": [column_document(column) for column in self.columns],
            **parts_document(self.tree, self.names, self.tables),
        }


def array_model(
    columns: Sequence[Column],
    tree: JunctionTree,
    values: NDArray[np.float64],
    provenance: Mapping[str, Any] | None = None,
) -> JunctionTreeModel:
    """Returns the model of tables in one array, as in `Layout`.

    Args:
        columns: of the model.
        tree: the junction tree.
        values: of all tables, shape (cells,).
        provenance: of the model.
    """
    layout = table_layout(tree, tuple(column.arity for column in columns))
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
