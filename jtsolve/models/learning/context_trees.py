"""Context trees: feature trees of single literals, with junction trees at the leaves, grown by a score.

The score of a feature tree is its log-likelihood less λ ln N for each parameter (N rows; λ = ½ is BIC). The
tree begins as one leaf, the junction tree of all data, so that it never scores less than that. A leaf is
split on the literal that gains most with Chow–Liu forests on both sides, a junction tree is learned on either
side, and the split stays if it pays. Where none does, a junction tree that is not connected is a product,
whose parts are split each by themselves. The tree is grown under the least λ that is considered, and pruned
from below for the others, as in L. Breiman, J. Friedman, R. Olshen and C. Stone, Classification and
regression trees, 1984: the best pruning for each λ takes one pass, and validation rows choose among them.

It is the hybrid of LEM (V. Gogate, W. A. Webb and P. Domingos, NIPS 2010) with trees of bounded treewidth;
with Chow–Liu trees as leaves it is a cutset network (T. Rahman, P. Kothalkar and V. Gogate, ECML 2014; N. Di
Mauro, A. Vergari and F. Esposito, AI*IA 2015, who grow it by a penalised likelihood).

Time: for each split two calls of the learner, and rows × variables² for the counts of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf, log
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.result import Stop
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members, varset
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.models.columns import columns_of
from jtsolve.models.features.context import Context, Feature, Literal
from jtsolve.models.features.nodes import Product, Split, TreeLeaf
from jtsolve.models.features.tree import FeatureTree, leaf_columns
from jtsolve.models.layout import layout_of
from jtsolve.models.learning.fit import CANDIDATES, Counts, count
from jtsolve.models.learning.learner import Learner
from jtsolve.tables.distinct import distinct_rows
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from jtsolve.models.columns import Column
    from jtsolve.models.features.nodes import Node
    from jtsolve.tables.table import Codes

    ProgressMessage = Callable[[str], None]

PENALTIES = (0.1, 0.2, 0.35, 0.5)
"""Values of λ tried with rows for validation; ½ is BIC."""


_EFFORT = 1e8
"""Rows × variables² × literals looked at for one split: about a tenth of a second."""

_ROUNDING = 1e-9
"""Equal scores, summed in different orders, differ by less than this share of themselves."""


@dataclass(frozen=True, slots=True)
class ContextTrees:
    """How to learn a context tree.

    Args:
        learner: learns the junction trees of the leaves.
        root: the junction tree of all data; None for the learner's.
        penalty: λ, at least 0: each parameter costs λ ln N.
        support: rows that a literal needs on both sides, at least 1.
        ess: equivalent sample size of the prior of every table and split, above 0.

    Raises:
        ChoiceError: a number is out of range.
    """

    learner: Learner = Learner()  # noqa: RUF009 - a frozen value
    root: JunctionTree | None = None
    penalty: float = 0.5
    support: int = 30
    ess: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.penalty < inf:
            raise ChoiceError(f"the penalty is {self.penalty}; give a number of 0 or more, such as 0.5 (BIC)")
        if self.support < 1:
            raise ChoiceError(f"the support is {self.support}; give at least 1 row")
        if not 0 < self.ess < inf:
            raise ChoiceError(f"the equivalent sample size is {self.ess}; give a number above 0")


def fit_context_tree(
    table: DataTable,
    how: ContextTrees | None = None,
    progress: ProgressMessage | None = None,
    *,
    deadline: float | None = None,
) -> FeatureTree:
    """Returns the context tree of a table.

    Ctrl-C and the deadline end it with the tree so far; the provenance says under "stop" why it ended.

    Args:
        table: the data, with its weights.
        how: the options.
        progress: called with messages.
        deadline: of `time.monotonic()`.

    Raises:
        InputError: the tree given for the root does not match the table.
        LimitError: time ran out before the junction tree of the root.
        KeyboardInterrupt: Ctrl-C came before it.
    """
    how = how or ContextTrees()
    growth = _Growth(table, how, how.penalty, progress, deadline)
    growth.grow()
    return growth.tree(how.penalty, how.ess, {})


def fit_context_tree_validated(
    table: DataTable,
    validation: DataTable | Codes,
    how: ContextTrees | None = None,
    *,
    penalties: Sequence[float] = PENALTIES,
    candidates: Sequence[float] = CANDIDATES,
    progress: ProgressMessage | None = None,
    deadline: float | None = None,
) -> FeatureTree:
    """Returns the context tree with the λ and the prior under which validation rows are likeliest.

    Ties go to the first candidates. Everything else is as in `fit_context_tree`.

    Args:
        table: the training data.
        validation: other rows of the same columns; codes may have -1 for missing values.
        how: the options; its own penalty and prior do not count.
        penalties: values of λ to try, at least one.
        candidates: equivalent sample sizes to try, above 0, at least one.
        progress: called with messages.
        deadline: of `time.monotonic()`.

    Raises:
        ChoiceError: there is nothing to try.
        InputError, LimitError, KeyboardInterrupt: as `fit_context_tree`.
    """
    from jtsolve.models.features.queries import log_likelihood as features_log_likelihood

    if not penalties or not candidates:
        raise ChoiceError("there is no penalty or no prior to try; give at least one of each")
    how = how or ContextTrees()
    growth = _Growth(table, how, min(penalties), progress, deadline)
    growth.grow()
    weights = validation.weights if isinstance(validation, DataTable) else None
    best: tuple[float, float, float] | None = None
    for penalty in penalties:
        for ess in candidates:
            rows = features_log_likelihood(growth.tree(penalty, ess, {}), validation)
            mean = float(np.average(rows, weights=weights))
            if best is None or mean > best[0]:
                best = mean, penalty, ess
    assert best is not None, "there is something to try"
    facts = {"validation_log_likelihood": best[0], "penalties_tried": list(penalties)}
    return growth.tree(best[1], best[2], facts | {"smoothing_candidates": list(candidates)})


@dataclass(slots=True, eq=False)
class _Part:
    """A node of the tree as it grows: a leaf, and what was made of it.

    Attributes:
        context: the open variables and their states.
        rows: positions of the rows on the path.
        counts: of the leaf's junction tree.
        log_likelihood: of the rows, with the leaf's tables at their maximum.
        parameters: of the leaf.
        feature: of its split; () for none.
        kids: positions of the nodes of a split, or of the parts of a product; () for a leaf.
        total: the weight of the rows.
    """

    context: Context
    rows: NDArray[np.int64]
    counts: Counts | None  # None without open variables
    total: float
    log_likelihood: float = 0.0
    parameters: int = 0
    feature: Feature = ()
    kids: tuple[int, ...] = field(default=())


class _Growth:
    """Grows a context tree.

    Attributes:
        parts: the nodes, the root first, kids later than their parents.
    """

    def __init__(
        self,
        table: DataTable,
        how: ContextTrees,
        penalty: float,
        progress: ProgressMessage | None,
        deadline: float | None,
    ) -> None:
        self.source, self.how, self.deadline = table, how, deadline
        self.table = distinct_rows(table)
        self.columns = columns_of(table)
        self.weights = np.ones(self.table.rows) if self.table.weights is None else self.table.weights * 1.0
        self.price = penalty * log(max(2.0, self.weights.sum()))
        self.progress = progress or (lambda _words: None)
        self.parts: list[_Part] = []
        self.stop = Stop.FINISHED

    def grow(self) -> None:
        """Splits leaves, those of most rows first, until no split pays, the deadline, or Ctrl-C."""
        context = Context.of([column.arity for column in self.columns])
        root = self.leaf(context, np.arange(self.table.rows), self.how.root)
        self.parts.append(root)
        waiting = [(-root.total, 0)]
        try:
            while waiting:
                if self.deadline is not None and monotonic() >= self.deadline:
                    self.stop = Stop.TIME
                    return
                _, i = heappop(waiting)
                feature, made = self.after(self.parts[i])
                first = len(self.parts)
                self.parts += made
                self.parts[i].feature = feature
                self.parts[i].kids = tuple(range(first, len(self.parts)))  # last: Ctrl-C before leaves a leaf
                for kid in self.parts[i].kids:
                    heappush(waiting, (-self.parts[kid].total, kid))
                splits = sum(bool(part.feature) for part in self.parts)
                self.progress(f"{splits} splits, {len(waiting)} leaves to look at")
        except KeyboardInterrupt:
            self.stop = Stop.INTERRUPTED
        except LimitError:
            if self.deadline is None or monotonic() < self.deadline:
                raise
            self.stop = Stop.TIME

    def after(self, part: _Part) -> tuple[Feature, list[_Part]]:
        """Returns the feature and the sides of a leaf's split; else () and its parts, if it has several."""
        feature = self.literal(part)
        if feature is not None:
            made = self.sides(part, feature)
            term = _split_term(*(kid.total for kid in made)) - self.price
            if _pays(sum(self.score(kid) for kid in made) + term, self.score(part)):
                return feature, made
        # Parts come after splits: a variable may be independent of all others, and still tell of their edges.
        return (), self.components(part)

    def score(self, part: _Part) -> float:
        """Returns the penalised log-likelihood of a node as a leaf."""
        return part.log_likelihood - self.price * part.parameters

    def components(self, part: _Part) -> list[_Part]:
        """Returns a part for each connected component of a leaf's junction tree; none if it is connected."""
        if part.counts is None:
            return []
        tree = part.counts.tree
        components = _components(tree)
        if len(components) < 2:  # noqa: PLR2004 - one is connected
            return []
        variables = sorted(part.context.domains)
        found = []
        for component in components:
            inside = list(members(component))
            place = {v: k for k, v in enumerate(inside)}
            cliques = [c for c in range(len(tree.cliques)) if tree.cliques[c] & component]
            number = {c: k for k, c in enumerate(cliques)}
            own = JunctionTree(
                len(inside),
                tuple(varset(place[v] for v in members(tree.cliques[c])) for c in cliques),
                tuple((number[a], number[b]) for a, b in tree.edges if a in number and b in number),
            )
            context = part.context.onto([variables[v] for v in inside])
            found.append(self.leaf(context, part.rows, own))
        return found

    def literal(self, part: _Part) -> Feature | None:
        """Returns the literal that gains most with Chow–Liu forests on its sides, of those with enough rows.

        Forests are compared for as many literals as `_EFFORT` allows, those first that tell most of the other
        variables one by one.
        """
        from jtsolve.models.features.kernels.counts import literal_gains, pair_counts
        from jtsolve.models.features.kernels.forests import forest_gains

        variables = sorted(part.context.domains)
        if len(variables) < 2:  # noqa: PLR2004 - a literal tells of others
            return None
        first = np.concatenate([[0], np.cumsum([self.columns[v].arity for v in variables])]).astype(np.int64)
        codes = self.table.codes[variables][:, part.rows].astype(np.int32)
        weights = self.weights[part.rows]
        counts = pair_counts(codes, weights, first)
        gains = literal_gains(counts, part.total, first)
        holds = np.diagonal(counts)
        is_open = (holds >= self.how.support) & (part.total - holds >= self.how.support)
        for k, v in enumerate(variables):
            if part.context.domains[v].bit_count() == 2:  # noqa: PLR2004 - its two literals are one feature
                is_open[first[k] + part.context.allowed(v)[0]] = False
        order = np.argsort(np.where(is_open, -gains, inf), kind="stable")[: is_open.sum()]
        looked = order[: max(1, int(_EFFORT / (len(part.rows) * len(variables) ** 2)))]
        if not looked.size:
            return None
        forest_gains(codes, weights, first, counts, looked, self.price, gains)
        at = int(looked[np.argmax(gains[looked])])
        v = int(np.searchsorted(first, at, side="right")) - 1
        return (Literal(variables[v], at - int(first[v])),)

    def sides(self, part: _Part, feature: Feature) -> list[_Part]:
        """Returns the leaves where a literal fails and where it holds."""
        ((v, state),) = feature
        holds = self.table.codes[v, part.rows] == state
        return [
            self.leaf(part.context.assume(feature, holds=truth)[0], part.rows[holds == truth], None)
            for truth in (False, True)
        ]

    def leaf(self, context: Context, rows: NDArray[np.int64], tree: JunctionTree | None) -> _Part:
        """Returns a leaf with its junction tree, learned unless it is given."""
        total = float(self.weights[rows].sum())
        variables = tuple(sorted(context.domains))
        if not variables:
            return _Part(context, rows, None, total)
        table = _rows_of(self.table, self.columns, context, rows)
        if tree is None:
            learner = self.how.learner
            own = (
                learner
                if table.n == self.table.n
                else replace(learner, constraints=learner.constraints.onto(variables))
            )
            tree = own(table, self.deadline)
        elif tree.n == self.table.n > len(variables):  # the root's, with variables of one state
            tree = _onto(tree, variables)
        counts = count(tree, table)
        value, parameters = _likelihood(counts)
        return _Part(context, rows, counts, total, value, parameters)

    def tree(self, penalty: float, ess: float, facts: dict[str, object]) -> FeatureTree:
        """Returns the best pruning for a penalty, with tables for a prior."""
        price = penalty * log(max(2.0, self.weights.sum()))
        kept = self.pruned(price)
        order = [0]
        for i in order:  # the list grows during the iteration
            order += self.parts[i].kids if kept[i] else ()
        position = {i: k for k, i in enumerate(order)}
        nodes: list[Node] = []
        for i in order:
            part = self.parts[i]
            kids = tuple(position[kid] for kid in part.kids) if kept[i] else ()
            if kids and part.feature:
                holds = self.parts[part.kids[1]].total
                share = (holds + ess / 2) / (part.total + ess)
                nodes.append(Split(part.feature, share, (kids[0], kids[1])))
            elif kids or part.counts is None:
                nodes.append(Product(kids))
            else:
                nodes.append(TreeLeaf(tuple(sorted(part.context.domains)), part.counts.model(ess)))
        remarks = {
            **self.source.provenance,
            "features": {"penalty": penalty, "support": self.how.support},
            "smoothing_ess": ess,
            "stop": self.stop.value,
            **facts,
        }
        return FeatureTree(self.columns, tuple(nodes), MappingProxyType(remarks))

    def pruned(self, price: float) -> list[bool]:
        """Returns which nodes keep their kids in the best pruning at a price of a parameter."""
        kept = [False] * len(self.parts)
        best = [0.0] * len(self.parts)
        for i in reversed(range(len(self.parts))):
            part = self.parts[i]
            best[i] = part.log_likelihood - price * part.parameters
            if not part.kids:
                continue
            value = sum(best[kid] for kid in part.kids)
            if part.feature:
                value += _split_term(*(self.parts[kid].total for kid in part.kids)) - price
            # A product scores what its leaf does, up to rounding: it is kept for a split below it.
            if _pays(value, best[i]) and (part.feature or any(kept[kid] for kid in part.kids)):
                best[i], kept[i] = value, True
        return kept


