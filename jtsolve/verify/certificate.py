"""Verifies proofs of bounds: that no junction tree of a problem scores more than a result says.

The file is described in docs/formats.md. It shares no code with the backend that writes it, and all
arithmetic is in whole numbers: scores are rounded to multiples of 2^-shift nats, and `n` units cover the
rounding of a tree's at most 2n − 1 terms.

What is verified. Along a perfect order from the root, a tree uses one family (v,P) a vertex, P its earlier
neighbours, and scores Σ s(P∪v) − s(P); the families are made anew here from the problem. A *row* is a
function g of sets with Σ g(P∪v) − g(P) ≥ limit over the families of every tree of a node:

- a cut, g(A) = 1 if A holds one of its sets, limit 1. One of its sets lies in a set that is complete in all
  trees of the node, a single vertex or an edge that is required or present: the order has to complete it at
  some vertex;
- coefficients of sets: Σ c(A)·(families with P∪v = A, minus those with P = A), which is [A is a clique] −
  (how often it is a separator). Then no set that may be a separator has c > 0 and none that may be a clique
  c < 0, and the limit is not above 0; or all c are −1 and the limit is not above −max_cliques;
- a forbidden graph F, g(A) = (pairs within A that are no edges of F) − (those that are), limit 1 − |F|. For a
  tree with the graph G, the sum is |G∖F| − |G∩F| = |G∖F| + |F∖G| − |F|.

So with weights λ ≥ 0 and t = s + Σ λ g no tree of the node is worth more than D = Σ_v max_P [t(P∪v) − t(P)]
− Σ λ·limit.

If a set that is complete in every tree is none of the sets left, or a vertex has no family, there is no tree.

A *node* first drops, stage by stage, the families with D − (what they lack to their vertex's maximum) not
above the bound; then sets that are thereby in no tree: those whose members v all lack a family (v,Q), Q ⊇
A∖v, and their supersets. Then it branches on an edge, absent or present; or its last rows have D not above
the bound; or all its pairs are decided, and the one graph that is left is looked at.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import comb, floor, inf, isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.core.result import Status
from jtsolve.core.scores import SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, bounded_subsets, count_bounded_subsets, members, varset
from jtsolve.errors import InputError
from jtsolve.verify.result import declared_constraints, unasked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem
    from jtsolve.io.certificate import (
        Balance,
        CertificateDocument,
        Cut,
        ForbiddenGraph,
        Multipliers,
    )
    from jtsolve.io.result import ResultDocument

_ROOM = 1 << 61
"""What sums may be at most, so that differences of two fit 64 bits."""
_MOST_ENTRIES = 1 << 23
"""Sets that may be complete times the size of the largest, at most: it bounds memory by some 500 MB."""
_TOO_MANY = "There are too many sets that may be complete to verify it."


def verify(problem: Problem, result: ResultDocument, certificate: CertificateDocument) -> tuple[str, ...]:
    """Returns what is wrong with a certificate of a result's bound, or nothing if it holds.

    The result itself is verified by `jtsolve.verify.result`; here, that no tree under its constraints scores
    more than its bound, or that there is none if its bound is null and its status "infeasible".
    """
    try:
        constraints = declared_constraints(problem, result)
        found = result.status in (Status.OPTIMAL, Status.FEASIBLE)
        faults = tuple(unasked(problem.constraints, constraints, found=found))
        if faults:
            return faults
        _require(certificate.digest == problem.digest(), "It is a certificate for other scores.")
        _require(tuple(certificate.variables) == problem.names, "Its variables are not the problem's.")
        bound = -inf if result.bound is None else result.bound
        claims = isfinite(bound) if result.bound is not None else result.status is Status.INFEASIBLE
        _require(claims, "The result claims no bound.")
        _Verifier(replace(problem, constraints=constraints), certificate, bound).run()
    except (InputError, _Wrong) as wrong:
        return (str(wrong),)
    return ()


class _Wrong(Exception):  # noqa: N818 - a finding, not an error of ours
    """What is wrong with the certificate, in one sentence."""


def _require(holds: bool, sentence: str) -> None:  # noqa: FBT001 - reads like an assertion
    if not holds:
        raise _Wrong(sentence)


class _Families(NamedTuple):
    """What is left in a node: alive sets, and allowed families, each a set and the slot of its v."""

    alive: NDArray[np.bool_]
    allowed: NDArray[np.bool_]


class _Verifier:
    """The sets of the problem by size, their scores in units, and the nodes to go through."""

    def __init__(self, problem: Problem, certificate: CertificateDocument, bound: float) -> None:
        self.problem, self.certificate, self.bound = problem, certificate, bound
        self.n, self.root, self.shift = problem.n, certificate.root, certificate.shift
        _require(0 <= self.root < self.n, "Its root is no variable.")
        _require(-2000 <= self.shift <= 2000, "Its shift is out of range.")  # noqa: PLR2004 - of floats
        covered = _covered(problem)
        everything = covered | {0} | {1 << v for v in range(self.n)}
        self.sets = sorted(everything, key=lambda mask: (mask.bit_count(), mask))
        self.index = {mask: at for at, mask in enumerate(self.sets)}
        self.sizes = np.array([mask.bit_count() for mask in self.sets])
        width = int(self.sizes.max())
        self.member = np.full((len(self.sets), width), self.n)
        self.facet = np.zeros((len(self.sets), width), dtype=np.int64)
        for at, mask in enumerate(self.sets):
            for j, v in enumerate(members(mask)):
                self.member[at, j] = v
                self.facet[at, j] = self.index[mask ^ 1 << v]
        self.layers = [np.flatnonzero(self.sizes == size) for size in range(width + 1)]
        limits = problem.constraints
        self.no_clique = np.array([not problem.permits_clique(mask) for mask in self.sets])
        self.no_separator = np.array([not problem.permits_separator(mask) for mask in self.sets])
        self.units, offset = self._rounded()
        allowed = self.member < self.n
        allowed &= (self.member != self.root) | (self.sizes == 1)[:, None]
        if self.no_separator[0]:
            allowed[self.layers[1]] &= self.member[self.layers[1]] == self.root
        for at in self.layers[
            1
        ].tolist():  # a variable in no permitted clique has no family: there is no tree
            allowed[at] &= self.sets[at] in covered
        self.whole = _Families(np.ones(len(self.sets), dtype=np.bool_), allowed)
        self.complete = [1 << v for v in range(self.n)] + sorted(limits.required_edges)
        if bound == -inf:  # no tree at all: nothing is worth as much as the worst choice of families
            gains = self.units[:, None] - self.units[self.facet]
            least = np.full(self.n + 1, _ROOM)
            np.minimum.at(least, self.member[allowed], gains[allowed])
            self.target = sum(least[: self.n].tolist()) - 1
        else:
            self.target = floor(Fraction(bound) * Fraction(2) ** self.shift) - offset - self.n

    def _rounded(self) -> tuple[NDArray[np.int64], int]:
        """Returns s(A) in units less those of the members, 0 for sets without a score; and Σ_v s({v})."""
        own = [0] * self.n
        unit = Fraction(2) ** self.shift
        exact = [self.problem.scores.score(mask) for mask in self.sets]
        whole = [round(Fraction(value) * unit) if value > -inf else None for value in exact]
        for mask, value in zip(self.sets, whole, strict=True):
            if mask.bit_count() == 1 and value is not None:
                own[mask.bit_length() - 1] = value
        units = [
            0 if value is None else value - sum(own[v] for v in members(mask))
            for mask, value in zip(self.sets, whole, strict=True)
        ]
        _require(2 * self.n * max(map(abs, units)) < _ROOM, "Its shift is too large for these scores.")
        return np.array(units, dtype=np.int64), sum(own)

    def run(self) -> None:
        """Goes through all nodes from the first.

        Raises:
            _Wrong: with what is wrong.
        """
        nodes = self.certificate.nodes
        _require(bool(nodes), "It has no nodes.")
        seen: set[int] = set()
        open_nodes: list[tuple[int, _Families, dict[VarSet, bool]]] = [(0, self.whole, {})]
        while open_nodes:
            number, families, decided = open_nodes.pop()
            _require(
                0 <= number < len(nodes) and number not in seen, f"Node {number} is not a node of its own."
            )
            seen.add(number)
            node = nodes[number]
            complete = self.complete + [pair for pair, present in decided.items() if present]
            for stage, multipliers in enumerate(node.stages):
                place = f"node {number}, stage {stage}"
                families = self._dropped(families, multipliers, complete, place)
            if node.edge is not None:
                u, v = node.edge
                _require(0 <= u < v < self.n, f"Node {number} branches on what is no pair.")
                pair = 1 << u | 1 << v
                _require(pair not in decided, f"Node {number} branches on an edge that is decided.")
                _require(
                    node.absent is not None and node.present is not None, f"Node {number} lacks a branch."
                )
                assert node.absent is not None, "required above"
                assert node.present is not None, "required above"
                both = ((self.member == u) | (self.member == v)).sum(axis=1) == 2  # noqa: PLR2004
                without = self._closed(_Families(families.alive & ~both, families.allowed & ~both[:, None]))
                open_nodes.append((node.absent, without, {**decided, pair: False}))
                open_nodes.append((node.present, families, {**decided, pair: True}))
            elif node.graph:
                self._look_at(families, decided, number)
            else:
                _require(node.last is not None, f"Node {number} has no end.")
                assert node.last is not None, "required above"
                found = self._bound(families, node.last, complete, f"node {number}")
                if found is not None and all(self._alive(families, mask) for mask in complete):
                    _require(found[0] <= self.target, f"The bound of node {number} is above the result's.")

    def _alive(self, families: _Families, mask: VarSet) -> bool:
        return mask in self.index and bool(families.alive[self.index[mask]])

    def _bound(
        self, families: _Families, multipliers: Multipliers, complete: list[VarSet], place: str
    ) -> tuple[int, NDArray[np.int64], NDArray[np.int64]] | None:
        """Returns D, the gains of all families and the vertices' maxima; None if a vertex has no family."""
        total = self.units.copy()
        price = 0
        weights = 0
        for cut in multipliers.cuts:
            _require(0 <= cut.weight <= _ROOM, f"A cut of {place} has a weight that is out of range.")
            weights += cut.weight
            _require(2 * self.n * weights < _ROOM, f"The weights of {place} are too large.")
            total += cut.weight * self._indicator(cut, complete, place)
            price += cut.weight
        for row in multipliers.balances:
            largest = max((abs(c) for _, c in row.sets), default=0)
            fits = 0 <= row.weight <= _ROOM and abs(row.limit) <= _ROOM and largest <= _ROOM
            _require(fits, f"A row of {place} has a number that is out of range.")
            weights += row.weight * largest
            _require(2 * self.n * weights < _ROOM, f"The weights of {place} are too large.")
            total += row.weight * self._balance(row, place)
            price += row.weight * row.limit
        for graph in multipliers.graphs:
            _require(0 <= graph.weight <= _ROOM, f"A graph of {place} has a weight that is out of range.")
            weights += graph.weight * comb(len(self.layers) - 1, 2)  # no set has more pairs
            _require(2 * self.n * weights < _ROOM, f"The weights of {place} are too large.")
            total += graph.weight * self._signed_pairs(graph, place)
            price += graph.weight * (1 - len(graph.edges))
        gains = total[:, None] - total[self.facet]
        best = np.full(self.n + 1, -2 * _ROOM)
        np.maximum.at(best, self.member[families.allowed], gains[families.allowed])
        if (best[: self.n] == -2 * _ROOM).any():
            return None
        return sum(best[: self.n].tolist()) - price, gains, best

    def _indicator(self, cut: Cut, complete: list[VarSet], place: str) -> NDArray[np.int64]:
        """Returns 1 for the sets that hold a set of the cut; the cut has to be valid."""
        masks = [self._mask(names, place) for names in cut.sets]
        _require(all(masks), f"A cut of {place} has an empty set.")
        holds = any(mask & ~whole == 0 for mask in masks for whole in complete)
        _require(holds, f"A cut of {place} has no set that is complete in every tree.")
        inside = np.zeros(len(self.sets), dtype=np.bool_)
        inside[[self.index[mask] for mask in masks if mask in self.index]] = True
        for size, layer in enumerate(self.layers[1:], start=1):
            inside[layer] |= inside[self.facet[layer, :size]].any(axis=1)
        return inside.astype(np.int64)

    def _balance(self, row: Balance, place: str) -> NDArray[np.int64]:
        """Returns the coefficients of sets; the row has to be valid."""
        function = np.zeros(len(self.sets), dtype=np.int64)
        most = self.problem.constraints.max_cliques
        counts = most is not None and row.limit <= -most and all(c == -1 for _, c in row.sets)
        _require(counts or row.limit <= 0, f"A row of {place} has a limit that does not follow.")
        for names, coefficient in row.sets:
            mask = self._mask(names, place)
            at = self.index.get(mask, 0)
            _require(at > 0 and function[at] == 0, f"A row of {place} has a set that is not there, or twice.")
            proper = self.no_separator[at] if coefficient > 0 else self.no_clique[at]
            _require(counts or bool(proper), f"A row of {place} restricts {names}, which nothing does.")
            function[at] = coefficient
        return function

    def _signed_pairs(self, graph: ForbiddenGraph, place: str) -> NDArray[np.int64]:
        """Returns how many more pairs within each set are no edges of the graph than are; it is forbidden."""
        edges = [self._mask(edge, place) for edge in graph.edges]
        forbidden = self.problem.constraints.forbidden_graphs
        known = len(set(edges)) == len(edges) and frozenset(edges) in forbidden
        _require(known, f"A graph of {place} is not forbidden.")
        function: NDArray[np.int64] = self.sizes * (self.sizes - 1) // 2
        for u, v in graph.edges:
            function -= 2 * (((self.member == u) | (self.member == v)).sum(axis=1) == 2)  # noqa: PLR2004
        return function

    def _mask(self, names: Sequence[int], place: str) -> VarSet:
        _require(all(0 <= v < self.n for v in names), f"A row of {place} names what is no variable.")
        return varset(names)

    def _dropped(
        self, families: _Families, multipliers: Multipliers, complete: list[VarSet], place: str
    ) -> _Families:
        """Returns the families that may be in a tree above the bound."""
        found = self._bound(families, multipliers, complete, place)
        if found is None:
            return families
        value, gains, best = found
        # The sum is one of Python's: limits of rows are added to it, which may exceed 64 bits together.
        keep = families.allowed & (gains - best[self.member] > self.target - value)
        return self._closed(_Families(families.alive, keep))

    def _closed(self, families: _Families) -> _Families:
        """Returns what is left after dropping sets that are complete in no tree, and their families."""
        alive, allowed = families.alive.copy(), families.allowed.copy()
        while True:
            last = allowed.copy()  # last[A, j]: an allowed family (v,Q) of the j-th member with Q ⊇ A∖v
            for size in range(len(self.layers) - 1, 1, -1):
                layer = self.layers[size]
                for j in range(size):
                    for gone in range(size):
                        if gone != j:
                            facets = self.facet[layer, gone][last[layer, j]]
                            last[facets, j - (gone < j)] = True
            now = alive & (last.any(axis=1) | (self.sizes <= 1))
            for size, layer in enumerate(self.layers[1:], start=1):
                now[layer] &= now[self.facet[layer, :size]].all(axis=1) | (size == 1)
            fewer = allowed & now[:, None]
            if (now == alive).all() and (fewer == allowed).all():
                return _Families(now, fewer)
            alive, allowed = now, fewer

    def _look_at(self, families: _Families, decided: dict[VarSet, bool], number: int) -> None:
        """Looks at the one graph of a node in which every pair is decided."""
        pairs = [self.sets[at] for at in self.layers[2]] if len(self.layers) > 2 else []  # noqa: PLR2004
        left = [pair for pair in pairs if families.alive[self.index[pair]]]
        _require(all(decided.get(pair, False) for pair in left), f"Node {number} has pairs that are open.")
        neighbours = [0] * self.n
        for pair in left:
            u, v = members(pair)
            neighbours[u] |= 1 << v
            neighbours[v] |= 1 << u
        try:
            tree = JunctionTree.from_neighbours(neighbours)
        except ValueError:
            return  # not chordal
        if self._permits(tree):
            _require(self.bound > -inf, f"The graph of node {number} is permitted: there is a tree.")
            # A tree's score is the double nearest to the exact sum, as `fsum` gives it.
            above = tree.score(self.problem.scores) > self.bound
            _require(not above, f"The graph of node {number} scores more than the bound.")

    def _permits(self, tree: JunctionTree) -> bool:
        limits = self.problem.constraints
        edges = {1 << u | 1 << v for u, v in tree.graph_edges}
        return (
            all(self.problem.permits_clique(clique) for clique in tree.cliques)
            and all(self.problem.permits_separator(part) for part in tree.separators)
            and edges >= limits.required_edges
            and (limits.max_cliques is None or len(tree.cliques) <= limits.max_cliques)
            and edges not in limits.forbidden_graphs
        )


def _covered(problem: Problem) -> set[VarSet]:
    """Returns all subsets of the sets that may be cliques.

    Raises:
        _Wrong: they would make a table of more than `_MOST_ENTRIES` entries.
    """
    width = problem.max_clique_size
    scores = problem.scores
    if isinstance(scores, SparseScores):
        open_sets = [mask for mask in scores.table if problem.permits_clique(mask)]
        width = max(map(int.bit_count, open_sets), default=1)
    else:
        _require(width * count_bounded_subsets(problem.n, width) <= _MOST_ENTRIES, _TOO_MANY)
        open_sets = [mask for mask in bounded_subsets(problem.n, width) if problem.permits_clique(mask)]
    covered: set[VarSet] = set()
    while open_sets:  # depth first: few are open at a time
        mask = open_sets.pop()
        if mask not in covered:
            covered.add(mask)
            _require(width * len(covered) <= _MOST_ENTRIES, _TOO_MANY)
            open_sets += [mask ^ 1 << v for v in members(mask)]
    return covered
