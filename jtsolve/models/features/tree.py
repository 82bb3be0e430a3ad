"""Feature trees: a distribution that branches on features (F-nodes) and decomposes (A-nodes).

    P(x) = Π over the splits on the path of x  P(F = f | path) · Π over its leaves  P(x_leaf | path)

This is the locally normalised form of Definition 2 of V. Gogate, W. A. Webb and P. Domingos, Learning
efficient Markov networks, NIPS 2010: it sums to 1 by induction, provided that the parts of a product share
no variable and no clause (with the paper's division by the number of models #(M), a clause across two parts
makes the recursion wrong). As a Markov network it has one log-linear feature for each leaf.

Queries are passes over the nodes, from the root down or from the leaves up. Unlike a mixture, whose
components overlap, a feature tree has exact best configurations: the sides of a split exclude each other.
Time: linear in the nodes and the cells of the leaves, times k log k for the k best configurations; a complete
row visits its own path only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.core.triangulation import triangulated
from jtsolve.core.varset import VarSet, members, varset
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.models.answers import Conditioned, Configuration, Description, Explanation
from jtsolve.models.columns import codes_of
from jtsolve.models.documents import base64_of, column_document, parts_document
from jtsolve.models.features.nodes import Product, Split, TableLeaf, TreeLeaf, kids_of
from jtsolve.models.features.validity import contexts_of, leaf_columns
from jtsolve.models.inference.evidence import impossible, likelihoods
from jtsolve.models.inference.likelihood import gaps_of
from jtsolve.models.inference.prediction import MOST_CELLS, WITH_EVIDENCE, joint_table, targets_of
from jtsolve.models.layout import require_draws, require_room, table_cells
from jtsolve.models.model import JunctionTreeModel
from jtsolve.models.protocol import Distribution
from jtsolve.tables.raw import GAP
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.draw.branching import Box
    from jtsolve.models.answers import Evidence
    from jtsolve.models.columns import Column
    from jtsolve.models.features.context import Context, Feature
    from jtsolve.models.features.nodes import Node
    from jtsolve.tables.table import Codes

    _Entry = tuple[float, tuple[tuple[int, int], ...]]

_BLOCK = 1 << 16
"""Rows whose likelihoods are computed at a time."""
_MOST_LINES = 12
"""Maximum number of lines of a junction tree in a box."""
_BYTES_PER_ENTRY = 200
"""Memory of an entry of a list of best configurations, with its share of the literals."""


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTree(Distribution):
    """A distribution given by a feature tree.

    Args:
        columns: the variables.
        nodes: the first is the root; every other one has one parent, earlier in the list.
        provenance: remarks on the origin.

    Attributes:
        contexts: of each node, the states that its path leaves.

    Raises:
        ValueError: it is not a distribution; names the node, with its path, and the reason.

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
    kind: ClassVar[str] = "a feature tree"

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
    def _fixed(self) -> dict[int, tuple[Feature, Feature]]:
        """The variables that each split fixes where its feature fails, and where it holds."""
        return {
            i: (context.assume(node.feature, holds=False)[1], context.assume(node.feature, holds=True)[1])
            for i, (node, context) in enumerate(zip(self.nodes, self.contexts, strict=True))
            if isinstance(node, Split)
        }

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
        """The number of A-nodes: the root, and two for each split; the paper adds one for each of `cells`."""
        return 1 + 2 * len(self.splits)

    @property
    def cells(self) -> int:
        """The number of cells in the tables of all leaves."""
        return sum(leaf.cells for leaf in self.leaves)

    @property
    def parameters(self) -> int:
        """The number of free parameters: one for each split, and those of the leaves."""
        return sum(
            _parameters(node, context) for node, context in zip(self.nodes, self.contexts, strict=True)
        )

    def log_likelihood(self, rows: DataTable | Codes) -> NDArray[np.float64]:
        """Returns ln P(row) for every row, in nats; see `JunctionTreeModel.log_likelihood`."""
        codes = codes_of(self.columns, rows) if isinstance(rows, DataTable) else np.asarray(rows)
        gaps_of(self.columns, codes)
        codes = codes.astype(np.int32)
        out = np.empty(codes.shape[1])
        for start in range(0, out.size, _BLOCK):
            out[start : start + _BLOCK] = self._log_likelihood(codes[:, start : start + _BLOCK])
        return out

    def _log_likelihood(self, codes: Codes) -> NDArray[np.float64]:
        """Returns ln P of each row; a row without the values of a feature reaches both sides."""
        inside = {0: np.arange(codes.shape[1])}  # the rows that may reach a node
        places: dict[int, NDArray[np.int64]] = {}  # of the rows of a side among those of its split
        for i, node in enumerate(self.nodes):
            if i not in inside:
                continue
            rows = inside[i]
            if not isinstance(node, Split):
                inside.update(dict.fromkeys(kids_of(node), rows))
                continue
            own = codes[:, rows]
            equal = np.array([own[v] == state for v, state in node.feature])
            missing = np.array([own[v] < 0 for v, _ in node.feature])
            possible = ~equal.all(axis=0), (equal | missing).all(axis=0)
            for kid, side, fixed in zip(node.kids, possible, self._fixed[i], strict=True):
                there = [side, *((own[v] < 0) | (own[v] == state) for v, state in fixed)]
                places[kid] = np.flatnonzero(np.all(there, axis=0))
                if places[kid].size:
                    inside[kid] = rows[places[kid]]
        values: dict[int, NDArray[np.float64]] = {}
        for i in sorted(inside, reverse=True):
            node, context, rows = self.nodes[i], self.contexts[i], inside[i]
            value = np.full(rows.size, -inf)
            if isinstance(node, Split):
                for kid, log_share in zip(node.kids, _log_shares(node), strict=True):
                    if kid in inside:
                        at = places[kid]
                        value[at] = np.logaddexp(value[at], log_share + values.pop(kid))
            elif isinstance(node, Product):
                value = np.sum([np.zeros(rows.size), *(values.pop(kid) for kid in node.kids)], axis=0)
            else:
                ranks = {v: context.ranks(v, self.columns[v].arity) for v in node.variables}
                local = np.array([own[codes[v, rows]] for v, own in ranks.items()])
                left = (local >= GAP).all(axis=0)
                value[left] = node.log_likelihood(local[:, left])
            values[i] = value
        return values[0]

    def condition(self, evidence: Evidence) -> Conditioned[FeatureTree]:
        """Returns the distribution given hard and soft evidence; see `JunctionTreeModel.condition`."""
        weights = likelihoods(self.columns, evidence)
        if not weights:
            return Conditioned(self, 0.0)
        with np.errstate(divide="ignore"):
            logs = {v: np.log(weight) for v, weight in weights.items()}
        known, values = list(self.nodes), [0.0] * len(self.nodes)
        for i in reversed(range(len(self.nodes))):
            node, context = self.nodes[i], self.contexts[i]
            if isinstance(node, Product):
                values[i] = sum(values[kid] for kid in node.kids)
            elif isinstance(node, Split):
                terms = np.array(_log_shares(node))
                for k, (kid, fixed) in enumerate(zip(node.kids, self._fixed[i], strict=True)):
                    terms[k] += values[kid] + sum(logs[v][state] for v, state in fixed if v in logs)
                values[i] = float(np.logaddexp(*terms))
                if values[i] > -inf:
                    known[i] = replace(node, probability=min(1.0, float(np.exp(terms[1] - values[i]))))
            else:
                own = {v: weights[v][context.allowed(v)] for v in node.variables if v in weights}
                known[i], values[i] = node.given(own) if own else (node, 0.0)
        constant = sum(float(logs[v][0]) for v in logs if self.columns[v].arity == 1)
        if values[0] + constant == -inf:
            raise impossible(self.columns, self.marginals(), weights, evidence)
        model = FeatureTree(self.columns, tuple(known), self.provenance)
        return Conditioned(model, values[0] + constant)

    def _reach(self) -> list[float]:
        """Returns the probability that a row reaches each node."""
        found = [1.0] * len(self.nodes)
        for i, node in enumerate(self.nodes):
            for kid in kids_of(node):
                found[kid] = found[i]
            if isinstance(node, Split):
                found[node.kids[0]] *= 1 - node.probability
                found[node.kids[1]] *= node.probability
        return found

    def marginals(self) -> tuple[NDArray[np.float64], ...]:
        """Returns P(v) for every variable v, shape (states,)."""
        out = tuple(np.full(column.arity, float(column.arity == 1)) for column in self.columns)
        reach = self._reach()
        for i, node in enumerate(self.nodes):
            if isinstance(node, Split):
                for kid, fixed in zip(node.kids, self._fixed[i], strict=True):
                    for v, state in fixed:
                        out[v][state] += reach[kid]
            elif not isinstance(node, Product):
                for v, single in zip(node.variables, node.marginals(), strict=True):
                    out[v][self.contexts[i].allowed(v)] += reach[i] * single
        return out

    def marginal(self, names: Sequence[str], *, most_cells: int = MOST_CELLS) -> NDArray[np.float64]:
        """Returns the joint marginal of some variables, shape (states, …), in the given order."""
        return joint_table(self, targets_of(names, self.columns), most_cells)

    def explain(self, evidence: Evidence, k: int = 1, *, run: Run | None = None) -> Explanation:
        """Returns the k most probable configurations; see `protocol.Distribution`."""
        if k < 1:
            raise ChoiceError(f"{k} configurations are requested; give a number of 1 or more")
        require_room(self.cells, *WITH_EVIDENCE)
        if run is not None:
            run.progress(note="passing messages")
        known = self.condition(evidence)
        best = []
        for value, literals in known.model._best(k):  # noqa: SLF001 - of the same class
            codes = dict(literals)
            states = tuple(column.states[codes.get(v, 0)] for v, column in enumerate(self.columns))
            best.append(Configuration(states, value))
        return Explanation(best, known.log_probability)

    def _best(self, k: int) -> list[_Entry]:
        """Returns ln P and the literals of the k best configurations, best first."""
        require_room(len(self.nodes) * k, f"the {k} best configurations", "a smaller k", _BYTES_PER_ENTRY)
        lists: list[list[_Entry]] = [[]] * len(self.nodes)
        for i in reversed(range(len(self.nodes))):
            node, context = self.nodes[i], self.contexts[i]
            if isinstance(node, Product):
                lists[i] = [(0.0, ())]
                for kid in node.kids:
                    lists[i], lists[kid] = _joined(lists[i], lists[kid], k), []
            elif isinstance(node, Split):
                for kid, log_share, fixed in zip(node.kids, _log_shares(node), self._fixed[i], strict=True):
                    own = [(log_share + value, (*fixed, *literals)) for value, literals in lists[kid]]
                    lists[i], lists[kid] = lists[i] + [one for one in own if one[0] > -inf], []
                lists[i] = sorted(lists[i], key=lambda one: -one[0])[:k]
            else:
                states = {v: context.allowed(v) for v in node.variables}
                lists[i] = [
                    (value, tuple((v, states[v][code]) for v, code in zip(states, codes, strict=True)))
                    for value, codes in node.best(k)
                ]
        return lists[0]

    def sample(self, rows: int, seed: int = 0, evidence: Evidence = MappingProxyType({})) -> Codes:
        """Returns independent rows as codes, shape (variables, rows); see `Distribution.sample`."""
        require_draws(rows, seed, self.n)
        tree = self.condition(evidence).model
        out = np.zeros((tree.n, rows), dtype=np.int32)
        generator = np.random.default_rng(seed)
        inside = {0: np.arange(rows)}
        for i, node in enumerate(tree.nodes):
            own = inside.pop(i)
            if isinstance(node, Split):
                holds = generator.random(own.size) < node.probability
                each = zip(node.kids, (~holds, holds), tree._fixed[i], strict=True)  # noqa: SLF001
                for kid, there, fixed in each:
                    inside[kid] = own[there]
                    for v, state in fixed:
                        out[v, own[there]] = state
            elif isinstance(node, Product):
                inside |= dict.fromkeys(node.kids, own)
            else:
                for v, codes in zip(node.variables, node.sample(own.size, generator), strict=True):
                    out[v, own] = np.array(tree.contexts[i].allowed(v))[codes]
        return out

    def entropy(self) -> float:
        """Returns -Σ P ln P over all configurations, in nats."""
        total = 0.0
        for share, node in zip(self._reach(), self.nodes, strict=True):
            if isinstance(node, Split):
                total += share * TableLeaf((), np.array([1 - node.probability, node.probability])).entropy()
            elif not isinstance(node, Product):
                total += share * node.entropy()
        return total

    def junction_tree(self, what: str, most_cells: int = MOST_CELLS) -> JunctionTreeModel:
        """Returns the same distribution on one junction tree; `what` names the request in the refusal.

        The variables of a path and those of a clique at its end have a common factor, so that they are
        adjacent. The graph is triangulated by min-fill; each table is a marginal of the feature tree.

        Raises:
            LimitError: the tables would have more than `most_cells` cells; raised before any is computed.
        """
        arities = tuple(column.arity for column in self.columns)
        found = triangulated(arities, _common_scopes(self.nodes, self.contexts))
        cells = table_cells(found, arities)
        if cells > most_cells:
            raise LimitError(
                f"{what}: as a junction tree, the feature tree has treewidth {found.treewidth} and "
                f"{cells:.3g} cells, {8 * cells / 1e9:.3g} GB; {most_cells:.3g} cells are allowed; "
                "fit a junction tree instead"
            )
        tables = tuple(self.marginal([self.names[v] for v in members(clique)]) for clique in found.cliques)
        return JunctionTreeModel(self.columns, found, tables, MappingProxyType(dict(self.provenance)))

    def describe(self) -> Description:
        """Returns sizes, the entropy, in nats, and the nodes."""
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
        return Description(facts, boxes=(_boxes(self.columns, self.nodes, self.contexts),))

    def to_document(self) -> dict[str, Any]:
        """Returns the fields of a model file except format and provenance."""
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


