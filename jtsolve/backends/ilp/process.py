"""Integer linear programs by PuLP, solved by HiGHS or CBC, in the solver's process.

*Tolerances.* Solvers stop when the remaining gap is within their tolerances, which are absolute: some 10^-6
of the objective. The objective is scaled by a power of two to a largest coefficient of about 2^20, so that
for usual scores a tolerance is some 10^-9 nats, and relative to the largest weight some 10^-14. A gap above
the tolerance of "optimal" is left only where large scores cancel to a tree's score some thirty times smaller,
or with CBC, which gets 13 digits; then the solver is asked again (`support.solver`). The gap limits are set
to 0, and every bound is raised by the tolerances that the solver still has.

*Messages.* HiGHS reports every better tree and bound by callbacks. CBC, a separate program, writes its bounds
to a log, which is read while it runs, but its tree only at the end: it gets a little less than the time left.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, floor, frexp, gcd, inf, ldexp
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import highspy
import pulp

from jtsolve.backends.support.solver import SolverMessage, encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.backends.support.solver import Send, SolverInput
    from jtsolve.encodings.formula import Encoding, LinearRow
    from jtsolve.encodings.rounding import Unit


@dataclass(frozen=True, slots=True)
class _Numerics:
    """Tolerances and times."""

    objective_bits: int = 20  # of the largest coefficient of the objective
    tolerance: float = 1e-9  # for feasibility, reduced costs, integrality, and the least improvement
    digits: float = 1e-6  # relative error of a bound in CBC's log, which has some eight digits
    summed: float = 1e-12  # relative rounding error of a solver's sums
    reserve: float = 1.0  # seconds of the time limit kept from CBC, for its last steps and to read its answer
    poll: float = 0.1  # seconds between two looks at the log


_NUMERICS = _Numerics()
_IN_LOG = re.compile(r"best possible:? ([-+.0-9e]+)|Lower bound: +([-+.0-9e]+)")


class IntegerProgram:
    """A formula as an integer linear program that minimises, and the meaning of its answers."""

    def __init__(self, send: Send, encoding: Encoding, unit: Unit, *, by_file: bool = False) -> None:
        self.send, self.encoding = send, encoding
        formula = encoding.formula
        _, exponent = frexp(max(map(abs, formula.weights.tolist()), default=0.0))
        self.shift = _NUMERICS.objective_bits - exponent
        self.problem = pulp.LpProblem("jtsolve", pulp.LpMinimize)
        self.variables = [
            self.problem.add_variable(name, 0, most, pulp.LpInteger)
            for name, most in zip(formula.names, formula.largest, strict=True)
        ]
        costs = [-ldexp(weight, self.shift) for weight in formula.weights.tolist()]
        self.problem.setObjective(self._sum(range(1, len(costs) + 1), costs))
        for row in formula.linear_rows():
            self._add(row)
        # PuLP writes 13 digits of a cost into a file; `paid` bounds how many costs are paid at a time.
        written = max((abs(float(f"{cost:.12e}") - cost) for cost in costs), default=0.0) if by_file else 0.0
        grouped = {number for group in formula.exactly_one for number in group}
        alone = sum(weight != 0 for weight in formula.weights) - len(grouped)
        paid = len(formula.exactly_one) + max(0, alone)
        summed = len(formula.exactly_one) + sum(formula.largest) - len(grouped)  # the most of any solution
        tolerances = (1 + summed) * _NUMERICS.tolerance + paid * written
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

    def _add(self, row: LinearRow) -> None:
        expression = self._sum(row.variables, row.coefficients)
        sides = [(pulp.LpConstraintGE, row.lower), (pulp.LpConstraintLE, row.upper)]
        if row.lower == row.upper:
            sides = [(pulp.LpConstraintEQ, row.lower)]
        for sense, limit in sides:
            if limit is not None:
                self.problem.addConstraint(pulp.LpConstraint(expression, sense, rhs=limit))

    def bound(self, cost: float) -> float:
        """Returns the bound on all trees, in nats, if no solution costs less."""
        weights = -ldexp(cost, -self.shift)
        return self._above(floor(ldexp(weights + _NUMERICS.summed * abs(weights), self.unit.shift)))

    def _above(self, units: int) -> float:
        """Returns the bound in nats if the solver's largest sum of weights has this many units.

        The sum is a multiple of the greatest common divisor of the weights, which is large for whole scores.
        """
        most = (units + ceil(ldexp(self.tolerance, self.unit.shift))) // self.grid * self.grid
        return self.encoding.formula.constant + self.unit.nats(most) + self.unit.slack

    def lower(self, cost: float) -> None:
        """Sends a bound if it is better than before."""
        if -inf < cost < inf and self.bound(cost) < self.told:
            self.told = self.bound(cost)
            self.send(SolverMessage(bound=self.told))

    def conclude(self) -> float:
        """Sends the tree of the solver's last solution; returns the bound, given that it was proved optimal.

        Raises:
            RuntimeError: it is not a solution.
        """
        try:
            values = self.solution(self.values())
        except ValueError as failure:
            raise RuntimeError("the solver returned a wrong solution") from failure
        return self._above(sum(weight * value for weight, value in zip(self.whole, values, strict=True)))

    def values(self) -> list[float]:
        """Returns the values that the solver left; ValueError if there are none."""
        values = [variable.varValue for variable in self.variables]
        if None in values:
            raise ValueError("the solver gave no values")
        return values

    def solution(self, point: Sequence[float]) -> list[int]:
        """Sends the tree of a solution if it is better than before; returns its values, rounded.

        Raises:
            ValueError: they violate the formula.
        """
        values = [round(value) for value in point]
        broken = self.encoding.formula.broken(values)
        if broken is not None:
            raise ValueError(f"the solver's solution violates the formula: {broken}")
        objective = self.encoding.formula.objective(values)
        if objective > self.best:
            self.best = objective
            self.send(SolverMessage(tree=self.encoding.tree_of(values)))
        return values


class _HiGHS(pulp.HiGHS):  # type: ignore[misc]  # pulp has no types
    """PuLP's HiGHS with the initial values of the variables as its first solution."""

    def buildSolverModel(self, lp: Any) -> None:  # noqa: N802 - PuLP's name
        super().buildSolverModel(lp)
        first = [variable.varValue for variable in lp.variables()]
        if None not in first:
            solution = highspy.HighsSolution()
            solution.col_value = first
            lp.solverModel.setSolution(solution)


