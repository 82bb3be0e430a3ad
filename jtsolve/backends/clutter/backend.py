"""Branch and cut with clutter inequalities: exact, far beyond the range of the dynamic programming.

A tree is a choice of one family (v,P) a vertex, P the earlier neighbours of v in a perfect order from a
fixed root (`families`), with weight s(P∪v) − s(P). The LP over these choices, with a cut for
every clutter (`rows`), is a tight relaxation; its cuts are found by minimum cuts (`separation`).

1. A backend gives the first tree; the root is a vertex with most neighbours in it.
2. Multipliers of the LP by steps of the volume algorithm, with cuts on the way (`volume`). Each
   step gives a bound, and families that the bound rules out are dropped for good.
3. The rest by the simplex method (`simplex`, `master`), on all families that are left.
4. Where the LP leaves a gap: branch and bound on edges (`branch_and_bound`).

Where there are too many families to list, most are priced (`column_generation`).

Every bound is computed anew from its multipliers, over all families, in exact integers (`bound`):
what the LP solver says is never believed. With `certificate`, multipliers and branches are written to a
file that `jtsolve check` verifies with code of its own (`jtsolve.verify.certificate`). More in
docs/clutter.md.

Time: an LP relaxation is solved in seconds to minutes; proofs take exponential time in the worst case.
Memory: linear in the number of sets, at most C(n, treewidth + 1) and smaller ones, with a word for 64 cuts a
set; and in the number of open subproblems.

References:
    Studený and Cussens, Towards using the chordal graph polytope in learning decomposable models, IJAR 2017
    (clutter inequalities). Barahona and Anbil, The volume algorithm, Mathematical Programming 2000. Koch and
    Martin, Solving Steiner tree problems in graphs to optimality, Networks 1998 (disjoint cuts, creep flow).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, ClassVar

from jtsolve.backends.clutter.branch_and_bound import Search
from jtsolve.backends.clutter.certificate import write_certificate
from jtsolve.backends.clutter.column_generation import BYTES_A_SET, Columns, memory_of, takes
from jtsolve.backends.clutter.first_tree import best_neighbour
from jtsolve.backends.clutter.relaxation import solve_root
from jtsolve.core.backend import Backend, Capabilities, Estimate, Limits, Report
from jtsolve.core.machine import resident_memory
from jtsolve.core.problem import ALL_FEATURES, Problem
from jtsolve.core.result import Outcome, Stop
from jtsolve.errors import InputError
from jtsolve.families.families import choose_root, families_of, predicted_memory, predicted_sets

if TYPE_CHECKING:
    from jtsolve.backends.support.relaxation import Relaxation
    from jtsolve.core.tree import JunctionTree
    from jtsolve.families.families import Families

_LIBRARIES = 250_000_000
"""Bytes of the compiler and the LP solver."""
_MOST_PROVED = 40
"""Variables beyond which proofs are not counted on: with 37 at treewidth 2 they take seconds, with 69 some
minutes, and with 111 they did not end in seven."""
_STARTING = 2.0
_LISTED, _LISTED_TIMES = 50_000, 3
"""Sets of the largest size that are listed anew in a round where not all fit; how often that there are."""
_FAMILIES_A_SECOND = 1500.0
"""At 20 variables."""


@dataclass(frozen=True, slots=True)
class ClutterCuts:
    """Branch and cut with clutter inequalities. Exact, for tens of variables; bounds for hundreds.

    Args:
        start: gives the first tree, or None.
        root: the name of the variable that comes first; None for a good one.
        certificate: a file to write a proof of the bound to, which `jtsolve check` verifies; None for none.
        listed: how many sets of the largest size are listed anew in a round, while the others are priced
            (`column_generation`); None for all at once, or 50,000 where all do not fit into memory.
    """

    start: Backend | None = None
    root: str | None = None
    certificate: str | None = None
    listed: int | None = None

    name: ClassVar[str] = "clutter"

    @property
    def capabilities(self) -> Capabilities:
        """All constraints, any number of variables."""
        return Capabilities(features=ALL_FEATURES, exact=True)

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`; infinite seconds where a proof is not to be expected.

        The seconds are a rough guess: they depend on the scores more than on the sizes.
        """
        families = predicted_sets(problem) * problem.max_clique_size
        memory = resident_memory() + predicted_memory(problem) + self.relaxation_memory(problem)
        listed = self._listed(problem, limits)
        if listed is not None:
            memory = resident_memory() + _LIBRARIES + memory_of(problem, _LISTED_TIMES * listed)
        seconds = inf
        if problem.n <= _MOST_PROVED:
            seconds = _STARTING + families * (problem.n / 20) ** 2 / _FAMILIES_A_SECOND
        if self.start is not None and not self.start.capabilities.objections(problem):
            start = self.start.estimate(problem, limits)
            memory = max(memory, start.memory)
        return Estimate(memory, seconds)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        from jtsolve.core.compiling import announced

        self.estimate(problem, limits).require_memory(self.name, limits)
        with announced(lambda: report(note="compiling the kernels (first run only)")):
            first = self._first(problem, limits, report)
            root = choose_root(problem, first) if self.root is None else self._named_root(problem)
            listed = self._listed(problem, limits)
            if listed is not None:
                with ThreadPoolExecutor(limits.workers) if limits.workers > 1 else nullcontext() as pool:
                    return Columns(problem, root, limits, report, listed).run(first, pool)
            families = families_of(problem, root)
            search = Search(problem, families, limits, report, keep_stages=self.certificate is not None)
            if first is not None:
                search.incumbent.offer(first)
            stop = search.run()
        if self.certificate is not None:
            write_certificate(self.certificate, problem, root, search.scale.shift, search.root.node)
        bound = search.bound
        if stop is Stop.FINISHED and search.incumbent.tree is None:
            bound = -inf
        stats = {
            "nodes": search.nodes,
            "steps": search.steps,
            "rounds": search.rounds,
            "lp_failures": search.failures,
            "families": int(families.allowed.sum()),
            "root": problem.names[root],
        }
        return Outcome(search.incumbent.tree, bound, stop, stats)

    def _listed(self, problem: Problem, limits: Limits) -> int | None:
        """Returns how many sets of the largest size are listed at a time; None for all.

        Raises:
            InputError: the option does not go with the problem, or with a certificate.
        """
        if self.listed is None:
            need = resident_memory() + predicted_memory(problem) + self.relaxation_memory(problem)
            fits = need <= limits.memory_bytes or self.certificate is not None or not takes(problem)
            return None if fits else _LISTED
        if self.listed < 1:
            raise InputError("clutter", "listed", f"{self.listed} is less than 1", "list some sets")
        if not takes(problem) or self.certificate is not None:
            raise InputError(
                "clutter",
                "listed",
                "families are priced only without constraints but on treewidth, without a certificate, and "
                "where every set has a score",
                "leave the option out",
            )
        return self.listed

    def relaxation_memory(self, problem: Problem) -> int:
        """See `support.relaxation.Relaxes`."""
        return _LIBRARIES + BYTES_A_SET * predicted_sets(problem)

    def relax(
        self, problem: Problem, families: Families, tree: JunctionTree, limits: Limits, report: Report
    ) -> Relaxation:
        """Solves the LP of the whole problem; see `support.relaxation.Relaxes` and `relaxation`."""
        from jtsolve.core.compiling import announced

        with announced(lambda: report(note="compiling the kernels (first run only)")):
            return solve_root(problem, families, tree, limits, report)

    def _named_root(self, problem: Problem) -> int:
        """Returns the variable that is asked for as root."""
        assert self.root is not None, "asked before"
        if self.root not in problem.names:
            raise InputError(
                "clutter", "root", f"there is no variable '{self.root}'", "name a variable of the problem"
            )
        return problem.names.index(self.root)

    def _first(self, problem: Problem, limits: Limits, report: Report) -> JunctionTree | None:
        """Returns the tree of `start`, if it finds one; or one near a forbidden graph, if any is."""
        if problem.constraints.forbidden_graphs:
            return best_neighbour(problem)
        if self.start is None or self.start.capabilities.objections(problem):
            return None
        return self.start.solve(problem, limits, report).tree
