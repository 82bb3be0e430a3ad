"""Feature trees: a distribution that branches on features (F-nodes) and decomposes (A-nodes).

    P(x) = Π over the splits on the path of x  P(F = f | path) · Π over its leaves  P(x_leaf | path)

This is the locally normalised form of Definition 2 of V. Gogate, W. A. Webb and P. Domingos, Learning
efficient Markov networks, NIPS 2010: it sums to 1 by induction, provided that the parts of a product share
no variable and no clause (with the paper's division by the number of models #(M), a clause across two parts
makes the recursion wrong). As a Markov network it has one log-linear feature a leaf.

Queries are passes over the nodes of the circuit. Unlike a mixture, whose components overlap, a feature tree
has exact best configurations: branches exclude each other. Time: linear in the circuit, times k log k for the
k best configurations; a complete row visits its own path.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.core.triangulation import triangulated
from jtsolve.core.varset import members
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.models.columns import codes_of
from jtsolve.models.documents import base64_of, column_document, parts_document
from jtsolve.models.features.circuit import circuit_of, clique_nodes, separator_first
from jtsolve.models.features.nodes import Product, Split, TableLeaf, TreeLeaf, kids_of
from jtsolve.models.features.scopes import common_scopes
from jtsolve.models.features.validity import contexts_of, leaf_columns
from jtsolve.models.inference.evidence import impossible, likelihoods
from jtsolve.models.inference.likelihood import gaps_of
from jtsolve.models.inference.marginals import MOST_CELLS, require_small, targets_of
from jtsolve.models.inference.prediction import WITH_EVIDENCE, group_posteriors, predicted
from jtsolve.models.inference.sampling import BLOCK
from jtsolve.models.layout import require_room, table_cells
from jtsolve.models.model import JunctionTreeModel, array_model
from jtsolve.models.protocol import (
    Conditioned,
    Configuration,
    Description,
    Explanation,
    require_draws,
    undrawable,
)
from jtsolve.tables.table import DataTable, code_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.columns import Column
    from jtsolve.models.features.circuit import Circuit
    from jtsolve.models.features.context import Context
    from jtsolve.models.features.nodes import Node
    from jtsolve.models.protocol import Evidence, Groups, StatePosterior
    from jtsolve.networks.network import Network
    from jtsolve.tables.table import Codes


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTree:
    """A distribution given by a feature tree.

    Args:
        columns: the variables.
        nodes: the first is the root; every other one has one parent, earlier in the list.
        provenance: remarks on the origin.

    Attributes:
        contexts: of each node: the states that its path leaves open.

    Raises:
        ValueError: it is not a distribution; names the node, by its path, and the reason.

    >>> from jtsolve.models.columns import Column
    >>> columns = (Column("rain", ("no", "yes")), Column("wet", ("no", "yes")))
    >>> dry, wet = TableLeaf((1,), np.array([1.0, 0.0])), TableLeaf((1,), np.array([0.5, 0.5]))
    >>> FeatureTree(columns, (Split(((0, 1),), 0.25, (1, 2)), dry, wet))
    FeatureTree(2 variables, 1 split, 2 leaves, 3 parameters)
    """

    columns: tuple[Column, ...]
    nodes: tuple[Node, ...]
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    contexts: tuple[Context, ...] = field(init=False)
    is_continuous: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if len(set(self.names)) < self.n or not self.columns:
            raise ValueError("there is no column, or two have the same name")
        object.__setattr__(self, "provenance", MappingProxyType(dict(self.provenance)))
        object.__setattr__(self, "contexts", contexts_of(self.columns, self.nodes))

    def __reduce__(self) -> tuple[Any, ...]:
        """Supports copying and pickling: derived attributes are recomputed."""
        return FeatureTree, (self.columns, self.nodes, dict(self.provenance))

    def __repr__(self) -> str:
        splits, leaves = len(self.splits), len(self.leaves)
        counted = f"{splits} split{'s' * (splits != 1)}, {leaves} {'leaf' if leaves == 1 else 'leaves'}"
        size = f"{self.n} variables, {counted}, {self.parameters} parameters"
        return f"FeatureTree({size})"

    @cached_property
    def circuit(self) -> Circuit:
        """The same distribution as a circuit, on which all queries run."""
        arities = [column.arity for column in self.columns]
        return circuit_of(arities, self.nodes, self.contexts)

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(column.name for column in self.columns)

    @property
    def splits(self) -> list[Split]:
        """The splits."""
        return [node for node in self.nodes if isinstance(node, Split)]

    @property
    def leaves(self) -> list[TableLeaf | TreeLeaf]:
        """The leaves."""
        return [node for node in self.nodes if isinstance(node, TableLeaf | TreeLeaf)]

    @property
    def longest_path(self) -> int:
        """Maximum number of splits on a path."""
        depth = [0] * len(self.nodes)
        for i in reversed(range(len(self.nodes))):
            below = max((depth[kid] for kid in kids_of(self.nodes[i])), default=0)
            depth[i] = below + isinstance(self.nodes[i], Split)
        return depth[0]

    @property
    def a_nodes(self) -> int:
        """The number of A-nodes: the root, two for each split; in the paper, each of `cells` is one more."""
        return 1 + 2 * len(self.splits)

    @property
    def cells(self) -> int:
        """The number of cells in the tables of all leaves."""
        return sum(_cells(node) for node in self.nodes)

    @property
    def parameters(self) -> int:
        """The number of free parameters: one a split, and those of the leaves."""
        return sum(
            _parameters(node, context) for node, context in zip(self.nodes, self.contexts, strict=True)
        )

    def log_likelihood(self, rows: DataTable | Codes) -> NDArray[np.float64]:
        """Returns ln P(row) for every row, in nats; see `inference.likelihood.log_likelihood`."""
        (logs,) = self.log_likelihoods(rows, [self.circuit.log_weight])
        return logs

    def log_likelihoods(
        self, rows: DataTable | Codes, log_weights: Sequence[NDArray[np.float64]]
    ) -> list[NDArray[np.float64]]:
        """Returns `log_likelihood` for each of several `Circuit.log_weight` in place of the tree's own.

        Each result has shape (rows,), each of the weights (branches,).
        """
        from jtsolve.models.features.kernels.circuits import complete_rows, partial_rows

        codes = codes_of(self.columns, rows) if isinstance(rows, DataTable) else np.asarray(rows)
        gaps = gaps_of(self.columns, codes)
        codes = codes.astype(np.int32)
        circuit, first = self.circuit, self.circuit.first
        whole = np.ascontiguousarray(codes.T if not gaps.any() else codes[:, ~gaps].T)
        open_rows = np.ascontiguousarray(codes[:, gaps])
        found = []
        for weights in log_weights:
            complete, partial = np.empty(len(whole)), np.empty(open_rows.shape[1])
            complete_rows(whole, weights, circuit.arrays, circuit.visits, complete)
            if partial.size:
                partial_rows(open_rows, first, weights, circuit.arrays, partial)
                out = np.empty(len(gaps))
                out[~gaps], out[gaps] = complete, partial
            found.append(out if partial.size else complete)
        return found

    def condition(self, evidence: Evidence) -> Conditioned[FeatureTree]:
        """Returns the distribution given hard and soft evidence; see `JunctionTreeModel.condition`."""
        from jtsolve.models.features.kernels.circuits import upward

        weights = likelihoods(self.columns, evidence)
        if not weights:
            return Conditioned(self, 0.0)
        first = self.circuit.first
        log_likelihoods = np.zeros(first[-1])
        with np.errstate(divide="ignore"):
            for v, weight in weights.items():
                log_likelihoods[first[v] : first[v + 1]] = np.log(weight)
        circuit = self.circuit
        value, term = upward(circuit.log_weight, log_likelihoods, circuit.arrays)
        if value[0] == -np.inf:
            raise impossible(self.columns, self.marginals(), weights, evidence)
        known = tuple(self._given(i, value, term) for i in range(len(self.nodes)))
        return Conditioned(FeatureTree(self.columns, known, self.provenance), float(value[0]))

    def marginals(self) -> tuple[NDArray[np.float64], ...]:
        """Returns P(v) for every variable v, one entry a state."""
        _, out = self._expected(np.zeros(self.circuit.nodes), self.circuit.log_weight)
        return tuple(out[start:stop] for start, stop in pairwise(self.circuit.first.tolist()))

    def marginal(self, names: Sequence[str], *, most_cells: int = MOST_CELLS) -> NDArray[np.float64]:
        """Returns the joint marginal of some variables; see `inference.marginals.marginal`.

        Each cell is the probability of a row in which the other variables are missing: nothing larger than
        the result is needed.
        """
        wanted = targets_of(names, self.columns)
        dims = [self.columns[v].arity for v in wanted]
        cells = prod(dims)
        require_small(cells, len(wanted), most_cells)
        out = np.empty(cells)
        for start in range(0, cells, BLOCK):
            at = np.arange(start, min(start + BLOCK, cells))
            codes = np.full((self.n, at.size), -1, dtype=np.int32)
            codes[list(wanted)] = np.unravel_index(at, dims)
            out[at] = np.exp(self.log_likelihood(codes))
        return out.reshape(dims)

    def posterior(
        self, groups: Groups, evidence: Evidence, *, memory: int | None = None, run: Run | None = None
    ) -> StatePosterior:
        """Returns the joint distribution of each group given evidence; see `protocol.Distribution`."""
        return group_posteriors(self, groups, evidence, memory=memory, run=run)

    def explain(
        self, evidence: Evidence, k: int = 1, *, memory: int | None = None, run: Run | None = None
    ) -> Explanation:
        """Returns the k most probable configurations; see `protocol.Distribution`."""
        if k < 1:
            raise ChoiceError(f"{k} configurations are requested; give a number of 1 or more")
        require_room(self.cells, *WITH_EVIDENCE, limit=memory)
        if run is not None:
            run.progress(note="passing messages")
        known = self.condition(evidence)
        if run is not None:
            run.progress(note="following the maxima")
        return Explanation(
            [
                Configuration(
                    tuple(column.states[code] for column, code in zip(self.columns, codes, strict=True)), log
                )
                for codes, log in known.model.circuit.best(k)
            ],
            known.log_probability,
        )

    def sample(self, rows: int, seed: int = 0, evidence: Evidence = MappingProxyType({})) -> Codes:
        """Returns independent rows as codes, shape (variables, rows); see `inference.sampling.sample`."""
        from jtsolve.models.features.kernels.circuits import draw

        require_draws(rows, seed)
        tree = self.condition(evidence).model
        circuit, first = tree.circuit, tree.circuit.first
        kind = np.dtype(code_type(max(column.arity for column in tree.columns)))
        require_room(tree.n * rows, f"{rows} rows", "fewer rows, in several files", kind.itemsize)
        sums = np.cumsum(np.exp(circuit.log_weight))
        starts = circuit.arrays.branch
        before = np.concatenate([[0.0], sums])[starts[:-1]]
        sums -= np.repeat(before, np.diff(starts))
        totals = np.repeat(sums[starts[1:] - 1], np.diff(starts))
        np.divide(sums, totals, out=sums, where=totals > 0)
        variable = np.searchsorted(first, circuit.arrays.literals, side="right") - 1
        state = circuit.arrays.literals - first[variable]
        out = np.zeros((tree.n, rows), dtype=np.int32)
        generator = np.random.default_rng(seed)
        for start in range(0, rows, BLOCK):
            stop = min(start + BLOCK, rows)
            uniform = generator.random((circuit.visits, stop - start))
            draw(uniform, sums, circuit.arrays, variable, state, out[:, start:stop])
        return out.astype(kind)

    def predict(self, rows: Codes, v: int) -> Codes:
        """Returns the most probable state of variable v given the rest; see `protocol.Distribution`."""
        return predicted(self, rows, v)

    def complete(self, rows: Codes) -> NoReturn:
        """Refuses: rows are completed along one junction tree."""
        del rows
        raise self._undrawable("the completion of rows")

    def entropy(self) -> float:
        """Returns -Σ P ln P over all configurations, in nats."""
        logs = self.circuit.log_weight
        share, _ = self._expected(np.zeros(self.circuit.nodes), logs)
        return -float(share[share > 0] @ logs[share > 0])

    def junction_tree(self, what: str, most_cells: int = MOST_CELLS) -> JunctionTreeModel:
        """Returns the same distribution on one junction tree; `what` names the request in the refusal.

        The variables of a path and those of a clique at its end have a common factor, so that they are
        adjacent; the graph is triangulated by min-fill. Each table is a marginal of the feature tree.

        Raises:
            LimitError: the tables would have more than `most_cells` cells; raised before any is computed.
        """
        arities = tuple(column.arity for column in self.columns)
        found = triangulated(arities, common_scopes(self.nodes, self.contexts))
        cells = table_cells(found, arities)
        if cells > most_cells:
            raise LimitError(
                f"{what}: as a junction tree, the feature tree has treewidth {found.treewidth} and "
                f"{cells:.3g} cells, {8 * cells / 1e9:.3g} GB; {most_cells:.3g} cells are allowed; "
                "fit a junction tree instead"
            )
        tables = tuple(self.marginal([self.names[v] for v in members(clique)]) for clique in found.cliques)
        return JunctionTreeModel(self.columns, found, tables, MappingProxyType(dict(self.provenance)))

    def network(self, what: str, root: int = 0) -> Network:
        """Returns the same distribution as a Bayesian network; see `junction_tree`."""
        return self.junction_tree(what).network(what, root)

    def structure(self, what: str) -> JunctionTree:
        """Returns the junction tree of the same distribution; see `junction_tree`."""
        return self.junction_tree(what).tree

    def _undrawable(self, what: str) -> ChoiceError:
        return undrawable(what, f"a feature tree, with {len(self.leaves)} leaves", "fit a junction tree")

    def describe(self) -> Description:
        """Returns sizes, the entropy, in nats, and the nodes."""
        from jtsolve.models.features.boxes import boxes

        facts = {
            "variables": self.n,
            "splits": len(self.splits),
            "leaves": len(self.leaves),
            "a_nodes": self.a_nodes,
            "longest_path": self.longest_path,
            "cells": self.cells,
            "parameters": self.parameters,
            "entropy_nats": self.entropy(),
        }
        return Description(facts, boxes=(boxes(self.columns, self.nodes, self.contexts),))

    def to_document(self) -> dict[str, Any]:
        """Returns the fields of a model file, less format and provenance."""
        return {
            "kind": "features",
            "variables": [column_document(column) for column in self.columns],
            "nodes": [self._node_document(i) for i in range(len(self.nodes))],
        }

    def _node_document(self, i: int) -> dict[str, Any]:
        node = self.nodes[i]
        if isinstance(node, Split):
            pairs = [[self.columns[v].name, self.columns[v].states[state]] for v, state in node.feature]
            return {
                "node": "split",
                "feature": pairs,
                "probability": float(node.probability),
                "kids": list(node.kids),
            }
        if isinstance(node, Product):
            return {"node": "product", "kids": list(node.kids)}
        columns = leaf_columns(self.columns, node.variables, self.contexts[i])
        variables = [column_document(column) for column in columns]
        if isinstance(node, TableLeaf):
            return {"node": "table", "variables": variables, "values": base64_of(node.values)}
        model = node.model
        parts = parts_document(model.tree, model.names, model.tables)
        return {"node": "tree", "variables": variables, **parts}

    def _expected(
        self, value: NDArray[np.float64], term: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the probability of each branch, and that of each state; for arguments, see `upward`."""
        from jtsolve.models.features.kernels.circuits import downward

        arrays = self.circuit.arrays
        flow, single = np.zeros(len(term)), np.zeros(self.circuit.first[-1])
        downward(value, term, arrays, 0, self.circuit.nodes, flow, single)
        return flow, single

    def _given(self, i: int, value: NDArray[np.float64], term: NDArray[np.float64]) -> Node:
        """Returns a node given the evidence behind `value` and `term`; as it is, if it is impossible."""
        from jtsolve.models.features.kernels.circuits import downward

        node, place, arrays = self.nodes[i], self.circuit.place[i], self.circuit.arrays
        if isinstance(node, Product) or value[place] == -np.inf:
            return node
        start, stop = arrays.branch[place : place + 2]
        if not isinstance(node, TreeLeaf):
            shares = np.exp(term[start:stop] - value[place])
            if isinstance(node, Split):
                return replace(node, probability=min(1.0, float(shares[1])))
            return replace(node, values=shares.reshape(node.values.shape))
        layout = node.model.layout
        places = place + clique_nodes(layout)
        flow = np.zeros(len(term))
        downward(value, term, arrays, place, places[-1], flow, np.zeros(self.circuit.first[-1]))
        tables = np.empty(layout.cells)
        for c in range(len(layout.cliques)):
            axes = separator_first(layout, c)
            found = flow[arrays.branch[places[c]] : arrays.branch[places[c + 1]]]
            dims = [layout.dims(c)[k] for k in axes]
            layout.table(tables, c)[...] = np.transpose(found.reshape(dims), np.argsort(axes))
        return replace(node, model=array_model(node.model.columns, node.model.tree, tables))


def _cells(node: Node) -> int:
    if isinstance(node, TreeLeaf):
        return node.model.layout.cells
    return node.values.size if isinstance(node, TableLeaf) else 0


def _parameters(node: Node, context: Context) -> int:
    if isinstance(node, Split):
        return 1
    if isinstance(node, TreeLeaf):
        return node.model.parameters
    return int(context.is_allowed(node.variables).sum()) - 1 if isinstance(node, TableLeaf) else 0
