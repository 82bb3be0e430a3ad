"""An independent check of a result, from its lists and the problem's scores alone.

No code is shared with the solvers: cliques are plain sets, union-find tests running intersection for each
variable, and scores are summed exactly. Cliques that pass form a junction tree, and the graph in which
members of a clique are adjacent is chordal (Blair and Peyton, An introduction to chordal graphs and clique
trees, 1993, theorem 3.1).

Time: O(Σ |C|) set operations, except for the test of maximality, which compares a clique with all that share
its rarest variable.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise
from math import fsum, inf, isfinite
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.result import Result, Status, optimality_tolerance
from jtsolve.errors import InputError
from jtsolve.io.result import ResultDocument, result_to_document
from jtsolve.verify.constraints import Set, contradictions, declared_constraints, named_set, violations

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from jtsolve.core.problem import Constraints, Problem
    from jtsolve.core.scores import LocalScores


def check(problem: Problem, result: Result | ResultDocument) -> tuple[str, ...]:
    """Returns every fault of a result as one sentence.

    The tree, its score and the constraints are verified in full. A bound needs a certificate
    (`jtsolve.verify.certificate`); here it is only compared with the score, gap, status and trace.

    Args:
        problem: to solve; the result's constraints may be tighter (`contradictions`).
        result: of `solve`, or read from a file.
    """
    if isinstance(result, Result):
        if result.names != problem.names:
            return ("The result's variables are not those of the problem.",)
        if result.constraints.mentioned() >> problem.n:
            return ("The result's constraints name a variable that the problem does not have.",)
        if result.tree is not None and result.tree.n != problem.n:
            return (f"The tree has {result.tree.n} variables, but the problem has {problem.n}.",)
        result = result_to_document(result)
    faults = list(_identity(problem, result))
    if result.instance.digest != problem.digest():
        return tuple(faults)  # all other faults would follow
    faults += [*_claims(result), *_trace(result)]
    found = result.status in (Status.OPTIMAL, Status.FEASIBLE)
    own = None
    try:
        own = declared_constraints(problem, result)
        faults.extend(contradictions(problem.constraints, own, found=found))
    except InputError as error:
        faults.append(f"The result's constraints are wrong: {error.place}: {error.reason}.")
    if found:
        faults.extend(_tree(problem, result, own))
    return tuple(faults)


def _identity(problem: Problem, result: ResultDocument) -> Iterator[str]:
    if result.instance.name != problem.name:
        yield f"The result is for '{result.instance.name}', not for '{problem.name}'."
    if result.instance.digest != problem.digest():
        yield "The digest is not that of the problem: names or scores differ."


def _claims(result: ResultDocument) -> Iterator[str]:
    """Checks that status, score, bound and gap agree."""
    found = result.status in (Status.OPTIMAL, Status.FEASIBLE)
    status = f"The status is '{result.status.value}', but"
    for name in ("score", "bound", "gap"):
        if not isfinite(getattr(result, name) or 0.0):
            yield f"The {name} is not a finite number."
    if "total" not in result.seconds or not all(0 <= value < inf for value in result.seconds.values()):
        yield "The seconds lack 'total', or are not all finite and at least 0."
    if not found:
        if result.cliques or result.separators or result.tree_edges:
            yield f"{status} there is a tree."
        if result.score is not None or result.treewidth is not None:
            yield f"{status} there is a score or a treewidth."
    elif result.score is None or result.treewidth is None or not result.cliques:
        yield f"{status} the score, the treewidth or the cliques are missing."
    if (result.bound is None) != (result.status is Status.INFEASIBLE):
        yield f"{status} the bound is {'missing' if result.bound is None else 'a number'}."
    yield from _gap(result, status)


def _gap(result: ResultDocument, status: str) -> Iterator[str]:
    score, bound, gap = result.score, result.bound, result.gap
    if score is None or bound is None:
        expected = 0.0 if result.status is Status.INFEASIBLE else None
        if gap != expected:
            yield f"The gap is {gap}, but without a score or bound it is {expected}."
        return
    if bound < score:
        yield f"The bound {bound!r} is below the score {score!r}."
    most = optimality_tolerance(score)
    if gap is None or not abs(gap - (bound - score)) <= most:
        yield f"The gap is {gap}, but bound minus score is {bound - score}."
    if (result.status is Status.OPTIMAL) != (bound - score <= most):
        yield f"{status} bound minus score is {bound - score}; up to {most:g} is optimal."


def _trace(result: ResultDocument) -> Iterator[str]:
    """Checks that times and scores do not fall, bounds do not rise, and the last step is the result."""
    steps = [
        (seconds, -inf if score is None else score, inf if bound is None else bound)
        for seconds, score, bound in result.trace
    ]
    if steps and steps[0][0] < 0:
        yield "The trace begins before 0 seconds."
    if result.status is Status.INFEASIBLE and steps and result.trace[-1][2] is None:
        # Files write null for the bound -inf, which proves that no tree exists.
        steps[-1] = (*steps[-1][:2], -inf)
    for number, (before, after) in enumerate(pairwise(steps), 1):
        if after[0] < before[0]:
            yield f"Step {number} of the trace is earlier than the one before it."
        if after[1] < before[1]:
            yield f"The score falls in step {number} of the trace."
        if after[2] > before[2]:
            yield f"The bound rises in step {number} of the trace."
    if steps and steps[-1][0] > result.seconds.get("total", inf):
        yield f"The trace ends after {steps[-1][0]} seconds, later than the total."
    least = -inf if result.bound is None else result.bound - optimality_tolerance(result.bound)
    if any(step[2] < least for step in steps):
        yield f"The trace has a bound below the bound {result.bound!r}."
    if steps and result.trace[-1][1] != result.score:
        yield f"The last score of the trace is {result.trace[-1][1]}, but the score is {result.score}."


def _tree(problem: Problem, result: ResultDocument, own: Constraints | None) -> Iterator[str]:
    """Checks the junction tree, and its treewidth, constraints and score."""
    names = problem.names
    index = {name: v for v, name in enumerate(names)}
    faults = [*_lists("clique", result.cliques, index), *_lists("separator", result.separators, index)]
    faults.extend(f"Clique {i} is empty." for i, clique in enumerate(result.cliques) if not clique)
    if faults:
        yield from faults
        return
    cliques = [frozenset(index[name] for name in listed) for listed in result.cliques]
    separators = [frozenset(index[name] for name in listed) for listed in result.separators]
    holders: list[list[int]] = [[] for _ in range(problem.n)]
    for i, members_of in enumerate(cliques):
        for v in members_of:
            holders[v].append(i)
    faults = [
        *_cover(names, holders),
        *_maximal(cliques, holders),
        *_spanning(len(cliques), result.tree_edges),
    ]
    if not any(_misses(len(cliques), edge) for edge in result.tree_edges):
        faults.extend(_separators(cliques, separators, result.tree_edges))
        faults.extend(_running_intersection(names, cliques, holders, result.tree_edges))
    yield from faults
    if cliques and result.treewidth is not None:
        treewidth = max(map(len, cliques)) - 1
        if treewidth != result.treewidth:
            yield f"The treewidth is {treewidth}, not {result.treewidth}."
    required = (problem.constraints,) if own is None else (problem.constraints, own)
    found = (violations(problem, constraints, cliques, separators, holders) for constraints in required)
    yield from dict.fromkeys(chain.from_iterable(found))
    if not faults:
        yield from _score(problem, result, cliques, separators)


def _lists(kind: str, lists: Sequence[Sequence[str]], index: dict[str, int]) -> Iterator[str]:
    for i, names in enumerate(lists):
        unknown = [name for name in names if name not in index]
        if unknown:
            yield f"{kind.capitalize()} {i} names {_listing(unknown)}, which the problem does not have."
        if len(set(names)) < len(names):
            yield f"{kind.capitalize()} {i} names a variable twice."


def _cover(names: Sequence[str], holders: Sequence[Sequence[int]]) -> Iterator[str]:
    missing = [name for name, held in zip(names, holders, strict=True) if not held]
    if missing:
        yield f"No clique holds {_listing(missing)}."


def _maximal(cliques: Sequence[Set], holders: Sequence[Sequence[int]]) -> Iterator[str]:
    """Checks that no clique is within another; of equal cliques, the later one is the fault."""
    for i, clique in enumerate(cliques):
        rarest = min(clique, key=lambda v: len(holders[v]))
        for j in holders[rarest]:
            if clique < cliques[j] or (clique == cliques[j] and j < i):
                yield f"Clique {i} is within clique {j}."
                break


def _misses(count: int, edge: tuple[int, int]) -> bool:
    return not (0 <= edge[0] < count and 0 <= edge[1] < count)


def _spanning(count: int, edges: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Checks that the edges are a spanning tree of `count` cliques."""
    if len(edges) != max(count - 1, 0):
        yield f"{count} cliques need {max(count - 1, 0)} tree edges, not {len(edges)}."
    joined = _Partition()
    for number, edge in enumerate(edges):
        if _misses(count, edge):
            yield f"Tree edge {number} names a clique that does not exist."
        elif not joined.join(*edge):
            yield f"Tree edge {number} closes a cycle."


