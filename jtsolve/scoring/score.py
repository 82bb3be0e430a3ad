"""The interface of scores: frozen values that turn counts, or a covariance, into s(A) = ln p(A).

Every score is a function s of *sets* of variables, with s(∅) = 0, and a junction tree scores Σ s(C) over its
cliques minus Σ s(S) over its separators. With the family weights w(v,P) = s(P ∪ v) − s(P), this is also the
score of every directed acyclic graph without v-structures and with the same cliques: the sum telescopes along
any elimination order. Scores defined by families only, which differ between equivalent graphs (K2, BDs, fNML,
BDJ in its family form), are not of this form and not offered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeGuard

from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


DEFAULT_SCORE = "bic"
"""The score where none is named, everywhere; docs/scores.md says why."""


@dataclass(frozen=True, slots=True)
class Entropy:
    """Σ m ln m over the occupied cells, where m is the number of rows in a cell."""

    kind: Literal["entropy"] = "entropy"


@dataclass(frozen=True, slots=True)
class Dirichlet:
    """Σ ln Γ(m + a) − ln Γ(a) over the occupied cells, with a = shared / cells + each."""

    shared: float = 0.0
    each: float = 0.0


CellTerms: TypeAlias = Entropy | Dirichlet


@dataclass(frozen=True, slots=True)
class Marginal:
    """The marginal table of a set A, without its counts.

    Args:
        size: |A|, at least 1.
        cells: q, the product of the numbers of states of A.
        rows: N, the number of rows, counting weights; whole unless rows weigh fractions.
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
        """The number of pairs in A; summed over cliques minus separators, the edges of the graph."""
        return self.size * (self.size - 1) // 2


class DiscreteScore(Protocol):
    """A score of discrete data: a sum over the occupied cells, plus a term independent of the counts."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    @property
    def cell_terms(self) -> CellTerms:
        """The summed function of the counts."""
        ...

    def rest(self, marginal: Marginal) -> float:
        """Returns the term independent of the counts, in nats."""
        ...


class GaussianScore(Protocol):
    """A score of continuous data: a function of ln det of a principal submatrix."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    def least_rows(self, size: int) -> int:
        """Returns the least number of rows for sets of this size."""
        ...

    def matrix(self, scatter: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
        """Returns the matrix whose principal submatrices are scored.

        Args:
            scatter: shape (n, n): Σ (x − mean)(x − mean)ᵀ over the rows.
            rows: N.
        """
        ...

    def value(
        self, log_determinant: NDArray[np.float64], size: int, rows: int, n: int
    ) -> NDArray[np.float64]:
        """Returns s(A), in nats, of sets of one size ≥ 1 from ln det of their submatrices."""
        ...


LocalScore: TypeAlias = DiscreteScore | GaussianScore


def is_discrete(score: LocalScore) -> TypeGuard[DiscreteScore]:
    """Tells whether a score is for discrete data."""
    return hasattr(score, "cell_terms")


def is_gaussian(score: LocalScore) -> TypeGuard[GaussianScore]:
    """Tells whether a score is for continuous data."""
    return not is_discrete(score)


def require_counts(score: LocalScore) -> None:
    """Checks that a score can be computed from counts by partitions.

    Raises:
        ChoiceError: it is for real numbers.
    """
    if not is_discrete(score):
        raise ChoiceError(
            f"partitions are counted, and '{score.name}' scores real numbers; take a discrete score, or "
            "leave the executor out"
        )
