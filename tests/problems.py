"""Random problems for all tests: Gaussian and integer scores, scores of small data, constraints."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from math import lgamma
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from jtsolve.core.problem import ALL_FEATURES, Constraints, Problem, ProblemFeature, Variable
from jtsolve.core.scores import DenseScores, LocalScores, SparseScores
from jtsolve.core.varset import VarSet, bounded_subsets, count_bounded_subsets, members, varset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from jtsolve.core.result import Stop
    from jtsolve.core.tree import JunctionTree

FEATURES = tuple(feature for feature in ProblemFeature if feature in ALL_FEATURES)
"""The constraints of backends; `solve` translates marks into others."""
WITHOUT_GRAPHS = tuple(feature for feature in FEATURES if feature is not ProblemFeature.FORBIDDEN_GRAPHS)
"""The constraints that most heuristic backends support."""


@dataclass
class Recording:
    """A `Report` that records its calls.

    `stop` starts after `patience` polls; `incumbent` is a tree that another backend is supposed to have
    found.
    """

    patience: int | None = None
    reason: Stop | None = None
    trees: list[JunctionTree] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0
    incumbent: JunctionTree | None = None

    @property
    def stop(self) -> Stop | None:
        self.asked += 1
        return self.reason if self.patience is not None and self.asked > self.patience else None

    def __call__(self, **news: Any) -> bool:
        self.calls.append(news)
        if news.get("tree") is not None:
            self.trees.append(news["tree"])
        return self.stop is None


def repeatable(seed: int) -> Random:
    """Returns a generator of random numbers that depends only on the seed."""
    return Random(seed)  # noqa: S311 - nothing here is secret


def named(scores: LocalScores, constraints: Constraints | None = None, name: str = "random") -> Problem:
    """Returns a problem over the variables A, B, C, ... (or V0, V1, ... beyond 26)."""
    n = scores.n
    names = [chr(ord("A") + v) for v in range(n)] if n <= 26 else [f"V{v}" for v in range(n)]
    constraints = constraints or Constraints()
    states = None if constraints.max_clique_cells is None else (2, 3, 4)
    variables = tuple(Variable(text, states and states[v % 3]) for v, text in enumerate(names))
    return Problem(variables, scores, constraints, name)


def dense(n: int, max_size: int, values: NDArray[np.float64]) -> DenseScores:
    """Returns a table of the values; the first becomes s(∅) = 0."""
    values = np.array(values, dtype=np.float64)
    values[0] = 0.0
    return DenseScores(n, max_size, values)


def gaussian(seed: int, n: int, max_size: int | None = None, scale: float = 1.0) -> DenseScores:
    """Returns independent normal scores: no ties, no structure, many optimal shapes."""
    max_size = n if max_size is None else max_size
    count = count_bounded_subsets(n, max_size)
    return dense(n, max_size, scale * np.random.default_rng(seed).standard_normal(count))


def integers(seed: int, n: int, max_size: int | None = None, high: int = 10**6) -> DenseScores:
    """Returns integer scores from -high to high: sums are exact in any order; ties if `high` is small."""
    max_size = n if max_size is None else max_size
    count = count_bounded_subsets(n, max_size)
    drawn = np.random.default_rng(seed).integers(-high, high + 1, count)
    return dense(n, max_size, drawn.astype(np.float64))


def with_holes(seed: int, scores: DenseScores, share: float, *, singles: bool = True) -> SparseScores:
    """Returns the scores as a sparse table that lacks about a share of the sets.

    Args:
        seed: of the holes.
        scores: where the values come from.
        share: from 0 to 1.
        singles: whether single variables may lose their scores too.
    """
    random = repeatable(seed)
    table = {
        mask: scores.score(mask)
        for mask in bounded_subsets(scores.n, scores.max_size)
        if random.random() >= share or (mask.bit_count() == 1 and not singles)
    }
    return SparseScores(scores.n, table)


def from_data(seed: int, n: int, max_size: int | None = None, rows: int = 60) -> DenseScores:
    """Returns BDeu scores (equivalent sample size 1) of binary and ternary data with dependent columns.

    s(A) = ln Γ(1)/Γ(1 + rows) + Σ_j ln Γ(1/q + N_j)/Γ(1/q), over the q joint states j of A with counts N_j.
    """
    max_size = n if max_size is None else max_size
    generator = np.random.default_rng(seed)
    states = generator.integers(2, 4, n)
    data = generator.integers(0, states, (rows, n))
    for v in range(1, n):
        source = int(generator.integers(0, v))
        copied = generator.random(rows) < 0.7
        data[copied, v] = data[copied, source] % states[v]
    values = []
    for mask in bounded_subsets(n, max_size):
        chosen = list(members(mask))
        alpha = 1.0 / float(np.prod(states[chosen]))
        _, counts = np.unique(data[:, chosen], axis=0, return_counts=True) if chosen else (None, [rows])
        value = lgamma(1.0) - lgamma(1.0 + rows)
        values.append(value + sum(lgamma(alpha + int(count)) - lgamma(alpha) for count in counts))
    return dense(n, max_size, np.array(values))


def from_network(seed: int, n: int, max_size: int, rows: int = 500) -> DenseScores:
    """Returns BIC scores in integer millionths of a nat, of a Gaussian network with two parents per variable.

    s(A) = −rows/2 · ln det R_A − |A|(|A|+1)/4 · ln rows, R the correlations of the sample. The moral graph
    is not chordal, so that a greedy search adds edges that it cannot use later.
    """
    generator = np.random.default_rng(seed)
    data = generator.standard_normal((rows, n))
    for v in range(1, n):
        for source in generator.integers(0, v, 2):
            data[:, v] += 0.6 * data[:, source]
    correlations = np.atleast_2d(np.corrcoef(data.T))
    values = [0.0]
    for mask in list(bounded_subsets(n, max_size))[1:]:
        chosen = list(members(mask))
        _, logarithm = np.linalg.slogdet(correlations[np.ix_(chosen, chosen)])
        penalty = len(chosen) * (len(chosen) + 1) / 4 * np.log(rows)
        values.append(-rows / 2 * float(logarithm) - penalty)
    return dense(n, max_size, np.round(1e6 * np.array(values)))


def many_ties(n: int, seed: int) -> Problem:
    """Returns a problem with scores −1, 0 and 1, and 1 to 3 states per variable."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(2, 5))
    values = rng.integers(-1, 2, count_bounded_subsets(n, width)).astype(float)
    values[0] = 0
    variables = tuple(Variable(str(v), int(rng.integers(1, 4))) for v in range(n))
    return Problem(variables, DenseScores(n, width, values))


