"""Hidden Chow–Liu trees, learned by expectation-maximisation (EM).

Each variable x_v has a hidden one z_v above it, and the hidden ones form the Chow–Liu forest of the data:

    P(x) = Σ_z Π_v P(z_v | z_parent(v)) P(x_v | z_v).

The value is a `JunctionTreeModel` of treewidth 1 over the columns of the data and as many hidden ones, which
every query sums over where rows do not have them. EM takes the rows in small batches: expected counts move
towards those of a batch by a step that shrinks as 1 / batches^0.6 to a constant, and the tables follow. Once
rows for validation (or the data) are no likelier, the constant is cut, so that the counts average over more
batches; the best tables are kept. Several trees of other first tables may be mixed, with equal weights.

References: Chow–Liu trees over hidden variables: A. Liu and G. Van den Broeck, Tractable regularization of
probabilistic circuits, NeurIPS 2021. Steps: O. Cappé and E. Moulines, On-line expectation-maximization
algorithm for latent data models, Journal of the Royal Statistical Society B 71, 2009.

Time: rows · n · k² multiplications, three times, for one pass over the data with k hidden states. Messages
are matrix products over the rows of a batch, in 32-bit floats; the tables returned are of 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.result import Stop
from jtsolve.core.run import Run
from jtsolve.core.scores import StoppedError
from jtsolve.core.varset import members, varset
from jtsolve.errors import ChoiceError
from jtsolve.models.columns import Column, codes_of, columns_of
from jtsolve.models.layout import require_room
from jtsolve.models.learning.learner import Learner
from jtsolve.models.mixture import Mixture
from jtsolve.models.triangulation import Factor, calibrated_on, triangulated
from jtsolve.tables.distinct import distinct_rows
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.table import Codes

    Floats = NDArray[np.float32]

_DECAY = 0.6
"""Steps shrink as batches to this power, above ½ for convergence."""
_CUT = 0.3
"""The constant step is multiplied by this when rows are no likelier."""
_CUTS = 3
"""Cuts of the step before EM ends."""
_PATIENCE = 2
"""Passes over the data that may be no likelier before a cut."""
_GAIN = 1e-4
"""Nats per row that count as likelier."""
_WIDE = 1024
"""Rows of a batch where likelihoods alone are computed."""


@dataclass(frozen=True, slots=True)
class HiddenTrees:
    """How to learn a hidden Chow–Liu tree.

    Args:
        states: numbers of hidden states, at least 2, tried in this order until one is no better; rows for
            validation choose among several.
        ess: equivalent sample size of the prior of every table, above 0.
        batch: rows of a batch, at least 1.
        step: the least step before it is cut, above 0 and at most 1.
        seed: of the first tables and the order of the rows.
        learner: of the forest, of treewidth 1, with its constraints.
        trees: how many are mixed, at least 1; the i-th has the seed plus i, and the states of the first.

    Raises:
        ChoiceError: a setting is out of range.
    """

    states: tuple[int, ...] = (16,)
    ess: float = 1.0
    batch: int = 300
    step: float = 0.1
    seed: int = 0
    learner: Learner = field(default_factory=lambda: Learner(backend=REGISTRY["chowliu"], treewidth=1))
    trees: int = 1

    def __post_init__(self) -> None:
        if not self.states or min(self.states) < 2:  # noqa: PLR2004 - one state hides nothing
            raise ChoiceError(f"the numbers of hidden states are {self.states}; give at least one, from 2 on")
        if not (0 < self.ess < inf and 0 < self.step <= 1) or self.seed < 0:
            raise ChoiceError(
                "the equivalent sample size must be above 0, the step above 0 and at most 1, and the seed at "
                "least 0"
            )
        if min(self.batch, self.trees) < 1:
            raise ChoiceError("a batch must have at least one row, and at least one tree be mixed")
        if self.learner.treewidth > 1:
            raise ChoiceError(
                f"hidden variables form a forest: give treewidth 1, not {self.learner.treewidth}"
            )


def fit_hidden_tree(
    table: DataTable,
    how: HiddenTrees | None = None,
    validation: DataTable | Codes | None = None,
    *,
    run: Run | None = None,
) -> JunctionTreeModel | Mixture:
    """Returns a hidden Chow–Liu tree, or a mixture; of column "a" the hidden one is "hidden a".

    The end of the time and signals end it with the best tables so far; the provenance says under "stop" why
    it ended, and under "hidden_tree" what was tried.

    Args:
        table: the data, with its weights.
        how: the settings.
        validation: rows by which it ends and chooses, as a table or codes, with -1 for missing values; None
            for the data, for one number of hidden states.
        run: time, memory, threads, seed and progress; None for the defaults.

    Raises:
        ChoiceError: several numbers of hidden states and no rows to choose by, or a column has the name of a
            hidden one.
        LimitError: no forest was found in time, or a batch does not fit in memory.
        KeyboardInterrupt: a signal came before the first pass.
    """
    how = how or HiddenTrees()
    if validation is None and len(how.states) > 1:
        raise ChoiceError(
            "rows for validation choose among numbers of hidden states; give rows, or one number"
        )
    columns = columns_of(table)
    if clash := {_hidden(column.name) for column in columns}.intersection(table.names):
        raise ChoiceError(f"column '{min(clash)}' has the name of a hidden variable; rename it")
    run = run or Run()
    rows = _Rows.of(table, columns)
    held = rows if validation is None else _Rows.of(validation, columns)
    best: _Tables | None = None
    mean, tried, stop = -inf, [], Stop.FINISHED
    with run.interruptible():
        try:
            forest = _Forest.of(how.learner(table, run))
        except StoppedError:
            raise KeyboardInterrupt from None
        for states in how.states:
            em = _Em(forest, rows, held, replace(how, states=(states,)))
            stop = em.passes(run)
            tried.append({"states": states, "log_likelihood": em.mean})
            if em.mean <= mean:
                break
            best, mean = em.best, em.mean
            if stop is not Stop.FINISHED:
                break
        if best is None:
            raise KeyboardInterrupt
        every = [best]
        for seed in range(how.seed + 1, how.seed + how.trees):
            if stop is not Stop.FINISHED:
                break
            em = _Em(forest, rows, held, replace(how, states=(best.states,), seed=seed))
            stop = em.passes(run)
            every += [] if em.best is None else [em.best]
    remarks = {
        "hidden_tree": {"states": best.states, "tried": tried, "seed": how.seed, "trees": len(every)},
        "smoothing_ess": how.ess,
        "stop": stop.value,
    }
    provenance = MappingProxyType({**table.provenance, **remarks})
    models = tuple(tables.model(forest, columns) for tables in every)
    if len(models) == 1:
        return replace(models[0], provenance=provenance)
    return Mixture(np.full(len(models), 1 / len(models)), models, provenance)


def _hidden(name: str) -> str:
    return f"hidden {name}"


class _Forest(NamedTuple):
    """A forest of variables.

    Attributes:
        order: parents before children.
        parent: of each variable; -1 for roots.
    """

    order: list[int]
    parent: list[int]

    @staticmethod
    def of(tree: JunctionTree) -> _Forest:
        """Returns the forest of a junction tree of treewidth 1, each part rooted where it branches most."""
        near: list[list[int]] = [[] for _ in range(tree.n)]
        for u, v in (members(clique) for clique in tree.cliques if clique.bit_count() > 1):
            near[u].append(v)
            near[v].append(u)
        parent, order = [-1] * tree.n, []
        for root in sorted(range(tree.n), key=lambda v: -len(near[v])):
            part = [] if root in order else [root]
            for v in part:  # the list grows during the iteration
                kids = [u for u in near[v] if u != parent[v]]
                for u in kids:
                    parent[u] = v
                part += kids
            order += part
        return _Forest(order, parent)


class _Rows(NamedTuple):
    """Distinct rows and their weights.

    Attributes:
        codes: shape (variables, rows), -1 for missing values.
        weights: shape (rows,).
        arities: of the variables.
    """

    codes: NDArray[np.int32]
    weights: Floats
    arities: list[int]

    @staticmethod
    def of(rows: DataTable | Codes, columns: tuple[Column, ...]) -> _Rows:
        """Returns the rows of a table, or of codes."""
        weights: NDArray[np.int64] | None = None
        if isinstance(rows, DataTable):
            table = distinct_rows(rows)
            rows, weights = codes_of(columns, table), table.weights
        each = np.ones(rows.shape[1]) if weights is None else weights
        arities = [column.arity for column in columns]
        return _Rows(rows.astype(np.int32), each.astype(np.float32), arities)

    def indicators(self, chosen: slice | NDArray[np.int64]) -> Floats:
        """Returns which states some rows may have, shape (variables, states, rows)."""
        codes = self.codes[:, None, chosen]
        states = np.arange(max(self.arities), dtype=np.int32)[:, None]
        ones: Floats = ((codes == states) | (codes < 0)).astype(np.float32)
        return ones


class _Tables(NamedTuple):
    """The parameters of a hidden tree with k hidden states.

    Attributes:
        step: shape (n, k, k), P(z_v | z_parent); for a root, each row is P(z_v).
        shown: shape (n, k, states), P(x_v | z_v); 0 beyond the states of a variable.
    """

    step: NDArray[np.float64]
    shown: NDArray[np.float64]

    @property
    def states(self) -> int:
        """The number of hidden states."""
        return len(self.step[0])

    def model(self, forest: _Forest, columns: tuple[Column, ...]) -> JunctionTreeModel:
        """Returns the model over the columns, then their hidden ones."""
        n = len(columns)
        labels = tuple(map(str, range(self.states)))
        every = (*columns, *(Column(_hidden(one.name), labels, hidden=True) for one in columns))
        factors = []
        for v, column in enumerate(columns):
            p = forest.parent[v]
            own = Factor((n + v,), self.step[v][0]) if p < 0 else Factor((n + p, n + v), self.step[v])
            factors += [own, Factor((n + v, v), self.shown[v, :, : column.arity])]
        scopes = [varset(factor.variables) for factor in factors]
        tree = triangulated([column.arity for column in every], scopes)
        return calibrated_on(tree, every, factors).model


class _Em:
    """EM from one start.

    Attributes:
        best: the tables under which the held-out rows are likeliest; None before the first pass.
        mean: their mean log-likelihood, in nats.
    """

    def __init__(self, forest: _Forest, rows: _Rows, held: _Rows, how: HiddenTrees) -> None:
        self.forest, self.rows, self.held, self.how = forest, rows, held, how
        (states,) = how.states
        n, widest = len(rows.arities), max(rows.arities)
        batch = 3 * max(how.batch, _WIDE) * (states + widest)
        require_room(
            n * (batch + 4 * states * (states + widest)),
            "the messages",
            "fewer hidden states, a smaller batch",
            4,
        )
        self.states, self.generator = states, np.random.default_rng([how.seed, states])
        counts = [np.bincount(own, rows.weights, minlength=widest) for own in rows.codes]
        shares = np.array(counts) / rows.weights.sum() + 1 / rows.weights.sum()
        self.open = np.arange(widest) < np.array(rows.arities)[:, None]
        draw = self.generator.exponential
        self.step_counts: Floats = draw(size=(n, states, states)).astype(np.float32)
        self.shown_counts: Floats = (draw(size=(n, states, widest)) * shares[:, None]).astype(np.float32)
        self.maximise(0.0)
        self.best: _Tables | None = None
        self.mean = -inf

    def passes(self, run: Run) -> Stop:
        """Alternates passes over the data and tests on the held-out rows, until these are no likelier.

        Returns:
            Why it ended.
        """
        step, batches, cuts, worse = self.how.step, 0, 0, 0
        while True:
            for chosen in self.batches():
                batches += 1
                self.learn(chosen, step if cuts else max(step, (batches + 1) ** -_DECAY))
                if run.stop is not None:
                    break
            mean = self.held_out()
            worse = 0 if mean > self.mean + _GAIN else worse + 1
            if mean > self.mean:
                self.best, self.mean = self.tables(), mean
            run.progress(note=f"{self.states} hidden states, {batches} batches: {self.mean:.4f} nats per row")
            if run.stop is not None:
                return run.stop
            if worse == _PATIENCE:
                if cuts == _CUTS:
                    return Stop.FINISHED
                cuts, worse, step = cuts + 1, 0, step * _CUT

    def batches(self) -> Iterator[NDArray[np.int64]]:
        """Yields the rows in a random order."""
        order = self.generator.permutation(self.rows.codes.shape[1])
        yield from np.split(order, range(self.how.batch, len(order), self.how.batch))

    def learn(self, chosen: NDArray[np.int64], step: float) -> None:
        """Moves the counts towards those expected in a batch, and fits the tables to them."""
        ones, weights = self.rows.indicators(chosen), self.rows.weights[chosen]
        below, above, _ = self.upward(ones)
        scale = np.float32(step * self.rows.weights.sum() / weights.sum())
        self.step_counts *= np.float32(1 - step)
        self.shown_counts *= np.float32(1 - step)
        beliefs = np.empty_like(below)
        for v in self.forest.order:
            p = self.forest.parent[v]
            given = 1 / (self.states * above[v]) if p < 0 else beliefs[p] / above[v]
            np.matmul(self.step[v].T, given, out=beliefs[v])
            beliefs[v] *= below[v]
            given *= weights * scale
            self.step_counts[v] += self.step[v] * (given @ below[v].T)
        ones *= weights * scale
        self.shown_counts += beliefs @ ones.transpose(0, 2, 1)
        self.maximise(self.how.ess)

    def maximise(self, ess: float) -> None:
        """Fits the tables to the counts."""
        step = self.step_counts + np.float32(ess / self.states**2)
        for v in range(len(step)):
            if self.forest.parent[v] < 0:
                step[v] = step[v].sum(axis=0)
        self.step: Floats = step / step.sum(axis=2, keepdims=True)
        cells = self.states * self.open.sum(axis=1)
        prior = np.where(self.open, ess / cells[:, None], 0).astype(np.float32)
        shown = self.shown_counts + prior[:, None]
        self.shown: Floats = shown / shown.sum(axis=2, keepdims=True)

    def tables(self) -> _Tables:
        """Returns the tables, with 64 bits."""
        step, shown = self.step.astype(np.float64), self.shown.astype(np.float64)
        return _Tables(step / step.sum(axis=2, keepdims=True), shown / shown.sum(axis=2, keepdims=True))

    def upward(self, ones: Floats) -> tuple[Floats, Floats, Floats]:
        """Returns the messages of some rows.

        Args:
            ones: see `_Rows.indicators`.

        Returns:
            For each variable and row, P(rows below | z_v) up to a factor, and P(rows below | z_parent) up to
            the same, each of shape (n, k, rows); and ln P(row).
        """
        below = self.shown @ ones
        above = np.empty_like(below)
        logs = np.zeros(ones.shape[2], dtype=np.float32)
        for v in reversed(self.forest.order):
            np.matmul(self.step[v], below[v], out=above[v])
            p = self.forest.parent[v]
            if p < 0:
                logs += np.log(above[v][0])
                continue
            # A factor that keeps the product of many messages from underflow.
            own = below[p]
            own *= above[v]
            largest = own.max(axis=0)
            own /= largest
            logs += np.log(largest)
        return below, above, logs

    def held_out(self) -> float:
        """Returns the mean log-likelihood of the held-out rows, in nats."""
        total, count = 0.0, self.held.codes.shape[1]
        for start in range(0, count, _WIDE):
            part = slice(start, start + _WIDE)
            total += float(self.upward(self.held.indicators(part))[2] @ self.held.weights[part])
        return total / float(self.held.weights.sum())
