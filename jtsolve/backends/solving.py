"""A prepared problem in the hands of a solver, in a process of its own: what these backends have in common.

The process is given the families; it makes the formula, solves it, and sends the trees and bounds that it
finds as it finds them. So encoding counts as work, and can be killed like it. Trees are made of the solver's
values, not of its objective; their scores are computed anew where the report takes them, and `solve` checks
the answer.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from jtsolve.backends.preparing import prepared_memory
from jtsolve.backends.worker import BASE_MEMORY, Task, run
from jtsolve.encodings.families import predicted_sets
from jtsolve.encodings.family import encode_family
from jtsolve.encodings.imset import encode_imset
from jtsolve.encodings.rounding import rounded
from jtsolve.errors import InternalError
from jtsolve.result import Outcome, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jtsolve.backend import Backend, Limits, Report
    from jtsolve.backends.preparing import Prepared
    from jtsolve.encodings.families import Families
    from jtsolve.encodings.formula import Encoding
    from jtsolve.encodings.rounding import Unit
    from jtsolve.problem import Problem
    from jtsolve.tree import JunctionTree
    from jtsolve.varset import VarSet

_BYTES_A_FAMILY = 2500
"""Of the process: the formula as Python objects, a copy as the solver has it, and room for what it learns."""


_ENCODERS: Mapping[str, Callable[[Families], Encoding]] = {
    "imset": encode_imset,
    "family": partial(encode_family, order="transitive"),
    "positions": partial(encode_family, order="positions"),
}


class News(NamedTuple):
    """What a solver's process sends: a tree, or a bound in nats."""

    tree: JunctionTree | None = None
    bound: float | None = None


class Work(NamedTuple):
    """What a solver's process is given.

    Attributes:
        families: of the problem.
        clutters: cuts that are known.
        tree: the best one known, or None.
        model: the formulation: a key of `_ENCODERS`.
        options: the backend's own.
        threads: that it may use.
        seed: for everything random.
        seconds: that are left when it is sent; None for no limit.
    """

    families: Families
    clutters: tuple[tuple[VarSet, ...], ...]
    tree: JunctionTree | None
    model: str
    options: Mapping[str, Any]
    threads: int
    seed: int
    seconds: float | None


def encoded(work: Work) -> tuple[Encoding, Unit]:
    """Returns the formula of what is to be solved, whose weights are multiples of the unit."""
    families, unit = rounded(work.families)
    return _ENCODERS[work.model](families), unit


def hand_over(
    kind: str,
    function: str,
    prepared: Prepared,
    model: str,
    options: Mapping[str, Any],
    limits: Limits,
    report: Report,
) -> Outcome:
    """Runs a solver on a prepared problem; reports what it finds.

    Args:
        kind: of the process.
        function: "module:function", which is called with `say` and a `Work`, and returns a bound in nats for
            the trees that the preparation left: -inf if there are none.
        prepared: the problem.
        model: the formulation.
        options: for the function.
        limits: of the whole run.
        report: takes trees and bounds.
    """
    best, bound = prepared.tree, prepared.bound

    def heard(news: News) -> None:
        nonlocal best, bound
        if news.tree is not None:
            scores = prepared.problem.scores
            if best is None or news.tree.score(scores) > best.score(scores):
                best = news.tree
        if news.bound is not None:
            bound = min(bound, news.bound)
        report(tree=news.tree, bound=news.bound)

    report(note=f"{int(prepared.stats['families'])} families are given to {kind}")
    left = None if limits.time is None else limits.time - limits.elapsed
    work = Work(
        prepared.families, prepared.clutters, prepared.tree, model, options, limits.workers, limits.seed, left
    )
    final, stop = run(Task(kind, function, (work,)), heard, report, limits)
    if final is not None:
        if final == -inf and best is not None:
            raise InternalError(f"the solver '{kind}' found no tree, but one is known")
        bound = min(bound, final)
    return Outcome(best, bound, stop or Stop.FINISHED, prepared.stats)


def predicted(problem: Problem, relaxation: Backend | None) -> int:
    """Returns the bytes of a run at the most, but for the start's: this process and the solver's."""
    families = predicted_sets(problem) * problem.max_clique_size
    return prepared_memory(problem, relaxation) + BASE_MEMORY + _BYTES_A_FAMILY * families
