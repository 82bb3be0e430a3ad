"""Context trees: feature trees of single literals, with junction trees at the leaves, grown by a score.

The score of a feature tree is its log-likelihood less λ ln N for each parameter (N rows; λ = ½ is BIC). The
tree begins as one leaf, the junction tree of all data, and never scores less than that. A leaf is split on
the literal that gains most with Chow–Liu forests on both sides; a junction tree is learned on each side, and
the split stays if the score increases. Otherwise, a disconnected junction tree becomes a product, whose parts
are split separately. If validation rows choose λ, the tree is grown under the largest λ first, then further
under each smaller one. The grown tree is pruned from below, as in L. Breiman, J. Friedman, R. Olshen and C.
Stone, Classification and regression trees, 1984: one pass finds the best pruning for a λ.

This is the hybrid of LEM (V. Gogate, W. A. Webb and P. Domingos, NIPS 2010) with trees of bounded treewidth;
with Chow–Liu trees as leaves it is a cutset network (T. Rahman, P. Kothalkar and V. Gogate, ECML 2014; N. Di
Mauro, A. Vergari and F. Esposito, AI*IA 2015, who grow it by a penalised likelihood).

Time: rows × variables² for the counts of pairs at each node, and two calls of the learner for each split that
increases the score with forests alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf, log
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.core.result import Stop
from jtsolve.core.scores import StoppedError
from jtsolve.core.threads import run_kernel
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.models.columns import columns_of
from jtsolve.models.features.context import Context, Feature, Literal
from jtsolve.models.features.nodes import Product, Split, TreeLeaf
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.inference.likelihood import gaps_of
from jtsolve.models.learning.fit import Counts, count
from jtsolve.models.learning.leaves import codes_in, context_rows, held_out, max_likelihood, pieces, tree_on
from jtsolve.models.learning.validation import PRIORS, Best
from jtsolve.scoring.scores.aic import Aic
from jtsolve.tables.distinct import distinct_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.features.nodes import Node
    from jtsolve.models.learning.learner import Learner
    from jtsolve.models.learning.task import FitTask
    from jtsolve.models.learning.validation import HeldOut
    from jtsolve.tables.table import DataTable

PENALTIES = (0.5, 0.35, 0.25, 0.18)
"""Values of λ among which validation rows choose; ½ is BIC."""
_EFFORT = 2e8
"""Rows × variables² × literals evaluated for one split: about a fifth of a second."""
_ROUNDING = 1e-9
"""Relative difference of equal scores that are summed in different orders."""


@dataclass(frozen=True, slots=True)
class ContextTrees:
    """A feature tree that branches where a penalised likelihood increases, with junction trees at the leaves.

    Args:
        penalty: λ, at least 0: each parameter costs λ ln N; validation rows choose it.
        support: rows that a literal needs on both sides, at least 1.

    Raises:
        ChoiceError: a number is out of range.
    """

    penalty: float = 0.5
    support: int = 30

    name: ClassVar[str] = "features"
    uses: ClassVar[frozenset[str]] = frozenset({"treewidth", "backend", "constraints", "tree"})

    def __post_init__(self) -> None:
        if not 0 <= self.penalty < inf:
            raise ChoiceError(f"the penalty is {self.penalty}; give a number of 0 or more, such as 0.5 (BIC)")
        if self.support < 1:
            raise ChoiceError(f"the support is {self.support}; give at least 1 row")

    def fit(self, task: FitTask, run: Run) -> FeatureTree:
        """Returns the context tree of a table; it begins with the junction tree of the task, if there is one.

        Validation rows choose λ, the price of a split: values are tried from the largest on, until one is no
        better than the last. They also choose the score of the junction trees, the price of an edge: that of
        the task with the largest λ, in at most half of the time, then AIC, the cheapest, with every λ; the
        former continues if it was better. The provenance has the reason for the end of the growth under
        "stop".

        Raises:
            ChoiceError: no treewidth is given, or there is no prior.
            InputError: the task's junction tree does not match the table.
            LimitError: the run ended before the junction tree of the root.
            StoppedError: the run was interrupted before it.
        """
        table, _ = task.states(self.name)
        learner = task.learner(self.name)
        task.require_prior("a feature tree")
        if task.validation is None:
            growth = _Growth(table, self, learner, task.tree, run)
            growth.grow(self.penalty)
            found = growth.tree(self.penalty, task.ess, {})
        else:
            found = self._chosen(table, learner, task, run)
        backend = "auto" if learner.backend is None else learner.backend.name
        facts = task.searched(backend) | {"score": found.provenance["features"]["score"]}
        return replace(found, provenance=MappingProxyType({**found.provenance, **facts}))

    def _chosen(self, table: DataTable, learner: Learner, task: FitTask, run: Run) -> FeatureTree:
        """Returns the context tree of the penalty and the prior under which validation rows are likeliest."""
        assert task.validation is not None, "called with validation rows"
        first, *others = sorted(PENALTIES, reverse=True)
        best = own = _Trials(
            _Growth(table, self, learner, task.tree, run.part(run.left / 2)), task.validation
        )
        own.run([first])
        tried = {learner.score.name: own.best.mean}
        if run.stop is None and learner.score != Aic():
            cheap = replace(learner, score=Aic())
            try:
                other = _Trials(_Growth(table, self, cheap, task.tree, run), task.validation)
                other.run([first, *others])
                tried[Aic.name] = other.best.mean
                best = max(own, other, key=lambda trials: trials.best.mean)
            except (LimitError, StoppedError):
                if run.stop is None:
                    raise
        if best is own and run.stop is None:
            if own.growth.stop is not Stop.FINISHED:  # the first penalty was tried on a partial growth
                own.best, others = Best(), [first, *others]
            own.growth.run = run
            own.run(others)
            tried[learner.score.name] = own.best.mean
        best.growth.stop = run.stop or best.growth.stop
        assert best.best.model is not None, "there is at least one penalty"
        penalty, ess = best.best.model
        facts = {
            "validation_log_likelihood": best.best.mean,
            "scores_tried": tried,
            "penalties_tried": [one["penalty"] for one in best.best.tried],
            "smoothing_candidates": list(PRIORS),
        }
        return best.growth.tree(penalty, ess, facts)


@dataclass(slots=True, eq=False)
class _Part:
    """A leaf of the growing tree, and its best split.

    Attributes:
        context: the open variables and their states.
        rows: positions of the rows on the path.
        counts: of the leaf's junction tree; None without open variables.
        total: the weight of the rows.
        log_likelihood: of the rows under the maximum likelihood tables of the leaf.
        parameters: of the leaf.
        feature: of the best split; () before the search, or if there is none.
        sides: positions of the kids of that split; () for none.
        pieces: positions of the parts of a product; () for none.
    """

    context: Context
    rows: NDArray[np.int64]
    counts: Counts | None
    total: float
    log_likelihood: float = 0.0
    parameters: int = 0
    feature: Feature = ()
    sides: tuple[int, ...] = ()
    pieces: tuple[int, ...] = ()


class _Growth:
    """Grows a context tree of all candidate splits; `pruned` chooses the best ones for a penalty.

    Attributes:
        parts: the nodes, the root first, kids later than their parents.
        stop: the reason for the end of the growth.
    """

    def __init__(
        self, table: DataTable, how: ContextTrees, learner: Learner, root: JunctionTree | None, run: Run
    ) -> None:
        self.source, self.how, self.learner, self.run = table, how, learner, run
        self.table = distinct_rows(table)
        self.columns = columns_of(table)
        self.weights = np.ones(self.table.rows) if self.table.weights is None else self.table.weights * 1.0
        self.rows = max(2.0, float(self.weights.sum()))
        self.price = 0.0
        self.stop = Stop.FINISHED
        context = Context.of([column.arity for column in self.columns])
        self.parts = [self.leaf(context, np.arange(self.table.rows), root)]
        self.waiting = [(-self.parts[0].total, 0)]
        self.unpaid: list[int] = []

    def grow(self, penalty: float) -> None:
        """Splits leaves, those with most rows first, until no split pays or the run ends.

        With a smaller penalty than before, the growth continues.
        """
        self.price, self.stop = penalty * log(self.rows), Stop.FINISHED
        rejected, self.unpaid = self.unpaid, []
        for i in rejected:
            if not self.enter(i):
                self.wait((i,))
        while self.waiting:
            if self.run.stop is not None:
                break
            i = heappop(self.waiting)[1]
            try:
                self.split(i)
            except (LimitError, StoppedError):
                if self.run.stop is None:
                    raise
                break
            self.run.progress(note=f"{len(self.parts)} leaves tried, {len(self.waiting)} waiting")
        self.stop = self.run.stop or Stop.FINISHED

    def split(self, i: int) -> None:
        """Finds the best split of a leaf, and continues at its sides if it pays, otherwise at its pieces."""
        part = self.parts[i]
        feature = None if part.sides else self.literal(part)
        if feature is not None:
            part.feature, part.sides = feature, self.added(self.sides(part, feature))
        if self.enter(i):
            return
        self.unpaid.append(i)  # for a smaller price
        # Pieces come after splits: the edges of other variables may depend on a variable that is independent
        # of each of them.
        if not part.pieces:
            part.pieces = self.added(self.pieces(part))
            self.wait(part.pieces)

    def enter(self, i: int) -> bool:
        """Returns whether the split of a leaf pays; if so, its sides join the queue."""
        part = self.parts[i]
        if not part.sides:
            return False
        value = sum(self.score(self.parts[kid]) for kid in part.sides) + self.term(part)
        if pays := _pays(value, self.score(part)):
            self.wait(part.sides)
        return pays

    def added(self, made: list[_Part]) -> tuple[int, ...]:
        """Adds nodes, and returns their positions."""
        self.parts += made
        return tuple(range(len(self.parts) - len(made), len(self.parts)))

    def wait(self, kids: Sequence[int]) -> None:
        """Adds nodes to the queue."""
        for kid in kids:
            heappush(self.waiting, (-self.parts[kid].total, kid))

    def term(self, part: _Part) -> float:
        """Returns the penalised log-likelihood of the feature of a split."""
        totals = [self.parts[kid].total for kid in part.sides]
        return sum(total * log(total / sum(totals)) for total in totals if total > 0) - self.price

    def score(self, part: _Part) -> float:
        """Returns the penalised log-likelihood of a node as a leaf."""
        return part.log_likelihood - self.price * part.parameters

    def pieces(self, part: _Part) -> list[_Part]:
        """Returns a leaf for each connected component of a leaf's junction tree; none if it is connected."""
        if part.counts is None:
            return []
        variables = sorted(part.context.domains)
        return [
            self.leaf(part.context.restricted_to([variables[v] for v in inside]), part.rows, own)
            for inside, own in pieces(part.counts.tree)
        ]

    def literal(self, part: _Part) -> Feature | None:
        """Returns the literal that gains most with Chow–Liu forests on its sides; None without a gain.

        Both sides need enough rows. Forests are compared for as many literals as `_EFFORT` allows, in
        decreasing order of their mutual information with the other variables, one by one.
        """
        from jtsolve.models.features.kernels.counts import forest_gains, literal_gains, pair_counts

        variables = sorted(part.context.domains)
        if len(variables) < 2:  # noqa: PLR2004 - a literal informs about other variables
            return None
        first = np.concatenate([[0], np.cumsum([self.columns[v].arity for v in variables])]).astype(np.int64)
        codes = self.table.codes[variables][:, part.rows].astype(np.int32)
        weights = self.weights[part.rows]
        counts = run_kernel(self.run, pair_counts, codes, weights, first)
        gains = literal_gains(counts, part.total, first)
        holds = np.diagonal(counts)
        is_open = (holds >= self.how.support) & (part.total - holds >= self.how.support)
        for k, v in enumerate(variables):
            if part.context.domains[v].bit_count() == 2:  # noqa: PLR2004 - its two literals are one feature
                is_open[first[k] + part.context.allowed(v)[0]] = False
        order = np.argsort(np.where(is_open, -gains, inf), kind="stable")[: is_open.sum()]
        tried = order[: max(1, int(_EFFORT / (len(part.rows) * len(variables) ** 2)))]
        if not tried.size:
            return None
        run_kernel(self.run, forest_gains, codes, weights, first, counts, tried, self.price, gains)
        at = int(tried[np.argmax(gains[tried])])
        if gains[at] <= 0:
            return None
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
        table = context_rows(self.table, self.columns, context, rows)
        if tree is None:
            learner = self.learner
            if table.n < self.table.n:
                learner = replace(learner, constraints=learner.constraints.restricted_to(variables))
            tree = learner(table, self.run.part(silent=True))
        elif tree.n == self.table.n > len(variables):  # the root's, with variables of one state
            tree = tree_on(tree, variables)
        counts = count(tree, table)
        value, parameters = max_likelihood(counts)
        return _Part(context, rows, counts, total, value, parameters)

    def tree(self, penalty: float, ess: float, facts: dict[str, object]) -> FeatureTree:
        """Returns the best pruning for a penalty, with tables for a prior."""
        kept = self.pruned(penalty)
        order = [0]
        for i in order:  # the list grows during the iteration
            order += kept[i]
        position = {i: k for k, i in enumerate(order)}
        nodes: list[Node] = []
        for i in order:
            part = self.parts[i]
            kids = tuple(position[kid] for kid in kept[i])
            if kids and kept[i] == part.sides:
                nodes.append(Split(part.feature, self.share(part, ess), (kids[0], kids[1])))
            elif kids or part.counts is None:
                nodes.append(Product(kids))
            else:
                nodes.append(TreeLeaf(tuple(sorted(part.context.domains)), part.counts.model(ess)))
        remarks = {
            **self.source.provenance,
            "features": {
                "penalty": penalty,
                "support": self.how.support,
                "score": self.learner.score.name,
            },
            "smoothing_ess": ess,
            "stop": self.stop.value,
            **facts,
        }
        return FeatureTree(self.columns, tuple(nodes), MappingProxyType(remarks))

    def share(self, part: _Part, ess: float) -> float:
        """Returns the probability that the feature of a split holds."""
        return (self.parts[part.sides[1]].total + ess / 2) / (part.total + ess)

    def pruned(self, penalty: float) -> list[tuple[int, ...]]:
        """Returns the kids of each node in the best pruning for a penalty; () for leaves."""
        self.price = penalty * log(self.rows)
        kept: list[tuple[int, ...]] = [()] * len(self.parts)
        best = [0.0] * len(self.parts)
        for i in reversed(range(len(self.parts))):
            part = self.parts[i]
            best[i] = self.score(part)
            if part.sides:
                value = sum(best[kid] for kid in part.sides) + self.term(part)
                if _pays(value, best[i]):
                    best[i], kept[i] = value, part.sides
            # A product scores as its leaf, up to rounding: it is kept for the sake of a split below it.
            value = sum(best[kid] for kid in part.pieces)
            if any(kept[kid] for kid in part.pieces) and _pays(value, best[i]):
                best[i], kept[i] = value, part.pieces
        return kept


