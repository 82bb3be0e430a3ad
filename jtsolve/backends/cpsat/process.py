"""CP-SAT by OR-Tools, in the solver's process.

A formula becomes a model: clauses unchanged; rows over Booleans with coefficients ±1 as "exactly one", "at
most one" or clauses where possible, on which the solver propagates better than on sums; other rows unchanged.
The objective has integer coefficients. The values of the known tree are a hint.

With few families a single thread works, however many are allowed: it is as fast there, and runs are
repeatable to the last bound. More threads work on a fixed schedule ("interleaved"), so that answers are
repeatable, though not the order of the bounds.

References:
    Ohrimenko, Stuckey and Codish, Propagation via lazy clause generation, Constraints 2009 (CP-SAT).
"""

from __future__ import annotations

from math import frexp, inf, ulp
from typing import TYPE_CHECKING, Any

import numpy as np
from ortools.sat.python import cp_model

from jtsolve.backends.support.solver import SolverMessage, encoded
from jtsolve.encodings.rounding import FINEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.backends.support.solver import Send, SolverInput
    from jtsolve.encodings.formula import Encoding, Formula, LinearRow
    from jtsolve.encodings.rounding import Unit
    from jtsolve.families.families import Families

_BATCH = 8
"""Units of work between two exchanges of learned clauses between the threads."""
_FEW = 1000
"""Families up to which one thread is used: with 43 to 651 of them it took 0.2 to 4 s, and two threads were no
faster (2 shared cores of an Intel Xeon, 2.5 GHz)."""
_WORD = 59
"""Bits of a sum, with some to spare for bounds and differences."""


def solve(send: Send, work: SolverInput) -> float:
    """Solves a problem and sends trees and bounds; returns the bound in nats, -inf if there is no tree.

    Raises:
        RuntimeError: the solver ended without an answer, or a solution gives no tree.
    """
    encoding, unit = encoded(work, _finest(work.families))
    weights = unit.whole(encoding.formula.weights)
    model, variables = cpsat_model(encoding.formula, weights)
    known = None if work.tree is None else encoding.values_of(work.tree)
    for variable, value in zip(variables, () if known is None else known.tolist(), strict=known is not None):
        model.add_hint(variable, value)
    solver = cp_model.CpSolver()
    _set_parameters(solver, work)
    reporter = _SolutionCallback(send, encoding, unit, variables)
    solver.best_bound_callback = reporter.bound
    status = solver.solve(model, reporter)
    if reporter.fault is not None:
        raise RuntimeError(f"a solution of CP-SAT gives no tree: {reporter.fault}")
    if status == cp_model.INFEASIBLE:
        return -inf
    if status != cp_model.OPTIMAL:
        raise RuntimeError(f"CP-SAT ended with {solver.status_name(status)}: {solver.solution_info()}")
    return reporter.nats(solver.best_objective_bound)


def _finest(families: Families) -> int:
    """Returns the shift of a unit in which the sum of all weights fits a word of the solver, about 60 bits.

    With values below 2^e, a weight of a formulation is below 2^(e + width) or a difference of few values, and
    there are as many weights as members of sets.
    """
    _, exponent = frexp(float(np.abs(families.values).max()))
    return min(FINEST, _WORD - exponent - families.width - families.sizes.size.bit_length())


def _set_parameters(solver: cp_model.CpSolver, work: SolverInput) -> None:
    """Sets the parameters for a reproducible proof."""
    parameters = solver.parameters
    workers = 1 if int(work.families.allowed.sum()) <= _FEW else work.threads
    parameters.num_workers = workers
    parameters.random_seed = work.seed % (1 << 31)
    parameters.interleave_search = workers > 1
    parameters.interleave_batch_size = _BATCH
    parameters.catch_sigint_signal = False
    # The strategies that prove most; the defaults search for trees, and a good one is known already.
    parameters.merge_text_format('linearization_level:2 subsolvers:["max_lp","reduced_costs"]')


def cpsat_model(formula: Formula, weights: list[int]) -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
    """Returns the model of a formula that maximises whole weights, and its variables in order."""
    model = cp_model.CpModel()
    variables = [
        model.new_bool_var(name) if most == 1 else model.new_int_var(0, most, name)
        for name, most in zip(formula.names, formula.largest, strict=True)
    ]
    negated = [
        variable.negated() if most == 1 else None
        for variable, most in zip(variables, formula.largest, strict=True)
    ]

    def literal(number: int) -> Any:
        return variables[number - 1] if number > 0 else negated[-number - 1]

    for clause in formula.clauses:
        model.add_bool_or([literal(number) for number in clause])
    for group in formula.exactly_one:
        model.add_exactly_one([literal(number) for number in group])
    for row in formula.rows:
        _add_row(model, formula, row, literal)
    model.maximize(cp_model.LinearExpr.weighted_sum(variables, weights))
    return model, variables


def _add_row(
    model: cp_model.CpModel, formula: Formula, row: LinearRow, literal: Callable[[int], Any]
) -> None:
    """Adds a row: with −x = ¬x − 1, a row with the coefficients ±1 counts literals."""
    logical = all(formula.largest[number - 1] == 1 for number in row.variables)
    if logical and all(c in {1, -1} for c in row.coefficients):
        negative = row.coefficients.count(-1)
        literals = [literal(c * number) for number, c in zip(row.variables, row.coefficients, strict=True)]
        least = None if row.lower is None else row.lower + negative
        most = None if row.upper is None else row.upper + negative
        if least == most == 1:
            model.add_exactly_one(literals)
            return
        if most == 1 and (least is None or least <= 0):
            model.add_at_most_one(literals)
            return
        if least == 1 and (most is None or most >= len(literals)):
            model.add_bool_or(literals)
            return
    total = cp_model.LinearExpr.weighted_sum([literal(number) for number in row.variables], row.coefficients)
    lower = cp_model.INT32_MIN if row.lower is None else row.lower
    upper = cp_model.INT32_MAX if row.upper is None else row.upper
    model.add_linear_constraint(total, lower, upper)


class _SolutionCallback(cp_model.CpSolverSolutionCallback):
    """Converts solutions to trees and bounds to nats, and sends them."""

    def __init__(
        self,
        send: Send,
        encoding: Encoding,
        unit: Unit,
        variables: list[cp_model.IntVar],
    ) -> None:
        super().__init__()
        self.send, self.encoding, self.unit, self.variables = send, encoding, unit, variables
        self.fault: str | None = None

    def on_solution_callback(self) -> None:
        """Sends the tree of a solution."""
        try:
            values = [self.value(variable) for variable in self.variables]
            self.fault = self.fault or self.encoding.formula.broken(values)
            tree = self.encoding.tree_of(values)
        except Exception as error:  # noqa: BLE001 - must not pass through the solver; raised at its end
            self.fault = self.fault or repr(error)
        if self.fault is not None:
            self.stop_search()
            return
        self.send(SolverMessage(tree=tree))

    def bound(self, units: float) -> None:
        """Sends a bound on the objective."""
        self.send(SolverMessage(bound=self.nats(units)))

    def nats(self, units: float) -> float:
        """Returns the bound on all trees, in nats, if no solution has more units."""
        # The solver's integers come as floats: the last one may have been rounded down.
        return self.encoding.formula.constant + self.unit.nats(units + ulp(units)) + self.unit.slack
