"""Integer linear programs by PuLP, solved by HiGHS or CBC: what runs in the solver's process.

*Tolerances.* Solvers call a program solved if what is left is within their tolerances, which are absolute:
some 10^-6 of the objective. It is scaled by a power of two, so that its largest coefficient is about 2^20:
for scores of usual size, a tolerance is some 10^-9 nats then. The gaps that end the search are set to 0, and
every bound is raised by the tolerances that the solver still has.

*News.* HiGHS tells of every better tree and bound by call-backs. CBC, a program of its own, writes its bounds
to a log, which is read while it runs, but its tree only at the end: it is given a little less than the time
that is left.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from math import ceil, floor, frexp, gcd, inf, ldexp
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import highspy
import pulp

from jtsolve.backends.support.run import News, encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.backends.support.run import Work
    from jtsolve.encodings.formula import Encoding, Formula
    from jtsolve.encodings.rounding import Unit

_LARGEST = 20
"""Bits of the largest coefficient of the objective."""
_TOLERANCE = 1e-9
"""Of feasibility, reduced costs, integrality, and what a better solution has to be better by."""
_DIGITS = 1e-6
"""Of a bound that is read from the log of CBC, relative: it is written with some eight digits."""
_SUMMED = 1e-12
"""Of a bound, relative: what a solver's sums may be rounded by."""
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
        self.problem = pulp.LpProblem("jtsolve", pulp.LpMinimize)
        self.variables = [
            self.problem.add_variable(name, 0, most, pulp.LpInteger)
            for name, most in zip(formula.names, formula.largest, strict=True)
        ]
        costs = [-ldexp(weight, self.shift) for weight in formula.weights.tolist()]
        self.problem.setObjective(self._sum(range(1, len(costs) + 1), costs))
        for expression, sense, limit in self._conditions(formula):
            self.problem.addConstraint(pulp.LpConstraint(expression, sense, rhs=limit))
        # PuLP writes 13 digits of a cost for CBC, and at most so many of those that cost are 1 at a time.
        written = max((abs(float(f"{cost:.12e}") - cost) for cost in costs), default=0.0)
        grouped = {number for group in formula.exactly_one for number in group}
        alone = sum(weight != 0 for weight in formula.weights) - len(grouped)
        paid = len(formula.exactly_one) + max(0, alone)
        tolerances = (1 + sum(formula.largest)) * _TOLERANCE + paid * written
        self.tolerance = ldexp(tolerances, -self.shift)
        self.unit = unit
        self.whole = unit.whole(formula.weights)
        self.grid = max(1, gcd(*self.whole))
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
        weights = -ldexp(cost, -self.shift)
        return self._above(floor(ldexp(weights + _SUMMED * abs(weights), self.unit.shift)))

    def _above(self, units: int) -> float:
        """Returns the bound in nats if the solver takes a sum of weights of so many units for the largest.

        The sum is a multiple of the weights' greatest common divisor, which is large where scores are whole.
        """
        most = (units + ceil(ldexp(self.tolerance, self.unit.shift))) // self.grid * self.grid
        return self.encoding.formula.constant + self.unit.nats(most) + self.unit.slack

    def lower(self, cost: float) -> None:
        """Sends a bound, if it is news."""
        if -inf < cost < inf and self.bound(cost) < self.told:
            self.told = self.bound(cost)
            self.say(News(bound=self.told))

    def conclude(self) -> float:
        """Sends the tree of the solver's last solution; returns the bound if it is proved to be optimal.

        Raises:
            RuntimeError: the solution is none.
        """
        try:
            values = self.solution(self.values())
        except ValueError as failure:
            raise RuntimeError("the solver returned a wrong solution") from failure
        return self._above(sum(weight * value for weight, value in zip(self.whole, values, strict=True)))

    def values(self) -> list[float]:
        """Returns what the solver left as values; ValueError if nothing."""
        values = [variable.varValue for variable in self.variables]
        if None in values:
            raise ValueError("the solver gave no values")
        return values

    def solution(self, point: Sequence[float]) -> list[int]:
        """Sends the tree of a solution, if it is better than before, and returns its values.

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
        return values


class _HiGHS(pulp.HiGHS):  # type: ignore[misc]  # pulp has no types
    """HiGHS as PuLP runs it, with the variables' first values as its first solution."""

    def buildSolverModel(self, lp: Any) -> None:  # noqa: N802 - PuLP's name
        super().buildSolverModel(lp)
        first = [variable.varValue for variable in lp.variables()]
        if None not in first:
            solution = highspy.HighsSolution()
            solution.col_value = first
            lp.solverModel.setSolution(solution)


