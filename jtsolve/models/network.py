"""Bayesian networks as distributions: each query is restricted to the part on which its answer depends.

Requests that need all variables at once, such as another format or the completion of rows, triangulate the
moral graph (`triangulation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from jtsolve.core.triangulation import triangulated
from jtsolve.core.varset import varset
from jtsolve.models import ancestral, relevance
from jtsolve.models.answers import Conditioned, Description
from jtsolve.models.columns import codes_of
from jtsolve.models.inference.information import sizes_of
from jtsolve.models.layout import BYTES_PER_CELL, require_room, table_cells
from jtsolve.models.protocol import Distribution
from jtsolve.models.triangulation import calibrated
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.answers import Evidence, Explanation, Groups, Posterior
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
        """Returns ln P(row) for every row, in nats; see `ancestral.log_likelihood`."""
        codes = codes_of(self.columns, rows) if isinstance(rows, DataTable) else rows
        return ancestral.log_likelihood(self.bayesian, codes)

    def condition(self, evidence: Evidence) -> Conditioned[JunctionTreeModel]:
        """Returns the distribution of all variables given evidence, on a junction tree."""
        return self.junction_tree("the distribution given evidence").condition(evidence)

    def posterior(
        self, groups: Groups, evidence: Evidence, *, memory: int | None = None, run: Run | None = None
    ) -> Posterior:
        """Returns the joint distribution of each group given evidence; see `relevance.relevant_posterior`."""
        return relevance.relevant_posterior(self.bayesian, groups, evidence, memory=memory, run=run)

    def explain(
        self, evidence: Evidence, k: int = 1, *, memory: int | None = None, run: Run | None = None
    ) -> Explanation:
        """Returns the k most probable configurations; see `relevance.explanation`."""
        return relevance.explanation(self.bayesian, evidence, k, memory=memory, run=run)

    def sample(self, rows: int, seed: int = 0, evidence: Evidence = MappingProxyType({})) -> Codes:
        """Returns independent rows as codes; only the ancestors of the evidence are triangulated."""
        return ancestral.sample(self.bayesian, evidence, rows, seed)

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
            way = "query it with evidence, which removes its variables from the tables; more memory"
            require_room(self.cells, f"{what} needs the tables of a junction tree", way, BYTES_PER_CELL)
        return self._compiled

    def network(self, what: str, root: int = 0) -> Network:
        """Returns the network itself, or that of its junction tree if the root is not the first clique."""
        return self.bayesian if root == 0 else self.junction_tree(what).network(what, root)

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
