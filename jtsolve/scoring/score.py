"""What a score is: a frozen value that turns counts, or a covariance, into s(A) = ln p(A).

Every score here is a function s of *sets* of variables, with s(∅) = 0, and a junction tree scores Σ s(C)
over its cliques minus Σ s(S) over its separators. With the family weights w(v,P) = s(P ∪ v) − s(P) that is
also the score of every directed acyclic graph without v-structures that has the same cliques: the sum does
not depend on the elimination order. Scores that are defined by families alone, and differ between equivalent
graphs (K2, BDs, fNML, BDJ in its family form), cannot be written so, and are not offered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeGuard

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Entropy:
    """The sum of m ln m over the occupied cells, m being the number of rows in a cell."""

    kind: Literal["entropy"] = "entropy"


@dataclass(frozen=True, slots=True)
class Dirichlet:
    """The sum of ln Γ(m + a) − ln Γ(a) over the occupied cells, a = shared / cells + each."""

    shared: float = 0.0
    each: float = 0.0


CellTerms: TypeAlias = Entropy | Dirichlet


@dataclass(frozen=True, slots=True)
class Marginal:
    """What a score may know of the marginal table of a set, beside the counts.

    Args:
        size: |A|, at least 1.
        cells: q, the product of the numbers of states of A.
        rows: N, the number of rows of the data, weights counted.
        n: the number of variables of the data.
    """

    size: int
    cells: float
    rows: int
    n: int

    @property
    def parameters(self) -> float:
        """The free parameters of a multinomial over the cells."""
        return self.cells - 1

    @property
    def edges(self) -> int:
        """The number of pairs in A; summed over cliques minus separators, the edges of the graph."""
        return self.size * (self.size - 1) // 2


class DiscreteScore(Protocol):
    """A score of states: a sum over the occupied cells, and a rest that does not depend on the counts."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    @property
    def cell_terms(self) -> CellTerms:
        """The function of the counts that is summed."""
        ...

    def rest(self, marginal: Marginal) -> float:
        """Returns what is added to the sum, in nats."""
        ...


class GaussianScore(Protocol):
    """A score of real numbers: a function of the log determinant of a submatrix of one matrix."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    def least_rows(self, size: int) -> int:
        """Returns how many rows sets of a size need at least."""
        ...

    def matrix(self, scatter: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
        """Returns the matrix whose submatrices count.

        Args:
            scatter: shape (n, n): Σ over the rows of (x − mean)(x − mean)ᵀ.
            rows: N.
        """
        ...

    def value(
        self, log_determinant: NDArray[np.float64], size: int, rows: int, n: int
    ) -> NDArray[np.float64]:
        """Returns s(A) in nats of sets of one size, at least 1, from ln det of their submatrices."""
        ...


LocalScore: TypeAlias = DiscreteScore | GaussianScore


def is_discrete(score: LocalScore) -> TypeGuard[DiscreteScore]:
    """Tells whether a score is one of states."""
    return hasattr(score, "cell_terms")


def is_gaussian(score: LocalScore) -> TypeGuard[GaussianScore]:
    """Tells whether a score is one of real numbers."""
    return not is_discrete(score)
