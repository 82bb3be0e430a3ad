"""Posterior files: `jtsolve-posterior`, version 1."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np

from jtsolve.averaging.parts import Intervals, Strengths, Traces
from jtsolve.core.files import read_file
from jtsolve.core.result import Stop
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import varset
from jtsolve.errors import InputError
from jtsolve.io.documents import Name, decode_json, json_bytes, names_of, set_of_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.core.varset import VarSet

_Kind = TypeVar("_Kind")
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Expectation = Annotated[float, msgspec.Meta(ge=0)]
_TWO = msgspec.Meta(min_length=2, max_length=2)
"""Length of a list; for a tuple beside a bounded number, msgspec 0.22 overruns its memory."""


class Instance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Name and digest of the problem."""

    name: str
    digest: str


class Pair(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An edge with its probability, or bounds on it."""

    one: str
    other: str
    low: Probability
    high: Probability | None = None


class Clique(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A set with the probability that it is a maximal clique, or bounds on it."""

    names: list[str]
    low: Probability
    high: Probability | None = None


class Separator(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A set with its expected multiplicity as a separator, or bounds on it."""

    names: list[str]
    low: Expectation
    high: Expectation | None = None


class PosteriorDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A jtsolve posterior file, version 1.

    `edges` has every pair of variables once, with the probability of an edge. `cliques` are maximal cliques
    with their probabilities, `separators` sets with their expected multiplicities, both above a threshold in
    `diagnostics`. `log_evidence` is in nats; null if the method does not compute it. `converged` is false if
    the chains of method "chains" disagree: then the figures must not be used.

    Method "certified" has proved bounds in place of figures: `[name, name, low, high]`, and pairs for
    `log_evidence` and `connected`; `converged` is false if an interval is wider than the tolerance.
    """

    format: Literal["jtsolve-posterior"]
    version: Literal[1]
    instance: Instance
    variables: Annotated[list[Name], msgspec.Meta(min_length=1)]
    log_evidence: float | Annotated[list[float], _TWO] | None
    edges: list[Pair]
    cliques: list[Clique]
    separators: list[Separator]
    connected: Probability | Annotated[list[Probability], _TWO]
    method: Literal["exact", "certified", "chains"]
    converged: bool
    diagnostics: dict[str, Any]
    prior: dict[str, Any]
    seconds: dict[str, float]
    environment: dict[str, Any]


class TracesDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`diagnostics.traces`: the score and the number of edges of each chain at some rounds.

    `pairs` has every pair of variables, with the Monte Carlo standard error of its probability and the
    largest difference between two chains.
    """

    rounds: list[int]
    scores: list[list[float]]
    edges_in_graph: list[list[int]]
    pairs: list[tuple[str, str, Expectation, Probability]]


class BootstrapDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`diagnostics.bootstrap`: the share of resamples whose tree has an edge."""

    edges: list[tuple[str, str, Probability]]
    resamples: Annotated[int, msgspec.Meta(ge=1)]
    wanted: Annotated[int, msgspec.Meta(ge=1)]
    optimal: Annotated[int, msgspec.Meta(ge=0)]
    backend: str
    seed: int
    stop: Stop = Stop.FINISHED


def posterior_to_json(posterior: Any) -> bytes:
    """Returns the posterior as a JSON text, UTF-8, keys in a fixed order."""
    names = posterior.names
    diagnostics = {**posterior.diagnostics, "threshold": posterior.threshold}
    if posterior.best is not None:
        diagnostics["best"] = [names_of(clique, names) for clique in posterior.best.cliques]
    if (traces := posterior.traces) is not None:
        diagnostics["traces"] = {
            "rounds": traces.rounds.tolist(),
            "scores": traces.scores.tolist(),
            "edges_in_graph": traces.edges_in_graph.tolist(),
            "pairs": _pairs(names, traces.errors, traces.differences),
        }
    if (found := posterior.bootstrap) is not None:
        facts = {name: getattr(found, name) for name in _FACTS}
        diagnostics["bootstrap"] = {"edges": _pairs(names, found.edges), **facts, "stop": found.stop.value}
    bounds = posterior.intervals
    if bounds is not None:
        diagnostics |= {name: getattr(bounds, name) for name in _NUMBERS}
    matrices = (posterior.edges,) if bounds is None else (bounds.low, bounds.high)
    values = {
        "format": "jtsolve-posterior",
        "version": 1,
        "instance": {"name": posterior.instance, "digest": posterior.digest},
        "variables": list(names),
        "log_evidence": posterior.log_evidence if bounds is None else bounds.log_evidence,
        "edges": _pairs(names, *matrices),
        "cliques": _listed(posterior.cliques, None if bounds is None else bounds.cliques, names),
        "separators": _listed(posterior.separators, None if bounds is None else bounds.separators, names),
        "connected": posterior.connected if bounds is None else bounds.connected,
        "method": posterior.method,
        "converged": posterior.converged,
        "diagnostics": diagnostics,
        "prior": dict(posterior.prior),
        "seconds": dict(posterior.seconds),
        "environment": dict(posterior.environment),
    }
    return json_bytes(values)


def _pairs(names: Sequence[str], *matrices: NDArray[np.float64]) -> list[list[Any]]:
    """Returns the pairs of variables, each with its figures in symmetric matrices."""
    pairs = combinations(range(len(names)), 2)
    return [[names[u], names[v], *(float(matrix[u, v]) for matrix in matrices)] for u, v in pairs]


def _listed(
    figures: Sequence[tuple[VarSet, float]],
    bounds: Sequence[tuple[float, float]] | None,
    names: Sequence[str],
) -> list[list[Any]]:
    """Returns sets by names, with their figures or bounds."""
    values = [(value,) for _, value in figures] if bounds is None else bounds
    return [[names_of(mask, names), *of] for (mask, _), of in zip(figures, values, strict=True)]


def read_posterior(path: str | Path, kind: Callable[..., _Kind]) -> _Kind:
    """Returns the posterior in a file, made by the class of posteriors.

    Raises:
        InputError: the file cannot be read or violates the format; with the place.
    """
    source = str(path)
    document = decode_json(read_file(path), PosteriorDocument, source)
    index = {name: v for v, name in enumerate(document.variables)}
    if len(index) < len(document.variables):
        raise InputError(source, "$.variables", "a name occurs twice", "name each variable once")
    diagnostics = dict(document.diagnostics)
    threshold = diagnostics.pop("threshold", 0.0)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise InputError(
            source, "$.diagnostics.threshold", "it is not a probability", "give a number from 0 to 1"
        )
    if "total" not in document.seconds:
        raise InputError(
            source, "$.seconds", "the key 'total' is missing", "add the seconds from start to end"
        )
    for name in ("treewidth", "edges_in_graph"):
        for key in (name, f"{name}_errors"):
            if key in diagnostics:
                _converted(diagnostics[key], list[Probability], source, f"$.diagnostics.{key}")
    best = diagnostics.pop("best", None)
    traces = diagnostics.pop("traces", None)
    bootstrap = diagnostics.pop("bootstrap", None)
    try:
        intervals = _intervals(document, diagnostics, index, source)
        evidence, connected = document.log_evidence, document.connected
        evidence = sum(evidence) / 2 if isinstance(evidence, list) else evidence
        connected = sum(connected) / 2 if isinstance(connected, list) else connected
        edges = [(pair.one, pair.other, _middle(pair)) for pair in document.edges]
        return kind(
            instance=document.instance.name,
            digest=document.instance.digest,
            names=tuple(document.variables),
            log_evidence=evidence,
            edges=_matrix(edges, index, source, "$.edges"),
            cliques=_sets(document.cliques, index, source, "$.cliques"),
            separators=_sets(document.separators, index, source, "$.separators"),
            connected=connected,
            method=document.method,
            converged=document.converged,
            threshold=float(threshold),
            prior=document.prior,
            best=None if best is None else _tree(best, index, source),
            traces=None if traces is None else _traces(traces, index, source),
            bootstrap=None if bootstrap is None else _bootstrap(bootstrap, index, source),
            intervals=intervals,
            diagnostics=diagnostics,
            seconds=document.seconds,
            environment=document.environment,
        )
    except ValueError as error:
        raise InputError(source, "$", str(error), "make the file again") from None


_NUMBERS = ("expected_edges", "expected_cliques")
"""Expected numbers with bounds in the diagnostics."""
_FACTS = ("resamples", "wanted", "optimal", "backend", "seed")
"""Fields of `Strengths` besides edges and stop."""


def _middle(entry: Pair | Clique | Separator) -> float:
    return entry.low if entry.high is None else (entry.low + entry.high) / 2


def _intervals(
    document: PosteriorDocument, diagnostics: dict[str, Any], index: Mapping[str, int], source: str
) -> Intervals | None:
    """Returns the bounds of certified sums; None if the figures are not bounds.

    Raises:
        ValueError: bounds and single figures are mixed.
    """
    entries: list[Pair | Clique | Separator] = [*document.edges, *document.cliques, *document.separators]
    single = [entry.high is None for entry in entries]
    evidence, connected = document.log_evidence, document.connected
    if all(single) and not isinstance(evidence, list) and not isinstance(connected, list):
        return None
    if any(single) or not isinstance(evidence, list) or not isinstance(connected, list):
        raise ValueError("bounds and single figures are mixed")
    expected = [
        _converted(diagnostics.pop(name, None), tuple[float, float], source, f"$.diagnostics.{name}")
        for name in _NUMBERS
    ]
    low, high = (
        _matrix(
            [(pair.one, pair.other, pair.low if k == 0 else pair.high or 0.0) for pair in document.edges],
            index, source, "$.edges",
        )
        for k in (0, 1)
    )  # fmt: skip
    cliques = tuple((entry.low, entry.high or 0.0) for entry in document.cliques)
    separators = tuple((entry.low, entry.high or 0.0) for entry in document.separators)
    ends = (evidence[0], evidence[1]), (connected[0], connected[1])
    return Intervals(ends[0], low, high, ends[1], cliques, separators, *expected)


def _matrix(
    pairs: Sequence[tuple[str, str, float]], index: Mapping[str, int], source: str, place: str
) -> NDArray[np.float64]:
    """Returns the symmetric matrix of a figure of every pair."""
    n, names = len(index), list(index)
    matrix = np.full((n, n), np.nan)
    np.fill_diagonal(matrix, 0.0)
    for i, (one, other, value) in enumerate(pairs):
        set_of_names((one, other), index, source, f"{place}[{i}]")
        u, v = index[one], index[other]
        if not np.isnan(matrix[u, v]):
            reason = f"the pair '{one}', '{other}' occurs twice"
            raise InputError(source, f"{place}[{i}]", reason, "remove one of the two")
        matrix[u, v] = matrix[v, u] = value
    if np.isnan(matrix).any():
        u, v = (int(place) for place in np.argwhere(np.isnan(matrix))[0])
        missing = f"the pair '{names[u]}', '{names[v]}' is missing"
        raise InputError(source, place, missing, "list every pair of variables")
    return matrix


def _traces(value: Any, index: Mapping[str, int], source: str) -> Traces:
    place = "$.diagnostics.traces"
    found = _converted(value, TracesDocument, source, place)
    lengths = {*map(len, found.scores), *map(len, found.edges_in_graph)}
    if len(found.scores) != len(found.edges_in_graph) or lengths != {len(found.rounds)}:
        reason = "the traces and the rounds have different lengths, or there are none"
        raise InputError(source, place, reason, "make the file again")
    figures = [[(one, other, pair[k]) for one, other, *pair in found.pairs] for k in (0, 1)]
    errors, differences = (_matrix(part, index, source, f"{place}.pairs") for part in figures)
    counts = np.array(found.edges_in_graph, np.int64)
    return Traces(np.array(found.rounds, np.int64), np.array(found.scores), counts, errors, differences)


def _bootstrap(value: Any, index: Mapping[str, int], source: str) -> Strengths:
    place = "$.diagnostics.bootstrap"
    found = _converted(value, BootstrapDocument, source, place)
    edges = _matrix(found.edges, index, source, f"{place}.edges")
    return Strengths(edges, **{name: getattr(found, name) for name in _FACTS}, stop=found.stop)


def _converted(value: Any, kind: type[_Kind], source: str, place: str) -> _Kind:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(source, place, str(error), "make the file again") from None


def _sets(
    listed: Sequence[Clique] | Sequence[Separator], index: Mapping[str, int], source: str, place: str
) -> tuple[tuple[VarSet, float], ...]:
    entries: list[Clique | Separator] = list(listed)
    return tuple(
        (set_of_names(entry.names, index, source, f"{place}[{i}]"), _middle(entry))
        for i, entry in enumerate(entries)
    )


def _tree(cliques: Any, index: Mapping[str, int], source: str) -> JunctionTree:
    """Returns the best tree from its cliques."""
    place = "$.diagnostics.best"
    if not (
        isinstance(cliques, list)
        and all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in cliques)
    ):
        raise InputError(source, place, "it is not a list of cliques", "give lists of names")
    sets = [set_of_names(names, index, source, f"{place}[{i}]") for i, names in enumerate(cliques)]
    neighbours = [
        varset(u for u in range(len(index)) if u != v and any(s >> v & 1 and s >> u & 1 for s in sets))
        for v in range(len(index))
    ]
    try:
        tree = JunctionTree.from_neighbours(neighbours)
    except ValueError as error:
        raise InputError(source, place, str(error), "give the cliques of a chordal graph") from None
    if set(tree.cliques) != set(sets):
        raise InputError(source, place, "these are not the maximal cliques of a graph", "make the file again")
    return tree
