"""Structural expectation-maximisation (EM) for mixtures of junction trees, discrete or mixed.

E-step: the responsibilities r_k(x) ∝ w_k P_k(x). M-step: w_k is the mean of r_k, and the parameters of P_k
are fitted to the rows weighted by r_k. Once the gain per row is small, the tree of each component is learned
again, from rows sampled with probabilities r_k since scores need whole counts. It replaces the old one only
if it increases

    Σ_x r_k(x) ln P_k(x) − ½ ln N_k · (parameters of P_k),     N_k = Σ_x r_k(x).

EM ends when no tree changes, or, at the end of the run, with the mixture of the last M-step. On fixed
trees the likelihood does not decrease, up to the effect of the prior.

References: A. P. Dempster, N. M. Laird and D. B. Rubin, Journal of the Royal Statistical Society B 39, 1977;
N. Friedman, The Bayesian structural EM algorithm, UAI 1998; M. Meilă and M. I. Jordan, Journal of Machine
Learning Research 1, 2000. Initial components: D. Arthur and S. Vassilvitskii, k-means++, SODA 2007, with the
distance of J. C. Gower, A general coefficient of similarity, Biometrics 27, 1971; without real columns, that
of Hamming.

Time: an iteration costs rows × Σ |C| for each component; each round adds one call of the learner per
component.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import inf, log
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.core.result import Stop
from jtsolve.core.scores import StoppedError
from jtsolve.errors import ChoiceError, InputError, LimitError
from jtsolve.models.learning.mixed_tree import with_margins
from jtsolve.models.learning.tree import by_prior
from jtsolve.models.learning.validation import PRIORS, Best, likeliest
from jtsolve.models.messages import log_sum
from jtsolve.models.mixture import Mixture
from jtsolve.options import VALIDATE
from jtsolve.scoring.score import MIXED_SCORE
from jtsolve.tables.distinct import distinct_rows
from jtsolve.tables.table import DataTable, MixedTable, rows_at, stacked_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.learning.mixed_tree import Columns
    from jtsolve.models.learning.task import FitTask
    from jtsolve.models.mixture import Component
    from jtsolve.tables.table import Table

_FIRST_SHARE = 0.9
"""Initial responsibility of the component with the nearest centre."""
_ITERATIONS, _GAIN = 100, 1e-4
"""Maximum number of EM iterations between two rounds, and the gain in nats per row below which they end."""
_SHARE_TABLES = 5
"""Arrays of shape (components, rows) alive at a time."""


@dataclass(frozen=True, slots=True)
class Mixtures:
    """A mixture of junction trees by structural expectation-maximisation.

    Args:
        components: numbers of components; validation rows choose among several.
        restarts: number of random starts, among which the likeliest mixture is kept.
        rounds: maximum number of rounds of learning trees.

    Raises:
        ChoiceError: a number is out of range, or the numbers of components do not increase.
    """

    components: tuple[int, ...] = (2,)
    restarts: int = 1
    rounds: int = 5

    name: ClassVar[str] = "mixture"
    uses: ClassVar[frozenset[str]] = frozenset({"treewidth", "backend", "constraints"})
    main: ClassVar[str] = "components"
    default_score: ClassVar[str] = MIXED_SCORE

    def __post_init__(self) -> None:
        sizes = self.components
        if not sizes or sizes[0] < 1 or any(a >= b for a, b in pairwise(sizes)):
            raise ChoiceError(
                f"components={sizes}: give increasing numbers of at least 1, such as 2 or 1,2,4,8"
            )
        if min(self.rounds, self.restarts) < 1:
            raise ChoiceError("rounds and restarts must be at least 1")

    def fit(self, task: FitTask, run: Run) -> Component | Mixture:
        """Returns the fitted mixture; a mixture of one component is that component.

        Validation rows choose among numbers of components, tried in order until one is no better; then among
        smaller treewidths, from the best number on, until one is no better than the last.

        Raises:
            ChoiceError: several numbers and no validation rows, or more components than distinct rows.
            LimitError: the run ended before the first mixture, or it does not fit in memory.
            StoppedError: the run was interrupted before the first mixture.
        """
        table = task.rows(self.name)
        if task.validation is None and len(self.components) > 1:
            raise ChoiceError(
                f"several numbers of components need validation rows that choose one; give {VALIDATE}"
            )
        states = table.discrete if isinstance(table, MixedTable) else table
        if isinstance(states, DataTable):
            task.require_prior("a mixture")
        run.require_memory(
            8 * _SHARE_TABLES * self.components[0] * table.rows,
            "the responsibilities need",
            "fewer components",
        )
        found = self.em(task, self.components[0], run) if task.validation is None else self._chosen(task, run)
        backend = task.learner(self.name).backend
        assert backend is not None, "never auto"
        remarks = {**table.provenance, **found.provenance, **task.searched(backend.name)}
        if len(found.components) == 1:
            one: Component = replace(found.components[0], provenance=MappingProxyType(remarks))
            return one
        return replace(found, provenance=MappingProxyType(remarks))

    def em(self, task: FitTask, components: int, run: Run) -> Mixture:
        """Returns the likeliest mixture of a number of components over the restarts.

        The provenance has the reason for the end of EM under "stop": "finished", "time" or "interrupted".

        Args:
            task: the data and the prior.
            components: their number.
            run: limits, seed and progress.

        Raises:
            ChoiceError, LimitError, StoppedError: see `fit`.
        """
        rows, times = _distinct(task.rows(self.name))
        if components > rows.rows:
            raise ChoiceError(f"{components} components for {rows.rows} distinct rows; give 1 to {rows.rows}")
        best: Mixture | None = None
        likelihood = -inf
        for start in range(self.restarts):
            em = _EmRun(self, task, rows, times, components, np.random.default_rng([run.seed, start]), run)
            try:
                em.fit()
            except (LimitError, StoppedError):
                if run.stop is None or (best is None and em.found is None):
                    raise
            if em.found is not None:
                mean = _mean(em.found.log_likelihood(em.cells), times)
                if best is None or mean > likelihood:
                    best, likelihood = em.found, mean
            if run.stop is not None:
                break
        assert best is not None, "a start without a mixture raises an error"
        remarks = {"components": components, "restarts": self.restarts, "seed": run.seed}
        facts = {"mixture": remarks, "smoothing_ess": task.ess, "stop": (run.stop or Stop.FINISHED).value}
        return replace(best, provenance=MappingProxyType(facts))

    def _chosen(self, task: FitTask, run: Run) -> Mixture:
        """Returns the mixture under which the validation rows are likeliest."""
        table, held = task.rows(self.name), task.validation
        assert held is not None, "called with validation rows"
        best: Best[Mixture] = Best()
        widths: list[int | None] = [None]
        if task.treewidth is not None:
            own = min(task.treewidth, table.n - 1)
            widths = [own, *range(own - 1, 0, -1)]
        for width in widths:
            at = task if width is None else replace(task, treewidth=width)

            def learn(size: int, at: FitTask = at) -> tuple[Mixture, float]:
                mixture = self.em(at, size, run)
                others = _with_priors(mixture, task, () if run.stop else PRIORS)
                return likeliest([mixture, *others], *held)

            def facts(size: int, width: int | None = width) -> dict[str, int]:
                return {"components": size} | ({} if width is None else {"treewidth": width})

            least = 0 if best.model is None else len(best.model.components)
            sizes = [size for size in self.components if size >= least]
            if not best.search(sizes, learn, facts, run) or run.stop is not None:
                break
        assert best.model is not None, "there is at least one size"
        remarks = {
            "sizes_tried": best.tried,
            "validation_log_likelihood": best.mean,
            "stop": (run.stop or Stop.FINISHED).value,
        }
        return replace(best.model, provenance=MappingProxyType({**best.model.provenance, **remarks}))


def _distinct(table: Table) -> tuple[Table, NDArray[np.float64]]:
    """Returns the distinct rows of a discrete table, or all rows of another, and their counts."""
    if not isinstance(table, DataTable):
        return table, np.ones(table.rows)
    rows = distinct_rows(table)
    return rows, np.ones(rows.rows) if rows.weights is None else rows.weights.astype(np.float64)


def _mean(logs: NDArray[np.float64], times: NDArray[np.float64]) -> float:
    """Returns the mean log-likelihood per row; -inf if a row is impossible."""
    return float(np.average(logs, weights=times))


def _with_priors(mixture: Mixture, task: FitTask, candidates: Sequence[float]) -> list[Mixture]:
    """Returns the mixture with its parameters refitted under each prior, responsibilities fixed."""
    rows, _ = _distinct(task.rows(Mixtures.name))
    logs = mixture.log_joint(rows if isinstance(rows, DataTable) else stacked_columns(rows))
    columns = mixture.columns if mixture.is_continuous else None
    models = [
        by_prior(one.tree, rows, task.score, share, columns=columns)
        for one, share in zip(mixture.components, np.exp(logs - log_sum(logs)), strict=True)
    ]
    return [
        replace(
            mixture,
            components=tuple(model(ess) for model in models),
            provenance=MappingProxyType({**mixture.provenance, "smoothing_ess": ess}),
        )
        for ess in candidates
    ]


class _EmRun:
    """EM from one random start.

    Attributes:
        found: the mixture of the last M-step.
        columns: of the components, with the margins that fit the first trees best; None for states.
    """

    def __init__(  # noqa: PLR0917 - one for each attribute
        self,
        kind: Mixtures,
        task: FitTask,
        rows: Table,
        times: NDArray[np.float64],
        components: int,
        generator: np.random.Generator,
        run: Run,
    ) -> None:
        self.kind, self.task, self.rows, self.times, self.k = kind, task, rows, times, components
        self.generator, self.run = generator, run
        self.cells = rows if isinstance(rows, DataTable) else stacked_columns(rows)
        self.found: Mixture | None = None
        self.columns: Columns | None = None

    def fit(self) -> None:
        """Alternates fitting and learning trees until no tree changes, or the run ends."""
        shares = self.first_shares()
        trees: list[JunctionTree | None] = [None] * self.k
        for turn in range(self.kind.rounds):
            found: list[JunctionTree] = []
            for k, share in enumerate(shares):
                known = trees[k] or (found[-1] if found else None)
                if known is not None and self.run.stop is not None:  # the trees so far make a mixture
                    found.append(known)
                else:
                    found.append(self.learn(k, share, trees[k], known))
            if found == trees:
                break
            trees = list(found)
            if not (turn or isinstance(self.rows, DataTable)):
                fitted = partial(self.with_columns, found, shares)
                self.columns = with_margins(self.rows, self.task.score, fitted)
            shares = self.iterate(found, shares, turn)
            if self.run.stop is not None:
                return
        self.found = self.maximised(found, shares)

    def first_shares(self) -> NDArray[np.float64]:
        """Returns responsibilities by the nearest of k centres, drawn as in k-means++."""
        rows = self.rows.rows
        centre = int(self.generator.choice(rows, p=self.times / self.times.sum()))
        distances = [self.distance(centre)]
        for _ in range(1, self.k):
            far = np.min(distances, axis=0) ** 2 * self.times
            centre = int(self.generator.choice(rows, p=far / far.sum()))
            distances.append(self.distance(centre))
        nearest = np.argmin(distances, axis=0)
        rest = (1 - _FIRST_SHARE) / max(1, self.k - 1)
        shares = np.full((self.k, rows), rest if self.k > 1 else 1.0)
        if self.k > 1:
            shares[nearest, np.arange(rows)] = _FIRST_SHARE
        return shares

    def distance(self, row: int) -> NDArray[np.float64]:
        """Returns the distance of each row to one: the number of different states, and scaled differences."""
        rows, out = self.rows, np.zeros(self.rows.rows)
        states = rows if isinstance(rows, DataTable) else getattr(rows, "discrete", None)
        for column in () if states is None else states.codes:
            out += column != column[row]
        if not isinstance(rows, DataTable):
            for column in (rows.real if isinstance(rows, MixedTable) else rows).values:
                out += np.abs(column - column[row]) / np.ptp(column)
        return out

    def learn(
        self, k: int, share: NDArray[np.float64], old: JunctionTree | None, known: JunctionTree | None
    ) -> JunctionTree:
        """Returns the new tree of a component, or the old one if that is no worse.

        The search begins at the old tree; if the run ends first, a known tree is the answer.
        """
        if self.k == 1:
            return old or self.searched(self.rows, None)
        drawn = self.generator.binomial(self.times.astype(np.int64), np.minimum(share, 1.0))
        if not drawn.any():
            drawn[int(np.argmax(share))] = 1
        kept, rows = np.flatnonzero(drawn), self.rows
        self.run.progress(note=f"tree {k + 1} of {self.k}, from {int(drawn.sum())} rows")
        part: Table
        try:
            if isinstance(rows, DataTable):
                part = replace(rows, codes=rows.codes[:, kept], weights=drawn[kept])
            else:
                part = rows_at(rows, kept)
            new = self.searched(part, old)
        except (LimitError, StoppedError):
            if known is None or self.run.stop is None:
                raise
            return known
        except InputError:  # a covariance of few rows is singular: use the tree of another component
            if isinstance(rows, DataTable):
                raise
            return known or self.searched(rows, None)
        if old is None or (new != old and self.expected_score(new, share) > self.expected_score(old, share)):
            return new
        return old

    def searched(self, table: Table, old: JunctionTree | None) -> JunctionTree:
        """Returns the tree that the learner finds for some rows."""
        return self.task.learner(self.kind.name)(table, self.run.part(silent=True), old)

    def expected_score(self, tree: JunctionTree, share: NDArray[np.float64]) -> float:
        """Returns the expected log-likelihood of a tree less the penalty, in nats."""
        model: Any = self.fitted(tree, share)
        belongs = share * self.times
        size = max(float(belongs.sum()), 1.0)
        logs = model.log_likelihood(self.cells)
        return float(belongs @ logs - 0.5 * log(size) * model.parameters)

    def fitted(self, tree: JunctionTree, share: NDArray[np.float64]) -> Component:
        """Returns the component of a tree, fitted to its responsibilities."""
        model = by_prior(tree, self.rows, self.task.score, share, columns=self.columns)
        return model(self.task.ess)

    def maximised(self, trees: Sequence[JunctionTree], shares: NDArray[np.float64]) -> Mixture:
        """Returns the mixture with parameters and weights fitted to the responsibilities: the M-step."""
        weights = shares @ self.times
        models = tuple(self.fitted(one, share) for one, share in zip(trees, shares, strict=True))
        return Mixture(weights / weights.sum(), models)

    def with_columns(
        self, trees: Sequence[JunctionTree], shares: NDArray[np.float64], columns: Columns
    ) -> Mixture:
        """Returns the mixture of an M-step with other columns, which it keeps."""
        self.columns = columns
        return self.maximised(trees, shares)

    def iterate(
        self, trees: Sequence[JunctionTree], shares: NDArray[np.float64], turn: int
    ) -> NDArray[np.float64]:
        """Runs E- and M-steps on fixed trees until the gain is small; returns the responsibilities."""
        before = -inf
        for step in range(_ITERATIONS):
            self.found = self.maximised(trees, shares)
            logs = self.found.log_joint(self.cells)
            totals = log_sum(logs)
            shares = np.exp(logs - totals)
            mean = _mean(totals, self.times)
            self.run.progress(note=f"round {turn + 1}, iteration {step + 1}: {mean:.4f} nats per row")
            if mean - before < _GAIN or self.run.stop is not None:
                break
            before = mean
        return shares
