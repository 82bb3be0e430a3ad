"""Instance files: the jtsolve format, and the dispatch to other formats by suffix.

    .json, .json.gz   jtsolve-instance, version 1                             read and written
    .score            Junctor                                                 read and written
    .dmst             Adjunct; detected by its first word under any suffix    read
    .jkl, .scores     GOBNILP, blip                                           read
    .pss              urlearning                                              read

The format of a file with another suffix is detected. Gzip data are decompressed under any suffix.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np

from jtsolve.core.files import read_file, write_atomically
from jtsolve.core.formats import INSTANCE, stem_of
from jtsolve.core.pairs import PairScores, weight_matrix
from jtsolve.core.problem import MOST_CELLS, Problem, Variable
from jtsolve.core.run import Run
from jtsolve.core.scores import LARGEST, DenseScores, LocalScores, SparseScores
from jtsolve.core.varset import key_of, set_table
from jtsolve.errors import ChoiceError, InputError, printable
from jtsolve.io.constraints import ConstraintsDocument, constraints_from_document, constraints_to_document
from jtsolve.io.documents import Name, decode_json, names_of, set_of_names
from jtsolve.io.foreign import (
    CHECKED_EVERY,
    dense_scores,
    junctor_text,
    read_gobnilp,
    read_junctor,
    read_urlearning,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

FORMAT = "jtsolve-instance"
VERSION = 1


class VariableDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A variable with the number of its states, or their labels."""

    name: Name
    states: Annotated[int, msgspec.Meta(ge=1)] | Annotated[list[str], msgspec.Meta(min_length=1)]


class ColexScores(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="layout", tag="colex"):
    """Scores, in nats, of all sets of at most `max_size` variables, by increasing bit mask, ∅ first."""

    max_size: Annotated[int, msgspec.Meta(ge=1)]
    values: list[float]


class SetScores(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="layout", tag="sparse"):
    """Scores, in nats, of some sets, by name; an absent set may be neither a clique nor a separator."""

    sets: list[tuple[list[str], float]]


class PairLayout(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="layout", tag="pairs"):
    """Scores from weights of pairs, by name; see `jtsolve.core.pairs`. All variables need states."""

    pairs: list[tuple[str, str, float]]
    noise: float = 0.0
    price: float = 0.0
    max_cells: Annotated[int, msgspec.Meta(ge=1, le=MOST_CELLS)] | None = None
    max_size: Annotated[int, msgspec.Meta(ge=1)] | None = None


class InstanceDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A jtsolve instance file, version 1."""

    format: Literal["jtsolve-instance"]
    version: Literal[1]
    variables: Annotated[list[Name | VariableDocument], msgspec.Meta(min_length=1)]
    scores: ColexScores | SetScores | PairLayout
    name: str = ""
    constraints: ConstraintsDocument = ConstraintsDocument()
    provenance: dict[str, Any] = {}


def read_problem(path: str | Path, run: Run | None = None) -> Problem:
    """Returns the problem in a file.

    Args:
        path: in one of the formats of this module.
        run: limits time and memory; None for the defaults.

    Raises:
        LimitError: time or memory do not suffice.
        InputError: the file cannot be read or violates its format; names the file, the place, the fault and
            the fix.
    """
    run = run or Run()
    data = read_file(path, run)
    source, kind = str(path), _kind(path, data)
    if kind == "json":
        return _from_json(data, source, run)
    if kind is None:
        raise INSTANCE.refusal(path)
    return _READERS[kind](data, source, printable(stem_of(path)), run)


_READERS: dict[str, Callable[[bytes, str, str, Run], Problem]] = {
    "score": read_junctor,
    "dmst": read_junctor,
    "jkl": read_gobnilp,
    "scores": read_gobnilp,
    "pss": read_urlearning,
}


def _kind(path: str | Path, data: bytes) -> str | None:
    """Returns the format, by the first word DMST, the suffix, or the first line; None if it is unknown."""
    words = data[:4096].split(None, 1)
    if words and words[0] == b"DMST":
        return "dmst"
    if (kind := INSTANCE.format_to_read(path)) is not None:
        return kind
    if words and words[0].startswith(b"{"):
        return "json"
    if words and words[0] in (b"META", b"VAR"):
        return "pss"
    lines = (line.split() for line in data[:4096].splitlines())
    first = next((line for line in lines if line and not line[0].startswith(b"#")), [])
    if first and all(word.isdigit() for word in first):
        return {1: "jkl", 2: "score"}.get(len(first))
    return None


def _from_json(data: bytes, source: str, run: Run) -> Problem:
    document = decode_json(data, InstanceDocument, source, run)
    variables = _variables(document.variables, source)
    names = [variable.name for variable in variables]
    place = "$.constraints"
    rows = document.provenance.get("rows")  # a remark of any type: only a count is used
    return Problem(
        variables,
        _scores(document.scores, variables, source, run),
        constraints_from_document(document.constraints, names, source, place),
        document.name,
        MappingProxyType(document.provenance),
        rows if type(rows) is int and rows > 0 else None,
    )


def _variables(entries: Sequence[str | VariableDocument], source: str) -> tuple[Variable, ...]:
    variables: dict[str, Variable] = {}
    for i, entry in enumerate(entries):
        variable = (
            Variable(entry) if isinstance(entry, str) else _variable(entry, f"$.variables[{i}]", source)
        )
        if variable.name in variables:
            reason = f"the name '{variable.name}' is used twice"
            raise InputError(source, f"$.variables[{i}]", reason, "give every variable a different name")
        variables[variable.name] = variable
    return tuple(variables.values())


def _variable(entry: VariableDocument, place: str, source: str) -> Variable:
    if isinstance(entry.states, int):
        return Variable(entry.name, entry.states)
    if len(set(entry.states)) < len(entry.states):
        reason = f"'{entry.name}' has a label twice"
        raise InputError(source, f"{place}.states", reason, "give every state a different label")
    return Variable(entry.name, tuple(entry.states))


def _scores(
    document: ColexScores | SetScores | PairLayout, variables: Sequence[Variable], source: str, run: Run
) -> LocalScores:
    names = [variable.name for variable in variables]
    if isinstance(document, PairLayout):
        return _pair_scores(document, variables, source)
    if isinstance(document, ColexScores):
        values = np.array(document.values, dtype=np.float64)
        places = ("$.scores.max_size", "$.scores.values")
        return dense_scores(source, places, len(names), document.max_size, values)
    index = {name: v for v, name in enumerate(names)}
    pairs: list[tuple[int, float]] = []
    key, seen = key_of(len(names)), set()
    for i, (entry, value) in enumerate(document.sets):
        if i % CHECKED_EVERY == 0:
            run.require_reading(0)
        mask = set_of_names(entry, index, source, f"$.scores.sets[{i}][0]")
        if key(mask) in seen:
            reason = f"the set {{{', '.join(names_of(mask, names))}}} occurs twice"
            raise InputError(source, f"$.scores.sets[{i}]", reason, "remove one of them")
        if not -LARGEST <= value <= LARGEST:  # JSON has neither NaN nor infinity
            reason = f"{value} is beyond ±{LARGEST:g} nats"
            raise InputError(source, f"$.scores.sets[{i}][1]", reason, "give a score in nats")
        if mask == 0 and value != 0:
            raise InputError(source, f"$.scores.sets[{i}][1]", f"s(∅) is {value}", "s(∅) must be 0")
        seen.add(key(mask))
        pairs.append((mask, value))
    return SparseScores(len(names), set_table(len(names), pairs))


def _pair_scores(document: PairLayout, variables: Sequence[Variable], source: str) -> PairScores:
    names = [variable.name for variable in variables]
    states = [variable.arity for variable in variables if variable.arity is not None]
    if len(states) < len(names):
        name = next(variable.name for variable in variables if variable.arity is None)
        raise InputError(source, "$.variables", f"'{name}' has no states", "give the states of each one")
    bounds = (document.max_cells, document.max_size)
    try:
        weights = weight_matrix((((u, v), weight) for u, v, weight in document.pairs), names)
        return PairScores(weights, tuple(states), document.noise, document.price, *bounds)
    except InputError as error:
        raise InputError(source, f"$.scores.{error.place}", error.reason, error.remedy) from None


def write_problem(problem: Problem, path: str | Path) -> None:
    """Writes a problem to a file, whole or not at all; equal problems give equal bytes.

    Numbers are exact, and tables and sparse scores keep their layouts. A Junctor file has no names, states or
    provenance.

    Args:
        problem: with a table or sparse scores.
        path: .json, .json.gz or .score (Junctor).

    Raises:
        ChoiceError: the format is not one that is written, or would lose scores or constraints.
        InputError: the file, or a text in the problem, cannot be written.
    """
    source, kind = str(path), INSTANCE.format_to_write(path)
    if kind == "json":
        numbers = isinstance(problem.scores, DenseScores)
        write_atomically(path, _to_json(problem, source), numbers=numbers)
    else:
        write_atomically(path, junctor_text(_plain_table(problem, source)))


def _plain_table(problem: Problem, source: str) -> DenseScores:
    """Returns the scores of a problem that a Junctor file can represent; refuses others."""
    losses = [
        f"the constraint {feature.value}"
        for feature in sorted(problem.constraints.features, key=lambda feature: feature.value)
    ]
    if not isinstance(problem.scores, DenseScores):
        losses.append("which sets have no score, since the format holds a score for every set")
    if losses:
        raise ChoiceError(f"{source}: this format would lose {', and '.join(losses)}; write .json instead")
    assert isinstance(problem.scores, DenseScores)
    return problem.scores


def _to_json(problem: Problem, source: str) -> bytes:
    """Returns the instance file: one line per key."""
    variables = problem.variables
    lines = {
        "format": _encoded(FORMAT),
        "version": _encoded(VERSION),
        "name": _encoded(problem.name),
        "variables": _encoded(
            [
                one.name if one.states is None else {"name": one.name, "states": one.states}
                for one in variables
            ]
        ),
        "scores": _scores_text(problem, source),
    }
    if problem.constraints.features:
        lines["constraints"] = _encoded(constraints_to_document(problem.constraints, problem.names))
    try:
        provenance = dict(problem.provenance)
        if problem.rows is not None:
            provenance["rows"] = problem.rows
        if provenance:
            # The standard encoder refuses values outside JSON; msgspec would write null for NaN.
            lines["provenance"] = json.dumps(provenance, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            source, "$.provenance", f"it cannot be written ({error})", "use texts and finite numbers"
        ) from None
    return b"{\n" + b",\n".join(b'"%s": %s' % (key.encode(), line) for key, line in lines.items()) + b"\n}\n"


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


_PIECE = 1 << 20


def _scores_text(problem: Problem, source: str) -> bytes:
    scores = problem.scores
    if isinstance(scores, DenseScores):
        # In pieces, since a list of Python numbers needs eight times the memory of the array.
        pieces = (scores.values[at : at + _PIECE].tolist() for at in range(0, scores.values.size, _PIECE))
        values = b",".join(_encoded(piece)[1:-1] for piece in pieces)
        return b'{"layout": "colex", "max_size": %d, "values": [%s]}' % (scores.max_size, values)
    if isinstance(scores, SparseScores):
        names = problem.names
        sets = [(names_of(mask, names), value) for mask, value in scores.table.items() if mask]
        return b'{"layout": "sparse", "sets": %s}' % _encoded(sets)
    if isinstance(scores, PairScores):
        u, v = np.nonzero(np.triu(scores.weights, 1))
        pairs = zip(u.tolist(), v.tolist(), scores.weights[u, v].tolist(), strict=True)
        names, own = problem.names, {"noise": scores.noise, "price": scores.price}
        bounds = {"max_cells": scores.max_cells, "max_size": scores.size}
        listed = [(names[a], names[b], weight) for a, b, weight in pairs]
        return _encoded({"layout": "pairs", **own, **bounds, "pairs": listed})
    raise ChoiceError(
        f"{source}: scores that are computed on demand cannot be written; make a table with "
        "jtsolve.core.scores.colex_table first"
    )
