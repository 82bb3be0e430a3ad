"""A prepared problem in the hands of a solver, in a process of its own: what these backends have in common.

The process is given the families; it makes the formula, solves it, and sends the trees and bounds that it
finds as it finds them. So encoding counts as work, and can be killed like it. Trees are made of the solver's
values, not of its objective; their scores are computed anew where the report takes them, and `solve` checks
the answer.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from jtsolve.backends.support.prepare import prepared_memory
from jtsolve.backends.support.worker import BASE_MEMORY, Call, run
from jtsolve.core.backend import Estimate
from jtsolve.core.result import Outcome, Stop
from jtsolve.encodings.balancing import encode_balancing
from jtsolve.encodings.family import encode_family
from jtsolve.encodings.imset import encode_imset
from jtsolve.encodings.rounding import FINEST, rounded
from jtsolve.errors import InternalError
from jtsolve.families.families import predicted_sets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jtsolve.backends.support.prepare import Prepared
    from jtsolve.core.backend import Backend, Limits, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet
    from jtsolve.encodings.formula import Encoding
    from jtsolve.encodings.rounding import Unit
    from jtsolve.families.families import Families

_BYTES_A_FAMILY = 2500
"""Of the process: the formula as Python objects, a copy as the solver has it, and room for what it learns."""
_BYTES_A_TRIPLE = 300
"""Of three variables: their two clauses of the order, in the process."""
_MOST_PROVED = 20
"""Variables beyond which proofs are not counted on."""
_STARTING = 3.0
_FAMILIES_A_SECOND = 100.0
"""At 12 variables and treewidth 3, the slowest of five samples of random networks."""


Clutters: TypeAlias = "tuple[tuple[VarSet, ...], ...]"


def _imset(families: Families, _clutters: Clutters) -> Encoding:
    """Returns the imset form; clutter cuts, which are on families, say nothing there."""
    return encode_imset(families)


def _family(families: Families, clutters: Clutters) -> Encoding:
    return encode_family(families, "transitive", clutters)


def _positions(families: Families, clutters: Clutters) -> Encoding:
    return encode_family(families, "positions", clutters)


_ENCODERS: Mapping[str, Callable[[Families, Clutters], Encoding]] = {
    "balancing": encode_balancing,
    "imset": _imset,
    "family": _family,
    "positions": _positions,
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
    clutters: Clutters
    tree: JunctionTree | None
    model: str
    options: Mapping[str, Any]
    threads: int
    seed: int
    seconds: float | None


def encoded(work: Work, finest: int = FINEST) -> tuple[Encoding, Unit]:
    """Returns the formula of what is to be solved, whose weights are multiples of the unit.

    `finest` is as in `encodings.rounding`.
    """
    families, unit = rounded(work.families, finest)
    return _ENCODERS[work.model](families, work.clutters), unit


class Method(NamedTuple):
    """How a problem is solved.

    Attributes:
        kind: of the process, such as the name of the solver library.
        function: "module:function", which is called with `say` and a `Work`, and returns a bound in nats for
            the trees that the preparation left: -inf if there are none.
        model: the formulation.
        options: for the function.
    """

    kind: str
    function: str
    model: str
    options: Mapping[str, Any]


def hand_over(method: Method, prepared: Prepared, limits: Limits, report: Report) -> Outcome:
    """Runs a solver on a prepared problem; reports trees and bounds as it finds them."""
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

    if prepared.stop is not None:
        return Outcome(best, bound, prepared.stop, prepared.stats)
    report(note=f"{int(prepared.stats['families'])} families are given to {method.kind}")
    left = None if limits.time is None else limits.time - limits.elapsed
    work = Work(
        prepared.families,
        prepared.clutters,
        prepared.tree,
        method.model,
        method.options,
        limits.workers,
        limits.seed,
        left,
    )
    final, stop = run(Call(method.kind, method.function, (work,)), heard, report, limits)
    if final is not None:
        if final == -inf and best is not None:
            raise InternalError(f"the solver '{method.kind}' found no tree, but one is known")
        bound = min(bound, final)
    return Outcome(best, bound, stop or Stop.FINISHED, prepared.stats)


def estimated(
    problem: Problem, start: Backend | None, relaxation: Backend | None, limits: Limits
) -> Estimate:
    """Returns the predicted cost of a run, in this process and the solver's.

    The seconds are a rough guess, more than the relaxation alone is thought to take: how long a solver looks
    for a proof depends on the scores more than on the sizes. They are infinite where none is to be expected.
    """
    families = predicted_sets(problem) * problem.max_clique_size
    memory = prepared_memory(problem, relaxation) + BASE_MEMORY + _BYTES_A_FAMILY * families
    memory += _BYTES_A_TRIPLE * problem.n**3
    seconds = inf
    if problem.n <= _MOST_PROVED:
        seconds = _STARTING + families * (problem.n / 12) ** 2 / _FAMILIES_A_SECOND
    for other in (start, relaxation):
        if other is not None and not other.capabilities.objections(problem):
            cost = other.estimate(problem, limits)
            memory, seconds = max(memory, cost.memory), seconds + cost.seconds
    return Estimate(memory, seconds)