def solve(send: Send, work: SolverInput) -> float:
    """Solves a problem and sends trees and bounds; returns the bound in nats, -inf if there is no tree.

    Raises:
        RuntimeError: the solver gave up, or its solution is wrong.
    """
    began = time.monotonic()
    encoding, unit = encoded(work)
    program = IntegerProgram(send, encoding, unit, by_file=work.options["solver"] == "cbc")
    known = None if work.tree is None else encoding.values_of(work.tree)
    if known is not None:
        for variable, value in zip(program.variables, known.tolist(), strict=True):
            variable.setInitialValue(value)
    if work.options["solver"] == "highs":
        return _by_highs(program, work)
    return _by_cbc(program, work, began)


def _by_highs(program: IntegerProgram, work: SolverInput) -> float:
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

    highspy.Highs.resetGlobalScheduler(True)  # else the thread count of the first run in the process stays
    solver = _HiGHS(
        msg=False,
        gapAbs=0.0,
        gapRel=0.0,
        threads=work.threads,
        callbackTuple=(heard, None),
        callbacksToActivate=[kinds.kCallbackMipImprovingSolution, kinds.kCallbackMipLogging],
        random_seed=work.seed % 2**31,
        mip_feasibility_tolerance=_NUMERICS.tolerance,
        primal_feasibility_tolerance=_NUMERICS.tolerance,
        dual_feasibility_tolerance=_NUMERICS.tolerance,
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


def _by_cbc(program: IntegerProgram, work: SolverInput, began: float) -> float:
    """Runs CBC in a folder that the parent process removes even if this one is killed."""
    folder = Path(work.options["folder"])
    log = folder / "log"
    limit = None if work.seconds is None else work.seconds - (time.monotonic() - began) - _NUMERICS.reserve
    if limit is not None and limit <= 0:
        return inf
    solver = pulp.COIN_CMD(
        path=pulp.PULP_CBC_CMD.pulp_cbc_path,  # PuLP's own
        msg=False,
        gapAbs=0.0,
        gapRel=0.0,
        threads=work.threads,
        timeLimit=limit,
        logPath=str(log),
        warmStart=all(variable.varValue is not None for variable in program.variables),
        options=[f"{name} {_NUMERICS.tolerance}" for name in ("primalT", "dualT", "integerT", "increment")]
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
    with suppress(ValueError):  # out of time, CBC may leave an infeasible point
        program.solution(program.values())
    return inf


def read_log(path: Path, program: IntegerProgram, ended: Event) -> None:
    """Sends the bounds in a log while it is written."""
    done = 0
    last = False
    while not last:
        last = ended.wait(_NUMERICS.poll)
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        end = text.rfind("\n") + 1
        for found in _IN_LOG.finditer(text, done, end):
            cost = float(found[1] or found[2])
            program.lower(cost - _NUMERICS.digits * abs(cost))
        done = max(done, end)
