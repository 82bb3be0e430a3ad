"""What a backend is: a frozen value with a name, declared capabilities, and one verb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic  # not the module: the field `time` hides it in the class body
from typing import (
    TYPE_CHECKING,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypedDict,
    Unpack,
    runtime_checkable,
)

from jtsolve.core.machine import cores, free_memory, resident_memory
from jtsolve.core.problem import ALL_FEATURES, Feature, Problem
from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.errors import ChoiceError, LimitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from jtsolve.core.result import Outcome, Stop
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet

Rule: TypeAlias = Callable[[Problem], str | None]
"""A condition beyond features: None if the problem meets it, else the objection in one sentence."""


_MOST_COMPUTED = 1 << 18
"""Scores that are computed for a backend that needs them all: a matter of some seconds."""


def needs_table(problem: Problem) -> str | None:
    """Objects to scores that are computed on demand, where all of them are too many: a rule."""
    sets = count_bounded_subsets(problem.n, problem.max_clique_size)
    if isinstance(problem.scores, DenseScores | SparseScores) or sets <= _MOST_COMPUTED:
        return None
    return (
        f"It needs the scores of all {sets} sets of at most {problem.max_clique_size} variables as a table, "
        "and these are computed on demand; make the table first (jtsolve score --max-size, "
        "jtsolve.scoring.tabulate), lower the treewidth, or take a backend that asks for few, such as "
        "forward or lns."
    )


def _never(_problem: Problem) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend declares; asked before any work.

    Args:
        features: the constraints that it supports.
        exact: whether it proves optimality when it finishes.
        max_variables: the largest n that it takes, or None.
        any_size: tells of a problem whether it is taken however many variables it has.
        rules: further conditions, each a function that returns its objection.
        rank: of heuristic backends, `auto` takes one of the highest rank: 0 for one that makes its own tree,
            one more than theirs for one that improves the trees of others, so that its own are no worse; two
            more if they have been measured to be better than those of the other improvers.
        threads: of heuristic backends, `auto` takes one only with at least so many, where there is another.
    """

    features: frozenset[Feature] = ALL_FEATURES
    exact: bool = False
    max_variables: int | None = None
    any_size: Callable[[Problem], bool] = _never
    rules: tuple[Rule, ...] = ()
    rank: int = 0
    threads: int = 1

    def objections(self, problem: Problem) -> tuple[str, ...]:
        """Returns every reason why the backend cannot take the problem, one sentence each."""
        reasons = [
            f"It does not support the constraint {feature.value}."
            for feature in sorted(problem.constraints.features - self.features, key=lambda f: f.value)
        ]
        too_many = self.max_variables is not None and problem.n > self.max_variables
        if too_many and not self.any_size(problem):
            reasons.append(f"It takes at most {self.max_variables} variables, not {problem.n}.")
        reasons.extend(reason for rule in self.rules if (reason := rule(problem)) is not None)
        return tuple(reasons)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may spend, and its seed.

    Args:
        time: seconds of wall clock from `started`, everything counted; None for no limit.
        memory: bytes that the process may hold; None for what it holds and 80 % of what the machine has free.
        threads: at least 1; None for all cores that the process may use.
        seed: for everything random.
        started: `time.monotonic()` at the start.

    Raises:
        ChoiceError: a limit is not positive.
    """

    time: float | None = None
    memory: int | None = None
    threads: int | None = None
    seed: int = 0
    started: float = field(default_factory=monotonic)

    def __post_init__(self) -> None:
        for name in ("time", "memory", "threads"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ChoiceError(f"the limit '{name}' is {value}; it must be above 0")
        if self.memory is None:  # asked once: choosing and solving must see the same limit
            object.__setattr__(self, "memory", resident_memory() + int(0.8 * free_memory()))

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return monotonic() - self.started

    @property
    def workers(self) -> int:
        """The number of threads to use."""
        return self.threads or cores()

    @property
    def memory_bytes(self) -> int:
        """The bytes that the process may hold."""
        assert self.memory is not None, "set by the constructor"
        return self.memory


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run is predicted to cost: bytes of peak memory of the process, seconds of wall clock."""

    memory: int
    seconds: float

    def require_memory(self, backend: str, limits: Limits) -> None:
        """Refuses work that the memory limit has no room for; for backends without a smaller way to do it.

        Raises:
            LimitError: with the need, the limit, and the ways out.
        """
        if self.memory > limits.memory_bytes:
            raise LimitError(
                f"backend '{backend}' needs {self.memory / 1e9:.3g} GB, but the memory limit is "
                f"{limits.memory_bytes / 1e9:.3g} GB. Ways out: a larger --memory-limit where the machine "
                "has it; fewer scores, such as of a smaller max_size."
            )


