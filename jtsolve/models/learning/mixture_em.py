"""Structural expectation-maximisation (EM) for mixtures of junction trees, of context trees, or of LEM's.

E-step: the responsibilities r_k(x) ∝ w_k P_k(x). M-step: w_k is the mean of r_k, and the tables of P_k are
fitted to the rows weighted by r_k. Once the gain per row is small, each component's tree is learned again,
from rows sampled by their r_k since scores need whole counts, and replaces the old one only if it increases

    Σ_x r_k(x) ln P_k(x) − ½ ln N_k · (parameters of P_k),     N_k = Σ_x r_k(x).

EM ends when no tree changes, or, at a deadline or by Ctrl-C, with the mixture of the last M-step. On fixed
trees the likelihood does not decrease, up to the effect of the prior.

References: A. P. Dempster, N. M. Laird and D. B. Rubin, Journal of the Royal Statistical Society B 39, 1977;
N. Friedman, The Bayesian structural EM algorithm, UAI 1998; M. Meilă and M. I. Jordan, Journal of Machine
Learning Research 1, 2000. Initial components: D. Arthur and S. Vassilvitskii, k-means++, SODA 2007, with the
Hamming distance.

Time: an iteration takes rows × Σ |C| for each component; each round adds one call of the learner a component.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.machine import resident_memory
from jtsolve.core.result import Stop
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.layout import require_room
from jtsolve.models.learning.context_trees import ContextTrees, fit_context_tree
from jtsolve.models.learning.em_run import EmRun
from jtsolve.models.learning.fit import CANDIDATES
from jtsolve.models.learning.learner import Learner
from jtsolve.models.learning.lem import Lem, fit_lem
from jtsolve.models.learning.refit import refitted
from jtsolve.models.messages import log_sum
from jtsolve.models.mixture import Mixture
from jtsolve.tables.distinct import distinct_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.models.learning.refit import Structure
    from jtsolve.models.mixture import Component
    from jtsolve.tables.table import Codes, DataTable

    ProgressMessage = Callable[[str], None]

_FIRST_SHARE = 0.9
"""Initial responsibility of the component with the nearest centre."""
_SHARE_TABLES = 5
"""Arrays of components × rows alive at a time: responsibilities, two of logarithms, two temporaries."""
SIZES = (1, 2, 4, 8, 16)
"""Numbers of components tried by `fit_mixture_validated`."""


@dataclass(frozen=True, slots=True)
class EmOptions:
    """Options of EM.

    Args:
        learner: learns junction trees from a table, context trees, or the feature trees of LEM.
        ess: equivalent sample size of the prior of every component's tables, above 0.
        iterations: most EM iterations between two rounds of learning trees.
        rounds: most rounds of learning trees.
        tolerance: gain of the mean log-likelihood, in nats per row, below which iterations stop.
        restarts: number of random starts; the likeliest mixture is kept.
        seed: of all randomness.

    Raises:
        ChoiceError: a number is out of range.
    """

    learner: Learner | ContextTrees | Lem = Learner()  # noqa: RUF009 - a frozen value
    ess: float = 1.0
    iterations: int = 100
    rounds: int = 5
    tolerance: float = 1e-4
    restarts: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if not (0 < self.ess < inf and self.tolerance > 0):
            raise ChoiceError("the equivalent sample size and the tolerance must be above 0, and finite")
        if min(self.iterations, self.rounds, self.restarts) < 1 or self.seed < 0:
            raise ChoiceError("iterations, rounds and restarts must be at least 1, and the seed at least 0")

    @property
    def trees(self) -> Learner:
        """The learner of junction trees; of LEM, which has none, one of treewidth 0."""
        if isinstance(self.learner, Lem):
            return Learner(treewidth=0)
        return self.learner.learner if isinstance(self.learner, ContextTrees) else self.learner

    def with_trees(self, **changes: Any) -> EmOptions:
        """Returns the options with another learner of junction trees: some of its fields changed."""
        own = self.learner
        if isinstance(own, Lem):
            return self
        trees = replace(self.trees, **changes)
        return replace(self, learner=replace(own, learner=trees) if isinstance(own, ContextTrees) else trees)


def fit_mixture(
    table: DataTable,
    components: int,
    how: EmOptions | None = None,
    progress: ProgressMessage | None = None,
    *,
    deadline: float | None = None,
) -> Mixture:
    """Returns a mixture fitted to data.

    Ctrl-C returns the best mixture so far, as in `solve`. The provenance records under "stop" why EM ended:
    "finished", "time" or "interrupted".

    Args:
        table: the data, with its weights.
        components: at least 1 and at most the number of distinct rows.
        how: the options.
        progress: called with messages.
        deadline: of `time.monotonic()`, at which to return the best mixture so far.

    Raises:
        ChoiceError: the number of components is out of range.
        LimitError: the learner found no tree within its limits, time ran out before the first mixture, or the
            responsibilities do not fit in memory.
        KeyboardInterrupt: Ctrl-C came before the first mixture.
    """
    how = how or EmOptions()
    progress = progress or (lambda _words: None)
    rows = distinct_rows(table)
    if not 1 <= components <= rows.rows:
        raise ChoiceError(f"{components} components for {rows.rows} distinct rows; give 1 to {rows.rows}")
    require_room(_SHARE_TABLES * components * rows.rows, "the responsibilities", "fewer components", 8)
    need = resident_memory() + 8 * _SHARE_TABLES * components * rows.rows
    memory = how.trees.memory
    if memory is not None and need > memory:
        raise LimitError(
            f"with the responsibilities, the process would hold {need / 1e9:.3g} GB, but the memory limit is "
            f"{memory / 1e9:.3g} GB; give fewer components, or a larger limit"
        )
    times = np.ones(rows.rows) if rows.weights is None else rows.weights.astype(np.float64)
    best: Mixture | None = None
    likelihood, stop = -inf, Stop.FINISHED
    for start in range(how.restarts):
        generator = np.random.default_rng([how.seed, start])
        run = _EmRun(rows, times, components, how, generator=generator, progress=progress, deadline=deadline)
        try:
            stop = run.go()
            if run.found is None:  # stopped before its first mixture
                break
            mean = _mean(run.found.log_likelihood(rows), times)
            if best is None or mean > likelihood:
                best, likelihood = run.found, mean
            progress(f"start {start + 1} of {how.restarts}: {mean:.4f} nats per row")
        except KeyboardInterrupt:  # between two starts
            best, stop = best or run.found, Stop.INTERRUPTED
        if stop is not Stop.FINISHED:
            break
    if best is None:
        if stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        raise LimitError(
            f"time ran out before the first mixture of {components} components; give more time, fewer "
            "components, or a faster backend, such as forward"
        )
    remarks = {"components": components, "restarts": how.restarts, "seed": how.seed}
    facts = {"mixture": remarks, "smoothing_ess": how.ess, "stop": stop.value}
    return replace(best, provenance=MappingProxyType({**table.provenance, **facts}))


def fit_mixture_validated(
    table: DataTable,
    validation: DataTable | Codes,
    how: EmOptions | None = None,
    *,
    sizes: Sequence[int] = SIZES,
    treewidths: Sequence[int] | None = None,
    candidates: Sequence[float] = CANDIDATES,
    progress: ProgressMessage | None = None,
    deadline: float | None = None,
) -> Mixture:
    """Returns the mixture, over sizes, treewidths and priors, under which validation rows are likeliest.

    Sizes are tried in the given order, which should be increasing, until one is no better than the best. Then
    narrower trees are tried, from the best size on, until a treewidth is no better than the last. The choice
    is in the mixture's provenance. Ctrl-C and the deadline return the best so far; an unfinished mixture is
    compared with its own prior only.

    Args:
        table: the training data.
        validation: other rows of the same columns, as a table or codes; see `log_likelihood`.
        how: the options; after fitting with its `ess`, the tables are refitted with each candidate.
        sizes: numbers of components to try, at least one.
        treewidths: of the components, to try after the learner's own, in this order; None for all below it,
            the largest first, down to 1.
        candidates: equivalent sample sizes to try, above 0, at least one.
        progress: called with messages.
        deadline: see `fit_mixture`.

    Raises:
        ChoiceError: there is nothing to try, or a size exceeds the number of distinct rows.
        LimitError: as `fit_mixture`.
        KeyboardInterrupt: Ctrl-C came before the first mixture.
    """
    if not sizes or not candidates:
        raise ChoiceError("there is no size or no prior to try; give at least one of each")
    how = how or EmOptions()
    choice = _BestMixture(table, validation, how, candidates, progress=progress, deadline=deadline)
    own = min(how.trees.treewidth, table.n - 1)
    for treewidth in (own, *(range(own - 1, 0, -1) if treewidths is None else treewidths)):
        before = choice.likelihood
        for size in [size for size in sizes if choice.best is None or size >= len(choice.best.components)]:
            if not choice.improves(size, treewidth) or choice.stop != Stop.FINISHED.value:
                break
        if choice.stop != Stop.FINISHED.value or choice.likelihood == before:
            break
    assert choice.best is not None, "there is at least one size"
    facts = {**choice.best.provenance, "sizes_tried": choice.tried, "stop": choice.stop}
    return replace(choice.best, provenance=MappingProxyType(facts))


class _BestMixture:
    """The mixture under which validation rows are likeliest, of those tried.

    Attributes:
        best: the mixture.
        likelihood: its mean log-likelihood per row of validation.
        stop: why the last search for a mixture ended.
        tried: for the provenance.
    """

    def __init__(
        self,
        table: DataTable,
        validation: DataTable | Codes,
        how: EmOptions,
        candidates: Sequence[float],
        *,
        progress: ProgressMessage | None,
        deadline: float | None,
    ) -> None:
        self.table, self.validation, self.how, self.candidates = table, validation, how, candidates
        self.progress, self.deadline = progress or (lambda _words: None), deadline
        weights = None if isinstance(validation, np.ndarray) else validation.weights
        count = validation.shape[1] if isinstance(validation, np.ndarray) else validation.rows
        self.times = np.ones(count) if weights is None else weights.astype(np.float64)
        self.best: Mixture | None = None
        self.likelihood, self.stop = -inf, Stop.FINISHED.value
        self.tried: list[dict[str, float]] = []

    def improves(self, size: int, treewidth: int) -> bool:
        """Tries a size and a treewidth, and tells whether their mixture is the best so far.

        Interrupted or late, it keeps the best, or takes the mixture as it is if there is no other.
        """
        mixture = None
        try:
            how = self.how.with_trees(treewidth=treewidth)
            mixture = fit_mixture(self.table, size, how, self.progress, deadline=self.deadline)
            self.stop = mixture.provenance["stop"]
            mixture, mean = self.tuned(mixture, self.candidates if self.stop == Stop.FINISHED.value else ())
        except (LimitError, KeyboardInterrupt) as error:
            self.best = self.best or mixture
            interrupted = isinstance(error, KeyboardInterrupt)
            is_late = self.deadline is not None and monotonic() >= self.deadline
            if self.best is None or not (interrupted or is_late):  # nothing to return, or another limit
                raise
            self.stop = (Stop.INTERRUPTED if interrupted else Stop.TIME).value
            return False
        shape = {"components": size}
        if not isinstance(self.how.learner, Lem):
            shape["treewidth"] = treewidth
        self.tried.append({**shape, "validation_log_likelihood": mean})
        self.progress(f"{words_of(shape)}: {mean:.4f} nats per row of validation")
        if self.best is not None and mean <= self.likelihood:
            return False
        self.best, self.likelihood = mixture, mean
        return True

    def tuned(self, mixture: Mixture, candidates: Sequence[float]) -> tuple[Mixture, float]:
        """Returns the mixture with its own or the best candidate prior, and the mean of `log_likelihood`."""
        best, likelihood = mixture, self.mean(mixture)
        for other in _with_priors(mixture, self.table, candidates) if candidates else ():
            value = self.mean(other)
            if value > likelihood:
                best, likelihood = other, value
        return best, likelihood

    def mean(self, mixture: Mixture) -> float:
        """Returns the mean log-likelihood per row of validation."""
        return _mean(mixture.log_likelihood(self.validation), self.times)


def words_of(shape: Mapping[str, float]) -> str:
    """Returns the size of a mixture that was tried in words.

    >>> words_of({"components": 4, "treewidth": 2})
    '4 components of treewidth 2'
    """
    components = shape["components"]
    of = f" of treewidth {shape['treewidth']}" if "treewidth" in shape else ""
    return f"{components} component{'s' * (components > 1)}{of}"


def _mean(logs: NDArray[np.float64], times: NDArray[np.float64]) -> float:
    """Returns the mean log-likelihood per row; -inf if a row is impossible."""
    return float(np.average(logs, weights=times))


def _shares(mixture: Mixture, rows: DataTable) -> NDArray[np.float64]:
    """Returns the responsibilities r_k(x), shape (components, rows): the E-step."""
    logs = mixture.log_joint(rows)
    shares: NDArray[np.float64] = np.exp(logs - log_sum(logs))
    return shares


def _with_priors(mixture: Mixture, table: DataTable, candidates: Sequence[float]) -> list[Mixture]:
    """Returns the mixture with its tables refitted under each prior, responsibilities fixed."""
    rows = distinct_rows(table)
    shares = _shares(mixture, rows)
    return [
        replace(
            mixture,
            components=tuple(
                refitted(structure_of(one), rows, ess, share)
                for one, share in zip(mixture.components, shares, strict=True)
            ),
            provenance=MappingProxyType({**mixture.provenance, "smoothing_ess": ess}),
        )
        for ess in candidates
    ]


def structure_of(component: Component) -> Structure:
    """Returns what `refitted` takes."""
    return component if isinstance(component, FeatureTree) else component.tree


class _EmRun(EmRun):
    """EM from one random start.

    Attributes:
        found: the mixture of the last M-step.
    """

    def __init__(
        self,
        rows: DataTable,
        times: NDArray[np.float64],
        components: int,
        how: EmOptions,
        *,
        generator: np.random.Generator,
        progress: ProgressMessage,
        deadline: float | None,
    ) -> None:
        self.rows, self.times, self.k, self.how = rows, times, components, how
        self.generator, self.progress, self.deadline = generator, progress, deadline
        self.found: Mixture | None = None

    def fit(self) -> None:
        """See `EmRun`."""
        shares = self.first_shares()
        trees: list[Structure | None] = [None] * self.k
        for turn in range(self.how.rounds):
            found: list[Structure] = []
            for k, share in enumerate(shares):
                known = trees[k] or (found[-1] if found else None)
                if known is not None and self.is_late:  # the trees so far make a mixture
                    found.append(known)
                else:
                    found.append(self.learn(k, share, trees[k], known))
            if found == trees:
                break
            trees = list(found)
            shares = self.iterate(found, shares, turn)
            if self.is_late:
                return
        self.found = self.maximised(found, shares)

    def first_shares(self) -> NDArray[np.float64]:
        """Returns responsibilities by the nearest of k centres, drawn as in k-means++."""
        codes = self.rows.codes
        centre = int(self.generator.choice(self.rows.rows, p=self.times / self.times.sum()))
        distances = [self.distance(centre)]
        for _ in range(1, self.k):
            far = np.min(distances, axis=0) ** 2 * self.times
            centre = int(self.generator.choice(codes.shape[1], p=far / far.sum()))
            distances.append(self.distance(centre))
        nearest = np.argmin(distances, axis=0)
        rest = (1 - _FIRST_SHARE) / max(1, self.k - 1)
        shares = np.full((self.k, codes.shape[1]), rest if self.k > 1 else 1.0)
        if self.k > 1:
            shares[nearest, np.arange(codes.shape[1])] = _FIRST_SHARE
        return shares

    def distance(self, row: int) -> NDArray[np.float64]:
        """Returns the Hamming distance of each row to one; only the row itself has 0."""
        codes = self.rows.codes
        out = np.zeros(codes.shape[1])
        for column in codes:
            out += column != column[row]
        return out

    def learn(
        self, k: int, share: NDArray[np.float64], old: Structure | None, known: Structure | None
    ) -> Structure:
        """Returns the new structure of a component, or the old one if that is no worse.

        The search begins at the old one. If the time ends within it, the answer is one that is known.
        """
        if self.k == 1:
            return old or self.searched(self.rows, None)
        drawn = self.generator.binomial(self.times.astype(np.int64), np.minimum(share, 1.0))
        if not drawn.any():
            drawn[int(np.argmax(share))] = 1
        kept = drawn > 0
        part = replace(self.rows, codes=self.rows.codes[:, kept], weights=drawn[kept])
        self.progress(f"tree {k + 1} of {self.k}, from {int(drawn.sum())} rows")
        try:
            new = self.searched(part, old)
        except LimitError:
            if known is None or not self.is_late:
                raise
            return known
        if old is None or (new != old and self.expected_score(new, share) > self.expected_score(old, share)):
            return new
        return old

    def searched(self, table: DataTable, old: Structure | None) -> Structure:
        """Returns what the learner makes of some rows."""
        learner = self.how.learner
        if isinstance(learner, ContextTrees):
            return fit_context_tree(table, learner, deadline=self.deadline)
        if isinstance(learner, Lem):
            return fit_lem(table, learner, deadline=self.deadline)
        assert not isinstance(old, FeatureTree), "it learns junction trees"
        return learner(table, self.deadline, old)

    def expected_score(self, structure: Structure, share: NDArray[np.float64]) -> float:
        """Returns the expected log-likelihood of a structure, less the penalty, in nats."""
        model = self.fitted(structure, share)
        belongs = share * self.times
        size = max(float(belongs.sum()), 1.0)
        logs = model.log_likelihood(self.rows)
        return float(belongs @ logs) - 0.5 * log(size) * model.parameters

    def fitted(self, structure: Structure, share: NDArray[np.float64]) -> Component:
        """Returns the component of a structure: its part of the M-step."""
        return refitted(structure, self.rows, self.how.ess, share)

    def maximised(self, structures: Sequence[Structure], shares: NDArray[np.float64]) -> Mixture:
        """Returns the mixture with tables and weights fitted to the responsibilities: the M-step."""
        weights = shares @ self.times
        models = tuple(self.fitted(one, share) for one, share in zip(structures, shares, strict=True))
        return Mixture(weights / weights.sum(), models)

    def iterate(
        self, trees: Sequence[Structure], shares: NDArray[np.float64], turn: int
    ) -> NDArray[np.float64]:
        """Runs E- and M-steps on fixed trees until the gain is small; returns the responsibilities."""
        before = -inf
        for step in range(self.how.iterations):
            self.found = self.maximised(trees, shares)
            logs = self.found.log_joint(self.rows)
            totals = log_sum(logs)
            shares = np.exp(logs - totals)
            mean = _mean(totals, self.times)
            self.progress(f"round {turn + 1}, iteration {step + 1}: {mean:.4f} nats per row")
            if mean - before < self.how.tolerance or self.is_late:
                break
            before = mean
        return shares
