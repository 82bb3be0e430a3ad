"""Constraints of a result: whether they agree with the problem's, and whether a tree satisfies them."""

from __future__ import annotations

from itertools import combinations
from math import inf, prod
from typing import TYPE_CHECKING, TypeAlias

from jtsolve.core.problem import SET_LISTS, UPPER_BOUNDS
from jtsolve.core.varset import members
from jtsolve.io.constraints import constraints_from_document
from jtsolve.io.documents import set_of_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jtsolve.core.problem import Constraints, Problem
    from jtsolve.core.varset import VarSet
    from jtsolve.io.ranking import RankingDocument
    from jtsolve.io.result import ResultDocument

Set: TypeAlias = frozenset[int]

_AGAIN = "solve again under the problem's constraints"
_REMEDY = f"give 'jtsolve check' the constraint options of that run, or {_AGAIN}"


def declared_constraints(problem: Problem, result: ResultDocument | RankingDocument) -> Constraints:
    """Returns the declared constraints of a result or ranking.

    Raises:
        InputError: they name unknown variables or contradict each other.
    """
    return constraints_from_document(result.instance.constraints, problem.names, "the result", "constraints")


def edges_of_result(problem: Problem, result: ResultDocument) -> frozenset[VarSet]:
    """Returns the edges of a result's tree, in which the members of a clique are adjacent.

    Raises:
        InputError: a clique names an unknown variable, or one twice.
    """
    index = {name: v for v, name in enumerate(problem.names)}
    cliques = [set_of_names(names, index, "the result", "cliques") for names in result.cliques]
    return frozenset(1 << u | 1 << v for clique in cliques for u, v in combinations(members(clique), 2))


def contradictions(required: Constraints, own: Constraints, *, found: bool) -> Iterator[str]:
    """Yields a sentence for each constraint of a result that contradicts the problem's.

    Bounds and forbidden graphs may be tighter than the problem's; all others must be equal. Without a tree,
    only the treewidth, an option of commands, may be tighter: infeasibility under further constraints does
    not imply that of the problem.

    Args:
        required: the problem's constraints.
        own: the result's.
        found: whether the result has a tree.
    """
    for name in _tighter(own, required):
        if name == "forbidden_graphs":
            yield f"The result was made with fewer forbidden_graphs than the problem requires; {_AGAIN}."
        else:
            kept, bound = getattr(own, name), getattr(required, name)
            yield f"The result was made with {name} {kept}, but the problem requires {bound}; {_AGAIN}."
    if not found:
        for name in _tighter(required, own):
            if name != "max_treewidth":
                yield (
                    f"The result was made with a tighter {name} than the problem requires, and has no tree; "
                    f"{_REMEDY}."
                )
    for name in (*SET_LISTS, "real_variables"):
        if getattr(required, name) != getattr(own, name):
            yield f"The result was made with other {name} than the problem requires; {_REMEDY}."


def tightened(problem: Problem, result: ResultDocument | RankingDocument) -> tuple[str, ...]:
    """Returns the names of the constraints of correct results that are tighter than the problem's."""
    return tuple(_tighter(problem.constraints, declared_constraints(problem, result)))


def _tighter(loose: Constraints, tight: Constraints) -> Iterator[str]:
    """Yields the names of the bounds, or "forbidden_graphs", that are looser in `loose` than in `tight`."""
    for name in UPPER_BOUNDS:
        bound, kept = getattr(loose, name), getattr(tight, name)
        if kept is not None and (bound is None or kept < bound):
            yield name
    if tight.min_separator_size > loose.min_separator_size:
        yield "min_separator_size"
    if not tight.forbidden_graphs <= loose.forbidden_graphs:
        yield "forbidden_graphs"


