"""Branch and cut with clutter inequalities: exact, far beyond the range of dynamic programming.

A tree is a choice of one family (v,P) for each vertex, P the earlier neighbours of v in a perfect order from
a fixed root (`families`), with weight s(P∪v) − s(P). The LP over these choices with the clutter inequalities
(`inequalities`) is a tight relaxation; violated ones are found by minimum cuts (`separation`).

1. A start backend gives the first tree. The root is a vertex with the most neighbours in it or, before
   potentials, in the best tree of treewidth 1. Without a first tree, a search with all scores 0 finds one, or
   proves infeasibility, however large the scores are.
2. Dual ascent finds multipliers of the LP (`ascent`), and the volume algorithm improves them and separates
   cuts (`volume`); with large cliques, potentials represent all cuts at once (`potentials`). All give bounds,
   and families that a bound rules out are dropped for good. When a better tree is found meanwhile, the search
   may restart from it (`restarts`).
3. The simplex method solves the LP over the remaining families (`simplex`, `master`).
4. If a gap remains: branch and bound on edges (`branch_and_bound`).

Up to 26 variables have too many sets of any size to list, but few of them can be in a tree as good as the
first: the completion bound (`jtsolve.core.pruning`) leaves 26,000 of four million on hypothyroid. Where the
LP over all families does not fit into memory, a dual ascent bounds the problem (`ascent_only`), with binary
columns over a list of families (`listed`). Where that does not fit either, Gaussian scores provide bounds
(`jtsolve.scoring.priced`).

Every bound is computed from its multipliers, over all families, in exact integers (`bound`): no claim of the
LP solver is trusted. With `certificate`, multipliers and branches are written to a file that `jtsolve check`
verifies independently (`jtsolve.verify.certificate`). Guide: docs/clutter.md.

Time: an LP relaxation is solved in seconds to minutes; proofs take exponential time in the worst case.
Memory: linear in the number of sets, those of up to treewidth + 1 variables, with a word for 64 cuts per set;
and in the number of open subproblems. The completion bound needs n + 12 numbers for each of 2^n sets.

References:
    Studený and Cussens, Towards using the chordal graph polytope in learning decomposable models, IJAR 2017
    (clutter inequalities). Wong, A dual ascent approach for Steiner tree problems on a directed graph,
    Mathematical Programming 1984. Barahona and Anbil, The volume algorithm, Mathematical Programming 2000.
    Koch and Martin, Solving Steiner tree problems in graphs to optimality, Networks 1998 (disjoint cuts,
    creep flow).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

from jtsolve.backends.clutter.ascent import ascend
from jtsolve.backends.clutter.ascent_only import bound_by_ascent, bound_by_scores, memory_of_ascent
from jtsolve.backends.clutter.branch_and_bound import BRANCHING, BranchAndBound
from jtsolve.backends.clutter.certificate import Proof, certificate_of
from jtsolve.backends.clutter.first_tree import best_neighbour
from jtsolve.backends.clutter.listed import bound_by_list, memory_of_list
from jtsolve.backends.clutter.potentials import POTENTIALS
from jtsolve.backends.clutter.relaxation import solve_root
from jtsolve.backends.clutter.restarts import search_with_restarts
from jtsolve.backends.clutter.sparsest import sparsest, ties_with
from jtsolve.backends.clutter.table import bytes_of_table, tabulated, tabulated_and_bounded
from jtsolve.backends.support.report import ending_at
from jtsolve.core import pruning
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.core.estimates import estimate_of, objections_of
from jtsolve.core.machine import base_memory
from jtsolve.core.problem import ALL_FEATURES, Problem
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import Bounding, SparseScores, StoppedError
from jtsolve.errors import LimitError
from jtsolve.families.families import choose_root, families_of, predicted_memory, predicted_sets
from jtsolve.io.certificate import write_certificate
from jtsolve.options import TIME, TREEWIDTH
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.triples import MANY_SETS, SEARCHED_SIZE, seconds_of_search

if TYPE_CHECKING:
    from jtsolve.backends.support.relaxation import Relaxation
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree
    from jtsolve.families.families import Families
    from jtsolve.io.certificate import CertificateDocument

_LIBRARIES = 40_000_000
"""Bytes of the LP solver and sparse matrices."""
_BYTES_PER_SET = 3000
"""Memory of thousands of cuts and copies. Measured: 1400 to 3900."""
_BYTES_PER_PAIR, _BYTES_PER_COLUMN = 150, 2000
"""Memory of priced bounds: for each pair of columns and size of sets; and for each column, times the fifth
power of the size. Measured: 0.2 MB a column with sets of three, 2 MB with sets of four."""
_START_SECONDS, _FAMILIES_PER_SECOND, _LEFT_PER_SECOND = 2.0, 8000.0, 2000.0
"""Rough rates for predictions; no limit relies on them. The first rate is for all families with 20 variables,
the second for families that the first ascent leaves: 29,841 on plants took 14 s."""
_SEARCHES = 10
"""Typical number of searches of all sets in a bound by lists."""
_MANY_SETS, _MANY_OF_ALL = 1 << 17, 1 / 8
"""The completion bound, which visits all 2^n sets, precedes the listing of more sets than this number and
share. With 24 variables at treewidth 5, listing 190,000 sets takes a second, the bound a minute."""
_FEW_OF_PRUNED = 20_000
"""Maximum number of families for which the simplex method follows the completion bound directly. On mushroom,
with 7,663, the volume algorithm gained nothing in a minute, and the simplex method proves the optimum in
one."""
_UNPROVED = "stopped before a bound that a certificate can state"
_PRUNING_NANOSECONDS = 5.0
"""Work per set and pair of variables: four rounds with 22 variables took 14 s."""


@dataclass(frozen=True, slots=True)
class ClutterCuts:
    """Branch and cut with clutter inequalities. Exact, for tens of variables; bounds for hundreds.

    Args:
        start: backend for the first tree, or None.
        certificate: a file for a proof of the bound, which `jtsolve check` verifies; None for no proof. It is
            no option in texts, since these may come from others.
        simplex: maximum number of families for which the simplex method follows the ascent directly, without
            the volume algorithm. Larger numbers suit problems of a few hundred sets.
        ties: whether to return the sparsest of the best trees (`sparsest`).
    """

    start: Backend | None = None
    certificate: str | None = field(default=None, repr=False)
    simplex: int = BRANCHING.few
    ties: bool = True

    name: ClassVar[str] = "clutter"

    @property
    def capabilities(self) -> Capabilities:
        """All constraints, any number of variables."""
        return Capabilities(features=ALL_FEATURES, exact=True, predictable=False)

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`.

        The seconds are a rough guess by sizes; `forecast` predicts better, by the first ascent.
        """
        return self._estimate(problem, limits, keep_stages=self.certificate is not None)

    def _estimate(self, problem: Problem, limits: Limits, *, keep_stages: bool) -> Estimate:
        families = predicted_sets(problem) * problem.max_clique_size
        memory = self._memory(problem)
        prunes = self._prunes(problem, limits)
        if self._only_ascends(problem, limits):
            memory = base_memory(kernels=True) + _LIBRARIES + memory_of_ascent(problem)
            table = bytes_of_table(problem)
            memory += table if memory + table <= limits.memory_bytes else 0
        lists = not keep_stages and self._lists(problem, limits)
        if lists:
            memory = base_memory(kernels=True) + _LIBRARIES + memory_of_list(problem)
        elif self._only_bounds(problem, limits):
            n, size = problem.n, problem.max_clique_size
            memory = _BYTES_PER_PAIR * n**2 * size + _BYTES_PER_COLUMN * n * size**5
            memory += base_memory(kernels=True) + _LIBRARIES
        seconds = _START_SECONDS + families * (problem.n / 20) ** 2 / _FAMILIES_PER_SECOND
        if lists:
            assert isinstance(problem.scores, DataScores), "lists are of such scores"
            seconds = _START_SECONDS + _SEARCHES * seconds_of_search(problem.scores.scorer, limits.workers)
        if prunes:
            memory = self._pruning_memory(problem)
            seconds = _START_SECONDS + problem.n**2 * 1e-9 * _PRUNING_NANOSECONDS * (1 << problem.n)
        if self.start is not None and not objections_of(self.start, problem):
            start = estimate_of(self.start, problem, limits)
            memory = max(memory, start.memory)
        return Estimate(memory, seconds)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        self.estimate(problem, limits).require_memory(self.name, limits)
        keep_stages = self.certificate is not None
        outcome, proof = self._solved(problem, limits, report, keep_stages=keep_stages, ties=self.ties)
        if self.certificate is None:
            return outcome
        if proof is None:
            note = f"no certificate: clutter {_UNPROVED}"
            return replace(outcome, stats={**outcome.stats, "note": note})
        write_certificate(self.certificate, certificate_of(problem, proof))
        return replace(outcome, stats={**outcome.stats, "certified": outcome.bound})

    def prove(self, problem: Problem, limits: Limits, report: Report) -> tuple[Outcome, CertificateDocument]:
        """Solves a problem from the best tree reported; returns the outcome and a certificate of its bound.

        Args:
            problem: to solve.
            limits: time, memory and threads.
            report: receives trees and bounds; its incumbent is the start.

        Raises:
            LimitError: the work needs more memory than the limit, raised before anything is allocated; or
                the time limit came before a bound.
        """
        self._estimate(problem, limits, keep_stages=True).require_memory(self.name, limits)
        outcome, proof = self._solved(problem, limits, report, keep_stages=True, ties=False)
        if proof is None:
            raise LimitError(
                f"no certificate is written: backend 'clutter', which writes proofs, {_UNPROVED}. Ways out: "
                f"a larger {TIME}, a smaller {TREEWIDTH}."
            )
        return outcome, certificate_of(problem, proof)

    def _solved(
        self, problem: Problem, limits: Limits, report: Report, *, keep_stages: bool, ties: bool
    ) -> tuple[Outcome, Proof | None]:
        """Solves or bounds the problem, as memory permits; returns the outcome and the proof, if kept."""
        try:
            if not keep_stages and self._lists(problem, limits):
                first, root = self._start(problem, limits, report)
                return bound_by_list(problem, root, first, limits, report), None
            if self._only_bounds(problem, limits):
                return bound_by_scores(problem, self._start(problem, limits, report)[0], limits, report), None
            if self._only_ascends(problem, limits):
                return self._bounded(problem, limits, report)
            return self._branch_and_bound(problem, limits, report, keep_stages=keep_stages, ties=ties)
        except StoppedError:
            return Outcome(report.incumbent, stop=report.stop or Stop.TIME), None

    def _bounded(self, problem: Problem, limits: Limits, report: Report) -> tuple[Outcome, Proof | None]:
        """Bounds the problem by one ascent; see `_solved`."""
        first, root = self._start(problem, limits, report)
        if report.stop is not None:  # listing the sets may take seconds
            return Outcome(first, stop=report.stop), None
        problem = tabulated_and_bounded(problem, limits, report, _LIBRARIES + memory_of_ascent(problem))
        return bound_by_ascent(problem, root, first, limits, report)

    def forecast(self, problem: Problem, limits: Limits, report: Report) -> float:
        """Returns the seconds of a proof, predicted from the first tree and one dual ascent.

        Args:
            problem: to bound.
            limits: time, memory and threads.
            report: ends the ascent.

        Raises:
            LimitError: the work needs more memory than the limit; raised before anything is allocated.
        """
        search, *_ = self._begin(problem, limits, report, keep_stages=False)
        subproblem = search.root.subproblem
        if subproblem.feasible:
            bound, _ = ascend(subproblem, subproblem.multipliers, lambda _: report.stop is None)
            if subproblem.feasible:
                subproblem.improve(bound, subproblem.multipliers, fix_all=True)
        left = 0 if subproblem.closed else int(subproblem.families.allowed.sum())
        return limits.elapsed + left / _LEFT_PER_SECOND

    def _branch_and_bound(
        self, problem: Problem, limits: Limits, report: Report, *, keep_stages: bool, ties: bool
    ) -> tuple[Outcome, Proof]:
        """Searches over all families; see `_solved`."""
        families, table, completions = 0, problem, 0

        def begin(report: Report) -> BranchAndBound:
            nonlocal families, table, completions
            search, families, table, completions = self._begin(table, limits, report, keep_stages=keep_stages)
            return search

        # Two searches are in memory during a restart.
        repeatable = not self._prunes(problem, limits) and 2 * self._memory(problem) <= limits.memory_bytes
        search, stop = search_with_restarts(begin, limits, report, repeatable=repeatable)
        tree = search.best.tree
        bound = -inf if stop is Stop.FINISHED and tree is None else search.bound
        stats: dict[str, Any] = {
            "nodes": search.nodes,
            "steps": search.steps,
            "rounds": search.rounds,
            "lp_failures": search.failures,
            "families": families,
            "root": problem.names[search.root.subproblem.families.root],
        }
        outcome = Outcome(tree, bound, stop, stats)
        # The families of the root still include those of all trees within the margin of ties.
        left = search.root.subproblem.families
        if ties and tree is not None and stop is Stop.FINISHED:
            report(bound=bound)
            tree, criteria = sparsest(problem, left, tree, limits, report)
            outcome = replace(outcome, tree=tree, stats={**stats, "ties": criteria})
        return outcome, Proof(left.root, search.shift, search.root.proof, completions)

    def _begin(
        self, problem: Problem, limits: Limits, report: Report, *, keep_stages: bool
    ) -> tuple[BranchAndBound, int, Problem, int]:
        """Prepares the search over all families.

        If there are too many sets, the completion bound drops those that no better tree uses. Without a first
        tree, a flat search finds one, or is returned as a proof of infeasibility.

        Returns:
            The search, the number of families, the problem for restarts, and the number of rounds of the
            completion bound.

        Raises:
            StoppedError: the report ended the work.
            LimitError: too many sets are left.
        """
        few, again, completions = self.simplex, problem, 0
        prunes = self._prunes(problem, limits)
        if prunes:
            (problem, completions), first, root = self._pruned(problem, limits, report)
            few = max(few, _FEW_OF_PRUNED)
        else:
            first, root = self._start(problem, limits, report)
        Estimate(self._memory(problem), inf).require_memory(self.name, limits)
        problem = tabulated_and_bounded(problem, limits, report, predicted_memory(problem))
        again = again if prunes else problem
        families = families_of(problem, root, lambda: report.stop is not None)
        search_of = partial(
            BranchAndBound.for_problem, problem, families, limits, keep_stages=keep_stages, few=few
        )
        count = int(families.allowed.sum())
        if first is None:
            # Without a tree there is no target, and no family can be fixed: a search without scores finds any
            # tree first.
            half = inf if limits.time is None else (limits.elapsed + limits.time) / 2
            flat = search_of(report=ending_at(report, limits, half, bounds=False), flat=True)
            if flat.run() is Stop.FINISHED and flat.best.tree is None:
                return flat, count, again, completions
        search = search_of(report=report)
        # Families of trees that tie are kept for `sparsest`.
        search.best.margin = ties_with(families)
        if first is not None:
            search.best.offer(first)
        else:  # a tree found without scores is a poor target, with which LPs would run for too long
            search.incumbents.new()
        return search, count, again, completions

    def _prunes(self, problem: Problem, limits: Limits) -> bool:
        """Returns whether the completion bound drops sets before they are listed."""
        return (
            not isinstance(problem.scores, SparseScores)
            and problem.n <= pruning.MOST_VARIABLES
            and predicted_sets(problem) > max(_MANY_SETS, _MANY_OF_ALL * (1 << problem.n))
            and self._pruning_memory(problem) <= limits.memory_bytes
        )

    def _pruning_memory(self, problem: Problem) -> int:
        return base_memory(kernels=True) + _LIBRARIES + pruning.predicted_memory(problem)

    def _pruned(
        self, problem: Problem, limits: Limits, report: Report
    ) -> tuple[pruning.Pruned, JunctionTree | None, int]:
        """Returns the problem without the sets that no better tree uses, the first tree, and the root.

        Scores on demand are tabulated first. A good tree matters here: on mushroom the completion bound
        leaves 6,392 of four million sets for the optimum, and millions for the forest. So `start` runs even
        if there is an incumbent.
        """
        problem = tabulated(problem, limits, report)
        known = report.incumbent
        first, root = self._start(problem, limits, report)
        if first is known and self.start is not None and not self.start.capabilities.objections(problem):
            own = self.start.solve(problem, limits, report).tree
            found = [tree for tree in (first, own) if tree is not None]
            first = max(found, key=lambda tree: tree.score(problem.scores), default=None)
        if first is not None and report.stop is None:
            report(tree=first, note="pruning")
            pruned = pruning.prune(problem, first.score(problem.scores), report)
            report(note=f"{predicted_sets(pruned.problem)} sets left")
            return pruned, first, root
        return pruning.Pruned(problem, 0), first, root

    def _only_ascends(self, problem: Problem, limits: Limits) -> bool:
        """Returns whether memory suffices only for an ascent, not for the LP over all families."""
        return not self._prunes(problem, limits) and self._memory(problem) > limits.memory_bytes

    def _lists(self, problem: Problem, limits: Limits) -> bool:
        """Returns whether to bound by a list of families: the LP does not fit, and a search is possible."""
        scores = problem.scores
        if not isinstance(scores, DataScores) or problem.max_clique_size != SEARCHED_SIZE:
            return False
        left = inf if limits.time is None else limits.time - limits.elapsed
        seconds = seconds_of_search(scores.scorer, limits.workers)
        if seconds >= left / 2 or not self._only_ascends(problem, limits):
            return False
        held = base_memory(kernels=True) + _LIBRARIES
        lacks = held + memory_of_ascent(problem) > limits.memory_bytes
        fits = held + memory_of_list(problem) <= limits.memory_bytes
        return lacks or (fits and predicted_sets(problem) > MANY_SETS)

    def _only_bounds(self, problem: Problem, limits: Limits) -> bool:
        """Returns whether an ascent does not fit into memory either, and the scores provide bounds."""
        scores = problem.scores
        if not isinstance(scores, Bounding) or not self._only_ascends(problem, limits):
            return False
        left = inf if limits.time is None else limits.time - limits.elapsed
        lacks = base_memory(kernels=True) + _LIBRARIES + memory_of_ascent(problem) > limits.memory_bytes
        return lacks and scores.bounding_seconds(problem.max_clique_size, limits.workers) < left / 2

    def _memory(self, problem: Problem) -> int:
        """Returns the predicted bytes of the process with the LP over all families."""
        return base_memory(kernels=True) + predicted_memory(problem) + self.relaxation_memory(problem)

    def relaxation_memory(self, problem: Problem) -> int:
        """See `support.relaxation.Relaxes`."""
        return _LIBRARIES + _BYTES_PER_SET * predicted_sets(problem)

    def relax(
        self, problem: Problem, families: Families, tree: JunctionTree, limits: Limits, report: Report
    ) -> Relaxation:
        """See `support.relaxation.Relaxes`."""
        return solve_root(problem, families, tree, limits, report)

    def sparsest(
        self, problem: Problem, families: Families, tree: JunctionTree, limits: Limits, report: Report
    ) -> tuple[JunctionTree, str]:
        """See `support.relaxation.Relaxes`."""
        return sparsest(problem, families, tree, limits, report)

    def _start(self, problem: Problem, limits: Limits, report: Report) -> tuple[JunctionTree | None, int]:
        """Returns the first tree, or None, and the root.

        The tree is the best one reported; otherwise one near a forbidden graph, if there are any; otherwise
        that of `start`.
        """
        first = report.incumbent
        if first is None and problem.constraints.forbidden_graphs:
            first = best_neighbour(problem)
            report(tree=first)
        elif first is None and self.start is not None and not self.start.capabilities.objections(problem):
            first = self.start.solve(problem, limits, report).tree
        # No tree indicates a good root for potentials; without one, the root does not depend on timing.
        return first, choose_root(problem, None if self._may_use_potentials(problem) else first)

    def _may_use_potentials(self, problem: Problem) -> bool:
        """Returns whether potentials may follow the ascent."""
        width = problem.max_clique_size
        suits = width >= POTENTIALS.least_width and problem.n <= POTENTIALS.most_sinks
        return suits and self.certificate is None and predicted_sets(problem) * width > self.simplex
