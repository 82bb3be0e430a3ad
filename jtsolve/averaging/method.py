"""The protocol of averaging methods, with their queries, results and refusals.

A method is a frozen value whose fields are its options; `registry` lists the methods.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from jtsolve.averaging.posterior import GraphPosterior
from jtsolve.core.machine import describe_machine
from jtsolve.core.result import Stop
from jtsolve.core.scores import StoppedError
from jtsolve.errors import LimitError, RefusedError
from jtsolve.options import TIME, TREEWIDTH
from jtsolve.scoring.problem import WHOLE, Tabulation
from jtsolve.solving import solve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jtsolve.cluster import Cluster
    from jtsolve.core.backend import Capabilities
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits, Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.tables.partitions import AnyTable

MARGINAL_LIKELIHOODS = ("bdeu", "bdj", "bge", "niw")
"""Scores that are logarithms of marginal likelihoods."""
_PER_VERTEX = 200
"""Bytes of a drawn tree per vertex."""


class SourceRows(NamedTuple):
    """The data of a problem and their score, for methods that resample rows."""

    score: ScoreFunction
    table: AnyTable


@dataclass(frozen=True, slots=True)
class Query:
    """A request for a posterior.

    Args:
        problem: scores and constraints.
        run: limits and seed, progress and interruption.
        edge_odds: prior odds of an edge.
        threshold: cliques and separators of a smaller probability or expectation are not listed.
        cluster: runs chains and resamples as tasks, with the same result; None for this process.
        rows: the data of the problem; None for an instance.
    """

    problem: Problem
    run: Run
    edge_odds: float
    threshold: float
    cluster: Cluster | None = None
    rows: SourceRows | None = None

    @contextmanager
    def working(self) -> Iterator[None]:
        """Signals and limits end the work in the body.

        Raises:
            LimitError: the time limit is reached before any result.
            KeyboardInterrupt: Ctrl-C or SIGTERM before any result.
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
        """Returns the posterior with the figures of a method.

        Args:
            best: the graph of highest weight found.
            seconds: seconds of each phase.
            diagnostics: diagnostics of the method.
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
            environment=describe_machine(self.run.limits.workers),
            seconds={**seconds, "total": self.run.limits.elapsed},
            diagnostics=diagnostics,
            **parts,
        )


@dataclass(frozen=True, slots=True)
class Draws:
    """Trees drawn from the posterior, all of equal weight.

    Attributes:
        trees: canonical junction trees, in the order of the draws; equal graphs share a tree.
        method: "exact": independent draws; "certified": independent draws from a distribution within
            `diagnostics["total_variation"]` of the posterior; "chains": equally spaced graphs of converged
            chains.
        diagnostics: diagnostics of the method, as JSON values; empty for exact draws.
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
            RefusedError: the method does not support the problem; with every reason.
            LimitError: the tables exceed the memory limit, or the time limit is reached before any result.
            KeyboardInterrupt: Ctrl-C or SIGTERM before any result.
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
            drawn: whether graphs are to be drawn, which needs more memory.
        """
        ...


class Tabulated:
    """A method that tabulates by one rule at any size of the table."""

    __slots__ = ()
    rule: ClassVar[Tabulation] = WHOLE

    def tabulation(self, *_: Any, **__: Any) -> Tabulation:
        """See `AveragingMethod`."""
        return self.rule


def remark_on_scores(problem: Problem) -> str | None:
    """Returns a warning if the scores are not log marginal likelihoods."""
    score = problem.provenance.get("score")
    if not isinstance(score, str) or score in MARGINAL_LIKELIHOODS:
        return None
    return (
        f"the score {score} is not a log marginal likelihood: the average uses e^{score} instead, and the "
        "probabilities are approximations"
    )


def require_supported(problem: Problem, capabilities: Capabilities, method: str) -> None:
    """Refuses a problem that a method does not support.

    Args:
        problem: scores and constraints.
        capabilities: of the method.
        method: its name, for the message.

    Raises:
        RefusedError: with every reason.
    """
    if objections := capabilities.objections(problem):
        raise RefusedError(method, objections)


def require_room(count: int, n: int, limits: Limits) -> None:
    """Checks that drawn trees fit the memory limit.

    Args:
        count: number of trees.
        n: number of variables.
        limits: the memory limit.

    Raises:
        LimitError: the trees exceed the limit.
    """
    if count * n * _PER_VERTEX > limits.memory_bytes:
        raise LimitError(
            f"{count} trees of {n} variables need more than the memory limit of "
            f"{limits.memory_bytes / 1e9:.3g} GB. Fix: draw fewer"
        )


def best_tree(problem: Problem, run: Run) -> JunctionTree | None:
    """Returns the tree of the highest score that `auto` finds within the limits, or None."""
    try:
        return solve(problem, None, run).tree
    except LimitError:
        return None


def ended(run: Run) -> Exception | KeyboardInterrupt:
    """Returns the error of an interrupted run without a result."""
    if run.stop is Stop.INTERRUPTED:
        return KeyboardInterrupt()
    return LimitError(
        "the time limit was reached before the first result: partial sums, or chains of fewer than 100 "
        f"rounds, are none. Ways out: a larger {TIME}, a smaller {TREEWIDTH}, or fewer columns."
    )
