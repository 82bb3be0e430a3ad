"""LEM: feature trees grown by the independences that hold where a feature fails, and where it holds.

LMIP partitions the variables in the rows of a context: each begins as a component of its own, and every set A
of at most q variables with min over ∅ ⊊ X ⊊ A of I(X; A∖X | context) above δ joins the components that it
meets. The score of a feature is 1 / Σ over the parts Q of their numbers of joint states where it fails, plus
the same where it holds. The best feature becomes a split, and each part continues alone. Features grow
greedily, literal by literal, while the score improves (section 4). `PUBLISHED` are the settings of the paper;
the defaults test independence by a G test.

Reference: V. Gogate, W. A. Webb and P. Domingos, Learning efficient Markov networks, NIPS 2010. Choices that
the paper leaves open:

- Variables tied by clauses of failed features begin in one part: the recursion of the paper is wrong where a
  clause ties two parts together.
- δ is in nats. Rows are "too few" below `min_rows`. A split needs `support` rows on both sides (the constant
  c of Definition 6, as a number); without it, features that hold in hardly any rows score best.
- With many rows, a fixed δ finds everything independent, or nothing; a G test replaces it.
- Scores are equal where nothing decomposes. Ties go to the most balanced feature (as in the paper), or to the
  one with most information about the single variables.
- A leaf is a table of the open variables or, if rows are too few, of each group that clauses tie together.

Time: k · n calls of LMIP for a split, each rows × n^q.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import inf, prod
from statistics import NormalDist
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from jtsolve.core.result import Stop
from jtsolve.core.scores import StoppedError
from jtsolve.core.threads import run_kernel
from jtsolve.core.version import __version__
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.models.columns import columns_of
from jtsolve.models.features.context import Context, Feature, feature_of
from jtsolve.models.features.nodes import Product, Split, TableLeaf
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.learning.leaves import codes_in
from jtsolve.models.learning.validation import PRIORS, Best, likeliest
from jtsolve.tables.distinct import distinct_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.models.learning.task import FitTask
    from jtsolve.tables.table import DataTable

_EQUAL = 1e-12
"""Differences of ln scores that count as ties."""
_LEAST_ROWS = 1.0
"""Least weight of the rows of a context that may be split, and of each side of a split."""


@dataclass(frozen=True, slots=True)
class Lem:
    """A feature tree by LEM (Gogate, Webb and Domingos 2010): conjunctions at splits, tables at leaves.

    Args:
        length: literals of the longest feature, k, at least 1.
        q: variables of the largest set that LMIP tests, at least 2.
        delta: mutual information in nats above which sets are dependent, above 0; None for a G test.
        alpha: level of the G test, between 0 and 1.
        balanced: whether ties go to the most balanced feature, otherwise to the most informative one.
        min_rows: weight of the rows below which a context is not split.
        support: weight of the rows that a split needs on both sides, at least 1.
        small: largest number of variables of a context that becomes a table without further splits.
        max_cells: largest number of cells of a table.
        thresholds: values of δ, or levels, among which validation rows choose; empty for the usual ones.

    Raises:
        ChoiceError: a setting is out of range.
    """

    length: int = 1
    q: int = 2
    delta: float | None = None
    alpha: float = 0.01
    balanced: bool = False
    min_rows: int = 20
    support: int = 20
    small: int = 1
    max_cells: int = 1 << 16
    thresholds: tuple[float, ...] = ()

    name: ClassVar[str] = "lem"
    uses: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if self.delta is not None and not 0 < self.delta < inf:
            raise ChoiceError(f"δ is {self.delta}; give a number of nats above 0, such as 0.05")
        if not 0 < self.alpha < 1:
            raise ChoiceError(
                f"the level of the test is {self.alpha}; give one between 0 and 1, such as 0.01"
            )
        if self.q < 2:  # noqa: PLR2004 - a pair
            raise ChoiceError(f"q is {self.q}; LMIP tests sets of at least 2 variables")
        if min(self.length, self.support, self.small, self.max_cells) < 1 or self.min_rows < 0:
            raise ChoiceError(
                "length, support, small and max_cells must be at least 1, and min_rows 0 or more"
            )

    @property
    def threshold(self) -> tuple[bool, float]:
        """Whether a G test decides, and its normal quantile, or δ; see `kernels.partitions`."""
        if self.delta is None:
            return True, NormalDist().inv_cdf(1 - self.alpha)
        return False, self.delta

    def fit(self, task: FitTask, run: Run) -> FeatureTree:
        """Returns the feature tree of a table.

        Validation rows choose the threshold of the test and the prior: thresholds are tried in order,
        each with every prior, until one is no better. When the run ends, each remaining context becomes a
        leaf; the provenance has the reason under "stop".

        Raises:
            ChoiceError: `length` is above the number of variables, or there is no prior.
            LimitError: a set of q variables has more than `max_cells` joint states.
        """
        table, _ = task.states(self.name)
        task.require_prior("a feature tree")
        if task.validation is None:
            return _Growth(table, self, run).grown()(task.ess)
        held = task.validation

        def learn(threshold: float) -> tuple[FeatureTree, float]:
            return likeliest(map(_Growth(table, self.at(threshold), run).grown(), PRIORS), *held)

        best: Best[FeatureTree] = Best()
        thresholds = self.thresholds or (_LEVELS if self.delta is None else _DELTAS)
        best.search(thresholds, learn, lambda value: {"threshold": value}, run)
        assert best.model is not None, "there is a threshold to try"
        remarks = {
            **best.model.provenance,
            "validation_log_likelihood": best.mean,
            "thresholds_tried": best.tried,
            "smoothing_candidates": list(PRIORS),
            "stop": (run.stop or Stop.FINISHED).value,
        }
        return replace(best.model, provenance=MappingProxyType(remarks))

    def at(self, threshold: float) -> Lem:
        """Returns the same options with another δ, or another level."""
        if self.delta is None:
            return replace(self, alpha=threshold)
        return replace(self, delta=threshold)


PUBLISHED = Lem(length=3, q=3, delta=0.05, balanced=True, min_rows=50, support=1, small=4)
"""The settings of sections 4 and 5: q = 3, δ = 0.05, tables below 5 variables. The length is not stated."""
_DELTAS, _LEVELS = (0.002, 0.005, 0.01, 0.02, 0.05), (0.05, 0.01, 0.001)
"""Values of δ in nats, and levels, among which validation rows choose."""


class _CountedSplit(NamedTuple):
    """A split before its probability: the weight of the rows on the path, and of those where it holds."""

    feature: Feature
    total: float
    holds: float
    kids: tuple[int, int]

    def node(self, ess: float) -> Split:
        """Returns the split with its probability for a prior."""
        return Split(self.feature, (self.holds + ess / 2) / (self.total + ess), self.kids)


class _CountedLeaf(NamedTuple):
    """A table before its probabilities: the weights of its cells, and which of them clauses allow."""

    variables: tuple[int, ...]
    counts: NDArray[np.float64]
    mask: NDArray[np.bool_]

    def node(self, ess: float) -> TableLeaf:
        """Returns the leaf with its probabilities for a prior."""
        prior = ess * (self.mask / self.mask.sum())
        return TableLeaf(self.variables, (self.counts + prior) / (self.counts.sum() + ess))


class _Candidate(NamedTuple):
    """A feature that was scored.

    Attributes:
        value: ln of its score.
        rank: decides between equal scores; the larger is better.
        feature: the feature.
        parts: the parts of the context where it fails, and where it holds.
    """

    value: float
    rank: float
    feature: Feature
    parts: tuple[list[list[int]], list[list[int]]]


class _Growth:
    """Grows a feature tree from the root."""

    def __init__(self, table: DataTable, how: Lem, run: Run) -> None:
        self.source, self.how, self.run = table, how, run
        self.table = distinct_rows(table)
        self.columns = columns_of(table)
        arities = [column.arity for column in self.columns]
        self.root = Context.of(arities)
        if how.length > table.n:
            raise ChoiceError(
                f"features of {how.length} literals need as many variables, and there are {table.n}; give a "
                "smaller length"
            )
        cells = prod(sorted(arities)[-how.q :])
        if cells > how.max_cells:
            raise LimitError(
                f"a set of {how.q} variables has {cells} joint states, and max_cells allows {how.max_cells}; "
                "give a smaller q, or fewer states"
            )
        self.codes = self.table.codes.astype(np.int32)
        self.weights = np.ones(self.table.rows) if self.table.weights is None else self.table.weights * 1.0
        self.nodes: list[Product | _CountedSplit | _CountedLeaf] = []
        self.waiting: list[tuple[int, Context, NDArray[np.int64]]] = []
        self.stop = Stop.FINISHED

    def grown(self) -> Callable[[float], FeatureTree]:
        """Grows the tree until no context is left; returns it by its prior."""
        rows = np.arange(self.table.rows)
        variables = sorted(self.root.domains)
        self.place(self.root, rows, [variables] if variables else [])
        while self.waiting:
            # Once the run ends, each remaining context becomes a leaf.
            self.stop = self.run.stop or Stop.FINISHED
            at, context, inside = self.waiting.pop()
            try:
                self.fill(at, context, inside)
            except StoppedError:
                self.stop = self.run.stop or Stop.INTERRUPTED
                self.close(at, context, inside)
            self.run.progress(note=f"{len(self.nodes)} nodes, {len(self.waiting)} contexts left")
        return self.tree

    def tree(self, ess: float) -> FeatureTree:
        """Returns the tree with the probabilities for a prior."""
        settings = {field.name: getattr(self.how, field.name) for field in fields(self.how)}
        remarks = {
            **self.source.provenance,
            "features": {"lem": settings},
            "smoothing_ess": ess,
            "stop": self.stop.value,
            "jtsolve": __version__,
        }
        nodes = tuple(one if isinstance(one, Product) else one.node(ess) for one in self.nodes)
        return FeatureTree(self.columns, nodes, MappingProxyType(remarks))

    def place(self, context: Context, rows: NDArray[np.int64], parts: Sequence[Sequence[int]]) -> int:
        """Appends an A-node whose parts are filled later; returns its position."""
        at = len(self.nodes)
        self.nodes.append(Product(()))
        if len(parts) == 1:
            self.waiting.append((at, context, rows))
        elif parts:
            kids = tuple(at + 1 + k for k in range(len(parts)))
            self.nodes[at] = Product(kids)
            self.nodes += [Product(())] * len(parts)
            self.waiting += [
                (kid, context.restricted_to(part), rows) for kid, part in zip(kids, parts, strict=True)
            ]
        return at

    def fill(self, at: int, context: Context, rows: NDArray[np.int64]) -> None:
        """Makes the node of a context: a split, or a leaf."""
        total = self.weights[rows].sum()
        if self.stop is not Stop.FINISHED or total < max(self.how.min_rows, _LEAST_ROWS):
            self.close(at, context, rows)
            return
        is_small = len(context.domains) <= self.how.small
        if len(context.domains) == 1 or (
            is_small and prod(context.dims(context.domains)) <= self.how.max_cells
        ):
            self.nodes[at] = self.leaf(context, rows)
            return
        found = self.best_feature(context, rows)
        if found is None:
            self.close(at, context, rows)
            return
        holds = np.all([self.codes[v, rows] == state for v, state in found.feature], axis=0)
        kids = []
        for truth in (False, True):
            after = context.assume(found.feature, holds=truth)[0]
            kids.append(self.place(after, rows[holds == truth], found.parts[truth]))
        met = float(self.weights[rows[holds]].sum())
        self.nodes[at] = _CountedSplit(found.feature, float(total), met, (kids[0], kids[1]))

    def close(self, at: int, context: Context, rows: NDArray[np.int64]) -> None:
        """Makes a leaf: a table for each group of variables that clauses tie together."""
        groups = context.groups()
        kids = tuple(len(self.nodes) + k for k in range(len(groups)))
        self.nodes[at] = Product(kids)
        self.nodes += [self.leaf(context.restricted_to(group), rows) for group in groups]

    def leaf(self, context: Context, rows: NDArray[np.int64]) -> _CountedLeaf:
        """Returns the table of a context's open variables."""
        variables = tuple(sorted(context.domains))
        dims = context.dims(variables)
        cells = np.ravel_multi_index(tuple(codes_in(self.codes, rows, self.columns, context)), dims)
        counts = np.bincount(cells, self.weights[rows], minlength=prod(dims)).reshape(dims)
        return _CountedLeaf(variables, counts.astype(np.float64), context.is_allowed(variables))

    def inside(
        self, context: Context, rows: NDArray[np.int64]
    ) -> tuple[list[int], NDArray[np.int32], NDArray[np.int64]]:
        """Returns the open variables, their codes in some rows, and the first literal of each."""
        variables = sorted(context.domains)
        arities = [self.columns[v].arity for v in variables]
        first = np.concatenate([[0], np.cumsum(arities)]).astype(np.int64)
        return variables, np.ascontiguousarray(self.codes[variables][:, rows]), first

    def best_feature(self, context: Context, rows: NDArray[np.int64]) -> _Candidate | None:
        """Returns the feature with the best score; None if no feature has enough rows on both sides."""
        variables, codes, first = self.inside(context, rows)
        best: _Candidate | None = None
        prefix: Feature = ()
        for _ in range(min(self.how.length, len(variables))):
            found = self.extended(context, rows, codes, first, prefix)
            if found is None or (best is not None and found.value <= best.value + _EQUAL):
                break
            best, prefix = found, found.feature
        return best

    def extended(
        self,
        context: Context,
        rows: NDArray[np.int64],
        codes: NDArray[np.int32],
        first: NDArray[np.int64],
        prefix: Feature,
    ) -> _Candidate | None:
        """Returns the best conjunction of a feature with a literal of another variable."""
        from jtsolve.models.features.kernels.partitions import score_features

        variables = sorted(context.domains)
        used = {v for v, _ in prefix}
        weights, support = self.weights[rows], max(self.how.support, _LEAST_ROWS)
        total = weights.sum()
        place = {v: k for k, v in enumerate(variables)}
        holds = np.ones(len(rows), dtype=np.bool_)
        for v, state in prefix:
            holds &= codes[place[v]] == state
        features, literals, states, labels = [], [], [], []
        for v in variables:
            if v in used:
                continue
            allowed = context.allowed(v)
            met = np.bincount(codes[place[v]], weights * holds, self.columns[v].arity)
            # With two states, one literal is the negation of the other: the same feature.
            for state in allowed[1:] if len(allowed) == 2 and not prefix else allowed:  # noqa: PLR2004
                if min(met[state], total - met[state]) < support:
                    continue
                feature = feature_of((*prefix, (v, state)))
                sides = self.sides(context, feature, variables)
                if sides is not None:
                    features.append(feature)
                    literals.append((place[v], state))
                    labels.append([side[0] for side in sides])
                    states.append([side[1] for side in sides])
        if not features:
            return None
        out = np.empty((len(features), 3))
        found = np.array(labels, dtype=np.int64)
        how, (g_test, value) = self.how, self.how.threshold
        run_kernel(
            self.run, score_features, codes, weights, np.unique(weights), first, holds,
            np.array(literals, dtype=np.int64), np.array(states, dtype=np.int64), found, g_test, value, how.q,
            how.min_rows, out,
        )  # fmt: skip
        score = np.logaddexp(out[:, 0], out[:, 1])
        near = score >= score.max() - _EQUAL
        rank = -np.abs(np.exp(out[:, 0]) - np.exp(out[:, 1])) if how.balanced else out[:, 2]
        c = int(np.argmax(np.where(near, rank, -inf)))
        parts = (_parts(found[c, 0], variables), _parts(found[c, 1], variables))
        return _Candidate(float(score[c]), float(rank[c]), features[c], parts)

    def sides(
        self, context: Context, feature: Feature, variables: list[int]
    ) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]] | None:
        """Returns the initial components and the states left, where a feature fails and where it holds.

        The result is None if clauses tie together more joint states than a table may have.
        """
        found = []
        for holds in (False, True):
            after = context.assume(feature, holds=holds)[0]
            groups = [group for group in after.groups() if len(group) > 1] if after.clauses else []
            if any(prod(after.dims(group)) > self.how.max_cells for group in groups):
                return None
            found.append(_sides(after, variables, groups))
        return found


def _sides(
    context: Context, variables: Sequence[int], groups: Sequence[frozenset[int]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the group label and the number of states left of each variable; -1 and 1 if it is fixed.

    Args:
        context: the states left.
        variables: increasing.
        groups: sets of two or more variables that clauses tie together.
    """
    masks = [context.domains.get(v, 0) for v in variables]
    labels = [k if mask else -1 for k, mask in enumerate(masks)]
    for group in groups:
        members = [k for k, v in enumerate(variables) if v in group]
        for k in members:
            labels[k] = members[0]
    states = [mask.bit_count() or 1 for mask in masks]
    return np.array(labels, dtype=np.int64), np.array(states, dtype=np.int64)


def _parts(labels: NDArray[np.int64], variables: Sequence[int]) -> list[list[int]]:
    """Returns the variables of each component."""
    found: dict[int, list[int]] = {}
    for v, label in zip(variables, labels.tolist(), strict=True):
        if label >= 0:
            found.setdefault(label, []).append(v)
    return list(found.values())
