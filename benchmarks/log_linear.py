"""Log-linear models fitted by pseudo-likelihood: the baselines of `lem_curve.py`.

P(x) ∝ exp Σ_f w_f f(x); a feature f is a conjunction of literals "variable v has state a". The weights
maximise the pseudo-likelihood Σ_x Σ_v ln P(x_v | all others), less a ridge, by L-BFGS (J. Besag, The
Statistician 24, 1975). Likelihoods are exact, computed on the junction tree of a triangulation if its tables
have at most `MOST_CELLS` cells; other models are left out with a remark.

`markov_network` learns pairs. Each variable is regressed on all others by logistic regression with an L1
penalty (one state against the rest, if there are more than two); u and v are neighbours if each has a nonzero
weight in the regression of the other ("and"), or if one of them has ("or"): P. Ravikumar, M. J. Wainwright
and J. D. Lafferty, Annals of Statistics 38, 2010. `induced_features` adds conjunctions greedily, following S.
Della Pietra, V. Della Pietra and J. Lafferty, IEEE Transactions on Pattern Analysis and Machine Intelligence
19, 1997: a candidate is a feature with one more literal that holds in some row; its gain is that of one step
of Newton's method for its weight. Each step adds a share of the best candidates, one for each set of
variables. Tuning rows choose the penalty and the rule, or the number of steps.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from jtsolve.core.triangulation import triangulated
from jtsolve.core.varset import varset
from jtsolve.models.columns import columns_of
from jtsolve.models.layout import table_cells
from jtsolve.models.triangulation import Factor, calibrated
from jtsolve.tables.distinct import distinct_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.table import DataTable

    Feature = tuple[int, ...]
    Floats = NDArray[np.float64]

MOST_CELLS = 1 << 22
"""Maximum number of cells of a junction tree for an exact likelihood."""
PENALTIES = (200, 100, 50, 20, 10, 5, 2, 1)
"""A subset of the paper's 1, 2, 5, 10, 20, 25, 50, 100, 200, 500 and 1,000."""
_FREE = 30.0
"""Value of the column whose weight is the intercept: the larger, the less liblinear penalises that."""
_PATIENCE = 2
"""Consecutive trials without improvement that end the search."""


class Learned(NamedTuple):
    """The result of a learner.

    Attributes:
        model: that with the best tuning likelihood; None if no likelihood could be computed.
        weights: the number of its weights.
        remark: the settings, and the models left out.
    """

    model: JunctionTreeModel | None
    weights: int
    remark: str


