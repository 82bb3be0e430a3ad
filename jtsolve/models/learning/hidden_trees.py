"""Hidden Chow–Liu trees, learned by expectation-maximisation (EM).

Each variable x_v has a hidden one z_v above it, and the hidden ones form the Chow–Liu forest of the data:

    P(x) = Σ_z Π_v P(z_v | z_parent(v)) P(x_v | z_v).

The result is a `JunctionTreeModel` of treewidth 1 over the columns of the data and as many hidden ones, which
queries of rows without them sum out. EM processes the rows in small batches: the expected counts move towards
those of a batch by a step that shrinks as 1 / batches^0.6 down to a constant, and the tables follow. When the
validation rows (or the data) are no likelier than before, the constant is cut, so that the counts average
over more batches; the best tables are kept. Several trees from different initial tables may be mixed, with
equal weights.

References: Chow–Liu trees over hidden variables: A. Liu and G. Van den Broeck, Tractable regularization of
probabilistic circuits, NeurIPS 2021. Steps: O. Cappé and E. Moulines, On-line expectation-maximization
algorithm for latent data models, Journal of the Royal Statistical Society B 71, 2009.

Time: 3 · rows · n · k² multiplications for one pass over the data with k hidden states. Messages are matrix
products over the rows of a batch, in 32-bit floats; the tables returned have 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.result import Stop
from jtsolve.core.scores import StoppedError
from jtsolve.core.varset import members
from jtsolve.core.version import __version__
from jtsolve.errors import ChoiceError
from jtsolve.models.columns import Column, codes_of, columns_of
from jtsolve.models.layout import require_room
from jtsolve.models.learning.learner import Learner
from jtsolve.models.learning.validation import Best
from jtsolve.models.mixture import Mixture
from jtsolve.models.triangulation import Factor, calibrated
from jtsolve.options import VALIDATE
from jtsolve.tables.distinct import distinct_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.learning.task import FitTask
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.table import Codes

    Floats = NDArray[np.float32]

_DECAY = 0.6
"""Steps shrink as batches to this power, above ½ for convergence."""
_STEP = 0.1
"""The constant step before the first cut."""
_CUT = 0.3
"""Factor of a cut of the constant step."""
_CUTS = 3
"""Cuts of the step before EM ends."""
_PATIENCE = 2
"""Passes over the data without a gain before a cut."""
_GAIN = 1e-4
"""Smallest gain, in nats per row."""
_WIDE = 1024
"""Rows of a batch if only likelihoods are computed."""


@dataclass(frozen=True, slots=True)
class HiddenTrees:
    """A hidden Chow–Liu tree: a hidden variable above each column, joined by the best forest.

    Args:
        states: numbers of hidden states, at least 2, tried in this order until one is no better;
            validation rows choose among several.
        components: number of trees from different starts, mixed with equal weights.
        batch: rows of a batch.

    Raises:
        ChoiceError: an option is out of range.
    """

    states: tuple[int, ...] = (16,)
    components: int = 1
    batch: int = 300

    name: ClassVar[str] = "hidden"
    main: ClassVar[str] = "states"
    uses: ClassVar[frozenset[str]] = frozenset({"constraints"})

    def __post_init__(self) -> None:
        if not self.states or min(self.states) < 2:  # noqa: PLR2004 - one state hides nothing
            raise ChoiceError(f"the numbers of hidden states are {self.states}; give at least one, from 2 on")
        if min(self.batch, self.components) < 1:
            raise ChoiceError("a batch must have at least one row, and at least one tree be mixed")

    def fit(self, task: FitTask, run: Run) -> JunctionTreeModel | Mixture:
        """Returns the hidden tree, or a mixture of several; the hidden variable of column "a" is "hidden a".

        EM ends when the validation rows, or else the data, are no likelier than before. The provenance has
        the reason under "stop", and the candidates tried under "hidden_tree".

        Raises:
            ChoiceError: several numbers of hidden states and no validation rows, or a column has the name
                of a hidden one.
            LimitError: no forest was found in time, or a batch does not fit in memory.
            StoppedError: the run was interrupted before the first pass.
        """
        table, score = task.states(self.name)
        if task.validation is None and len(self.states) > 1:
            raise ChoiceError(
                f"several numbers of hidden states need validation rows that choose one; give {VALIDATE}"
            )
        task.require_prior("a hidden tree")
        columns = columns_of(table)
        if clash := {_hidden(column.name) for column in columns}.intersection(table.names):
            raise ChoiceError(f"column '{min(clash)}' has the name of a hidden variable; rename it")
        chowliu = Learner(score, REGISTRY["chowliu"], 1, task.constraints)
        forest = _Forest.of(chowliu(table, run.part(silent=True)))
        distinct = distinct_rows(table)
        rows = _Rows.of(codes_of(columns, distinct), distinct.weights, columns)
        held = rows if task.validation is None else _Rows.of(*task.validation, columns)

        def learn(states: int, seed: int = run.seed) -> tuple[_Tables, float]:
            em = _Em(forest, rows, held, self, states, task.ess, seed)
            em.run(run)
            if em.best is None:
                raise StoppedError
            return em.best, em.mean

        best: Best[_Tables] = Best()
        best.search(self.states, learn, lambda states: {"states": states}, run)
        assert best.model is not None, "the first trial has a model, or raises an error"
        every = [best.model]
        for seed in range(run.seed + 1, run.seed + self.components):
            if run.stop is not None:
                break
            every.append(learn(best.model.states, seed)[0])
        tried = [
            {"states": one["states"], "log_likelihood": one["validation_log_likelihood"]}
            for one in best.tried
        ]
        facts = {"states": best.model.states, "tried": tried, "seed": run.seed, "trees": len(every)}
        provenance = MappingProxyType(
            {
                **table.provenance,
                "hidden_tree": facts,
                "smoothing_ess": task.ess,
                "stop": (run.stop or Stop.FINISHED).value,
                "score": score.name,
                "backend": "chowliu",
                "jtsolve": __version__,
            }
        )
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
        """Returns the forest of a junction tree of treewidth 1; the roots have the highest degrees."""
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
    def of(codes: Codes, weights: NDArray[Any] | None, columns: tuple[Column, ...]) -> _Rows:
        """Returns rows with the arities of their columns; without weights, each counts once."""
        each = np.ones(codes.shape[1]) if weights is None else weights
        arities = [column.arity for column in columns]
        return _Rows(codes.astype(np.int32), each.astype(np.float32), arities)

    def indicators(self, chosen: slice | NDArray[np.int64]) -> Floats:
        """Returns the states that some rows allow, as 0 or 1, shape (variables, states, rows)."""
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
        """Returns the model over the columns, followed by their hidden variables."""
        n = len(columns)
        labels = tuple(map(str, range(self.states)))
        every = (*columns, *(Column(_hidden(one.name), labels, hidden=True) for one in columns))
        factors = []
        for v, column in enumerate(columns):
            p = forest.parent[v]
            own = Factor((n + v,), self.step[v][0]) if p < 0 else Factor((n + p, n + v), self.step[v])
            factors += [own, Factor((n + v, v), self.shown[v, :, : column.arity])]
        return calibrated(every, factors).model


class _Em:
    """EM from one start.

    Attributes:
        best: the tables under which the held-out rows are likeliest; None before the first pass.
        mean: their mean log-likelihood, in nats.
    """

    def __init__(  # noqa: PLR0917 - one for each attribute
        self,
        forest: _Forest,
        rows: _Rows,
        held: _Rows,
        kind: HiddenTrees,
        states: int,
        ess: float,
        seed: int,
    ) -> None:
        self.forest, self.rows, self.held, self.kind, self.ess = forest, rows, held, kind, ess
        n, widest = len(rows.arities), max(rows.arities)
        batch = 3 * max(kind.batch, _WIDE) * (states + widest)
        require_room(
            n * (batch + 4 * states * (states + widest)),
            "the messages",
            "fewer hidden states, a smaller batch",
            4,
        )
        self.states, self.generator = states, np.random.default_rng([seed, states])
        counts = [np.bincount(own, rows.weights, minlength=widest) for own in rows.codes]
        shares = np.array(counts) / rows.weights.sum() + 1 / rows.weights.sum()
        self.open = np.arange(widest) < np.array(rows.arities)[:, None]
        draw = self.generator.exponential
        self.step_counts: Floats = draw(size=(n, states, states)).astype(np.float32)
        self.shown_counts: Floats = (draw(size=(n, states, widest)) * shares[:, None]).astype(np.float32)
        self.maximise(0.0)
        self.best: _Tables | None = None
        self.mean = -inf

    def run(self, run: Run) -> None:
        """Alternates passes over the data and a test on the held-out rows, until they are no likelier."""
        step, batches, cuts, worse = _STEP, 0, 0, 0
        while True:
            for chosen in self.batches():
                batches += 1
                # The steps of stochastic approximation decay until the first cut.
                self.learn(chosen, step if cuts else max(step, (batches + 1) ** -_DECAY))
                if run.stop is not None:
                    break
            mean = self.held_out()
            worse = 0 if mean > self.mean + _GAIN else worse + 1
            if mean > self.mean:
                self.best, self.mean = self.tables(), mean
            note = f"{self.states} hidden states, {batches} batches: {self.mean:.4f} nats per row"
            if not run.progress(note=note):
                return
            if worse == _PATIENCE:
                if cuts == _CUTS:
                    return
                cuts, worse, step = cuts + 1, 0, step * _CUT

    def batches(self) -> Iterator[NDArray[np.int64]]:
        """Yields the rows in a random order."""
        order = self.generator.permutation(self.rows.codes.shape[1])
        yield from np.split(order, range(self.kind.batch, len(order), self.kind.batch))

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
        self.maximise(self.ess)

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
            P(values below v | z_v) and P(values below v | z_parent(v)) for each variable v and row, up to a
            common factor, of shape (n, k, rows) each; and ln P(row).
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
            # Scaling keeps the product of many messages from underflow.
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
