"""`consistent`: FindConsistentTree, junction trees from tests of conditional independence. A heuristic.

For every set S of k variables, the other variables fall into components that are independent given S, as far
as tests of at most q variables with the threshold δ tell (`independence`). A junction tree is
consistent if, for each of its separators S, what hangs on S is a component of S; it is put together from the
components by dynamic programming (`search`, `kernels/decompose`). δ is the least at which a tree
is found, by the lazy search: it begins below all strengths, and rises to the weakest edge that is left.
Every tree on the way is an incumbent; the answer is the one of the highest score. More in docs/lpacjt.md.

The measure of independence is I(A; B | S) = [s(A∪B∪S) + s(S) − s(A∪S) − s(B∪S)] / N. With maximum-likelihood
scores it is the conditional mutual information of the data in nats, and Queyranne's algorithm is exact. With
other scores it is a log Bayes factor (or a difference of penalised likelihoods) a row, may be negative, and
need not be submodular: then only enumeration of the cuts is exact. N is the number of rows if the problem
knows it (`rows` in its provenance, or its data), else 1: δ is in nats a row, else in nats.

If the distribution of the data has a strongly connected junction tree of treewidth k, the tree found is close
to it (Lemma 10 of the paper). In general there is no guarantee: it is a heuristic for the score.

Time: C(n, k) separators with (n − k)² pairs each, then the rises of δ, at most n − k for each separator and
the neighbours of each; larger sets are tested only for the separators of trees that were found. Memory: about
100 bytes for each pair of a separator and a variable; Σ_{a ≤ q} C(n, a) scores while a separator is tested.

Departures from the paper. All pairs of all separators are tested, and kept as a spanning tree; only larger
sets wait until a tree uses their separator, and then all components of this separator are checked. Of the
greedy decompositions at a threshold, the tree of the highest score is taken. After a rise, only the
components that it concerns are decomposed anew, with the same result. Where the treewidth allows more, trees
of smaller treewidths are searched too (`smaller`), the smallest first. The threshold begins at −∞ instead of
0, for measures that may be negative. Exact covers are an option (`cover`).

References:
    Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS 2007.
    Queyranne, Minimizing symmetric submodular functions, Mathematical Programming 82, 1998.
    Arnborg, Corneil and Proskurowski, Complexity of finding embeddings in a k-tree, SIAM J. Alg. Disc. Meth.
    8, 1987. Narasimhan and Bilmes, PAC-learning bounded tree-width graphical models, UAI 2004.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, isnan
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from jtsolve.backends.support.packages import needs
from jtsolve.backends.support.worker import BASE_MEMORY
from jtsolve.core.backend import Capabilities, Estimate
from jtsolve.core.machine import resident_memory
from jtsolve.core.problem import LOCAL_FEATURES
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, count_bounded_subsets

if TYPE_CHECKING:
    from jtsolve.core.backend import Limits, Report
    from jtsolve.core.problem import Problem

_CODE = 250_000_000
"""Bytes of the compiler and the kernels, measured with 150 MB to spare."""
_PAIRS = 2


@dataclass(frozen=True, slots=True)
class FindConsistentTree:
    """Junction trees from tests of conditional independence (LPACJT). Heuristic, for some tens of variables.

    All separators of a tree have k variables and all cliques k + 1, for k up to the treewidth. It asks for
    scores of all sets of at most treewidth + q variables, and refuses a table that has fewer.

    Args:
        q: tests are of at most so many variables, at least 2; None for treewidth + 2, as in the paper.
        delta: the threshold, in nats a row where the number of rows is known, else in nats; None for the
            least at which there is a tree.
        cover: how components are put together: "greedy", or "exact" with CP-SAT, which may find a tree
            where greedy finds none.
        cuts: how the least cut of a set is found: by "queyranne", or by "enumeration".
        smaller: whether smaller treewidths are tried too, beginning with 0.
        steps: the most trees to find and check, at least 1; None for no limit.

    Raises:
        ValueError: a number is not as said.
    """

    q: int | None = None
    delta: float | None = None
    cover: Literal["greedy", "exact"] = "greedy"
    cuts: Literal["queyranne", "enumeration"] = "queyranne"
    smaller: bool = True
    steps: int | None = None

    name: ClassVar[str] = "consistent"

    def __post_init__(self) -> None:
        if self.q is not None and self.q < _PAIRS:
            raise ValueError(f"q is {self.q}; it must be at least 2: the tests of pairs")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps is {self.steps}; it must be at least 1")
        if self.delta is not None and isnan(self.delta):
            raise ValueError("delta is no number")

    @property
    def capabilities(self) -> Capabilities:
        """See `Backend.capabilities`: what is refused depends on q."""
        solver = (needs("ortools", "OR-Tools (ortools)"),) if self.cover == "exact" else ()
        return Capabilities(
            features=LOCAL_FEATURES,
            rules=(self._has_scores, self._has_every_score, *solver),
        )

    def largest_test(self, size: int) -> int:
        """Returns q for separators of a size."""
        return size + 2 if self.q is None else self.q

    def _widest(self, problem: Problem) -> int:
        """Returns the size of the largest separators that are searched; 0 if there is only one clique."""
        return max((size for size in self._sizes(problem) if size < problem.n - 1), default=0)

    def _needed(self, problem: Problem) -> int:
        """Returns the size of the largest sets whose scores are asked for."""
        size = self._widest(problem)
        return min(problem.n, size + self.largest_test(size))

    def _has_scores(self, problem: Problem) -> str | None:
        needed, size = self._needed(problem), self._widest(problem)
        if needed <= problem.scores.max_size:
            return None
        return (
            f"Its tests at treewidth {size} with q = {self.largest_test(size)} need scores of all sets of up "
            f"to {needed} variables, and there are scores of up to {problem.scores.max_size}; score the data "
            "with this --max-size, or ask for a smaller --treewidth, or for a smaller --option q=..."
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
        n, size = problem.n, self._widest(problem)
        m, words = n - size, n // 64 + 1
        separators, cliques = comb(n, size), comb(n, size + 1)
        largest = min(self.largest_test(size), m)
        memory = resident_memory() + _CODE
        memory += separators * m * (60 + 16 * words * (1 + (self.cover == "exact"))) + 60 * separators
        memory += BASE_MEMORY * (self.cover == "exact")
        memory += 16 * cliques + 16 * (separators + cliques + comb(n, size + 2))
        memory += 24 * sum(comb(m, a) for a in range(largest + 1))
        tests = min(separators, 10 * n) * sum(comb(m, a) for a in range(largest + 1))
        return Estimate(memory, 1e-2 + 1e-7 * separators * m**2 + 3e-5 * separators * m + 2e-6 * tests)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        self.estimate(problem, limits).require_memory(self.name, limits)
        run = _Run(self, problem, report)
        for size in self._sizes(problem):
            if run.stop is None:
                run.search(size)
        return Outcome(run.tree, stop=run.stop or Stop.FINISHED, stats=run.stats)

    def _sizes(self, problem: Problem) -> list[int]:
        """Returns the sizes of separators to try, the least first."""
        limits, largest = problem.constraints, problem.max_clique_size - 1
        bounded = largest if limits.max_separator_size is None else min(largest, limits.max_separator_size)
        sizes = list(
            range(min(limits.min_separator_size, bounded), bounded + 1) if self.smaller else [bounded]
        )
        if bounded < largest == problem.n - 1:
            sizes.append(largest)  # one clique has no separator
        return [size for size in sizes if size >= limits.min_separator_size or size == problem.n - 1]


class _Run:
    """One solve: the best tree so far, and the figures of all sizes of separators.

    Args:
        backend: the options.
        problem: what is wanted.
        report: takes the trees.
    """

    def __init__(self, backend: FindConsistentTree, problem: Problem, report: Report) -> None:
        self.backend, self.problem, self.report = backend, problem, report
        self.rows = rows_of(problem)
        self.tree: JunctionTree | None = None
        self.score = float("-inf")
        self.stop: Stop | None = None
        self.stats: dict[str, Any] = {
            "rows": self.rows,
            "deltas": {},
            "trees": 0,
            "raised": 0,
            "rechecked": 0,
            "tests": 0,
            "exact_covers": 0,
        }

    def search(self, size: int) -> None:
        """Searches the trees whose separators have one size."""
        # The compiler loads only when it is needed: half a second.
        from jtsolve.backends.consistent.independence import HyperedgeTests, Stopped
        from jtsolve.backends.consistent.search import ConsistentTrees
        from jtsolve.core.compiling import announced

        if size == self.problem.n - 1:
            self.try_one_clique()
            return
        backend = self.backend
        tester = HyperedgeTests(
            self.problem.scores,
            backend.largest_test(size),
            enumerate_cuts=backend.cuts == "enumeration",
            report=self.report,
        )
        trees = None
        try:
            with announced(lambda: self.report(note="compiling the kernels (first run only)")):
                trees = ConsistentTrees(
                    self.problem, size, tester, exact=backend.cover == "exact", report=self.report
                )
                self.look(trees, size)
        except Stopped:
            self.stop = self.report.stop
        self.stats["tests"] += tester.tests
        if trees is not None:
            self.stats["raised"] += trees.raised
            self.stats["rechecked"] += trees.rechecked
            self.stats["exact_covers"] += trees.asked

    def look(self, trees: Any, size: int) -> None:
        """Takes the trees that a search finds, and writes down the threshold of the consistent one."""
        if self.backend.delta is not None:
            tree = trees.at(self.backend.delta * self.rows)
            if tree is not None:
                self.stats["deltas"][str(size)] = self.backend.delta
                self.take(tree)
            return
        for tree, consistent in trees.rising():
            if consistent:
                self.stats["deltas"][str(size)] = trees.threshold / self.rows
                return
            self.take(tree)
            if self.stats["trees"] == self.backend.steps:
                self.stop = Stop.STEPS
                return

    def try_one_clique(self) -> None:
        """Takes the tree of one clique, if it may be."""
        everything: VarSet = (1 << self.problem.n) - 1
        if self.problem.permits_clique(everything):
            self.take(JunctionTree(self.problem.n, (everything,), ()))

    def take(self, tree: JunctionTree) -> None:
        """Reports a tree."""
        self.stats["trees"] += 1
        score = tree.score(self.problem.scores)
        if score > self.score:
            self.tree, self.score = tree, score
            self.report(tree=tree)


def rows_of(problem: Problem) -> int:
    """Returns N: the rows that the problem's scores are of, 1 if it does not say."""
    from jtsolve.scoring.lazy import DataScores

    if isinstance(problem.scores, DataScores):
        return problem.scores.rows
    rows = problem.provenance.get("rows")
    return rows if isinstance(rows, int) and rows > 0 else 1
