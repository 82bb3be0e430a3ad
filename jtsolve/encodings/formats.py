"""Problems as text files for outside solvers: the family formulation in one of several formats.

- WCNF (`encodings.cnf`), as in the MaxSAT Evaluations since 2022: hard clauses begin with h, soft ones with
  their weight. Weights are whole multiples of a unit, a power of two in nats (`encodings.rounding`).
- LP as of CPLEX, and free-format MPS: weights are in nats, written so that reading gives the same float64.
  MPS has no common way to maximise, so the negative is minimised.
- A CP-SAT model, the protocol buffer CpModelProto of OR-Tools in text form; whole weights.

The constant of the objective is in a comment, and in the offset of a CP-SAT model. All variables are binary,
and no row has two different bounds.
"""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING

from jtsolve.encodings.cnf import to_wcnf
from jtsolve.encodings.family import encode_family, predicted_memory
from jtsolve.encodings.rounding import rounded
from jtsolve.errors import LimitError
from jtsolve.families.families import choose_root, families_of
from jtsolve.options import TREEWIDTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jtsolve.core.problem import Problem
    from jtsolve.encodings.formula import Formula, LinearRow
    from jtsolve.encodings.rounding import Unit

_FINEST = 30
"""The unit is at least 2^-30 nats, 10^-9, so that the sum of all weights fits 64 bits."""
_LARGEST_SUM = (1 << 63) - 1
"""Limit of the weights: solvers add them in words of 64 bits."""
_LINE = 200
"""Approximate characters of a line in LP files; readers have buffers of 500 and more."""
_SENSES = {"E": "=", "G": ">=", "L": "<="}
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
"""CP-SAT's values for no bound."""


def export(problem: Problem, target: str, memory: int | None = None) -> str:
    """Returns a problem as the text of a file, with comments that identify the instance.

    `encodings.answers` reads a solver's answer to it, knowing only n.

    Args:
        problem: with its constraints.
        target: the format, one of `core.formats.FORMULA`.
        memory: limit of the formula in bytes, or None.

    Raises:
        LimitError: the formula needs more memory, or has weights beyond 64 bits.
    """
    need = predicted_memory(problem)
    if memory is not None and need > memory:
        raise LimitError(
            f"the formula needs about {need / 1e9:.3g} GB, and {memory / 1e9:.3g} GB are free. Ways "
            f"out: a smaller {TREEWIDTH}; jtsolve convert --prune-below, for fewer sets."
        )
    families, unit = rounded(families_of(problem, choose_root(problem, None)), _FINEST)
    formula = encode_family(families).formula
    treewidth = problem.max_clique_size - 1
    remarks = (
        f"jtsolve: instance {dumps(problem.name)}, {problem.digest()}, treewidth at most {treewidth}",
        f"the score of a tree is within {unit.slack:.3g} nats of the objective",
        "adjacent_a_b, number b(b-1)/2 + a + 1 for a < b: an edge joins variables a and b, counted from 0",
    )
    if target == "wcnf":
        return wcnf(formula, unit, remarks)
    if target == "cpsat-proto":
        return cpsat_proto(formula, unit, remarks)
    return lp(formula, remarks) if target == "lp" else mps(formula, remarks)


def wcnf(formula: Formula, unit: Unit, remarks: Sequence[str]) -> str:
    """Returns the formula as WCNF.

    Args:
        formula: to write.
        unit: of the weights.
        remarks: lines of the comment at the top.

    Raises:
        ChoiceError: it has rows that clauses cannot express; see `encodings.cnf`.
        LimitError: the weights' sum exceeds 64 bits.
    """
    made = to_wcnf(formula, unit)
    _require_64_bits(made.costs.values(), unit)
    lines = [
        *(f"c {remark}" for remark in remarks),
        f"c score in nats = {formula.constant + unit.nats(made.best)!r} - cost * 2^-{unit.shift}",
        *("h " + " ".join(map(str, clause)) + " 0" for clause in made.hard),
        *(f"{cost} {literal} 0" for literal, cost in made.costs.items()),
    ]
    return _text(lines)


def lp(formula: Formula, remarks: Sequence[str]) -> str:
    """Returns the formula in the LP format."""
    names = formula.names
    objective = _terms(enumerate(formula.weights.tolist(), start=1), names) or [f"0 {names[0]}"]
    lines = [
        *(f"\\ {remark}" for remark in remarks),
        f"\\ score in nats = objective + {formula.constant!r}",
        "Maximize",
        *_wrapped(" objective:", objective),
        "Subject To",
    ]
    for at, row in enumerate(formula.linear_rows()):
        sense, side = _side(row)
        terms = _terms(zip(row.variables, row.coefficients, strict=True), names)
        lines += _wrapped(f" r{at}:", [*terms, f"{_SENSES[sense]} {side}"])
    return _text([*lines, "Binaries", *(f" {name}" for name in names), "End"])


