"""Integer linear programs by PuLP, solved by HiGHS or CBC: what runs in the solver's process.

*Tolerances.* Solvers call a program solved if what is left is within their tolerances, which are absolute:
some 10^-6 of the objective. It is scaled by a power of two, so that its largest coefficient is about 2^20: for
scores of usual size, a tolerance is some 10^-9 nats then. The gaps that end the search are set to 0. Every
bound is raised by the tolerances that the solver still has.

*News.* HiGHS tells of every better tree and bound by call-backs. CBC, a program of its own, writes its bounds
to a log, which is read while it runs, but its tree only at the end: it is given a little less than the time
that is left.
"""

from __future__ import annotations

import re
import time
from math import frexp, inf, ldexp
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import highspy
import pulp

from jtsolve.backends.solving import News, encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.backends.solving import Work
    from jtsolve.encodings.formula import Encoding, Formula
    from jtsolve.encodings.rounding import Unit

_LARGEST = 20
"""Bits of the largest coefficient of the objective."""
_TOLERANCE = 1e-9
"""Of feasibility, reduced costs and integrality: the finest that both solvers take."""
_CUT_OFF = 1e-5
"""What CBC wants a better solution to be better by, at the least; HiGHS wants less."""
_DIGITS = 1e-6
"""Of a bound that is read from the log of CBC, relative: it is written with some eight digits."""
_WRITTEN = 1e-12
"""Of a coefficient, relative: PuLP writes 13 digits for CBC."""
_AT_THE_END = 1.0
"""Seconds of the time limit that CBC is not given, for its last steps and reading its answer."""
_LOOK = 0.1
"""Seconds between two looks at the log."""
_IN_LOG = re.compile(r"best possible:? ([-+.0-9e]+)|Lower bound: +([-+.0-9e]+)")


class Program:
    """A formula as an integer linear program that minimises, and what its answers mean."""

    def __init__(self, say: Callable[[News], None], encoding: Encoding, unit: Unit) -> None:
        self.say, self.encoding = say, encoding
        formula = encoding.formula
        _, exponent = frexp(max(map(abs, formula.weights.tolist()), default=0.0))
        self.shift = _LARGEST - exponent
        self.variables = [
            pulp.LpVariable(name, 0, most, pulp.LpInteger)
            for name, most in zip(formula.names, formula.largest, strict=True)
        ]
        self.problem = pulp.LpProblem("jtsolve", pulp.LpMinimize)
        costs = [-ldexp(weight, self.shift) for weight in formula.weights.tolist()]
        self.problem.setObjective(self._sum(range(1, len(costs) + 1), costs))
        for expression, sense, limit in self._conditions(formula):
            self.problem.addConstraint(pulp.LpConstraint(expression, sense, rhs=limit))
        total = sum(formula.largest)
        tolerances = _CUT_OFF + total * _TOLERANCE + _WRITTEN * ldexp(total, _LARGEST)
        self.slack = ldexp(tolerances, -self.shift) + unit.slack
        self.best = -inf
        self.told = inf

    def _sum(self, numbers: Sequence[int], coefficients: Sequence[float]) -> Any:
        return pulp.LpAffineExpression(
            {self.variables[number - 1]: c for number, c in zip(numbers, coefficients, strict=True)}
        )

    def _conditions(self, formula: Formula) -> Any:
        """Yields the conditions of the formula as expressions, senses and right-hand sides."""
        for clause in formula.clauses:
            negative = sum(literal < 0 for literal in clause)
            signs = [1 if literal > 0 else -1 for literal in clause]
            yield self._sum([abs(literal) for literal in clause], signs), pulp.LpConstraintGE, 1 - negative
        for group in formula.exactly_one:
            yield self._sum(group, [1] * len(group)), pulp.LpConstraintEQ, 1
        for row in formula.rows:
            if row.lower is not None and row.lower == row.upper:
                yield self._sum(row.variables, row.coefficients), pulp.LpConstraintEQ, row.lower
                continue
            if row.lower is not None:
                yield self._sum(row.variables, row.coefficients), pulp.LpConstraintGE, row.lower
            if row.upper is not None:
                yield self._sum(row.variables, row.coefficients), pulp.LpConstraintLE, row.upper

    def bound(self, cost: float) -> float:
        """Returns what no tree scores more than, if no solution costs less; in nats."""
        return self.encoding.formula.constant - ldexp(cost, -self.shift) + self.slack

    def lower(self, cost: float) -> None:
        """Sends a bound, if it is news."""
        if cost > -inf and self.bound(cost) < self.told:
            self.told = self.bound(cost)
            self.say(News(bound=self.told))

    def solution(self, point: Sequence[float]) -> float:
        """Sends the tree of a solution, if it is better than before, and returns its objective in nats.

        Raises:
            ValueError: rounded, the solution breaks the formula.
        """
        values = [round(value) for value in point]
        broken = self.encoding.formula.broken(values)
        if broken is not None:
            raise ValueError(f"the solver's solution is none: {broken}")
        objective = self.encoding.formula.objective(values)
        if objective > self.best:
            self.best = objective
            self.say(News(tree=self.encoding.tree_of(values)))
        return objective