def _separators(
    cliques: Sequence[Set], separators: Sequence[Set], edges: Sequence[tuple[int, int]]
) -> Iterator[str]:
    if len(separators) != len(edges):
        yield f"There are {len(separators)} separators for {len(edges)} tree edges."
    for number, (separator, (i, j)) in enumerate(zip(separators, edges, strict=False)):
        if separator != cliques[i] & cliques[j]:
            yield f"Separator {number} is not the intersection of the cliques {i} and {j}."


def _running_intersection(
    names: Sequence[str],
    cliques: Sequence[Set],
    holders: Sequence[Sequence[int]],
    edges: Sequence[tuple[int, int]],
) -> Iterator[str]:
    """Checks for every variable that tree edges connect the cliques that contain it."""
    joined = _Partition()
    for i, j in edges:
        for v in cliques[i] & cliques[j]:
            joined.join((v, i), (v, j))
    for v, held in enumerate(holders):
        if len({joined.root((v, i)) for i in held}) > 1:
            yield f"The cliques that hold '{names[v]}' are not connected in the tree."


class _Partition:
    """A partition into classes, initially of one element each (union-find)."""

    def __init__(self) -> None:
        self._parent: dict[Hashable, Hashable] = {}

    def root(self, element: Hashable) -> Hashable:
        """Returns the element that represents the class."""
        path = []
        while (parent := self._parent.get(element, element)) != element:
            path.append(element)
            element = parent
        for passed in path:
            self._parent[passed] = element
        return element

    def join(self, one: Hashable, other: Hashable) -> bool:
        """Merges the classes of two elements; returns whether they differed."""
        one, other = self.root(one), self.root(other)
        self._parent[one] = other
        return one != other