def mps(formula: Formula, remarks: Sequence[str]) -> str:
    """Returns the formula in the free MPS format, as a minimisation."""
    columns: list[list[str]] = [[] for _ in formula.names]
    for column, weight in zip(columns, formula.weights.tolist(), strict=True):
        if weight:
            column.append(f"cost {-weight!r}")
    rows, sides = [" N cost"], []
    for at, row in enumerate(formula.linear_rows()):
        sense, side = _side(row)
        rows.append(f" {sense} r{at}")
        if side:
            sides.append(f" RHS r{at} {side}")
        for number, coefficient in zip(row.variables, row.coefficients, strict=True):
            columns[number - 1].append(f"r{at} {coefficient}")
    lines = [
        *(f"* {remark}" for remark in remarks),
        f"* score in nats = {formula.constant!r} - cost",
        "NAME jtsolve FREE",
        "ROWS",
        *rows,
        "COLUMNS",
        " MARKER 'MARKER' 'INTORG'",
        *(
            f" {name} {entry}"
            for name, column in zip(formula.names, columns, strict=True)
            for entry in column or ["cost 0"]
        ),
        " MARKER 'MARKER' 'INTEND'",
        "RHS",
        *sides,
        "BOUNDS",
        *(f" UP BND {name} 1" for name in formula.names),
        "ENDATA",
    ]
    return _text(lines)


def cpsat_proto(formula: Formula, unit: Unit, remarks: Sequence[str]) -> str:
    """Returns the formula as a CpModelProto in text form.

    Args:
        formula: to write.
        unit: of the weights.
        remarks: lines of the comment at the top.

    Raises:
        LimitError: the weights' sum exceeds 64 bits.
    """
    weights = unit.whole(formula.weights)
    _require_64_bits(weights, unit)
    lines = [f"# {remark}" for remark in remarks]
    lines += [f'variables {{ name: "{name}" domain: [0, 1] }}' for name in formula.names]
    for clause in formula.clauses:
        literals = (
            literal - 1 if literal > 0 else literal for literal in clause
        )  # CP-SAT writes ¬x as −1 − x
        lines.append(f"constraints {{ bool_or {{ literals: {_list(literals)} }} }}")
    for group in formula.exactly_one:
        literals = (number - 1 for number in group)
        lines.append(f"constraints {{ exactly_one {{ literals: {_list(literals)} }} }}")
    for row in formula.rows:
        least = _LEAST if row.lower is None else row.lower
        most = _MOST if row.upper is None else row.upper
        variables = _list(number - 1 for number in row.variables)
        lines.append(
            f"constraints {{ linear {{ vars: {variables} coeffs: {_list(row.coefficients)} "
            f"domain: [{least}, {most}] }} }}"
        )
    # CP-SAT minimises Σ coeffs · vars and displays scaling_factor · (that + offset).
    used = [at for at, weight in enumerate(weights) if weight]
    lines.append(
        f"objective {{ vars: {_list(used)} coeffs: {_list(-weights[at] for at in used)} "
        f"offset: {-formula.constant / unit.nats(1)!r} scaling_factor: {-unit.nats(1)!r} }}"
    )
    return _text(lines)


def _side(row: LinearRow) -> tuple[str, int]:
    """Returns whether a row is an equation, E, or a bound, G or L, and its right-hand side."""
    if row.upper is None:
        return "G", row.lower or 0
    return "E" if row.lower == row.upper else "L", row.upper


def _require_64_bits(weights: Iterable[int], unit: Unit) -> None:
    """Refuses weights whose sum overflows in solvers.

    Raises:
        LimitError: their sum exceeds 64 bits.
    """
    total = sum(map(abs, weights))
    if total > _LARGEST_SUM:
        raise LimitError(
            f"the weights add up to {total:.3g} units of 2^-{unit.shift} nats, and solvers count to "
            f"{_LARGEST_SUM:.3g}. Ways out: a smaller {TREEWIDTH}; jtsolve convert --prune-below, for fewer "
            "sets."
        )


def _terms(terms: Iterable[tuple[int, float]], names: Sequence[str]) -> list[str]:
    """Returns the terms of a sum in the LP format, without those of coefficient 0."""
    return [f"{'-' if c < 0 else '+'} {abs(c)!r} {names[number - 1]}" for number, c in terms if c]


def _wrapped(begin: str, words: Iterable[str]) -> Iterator[str]:
    """Yields words wrapped into lines."""
    line = begin
    for word in words:
        if len(line) + len(word) > _LINE:
            yield line
            line = "  "
        line += " " + word
    yield line


def _list(numbers: Iterable[int]) -> str:
    return "[" + ", ".join(map(str, numbers)) + "]"


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
