"""`consistent`: FindConsistentTree, junction trees from tests of conditional independence. A heuristic.

Given a set S of k variables, tests of at most q variables with the threshold δ divide the others into
components that are independent of one another given S (LTCI, Algorithm 2: `ltci`). A junction tree is
consistent if each subtree below one of its separators S is a component of S; dynamic programming assembles
one from the components (Algorithm 4: `kernels/decompose`). The lazy search of section 5 (`search`) finds the
least δ with such a tree. The trees of smaller δ, whose larger sets fail the tests, are incumbents; the answer
is the tree of the highest score. See docs/lpacjt.md.

The measure of independence is I(A; B | S) = [s(A∪B∪S) + s(S) − s(A∪S) − s(B∪S)] / N. With maximum-likelihood
scores it is the conditional mutual information of the data in nats, and Queyranne's algorithm is exact. With
other scores it is a log Bayes factor, or a difference of penalised likelihoods, per row. It may then be
negative and need not be submodular, so that the cut found need not be the least. N is the number of rows
of the data, or 1 where it is unknown: δ is then in nats of all rows.

If the data come from a distribution with a strongly connected junction tree of treewidth k, the tree found is
close to it (Lemma 10). In general nothing is guaranteed about the score.

Time: C(n, k) separators with (n − k)² pairs each, then some twenty thresholds, at each of which every x of
every component is tried; larger sets are tested only for the separators of trees found. Memory: about 100
bytes for each pair of a separator and a variable; Σ_{a ≤ q} C(n, a) scores while a separator is tested.

Departures from the paper. All pairs of all separators are tested, and kept as a spanning tree; only larger
sets wait until a tree uses their separator, and then all components of this separator are checked. Of the
greedy decompositions at a threshold, the tree of the highest score is kept. δ is bisected among the strengths
instead of raised edge by edge. Smaller treewidths are searched too (`smaller`), the smallest first. The
threshold starts at −∞ instead of 0, for measures that may be negative.

References:
    Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS 2007.
    Queyranne, Minimizing symmetric submodular functions, Mathematical Programming 82, 1998.
    Arnborg, Corneil and Proskurowski, Complexity of finding embeddings in a k-tree, SIAM J. Alg. Disc. Meth.
    8, 1987. Narasimhan and Bilmes, PAC-learning bounded tree-width graphical models, UAI 2004.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, isnan
from typing import TYPE_CHECKING, Any, ClassVar

from jtsolve.core.backend import Capabilities, Estimate
from jtsolve.core.machine import base_memory
from jtsolve.core.problem import LOCAL_FEATURES
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import SparseScores, StoppedError
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, count_bounded_subsets

if TYPE_CHECKING:
    from jtsolve.backends.consistent.search import ConsistentTrees
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits

_PAIR = 2


@dataclass(frozen=True, slots=True)
class FindConsistentTree:
    """Junction trees from tests of conditional independence (LPACJT). Heuristic, for a few dozen variables.

    All separators of a tree have k variables and all cliques k + 1, for k up to the treewidth. It needs the
    scores of all sets of at most treewidth + q variables, and refuses a table that has fewer.

    Args:
        q: the size of the largest sets to test, at least 2; None for treewidth + 2, as in the paper.
        delta: the threshold, in nats per row where the number of rows is known, else in nats; None for the
            least with a consistent tree.
        smaller: whether to search smaller treewidths too, from 0 up.

    Raises:
        ValueError: a number is out of its range.
    """

    q: int | None = None
    delta: float | None = None
    smaller: bool = True

    name: ClassVar[str] = "consistent"

    def __post_init__(self) -> None:
        if self.q is not None and self.q < _PAIR:
            raise ValueError(f"q is {self.q}; it must be at least 2: the tests of pairs")
        if self.delta is not None and isnan(self.delta):
            raise ValueError("delta is not a number")

    @property
    def capabilities(self) -> Capabilities:
        """See `Backend.capabilities`; the scores needed depend on q."""
        return Capabilities(features=LOCAL_FEATURES, rules=(self._has_scores, self._has_every_score))

    def largest_test(self, k: int) -> int:
        """Returns q for separators of k variables."""
        return k + 2 if self.q is None else self.q

    def largest_read(self, treewidth: int) -> int:
        """See `ReadsLargerSets.largest_read`."""
        return treewidth + self.largest_test(treewidth)

    def _widest(self, problem: Problem) -> int:
        """Returns the size of the largest separators to search; 0 if there is only one clique."""
        return max((k for k in self._sizes(problem) if k < problem.n - 1), default=0)

    def _needed(self, problem: Problem) -> int:
        """Returns the size of the largest sets whose scores are needed."""
        return min(problem.n, self.largest_read(self._widest(problem)))

    def _has_scores(self, problem: Problem) -> str | None:
        needed, k, scored = self._needed(problem), self._widest(problem), problem.scores.max_size
        if needed <= scored:
            return None
        fitting = [f"q = {scored - k}"] * (scored - k >= _PAIR)
        narrower = [j for j in range(k) if j + self.largest_test(j) <= scored]
        fitting += [f"treewidth {j} with q = {self.largest_test(j)}" for j in narrower[-1:]]
        return (
            f"At treewidth {k} with q = {self.largest_test(k)} it needs the scores of all sets of up to "
            f"{needed} variables, and there are scores of up to {scored}"
            + (f", enough for {' or for '.join(fitting)}" if fitting else "")
            + f"; score the data first, with `jtsolve score --max-size {needed}`, and solve that instance."
        )

    def _has_every_score(self, problem: Problem) -> str | None:
        scores = problem.scores
        if not isinstance(scores, SparseScores):
            return None
        needed = self._needed(problem)
        missing = count_bounded_subsets(problem.n, needed) - sum(
            mask.bit_count() <= needed for mask in scores.table
        )
        if missing == 0:
            return None
        return (
            f"It needs the score of every set of up to {needed} variables, and {missing} of them have none."
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:  # noqa: ARG002 - the protocol's signature
        """See `Backend.estimate`: the arrays of `search`; times as measured with 37 variables."""
        n, k = problem.n, self._widest(problem)
        m, words = n - k, n // 64 + 1
        separators, cliques, pairs = comb(n, k), comb(n, k + 1), comb(n, k + 2)
        tested = sum(comb(m, a) for a in range(min(self.largest_test(k), m) + 1))
        memory = base_memory(kernels=True)
        memory += separators * n * (104 + 8 * words) + 8 * (k + 2) * separators
        memory += (24 + 16 * (k + 1)) * cliques + 8 * (separators + cliques + pairs)
        memory += 24 * tested
        tests = min(separators, 10 * n) * tested
        return Estimate(memory, 1e-2 + 1e-7 * separators * m**2 + 3e-5 * separators * m + 2e-6 * tests)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        self.estimate(problem, limits).require_memory(self.name, limits)
        run = _Run(self, problem, report)
        for k in self._sizes(problem):
            if run.stop is None:
                run.search(k)
        return Outcome(run.tree, stop=run.stop or Stop.FINISHED, stats=run.stats)

    def _sizes(self, problem: Problem) -> list[int]:
        """Returns the sizes of separators to search, the smallest first; n − 1 stands for one clique."""
        limits, largest = problem.constraints, problem.max_clique_size - 1
        bounded = largest if limits.max_separator_size is None else min(largest, limits.max_separator_size)
        least = min(limits.min_separator_size, bounded) if self.smaller else bounded
        sizes = list(range(least, bounded + 1))
        if bounded < largest == problem.n - 1:
            sizes.append(largest)  # one clique has no separator
        return [k for k in sizes if k >= limits.min_separator_size or k == problem.n - 1]


class _Run:
    """One solve: the best tree so far, and the statistics of all sizes of separators."""

    def __init__(self, backend: FindConsistentTree, problem: Problem, report: Report) -> None:
        self.backend, self.problem, self.report = backend, problem, report
        self.rows = problem.rows or 1
        self.tree: JunctionTree | None = None
        self.score = float("-inf")
        self.stop: Stop | None = None
        self.stats: dict[str, Any] = {"rows": self.rows, "deltas": {}}
        self.stats |= dict.fromkeys(("trees", "rechecked", "tests"), 0)

    def search(self, k: int) -> None:
        """Searches the trees whose separators have k variables."""
        # Loads the compiler, which takes half a second, only when it is needed.
        from jtsolve.backends.consistent.ltci import LTCI
        from jtsolve.backends.consistent.search import ConsistentTrees

        if k == self.problem.n - 1:
            everything: VarSet = (1 << self.problem.n) - 1
            if self.problem.permits_clique(everything):
                self.record(JunctionTree(self.problem.n, (everything,), ()))
            return
        ltci = LTCI(self.problem.scores, self.backend.largest_test(k), self.report)
        trees = None
        try:
            trees = ConsistentTrees(self.problem, k, ltci)
            self.record_all(trees)
        except StoppedError:
            self.stop = self.report.stop
        self.stats["tests"] += ltci.tests
        if trees is not None:
            self.stats["rechecked"] += trees.retested

    def record_all(self, trees: ConsistentTrees) -> None:
        """Records the trees that a search finds, and the threshold of the consistent one."""
        if self.backend.delta is not None:
            tree = trees.at(self.backend.delta * self.rows)
            if tree is not None:
                self.stats["deltas"][str(trees.k)] = self.backend.delta
                self.record(tree)
            return
        for tree, consistent in trees.rising():
            if consistent:
                self.stats["deltas"][str(trees.k)] = trees.threshold / self.rows
                return
            self.record(tree)

    def record(self, tree: JunctionTree) -> None:
        """Counts a tree, and reports it if it is the best so far."""
        self.stats["trees"] += 1
        score = tree.score(self.problem.scores)
        if score > self.score:
            self.tree, self.score = tree, score
            self.report(tree=tree)
