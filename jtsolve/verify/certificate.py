"""Verification of bounds: no junction tree of a problem scores more than the bound of a result.

docs/certificates.md states the claim, the format and the rules, and proves that they suffice. No code is
shared with the backend that writes certificates.

Arithmetic is exact: scores are rounded once to multiples of 2^-shift nats, and `ROOM` limits the sums of
these integers to 64 bits. Time is the size of the table times that of the certificate, 64 cuts at a time.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, comb, inf, isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.core.result import Status
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, members, varset
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.ranking import RankingDocument
from jtsolve.verify.completions import possible_cliques, target_of, work_of
from jtsolve.verify.constraints import contradictions, declared_constraints, edges_of_result
from jtsolve.verify.form import DEEPEST, MOST_WORK, ROOM, Wrong, check_form, require
from jtsolve.verify.table import SetTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem
    from jtsolve.io.certificate import CertificateDocument, Multipliers, NodeDocument
    from jtsolve.io.result import ResultDocument


def verify(
    problem: Problem, result: ResultDocument | RankingDocument, certificate: CertificateDocument
) -> tuple[str, ...]:
    """Returns the faults of a certificate of a result's bound; none if the bound is proved.

    `jtsolve.verify.result` verifies the result itself. The certificate proves that no tree under the result's
    constraints scores more than its bound; or that none exists, if the bound is null and the status
    "infeasible". For a ranking, it excludes trees other than those listed.

    Args:
        problem: the scores and constraints.
        result: a result or a ranking.
        certificate: of the bound.
    """
    try:
        constraints = declared_constraints(problem, result)
        if isinstance(result, RankingDocument):
            listed, infeasible, found = result.results, result.bound is None, bool(result.results)
        else:
            listed, infeasible = [], result.status is Status.INFEASIBLE
            found = result.status in (Status.OPTIMAL, Status.FEASIBLE)
        faults = tuple(contradictions(problem.constraints, constraints, found=found))
        if faults:
            return faults
        digest = problem.digest()
        require(result.instance.digest == digest, "The result is for other scores.")
        require(certificate.digest == digest, "It is a certificate for other scores.")
        require(tuple(certificate.variables) == problem.names, "Its variables are not the problem's.")
        graphs = constraints.forbidden_graphs | {edges_of_result(problem, one) for one in listed}
        bound = -inf if result.bound is None else result.bound
        claims = isfinite(bound) if result.bound is not None else infeasible
        require(claims, "The result claims no bound.")
        constraints = replace(constraints, forbidden_graphs=graphs)
        _Verifier(replace(problem, constraints=constraints).with_star(), certificate, bound).run()
    except (ChoiceError, InputError, Wrong) as wrong:
        return (str(wrong),)
    return ()


class _Remaining(NamedTuple):
    """The remaining sets and families of a node; a family is a set and the slot of its v."""

    alive: NDArray[np.bool_]
    allowed: NDArray[np.bool_]
    decided: dict[VarSet, bool]


class _Verifier:
    """The table of sets, their scores in units, and the visits of nodes."""

    def __init__(self, problem: Problem, certificate: CertificateDocument, bound: float) -> None:
        self.problem, self.certificate, self.bound = problem, certificate, bound
        self.n, self.shift = problem.n, certificate.shift
        check_form(certificate, problem.n)
        self.work, possible = 0, None
        if certificate.completions:
            require(bound > -inf, "Completions need a bound.")
            self._count_work(work_of(self.n, certificate.completions))
            possible = possible_cliques(problem, self.shift, bound, certificate.completions)
        self.table = table = SetTable(problem, possible)
        self.entries = table.width * len(table.masks)
        self.no_clique = np.array([not problem.permits_clique(mask) for mask in table.masks])
        self.no_separator = np.array([not problem.permits_separator(mask) for mask in table.masks])
        self.sets = [varset(names) for names in certificate.sets]
        self.position = np.array([table.index.get(mask, -1) for mask in self.sets], np.int64)
        self.units, offset = self._rounded()
        allowed = table.member < self.n
        allowed &= (table.member != certificate.root) | (table.sizes == 1)[:, None]
        first = table.layers[1]
        if self.no_separator[0]:
            allowed[first] &= table.member[first] == certificate.root
        allowed[first, 0] &= table.coverable[first]
        for edge in problem.constraints.required_edges:
            if edge >> certificate.root & 1:  # the root comes first, so it is a parent of the other
                (v,) = members(edge & ~(1 << certificate.root))
                allowed &= (table.member != v) | table.holding(certificate.root, v)[:, None]
        self.whole = _Remaining(np.ones(len(table.masks), dtype=np.bool_), allowed, {})
        if bound > -inf:
            self.target = target_of(bound, self.shift, offset, self.n)
        else:  # one less than the least value of any choice of families
            gains = self.units[:, None] - self.units[table.facet]
            least = np.full(self.n + 1, ROOM)
            np.minimum.at(least, table.member[allowed], gains[allowed])
            self.target = sum(least[: self.n].tolist()) - 1

    def _rounded(self) -> tuple[NDArray[np.int64], int]:
        """Returns u(A) of all sets, 0 for those without a score; and Σ_v r({v})."""
        table, n = self.table, self.n
        nats = np.zeros(len(table.masks))
        for size, layer in enumerate(table.layers[1:], start=1):
            nats[layer] = self.problem.scores.batch(table.member[layer, :size].astype(np.intp))
        known = nats > -inf
        with np.errstate(over="ignore", under="ignore"):  # a power of 2 changes no digit, and rint is exact
            rounded = np.rint(np.ldexp(np.where(known, nats, 0.0), self.shift))
        largest = float(np.abs(rounded).max())
        fits = largest < ROOM and 4 * n * (table.width + 1) * int(largest) < ROOM
        require(fits, "The shift is too large for these scores.")
        whole = rounded.astype(np.int64)
        own = np.append(whole[table.layers[1]], 0)
        units = np.where(known, whole - own[table.member].sum(axis=1), 0)
        return units, int(own.sum())

    def _count_work(self, steps: int) -> None:
        """Counts steps.

        Raises:
            Wrong: the certificate needs too many.
        """
        self.work += steps
        require(self.work <= MOST_WORK, "Its verification would take too much work.")

    def _closed(
        self, alive: NDArray[np.bool_], allowed: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Returns the sets and families that remain after closing."""
        while True:
            self._count_work(self.entries)
            now, fewer = self.table.closing_round(alive, allowed)
            if (now == alive).all() and (fewer == allowed).all():
                return now, fewer
            alive, allowed = now, fewer

    def run(self) -> None:
        """Visits all nodes from the root.

        Raises:
            Wrong: the first fault.
        """
        nodes = self.certificate.nodes
        seen: set[int] = set()
        waiting = [(0, self.whole)]
        while waiting:
            number, state = waiting.pop()
            require(number not in seen, f"Node {number} is reached twice.")
            seen.add(number)
            deep = len(state.decided) * self.entries > DEEPEST
            require(not deep, f"Node {number} is below too many branches.")
            node = nodes[number]
            self._count_work(self.entries + (self.n**3 if node.graph else 0))
            impossible = self._impossible(state)
            for stage, multipliers in enumerate(node.stages):
                if not impossible:
                    state = self._dropped(state, multipliers, f"node {number}, stage {stage}")
                    impossible = self._impossible(state)
            if not impossible:
                waiting += self._end(node, state, number)

    def _end(self, node: NodeDocument, state: _Remaining, number: int) -> list[tuple[int, _Remaining]]:
        """Verifies the end of a node; returns its branches, still to be visited."""
        if node.edge is not None:
            assert node.absent is not None, "checked by `check_form`"
            assert node.present is not None, "checked by `check_form`"
            pair = varset(node.edge)
            require(pair not in state.decided, f"Node {number} branches on an edge that is decided.")
            both = self.table.holding(*node.edge)
            without = self._closed(state.alive & ~both, state.allowed & ~both[:, None])
            return [
                (node.absent, _Remaining(*without, {**state.decided, pair: False})),
                (node.present, state._replace(decided={**state.decided, pair: True})),
            ]
        if node.last is not None:
            value, _, _ = self._bound(state, node.last, f"node {number}")
            require(value <= self.target, f"The bound of node {number} is above the result's.")
        else:
            self._check_decided_graph(state, number)
        return []

    def _complete(self, state: _Remaining) -> list[VarSet]:
        """Returns the pairs that are edges of every tree of a node."""
        present = (pair for pair, decided in state.decided.items() if decided)
        return [*self.problem.constraints.required_edges, *present]

    def _impossible(self, state: _Remaining) -> bool:
        """Returns whether a vertex has no family, or an edge of all trees of the node has been dropped."""
        left = np.zeros(self.n + 1, dtype=np.bool_)
        left[self.table.member[state.allowed]] = True
        if not left[: self.n].all():
            return True
        return not all(self._is_alive(state, pair) for pair in self._complete(state))

    def _is_alive(self, state: _Remaining, mask: VarSet) -> bool:
        return mask in self.table.index and bool(state.alive[self.table.index[mask]])

    def _bound(
        self, state: _Remaining, multipliers: Multipliers, place: str
    ) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
        """Returns D, the gains of all families, and the vertices' maxima."""
        document = self.certificate
        passes = 1 + ceil(len(multipliers.cuts) / 64) + len(multipliers.balances)
        passes += sum(len(document.graphs[at]) for at, _ in multipliers.graphs)
        sizes = sum(len(document.cuts[at]) for at, _ in multipliers.cuts)
        sizes += sum(len(document.balances[at].sets) for at, _ in multipliers.balances)
        self._count_work(passes * self.entries + sizes)
        self._check_cuts(state, multipliers, place)
        weights = sum(weight for _, weight in multipliers.cuts)
        for at, weight in multipliers.balances:
            weights += weight * max((abs(c) for _, c in document.balances[at].sets), default=0)
        weights += sum(weight for _, weight in multipliers.graphs) * comb(self.table.width, 2)
        require(2 * self.n * weights < ROOM, f"The weights of {place} are too large.")
        total = self.units.copy()
        self._add_cuts(total, multipliers.cuts)
        price = sum(weight for _, weight in multipliers.cuts)
        for at, weight in multipliers.balances:
            total += weight * self._balance(at, place)
            price += weight * document.balances[at].limit
        for at, weight in multipliers.graphs:
            total += weight * self._signed_pairs(at, place)
            price += weight * (1 - len(document.graphs[at]))
        gains = total[:, None] - total[self.table.facet]
        best = np.full(self.n + 1, -2 * ROOM)
        np.maximum.at(best, self.table.member[state.allowed], gains[state.allowed])
        return sum(best[: self.n].tolist()) - price, gains, best

    def _check_cuts(self, state: _Remaining, multipliers: Multipliers, place: str) -> None:
        """Checks that each cut has a set that is complete in every tree, and no empty set."""
        complete = set(self._complete(state))
        for at, _ in multipliers.cuts:
            cut = [self.sets[k] for k in self.certificate.cuts[at]]
            require(all(cut), f"A cut of {place} has an empty set.")
            holds = any(mask.bit_count() == 1 or mask in complete for mask in cut)
            require(holds, f"A cut of {place} has no set that is complete in every tree.")

    def _add_cuts(self, total: NDArray[np.int64], cuts: Sequence[tuple[int, int]]) -> None:
        """Adds to each set the weights of the cuts with a subset of it, 64 cuts at a time."""
        for first in range(0, len(cuts), 64):
            block = cuts[first : first + 64]
            inside = np.zeros(total.size, dtype=np.uint64)
            for bit, (at, _) in enumerate(block):
                positions = self.position[self.certificate.cuts[at]]
                inside[positions[positions >= 0]] |= np.uint64(1 << bit)
            self.table.spread_up(inside)
            for low in range(0, len(block), 8):  # a table of the sums of eight weights
                sums = np.zeros(1, dtype=np.int64)
                for _, weight in block[low : low + 8]:
                    sums = np.concatenate((sums, sums + weight))
                total += sums[(inside >> np.uint64(low) & np.uint64(255)).astype(np.intp)]

    def _balance(self, at: int, place: str) -> NDArray[np.int64]:
        """Returns the coefficients of sets, after checking that the row is valid."""
        row = self.certificate.balances[at]
        function = np.zeros(len(self.table.masks), dtype=np.int64)
        most = self.problem.constraints.max_cliques
        counts = most is not None and row.limit <= -most and all(c == -1 for _, c in row.sets)
        require(counts or row.limit <= 0, f"A row of {place} has a limit that does not follow.")
        seen: set[int] = set()
        for number, coefficient in row.sets:
            mask, k = self.sets[number], int(self.position[number])
            require(mask > 0 and mask not in seen, f"A row of {place} has the empty set, or one twice.")
            seen.add(mask)
            if k < 0:  # complete in no graph above the bound
                continue
            restricted = self.no_separator[k] if coefficient > 0 else self.no_clique[k]
            require(
                counts or bool(restricted),
                f"A row of {place} restricts {self.certificate.sets[number]}, which no constraint does.",
            )
            function[k] = coefficient
        return function

    def _signed_pairs(self, at: int, place: str) -> NDArray[np.int64]:
        """Returns for each set the pairs that are no edges of a forbidden graph, less those that are."""
        graph = self.certificate.graphs[at]
        edges = [1 << u | 1 << v for u, v in graph]
        forbidden = self.problem.constraints.forbidden_graphs
        known = len(set(edges)) == len(edges) and frozenset(edges) in forbidden
        require(known, f"A graph of {place} is not forbidden.")
        function: NDArray[np.int64] = self.table.sizes * (self.table.sizes - 1) // 2
        for u, v in graph:
            function -= 2 * self.table.holding(u, v)
        return function

    def _dropped(self, state: _Remaining, multipliers: Multipliers, place: str) -> _Remaining:
        """Returns what remains of a node: the families that may be in a tree above the bound."""
        value, gains, best = self._bound(state, multipliers, place)
        # The right-hand side is a Python integer: limits of rows may exceed 64 bits.
        keep = state.allowed & (gains - best[self.table.member] > self.target - value)
        return _Remaining(*self._closed(state.alive, keep), state.decided)

    def _check_decided_graph(self, state: _Remaining, number: int) -> None:
        """Checks the one graph of a node in which every pair is decided."""
        table = self.table
        pairs = table.masks[table.layers[2]] if table.width > 1 else []
        left = [pair for pair in pairs if self._is_alive(state, pair)]
        require(set(left) <= set(self._complete(state)), f"Node {number} has undecided pairs.")
        neighbours = [0] * self.n
        for pair in left:
            u, v = members(pair)
            neighbours[u] |= 1 << v
            neighbours[v] |= 1 << u
        try:
            tree = JunctionTree.from_neighbours(neighbours)
        except ValueError:
            return  # not chordal
        if self.problem.permits(tree):
            require(self.bound > -inf, f"The graph of node {number} is permitted: there is a tree.")
            # The score of a tree is the double nearest to the exact sum.
            above = tree.score(self.problem.scores) > self.bound
            require(not above, f"The graph of node {number} scores more than the bound.")