def violations(
    problem: Problem,
    constraints: Constraints,
    cliques: Sequence[Set],
    separators: Sequence[Set],
    holders: Sequence[Sequence[int]],
) -> Iterator[str]:
    """Yields a sentence for every constraint that a junction tree violates.

    Args:
        problem: names and states of the variables.
        constraints: to check.
        cliques: of the tree.
        separators: of its edges.
        holders: for each variable, the positions of the cliques that contain it.
    """
    names, largest = problem.names, max(map(len, cliques), default=0)
    if constraints.max_treewidth is not None and largest > constraints.max_treewidth + 1:
        yield f"A clique has {largest} members, too many for treewidth {constraints.max_treewidth}."
    if constraints.max_cliques is not None and len(cliques) > constraints.max_cliques:
        yield f"There are {len(cliques)} cliques, more than {constraints.max_cliques}."
    if constraints.max_clique_cells is not None:
        for clique in cliques:
            real = constraints.real_variables
            cells = prod(problem.variables[v].arity or real >> v & 1 for v in clique)
            if not 0 < cells <= constraints.max_clique_cells:
                most, known = constraints.max_clique_cells, cells or "an unknown number of"
                yield f"The clique {named_set(names, clique)} has {known} joint states, not {most} or fewer."
    longest = inf if constraints.max_separator_size is None else constraints.max_separator_size
    for separator in set(separators):
        if len(separator) > longest:
            yield f"The separator {named_set(names, separator)} has more than {longest} members."
        if len(separator) < constraints.min_separator_size:
            least = constraints.min_separator_size
            yield f"The separator {named_set(names, separator)} has fewer than {least} members."
    for v, u in map(sorted, _sets(constraints.forbidden_edges)):
        if set(holders[v]) & set(holders[u]):
            yield f"The edge {names[v]} – {names[u]} is forbidden."
    for v, u in map(sorted, _sets(constraints.required_edges)):
        if not set(holders[v]) & set(holders[u]):
            yield f"The edge {names[v]} – {names[u]} is required, but missing."
    for clique in _sets(constraints.forbidden_cliques) & set(cliques):
        yield f"The clique {named_set(names, clique)} is forbidden."
    for separator in _sets(constraints.forbidden_separators) & set(separators):
        yield f"The separator {named_set(names, separator)} is forbidden."
    if constraints.allowed_separators is not None:
        for separator in set(separators) - _sets(constraints.allowed_separators):
            yield f"The separator {named_set(names, separator)} is not allowed."
    if constraints.forbidden_graphs:
        graph = {frozenset(pair) for clique in cliques for pair in combinations(clique, 2)}
        if any(_sets(edges) == graph for edges in constraints.forbidden_graphs):
            yield f"The graph of the tree, with {len(graph)} edges, is forbidden."
    if constraints.real_variables:
        yield from _weak_paths(names, frozenset(members(constraints.real_variables)), cliques, holders)


def _weak_paths(
    names: Sequence[str], real: Set, cliques: Sequence[Set], holders: Sequence[Sequence[int]]
) -> Iterator[str]:
    """Yields a sentence for two discrete variables that only a path of real ones joins, if there are any.

    The discrete neighbours of each component of the real variables must be adjacent to one another.
    """
    left = set(real)
    while left:
        waiting, around = [left.pop()], set[int]()
        while waiting:
            near = frozenset().union(*(cliques[i] for i in holders[waiting.pop()]))
            around |= near - real
            waiting += near & left
            left -= near
        for u, v in combinations(sorted(around), 2):
            if not set(holders[u]) & set(holders[v]):
                yield (
                    f"The graph is not strongly decomposable: real variables join '{names[u]}' and "
                    f"'{names[v]}', which are discrete and not adjacent."
                )
                return


def _sets(masks: Iterable[VarSet]) -> set[Set]:
    return {frozenset(members(mask)) for mask in masks}


def named_set(names: Sequence[str], found: Set) -> str:
    """Returns the names of a set in braces."""
    return "{" + ", ".join(names[v] for v in sorted(found)) + "}"
