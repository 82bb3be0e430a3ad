"""The protocol of backends, and their capabilities, limits, estimates and reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypedDict, Unpack, runtime_checkable

from jtsolve.core.problem import ALL_FEATURES, Problem, ProblemFeature
from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.errors import LimitError
from jtsolve.options import MEMORY, TIME, TREEWIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from jtsolve.core.result import Outcome, Stop
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet

Rule: TypeAlias = Callable[[Problem], str | None]
"""A condition beyond features; returns None if the problem meets it, else the objection in one sentence."""


MOST_COMPUTED = 1 << 18
"""The most scores computed on demand for a backend that needs them all: a few seconds of work."""


def lacks_table(problem: Problem) -> str | None:
    """A rule: objects to scores computed on demand where there are too many to compute them all."""
    sets = count_bounded_subsets(problem.n, problem.max_clique_size)
    if isinstance(problem.scores, DenseScores | SparseScores) or sets <= MOST_COMPUTED:
        return None
    return (
        f"It needs a table of the scores of all {sets} sets of at most {problem.max_clique_size} variables, "
        "but they are computed on demand; make the table first (jtsolve score --max-size, "
        f"jtsolve.scoring.tabulate), give a larger {TIME} and {MEMORY}, or a smaller {TREEWIDTH}, or use a "
        "backend that reads few scores, such as forward or lns."
    )


def _never(_problem: Problem) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The declarations of a backend, checked before any work.

    Args:
        features: the constraints that it supports.
        exact: whether it proves optimality when it finishes.
        max_variables: the largest n that it accepts, or None.
        needs_table: whether it reads all scores, and so accepts scores on demand only if they are few.
        any_size: whether it accepts a problem regardless of `max_variables` and `needs_table`.
        rules: further conditions, each a function that returns its objection.
        rank: preference of `auto` among heuristics; higher is tried first. 0 for a backend that builds its
            own tree; one above its starts for one that improves their trees, which is never worse; two above
            if measurements show it better than the other improvers.
        searches_wide: whether `auto` prefers it where sets of five or more are scored on demand.
        threads: `auto` prefers other heuristics where fewer threads are available.
        predictable: whether the time of a proof follows from the sizes; in branch and bound it depends on the
            scores more, and `auto` has a search run beside it.
    """

    features: frozenset[ProblemFeature] = ALL_FEATURES
    exact: bool = False
    max_variables: int | None = None
    needs_table: bool = False
    any_size: Callable[[Problem], bool] = _never
    rules: tuple[Rule, ...] = ()
    rank: int = 0
    searches_wide: bool = False
    threads: int = 1
    predictable: bool = True

    def objections(self, problem: Problem) -> tuple[str, ...]:
        """Returns every reason why the backend cannot accept the problem, one sentence each."""
        reasons = [
            f"It does not support the constraint {feature.value}."
            for feature in sorted(problem.constraints.features - self.features, key=lambda f: f.value)
        ]
        rules = self.rules
        if not self.any_size(problem):
            if self.max_variables is not None and problem.n > self.max_variables:
                reasons.append(f"It supports at most {self.max_variables} variables, not {problem.n}.")
            rules = (lacks_table, *rules) if self.needs_table else rules
        reasons.extend(reason for rule in rules if (reason := rule(problem)) is not None)
        return tuple(reasons)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The predicted cost of a run: peak memory of the process in bytes, wall clock in seconds."""

    memory: int
    seconds: float

    def require_memory(self, backend: str, limits: Limits) -> None:
        """Refuses work that exceeds the memory limit; for backends that cannot do it in less.

        Raises:
            LimitError: with the need, the limit, and the remedies.
        """
        if self.memory > limits.memory_bytes:
            raise LimitError(
                f"backend '{backend}' needs {self.memory / 1e9:.3g} GB, but the memory limit is "
                f"{limits.memory_bytes / 1e9:.3g} GB. Ways out: a larger {MEMORY} where the machine "
                f"has it; fewer scores, as with a smaller {TREEWIDTH}."
            )


class News(TypedDict, total=False):
    """Progress of a backend; an absent key, or None, means unknown.

    Attributes:
        tree: one that meets the constraints; its score is recomputed.
        bound: no tree of the problem scores more, in nats.
        done: the fraction of the work that is done, 0 to 1.
        note: the current phase, in a few words.
    """

    tree: JunctionTree | None
    bound: float | None
    done: float | None
    note: str | None


class Report(Protocol):
    """Receives incumbents, bounds and progress, and returns whether to continue; any thread may use it."""

    @property
    def stop(self) -> Stop | None:
        """Why the backend has to stop now, or None to continue."""
        ...

    @property
    def incumbent(self) -> JunctionTree | None:
        """The best tree reported so far by anyone, or None.

        In a portfolio it may come from any member, a few tenths of a second late. A backend that improves
        trees may continue from it whenever it restarts; alone, it finds its own reports there.
        """
        ...

    def __call__(self, **news: Unpack[News]) -> bool:
        """Records news; returns whether to continue."""
        ...


class Backend(Protocol):
    """A way to solve problems. Its options are the fields of a frozen dataclass."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """The declarations checked before any work."""
        ...

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """Returns the predicted cost of a problem without objections."""
        ...

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """Solves a problem without objections.

        Args:
            problem: to solve.
            limits: time, memory and threads; the backend stops when `report.stop` is not None.
            report: receives trees, bounds and progress while the backend runs.

        Raises:
            LimitError: the work needs more memory than the limit; raised before anything is allocated.
        """
        ...


@runtime_checkable
class ReadsLargerSets(Protocol):
    """A backend that reads the scores of sets larger than any clique."""

    def largest_read(self, treewidth: int) -> int:
        """Returns the size of the largest sets whose scores it reads at a treewidth."""
        ...


class SmallTask(NamedTuple):
    """A problem of a few variables, constrained only by its scores and `covered`.

    Attributes:
        variables: their number.
        masks: shape (K,), int64: the sets that may have a score, as masks in increasing order, ∅ first.
        scores: shape (K,): the scores in nats; -inf for none.
        covered: sets that must each lie within a clique of the tree.
        target: a tree is needed only if it scores more, in nats.
    """

    variables: int
    masks: NDArray[np.int64]
    scores: NDArray[np.float64]
    covered: tuple[VarSet, ...]
    target: float


class SmallAnswer(NamedTuple):
    """The optimum in nats, up to rounding, and a tree that attains it; no cliques unless above the target."""

    value: float
    cliques: tuple[VarSet, ...]
    edges: tuple[tuple[int, int], ...]


class SmallSolver(Protocol):
    """Solves batches of small problems exactly, much faster than singly; threads may share it."""

    @property
    def most(self) -> int:
        """The largest number of variables it accepts."""
        ...

    @property
    def group(self) -> int:
        """The number of problems in a group."""
        ...

    def memory(self, variables: int) -> int:
        """Returns the bytes that a group of problems of this many variables needs."""
        ...

    def __call__(self, tasks: Sequence[SmallTask]) -> list[SmallAnswer]:
        """Solves a batch; the time of a partial or mixed one is that of a full one of the largest size."""
        ...


@runtime_checkable
class SolvesSmall(Protocol):
    """An exact backend that also has a solver for groups of small problems."""

    def small_solver(self, width: int) -> SmallSolver:
        """Returns the solver for problems with cliques of at most `width` members."""
        ...
