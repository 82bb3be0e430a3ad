"""Result files: `jtsolve-result`, version 1."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from jtsolve.core.files import read_file
from jtsolve.core.result import Incumbent, Result, Status, Stop
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import varset
from jtsolve.errors import InputError
from jtsolve.io.constraints import ConstraintsDocument, constraints_from_document, constraints_to_document
from jtsolve.io.documents import decode_json, json_bytes, json_value, names_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


FORMAT = "jtsolve-result"
VERSION = 1


class InstanceReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The problem solved: its name, digest and constraints."""

    name: str
    digest: str
    constraints: ConstraintsDocument


class BackendReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The backend and its options."""

    name: str
    options: dict[str, Any]


class ResultDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A jtsolve result file, version 1; null stands for a missing or infinite value.

    Without a tree, `score` and `treewidth` are null, and `cliques`, `separators` and `tree_edges` are empty.
    `separators` is aligned with `tree_edges`, pairs of positions in `cliques`. Scores are in nats,
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


def result_to_json(result: Result) -> bytes:
    """Returns the result as JSON in UTF-8, with keys in a fixed order and a line per clique.

    Raises:
        TypeError: an option or a figure is not a JSON value.
    """
    return json_bytes(plain_result(result))


def result_to_document(result: Result) -> ResultDocument:
    """Returns the document that `read_result` would return."""
    return msgspec.convert(plain_result(result), ResultDocument)


def read_result(path: str | Path) -> ResultDocument:
    """Returns the result in a file, unverified; see `check`.

    Raises:
        InputError: the file cannot be read or violates the format; names the place.
    """
    document = decode_json(read_file(path), ResultDocument, str(path))
    require_total(document.seconds, str(path), "$")
    return document


def require_total(seconds: Mapping[str, float], source: str, place: str) -> None:
    """Checks that the duration of a run is given.

    Args:
        seconds: of each phase of the run.
        source: the file, for errors.
        place: where the result is in it, as a JSON path.

    Raises:
        InputError: it is not.
    """
    if "total" not in seconds:
        raise InputError(
            source, f"{place}.seconds", "the key 'total' is missing", "add the seconds from start to finish"
        )


def tree_of(
    document: ResultDocument, source: str, names: Sequence[str] | None = None
) -> tuple[JunctionTree, tuple[str, ...]]:
    """Returns the tree of a result, and its variables.

    Args:
        document: the result.
        source: of it, for messages.
        names: of the variables, in order; None for an order that agrees with every clique.

    Raises:
        InputError: there is no tree, its variables have other names, or the cliques do not form a junction
            tree.
    """
    if not document.cliques:
        status = document.status.value
        raise InputError(source, "$.cliques", f"there is no tree (status {status})", "give a result with one")
    own = _variables(document.cliques)
    names = own if names is None else tuple(names)
    if set(own) != set(names):
        raise InputError(
            source, "$.cliques", "its variables are not the columns of the data", "name the same columns"
        )
    index = {name: v for v, name in enumerate(names)}
    cliques = [varset(index[name] for name in clique) for clique in document.cliques]
    try:
        return JunctionTree(len(names), tuple(cliques), tuple(document.tree_edges)), names
    except ValueError as error:
        raise InputError(
            source, "$.cliques", str(error), "solve again; 'jtsolve check' lists every fault"
        ) from None


def result_of(document: ResultDocument, source: str, names: Sequence[str] | None = None) -> Result:
    """Returns the result in a document, unverified; see `check`.

    Args:
        document: as read.
        source: of it, for messages.
        names: of the variables, in order; None for an order that agrees with every clique.

    Raises:
        InputError: the cliques do not form a junction tree over these variables, or the claims
            contradict each other.
    """
    tree, own = tree_of(document, source, names) if document.cliques else (None, tuple(names or ()))
    constraints = document.instance.constraints
    unbounded = -inf if document.status is Status.INFEASIBLE else inf
    try:
        return Result(
            instance=document.instance.name,
            digest=document.instance.digest,
            names=own,
            constraints=constraints_from_document(constraints, own, source, "$.instance.constraints"),
            backend=document.backend.name,
            options=document.backend.options,
            status=document.status,
            stop=document.stop,
            tree=tree,
            score=document.score,
            bound=unbounded if document.bound is None else document.bound,
            seconds=document.seconds,
            trace=tuple(Incumbent(*step) for step in document.trace),
            seed=document.seed,
            environment=document.environment,
            stats=document.stats,
        )
    except ValueError as error:
        raise InputError(source, "", str(error), "solve again; 'jtsolve check' lists every fault") from None


def _variables(cliques: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Returns all names, in an order that agrees with every clique.

    Result files list cliques, with members in the order of the variables. Files of other programs may admit
    no such order; then names are in order of first occurrence.
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
    plain: dict[str, Any] = json_value(values)
    return plain
