"""The interface of scores: frozen values that compute s(A) from counts or a covariance.

Every score is a function s of *sets* of variables, with s(∅) = 0, and a junction tree scores Σ s(C) over its
cliques minus Σ s(S) over its separators. With the family weights w(v,P) = s(P ∪ v) − s(P), this is also the
score of every directed acyclic graph without v-structures and with the same cliques: the sum telescopes along
any elimination order. Scores of families that differ between equivalent graphs (K2, BDs, fNML, the family
form of BDJ) do not have this form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, TypeGuard

from jtsolve.errors import ChoiceError
from jtsolve.options import EXECUTOR

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


DEFAULT_SCORE = "bic"
"""The default score of states; docs/scores.md gives the reasons."""
MIXED_SCORE = "cg"
"""The default score where columns may be real; for states alone, it equals `DEFAULT_SCORE`."""
MARGINAL_SCORE = "niw"
"""The default score of averages, a log marginal likelihood, as they require; for states alone, it is bdeu."""


@dataclass(frozen=True, slots=True)
class Entropy:
    """Σ m ln m over the occupied cells, with m rows in a cell."""

    kind: Literal["entropy"] = "entropy"


@dataclass(frozen=True, slots=True)
class Dirichlet:
    """Σ ln Γ(m + a) − ln Γ(a) over the occupied cells, with a = shared / cells + each."""

    shared: float = 0.0
    each: float = 0.0


CellTerms: TypeAlias = Entropy | Dirichlet


@dataclass(frozen=True, slots=True)
class Marginal:
    """The dimensions of the marginal table of a set A.

    Args:
        size: |A|, at least 1.
        cells: q, the product of the numbers of states of A.
        rows: N, the total weight of the rows.
        n: the number of variables of the data.
    """

    size: int
    cells: float
    rows: float
    n: int

    @property
    def parameters(self) -> float:
        """The free parameters of a multinomial over the cells."""
        return self.cells - 1

    @property
    def edges(self) -> int:
        """The number of pairs in A: over cliques minus separators, these sum to the edges of the graph."""
        return self.size * (self.size - 1) // 2


class DiscreteScore(Protocol):
    """A score of discrete data: a sum over the occupied cells, plus a term independent of the counts."""

    name: ClassVar[str]
    """The name in the registry."""

    @property
    def cell_terms(self) -> CellTerms:
        """The summed function of the counts."""
        ...

    def rest(self, marginal: Marginal) -> float:
        """Returns the term independent of the counts, in nats."""
        ...


class GaussianScore(Protocol):
    """A score of continuous data: a function of ln det of a principal submatrix."""

    name: ClassVar[str]
    """The name in the registry."""

    def least_rows(self, size: int) -> int:
        """Returns the minimum number of rows for sets of this size."""
        ...

    def matrix(self, scatter: NDArray[np.float64], rows: float) -> NDArray[np.float64]:
        """Returns the matrix whose principal submatrices are scored.

        Args:
            scatter: shape (n, n): Σ (x − mean)(x − mean)ᵀ over the rows.
            rows: N.
        """
        ...

    def value(
        self, log_determinant: NDArray[np.float64], size: int, rows: float, n: int
    ) -> NDArray[np.float64]:
        """Returns s(A), in nats, of sets of one size ≥ 1 from ln det of their submatrices.

        Args:
            log_determinant: of each set, shape (count,).
            size: of the sets.
            rows: N.
            n: number of columns.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class CellMoments:
    """Moments of m real columns within the occupied cells of discrete ones.

    The trailing shape is (m, m); for scores of single columns, it is (m,), and all matrices are diagonals.

    Args:
        counts: shape (cells,): numbers of rows, or expected ones.
        scatter: shape (cells, …): Σ (x − mean)(x − mean)ᵀ.
        squares: shape (cells, …): mean meanᵀ.
        rounding: shape (…): the diagonal matrix of h²/12, h the least gap between two values of a column.
        identity: shape (…).
    """

    counts: NDArray[np.int64] | NDArray[np.float64]
    scatter: NDArray[np.float64]
    squares: NDArray[np.float64]
    rounding: NDArray[np.float64]
    identity: NDArray[np.float64]

    @property
    def rows(self) -> float:
        """The number of rows."""
        return float(self.counts.sum())

    def per_cell(self, numbers: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Returns numbers, shape (cells,), with trailing axes of length 1, as factors of the matrices."""
        return numbers.reshape(-1, *[1] * (self.scatter.ndim - 1))


class MixedScore(Protocol):
    """A score of discrete columns d and real columns c: s(d, c) = s(d) + constant + Σ_i w_i ln det M_i[c].

    The matrices depend on d only. Discrete columns alone have the score `discrete`, real ones `gaussian`.
    """

    name: ClassVar[str]
    """The name in the registry."""
    standardised: ClassVar[bool]
    """Whether raw columns are scored in units of their standard deviations."""

    @property
    def columns(self) -> Literal["normal-scores", "raw"]:
        """The transformation of real columns."""
        ...

    @property
    def discrete(self) -> DiscreteScore:
        """The score of discrete columns."""
        ...

    @property
    def gaussian(self) -> GaussianScore:
        """The score of real columns."""
        ...

    def matrices(self, cells: CellMoments) -> NDArray[np.float64]:
        """Returns M_i: a matrix for each cell, or one for all; the trailing shape is that of the moments."""
        ...

    def weights(self, counts: NDArray[np.int64], size: int) -> NDArray[np.float64]:
        """Returns w_i for sets of `size` ≥ 1 real columns, shape (matrices,); `counts` has shape (cells,)."""
        ...

    def constant(self, counts: NDArray[np.int64], size: int, q: float) -> float:
        """Returns the term independent of the matrices, of sets of `size` ≥ 1 real columns and q cells.

        Args:
            counts: rows in each cell, shape (cells,).
            size: number of real columns.
            q: number of possible cells.
        """
        ...


ScoreFunction: TypeAlias = DiscreteScore | GaussianScore | MixedScore


def is_discrete(score: ScoreFunction) -> TypeGuard[DiscreteScore]:
    """Returns whether a score is for discrete data."""
    return hasattr(score, "cell_terms")


def is_mixed(score: ScoreFunction) -> TypeGuard[MixedScore]:
    """Returns whether a score is for discrete and real columns together."""
    return hasattr(score, "gaussian")


def is_gaussian(score: ScoreFunction) -> TypeGuard[GaussianScore]:
    """Returns whether a score is for continuous data."""
    return not is_discrete(score) and not is_mixed(score)


def score_for(score: ScoreFunction, table: object) -> ScoreFunction:
    """Returns the score for a table: for states alone, the discrete part of a mixed score."""
    from jtsolve.tables.table import MixedTable

    return score.discrete if is_mixed(score) and not isinstance(table, MixedTable) else score


def require_counts(score: ScoreFunction) -> None:
    """Checks that a score can be computed from counts of partitions.

    Raises:
        ChoiceError: it is for real numbers.
    """
    if not is_discrete(score):
        raise ChoiceError(
            f"partitions are counted, and '{score.name}' scores real numbers; use a discrete score, or "
            f"leave out {EXECUTOR}"
        )