def solve(say: Callable[[News], None], work: Work) -> float:
    """Solves what it is given, and tells of it; returns the bound in nats, -inf if there is no tree.

    Raises:
        RuntimeError: the solver gave up, or its solution is none.
    """
    began = time.monotonic()
    encoding, unit = encoded(work)
    program = Program(say, encoding, unit)
    known = None if work.tree is None else encoding.values_of(work.tree)
    if known is not None:
        for variable, value in zip(program.variables, known.tolist(), strict=True):
            variable.setInitialValue(value)
    if work.options["solver"] == "highs":
        return _by_highs(program, work)
    return _by_cbc(program, work, began)


def _by_highs(program: Program, work: Work) -> float:
    kinds = highspy.cb.HighsCallbackType
    place = {variable.name: at for at, variable in enumerate(program.problem.variables())}
    order = [place[variable.name] for variable in program.variables]
    failures: list[ValueError] = []

    def heard(kind: Any, _message: str, news: Any, _back: Any, _data: Any) -> None:
        if kind == kinds.kCallbackMipImprovingSolution:
            try:
                program.solution([news.mip_solution[at] for at in order])
            except ValueError as failure:  # an exception must not pass through the solver
                failures.append(failure)
        program.lower(news.mip_dual_bound)

    highspy.Highs.resetGlobalScheduler(True)  # or the number of threads of its first run in the process stays
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
    program.problem.solve(solver)
    if failures:
        raise RuntimeError("HiGHS returned a wrong solution") from failures[0]
    status = program.problem.solverModel.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return -inf
    if status != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"HiGHS gave up: {status}")
    return program.conclude()


def _by_cbc(program: Program, work: Work, began: float) -> float:
    """Runs CBC in a folder that the other process removes, whatever happens to this one."""
    folder = Path(work.options["folder"])
    log = folder / "log"
    limit = None if work.seconds is None else work.seconds - (time.monotonic() - began) - _AT_THE_END
    if limit is not None and limit <= 0:
        return inf
    solver = pulp.COIN_CMD(
        path=pulp.PULP_CBC_CMD.pulp_cbc_path,  # the one that comes with PuLP
        msg=False,
        gapAbs=0.0,
        gapRel=0.0,
        threads=work.threads,
        timeLimit=limit,
        logPath=str(log),
        warmStart=all(variable.varValue is not None for variable in program.variables),
        options=[f"{name} {_TOLERANCE}" for name in ("primalT", "dualT", "integerT", "increment")]
        + [f"randomCbcSeed {work.seed % 2**31}"],
    )
    solver.tmpDir = str(folder)
    ended = Event()
    reader = Thread(target=read_log, args=(log, program, ended), daemon=True)
    reader.start()
    try:
        program.problem.solve(solver)
    finally:
        ended.set()
        reader.join()
    if program.problem.status == pulp.LpStatusInfeasible:
        return -inf
    if program.problem.sol_status == pulp.LpSolutionOptimal:
        return program.conclude()
    with suppress(ValueError):  # at the end of its time, it may give the point where it was
        program.solution(program.values())
    return inf


def read_log(path: Path, program: Program, ended: Event) -> None:
    """Tells of the bounds in a log while it is written."""
    done = 0
    last = False
    while not last:
        last = ended.wait(_LOOK)
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        end = text.rfind("\n") + 1
        for found in _IN_LOG.finditer(text, done, end):
            cost = float(found[1] or found[2])
            program.lower(cost - _DIGITS * abs(cost))
        done = max(done, end)
