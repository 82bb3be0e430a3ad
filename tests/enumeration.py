"""All solutions of formulas, by CP-SAT in a separate process, as it cannot be loaded beside other solvers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from problems import Recording

from jtsolve.backends.support.worker import Call, in_worker
from jtsolve.core.run import Limits
from jtsolve.encodings.balancing import encode_balancing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.backends.support.solver import SolverInput
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet
    from jtsolve.encodings.formula import Encoding, Formula
    from jtsolve.encodings.rounding import Unit
    from jtsolve.families.families import Families

Edges = frozenset[tuple[int, int]]


def in_solver(function: str, *arguments: Any) -> Any:
    """Calls a function, of this module unless another is named, in the process of CP-SAT."""
    named = function if ":" in function else f"enumeration:{function}"
    call = Call("ortools", named, arguments)
    value, stop = in_worker(call, lambda _nothing: None, Recording(), Limits())
    assert stop is None
    return value


def balanced_graphs(families: Families, clutters: list[tuple[VarSet, ...]] | None = None) -> list[Edges]:
    """Returns the graphs of the models of the balancing formula, each once."""
    found: list[Edges] = in_solver("_balanced_graphs", families, clutters or [])
    assert len(set(found)) == len(found)
    return found


def possible(families: Families, graphs: list[Edges]) -> list[Edges]:
    """Returns those of the given graphs that are models of the balancing formula."""
    found: list[Edges] = in_solver("_possible", families, graphs)
    return found


def solutions(formula: Formula) -> set[tuple[int, ...]]:
    """Returns the values of all variables in every solution of the CP-SAT model of a formula."""
    found: set[tuple[int, ...]] = in_solver("_solutions", formula)
    return found


def model_text(formula: Formula) -> str:
    """Returns the CP-SAT model of a formula as text."""
    text: str = in_solver("_model_text", formula)
    return text


def _balanced_graphs(
    _send: Callable[[Any], None], families: Families, clutters: list[tuple[VarSet, ...]]
) -> list[Edges]:
    """Solves, and forbids each graph found, until there are no more."""
    from ortools.sat.python import cp_model

    from jtsolve.backends.cpsat.process import cpsat_model

    encoding = encode_balancing(families, clutters)
    names = encoding.formula.names
    model, variables = cpsat_model(encoding.formula, [0] * len(names))
    pairs = [variable for name, variable in zip(names, variables, strict=True) if is_pair(name)]
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.cp_model_presolve = False
    found = []
    while solver.solve(model) == cp_model.OPTIMAL:
        values = [solver.value(variable) for variable in variables]
        assert encoding.formula.broken(values) is None
        found.append(frozenset(encoding.tree_of(values).graph_edges))
        model.add_bool_or([pair.negated() if solver.value(pair) else pair for pair in pairs])
    return found


def _possible(_send: Callable[[Any], None], families: Families, graphs: list[Edges]) -> list[Edges]:
    """Fixes the edges of each graph in turn."""
    from ortools.sat.python import cp_model

    from jtsolve.backends.cpsat.process import cpsat_model

    names = (formula := encode_balancing(families).formula).names
    model, variables = cpsat_model(formula, [0] * len(names))
    pairs = {name: variable for name, variable in zip(names, variables, strict=True) if is_pair(name)}
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    found = []
    for graph in graphs:
        one = model.clone()
        for name, variable in pairs.items():
            u, v = map(int, name.split("_")[1:])
            one.add(one.get_int_var_from_proto_index(variable.index) == ((u, v) in graph))
        if solver.solve(one) == cp_model.OPTIMAL:
            found.append(graph)
    return found


def solve_with_a_faulty_way_back(_send: Callable[[Any], None], work: SolverInput) -> None:
    """Runs the solver on a formula whose solutions do not encode trees."""
    from jtsolve.backends.cpsat import process as cpsat_solver
    from jtsolve.backends.support.solver import encoded

    def wrong(*arguments: Any) -> tuple[Encoding, Unit]:
        encoding, unit = encoded(*arguments)
        return encoding._replace(tree_of=_no_tree), unit

    with patch.object(cpsat_solver, "encoded", wrong):
        cpsat_solver.solve(lambda _news: None, work)


def _no_tree(_values: Sequence[int]) -> JunctionTree:
    raise ValueError("nothing is meant")


def is_pair(name: str) -> bool:
    """Returns whether a variable of the balancing formula makes two variables adjacent."""
    return name.startswith("c_") and name.count("_") == 2


def _solutions(_send: Callable[[Any], None], formula: Formula) -> set[tuple[int, ...]]:
    from ortools.sat.python import cp_model

    from jtsolve.backends.cpsat.process import cpsat_model

    class Collect(cp_model.CpSolverSolutionCallback):
        def __init__(self) -> None:
            super().__init__()
            self.found: set[tuple[int, ...]] = set()

        def on_solution_callback(self) -> None:
            self.found.add(tuple(self.value(variable) for variable in variables))

    model, variables = cpsat_model(formula, [0] * len(formula.names))
    model.proto.clear_objective()
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.enumerate_all_solutions = True
    collect = Collect()
    assert solver.solve(model, collect) in {cp_model.OPTIMAL, cp_model.INFEASIBLE}
    return collect.found


def _model_text(_send: Callable[[Any], None], formula: Formula) -> str:
    from jtsolve.backends.cpsat.process import cpsat_model

    return str(cpsat_model(formula, [0] * len(formula.names))[0].proto)