def _score(
    problem: Problem, result: ResultDocument, cliques: Sequence[Set], separators: Sequence[Set]
) -> Iterator[str]:
    """Checks that every clique and separator has a score, and that the score is their sum."""
    names = problem.names
    counts = Counter(separators)
    missing = False
    terms = []
    for kind, sets in (("clique", cliques), ("separator", list(counts))):
        for found, value in zip(sets, _scores_of(problem.scores, sets), strict=True):
            if value == -inf:
                missing = True
                yield f"The {kind} {named_set(names, found)} has no score."
            terms.append(value if kind == "clique" else -value * counts[found])
    if missing or result.score is None:
        return
    score = fsum(terms)
    if not abs(score - result.score) <= optimality_tolerance(score):
        yield f"The score is {score!r}, not {result.score!r}."


def _scores_of(scores: LocalScores, sets: Sequence[Set]) -> list[float]:
    """Returns the local scores of sets, in batches of one size, which are fast for every kind of scores."""
    values = [0.0] * len(sets)  # s(∅) = 0
    by_size: dict[int, list[int]] = {}
    for i, found in enumerate(sets):
        if found:
            by_size.setdefault(len(found), []).append(i)
    for at in by_size.values():
        rows = np.array([sorted(sets[i]) for i in at], dtype=np.intp)
        for i, value in zip(at, scores.batch(rows).tolist(), strict=True):
            values[i] = value
    return values


def _listing(names: Sequence[str]) -> str:
    """Returns the first few names, and the number of others."""
    longest = 5
    more = f" and {len(names) - longest} more" if len(names) > longest else ""
    return ", ".join(f"'{name}'" for name in names[:longest]) + more
