"""Mixtures from data by expectation-maximisation, the trees learned anew as the parts become distinct.

E-step: how much of each row belongs to each component, r_k(x) ∝ w_k P_k(x). M-step: w_k is the mean of r_k,
the tables of P_k are fitted to the rows weighted by r_k. This goes on until the gain per row is small. Then
each component's tree is learned from rows that are drawn by their r_k (whole counts, of which the weighted
ones are the expectation), and it replaces the old one only if

    Σ_x r_k(x) ln P_k(x) − ½ ln N_k · (parameters of P_k),     N_k = Σ_x r_k(x),

increases. It ends when no tree changes; or at a deadline, or by Ctrl-C, with the mixture of the last M-step:
the likelihood of the rows has not decreased on the way there, but for the prior and new trees.

References: A. P. Dempster, N. M. Laird and D. B. Rubin, Journal of the Royal Statistical Society B 39, 1977;
N. Friedman, The Bayesian structural EM algorithm, UAI 1998; M. Meilă and M. I. Jordan, Journal of Machine
Learning Research 1, 2000. First parts: D. Arthur and S. Vassilvitskii, k-means++, SODA 2007, with the Hamming
distance.

Time: an iteration takes rows × Σ |C| for each component, and learning the trees what the learner takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.machine import resident_memory
from jtsolve.core.result import Stop
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.models.inference.likelihood import log_likelihood as tree_log_likelihood
from jtsolve.models.layout import require_room
from jtsolve.models.learning.fit import CANDIDATES, fit
from jtsolve.models.learning.learner import Learner
from jtsolve.models.mixture import Mixture, log_joint, log_likelihood, log_sum
from jtsolve.scoring.scorer import distinct_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.table import Codes, DataTable

    Told = Callable[[str], None]

_FIRST_SHARE = 0.9
"""How much of a row belongs at first to the component whose centre is nearest."""
_SHARE_TABLES = 5
"""Arrays of components × rows at one time: shares, logarithms twice, two that exponentials make."""
SIZES = (1, 2, 4, 8, 16)
"""Numbers of components that `fit_mixture_validated` tries."""


@dataclass(frozen=True, slots=True)
class EmOptions:
    """How a mixture is fitted.

    Args:
        learner: learns a tree from a table.
        ess: the equivalent sample size of the prior of every component's tables, above 0.
        iterations: the most E-steps between two times of learning trees.
        rounds: the most times of learning trees.
        tolerance: the gain of the mean log-likelihood, in nats per row, below which an iteration is the last.
        restarts: how often all is begun anew; the likeliest mixture is taken.
        seed: of everything random.

    Raises:
        ChoiceError: a number is not as said.
    """

    learner: Learner = Learner()  # noqa: RUF009 - a frozen value
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


def fit_mixture(
    table: DataTable,
    components: int,
    how: EmOptions | None = None,
    told: Told | None = None,
    *,
    deadline: float | None = None,
) -> Mixture:
    """Returns a mixture fitted to data.

    Ctrl-C ends it with the best mixture so far, as `solve` ends with the best tree. The provenance says under
    "stop" why it ended: "finished", "time" or "interrupted".

    Args:
        table: the data; its weights count.
        components: how many, at least 1 and at most the number of different rows.
        how: the options.
        told: is told of progress in a few words.
        deadline: an instant of `time.monotonic()` at which to end with the best mixture so far.

    Raises:
        ChoiceError: the number of components is not as said.
        LimitError: the learner found no tree within its limits, or the time ended before the first mixture;
            or the components' shares of the rows need more memory than there is.
        KeyboardInterrupt: Ctrl-C came before the first mixture.
    """
    how = how or EmOptions()
    told = told or (lambda _words: None)
    rows = distinct_rows(table)
    if not 1 <= components <= rows.rows:
        raise ChoiceError(f"{components} components for {rows.rows} different rows; give 1 to {rows.rows}")
    require_room(
        _SHARE_TABLES * components * rows.rows, "the components' shares of the rows", "fewer components", 8
    )
    need = resident_memory() + 8 * _SHARE_TABLES * components * rows.rows
    if how.learner.memory is not None and need > how.learner.memory:
        raise LimitError(
            f"the components' shares of the rows take the process to {need / 1e9:.3g} GB, but the memory "
            f"limit is {how.learner.memory / 1e9:.3g} GB; give fewer components, or a larger limit"
        )
    times = np.ones(rows.rows) if rows.weights is None else rows.weights.astype(np.float64)
    best: Mixture | None = None
    likelihood, stop = -inf, Stop.FINISHED
    for start in range(how.restarts):
        generator = np.random.default_rng([how.seed, start])
        run = _Run(rows, times, components, how, generator=generator, told=told, deadline=deadline)
        try:
            stop = run.go()
            if run.found is None:  # stopped before its first mixture
                break
            mean = _mean(log_likelihood(run.found, rows), times)
            if best is None or mean > likelihood:
                best, likelihood = run.found, mean
            told(f"start {start + 1} of {how.restarts}: {mean:.4f} nats per row")
        except KeyboardInterrupt:  # after the fit, before the next one
            best, stop = best or run.found, Stop.INTERRUPTED
        if stop is not Stop.FINISHED:
            break
    if best is None:
        if stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        raise LimitError(
            f"the time ended before there was a mixture of {components} components; give more time, fewer "
            "components, or a quicker backend, such as forward"
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
    candidates: Sequence[float] = CANDIDATES,
    told: Told | None = None,
    deadline: float | None = None,
) -> Mixture:
    """Returns the mixture under which the validation rows are likeliest, of several sizes and priors.

    A size after the first that is worse than the one before ends the search: sizes are meant to increase. The
    choice is in the mixture's provenance. Ctrl-C and the deadline end the search with the best so far;
    of the mixture at hand, only the prior that it has is tried then.

    Args:
        table: the data to fit to.
        validation: other rows of the same columns; or codes, -1 where a value is missing.
        how: the options; the tables of what is fitted with its `ess` are then fitted with each candidate.
        sizes: numbers of components to try, at least one; those above the number of different rows are not.
        candidates: equivalent sample sizes to try, above 0, at least one.
        told: is told of progress in a few words.
        deadline: an instant of `time.monotonic()` at which to end with the best mixture so far.

    Raises:
        ChoiceError: there is nothing to try.
        LimitError: the learner found no tree within its limits, or as `fit_mixture` says.
        KeyboardInterrupt: Ctrl-C came before the first mixture.
    """
    if not sizes or not candidates:
        raise ChoiceError("there is no size or no prior to try; give at least one of each")
    weights = None if isinstance(validation, np.ndarray) else validation.weights
    count = validation.shape[1] if isinstance(validation, np.ndarray) else validation.rows
    times = np.ones(count) if weights is None else weights.astype(np.float64)
    best: Mixture | None = None
    likelihood, stop = -inf, Stop.FINISHED.value
    tried = []
    for size in sizes:
        mixture = None
        try:
            mixture = fit_mixture(table, size, how, told, deadline=deadline)
            stop = mixture.provenance["stop"]
            tries = candidates if stop == Stop.FINISHED.value else ()
            here, mean = _tuned(mixture, table, validation, times, tries)
        except (LimitError, KeyboardInterrupt) as error:
            best = best or mixture
            interrupted = isinstance(error, KeyboardInterrupt)
            is_late = deadline is not None and monotonic() >= deadline
            if best is None or not (interrupted or is_late):  # nothing yet, or a limit of another kind
                raise
            stop = (Stop.INTERRUPTED if interrupted else Stop.TIME).value
            break
        tried.append({"components": size, "validation_log_likelihood": mean})
        if told is not None:
            told(f"{size} components: {mean:.4f} nats per row of validation")
        worse = best is not None and mean <= likelihood
        if not worse:
            best, likelihood = here, mean
        if worse or stop != Stop.FINISHED.value:
            break
    assert best is not None, "there is at least one size"
    return replace(best, provenance=MappingProxyType({**best.provenance, "sizes_tried": tried, "stop": stop}))


def _mean(logs: NDArray[np.float64], times: NDArray[np.float64]) -> float:
    """Returns the mean log-likelihood per row; -inf if a row is impossible."""
    return float(np.average(logs, weights=times))


def _shares(mixture: Mixture, rows: DataTable) -> NDArray[np.float64]:
    """Returns r_k(x), shape (components, rows): the E-step."""
    logs = log_joint(mixture, rows)
    shares: NDArray[np.float64] = np.exp(logs - log_sum(logs))
    return shares


def _tuned(
    mixture: Mixture,
    table: DataTable,
    validation: DataTable | Codes,
    times: NDArray[np.float64],
    candidates: Sequence[float],
) -> tuple[Mixture, float]:
    """Returns the mixture, or it with one of the priors, whichever suits the rows best, and their mean."""
    best, likelihood = mixture, _mean(log_likelihood(mixture, validation), times)
    for other in _with_priors(mixture, table, candidates) if candidates else ():
        value = _mean(log_likelihood(other, validation), times)
        if value > likelihood:
            best, likelihood = other, value
    return best, likelihood


def _with_priors(mixture: Mixture, table: DataTable, candidates: Sequence[float]) -> list[Mixture]:
    """Returns the mixture with its tables fitted again under each prior, to the shares that it has now."""
    rows = distinct_rows(table)
    shares = _shares(mixture, rows)
    return [
        replace(
            mixture,
            components=tuple(
                fit(one.tree, rows, ess=ess, weights=share)
                for one, share in zip(mixture.components, shares, strict=True)
            ),
            provenance=MappingProxyType({**mixture.provenance, "smoothing_ess": ess}),
        )
        for ess in candidates
    ]


class _Run:
    """One start: the rows, how much of each belongs to whom, and the trees.

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
        told: Told,
        deadline: float | None,
    ) -> None:
        self.rows, self.times, self.k, self.how = rows, times, components, how
        self.generator, self.told, self.deadline = generator, told, deadline
        self.found: Mixture | None = None

    @property
    def is_late(self) -> bool:
        """Tells whether the deadline is over."""
        return self.deadline is not None and monotonic() >= self.deadline

    def go(self) -> Stop:
        """Fits a mixture, `found`, and returns why it ended."""
        try:
            self.fit()
        except KeyboardInterrupt:
            return Stop.INTERRUPTED
        except LimitError:
            if not self.is_late:
                raise
        return Stop.TIME if self.is_late else Stop.FINISHED

    def fit(self) -> None:
        """Fits a mixture until no tree changes, or the deadline is over."""
        shares = self.first_shares()
        trees: list[JunctionTree | None] = [None] * self.k
        for turn in range(self.how.rounds):
            found = [self.learn(k, share, trees[k]) for k, share in enumerate(shares)]
            if found == trees:
                break
            trees = list(found)
            shares = self.iterate(found, shares, turn)
            if self.is_late:
                return
        self.found = self.maximised(found, shares)

    def first_shares(self) -> NDArray[np.float64]:
        """Returns shares by the nearest of k centres, drawn in proportion to the squared distance."""
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
        """Returns the number of columns in which each row differs from one; different rows differ."""
        codes = self.rows.codes
        out = np.zeros(codes.shape[1])
        for column in codes:
            out += column != column[row]
        return out

    def learn(self, k: int, share: NDArray[np.float64], old: JunctionTree | None) -> JunctionTree:
        """Returns the tree of a component: a new one if it is better than the old."""
        if self.k == 1:
            return old or self.how.learner(self.rows, self.deadline)
        drawn = self.generator.binomial(self.times.astype(np.int64), np.minimum(share, 1.0))
        if not drawn.any():
            drawn[int(np.argmax(share))] = 1
        kept = drawn > 0
        part = replace(self.rows, codes=self.rows.codes[:, kept], weights=drawn[kept])
        self.told(f"tree {k + 1} of {self.k}, from {int(drawn.sum())} rows")
        new = self.how.learner(part, self.deadline)
        if old is None or (new != old and self.worth(new, share) > self.worth(old, share)):
            return new
        return old

    def worth(self, tree: JunctionTree, share: NDArray[np.float64]) -> float:
        """Returns what a tree's expected log-likelihood is, less the penalty, in nats."""
        model = self.fitted(tree, share)
        belongs = share * self.times
        size = max(float(belongs.sum()), 1.0)
        return float(belongs @ tree_log_likelihood(model, self.rows)) - 0.5 * log(size) * model.parameters

    def fitted(self, tree: JunctionTree, share: NDArray[np.float64]) -> JunctionTreeModel:
        """Returns the component of a tree: the M-step."""
        return fit(tree, self.rows, ess=self.how.ess, weights=share)

    def maximised(self, trees: Sequence[JunctionTree], shares: NDArray[np.float64]) -> Mixture:
        """Returns the mixture of trees with tables and weights by the shares."""
        weights = shares @ self.times
        models = tuple(self.fitted(tree, share) for tree, share in zip(trees, shares, strict=True))
        return Mixture(weights / weights.sum(), models)

    def iterate(
        self, trees: Sequence[JunctionTree], shares: NDArray[np.float64], turn: int
    ) -> NDArray[np.float64]:
        """Returns the shares when E- and M-steps on these trees gain little."""
        before = -inf
        for step in range(self.how.iterations):
            self.found = self.maximised(trees, shares)
            logs = log_joint(self.found, self.rows)
            totals = log_sum(logs)
            shares = np.exp(logs - totals)
            mean = _mean(totals, self.times)
            self.told(f"round {turn + 1}, iteration {step + 1}: {mean:.4f} nats per row")
            if mean - before < self.how.tolerance or self.is_late:
                break
            before = mean
        return shares
