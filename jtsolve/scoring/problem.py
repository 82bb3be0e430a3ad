"""Problems from data: the columns of a table are the variables.

A `Tabulation` decides whether scores are tabulated before the search or computed on demand.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from jtsolve.core.backend import MOST_COMPUTED, Backend, ReadsLargerSets
from jtsolve.core.files import LARGEST
from jtsolve.core.machine import resident_memory
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.pruning import MOST_VARIABLES
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import StoppedError
from jtsolve.core.varset import members
from jtsolve.core.version import __version__
from jtsolve.errors import ChoiceError, InputError, LimitError
from jtsolve.options import MAX_SIZE, MEMORY, TREEWIDTH
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scorers import make_scorer
from jtsolve.scoring.tabulate import TableEstimate, estimate, proceed_in, tabulate_with
from jtsolve.scoring.triples import MANY_SETS, SEARCHED_SIZE, suits
from jtsolve.tables.options import COLUMNS, REAL, STATES
from jtsolve.tables.partitions import PartitionedTable
from jtsolve.tables.table import ContinuousTable, MixedTable

if TYPE_CHECKING:
    from jtsolve.core.scores import DenseScores, LocalScores
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.scoring.scorer import Scorer
    from jtsolve.tables.partitions import AnyTable


@dataclass(frozen=True, slots=True)
class Tabulation:
    """The rule by which all scores are tabulated before the search; otherwise each is computed on demand.

    Exact backends need a table, and reading it is faster. But it holds every set of at most `max_size`
    variables, and heuristics read few of them.

    Args:
        seconds: maximum predicted time of a tabulation.
        share: maximum share of the memory and the time left.
        on_demand: maximum number of scores that are computed on demand if the time limit ends the tabulation;
            more scores need a table.
        searched: maximum number of sets of three binary columns in a table: searches of more sets need the
            columns, which a table hides.
    """

    seconds: float
    share: float
    on_demand: float = inf
    searched: float = inf

    def obstacle(self, cost: TableEstimate, limits: Limits) -> str | None:
        """Returns the requirement of the table that exceeds the rule, or None."""
        held = resident_memory()
        most = held + self.share * (limits.memory_bytes - held)
        if held + cost.memory > most:
            return (
                f"{(held + cost.memory) / 1e9:.3g} GB of memory, but at most {most / 1e9:.3g} GB are allowed"
            )
        left = inf if limits.time is None else max(0.0, limits.time - limits.elapsed)
        longest = min(self.seconds, self.share * left)
        if cost.seconds > longest:
            return f"about {cost.seconds:.3g} s, but at most {longest:.3g} s are allowed"
        return None


BEFORE_SEARCH = Tabulation(seconds=3.0, share=0.5, searched=MANY_SETS)
"""For `auto`, which prefers exact backends and promises a first tree within five seconds."""
WITHIN_LIMITS = Tabulation(seconds=inf, share=1.0, searched=MANY_SETS)
"""For exact backends that also read scores on demand."""
FOR_ALL_SCORES = Tabulation(seconds=inf, share=1.0, on_demand=MOST_COMPUTED)
"""For backends that need a table unless there are few scores."""
WHOLE = Tabulation(seconds=inf, share=1.0, on_demand=0)
"""For files of all scores, exact sums, and partitions."""
FOR_HEURISTICS = Tabulation(seconds=0.1, share=0.5)
"""For heuristics, which read few sets and may run for dozens of trees: about the time of `forward`."""


def tabulation_for(backend: Backend | None) -> Tabulation:
    """Returns the rule for a search by a backend; None stands for `auto`."""
    if backend is None:
        return BEFORE_SEARCH
    if backend.capabilities.needs_table:
        return FOR_ALL_SCORES
    return WITHIN_LIMITS if backend.capabilities.exact else FOR_HEURISTICS


def largest_scored(backend: Backend | None, treewidth: int) -> int:
    """Returns the size of the largest sets to score for a search by a backend; None stands for `auto`."""
    largest = treewidth + 1
    return max(largest, backend.largest_read(treewidth)) if isinstance(backend, ReadsLargerSets) else largest


@dataclass(frozen=True, slots=True)
class ScoringPlan:
    """A plan to provide the scores of a table.

    Attributes:
        scorer: of the columns.
        max_size: the size of the largest scored sets.
        run: time, memory and threads, and progress.
        cost: predicted cost of a tabulation.
        tabulation: the rule.
        obstacle: the reason for scores on demand, or None for a table.
    """

    scorer: Scorer
    max_size: int
    run: Run
    cost: TableEstimate
    tabulation: Tabulation
    obstacle: str | None = None

    def under(self, tabulation: Tabulation) -> ScoringPlan:
        """Returns the plan under another rule; scores of partitions are always tabulated."""
        if isinstance(self.scorer.table, PartitionedTable):
            tabulation = WHOLE
        obstacle = tabulation.obstacle(self.cost, self.run.limits)
        if self.cost.sets > tabulation.searched and self.max_size == SEARCHED_SIZE and suits(self.scorer):
            obstacle = f"{self.cost.sets} scores, and searches of binary columns read few of them"
        return replace(self, tabulation=tabulation, obstacle=obstacle)

    @property
    def required(self) -> bool:
        """Whether the problem needs a table, even if the time limit ends the tabulation."""
        return self.cost.sets > self.tabulation.on_demand

    def require_file(self) -> None:
        """Checks that a table of all scores, and a file of it, fit the limits.

        Raises:
            LimitError: they do not; names the largest size that does.
        """

        def obstacle(cost: TableEstimate) -> str | None:
            reason = WHOLE.obstacle(cost, self.run.limits)
            if reason is None and cost.file_bytes > LARGEST:
                return (
                    f"a file of {cost.file_bytes / 1e9:.3g} GB, but at most {LARGEST / 1e9:.3g} GB are read"
                )
            return reason

        if (found := obstacle(self.cost)) is None:
            return
        workers = self.run.limits.workers
        smaller = range(self.max_size - 1, 0, -1)
        fitting = (size for size in smaller if obstacle(estimate(self.scorer, size, workers)) is None)
        way = "" if (size := next(fitting, None)) is None else f"{MAX_SIZE(size)}, "
        raise LimitError(
            f"the scores of all sets of at most {self.max_size} of {self.scorer.table.n} variables need "
            f"{found}. Ways out: {way}fewer columns ({COLUMNS}), or a larger {MEMORY}"
        )

    def problem(self, constraints: Constraints | None = None, *, name: str = "") -> Problem:
        """Returns the problem, with data, score and version as its provenance; see `problem_from_table`.

        Raises:
            LimitError: scores of partitions do not fit in a table.
        """
        table = self.scorer.table
        if self.obstacle is not None and isinstance(table, PartitionedTable):
            raise LimitError(
                f"a table of all scores needs {self.obstacle}, and scores of partitions are not computed on "
                f"demand. Ways out: smaller sets ({MAX_SIZE}), fewer columns ({COLUMNS}), a larger {MEMORY}"
            )
        scores: LocalScores | None = self._tabulated() if self.obstacle is None else None
        if scores is None:
            scores = DataScores.from_scorer(self.scorer, self.max_size)
        states = (None,) * table.n if isinstance(table, ContinuousTable) else table.states
        own = constraints or Constraints()
        require_marks(table, own)
        if isinstance(table, MixedTable):
            own = own.joined(Constraints(real_variables=table.real_variables))
        return Problem(
            tuple(map(Variable, table.names, states)),
            scores,
            own,
            name,
            _provenance(self.scorer),
            max(1, round(table.total)),
            tuple(self.scorer.ceilings().tolist()),
        )

    def _tabulated(self) -> DenseScores | None:
        """Returns the table, or None if the run or its share of the time ends and no table is required."""
        run = self.run
        if not self.required and run.left < inf:
            run = run.part(self.tabulation.share * run.left)
        try:
            return tabulate_with(
                self.scorer, self.max_size, workers=run.threads, proceed=lambda done: proceed_in(run, done)
            )
        except (LimitError, StoppedError):
            if self.required or run.stop is None:
                raise
            return None


def require_marks(table: AnyTable, constraints: Constraints) -> None:
    """Checks that constraints mark no variables as real, or those with real columns.

    Raises:
        InputError: they mark others.
    """
    real = sum(1 << v for v in range(table.n)) if isinstance(table, ContinuousTable) else 0
    if isinstance(table, MixedTable):
        real = table.real_variables
    if constraints.real_variables not in (0, real):
        v = next(iter(members(constraints.real_variables ^ real)))
        missed = "it is not marked, but its column is real"
        reason = missed if real >> v & 1 else "it is marked as real, but its column holds states"
        remedy = f"leave real_variables out, since the data decide; declare columns with {REAL} or {STATES}"
        raise InputError("constraints", f"real_variables, '{table.names[v]}'", reason, remedy)


def plan_scores(
    table: AnyTable,
    score: ScoreFunction,
    max_size: int | None,
    run: Run,
    *,
    tabulation: Tabulation = BEFORE_SEARCH,
) -> ScoringPlan:
    """Plans the scores of all sets of at most `max_size` columns.

    Args:
        table: the data.
        score: to compute.
        max_size: size of the largest sets; None for all columns.
        run: limits and seed.
        tabulation: the rule for tabulation.

    Raises:
        ChoiceError: no size is given for too many columns; see also `scorers.make_scorer`.
        InputError: the table does not allow the score.
    """
    if max_size is None and table.n > MOST_VARIABLES:
        raise ChoiceError(
            f"the size of the scored sets is missing, and {table.n} columns are more than the "
            f"{MOST_VARIABLES} for sets of any size; give {TREEWIDTH}"
        )
    max_size = table.n if max_size is None else min(max_size, table.n)
    scorer = make_scorer(table, score, max_size)
    workers = run.threads
    if isinstance(table, PartitionedTable):
        with table.cluster.connected() as connection:
            workers = connection.threads
    cost = estimate(scorer, max_size, workers)
    return ScoringPlan(scorer, max_size, run, cost, tabulation).under(tabulation)


def problem_from_table(
    table: AnyTable,
    score: ScoreFunction,
    *,
    treewidth: int | None = None,
    max_size: int | None = None,
    constraints: Constraints | None = None,
    run: Run | None = None,
    backend: Backend | None = None,
    tabulation: Tabulation | None = None,
    name: str = "",
) -> Problem:
    """Returns the problem of finding the best junction tree over the columns of a table.

    Args:
        table: the data; see `jtsolve.tables.reading`, and for partitions `jtsolve.tables.partitions`.
        score: of states for a `DataTable`, of real numbers for a `ContinuousTable`.
        treewidth: a bound, besides that of the constraints; None for none.
        max_size: the size of the largest scored sets; None for the largest that the backend reads
            (`largest_scored`), or without a treewidth for sets of any size.
        constraints: on the tree; None for none.
        run: time, memory, threads and progress; None for the defaults. If the time limit ends a tabulation,
            scores are computed on demand, unless the rule requires a table.
        backend: the backend of the search; None for `auto`.
        tabulation: the rule for tabulation; None for that of the backend (`tabulation_for`).
        name: of the problem.

    Raises:
        ChoiceError: neither treewidth nor size is given, for more than 26 columns, or the score does not fit
            the kind of table.
        InputError: the table does not allow the score; see `scorers.make_scorer`.
        LimitError: the time limit ended a required tabulation.
        StoppedError: the run was interrupted.

    >>> import numpy as np
    >>> from jtsolve.scoring.scores.bic import Bic
    >>> from jtsolve.tables.table import DataTable
    >>> table = DataTable(("a", "b"), (("no", "yes"),) * 2, np.array([[0, 0, 1, 1], [0, 0, 1, 1]]))
    >>> problem_from_table(table, Bic(), treewidth=1).names
    ('a', 'b')
    """
    if max_size is None and treewidth is not None:
        max_size = largest_scored(backend, treewidth)
    tabulation = tabulation or tabulation_for(backend)
    plan = plan_scores(table, score, max_size, run or Run(), tabulation=tabulation)
    return plan.problem(constraints, name=name).with_treewidth(treewidth)


def _provenance(scorer: Scorer) -> dict[str, Any]:
    # Scores are dataclasses, which their protocol cannot express.
    parameters = asdict(scorer.score)  # type: ignore[call-overload]
    own = {"score": scorer.score.name, **parameters, "jtsolve": __version__}
    return {"rows": scorer.table.total, **scorer.table.provenance, **own}
