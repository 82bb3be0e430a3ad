"""Integer linear programs by PuLP, in the solver's process: by HiGHS, or by any other solver that PuLP finds.

*Tolerances.* Solvers stop when the remaining gap is within their tolerances, which are absolute: some 10^-6
of the objective. The objective is scaled by a power of two to a largest coefficient of about 2^20, so that
for usual scores a tolerance of HiGHS is some 10^-9 nats, and relative to the largest weight some 10^-14. The
gap limits are set to 0, and every bound is raised by the tolerances that the solver still has. A gap above
the tolerance of "optimal" is left where large scores cancel to a tree's score some thirty times smaller, or
by solvers with coarser tolerances; then the solver runs again (`support.solver`).

*Messages.* HiGHS reports every better tree and bound by callbacks. PuLP's common interface to the others has
neither: their tree comes at the end, and a bound only with a proof of optimality. So a solver gets a little
less than the time left.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from math import ceil, floor, frexp, gcd, inf, ldexp
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

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
    highs: float = 1e-9  # for feasibility, reduced costs and integrality, as set in HiGHS
    others: float = 1e-5  # the largest default: CBC's least improvement, Gurobi's integrality
    summed: float = 1e-12  # relative rounding error of a solver's sums
    reserve: float = 1.0  # seconds of the time limit kept for a solver's last steps and to read its answer


_NUMERICS = _Numerics()
_THREADS = {"GUROBI": "Threads", "COPT": "Threads"}
"""Where a solver's own parameter, not PuLP's, sets the number of threads."""


class IntegerProgram:
    """A formula as an integer linear program that minimises, and the meaning of its answers."""

    def __init__(self, send: Send, encoding: Encoding, unit: Unit, *, highs: bool = True) -> None:
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
        # PuLP writes 13 digits of a cost into files for other solvers; a solution has at most `paid` costs.
        written = 0.0 if highs else max((abs(float(f"{cost:.12e}") - cost) for cost in costs), default=0.0)
        grouped = {number for group in formula.exactly_one for number in group}
        alone = sum(weight != 0 for weight in formula.weights) - len(grouped)
        paid = len(formula.exactly_one) + max(0, alone)
        summed = len(formula.exactly_one) + sum(formula.largest) - len(grouped)  # the most of any solution
        tolerance = _NUMERICS.highs if highs else _NUMERICS.others
        tolerances = (1 + summed) * tolerance + paid * written
        self.tolerance = ldexp(tolerances, -self.shift)
        self.unit = unit
        self.whole = unit.whole(formula.weights)
        self.grid = max(1, gcd(*self.whole))
        self.best = -inf
        self.sent = inf

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
        if -inf < cost < inf and self.bound(cost) < self.sent:
            self.sent = self.bound(cost)
            self.send(SolverMessage(bound=self.sent))

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
        """Returns the values that the solver left.

        Raises:
            ValueError: there are none.
        """
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


def installed(_send: Send) -> list[str]:
    """Returns the names of the solvers that PuLP finds, as it spells them."""
    names: list[str] = pulp.listSolvers(onlyAvailable=True)
    return names


def solve(send: Send, work: SolverInput) -> float:
    """Solves a problem and sends trees and bounds.

    Returns:
        The bound in nats: -inf if there is no tree, inf if optimality was not proved.

    Raises:
        RuntimeError: the solver gave up, or its solution is wrong.
    """
    began = time.monotonic()
    encoding, unit = encoded(work)
    highs = work.options["solver"] == "HiGHS"
    program = IntegerProgram(send, encoding, unit, highs=highs)
    known = None if work.tree is None else encoding.values_of(work.tree)
    if known is not None:
        for variable, value in zip(program.variables, known.tolist(), strict=True):
            variable.setInitialValue(value)
    return _by_highs(program, work) if highs else _by_pulp(program, work, began)


def _by_highs(program: IntegerProgram, work: SolverInput) -> float:
    kinds = highspy.cb.HighsCallbackType
    column = {variable.name: at for at, variable in enumerate(program.problem.variables())}
    order = [column[variable.name] for variable in program.variables]
    failures: list[ValueError] = []

    def record(kind: Any, _message: str, news: Any, _back: Any, _data: Any) -> None:
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
        callbackTuple=(record, None),
        callbacksToActivate=[kinds.kCallbackMipImprovingSolution, kinds.kCallbackMipLogging],
        random_seed=work.seed % 2**31,
        mip_feasibility_tolerance=_NUMERICS.highs,
        primal_feasibility_tolerance=_NUMERICS.highs,
        dual_feasibility_tolerance=_NUMERICS.highs,
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


def _by_pulp(program: IntegerProgram, work: SolverInput, began: float) -> float:
    """Runs a solver through PuLP's common interface.

    Files are written to a folder that the parent process removes even if this process is killed.
    """
    limit = None if work.seconds is None else work.seconds - (time.monotonic() - began) - _NUMERICS.reserve
    if limit is not None and limit <= 0:
        return inf
    solver, exact = configured(
        work.options["solver"],
        timeLimit=limit,
        gapRel=0.0,
        gapAbs=0.0,
        threads=work.threads,
        warmStart=all(variable.varValue is not None for variable in program.variables),
    )
    if isinstance(solver, pulp.LpSolver_CMD):
        solver.tmpDir = work.options["folder"]
    program.problem.solve(solver)
    if program.problem.status == pulp.LpStatusInfeasible:
        return -inf
    if program.problem.sol_status == pulp.LpSolutionOptimal:
        bound = program.conclude()
        return bound if exact else inf
    with suppress(ValueError):  # out of time, a solver may leave an infeasible point, or none
        program.solution(program.values())
    return inf


def configured(name: str, **options: Any) -> tuple[Any, bool]:
    """Returns a solver of PuLP with those of the options that its interface has.

    Returns:
        The solver, and whether its relative gap limit was set: without that, "optimal" may mean within a gap.
    """
    with catch_warnings():
        simplefilter("ignore", DeprecationWarning)  # PuLP 4 drops CBC
        known = signature(type(pulp.getSolver(name, msg=False))).parameters
        accepted = {key: value for key, value in options.items() if key in known}
        if name in _THREADS:
            accepted[_THREADS[name]] = options["threads"]
        return pulp.getSolver(name, msg=False, **accepted), "gapRel" in known