def _log_shares(node: Split) -> tuple[float, float]:
    """Returns ln of the probabilities that a feature fails, and that it holds."""
    with np.errstate(divide="ignore"):
        failed, met = np.log([1 - node.probability, node.probability]).tolist()
    return failed, met


def _joined(left: list[_Entry], right: list[_Entry], k: int) -> list[_Entry]:
    """Returns the k best combinations of the entries of two decreasing lists."""
    # Entry (x, y) is behind (x + 1)(y + 1) - 1 others.
    pairs = [(x, y) for x in range(len(left)) for y in range(min(len(right), k // (x + 1)))]
    sums = np.array([left[x][0] + right[y][0] for x, y in pairs])
    best = [pairs[at] for at in np.argsort(-sums, kind="stable")[:k].tolist()]
    return [(left[x][0] + right[y][0], left[x][1] + right[y][1]) for x, y in best]


def _parameters(node: Node, context: Context) -> int:
    if isinstance(node, Split):
        return 1
    if isinstance(node, TreeLeaf):
        return node.model.parameters
    return int(context.is_allowed(node.variables).sum()) - 1 if isinstance(node, TableLeaf) else 0


def _common_scopes(nodes: Sequence[Node], contexts: Sequence[Context]) -> list[VarSet]:
    """Returns the sets of variables that have a common factor."""
    above = [0] * len(nodes)
    scopes = [1 << v for v in contexts[0].domains]
    for i, node in enumerate(nodes):
        if isinstance(node, TableLeaf):
            scopes.append(above[i] | varset(node.variables))
        elif isinstance(node, TreeLeaf):
            cliques = node.model.layout.cliques
            scopes += [above[i] | varset(node.variables[v] for v in clique) for clique in cliques]
        here = above[i]
        if isinstance(node, Split):
            left = set(contexts[i].domains)
            for kid in node.kids:
                here |= varset(left - set(contexts[kid].domains))
            here |= varset(v for v, _ in node.feature)
            scopes.append(here)
        for kid in kids_of(node):
            above[kid] = here
    return scopes


def _boxes(columns: Sequence[Column], nodes: Sequence[Node], contexts: Sequence[Context]) -> list[Box]:
    """Returns a box for each node: the feature of a split, the cliques or variables of a leaf."""
    from jtsolve.draw.branching import Box
    from jtsolve.draw.text import tree_text

    found = []
    for node, context in zip(nodes, contexts, strict=True):
        if isinstance(node, Split):
            labels = tuple(
                f"{word} {p:.3g}" for word, p in (("no", 1 - node.probability), ("yes", node.probability))
            )
            feature = " ∧ ".join(f"{columns[v].name}={columns[v].states[state]}" for v, state in node.feature)
            found.append(Box((f"{feature}?",), node.kids, labels))
        elif isinstance(node, Product):
            text = "independent parts" if node.kids else "nothing open"
            found.append(Box((text,), node.kids, ("",) * len(node.kids)))
        elif isinstance(node, TableLeaf):
            names = ", ".join(columns[v].name for v in node.variables)
            cells = int(context.is_allowed(node.variables).sum())
            found.append(Box((f"{{{names}}}  {cells} cells",)))
        else:
            lines = tree_text(node.model.tree, node.model.names).splitlines()
            more = [f"… {len(lines) - _MOST_LINES} more cliques"] if len(lines) > _MOST_LINES else []
            found.append(Box((*lines[:_MOST_LINES], *more)))
    return found