class _Trials:
    """Penalties and priors tried on one growth by the likelihood of validation rows.

    For complete rows, the counts in each leaf suffice. Others need the feature tree.

    Attributes:
        best: the best penalty and prior.
    """

    def __init__(self, growth: _Growth, validation: HeldOut) -> None:
        self.growth = growth
        self.best: Best[tuple[float, float]] = Best()
        codes, weights = validation
        gaps = gaps_of(growth.columns, codes)
        every = np.ones(gaps.size) if weights is None else weights
        self.partial, self.codes = codes[:, gaps], codes[:, ~gaps]
        self.of_partial, self.weights = every[gaps], every[~gaps]
        self.inside = {0: np.arange(self.codes.shape[1])}
        self.found: dict[int, NDArray[np.float64]] = {}

    def run(self, penalties: Sequence[float]) -> None:
        """Tries penalties, the largest first, until one is no better or the run ends."""

        def learn(penalty: float) -> tuple[tuple[float, float], float]:
            self.growth.grow(penalty)
            means = self.means(penalty)
            at = int(np.argmax(means))
            return (penalty, PRIORS[at]), float(means[at])

        score = self.growth.learner.score.name
        self.best.search(penalties, learn, lambda one: {"score": score, "penalty": one}, self.growth.run)

    def means(self, penalty: float) -> NDArray[np.float64]:
        """Returns the mean log-likelihood of a row for each prior, in nats."""
        growth = self.growth
        kept = growth.pruned(penalty)
        total = np.zeros(len(PRIORS))
        order = [0]
        for i in order:  # the list grows during the iteration
            part = growth.parts[i]
            order += kept[i]
            if kept[i] and kept[i] == part.sides:
                total += self.of_split(i)
            for kid in part.pieces if kept[i] == part.pieces else ():
                self.inside[kid] = self.inside[i]
            if not kept[i] and part.counts is not None:
                total += self.of_leaf(i)
        for k, ess in enumerate(PRIORS) if self.partial.size else ():
            logs = growth.tree(penalty, ess, {}).log_likelihood(self.partial)
            total[k] += float(logs @ self.of_partial)
        mean: NDArray[np.float64] = total / (self.weights.sum() + self.of_partial.sum())
        return mean

    def of_split(self, i: int) -> NDArray[np.float64]:
        """Returns the log-likelihood of a feature under each prior, and routes the rows."""
        part = self.growth.parts[i]
        ((v, state),) = part.feature
        holds = self.codes[v, self.inside[i]] == state
        for kid, there in zip(part.sides, (~holds, holds), strict=True):
            self.inside[kid] = self.inside[i][there]
        failed, met = (self.weights[self.inside[kid]].sum() for kid in part.sides)
        shares = np.array([self.growth.share(part, ess) for ess in PRIORS])
        found: NDArray[np.float64] = met * np.log(shares) + failed * np.log(1 - shares)
        return found

    def of_leaf(self, i: int) -> NDArray[np.float64]:
        """Returns the log-likelihood of the rows in a leaf under each prior."""
        if i not in self.found:
            part, rows = self.growth.parts[i], self.inside[i]
            assert part.counts is not None, "a leaf with open variables"
            codes = codes_in(self.codes, rows, self.growth.columns, part.context)
            self.found[i] = held_out(part.counts, codes, self.weights[rows])
        return self.found[i]


def _pays(value: float, leaf: float) -> bool:
    """Returns whether a split scores more than its leaf, beyond rounding: ties keep the smaller tree."""
    return value > leaf + _ROUNDING * abs(leaf)
