"""Problems as text files for outside solvers: the family formulation in one of several formats.

- WCNF (`encodings.cnf`), as in the MaxSAT Evaluations since 2022: hard clauses begin with h, soft ones with
  their weight. Weights are whole multiples of a unit, a power of two in nats (`encodings.rounding`).
- LP as of CPLEX, and free-format MPS: weights are in nats, written so that reading gives the same float64.
  MPS has no common way to maximise, so the negative is minimised.
- A CP-SAT model, the protocol buffer CpModelProto of OR-Tools in text form; whole weights.

The constant of the objective is in a comment, and in the offset of a CP-SAT model.
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
    from jtsolve.encodings.formula import Formula
    from jtsolve.encodings.rounding import Unit

_FINEST = 30
"""The unit is at least 2^-30 nats, 10^-9, so that the sum of all weights fits 64 bits."""
_LARGEST_SUM = (1 << 63) - 1
"""Limit of the weights: solvers add them in words of 64 bits."""
_LINE = 200
"""Approximate characters of a line in LP files; readers have buffers of 500 and more."""
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
        terms = _terms(zip(row.variables, row.coefficients, strict=True), names)
        if row.lower == row.upper:
            lines += _wrapped(f" r{at}:", [*terms, f"= {row.lower}"])
            continue
        if row.lower is not None:
            lines += _wrapped(f" r{at}:", [*terms, f">= {row.lower}"])
        if row.upper is not None:
            lines += _wrapped(f" r{at}{'u' if row.lower is not None else ''}:", [*terms, f"<= {row.upper}"])
    wide = [(name, most) for name, most in zip(names, formula.largest, strict=True) if most != 1]
    lines += ["Bounds", *(f" 0 <= {name} <= {most}" for name, most in wide)] if wide else []
    lines += ["Generals", *(f" {name}" for name, _ in wide)] if wide else []
    lines += ["Binaries"]
    lines += [f" {name}" for name, most in zip(names, formula.largest, strict=True) if most == 1]
    return _text([*lines, "End"])


def mps(formula: Formula, remarks: Sequence[str]) -> str:
    """Returns the formula in the free MPS format, as a minimisation."""
    columns: list[list[str]] = [[] for _ in formula.names]
    for column, weight in zip(columns, formula.weights.tolist(), strict=True):
        if weight:
            column.append(f"cost {-weight!r}")
    rows, sides, ranges = [" N cost"], [], []
    for at, row in enumerate(formula.linear_rows()):
        kind = "E" if row.lower == row.upper else "G" if row.upper is None else "L"
        rows.append(f" {kind} r{at}")
        side = row.lower if kind == "G" else row.upper
        if side:
            sides.append(f" RHS r{at} {side}")
        if kind == "L" and row.lower is not None and row.upper is not None:
            ranges.append(f" RNG r{at} {row.upper - row.lower}")
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
        *(["RANGES", *ranges] if ranges else []),
        "BOUNDS",
        *(f" UP BND {name} {most}" for name, most in zip(formula.names, formula.largest, strict=True)),
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
    lines += [
        f'variables {{ name: "{name}" domain: [0, {most}] }}'
        for name, most in zip(formula.names, formula.largest, strict=True)
    ]
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