def draw_constraints(random: Random, n: int, features: frozenset[ProblemFeature]) -> Constraints:
    """Returns random constraints that use exactly the given features, where n has room for them."""
    everything = list(range(1, 1 << n))

    def some(sets: list[VarSet], share: float) -> frozenset[VarSet]:
        return frozenset(mask for mask in sets if random.random() < share)

    pairs = [varset(pair) for pair in combinations(range(n), 2)]
    random.shuffle(pairs)
    half = len(pairs) // 2
    allowed = some([0, *everything], random.choice([0.4, 0.7, 0.9]))
    makers: dict[ProblemFeature, Any] = {
        ProblemFeature.MAX_TREEWIDTH: random.randint(0, n - 1),
        ProblemFeature.MAX_SEPARATOR_SIZE: random.randint(0, n - 1),
        ProblemFeature.MIN_SEPARATOR_SIZE: random.randint(1, max(1, min(3, n - 1))),
        ProblemFeature.FORBIDDEN_EDGES: frozenset(pairs[: random.randint(0, half)]),
        ProblemFeature.REQUIRED_EDGES: frozenset(pairs[half : half + random.randint(0, 3)]),
        ProblemFeature.FORBIDDEN_CLIQUES: some(everything, random.choice([0.1, 0.4, 0.7])),
        ProblemFeature.FORBIDDEN_SEPARATORS: some([0, *everything], random.choice([0.1, 0.4, 0.7])),
        ProblemFeature.ALLOWED_SEPARATORS: allowed,
        ProblemFeature.MAX_CLIQUES: random.randint(1, n),
    }
    graphs = [frozenset(random.sample(pairs, random.randint(0, min(2, len(pairs))))) for _ in range(20)]
    makers[ProblemFeature.FORBIDDEN_GRAPHS] = frozenset(graphs)
    makers[ProblemFeature.MAX_CLIQUE_CELLS] = random.choice([2, 12, 24, 36, 60, 200])
    chosen = {feature.value: value for feature, value in makers.items() if feature in features}
    return Constraints(**chosen)


def random_problem(seed: int, n: int, features: frozenset[ProblemFeature] = frozenset()) -> Problem:
    """Returns a random problem of a random kind of scores with random constraints of the given features."""
    random = repeatable(seed)
    max_size = random.choice([n, n, min(2, n), random.randint(1, n)])
    kind = random.choice(["gaussian", "gaussian", "integers", "ties", "data", "sparse", "sparser"])
    scores: LocalScores
    if kind == "integers":
        scores = integers(seed, n, max_size)
    elif kind == "ties":
        scores = integers(seed, n, max_size, high=1)
    elif kind == "data":
        scores = from_data(seed, n, max_size)
    elif kind == "sparse":
        scores = with_holes(seed, gaussian(seed, n, max_size), 0.15, singles=False)
    elif kind == "sparser":
        scores = with_holes(seed, gaussian(seed, n, max_size), 0.4)
    else:
        scores = gaussian(seed, n, max_size)
    return named(scores, draw_constraints(random, n, features), f"{kind}-{seed}")


@st.composite
def small_problems(
    draw: st.DrawFn, max_n: int = 4, allowed: Iterable[ProblemFeature] = WITHOUT_GRAPHS
) -> Problem:
    """Draws problems with small integer scores (ties, zeros), sets without scores, and any constraints."""
    n = draw(st.integers(1, max_n))
    max_size = draw(st.integers(1, n))
    values = st.one_of(st.none(), st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3))
    drawn = {mask: draw(values) for mask in bounded_subsets(n, max_size) if mask}
    table = {mask: float(value) for mask, value in drawn.items() if value is not None}
    scores: LocalScores = SparseScores(n, table)
    if len(table) == len(drawn):
        scores = dense(n, max_size, np.array([0.0, *(table[mask] for mask in sorted(table))]))
    features = draw(st.frozensets(st.sampled_from(list(allowed)), max_size=3))
    seed = draw(st.integers(0, 2**16))
    return named(scores, draw_constraints(repeatable(seed), n, features), "small")


class Recorded:
    """Scores of a kind unknown to backends, with the size of the largest set read."""

    def __init__(self, table: LocalScores) -> None:
        self.table, self.n, self.max_size, self.largest = table, table.n, table.max_size, 0

    def score(self, mask: VarSet) -> float:
        self.largest = max(self.largest, mask.bit_count())
        return self.table.score(mask)

    def batch(self, sets: Any) -> Any:
        self.largest = max(self.largest, sets.shape[1])
        return self.table.batch(sets)

    def extremes(self) -> tuple[float, float]:
        return self.table.extremes()
