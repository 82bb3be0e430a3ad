"""An independent check of a selection, from its file alone.

The framework decides an edge from some of the columns. This is valid iff, in the graph of the edges kept or
undecided before the step, no path joins the two ends through vertices outside these columns: then the edge is
in the graph of the whole distribution iff it is in that of the columns (Vats and Nowak, JMLR 15, 2014,
proposition 4, whose proof is this condition). The check covers every decision, with plain sets.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jtsolve.io.graph import GraphDocument, SelectionDocument, StepDocument

    Graph = dict[str, set[str]]


def check_selection(document: GraphDocument) -> tuple[str, ...]:
    """Returns every fault of a selection as one sentence.

    Whether the data support the decisions is not checked.

    Args:
        document: with a valid graph.
    """
    selection = document.selection
    if selection is None:
        return ("The file holds a graph, but no selection to check.",)
    known = set(document.variables)
    faults = list(_named(selection, known))
    return tuple(faults or [*_decided_once(document, selection), *_steps(selection)])


def _named(selection: SelectionDocument, known: set[str]) -> Iterator[str]:
    """Checks that all names are variables and all edges pairs."""
    yield from _pairs("The superset", selection.superset, known)
    for number, step in enumerate(selection.steps, start=1):
        where = f"Step {number}"
        for kind, names in (("region", step.region), ("columns", step.columns)):
            if len(set(names)) < len(names) or not set(names) <= known:
                yield f"{where}: its {kind} are not distinct variables."
        yield from _pairs(f"{where}: the list of candidates", step.candidates, known)
        yield from _pairs(f"{where}: the list of kept edges", step.kept, known)


def _pairs(what: str, pairs: Sequence[tuple[str, str]], known: set[str]) -> Iterator[str]:
    if any(u == v or u not in known or v not in known for u, v in pairs):
        yield f"{what} has an edge that is not a pair of variables."
    elif len(set(map(frozenset, pairs))) < len(pairs):
        yield f"{what} has an edge twice."


def _decided_once(document: GraphDocument, selection: SelectionDocument) -> Iterator[str]:
    """Checks that exactly one step decides each pair of the superset, and that the graph has the kept."""
    superset = set(map(frozenset, selection.superset))
    decided: set[frozenset[str]] = set()
    kept: set[frozenset[str]] = set()
    for number, step in enumerate(selection.steps, start=1):
        candidates = set(map(frozenset, step.candidates))
        own = set(map(frozenset, step.kept))
        if not own <= candidates:
            yield f"Step {number} keeps an edge that it does not decide."
        for edge in sorted(map(sorted, candidates & decided)):
            yield f"Step {number} decides {_shown(edge)}, as an earlier step does."
        for edge in sorted(map(sorted, candidates - superset)):
            yield f"Step {number} decides {_shown(edge)}, which is not in the superset."
        decided |= candidates
        kept |= own
    for edge in sorted(map(sorted, superset - decided)):
        yield f"No step decides {_shown(edge)}."
    graph = set(map(frozenset, document.edges))
    for edge in sorted(map(sorted, graph - kept)):
        yield f"The graph has {_shown(edge)}, which no step kept."
    for edge in sorted(map(sorted, kept - graph)):
        yield f"The graph lacks {_shown(edge)}, which a step kept."


def _steps(selection: SelectionDocument) -> Iterator[str]:
    """Checks the order of the rounds, and that the columns of every decision suffice."""
    rounds = [step.round for step in selection.steps]
    if rounds and rounds[0] != 1:
        yield f"The first round is {rounds[0]}."
    if any(after - before not in (0, 1) for before, after in pairwise(rounds)):
        yield "The rounds are not numbered in order."
    graph = _graph(selection.superset)
    removed: list[tuple[str, str]] = []
    at = 0
    for number, step in enumerate(selection.steps, start=1):
        if step.round != at:
            _remove(graph, removed)
            removed, at = [], step.round
        yield from _step(number, step, graph)
        kept = set(map(frozenset, step.kept))
        removed += [edge for edge in step.candidates if frozenset(edge) not in kept]


def _step(number: int, step: StepDocument, graph: Graph) -> Iterator[str]:
    columns = set(step.columns)
    if not set(step.region) <= columns:
        yield f"Step {number}: its columns do not contain its region."
    ends = {name for edge in step.candidates for name in edge}
    if not ends <= set(step.region):
        yield f"Step {number} decides an edge outside its region."
        return
    borders = _borders(graph, columns, ends)
    for u, v in step.candidates:
        if any(u in border and v in border for border in borders):
            yield f"Step {number} decides {_shown((u, v))} although a path joins them outside its columns."


def _graph(edges: Iterable[tuple[str, str]]) -> Graph:
    graph: Graph = {}
    for u, v in edges:
        graph.setdefault(u, set()).add(v)
        graph.setdefault(v, set()).add(u)
    return graph


def _remove(graph: Graph, edges: Iterable[tuple[str, str]]) -> None:
    for u, v in edges:
        if v in graph.get(u, ()):
            graph[u].discard(v)
            graph[v].discard(u)


def _borders(graph: Graph, columns: set[str], ends: set[str]) -> list[set[str]]:
    """Returns the columns adjacent to each component of the graph without the columns that an end touches."""
    seen: set[str] = set()
    borders = []
    for end in sorted(ends):
        for start in graph.get(end, set()) - columns - seen:
            if start in seen:
                continue
            part, border = [start], set()
            seen.add(start)
            for u in part:
                for v in graph[u]:
                    if v in columns:
                        border.add(v)
                    elif v not in seen:
                        seen.add(v)
                        part.append(v)
            borders.append(border)
    return borders


def _shown(edge: Sequence[str]) -> str:
    u, v = edge
    return f"'{u}' – '{v}'"
