"""A strict reader of the answers of outside solvers: which pairs of variables are adjacent.

Every exported formula begins with the pairs (`encodings.family`), so the reader needs only n. It accepts

- the output of MaxSAT solvers: v lines with literals (v 1 -2 3 0) or digits (v 101, since 2022);
- solution files of HiGHS ("Model status", "# Columns"), CBC ("Optimal - objective value", then one line per
  column) and SCIP ("solution status:"); the last two omit zeros;
- lines with a name and a value, as of Gurobi or printed from CP-SAT; # begins a comment.

Only the pairs are read: tree, score and constraints are checked against the instance.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from jtsolve.encodings.family import edge, tree_of_edges
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jtsolve.core.tree import JunctionTree

_Entry: TypeAlias = tuple[int, str, str]
"""A line number, a name and a value."""

_NEAR = 1e-4
"""How far from 0 or 1 a floating-point solver may leave a binary variable."""

_CBC = re.compile(r"(Optimal|Stopped on [a-z ]+)\b.*")
_NAME = re.compile(r"(adjacent|family|before|ends|never)(_\d+)*")

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
    head, first = next(((at, line.strip()) for at, line in enumerate(lines) if line.strip()), (0, ""))
    if first == "Model status":
        return "HiGHS", _named(_highs_columns(lines, source), n, source, zeros_left_out=False)
    if first.startswith("solution status:"):  # the third word is the objective coefficient
        return "SCIP", _named(_entries(lines, source, 0, {2, 3}), n, source, zeros_left_out=True)
    if first.startswith(("Infeasible", "Integer infeasible", "Unbounded")):
        raise InputError(source, "", f"the solver has no solution: {first[:60]}", "let the solver find one")
    if _CBC.fullmatch(first):
        entries = _entries(lines, source, head + 1, {4}, name=1)  # number, name, value, reduced cost
        return "CBC", _named(entries, n, source, zeros_left_out=True)
    if any(line[:2] in {"v ", "s ", "o ", "c ", "v", "c"} for line in lines):
        return "MaxSAT", _literals(lines, n, source)
    return "names and values", _named(_entries(lines, source, 0, {2}), n, source, zeros_left_out=False)


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


def _highs_columns(lines: list[str], source: str) -> Iterable[_Entry]:
    """Yields the columns of a solution file of HiGHS."""
    head = next((at for at, line in enumerate(lines) if line.startswith("# Columns")), 0)
    if not any(line == "Feasible" for line in lines[:head]):
        raise InputError(source, "", "it has no feasible primal solution", "let the solver find one")
    stated = lines[head].removeprefix("# Columns").strip()
    count = int(stated) if re.fullmatch(r"\d{1,9}", stated) else 0
    if not 0 < count < len(lines) - head:
        raise InputError(source, f"line {head + 1}", "the stated number of columns is wrong", _REMEDY)
    yield from _entries(lines[: head + 1 + count], source, head + 1, {2})


def _entries(lines: list[str], source: str, first: int, words: set[int], name: int = 0) -> Iterable[_Entry]:
    """Yields the entries of lines with a name and, in the next word, its value.

    Args:
        lines: of the file.
        source: the name of the file in messages.
        first: the position of the first line to read.
        words: the permitted numbers of words.
        name: the position of the name among them.
    """
    for at, line in enumerate(lines[first:], first + 1):
        found = line.removeprefix("**").split()
        if found and not line.lstrip().startswith(("#", "solution status:", "objective value:")):
            if len(found) not in words:
                raise InputError(source, f"line {at}", "it is not a name with a value", _REMEDY)
            yield at, found[name], found[name + 1]


def _named(entries: Iterable[_Entry], n: int, source: str, *, zeros_left_out: bool) -> list[int]:
    """Returns the pairs of named values."""
    count = n * (n - 1) // 2
    values: dict[str, int] = {}
    for line, name, text in entries:
        if not _NAME.fullmatch(name):
            raise InputError(source, f"line {line}", f"'{name[:40]}' is not a variable of a formula", _REMEDY)
        if name in values:
            raise InputError(source, f"line {line}", f"{name} occurs twice", "keep one solution")
        values[name] = _value(text, name, source, line)
    names = {f"adjacent_{a}_{b}": edge(a, b) for b in range(n) for a in range(b)}
    unknown = next((name for name in values if name.startswith("adjacent") and name not in names), None)
    if unknown is not None:
        raise InputError(source, "", f"{unknown}: the instance has only {n} variables", _REMEDY)
    if not values or (not zeros_left_out and len(names.keys() & values.keys()) < count):
        missing = next((name for name in names if name not in values), "the solution")
        raise InputError(source, "", f"{missing} is missing", _REMEDY)
    edges = [0] * count
    for name, number in names.items():
        edges[number - 1] = values.get(name, 0)
    return edges


def _value(text: str, name: str, source: str, line: int) -> int:
    """Returns the rounded value; 0 or 1 for a pair."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise InputError(source, f"line {line}", f"'{text[:40]}' is not a number", _REMEDY)
    if name.startswith("adjacent") and min(abs(value), abs(value - 1)) > _NEAR:
        raise InputError(
            source,
            f"line {line}",
            f"{name} is {text}, neither 0 nor 1",
            "solve it as an integer program",
        )
    return round(value)
