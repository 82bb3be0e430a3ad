"""Formulas as the texts that outside solvers read.

- WCNF (`encodings.maxsat`), as of the MaxSAT Evaluations since 2022: hard clauses begin with h, soft ones
  with their weight. Weights are whole multiples of a unit, a power of two of nats (`encodings.rounding`).
- LP as of CPLEX, and MPS in its free form: weights are the numbers in nats, written so that they are read
  back as the same float64. MPS has no common way to maximise: it minimises the negative.
- A CP-SAT model, the text form of the protocol buffer CpModelProto of OR-Tools; whole weights.

A constant of the objective is in a remark, and in the offset that CP-SAT has for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jtsolve.encodings.wcnf import to_maxsat
from jtsolve.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jtsolve.encodings.formula import Formula
    from jtsolve.encodings.rounding import Unit

_LARGEST_SUM = (1 << 63) - 1
"""Of the weights: solvers add them up in words of 64 bits."""
_LINE = 200
"""Characters of a line in LP files, about; readers have buffers of 500 and more."""
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
"""Which CP-SAT takes for no bound."""


def wcnf(formula: Formula, unit: Unit, remarks: Sequence[str]) -> str:
    """Returns the formula as WCNF.

    Raises:
        ChoiceError: it is not a matter of clauses; see `encodings.cnf`.
        LimitError: the weights' sum exceeds 64 bits.
    """
    made = to_maxsat(formula, unit)
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
    for at, row in enumerate(_conditions(formula)):
        terms = _terms(row.terms, names)
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
    for at, row in enumerate(_conditions(formula)):
        kind = "E" if row.lower == row.upper else "G" if row.upper is None else "L"
        rows.append(f" {kind} r{at}")
        side = row.lower if kind == "G" else row.upper
        if side:
            sides.append(f" RHS r{at} {side}")
        if kind == "L" and row.lower is not None and row.upper is not None:
            ranges.append(f" RNG r{at} {row.upper - row.lower}")
        for number, coefficient in row.terms:
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
        literals = (literal - 1 if literal > 0 else literal for literal in clause)  # ¬x is −1 − x there
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
    # CP-SAT minimises Σ coeffs · vars, and shows scaling_factor · (that + offset).
    used = [at for at, weight in enumerate(weights) if weight]
    lines.append(
        f"objective {{ vars: {_list(used)} coeffs: {_list(-weights[at] for at in used)} "
        f"offset: {-formula.constant / unit.nats(1)!r} scaling_factor: {-unit.nats(1)!r} }}"
    )
    return _text(lines)


def _require_64_bits(weights: Iterable[int], unit: Unit) -> None:
    """Refuses weights that no solver can add up.

    Raises:
        LimitError: their sum exceeds 64 bits.
    """
    total = sum(map(abs, weights))
    if total > _LARGEST_SUM:
        raise LimitError(
            f"the weights add up to {total:.3g} units of 2^-{unit.shift} nats, and solvers count to "
            f"{_LARGEST_SUM:.3g}. Ways out: a smaller --treewidth; jtsolve convert --prune-below, for fewer "
            "sets."
        )


class _Condition(NamedTuple):
    """lower ≤ Σ coefficient · variable ≤ upper, for (number, coefficient) in `terms`."""

    terms: Sequence[tuple[int, int]]
    lower: int | None
    upper: int | None


def _conditions(formula: Formula) -> Iterator[_Condition]:
    """Yields everything that has to hold, as linear rows."""
    for clause in formula.clauses:
        negative = sum(literal < 0 for literal in clause)
        yield _Condition([(abs(literal), 1 if literal > 0 else -1) for literal in clause], 1 - negative, None)
    for group in formula.exactly_one:
        yield _Condition([(number, 1) for number in group], 1, 1)
    for row in formula.rows:
        yield _Condition(list(zip(row.variables, row.coefficients, strict=True)), row.lower, row.upper)


def _terms(terms: Iterable[tuple[int, float]], names: Sequence[str]) -> list[str]:
    """Returns terms of a sum in the LP format; those with coefficient 0 are left out."""
    return [f"{'-' if c < 0 else '+'} {abs(c)!r} {names[number - 1]}" for number, c in terms if c]


def _wrapped(begin: str, words: Iterable[str]) -> Iterator[str]:
    """Yields words as lines that are not too long."""
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
