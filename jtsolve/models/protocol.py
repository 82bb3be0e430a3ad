"""The queries of a distribution, and what all kinds of models share.

Discrete and mixed junction trees, feature trees, mixtures and Bayesian networks are distributions.
Unsupported queries raise a `ChoiceError`.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from jtsolve.errors import ChoiceError
from jtsolve.models.answers import Posterior
from jtsolve.models.inference.prediction import (
    WITH_EVIDENCE,
    require_small,
    state_log_probabilities,
    targets_of,
)
from jtsolve.models.layout import require_room
from jtsolve.tables.raw import GAP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.answers import (
        Conditioned,
        Description,
        Evidence,
        Explanation,
        Groups,
        Rows,
    )
    from jtsolve.networks.network import Network


class Distribution(Protocol):
    """A distribution of the rows of a table.

    Rows are arrays of shape (variables, rows). Those of a discrete model hold codes of states, -1 for a
    missing value; those of a model with real variables hold codes and numbers, NaN for a missing value.
    """

    if TYPE_CHECKING:  # attributes of dataclasses

        @property
        def columns(self) -> tuple[Any, ...]:
            """The variables."""

        @property
        def provenance(self) -> Mapping[str, Any]:
            """Remarks on the origin."""

    def _repr_html_(self) -> str:
        from jtsolve.draw.html import as_html

        return as_html([repr(self)], getattr(self, "tree", None), self.names)

    @property
    def kind(self) -> str:
        """What it is, in refusals."""
        return type(self).__name__

    @property
    def parameters(self) -> int:
        """The number of free parameters."""

    @property
    def cells(self) -> int:
        """The number of cells of all tables."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(column.name for column in self.columns)

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.columns)

    @property
    def is_continuous(self) -> bool:
        """Whether there are real variables; probabilities are then densities."""
        return any(column.states is None for column in self.columns)

    def log_likelihood(self, rows: Rows) -> NDArray[np.float64]:
        """Returns ln P(row) for every row, in nats, shape (rows,); -inf for impossible rows.

        Missing values are summed out.
        """

    def condition(self, evidence: Evidence) -> Conditioned[Distribution]:
        """Returns the model given evidence.

        Raises:
            InputError: a variable or state is unknown, or the evidence is impossible.
        """

    def posterior(self, groups: Groups, evidence: Evidence, *, run: Run | None = None) -> Posterior:
        """Returns the joint distribution of each group of variables given evidence.

        Args:
            groups: the names in each group, at least one.
            evidence: see `Evidence`.
            run: receives progress; None to report none.

        Raises:
            InputError: a variable or state is unknown, a group is empty or names a variable twice, or the
                evidence is impossible.
            LimitError: the tables do not fit in memory; raised before they are built.
        """
        wanted = [targets_of(group, self.columns) for group in groups]
        columns = tuple(tuple(self.columns[v] for v in targets) for targets in wanted)
        for own in columns:
            require_small(prod(column.arity for column in own), len(own))
        require_room(self.cells, *WITH_EVIDENCE)
        if run is not None:
            run.progress(note="passing messages")
        known: Any = self.condition(evidence)
        single = known.model.marginals()
        tables = [
            single[targets[0]] if len(targets) == 1 else known.model.marginal(group)
            for group, targets in zip(groups, wanted, strict=True)
        ]
        return Posterior(known.log_probability, columns=columns, tables=tuple(tables))

    def explain(self, evidence: Evidence, k: int = 1, *, run: Run | None = None) -> Explanation:
        """Returns the k most probable configurations given evidence; fewer if the others are impossible.

        Args:
            evidence: see `Evidence`.
            k: number of configurations.
            run: see `posterior`.

        Raises:
            ChoiceError: the model is a mixture, or k is below 1, or above 1 and there are real variables.
            InputError, LimitError: see `posterior`.
        """
        del evidence, k, run
        raise self._refusal("the most probable explanation")

    def sample(self, rows: int, seed: int = 0, evidence: Evidence = ...) -> Rows:
        """Returns independent rows given evidence, reproducible by model, number of rows and seed.

        Args:
            rows: their number.
            seed: of the draws.
            evidence: see `Evidence`.

        Raises:
            ChoiceError: a number is negative.
            InputError: see `condition`.
            LimitError: the rows do not fit in memory.
        """

    def predict(self, rows: Rows, v: int) -> Rows:
        """Returns the most probable state, or the mean, of variable v given the rest of each row.

        The value is missing where the rest is impossible.
        """
        logs = state_log_probabilities(self, rows, v)
        missing = np.nan if self.is_continuous else GAP
        return np.where(np.isnan(logs).any(axis=1), missing, np.argmax(logs, axis=1))

    def complete(self, rows: Rows) -> Rows:
        """Returns rows with the most probable missing values; impossible rows keep their gaps.

        Raises:
            ChoiceError: there is not one junction tree.
        """
        del rows
        raise self._refusal("the completion of rows")

    def entropy(self) -> float:
        """Returns -E ln P, in nats.

        Raises:
            ChoiceError: the logarithm does not decompose.
        """
        raise self._refusal("the entropy")

    def junction_tree(self, what: str) -> Any:
        """Returns the distribution as a discrete junction tree; `what` names the request in the refusal.

        Raises:
            ChoiceError: there is none.
        """
        raise self._refusal(what)

    def _refusal(self, what: str) -> ChoiceError:
        return ChoiceError(
            f"{what} is for models of one junction tree, and this one is {self.kind}; fit one tree"
        )

    def network(self, what: str) -> Network:
        """Returns the same distribution as a Bayesian network; `what` names the request in the refusal.

        Raises:
            ChoiceError: there is no discrete junction tree.
        """
        network: Network = self.junction_tree(what).network(what)
        return network

    def structure(self, what: str) -> JunctionTree:
        """Returns the junction tree without tables; `what` names the request in the refusal."""
        tree: JunctionTree = self.junction_tree(what).tree
        return tree

    def describe(self) -> Description:
        """Returns sizes, information measures and drawings."""

    def to_document(self) -> dict[str, Any]:
        """Returns the fields of a model file except format and provenance."""