class News(TypedDict, total=False):
    """News of a run; a key that is absent or None says nothing.

    Attributes:
        tree: one that meets the constraints; its score is recomputed by whoever takes the news.
        bound: no tree of the problem scores more, in nats.
        done: the fraction of the work that is done, 0 to 1.
        note: the current phase, in a few words.
    """

    tree: JunctionTree | None
    bound: float | None
    done: float | None
    note: str | None


class Report(Protocol):
    """Takes news as they come, and answers whether to continue; any thread may use it."""

    @property
    def stop(self) -> Stop | None:
        """Why the backend has to stop now, or None to continue."""
        ...

    @property
    def incumbent(self) -> JunctionTree | None:
        """The best tree reported so far by anyone, or None.

        In a portfolio it may come from any member, some tenths of a second late. A backend that improves
        trees may continue from it whenever it restarts; alone, it finds there what it reported itself.
        """
        ...

    def __call__(self, **news: Unpack[News]) -> bool:
        """Takes news; returns whether to continue."""
        ...


class Backend(Protocol):
    """A way to solve problems. Its options are the fields of a frozen dataclass."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it supports."""
        ...

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """Returns the predicted cost of a problem to which there are no objections."""
        ...

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """Solves a problem to which there are no objections.

        Raises:
            LimitError: the work needs more memory than the limit; raised before anything is allocated.
        """
        ...


class SmallTask(NamedTuple):
    """A problem of a few variables, without constraints but those that its scores make.

    Attributes:
        variables: how many there are.
        masks: shape (K,), int64: the sets that may have a score, as masks in increasing order, ∅ first.
        scores: shape (K,): theirs in nats; -inf for none.
        covered: sets that the tree has to hold within its cliques.
        target: a tree is wanted only if it scores more, in nats.
    """

    variables: int
    masks: NDArray[np.int64]
    scores: NDArray[np.float64]
    covered: tuple[VarSet, ...]
    target: float


class SmallAnswer(NamedTuple):
    """The optimum in nats, up to rounding, and a tree that has it: no cliques unless above the target."""

    value: float
    cliques: tuple[VarSet, ...]
    edges: tuple[tuple[int, int], ...]


class SmallSolver(Protocol):
    """Solves groups of small problems exactly, and much faster than one by one; threads may share it."""

    @property
    def most(self) -> int:
        """The variables of the largest problems that it takes."""
        ...

    @property
    def group(self) -> int:
        """How many problems it takes at a time."""
        ...

    def memory(self, variables: int) -> int:
        """Returns the bytes that a group of problems of so many variables takes."""
        ...

    def __call__(self, tasks: Sequence[SmallTask]) -> list[SmallAnswer]:
        """Solves a group; fewer problems, or smaller ones beside larger ones, take as long as a full one."""
        ...


@runtime_checkable
class SolvesSmall(Protocol):
    """What an exact backend may have besides: a solver for groups of small problems."""

    def small_solver(self, width: int) -> SmallSolver:
        """Returns the solver for problems with cliques of at most `width` members."""
        ...