class _HiGHS(pulp.HiGHS):  # type: ignore[misc]  # pulp has no types
    """HiGHS as PuLP runs it, with a first solution."""

    first: Sequence[int] | None = None

    def buildSolverModel(self, lp: Any) -> None:  # noqa: N802 - PuLP's name
        super().buildSolverModel(lp)
        if self.first is not None:
            solution = highspy.HighsSolution()
            solution.col_value = [float(self.first[variable.number]) for variable in lp.variables()]
            lp.solverModel.setSolution(solution)


def solve(say: Callable[[News], None], work: Work) -> float:
    """Solves what it is given, and tells of it; returns the bound in nats, -inf if there is no tree."""
    began = time.monotonic()
    encoding, unit = encoded(work)
    program = Program(say, encoding, unit)
    known = None if work.tree is None else encoding.values_of(work.tree)
    first = None if known is None else known.tolist()
    if work.options["solver"] == "highs":
        return _by_highs(program, first, work)
    left = None if work.seconds is None else work.seconds - (time.monotonic() - began) - _AT_THE_END
    return _by_cbc(program, first, work, left)


def _by_highs(program: Program, first: Sequence[int] | None, work: Work) -> float:
    kinds = highspy.cb.HighsCallbackType
    failures: list[ValueError] = []

    def heard(kind: Any, _message: str, news: Any, _back: Any, _data: Any) -> None:
        if kind == kinds.kCallbackMipImprovingSolution:
            try:
                program.solution([news.mip_solution[at] for at in order])
            except ValueError as failure:
                failures.append(failure)
        program.lower(news.mip_dual_bound)

    for number, variable in enumerate(program.variables):
        variable.number = number
    place = {variable.number: at for at, variable in enumerate(program.problem.variables())}
    order = [place[number] for number in range(len(program.variables))]
    highspy.Highs.resetGlobalScheduler(True)
    solver = _HiGHS(
        msg=False,
        gapAbs=0.0,
        gapRel=0.0,
        threads=work.threads,
        callbackTuple=(heard, None),
        callbacksToActivate=[kinds.kCallbackMipImprovingSolution, kinds.kCallbackMipLogging],
        random_seed=work.seed % 2**31,
        mip_feasibility_tolerance=_TOLERANCE,
        primal_feasibility_tolerance=_TOLERANCE,
        dual_feasibility_tolerance=_TOLERANCE,
    )
    solver.first = first
    program.problem.solve(solver)
    if failures:
        raise failures[0]
    status = program.problem.solverModel.getModelStatus()
    return _concluded(program, status == highspy.HighsModelStatus.kOptimal, status)
