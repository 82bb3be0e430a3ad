"""`DecomposableCovariance`: a covariance whose inverse has the zeros of a chordal graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.utils.validation import validate_data

from jtsolve.core.result import require_tree
from jtsolve.errors import ChoiceError, at
from jtsolve.estimator.base import running
from jtsolve.estimator.rows import checked_weights
from jtsolve.models.learning.mixed_tree import fit_mixed
from jtsolve.options import BACKEND, Door
from jtsolve.scoring.problem import problem_from_table
from jtsolve.scoring.registry import REGISTRY as SCORES
from jtsolve.scoring.score import is_gaussian
from jtsolve.solving import solve
from jtsolve.study.arguments import backend_of, treewidth_of
from jtsolve.study.data import COVARIANCE_SCORE
from jtsolve.study.trees import NamedTree
from jtsolve.tables.covariance import table_of_covariance

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend
    from jtsolve.scoring.score import ScoreFunction


@dataclass(kw_only=True, eq=False, repr=False)
class DecomposableCovariance(EmpiricalCovariance):  # type: ignore[misc]
    """The covariance of maximum likelihood on the best junction tree of a treewidth.

    It agrees with the empirical covariance within the cliques, and its inverse is 0 for every pair of
    features that share none.

    Args:
        treewidth: the largest clique size minus one.
        local_score: name of a score for real numbers ("gaussian-bic", "bge"), or the score itself; `score`
            is a method.
        store_precision: whether to keep `precision_`.
        assume_centered: whether the mean is 0.
        time: seconds, as the other parameters see `JunctionTreeDensity`.

    Attributes:
        location_: shape (features,), the mean.
        covariance_: shape (features, features).
        precision_: its inverse, computed on the tree and not by inversion; None if it is not kept.
        cliques_: of features, by name if X was a frame, else by position.
        separators_: one for each edge of the tree.
        result_: the verified result of the search, with the bound.

    References:
        S. L. Lauritzen, Graphical Models, Oxford 1996, section 5.3.

    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> X[:, 2] += X[:, 0]
    >>> fitted = DecomposableCovariance(treewidth=1).fit(X)
    >>> fitted.cliques_, float(fitted.precision_[0, 1])
    ([(0, 2), (1,)], 0.0)
    """

    treewidth: int = field(default=2, kw_only=False)
    local_score: str | ScoreFunction = COVARIANCE_SCORE
    backend: str | Backend = BACKEND.default
    store_precision: bool = True
    assume_centered: bool = False
    time: float | None = None
    memory: float | None = None
    threads: int | None = None
    random_state: Any = 0

    @at(Door.ESTIMATOR)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> DecomposableCovariance:
        """Learns the tree, and the covariance on it.

        Args:
            X: shape (rows, features), of numbers, at least two rows.
            y: ignored.
            sample_weight: shape (rows,): how often each row counts.

        Raises:
            ValueError: a shape, a number or a weight is invalid.
            InputError: a feature is constant, or features of a clique are linearly dependent.
            ChoiceError: a parameter is invalid.
            LimitError: the backend found no tree within the limits.
        """
        del y
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        weights = checked_weights(sample_weight, len(X))
        weights = np.ones(len(X)) if weights is None else weights
        rows = float(weights.sum())
        mean = np.zeros(X.shape[1]) if self.assume_centered else weights @ X / rows
        steps = X - mean
        with running(self) as run:
            score = SCORES.chosen(self.local_score, "name")
            if not is_gaussian(score):
                raise ChoiceError(
                    f"the score '{score.name}' is not of real numbers alone; choose gaussian-bic"
                )
            known = getattr(self, "feature_names_in_", None)  # of frames whose names are texts
            labels: list[Any] = list(range(X.shape[1])) if known is None else known.tolist()
            names = [f"x{at}" if known is None else str(at) for at in labels]
            table = table_of_covariance(names, (steps.T * weights) @ steps / rows, rows, "X")
            backend, treewidth = backend_of(self.backend), treewidth_of(self.treewidth)
            problem = problem_from_table(table, score, treewidth=treewidth, run=run, backend=backend)
            self.result_ = solve(problem, backend, run)
            tree = require_tree(self.result_)
            matrices = fit_mixed(tree, table, ess=0.0).matrices()

        named = NamedTree(tree, tuple(names), labels=dict(zip(names, labels, strict=True)))
        self.cliques_, self.separators_ = named.cliques, named.separators
        self.location_, self.covariance_ = mean, matrices[0]
        self.precision_: Any = matrices[1] if self.store_precision else None
        return self
