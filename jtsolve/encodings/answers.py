"""A reader of the answers of outside solvers: which pairs of variables are adjacent.

Every exported formula begins with the pairs (`encodings.family`), so the reader needs only n. It accepts

- the output of MaxSAT solvers: v lines with literals (v 1 -2 3 0) or digits (v 101, since 2022);
- solution files of HiGHS ("Model status", "# Columns"), CBC ("Optimal - objective value", then one line per
  column) and SCIP ("solution status:"); the last two omit zeros;
- lines with a name and a value, as of Gurobi or printed from CP-SAT; # begins a comment.

Only the pairs are read: tree, score and constraints are checked against the instance.
"""

from __future__ import annotations

import re
from math import isfinite, nan
from typing import TYPE_CHECKING, NamedTuple

from jtsolve.encodings.family import edge, tree_of_edges
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from jtsolve.core.tree import JunctionTree

_NEAR = 1e-4
"""How far from 0 or 1 a floating-point solver may leave a binary variable."""

_CBC = re.compile(r"(Optimal|Stopped on [a-z ]+)\b.*")
_PAIR = re.compile(r"\badjacent_(\d{1,9})_(\d{1,9})\s+(\S+)")

_REMEDY = "give the solver's unchanged answer to a formula that 'jtsolve convert' made of this instance"


class SolverAnswer(NamedTuple):
    """The kind of a solver's file, and its tree."""

    kind: str
    tree: JunctionTree


def read_answer(data: bytes, n: int, source: str) -> SolverAnswer:
    """Returns the tree in a solver's answer.

    Args:
        data: the file.
        n: the number of variables of the instance.
        source: the name of the file in messages.

    Raises:
        InputError: the file is not an answer, has no solution, lacks a pair, or its graph is not chordal.
    """
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise InputError(source, f"byte {error.start}", "it is not UTF-8 text", _REMEDY) from None
    kind, values = _edges(lines, n, source)
    try:
        return SolverAnswer(kind, tree_of_edges(n, values))
    except ValueError as error:
        raise InputError(source, "", f"it describes no tree: {error}", _REMEDY) from None


def _edges(lines: list[str], n: int, source: str) -> tuple[str, list[int]]:
    """Returns the kind of file, and 0 or 1 for each pair in the order of the variables."""
    first = next((line.strip() for line in lines if line.strip()), "")
    if first == "Model status":
        end = next((at for at, line in enumerate(lines) if line.startswith("# Dual")), len(lines))
        return "HiGHS", _named(lines[:end], n, source, zeros_left_out=False)
    if first.startswith("solution status:"):
        return "SCIP", _named(lines, n, source, zeros_left_out=True)
    if first.startswith(("Infeasible", "Integer infeasible", "Unbounded")):
        raise InputError(source, "", f"the solver has no solution: {first[:60]}", "let the solver find one")
    if _CBC.fullmatch(first):
        return "CBC", _named(lines, n, source, zeros_left_out=True)
    if any(line[:2] in {"v ", "s ", "o ", "c ", "v", "c"} for line in lines):
        return "MaxSAT", _literals(lines, n, source)
    return "names and values", _named(lines, n, source, zeros_left_out=False)


def _literals(lines: list[str], n: int, source: str) -> list[int]:
    """Returns the pairs of v lines."""
    count = n * (n - 1) // 2
    tokens = [
        (at, token)
        for at, line in enumerate(lines, 1)
        if line[:2] in {"v", "v "}
        for token in line[1:].split()
    ]
    if not tokens:
        status = next((line for line in lines if line.startswith("s ")), "no status line")
        raise InputError(source, "", f"it has no model: no line begins with v ({status})", _REMEDY)
    digits = tokens[0][1]
    if len(tokens) == 1 and len(digits) > 1 and set(digits) <= {"0", "1"}:
        if len(digits) < count:
            raise InputError(source, "", f"{len(digits)} values for {count} pairs of variables", _REMEDY)
        return [int(digit) for digit in digits[:count]]
    values: dict[int, int] = {}
    for place, (line, token) in enumerate(tokens):
        if not re.fullmatch(r"-?\d{1,18}", token):
            raise InputError(source, f"line {line}", f"'{token[:40]}' is not a literal", _REMEDY)
        literal = int(token)
        if literal == 0 and place < len(tokens) - 1:
            raise InputError(
                source, f"line {line}", "there are literals after the closing 0", "keep one model"
            )
        if values.setdefault(abs(literal), int(literal > 0)) != int(literal > 0):
            raise InputError(
                source, f"line {line}", f"{abs(literal)} is both true and false", "keep one model"
            )
    missing = next((number for number in range(1, count + 1) if number not in values), None)
    if missing is not None:
        raise InputError(source, "", f"variable {missing} has no value", _REMEDY)
    return [values[number] for number in range(1, count + 1)]


def _named(lines: list[str], n: int, source: str, *, zeros_left_out: bool) -> list[int]:
    """Returns the pairs of named values; the values of other variables follow from these."""
    count = n * (n - 1) // 2
    values: dict[int, int] = {}
    for at, line in enumerate(lines, 1):
        found = None if line.startswith("#") else _PAIR.search(line)
        if found is None:
            continue
        name, place = f"adjacent_{found[1]}_{found[2]}", f"line {at}"
        a, b = int(found[1]), int(found[2])
        if not a < b < n:
            raise InputError(source, place, f"{name}: the instance has only {n} variables", _REMEDY)
        if edge(a, b) in values:
            raise InputError(source, place, f"{name} occurs twice", "keep one solution")
        try:
            value = float(found[3])
        except ValueError:
            value = nan
        if not isfinite(value):
            raise InputError(source, place, f"'{found[3][:40]}' is not a number", _REMEDY)
        if min(abs(value), abs(value - 1)) > _NEAR:
            remedy = "solve it as an integer program"
            raise InputError(source, place, f"{name} is {found[3]}, neither 0 nor 1", remedy)
        values[edge(a, b)] = round(value)
    if len(values) < count and not (zeros_left_out and any("family_" in line for line in lines)):
        names = (f"adjacent_{a}_{b}" for b in range(n) for a in range(b) if edge(a, b) not in values)
        raise InputError(source, "", f"{next(names)} is missing", _REMEDY)
    return [values.get(number, 0) for number in range(1, count + 1)]
