"""Averaging methods: their queries and answers.

A method is a frozen value whose fields are its options; `registry` has their names.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from jtsolve.averaging.posterior import GraphPosterior
from jtsolve.averaging.running import ended
from jtsolve.core.machine import describe_machine
from jtsolve.core.scores import StoppedError
from jtsolve.scoring.problem import WHOLE, Tabulation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jtsolve.cluster import Cluster
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits, Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.tables.partitions import AnyTable

MARGINAL_LIKELIHOODS = ("bdeu", "bdj", "bge", "niw")
"""Scores that are logarithms of marginal likelihoods."""


class SourceRows(NamedTuple):
    """The rows behind a problem, for methods that resample them, and their score."""

    score: ScoreFunction
    table: AnyTable


@dataclass(frozen=True, slots=True)
class Query:
    """A request for a posterior.

    Args:
        problem: scores and constraints.
        run: limits and seed, progress and interruption.
        edge_odds: prior odds of an edge against none.
        threshold: the least probability of the cliques, and the least expectation of the separators, to list.
        cluster: runs chains and resamples as tasks, with the same result; None for this process.
        rows: those behind the problem; None where there are none.
    """

    problem: Problem
    run: Run
    edge_odds: float
    threshold: float
    cluster: Cluster | None = None
    rows: SourceRows | None = None

    @property
    def limits(self) -> Limits:
        """The limits of the run."""
        return self.run.limits

    @contextmanager
    def working(self) -> Iterator[None]:
        """Has signals and the limits end the work in the body.

        Raises:
            LimitError: the time ended before any result.
            KeyboardInterrupt: Ctrl-C or SIGTERM came before any result.
        """
        with self.run.interruptible():
            try:
                yield
            except StoppedError:
                raise ended(self.run) from None

    def posterior(
        self,
        best: JunctionTree | None,
        *,
        seconds: dict[str, float],
        diagnostics: dict[str, Any],
        **parts: Any,
    ) -> GraphPosterior:
        """Returns the posterior with the parts that a method found.

        Args:
            best: the graph of highest weight found.
            seconds: of each phase.
            diagnostics: of the method.
            parts: other fields of `GraphPosterior`.
        """
        if (remark := remark_on_scores(self.problem)) is not None:
            diagnostics = {**diagnostics, "remark": remark}
        return GraphPosterior(
            instance=self.problem.name,
            digest=self.problem.digest(),
            names=self.problem.names,
            threshold=self.threshold,
            prior={"over": "graphs", "edge_odds": self.edge_odds},
            best=best,
            environment=describe_machine(self.limits.workers),
            seconds={**seconds, "total": self.limits.elapsed},
            diagnostics=diagnostics,
            **parts,
        )


@dataclass(frozen=True, slots=True)
class Draws:
    """Trees drawn from the posterior, all of equal weight.

    Attributes:
        trees: canonical junction trees, in the order drawn; equal graphs share one.
        method: "exact": independent draws; "certified": the same, from a distribution that differs from the
            posterior by `diagnostics["total_variation"]` at most; "chains": equally spaced graphs of chains
            that have converged.
        diagnostics: of the method, as JSON values; empty for exact draws.
    """

    trees: tuple[JunctionTree, ...]
    method: Literal["exact", "certified", "chains"]
    diagnostics: Mapping[str, Any]


class AveragingMethod(Protocol):
    """Computes a posterior, and draws from it."""

    name: ClassVar[str]

    def average(self, query: Query) -> GraphPosterior | None:
        """Returns the posterior, or None if no graph meets the constraints.

        Raises:
            ChoiceError: the method does not support the options.
            RefusedError: it does not support the problem; with every reason.
            LimitError: the tables need more memory than allowed, or the time ended before any result.
            KeyboardInterrupt: Ctrl-C or SIGTERM came before any result.
        """
        ...

    def draw(self, query: Query, count: int) -> Draws | None:
        """Returns trees drawn from the posterior, or None if no graph meets the constraints.

        Raises:
            NotConvergedError: the chains disagree.
            ChoiceError, RefusedError, LimitError, KeyboardInterrupt: as `average`.
        """
        ...

    def tabulation(self, n: int, largest: int, limits: Limits, *, drawn: bool = False) -> Tabulation:
        """Returns when to tabulate the scores of all sets of at most `largest` of n variables.

        Args:
            n: the number of variables.
            largest: the size of the largest set.
            limits: of memory.
            drawn: whether graphs are to be drawn, which takes more memory.
        """
        ...


class Tabulated:
    """A method that tabulates by one rule at any size of the table."""

    __slots__ = ()
    rule: ClassVar[Tabulation] = WHOLE

    def tabulation(
        self,
        n: int,  # noqa: ARG002
        largest: int,  # noqa: ARG002
        limits: Limits,  # noqa: ARG002
        *,
        drawn: bool = False,  # noqa: ARG002
    ) -> Tabulation:
        """See `AveragingMethod`."""
        return self.rule


def remark_on_scores(problem: Problem) -> str | None:
    """Returns a warning if the scores are known not to be log marginal likelihoods."""
    score = problem.provenance.get("score")
    if not isinstance(score, str) or score in MARGINAL_LIKELIHOODS:
        return None
    return (
        f"the score {score} is not a log marginal likelihood: e^{score} is averaged in its place, and the "
        "probabilities are approximations"
    )
