"""What `jtsolve score` and `jtsolve solve DATA` share: a data file read, and its scores."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtsolve.errors import ChoiceError, LimitError

if TYPE_CHECKING:
    from jtsolve.core.backend import Limits
    from jtsolve.core.problem import Problem
    from jtsolve.core.scores import DenseScores, LocalScores
    from jtsolve.scoring.prior import StructurePrior
    from jtsolve.scoring.score import LocalScore
    from jtsolve.scoring.scorer import Scorer
    from jtsolve.scoring.tabulate import TableEstimate
    from jtsolve.solve import Listener
    from jtsolve.tables.options import Coding
    from jtsolve.tables.table import Table


@dataclass(frozen=True, slots=True)
class Task:
    """What to score, and how."""

    data: Path
    score: "LocalScore"
    max_size: int
    coding: "Coding"
    prior: "StructurePrior | None" = None
    header: bool = True
    separator: str | None = None
    also: tuple[str, ...] = ()


def chosen_score(name: str, ess: float | None) -> "LocalScore":
    """Returns the score asked for."""
    from jtsolve.scoring.registry import REGISTRY
    from jtsolve.scoring.scores.bdeu import Bdeu

    if name not in REGISTRY:
        raise ChoiceError(f"there is no score '{name}'; there are {', '.join(REGISTRY)}")
    if ess is None:
        return REGISTRY[name]
    if name != Bdeu.name:
        raise ChoiceError(
            f"an equivalent sample size is for the score 'bdeu', not for '{name}'; leave out --ess"
        )
    return Bdeu(ess)


_SETS_IN_ADVANCE = 20_000_000
"""Where not every score will be asked for, more sets than these are not scored in advance: 160 MB."""


def score_data(
    task: Task,
    limits: "Limits",
    say: Callable[[str], None],
    *,
    shows_progress: bool,
    on_demand: bool = False,
    all_asked: bool = True,
) -> "Problem":
    """Reads data, says what scoring them will cost, and returns the problem.

    Args:
        task: what to score.
        limits: of time and memory; for threads.
        say: takes what is to be known before the work, and after.
        shows_progress: whether to show progress on standard error.
        on_demand: whether scores may be computed when they are asked for, where a table exceeds the limits.
        all_asked: whether all scores will be asked for; if not, a large table is not filled either.

    Raises:
        InputError: the data are not as they have to be.
        LimitError: the work would exceed the limits, or has.
    """
    from jtsolve.cli.progress import progress
    from jtsolve.core.problem import Problem, Variable
    from jtsolve.scoring.lazy import DataScores
    from jtsolve.scoring.tabulate import estimate
    from jtsolve.tables.table import DataTable

    with progress(f"reading {task.data.name}", shown=shows_progress) as listener:
        table = _read(task, limits, listener)
        max_size = min(task.max_size, table.n)  # all sets of at most ten of eight variables are all sets
        scorer = _scorer(task, table, max_size, listener)
    cost = estimate(scorer, max_size, limits.workers)
    families = "jkl" in task.also or "pss" in task.also
    reason = _excess(scorer, max_size, limits, families=families)
    if reason is None and not all_asked and cost.sets > _SETS_IN_ADVANCE:
        reason = f"{cost.sets} sets, of which few will be asked for"
    scores: LocalScores
    if reason is not None and on_demand:
        say(_data_in_words(scorer) + f"; scores are computed on demand: a table would need {reason}")
        scores = DataScores(table, task.score, max_size, prior=task.prior)
    else:
        say(_forecast(scorer, cost) + _others(scorer, max_size, task.also))
        if reason is not None:
            raise _no_room(scorer, max_size, reason, limits, families=families)
        scores = _tabulated(scorer, max_size, limits, say, shows_progress=shows_progress)
    states: list[tuple[str, ...] | None] = [None] * table.n
    if isinstance(table, DataTable):
        states = list(table.states)
    variables = tuple(map(Variable, table.names, states))
    return Problem(
        variables, scores, name=_stem(task.data), provenance=_provenance(task, scorer), rows=table.total
    )


def _read(task: Task, limits: "Limits", listener: "Listener | None") -> "Table":
    """Returns the table in the data file; ends where time or memory do."""
    from jtsolve.core.machine import resident_memory
    from jtsolve.scoring.score import is_discrete
    from jtsolve.tables.reading import read_numbers, read_states

    def watch(*, rows: int, memory: int) -> None:
        if listener is not None:
            note = f"reading {task.data.name}: {rows} rows"
            listener(seconds=limits.elapsed, score=None, bound=inf, done=None, note=note)
        if limits.time is not None and limits.elapsed >= limits.time:
            raise LimitError(
                f"the time limit ended the reading of {task.data} after {rows} rows; nothing is written. "
                "Ways out: more time, fewer columns (--columns, --drop)"
            )
        need = resident_memory() + memory
        if need > limits.memory_bytes:
            raise LimitError(
                f"the different rows among the first {rows} of {task.data} need {need / 1e9:.3g} GB of "
                f"memory, but the limit is {limits.memory_bytes / 1e9:.3g} GB. Ways out: fewer columns "
                "(--columns, --drop), which have fewer different rows, or a larger --memory-limit"
            )

    read = read_states if is_discrete(task.score) else read_numbers
    return read(task.data, task.coding, header=task.header, separator=task.separator, watch=watch)


def _scorer(task: Task, table: "Table", max_size: int, listener: "Listener | None") -> "Scorer":
    """Returns what scores sets of columns; says so where kernels are compiled for it."""
    from jtsolve.core.compiling import announced
    from jtsolve.scoring.scorer import make_scorer

    with announced(lambda: _tell_compiling(listener)):
        return make_scorer(table, task.score, max_size, task.prior)


def _tell_compiling(listener: "Listener | None") -> None:
    if listener is not None:
        note = "compiling the kernels (first run only)"
        listener(seconds=0.0, score=None, bound=inf, done=None, note=note)


def _tabulated(
    scorer: "Scorer", max_size: int, limits: "Limits", say: Callable[[str], None], *, shows_progress: bool
) -> "DenseScores":
    """Returns the table of scores; ends where time does."""
    from jtsolve.cli.progress import progress
    from jtsolve.core.compiling import announced
    from jtsolve.scoring.tabulate import estimate, tabulate_with

    note = f"{estimate(scorer, max_size).sets} sets by {scorer.score.name}"
    with progress(note, shown=shows_progress) as listener:

        def report(*, done: float) -> bool:
            if listener is not None:
                listener(seconds=limits.elapsed, score=None, bound=inf, done=done, note=note)
            return limits.time is None or limits.elapsed < limits.time

        began = time.perf_counter()
        with announced(lambda: _tell_compiling(listener)):
            scores = tabulate_with(scorer, max_size, workers=limits.workers, progress=report)
        say(f"scored in {time.perf_counter() - began:.2f} s")
    return scores


def _stem(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    return name.rpartition(".")[0] or name


def _provenance(task: Task, scorer: "Scorer") -> dict[str, Any]:
    from dataclasses import asdict

    from jtsolve import __version__

    # asdict: scores are dataclasses, which their protocol cannot say.
    parameters = asdict(task.score)  # type: ignore[call-overload]
    penalties = {f"{name}_penalty": value for name, value in asdict(scorer.prior).items() if value}
    return {
        **scorer.table.provenance,
        "score": task.score.name,
        **parameters,
        **penalties,
        "jtsolve": __version__,
    }


def _forecast(scorer: "Scorer", cost: "TableEstimate") -> str:
    """Returns what the data are, and what scoring them is predicted to cost."""
    return (
        f"{_data_in_words(scorer)}; {cost.sets} sets, {_duration(cost.seconds)}, "
        f"{in_words(cost.file_bytes)} as .json or {in_words(cost.packed_bytes)} as .json.gz"
    )


def _data_in_words(scorer: "Scorer") -> str:
    return f"{scorer.table.total} rows of {scorer.table.n} variables"


def _others(scorer: "Scorer", max_size: int, also: tuple[str, ...]) -> str:
    """Returns how large the files beside the instance are predicted to be."""
    from jtsolve.io.bn_scores import FAMILY_FORMATS, family_bytes, require_words
    from jtsolve.scoring.tabulate import estimate

    if not set(FAMILY_FORMATS).isdisjoint(also):
        require_words(scorer.table.names, "--also")
    plain = estimate(scorer, max_size).file_bytes
    family = family_bytes(scorer.table.names, max_size)
    return "".join(f", {in_words(family if kind in FAMILY_FORMATS else plain)} as .{kind}" for kind in also)


def _duration(seconds: float) -> str:
    return "less than a second" if seconds < 1 else f"about {seconds:.2g} s"


def in_words(count: int) -> str:
    """Returns a number of bytes in words.

    >>> in_words(1500), in_words(25_000_000)
    ('1.5 kB', '25 MB')
    """
    unit, name = (1e3, "kB") if count < 1e6 else (1e6, "MB") if count < 1e9 else (1e9, "GB")  # noqa: PLR2004
    return f"{count / unit:.3g} {name}"


def _excess(scorer: "Scorer", max_size: int, limits: "Limits", *, families: bool) -> str | None:
    """Returns by what a table of scores would exceed the limits, or None if it does not."""
    from jtsolve.core.files import LARGEST
    from jtsolve.core.machine import resident_memory
    from jtsolve.io.bn_scores import family_bytes
    from jtsolve.scoring.tabulate import estimate

    cost = estimate(scorer, max_size, limits.workers)
    file = max(cost.file_bytes, family_bytes(scorer.table.names, max_size) if families else 0)
    memory = resident_memory() + cost.memory + 2 * (file - cost.file_bytes)
    if memory > limits.memory_bytes:
        return f"{memory / 1e9:.3g} GB of memory, but the limit is {limits.memory_bytes / 1e9:.3g} GB"
    if file > LARGEST:
        return f"a file of {file / 1e9:.3g} GB, but no more than {LARGEST / 1e9:.3g} GB are read"
    left = inf if limits.time is None else limits.time - limits.elapsed
    if cost.seconds > left:
        return f"about {cost.seconds:.3g} s, but {max(0.0, left):.3g} s are left"
    return None


def _no_room(scorer: "Scorer", max_size: int, reason: str, limits: "Limits", *, families: bool) -> LimitError:
    """Returns the refusal of a table that exceeds the limits, with the largest size that does not."""
    sizes = range(max_size - 1, 0, -1)
    fitting = next((size for size in sizes if _excess(scorer, size, limits, families=families) is None), None)
    way = f"--max-size {fitting}, " if fitting else ""
    return LimitError(
        f"the scores of all sets of at most {max_size} of {scorer.table.n} variables need {reason}. "
        f"Ways out: {way}fewer columns (--columns, --drop), or a larger limit"
    )


def make_coding(
    *,
    missing: str,
    discretise: str | None,
    columns: str | None = None,
    drop: str | None = None,
    weights: str | None = None,
    missing_values: str | None = None,
    schema: Path | None = None,
    class_column: str | None = None,
    max_states: int = 1000,
) -> "Coding":
    """Returns the coding that options ask for."""
    from jtsolve.tables.options import GAPS, Coding, Discretisation
    from jtsolve.tables.reading import read_declarations

    declared, declared_class = ({}, None) if schema is None else read_declarations(schema)
    return Coding(
        columns=None if columns is None else names_in(columns),
        drop=() if drop is None else names_in(drop),
        weights=weights,
        missing=missing,  # type: ignore[arg-type]  # checked there
        gaps=GAPS if missing_values is None else names_in(missing_values),
        discretise=None if discretise is None else Discretisation.parse(discretise),
        schema=declared,
        class_column=class_column or declared_class,
        max_states=max_states,
    )


def names_in(text: str) -> tuple[str, ...]:
    """Returns the words between commas."""
    return tuple(name.strip() for name in text.split(","))


def silent(_text: str) -> None:
    """Says nothing."""