def _pays(value: float, leaf: float) -> bool:
    """Returns whether a split scores more than its leaf beyond rounding: ties keep the smaller tree."""
    return value > leaf + _ROUNDING * abs(leaf)


def _split_term(*totals: float) -> float:
    """Returns the log-likelihood of a feature that these numbers of rows fail and meet."""
    whole = sum(totals)
    return sum(total * log(total / whole) for total in totals if total > 0)


def _likelihood(counts: Counts) -> tuple[float, int]:
    """Returns the largest log-likelihood of a junction tree, and its number of parameters."""
    from jtsolve.models.kernels.cliques import separator_sums

    layout = layout_of(counts.tree, tuple(column.arity for column in counts.columns))
    below, _ = separator_sums(counts.cells, layout.shape)
    value = _entropy_sum(counts.cells) - _entropy_sum(below)
    return value, int(layout.cells - layout.shape.separator[-1])


def _entropy_sum(counts: NDArray[np.float64]) -> float:
    positive = counts[counts > 0]
    return float(positive @ np.log(positive))


def _rows_of(
    table: DataTable, columns: Sequence[Column], context: Context, rows: NDArray[np.int64]
) -> DataTable:
    """Returns the rows of a context as a table of its open variables with the states left."""
    variables = tuple(sorted(context.domains))
    own = leaf_columns(tuple(columns), variables, context)
    codes = np.empty((len(variables), len(rows)), dtype=table.codes.dtype)
    for k, v in enumerate(variables):
        rank = np.zeros(columns[v].arity, dtype=table.codes.dtype)
        allowed = context.allowed(v)
        rank[allowed] = np.arange(len(allowed))
        codes[k] = rank[table.codes[v, rows]]
    weights = None if table.weights is None else table.weights[rows]
    names = tuple(column.name for column in own)
    return DataTable(names, tuple(column.states for column in own), codes, weights)


def _components(tree: JunctionTree) -> list[int]:
    """Returns the variables of each connected component of the graph."""
    found: list[int] = []
    for clique in tree.cliques:
        apart = [component for component in found if not component & clique]
        for component in found:
            if component & clique:
                clique |= component  # noqa: PLW2901 - it takes what it meets
        found = [*apart, clique]
    return sorted(found, key=lambda component: component & -component)


def _onto(tree: JunctionTree, variables: Sequence[int]) -> JunctionTree:
    """Returns the junction tree of the subgraph on some variables."""
    kept = varset(variables)
    place = {v: k for k, v in enumerate(variables)}
    nodes = [varset(place[v] for v in members(clique & kept)) for clique in tree.cliques]
    return JunctionTree.from_nodes(len(variables), nodes, tree.edges)
