"""The result of a solve: status, score and bound, kept apart from the reason why the work stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jtsolve.core.notebook import as_html
from jtsolve.core.scores import StoppedError
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.options import MEMORY, TIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jtsolve.core.problem import Constraints
    from jtsolve.core.tree import JunctionTree


class Status(Enum):
    """The conclusion of a solve."""

    OPTIMAL = "optimal"
    """The tree's score is within `optimality_tolerance` of the bound."""
    FEASIBLE = "feasible"
    """A tree was found; there may be a better one."""
    INFEASIBLE = "infeasible"
    """No tree meets the constraints, and this is proved."""
    UNKNOWN = "unknown"
    """No tree was found, and infeasibility was not proved."""


class Stop(Enum):
    """Why the work ended."""

    FINISHED = "finished"
    TIME = "time"
    MEMORY = "memory"
    STEPS = "steps"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    """The scheduler of the workers was lost."""


OPTIMALITY_TOLERANCE = 1e-6
"""A gap of at most this many nats counts as optimal: above the rounding of scores of 10^6 nats, and far below
any difference that data can show."""


RELATIVE_TOLERANCE = 1e-12
"""Relative to the score: sums of hundreds of float64 numbers in different orders differ by less."""


def optimality_tolerance(score: float) -> float:
    """Returns the gap, in nats, up to which a tree of this score counts as optimal.

    That is 10^-6 up to scores of 10^6 nats, and 10^-12 of the score above, where float64 sums round by more.
    All comparisons of scores and bounds have this tolerance.

    >>> optimality_tolerance(-1234.5), round(optimality_tolerance(-1e8), 9)
    (1e-06, 0.0001)
    """
    return max(OPTIMALITY_TOLERANCE, RELATIVE_TOLERANCE * abs(score))


def gap_in_words(gap: float | None, score: float | None, figures: Mapping[str, Any]) -> str:
    """Returns a gap in nats, per row of the data, and as a share of the tree's gain over independence.

    A gap above that gain is uninformative, and no share is given.

    Args:
        gap: in nats; None for none.
        score: of the tree, in nats.
        figures: the stats of a result: `rows`, and `independence`, the score of the graph without edges.

    >>> gap_in_words(12.5, -900.0, {"rows": 1000, "independence": -1150.0})
    '12.500000 nats, 0.0125 nats per row, 5 % of the gain over independence'
    """
    if gap is None:
        return "none"
    parts = [f"{gap:.6f} nats"]
    if gap <= optimality_tolerance(score or 0.0):
        return parts[0]
    rows, independence = figures.get("rows"), figures.get("independence")
    if rows:
        parts.append(f"{gap / rows:.3g} nats per row")
    if score is not None and independence is not None and score > independence:
        share = gap / (score - independence)
        known = f"{100 * share:.3g} % of the gain over independence"
        parts.append(
            known if share <= 1 else "more than the gain over independence: no useful bound is known"
        )
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Incumbent:
    """A step of the trace: the best score and bound, in nats, at `seconds` since the start."""

    seconds: float
    score: float | None
    bound: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The claim of a backend; `solve` verifies it and builds a `Result`.

    Args:
        tree: the best tree found, or None.
        bound: no tree of the problem scores more, in nats; inf if the backend proves nothing, -inf if it
            proves that no tree exists.
        stop: why the backend ended.
        stats: further figures, such as counts and predicted bytes.
        seconds: parts of the time, in seconds of wall clock.
    """

    tree: JunctionTree | None
    bound: float = inf
    stop: Stop = Stop.FINISHED
    stats: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The verified answer of one solve.

    Args:
        instance: the problem's name.
        digest: the problem's digest.
        names: the variables' names.
        constraints: on the tree, including the treewidth of the command line.
        backend: the backend's name.
        options: the backend's fields, as JSON values.
        status: the conclusion.
        stop: why the work ended.
        tree: the best tree, or None.
        score: the tree's score recomputed from the instance, in nats, or None.
        bound: no tree of the problem scores more, in nats; -inf if it is infeasible.
        seconds: wall clock: "total", and parts of it.
        trace: incumbents and bounds in the order of arrival.
        seed: the seed of the run.
        environment: versions and machine.
        stats: further figures of the backend.

    Raises:
        ValueError: the parts contradict each other.
    """

    instance: str
    digest: str
    names: tuple[str, ...]
    constraints: Constraints
    backend: str
    options: Mapping[str, Any]
    status: Status
    stop: Stop
    tree: JunctionTree | None
    score: float | None
    bound: float
    seconds: Mapping[str, float]
    trace: tuple[Incumbent, ...] = ()
    seed: int = 0
    environment: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    stats: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if (self.tree is None) != (self.score is None):
            raise ValueError("a result has both a tree and a score, or neither")
        if (self.tree is not None) != (self.status in (Status.OPTIMAL, Status.FEASIBLE)):
            raise ValueError(f"status '{self.status.value}' contradicts the tree, {self.tree}")
        if self.score is not None and self.bound < self.score:
            raise ValueError(f"the bound {self.bound} is below the score {self.score}")
        if self.status is Status.OPTIMAL and not self.gap <= optimality_tolerance(self.score or 0.0):
            raise ValueError(f"status 'optimal' with a gap of {self.gap}")
        if (self.status is Status.INFEASIBLE) != (self.bound == -inf):
            raise ValueError("the bound is -inf if and only if the problem is infeasible")

    def __repr__(self) -> str:
        parts = [f"bound {self.bound:.10g}"]
        if self.tree is not None:
            cliques, n = len(self.tree.cliques), self.tree.n
            gap = [] if self.status is Status.OPTIMAL else [f"gap {self.gap:.3g}"]
            parts = [f"score {self.score:.10g}", *parts, *gap]
            parts.append(f"{cliques} cliques of {n} variables, treewidth {self.treewidth}")
        return f"Result({self.status.value}: {', '.join(parts)}; {self.backend})"

    def _repr_html_(self) -> str | None:
        return as_html([repr(self), *self.remarks], self.tree, self.names)

    @property
    def remarks(self) -> list[str]:
        """The gap in words, for a result with a tree that is not proved optimal."""
        open_gap = self.score is not None and self.gap > optimality_tolerance(self.score)
        return [f"gap: {gap_in_words(self.gap, self.score, self.stats)}"] if open_gap else []

    @property
    def gap(self) -> float:
        """Bound minus score, in nats; inf without a tree, 0 if the problem is infeasible."""
        if self.status is Status.INFEASIBLE:
            return 0.0
        return inf if self.score is None else self.bound - self.score

    @property
    def treewidth(self) -> int | None:
        """The tree's treewidth, or None without a tree."""
        return None if self.tree is None else self.tree.treewidth


def require_tree(result: Result) -> JunctionTree:
    """Returns the tree of a result.

    Raises:
        ChoiceError: no tree meets the constraints, which is proved.
        StoppedError: the run was interrupted before there was one.
        LimitError: none was found within the limits.
    """
    if result.tree is not None:
        return result.tree
    if result.status is Status.INFEASIBLE:
        raise ChoiceError(
            "no tree meets the constraints, which is proved; relax them: `jtsolve explain` and "
            "Solution.explain() name those in conflict"
        )
    if result.stop is Stop.INTERRUPTED:
        raise StoppedError
    raise LimitError(
        f"backend '{result.backend}' found no tree within the limits; give a larger {TIME} or {MEMORY}, or "
        "use a faster backend, such as forward"
    )
