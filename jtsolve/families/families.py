"""Families: the common basis of the formulations for MaxSAT, integer programming and cutting planes.

A chordal graph is built vertex by vertex in a perfect order: each vertex v arrives with a set P of earlier
vertices, its parents, which is complete by then. The pair (v,P) is a family (Cussens 2011; for chordal
graphs Studený and Cussens 2017). With the weight w(v,P) = s(P∪v) − s(P),

    score(T) = Σ_cliques s(C) − Σ_separators s(S) = Σ_v w(v,P_v)        for every perfect order of T.

This holds for every function s of sets. Hence, for the families of a tree and every set A ≠ ∅,

    y(A) − N(A) = [A is a maximal clique] − (how often A is a separator),                               (1)
    y(A) = #{v : P_v ∪ v = A},  N(A) = #{v : P_v = A},

and at most one of the two terms is not zero. So for A ≠ ∅ "A is no separator" is N(A) ≤ y(A), and "A is no
maximal clique" is y(A) ≤ N(A): one linear row each, for every order. N(∅) is the number of components.

*Sets.* The candidates for cliques are the sets that the problem permits as cliques, by size, score and edges.
The sets kept here are all subsets of candidates; a family (v,P) is one of these sets, A = P∪v, with a
distinguished member v. Sets are rows of sorted members, ordered by size and then by bit mask, with the
positions of their facets A∖v; no bit masks are needed, so that only memory limits n.

*Sets without a score* are neither clique nor separator. By (1), s(A) then has coefficient 0 in the score, so
that any value will do: they get the sum of their members' own scores (0 for a member without one), and both
rows.

*Scores* are normalised: subtracting Σ_{v∈A} s({v}) from every s(A) lowers the score of every tree by the
same constant, `offset`.

*Root.* Each component of a chordal graph has a perfect order that begins with any given vertex. So one
vertex, the root, may be required to come first: P = ∅ is its only family. A vertex with many neighbours in
good trees is a good choice (`choose_root`).

*Constraints.* Filters, which leave out families or sets: `max_treewidth`, `forbidden_edges`,
`forbidden_cliques` that are in no larger candidate, ∅ as a separator (then only the root has P = ∅), and
required edges to the root (then it is a parent). Rows (`rows`): other separators and cliques that are not
permitted, which covers all constraints on separators. Formulations express other `required_edges` by their
variables of edges, or by cuts. `max_cliques` bounds Σ_A max(0, y(A) − N(A)), which is not linear:
formulations add variables m(A) ≥ y(A) − N(A), or cuts Σ_{A∈𝒜} (y(A) − N(A)) ≤ max_cliques, or refuse it.

*Pruning.* Two kinds; both keep every tree that scores at least L, a score known to be attained:

1. The completion bound of `jtsolve.core.pruning.prune`: pass the pruned problem here.
2. Reduced costs, for every n: `Families.restricted`. Let score(T) ≤ U − Σ_v r(v,P_v) for every tree T, with
   reduced costs r ≥ 0, such as those of a relaxation. A family with U − r(v,P) < L is in no
   perfect order from the root of a tree that scores L, and is dropped. *Closure:* (a) a set A is complete
   in no such tree if no member v has an allowed family (v,Q) with A∖v ⊆ Q, since the last member of A in the
   order has one; (b) a superset of a set that is never complete is never complete; (c) a family (v,P) makes
   P∪v complete, so it is dropped if P∪v is never complete. (a)-(c) are repeated until nothing changes.
   A family that a subset of the parents beats is *not* dropped: that rule of Bayesian networks may lose all
   optimal trees (docs/scores.md).

Time and memory: linear in the number of families.

References:
    Cussens, Bayesian network learning with cutting planes, UAI 2011. Studený and Cussens, Towards using the
    chordal graph polytope in learning decomposable models, IJAR 2017.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.core.permitted import MemberRows, permitted_cliques, permitted_separators, within_cells
from jtsolve.core.scores import SparseScores, StoppedError, own_scores
from jtsolve.core.tree import families_by_search
from jtsolve.core.varset import VarSet, count_bounded_subsets, count_within, members, neighbours_of
from jtsolve.families.sets import all_sets, groups, masks_of, subsets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from jtsolve.core.problem import Constraints, Problem
    from jtsolve.core.tree import JunctionTree

_BYTES_A_MEMBER = 24
"""Bytes per member of a set, with its facet and flag, while the sets are built and filtered."""
_BYTES_A_SET = 80


class Listing(NamedTuple):
    """The allowed families as a list, ordered by set, then by vertex.

    Attributes:
        vertex: shape (m,).
        parents: shape (m,); positions of the parent sets.
        union: shape (m,); positions of parents ∪ vertex.
        weight: shape (m,), in nats; normalised.
    """

    vertex: NDArray[np.int32]
    parents: NDArray[np.int32]
    union: NDArray[np.int32]
    weight: NDArray[np.float64]


class FamilyRow(NamedTuple):
    """A condition Σ x(smaller) ≤ Σ x(larger) on families, by their positions in the `Listing`."""

    smaller: NDArray[np.int64]
    larger: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Families:
    """The sets that may be complete and the families that a tree may use; see the module.

    Attributes:
        n: the number of variables.
        width: the size of the largest set.
        root: the vertex that comes first.
        members: shape (count, width); the sorted members of each set, padded with n; the first set is ∅, and
            subsets come before supersets.
        facets: shape (count, width); the position of the set without its j-th member; 0 in the padding.
        sizes: shape (count,).
        scores: shape (count,), in nats as in the problem; -inf for sets without a score.
        values: shape (count,), in nats: normalised and filled, the first 0.
        allowed: shape (count, width); whether the j-th member, with the rest of the set as its parents, is a
            family.
        not_separator: shape (count,); whether the set may not be a separator.
        not_clique: shape (count,); whether the set may not be a maximal clique.
        offset: the score of a tree minus the sum of its normalised weights, in nats.
        constraints: of the problem.
    """

    n: int
    width: int
    root: int
    members: NDArray[np.int32]
    facets: NDArray[np.int32]
    sizes: NDArray[np.int32]
    scores: NDArray[np.float64]
    values: NDArray[np.float64]
    allowed: NDArray[np.bool_]
    not_separator: NDArray[np.bool_]
    not_clique: NDArray[np.bool_]
    offset: float
    constraints: Constraints

    def members_of(self, at: int) -> list[int]:
        """Returns the members of the set at a position."""
        found: list[int] = self.members[at, : self.sizes[at]].tolist()
        return found

    def masks(self) -> list[VarSet]:
        """Returns the sets as bit masks."""
        return masks_of(self.members, self.sizes)

    def listing(self) -> Listing:
        """Returns the allowed families as a list."""
        union, slot = np.nonzero(self.allowed)
        parents = self.facets[union, slot]
        weight = self.values[union] - self.values[parents]
        return Listing(self.members[union, slot], parents, union.astype(np.int32), weight)

    def flat(self) -> Families:
        """Returns the families of the same trees with the score 0 for every set that has one."""
        scores = np.where(self.scores > -inf, 0.0, -inf)
        return replace(self, scores=scores, values=np.zeros_like(self.values), offset=0.0)

    def restricted(self, allowed: NDArray[np.bool_]) -> tuple[Families, NDArray[np.int64]]:
        """Returns the families that are allowed both here and there, after closure, and the sets left.

        Args:
            allowed: shape (count, width).

        Returns:
            The families, and the new position of every set, -1 if it is dropped. ∅ and the single vertices
            always stay, with or without families.
        """
        from jtsolve.families.kernels.closure import close_down

        keep = self.allowed & allowed
        alive = close_down(keep, self.facets, self.sizes)
        position = np.where(alive, np.cumsum(alive) - 1, -1)
        return self._compacted(alive, keep), position

    def _compacted(self, alive: NDArray[np.bool_], allowed: NDArray[np.bool_]) -> Families:
        """Returns the families over the sets that are alive, which include all their subsets."""
        at = np.flatnonzero(alive)
        position = np.zeros(alive.size, dtype=np.int32)
        position[at] = np.arange(at.size, dtype=np.int32)
        width = max(1, int(self.sizes[at].max()))
        return replace(
            self,
            width=width,
            members=np.ascontiguousarray(self.members[at, :width]),
            facets=np.ascontiguousarray(position[self.facets[at, :width]]),
            sizes=self.sizes[at],
            scores=self.scores[at],
            values=self.values[at],
            allowed=np.ascontiguousarray(allowed[at, :width]),
            not_separator=self.not_separator[at],
            not_clique=self.not_clique[at],
        )


def families_of(problem: Problem, root: int = 0, stop: Callable[[], bool] = lambda: False) -> Families:
    """Returns the families of a problem with the root first.

    Args:
        problem: its scores and constraints.
        root: the first vertex.
        stop: polled while sets are listed and scored.

    Raises:
        StoppedError: `stop` returned True.

    >>> from jtsolve.core.problem import Problem, Variable
    >>> from jtsolve.core.scores import DenseScores
    >>> scores = DenseScores(2, 2, np.array([0.0, -5.0, -5.0, -7.0]))
    >>> found = families_of(Problem((Variable("A"), Variable("B")), scores))
    >>> [(int(v), float(w)) for v, w in zip(found.listing().vertex, found.listing().weight)]
    [(0, 0.0), (1, 0.0), (1, 3.0)]
    """

    def check_stop() -> None:
        if stop():
            raise StoppedError

    n, width = problem.n, problem.max_clique_size
    if isinstance(problem.scores, SparseScores):
        masks = (mask for mask in problem.scores.table if problem.permits_clique(mask))
        rows, facets, sizes = subsets_of(masks, n, width, check_stop)
    else:
        most, keep = problem.constraints.max_clique_cells, None
        if most is not None:

            def keep(sets: NDArray[np.int32]) -> NDArray[np.bool_]:
                return within_cells(
                    problem.variables, MemberRows(sets, np.full(len(sets), sets.shape[1])), most
                )

        rows, facets, sizes = all_sets(n, width, keep)
    check_stop()
    scores = _scores_of(problem, rows, sizes, check_stop)
    check_stop()
    own = np.zeros(n + 1)  # the last is that of the padding
    own[:n] = own_scores(problem.scores)
    values = np.where(scores > -inf, scores - own[rows].sum(axis=1), 0.0)
    sets, scored = MemberRows(rows, sizes), scores > -inf
    not_clique = ~(scored & permitted_cliques(problem, sets))
    not_separator = ~(scored & permitted_separators(problem, sets))
    check_stop()
    allowed = np.arange(width)[None, :] < sizes[:, None]
    allowed &= (rows != root) | (sizes == 1)[:, None]  # the root's only parents are ∅
    ends = (rows == root) & (sizes == 1)[:, None]
    if not_separator[0]:
        allowed &= ends | (sizes != 1)[:, None]
    beside = np.zeros(n + 1, dtype=np.bool_)  # a required neighbour of the root comes after it
    for edge in problem.constraints.required_edges:
        if edge >> root & 1:
            beside[list(members(edge & ~(1 << root)))] = True
    allowed &= ~beside[rows] | (rows == root).any(axis=1)[:, None]
    everything = Families(
        n, width, root, rows, facets, sizes, scores, values, allowed, not_separator, not_clique,
        float(own.sum()), problem.constraints,
    )  # fmt: skip
    return everything._compacted(_within_cliques(everything), allowed)  # noqa: SLF001 - the same module


def choose_root(problem: Problem, tree: JunctionTree | None) -> int:
    """Returns a good root: a vertex with the most neighbours in a known tree; ties go to the lowest.

    Without a tree, the neighbours are those in the maximum spanning forest of the positive gains of pairs,
    s(uv) − s(u) − s(v). In a problem with marks the root is the star: then discrete variables have discrete
    parents only.
    """
    n = problem.n
    if problem.star:
        return n - 1
    degree = np.zeros(n, dtype=np.int64)
    if tree is not None:
        np.add.at(degree, np.array(tree.graph_edges, dtype=np.int64).ravel(), 1)
    elif problem.max_clique_size > 1:
        from scipy.sparse.csgraph import minimum_spanning_tree

        pairs = np.stack(np.triu_indices(n, 1), axis=1)
        cost = np.zeros((n, n))  # 0 stands for no edge
        apart = own_scores(problem.scores)[pairs].sum(axis=1)
        cost[*pairs.T] = np.minimum(0.0, apart - problem.scores.batch(pairs))
        np.add.at(degree, np.concatenate(minimum_spanning_tree(cost).nonzero()), 1)
    return int(np.argmax(degree))


def predicted_sets(problem: Problem) -> int:
    """Returns an upper bound on the number of sets; that of sparse scores is `SparseScores.closure`."""
    most, width = problem.constraints.max_clique_cells, problem.max_clique_size
    arities = [variable.arity or 1 for variable in problem.variables]
    everything = (
        count_bounded_subsets(problem.n, width) if most is None else count_within(arities, most, width)
    )
    return min(everything, problem.scores.closure) if isinstance(problem.scores, SparseScores) else everything


def predicted_memory(problem: Problem) -> int:
    """Returns an upper bound on the bytes that the families need."""
    return predicted_sets(problem) * (_BYTES_A_SET + _BYTES_A_MEMBER * problem.max_clique_size)


def rows(families: Families) -> Iterator[FamilyRow]:
    """Yields the linear rows for separators and cliques that are not permitted.

    ∅ and sets of the largest size need none. Edges and `max_cliques` have no rows: see the module.
    """
    listed = families.listing()
    by_union = groups(listed.union, families.sizes.size)
    by_parents = groups(listed.parents, families.sizes.size)
    for position in (np.flatnonzero(families.not_separator[1:]) + 1).tolist():
        if (used := by_parents(position)).size:
            yield FamilyRow(used, by_union(position))
    for position in (np.flatnonzero(families.not_clique[1:]) + 1).tolist():
        if (made := by_union(position)).size:
            yield FamilyRow(made, by_parents(position))


def families_of_tree(tree: JunctionTree, root: int) -> list[tuple[int, VarSet]]:
    """Returns a perfect order from the root by maximum cardinality search: each vertex with its parents."""
    return families_by_search(neighbours_of(tree.n, tree.graph_edges), root)


def _scores_of(
    problem: Problem, rows: NDArray[np.int32], sizes: NDArray[np.int32], check_stop: Callable[[], object]
) -> NDArray[np.float64]:
    """Returns s of every set, in a batch per size; `check_stop` is called before each batch."""
    scores = np.zeros(sizes.size)
    for size in range(1, rows.shape[1] + 1):
        check_stop()
        at = np.flatnonzero(sizes == size)
        scores[at] = problem.scores.batch(rows[at, :size].astype(np.intp))
    return scores


def _within_cliques(families: Families) -> NDArray[np.bool_]:
    """Returns the sets within a permitted clique, and always ∅ and the single vertices.

    A single vertex within no clique loses its family: there is no tree then.
    """
    alive = ~families.not_clique
    for size in range(families.width, 1, -1):
        at = np.flatnonzero(alive & (families.sizes == size))
        alive[families.facets[at, :size]] = True
    without = ~alive & (families.sizes == 1)
    families.allowed[without] = False
    alive[families.sizes <= 1] = True
    return alive