@dataclass(frozen=True, slots=True)
class Literals:
    """Distinct rows as indicators of literals.

    Attributes:
        first: shape (n + 1,), the first literal of each variable.
        holds: shape (literals, rows), 1 where a literal holds.
        weights: shape (rows,).
    """

    first: NDArray[np.int64]
    holds: NDArray[np.float32]
    weights: NDArray[np.float32]

    @staticmethod
    def of(table: DataTable) -> Literals:
        """Returns the literals of a table."""
        rows = distinct_rows(table)
        arities = [len(states) for states in rows.states]
        first = np.concatenate([[0], np.cumsum(arities)]).astype(np.int64)
        codes = np.repeat(rows.codes, arities, axis=0)
        states = np.concatenate([np.arange(arity) for arity in arities])
        weights = np.ones(rows.rows) if rows.weights is None else rows.weights
        return Literals(first, (codes == states[:, None]).astype(np.float32), weights.astype(np.float32))

    @property
    def variable(self) -> NDArray[np.int64]:
        """The variable of each literal."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


class LogLinear:
    """A log-linear model, and its pseudo-likelihood on some rows.

    Every single literal is a feature; pairs are stored as a matrix, longer features one by one.

    Attributes:
        features: those of two or more literals.
        weights: those of the literals, then those of the features.
    """

    def __init__(self, rows: Literals, features: Sequence[Feature], ridge: float) -> None:
        self.rows, self.ridge = rows, ridge
        self.features = sorted(features, key=lambda feature: (len(feature), feature))
        self.pairs = np.array([f for f in self.features if len(f) == 2], dtype=np.int64).reshape(-1, 2)
        longer = self.features[len(self.pairs) :]
        self.owner = np.array([k for k, f in enumerate(longer) for _ in f], dtype=np.int64)
        self.target = np.array([literal for f in longer for literal in f], dtype=np.int64)
        others = [rows.holds[[a for a in f if a != literal]].prod(axis=0) for f in longer for literal in f]
        self.others = np.array(others, dtype=np.float32).reshape(len(others), rows.holds.shape[1])
        self.weights = np.zeros(len(rows.holds) + len(self.features))

    def fit(self, start: dict[Feature, float], steps: int) -> None:
        """Maximises the pseudo-likelihood less ½ ridge · Σ w², starting from the weights of another model."""
        literals = [(literal,) for literal in range(len(self.rows.holds))]
        first = np.array([start.get(feature, 0.0) for feature in [*literals, *self.features]])
        found = minimize(
            self.loss, first, jac=True, method="L-BFGS-B", options={"maxiter": steps, "ftol": 1e-7}
        )
        self.weights = found.x

    def named(self) -> dict[Feature, float]:
        """Returns the weight of each feature."""
        literals = [(literal,) for literal in range(len(self.rows.holds))]
        return dict(zip([*literals, *self.features], self.weights.tolist(), strict=True))

    def residuals(self, weights: Floats) -> tuple[float, NDArray[np.float32], NDArray[np.float32]]:
        """Returns the log pseudo-likelihood, and x_a − P(a | others) and P for each literal and row."""
        first, holds, counted = self.rows.first, self.rows.holds, self.rows.weights
        size = len(holds)
        matrix = np.zeros((size, size), dtype=np.float32)
        a, b = self.pairs.T
        matrix[a, b] = matrix[b, a] = weights[size : size + len(self.pairs)]
        sums = matrix @ holds + weights[:size, None].astype(np.float32)
        if self.owner.size:
            each = weights[size + len(self.pairs) :][self.owner].astype(np.float32)
            at = (self.target, np.arange(len(each)))
            sums += csr_matrix((each, at), shape=(size, len(each))) @ self.others
        chances = np.empty_like(sums)
        for low, high in pairwise(first):
            own = sums[low:high]
            own -= own.max(axis=0)
            chances[low:high] = np.exp(own)
            totals = chances[low:high].sum(axis=0)
            chances[low:high] /= totals
            own -= np.log(totals)
        value = float(np.einsum("lr,lr->r", sums, holds).astype(np.float64) @ counted)
        return value, (holds - chances) * counted, chances

    def loss(self, weights: Floats) -> tuple[float, Floats]:
        """Returns the objective and its gradient."""
        value, residuals, _ = self.residuals(weights)
        both = residuals @ self.rows.holds.T
        a, b = self.pairs.T
        parts = [residuals.sum(axis=1), both[a, b] + both[b, a]]
        if self.owner.size:
            each = np.einsum("mn,mn->m", self.others, residuals[self.target])
            parts.append(np.bincount(self.owner, each))
        slope = np.concatenate(parts).astype(np.float64)
        return 0.5 * self.ridge * float(weights @ weights) - value, self.ridge * weights - slope

    def gains(self) -> tuple[Floats, list[Feature]]:
        """Returns the gain of each feature conjoined with each literal, and the features.

        The gain is -inf if no row has the conjunction, or if it would have a variable twice. A literal a of a
        feature f = a ∧ g adds g · (x_a − P(a | others)) to the slope of f.
        """
        holds, counted = self.rows.holds, self.rows.weights
        _, residuals, chances = self.residuals(self.weights)
        bends = chances * (1 - chances) * counted
        a, b = self.pairs.T
        value, slope, bend = [holds], [residuals], [bends]
        for found, per_literal in ((slope, residuals), (bend, bends)):
            found.append(holds[a] * per_literal[b] + holds[b] * per_literal[a])
        value.append(holds[a] * holds[b])
        if self.owner.size:
            starts = np.flatnonzero(np.diff(self.owner, prepend=-1))
            value.append((self.others * holds[self.target])[starts])
            for found, per_literal in ((slope, residuals), (bend, bends)):
                found.append(np.add.reduceat(self.others * per_literal[self.target], starts, axis=0))
        whole, own_slope, own_bend = map(np.concatenate, (value, slope, bend))
        slopes = whole @ residuals.T + own_slope @ holds.T
        curves = whole @ bends.T + own_bend @ holds.T
        gains = slopes.astype(np.float64) ** 2 / (2 * (curves + self.ridge))
        gains[(whole * counted) @ holds.T < 0.5] = -np.inf
        features = [*((literal,) for literal in range(len(holds))), *self.features]
        for k, feature in enumerate(features):
            for v in self.rows.variable[list(feature)]:
                gains[k, self.rows.first[v] : self.rows.first[v + 1]] = -np.inf
        return gains, features

    def model(self, table: DataTable) -> JunctionTreeModel | None:
        """Returns the distribution over the columns of a table; None if its tables are too large."""
        variable, first = self.rows.variable, self.rows.first
        columns = columns_of(table)
        arities = tuple(column.arity for column in columns)
        tables: dict[tuple[int, ...], Floats] = {}
        for feature, weight in self.named().items():
            order = sorted(feature)
            scope = tuple(int(variable[literal]) for literal in order)
            own = tables.setdefault(scope, np.zeros([arities[v] for v in scope]))
            own[tuple(int(literal - first[variable[literal]]) for literal in order)] += weight
        tree = triangulated(arities, [varset(scope) for scope in tables])
        if table_cells(tree, arities) > MOST_CELLS:
            return None
        factors = [Factor(scope, np.exp(own)) for scope, own in tables.items()]
        return calibrated(columns, factors, tree=tree).model


def _mean(model: JunctionTreeModel | None, rows: DataTable) -> float:
    return -np.inf if model is None else float(np.mean(model.log_likelihood(rows)))


def markov_network(train: DataTable, tuning: DataTable, seconds: float, ridge: float = 1.0) -> Learned:
    """Returns the pairwise Markov network of neighbourhoods; see the module.

    Penalties are tried in decreasing order, until the tuning likelihood does not improve twice in a row, or
    cannot be computed.

    Args:
        train: the data.
        tuning: rows that choose the penalty and the rule.
        seconds: processor time after which no other penalty is tried.
        ridge: weight of the ridge penalty.
    """
    rows = Literals.of(train)
    pairs_of = [range(low, high) for low, high in pairwise(rows.first)]
    best, weights, mean, remark = None, 0, -np.inf, "none"
    known: dict[Feature, float] = {}
    began, worse, too_dense = time.process_time(), 0, 0
    seen: set[tuple[tuple[int, int], ...]] = set()
    for penalty in PENALTIES:
        uses = _uses(rows, penalty)
        is_new = improved = False
        for rule, joined in (("and", uses & uses.T), ("or", uses | uses.T)):
            edges = tuple((u, v) for u, v in combinations(range(len(uses)), 2) if joined[u, v])
            if edges in seen:
                continue
            seen.add(edges)
            is_new = True
            features = [pair for u, v in edges for pair in product(pairs_of[u], pairs_of[v])]
            found = LogLinear(rows, features, ridge)
            if found.model(train) is None:
                too_dense += 1
                continue
            found.fit(known, 60)
            known |= found.named()
            model = found.model(train)
            if (here := _mean(model, tuning)) > mean:
                best, weights, mean, improved = model, len(found.weights), here, True
                remark = f"penalty {penalty}, {rule}, {len(edges)} edges"
        worse = 0 if improved else worse + is_new
        if worse == _PATIENCE and best is not None:
            break
        if time.process_time() - began > seconds:
            remark += "; stopped by time"
            break
    return Learned(best, weights, f"{remark}; {too_dense} graphs too dense")


def _uses(rows: Literals, penalty: float) -> NDArray[np.bool_]:
    """Returns whether variable u has a nonzero weight in the regression of v, at [v, u], shape (n, n)."""
    n = len(rows.first) - 1
    uses = np.zeros((n, n), dtype=np.bool_)
    kept = np.ones(len(rows.holds), dtype=np.bool_)
    kept[rows.first[:-1]] = False  # one state of each variable is determined by the others
    for v in range(n):
        low, high = rows.first[v : v + 2]
        inside = kept.copy()
        inside[low:high] = False
        given = csr_matrix(rows.holds[inside].T)
        for literal in range(low + (high - low == 2), high):
            classes = rows.holds[literal]
            if classes.min() == classes.max():
                continue
            regression = LogisticRegression(
                l1_ratio=1.0,
                C=1 / penalty,
                solver="liblinear",
                tol=1e-2,
                intercept_scaling=_FREE,
                random_state=0,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                regression.fit(given, classes, sample_weight=rows.weights)
            used = rows.variable[inside][np.abs(regression.coef_[0]) > 0]
            uses[v, used] = True
    return uses


def induced_features(
    train: DataTable, tuning: DataTable, seconds: float, ridge: float = 1.0, share: float = 0.3
) -> Learned:
    """Returns the model of greedily added features; see the module.

    Args:
        train: the data.
        tuning: rows that choose the model; two steps in a row without improvement end the search.
        seconds: processor time after which no more features are added.
        ridge: weight of the ridge penalty.
        share: growth rate of the number of features per step; at least eight are added.
    """
    rows = Literals.of(train)
    found = LogLinear(rows, [], ridge)
    found.fit({}, 30)
    best = found.model(train)
    mean, chosen, remark = _mean(best, tuning), found, "the best step"
    began, worse = time.process_time(), 0
    while worse < _PATIENCE:
        gains, features = found.gains()
        added = _best_of(gains, features, rows.variable, max(8, int(share * len(found.features))))
        if not added:
            remark = "no candidate left"
            break
        known = found.named()
        found = LogLinear(rows, [*found.features, *added], ridge)
        found.fit(known, 15)
        model = found.model(train)
        if model is None:
            remark = "the next graph was too dense"
            break
        if (here := _mean(model, tuning)) > mean:
            best, mean, chosen, worse = model, here, found, 0
        else:
            worse += 1
        if time.process_time() - began > seconds:
            remark = "stopped by time"
            break
    longest = max((len(feature) for feature in chosen.features), default=1)
    return Learned(
        best, len(chosen.weights), f"{len(chosen.features)} features of at most {longest} literals; {remark}"
    )


def _best_of(
    gains: Floats, features: Sequence[Feature], variable: NDArray[np.int64], count: int
) -> list[Feature]:
    """Returns the candidates with the largest positive gains, no two with the same variables."""
    known = {frozenset(feature) for feature in features}
    scopes: set[frozenset[int]] = set()
    out: list[Feature] = []
    flat = gains.ravel()
    for at in _descending(flat, 50 * count):
        if not flat[at] > 0 or len(out) == count:
            break
        feature, literal = features[at // gains.shape[1]], int(at % gains.shape[1])
        scope = frozenset(int(variable[a]) for a in (*feature, literal))
        candidate = frozenset((*feature, literal))
        if candidate in known or scope in scopes:
            continue
        scopes.add(scope)
        out.append(tuple(sorted(candidate)))
    return out


def _descending(values: Floats, count: int) -> Iterable[int]:
    """Returns the positions of the largest values, in decreasing order."""
    top = np.argpartition(-values, min(count, len(values) - 1))[:count]
    return [int(i) for i in top[np.argsort(-values[top], kind="stable")]]
