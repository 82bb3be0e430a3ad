"""Bayesian networks as distributions: each query is restricted to the part on which its answer depends.

Requests that need all variables at once, such as another format or the completion of rows, triangulate the
moral graph (`triangulation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.core.run import Run
from jtsolve.core.triangulation import triangulated
from jtsolve.core.varset import members, varset
from jtsolve.errors import InputError, LimitError
from jtsolve.models import relevance
from jtsolve.models.answers import Conditioned, Configuration, Description, Explanation, Posterior
from jtsolve.models.columns import codes_of
from jtsolve.models.inference.information import sizes_of
from jtsolve.models.inference.likelihood import gaps_of
from jtsolve.models.inference.mpe import most_probable
from jtsolve.models.inference.prediction import require_small, targets_of
from jtsolve.models.layout import BYTES_PER_CELL, require_draws, require_room, table_cells
from jtsolve.models.protocol import Distribution
from jtsolve.models.triangulation import calibrated
from jtsolve.networks.sample import configurations, sample_codes
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.answers import Evidence, Groups
    from jtsolve.models.columns import Column
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.networks.network import Network
    from jtsolve.tables.table import Codes

MOST_SHOWN = 1 << 22
"""Largest number of cells of the tables that are built to describe a network: a second, and 170 MB."""


def from_network(network: Network) -> JunctionTreeModel:
    """Returns the distribution of a Bayesian network on a junction tree of its moral graph.

    Raises:
        LimitError: the tables need more memory than there is.
    """
    factors = [relevance.factor_of(network, v) for v in range(len(network.nodes))]
    provenance = {"network": network.name, "triangulation": "min-fill"}
    return calibrated(relevance.network_variables(network), factors, provenance=provenance).model


@dataclass(frozen=True, eq=False, repr=False)
class NetworkModel(Distribution):
    """The distribution of a Bayesian network.

    Args:
        bayesian: the network.
    """

    bayesian: Network
    provenance: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def __repr__(self) -> str:
        return repr(self.bayesian)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The variables."""
        return relevance.network_variables(self.bayesian)

    @property
    def parameters(self) -> int:
        """The number of free parameters."""
        return self.bayesian.parameter_count

    @cached_property
    def cells(self) -> int:
        """The number of cells of all tables of its junction tree."""
        return table_cells(self._tree, self.bayesian.arities)

    @cached_property
    def _tree(self) -> JunctionTree:
        """The junction tree of the moral graph, by min-fill."""
        scopes = [varset((*node.parents, v)) for v, node in enumerate(self.bayesian.nodes)]
        return triangulated(self.bayesian.arities, scopes)

    @cached_property
    def _compiled(self) -> JunctionTreeModel:
        return from_network(self.bayesian)

    def log_likelihood(self, rows: DataTable | Codes) -> NDArray[np.float64]:
        """Returns ln P(row) for every row, in nats; -inf for impossible rows.

        If the parents of every observed node are observed, it is a sum of entries of the tables. Missing
        parents of observed nodes need a junction tree of the ancestors.

        Raises:
            LimitError: its tables do not fit in memory.
        """
        codes = codes_of(self.columns, rows) if isinstance(rows, DataTable) else rows
        network, entered = self.bayesian, relevance.Entered.of(self.bayesian, {})
        gaps_of(entered.columns, codes)
        seen = codes >= 0
        direct = np.ones(codes.shape[1], dtype=np.bool_)
        for v, node in enumerate(network.nodes):
            for u in node.parents:
                direct &= seen[u] | ~seen[v]
        out = np.zeros(codes.shape[1])
        with np.errstate(divide="ignore"):
            for v, node in enumerate(network.nodes):
                at = np.flatnonzero(direct & seen[v])
                own = {u: codes[u, at] for u in (*node.parents, v)}
                out[at] += np.log(node.table)[configurations(network, node, own, at.size), own[v]]
        left = np.flatnonzero(~direct)
        if left.size:
            part = entered.part(varset(np.flatnonzero(seen[:, left].any(axis=1)).tolist()), None)
            if part.fits():
                inside = list(members(part.variables))
                out[left] = part.compiled().model.log_likelihood(codes[inside][:, left])
            else:
                different, place = np.unique(codes[:, left], axis=1, return_inverse=True)
                out[left] = np.array([_of_row(network, row.tolist()) for row in different.T])[place]
        return out

    def condition(self, evidence: Evidence) -> Conditioned[JunctionTreeModel]:
        """Returns the distribution of all variables given evidence, on a junction tree."""
        return self.junction_tree("the distribution given evidence").condition(evidence)

    def posterior(self, groups: Groups, evidence: Evidence, *, run: Run | None = None) -> Posterior:
        """Returns the joint distribution of each group given evidence; see `protocol.Distribution`.

        The groups share a junction tree if it fits in memory and has no more cells than separate ones.
        """
        run = run or Run()
        entered = relevance.Entered.of(self.bayesian, evidence)
        places = [targets_of(group, entered.columns) for group in groups]
        columns = tuple(tuple(entered.columns[v] for v in group) for group in places)
        for own in columns:
            require_small(prod(column.arity for column in own), len(own))
        wanted = list(map(varset, places))
        run.progress(note="ordering the elimination")
        parts = relevance.plan_parts(entered, wanted)
        for part in parts:
            part.require()
        # ln P(evidence) depends on the ancestors of the evidence only; they may not fit.
        log_probability: float | None = None
        refusal = ""
        try:
            log_probability = entered.log_probability()
        except LimitError as error:
            refusal = str(error)
        tables: dict[int, NDArray[np.float64]] = {}
        for done, part in enumerate(parts):
            run.progress(note="passing messages", done=done / len(parts))
            model = part.compiled().model
            single = dict(zip(model.names, model.marginals(), strict=True))
            for k, (group, targets) in enumerate(zip(groups, wanted, strict=True)):
                if k not in tables and not targets & ~part.targets:
                    tables[k] = single[group[0]] if len(group) == 1 else model.marginal(group)
        found = tuple(tables[k] for k in range(len(groups)))
        return Posterior(log_probability, refusal, columns, found)

    def explain(self, evidence: Evidence, k: int = 1, *, run: Run | None = None) -> Explanation:
        """Returns the k most probable configurations; see `protocol.Distribution`.

        A maximum, unlike a sum, depends on every node; evidence still removes its variables from the tables.
        """
        run = run or Run()
        entered = relevance.Entered.of(self.bayesian, evidence)
        run.progress(note="ordering the elimination")
        part = entered.part((1 << self.n) - 1, None)
        log_probability = entered.log_probability()
        with np.errstate(divide="ignore"):
            factors = [(factor.variables, np.log(factor.table)) for factor in part.renumbered]
        best = [
            Configuration(one.values, one.log_probability - log_probability)
            for one in most_probable(part.tree, part.columns, factors, k, run=run)
        ]
        return Explanation(best, log_probability)

    def sample(self, rows: int, seed: int = 0, evidence: Evidence = MappingProxyType({})) -> Codes:
        """Returns independent rows as codes: each node is drawn given its parents, in order.

        With evidence, its ancestors are drawn from their junction tree (M. Henrion, Propagating uncertainty
        in Bayesian networks by probabilistic logic sampling, UAI 1988).
        """
        require_draws(rows, seed, self.n)
        known: dict[int, Codes] = {}
        if evidence:
            entered = relevance.Entered.of(self.bayesian, evidence)
            part = entered.part(entered.observed, None)
            codes = part.compiled().model.sample(rows, seed)
            known = dict(zip(members(part.variables), codes, strict=True))
        # With evidence, the seed has been used already.
        return sample_codes(
            self.bayesian, rows, np.random.default_rng([seed, 1] if evidence else seed), known
        )

    def complete(self, rows: Codes) -> Codes:
        """Returns the most probable completion of rows; see `JunctionTreeModel.complete`."""
        return self.junction_tree("the completion of rows").complete(rows)

    def entropy(self) -> float:
        """Returns -Σ P ln P over all configurations, in nats."""
        return self.junction_tree("the entropy").entropy()

    def junction_tree(self, what: str) -> JunctionTreeModel:
        """Returns the junction tree of the network; `what` names the request in the refusal.

        Raises:
            LimitError: its tables do not fit in memory; raised before they are built.
        """
        if "_compiled" not in self.__dict__:
            way = "query it with evidence, which removes its variables from the tables"
            require_room(self.cells, f"{what} needs the tables of a junction tree", way, BYTES_PER_CELL)
        return self._compiled

    def network(self, what: str) -> Network:
        """Returns the network itself."""
        del what
        return self.bayesian

    def structure(self, what: str) -> JunctionTree:
        """Returns the junction tree of the moral graph, without tables."""
        del what
        return self._tree

    def describe(self) -> Description:
        """Returns sizes, and information measures if the tables of the junction tree are small."""
        if self.cells <= MOST_SHOWN:
            return self.junction_tree("the description").describe()
        tree = self._tree
        sizes, notes = sizes_of(tree, self.columns)
        facts = {
            "variables": self.n,
            "arcs": self.bayesian.arc_count,
            "parameters": self.parameters,
            "cliques": len(tree.cliques),
            "treewidth": tree.treewidth,
            **sizes,
        }
        remark = "The tables of the junction tree are too large to build for a picture: no entropies."
        return Description(facts, trees=((tree, notes),), remark=remark)

    def to_document(self) -> dict[str, Any]:
        """Returns the fields of the model file of its junction tree except format and provenance."""
        return self.junction_tree("a model file").to_document()


def _of_row(network: Network, row: list[int]) -> float:
    """Returns ln P of the observed values of one row, entered as evidence."""
    columns = relevance.network_variables(network)
    evidence = {one.name: one.states[code] for one, code in zip(columns, row, strict=True) if code >= 0}
    try:
        return relevance.Entered.of(network, evidence).log_probability()
    except InputError:  # impossible
        return -np.inf
