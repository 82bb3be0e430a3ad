"""`GraphSelection`: graph selection over junction trees as a scikit-learn covariance estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from jtsolve.core.graph import UndirectedGraph
from jtsolve.core.run import Limits, Run
from jtsolve.errors import ChoiceError, InputError
from jtsolve.selection.choices import SelectionPlan
from jtsolve.selection.framework import select
from jtsolve.selection.gaussian import covariance_selection
from jtsolve.selection.samples import GaussianSample
from jtsolve.tables.table import ContinuousTable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from jtsolve.selection.choices import ColumnKind
    from jtsolve.selection.method import SelectionMethod


class GraphSelection(EmpiricalCovariance):  # type: ignore[misc]
    """The undirected graph of the features, and the covariance under it by maximum likelihood.

    A replacement for scikit-learn's `GraphicalLasso` and `GraphicalLassoCV`. Missing values are refused.

    Args:
        method: glasso, neighbourhood or pc, with options as in "glasso:criterion=cv", or the method itself.
        screen: complete, "correlation:R", or pc with options as in "pc:1,level=0.1"; None for the default.
        superset: an adjacency matrix, shape (features, features), in place of a screen; or None.
        over: "junction-tree:K", with separators of at most K features, or "plain": all features at once.
        nonparanormal: use only the ranks of the values.
        random_state: seed or generator, as in scikit-learn.

    Attributes:
        location_: shape (features,): the means.
        covariance_: shape (features, features): the maximum likelihood estimate under the graph.
        precision_: its inverse, 0 where there is no edge.
        graph_: an `UndirectedGraph` over the features.
        selection_: the `Selection`, with the superset and every decision.
        n_features_in_: number of features.
        feature_names_in_: their names, if X has names.

    >>> rows = np.random.default_rng(0).normal(size=(300, 4))
    >>> rows[:, 1] += rows[:, 0]
    >>> found = GraphSelection(screen="complete").fit(rows)
    >>> found.graph_.edges
    ((0, 1),)
    >>> bool(found.precision_[0, 3] == 0)
    True
    """

    def __init__(
        self,
        method: str | SelectionMethod = "glasso",
        *,
        screen: str | None = None,
        superset: ArrayLike | None = None,
        over: str = "junction-tree",
        nonparanormal: bool = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(store_precision=True, assume_centered=False)
        self.method = method
        self.screen = screen
        self.superset = superset
        self.over = over
        self.nonparanormal = nonparanormal
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> GraphSelection:
        """Selects the graph and estimates the covariance.

        Args:
            X: shape (rows, features), at least two rows: numbers.
            y: ignored.

        Raises:
            ValueError: X is not a finite numeric array, or features are constant or linearly dependent.
            ChoiceError: an option does not exist.
        """
        del y
        values = validate_data(self, X, dtype=np.float64, ensure_min_samples=2, ensure_min_features=2)
        names = tuple(map(str, getattr(self, "feature_names_in_", range(values.shape[1]))))
        kind: ColumnKind = "nonparanormal" if self.nonparanormal else "gaussian"
        plan = SelectionPlan.of(self.method, kind, self.screen, self.over, superset=self._superset(names))
        seed = int(check_random_state(self.random_state).randint(1 << 31))
        try:
            table = ContinuousTable(names, values.T)
            moments = GaussianSample.of(table, plan.margins)
            found = select(moments, plan.method, plan.screen, plan.over, run=Run(Limits(seed=seed)))
        except InputError as error:
            raise ValueError(str(error)) from None
        joined = found.graph.matrix()
        estimate = covariance_selection(moments.regular(joined)[0], joined)
        deviation = values.std(axis=0)
        scale = np.outer(deviation, deviation)
        self.location_ = values.mean(axis=0)
        self.covariance_ = estimate.covariance * scale
        self.precision_ = estimate.precision / scale
        self.graph_ = found.graph
        self.selection_ = found
        return self

    def _superset(self, names: tuple[str, ...]) -> UndirectedGraph | None:
        if self.superset is None:
            return None
        matrix = np.asarray(self.superset, dtype=np.bool_)
        if matrix.shape != (len(names), len(names)) or (matrix != matrix.T).any() or matrix.diagonal().any():
            raise ChoiceError(
                f"the superset is not an adjacency matrix of {len(names)} features: symmetric, without loops"
            )
        return UndirectedGraph.from_matrix(names, matrix)
