"""What a solve returns: what is known (status, score, bound) apart from why it stopped; and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from math import inf, isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from jtsolve.documents import ConstraintsDocument, constraints_to_document, decode, lay_out, names_of
from jtsolve.errors import InputError
from jtsolve.files import read_file
from jtsolve.tree import JunctionTree
from jtsolve.varset import varset

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.problem import Constraints


class Status(Enum):
    """What is known at the end."""

    OPTIMAL = "optimal"
    """The tree's score is within `OPTIMALITY_TOLERANCE` of the bound."""
    FEASIBLE = "feasible"
    """A tree was found; a better one may exist."""
    INFEASIBLE = "infeasible"
    """It is proved that no tree meets the constraints."""
    UNKNOWN = "unknown"
    """No tree was found, and none was proved not to exist."""


class Stop(Enum):
    """Why the work ended."""

    FINISHED = "finished"
    TIME = "time"
    MEMORY = "memory"
    STEPS = "steps"
    INTERRUPTED = "interrupted"


OPTIMALITY_TOLERANCE = 1e-6
"""A gap of at most this many nats counts as optimal: above float64 noise of n = 30 variables at scores of
10^6 nats (about 10^-8), and far below any difference that data can show."""


@dataclass(frozen=True, slots=True)
class Incumbent:
    """A step of the trace: at `seconds` since the start, the best score and the best bound known, in nats."""

    seconds: float
    score: float | None
    bound: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a backend claims; `solve` verifies it and makes a `Result` of it.

    Args:
        tree: the best tree found, or None.
        bound: no tree of the problem scores more, in nats; inf if the backend proves nothing, -inf if it
            proves that no tree exists.
        stop: why the backend ended.
        stats: free figures for the curious, such as counts and predicted bytes.
        seconds: parts of the time, in seconds of wall clock.
    """

    tree: JunctionTree | None
    bound: float = inf
    stop: Stop = Stop.FINISHED
    stats: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """The verified answer of one solve.

    Args:
        instance: the problem's name.
        digest: the problem's digest.
        names: the variables' names.
        constraints: what the tree had to meet, the treewidth of the command line included.
        backend: the backend's name.
        options: the backend's fields, as JSON values.
        status: what is known.
        stop: why the work ended.
        tree: the best tree, or None.
        score: the tree's score recomputed from the instance, in nats, or None.
        bound: no tree of the problem scores more, in nats; -inf if it is infeasible.
        seconds: wall clock; "total" and parts of it.
        trace: the incumbents and bounds as they came.
        seed: the seed of the run.
        environment: versions and machine.
        stats: the backend's own figures.

    Raises:
        ValueError: the parts contradict each other.
    """

    instance: str
    digest: str
    names: tuple[str, ...]
    constraints: Constraints
    backend: str
    options: Mapping[str, Any]
    status: Status
    stop: Stop
    tree: JunctionTree | None
    score: float | None
    bound: float
    seconds: Mapping[str, float]
    trace: tuple[Incumbent, ...] = ()
    seed: int = 0
    environment: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    stats: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if (self.tree is None) != (self.score is None):
            raise ValueError("a result has both a tree and a score, or neither")
        if (self.tree is not None) != (self.status in (Status.OPTIMAL, Status.FEASIBLE)):
            raise ValueError(f"status '{self.status.value}' does not fit a tree that is {self.tree}")
        if self.score is not None and self.bound < self.score:
            raise ValueError(f"the bound {self.bound} is below the score {self.score}")
        if self.status is Status.OPTIMAL and not self.gap <= OPTIMALITY_TOLERANCE:
            raise ValueError(f"status 'optimal' with a gap of {self.gap}")
        if (self.status is Status.INFEASIBLE) != (self.bound == -inf):
            raise ValueError("the bound is -inf if and only if the problem is infeasible")

    @property
    def gap(self) -> float:
        """Bound minus score, in nats; inf without a tree, 0 if the problem is infeasible."""
        if self.status is Status.INFEASIBLE:
            return 0.0
        return inf if self.score is None else self.bound - self.score

    @property
    def treewidth(self) -> int | None:
        """The tree's treewidth, or None without a tree."""
        return None if self.tree is None else self.tree.treewidth


FORMAT = "jtsolve-result"
VERSION = 1


class InstanceReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which problem was solved: its name and digest, and the constraints that held, by name."""

    name: str
    digest: str
    constraints: ConstraintsDocument


class BackendReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which backend solved it, and its options."""

    name: str
    options: dict[str, Any]


class ResultDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A jtsolve result file, version 1; null stands for what is not there, or not finite.

    Without a tree, `score` and `treewidth` are null, and `cliques`, `separators` and `tree_edges` are empty.
    `separators` is aligned with `tree_edges`, which are pairs of positions in `cliques`. Scores are in nats,
    times in seconds of wall clock.
    """

    format: Literal["jtsolve-result"]
    version: Literal[1]
    instance: InstanceReference
    backend: BackendReference
    status: Status
    stop: Stop
    score: float | None
    bound: float | None
    gap: float | None
    treewidth: int | None
    cliques: list[list[str]]
    separators: list[list[str]]
    tree_edges: list[tuple[int, int]]
    seconds: dict[str, float]
    trace: list[tuple[float, float | None, float | None]]
    seed: int
    environment: dict[str, Any]
    stats: dict[str, Any]


def result_schema() -> dict[str, Any]:
    """Returns the JSON Schema of result files; docs/schema/result.schema.json is a copy."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **msgspec.json.schema(ResultDocument),
    }


def result_to_json(result: Result) -> bytes:
    """Returns the result as a JSON text, UTF-8, keys in a fixed order, a line per clique.

    Raises:
        TypeError: an option or a figure is no JSON value.
    """
    return (lay_out(plain_result(result)) + "\n").encode()


def result_to_document(result: Result) -> ResultDocument:
    """Returns the result as `read_result` would, from a file of it."""
    return msgspec.convert(plain_result(result), ResultDocument)


def read_result(path: str | Path) -> ResultDocument:
    """Returns the result in a file; what it says is not verified: `check` does that.

    Raises:
        InputError: the file cannot be read, or is not what the format asks for; names the place.
    """
    document = decode(read_file(path), ResultDocument, str(path))
    if "total" not in document.seconds:
        raise InputError(
            str(path), "$.seconds", "the key 'total' is missing", "add the seconds from start to end"
        )
    return document


def tree_of(document: ResultDocument, source: str) -> tuple[JunctionTree, tuple[str, ...]]:
    """Returns the tree of a result, and the names of its variables in an order that agrees with every clique.

    Raises:
        InputError: there is no tree, or it is no junction tree.
    """
    if not document.cliques:
        status = document.status.value
        raise InputError(source, "$.cliques", f"there is no tree (status {status})", "give a result with one")
    names = _variables(document.cliques)
    index = {name: v for v, name in enumerate(names)}
    cliques = [varset(index[name] for name in clique) for clique in document.cliques]
    try:
        return JunctionTree(len(names), tuple(cliques), tuple(document.tree_edges)), names
    except ValueError as error:
        raise InputError(
            source, "$.cliques", str(error), "solve again; 'jtsolve check' lists every fault"
        ) from None


def _variables(cliques: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Returns all names, in an order in which those of each clique are as they are there.

    A result lists cliques, not variables; its cliques are in the order of the variables. In a file made
    otherwise no such order may exist: then a name stands where it first occurs.
    """
    order: TopologicalSorter[str] = TopologicalSorter()
    for clique in cliques:
        for name in clique:
            order.add(name)
        for before, after in pairwise(clique):
            order.add(after, before)
    try:
        return tuple(order.static_order())
    except CycleError:
        return tuple(dict.fromkeys(name for clique in cliques for name in clique))


def plain_result(result: Result) -> dict[str, Any]:
    """Returns the result as JSON values."""
    tree, names = result.tree, result.names
    values = {
        "format": FORMAT,
        "version": VERSION,
        "instance": {
            "name": result.instance,
            "digest": result.digest,
            "constraints": constraints_to_document(result.constraints, names),
        },
        "backend": {"name": result.backend, "options": result.options},
        "status": result.status.value,
        "stop": result.stop.value,
        "score": result.score,
        "bound": result.bound,
        "gap": result.gap,
        "treewidth": result.treewidth,
        "cliques": [] if tree is None else [names_of(clique, names) for clique in tree.cliques],
        "separators": [] if tree is None else [names_of(separator, names) for separator in tree.separators],
        "tree_edges": [] if tree is None else tree.edges,
        "seconds": result.seconds,
        "trace": [(step.seconds, step.score, step.bound) for step in result.trace],
        "seed": result.seed,
        "environment": result.environment,
        "stats": result.stats,
    }
    plain: dict[str, Any] = _json_value(values)
    return plain


def _json_value(value: Any) -> Any:
    """Returns a value as JSON has it: lists for sequences, null for numbers that are not finite.

    Raises:
        TypeError: JSON has nothing of the kind.

    >>> _json_value({"a": (1, inf)})
    {'a': [1, None]}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _json_value(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(entry) for entry in value]
    if hasattr(value, "item"):  # a number of numpy
        return _json_value(value.item())
    raise TypeError(f"{value!r} is no JSON value: use numbers, texts, lists and mappings")
