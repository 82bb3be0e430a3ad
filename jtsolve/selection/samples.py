"""The columns of a selection: numbers with their correlations, or states.

Numbers are standardised: results do not depend on the scale of a column. For nonparanormal data, normal
quantiles of the ranks replace each column first: results do not depend on increasing transformations.

References:
    H. Liu, J. Lafferty, L. Wasserman, The nonparanormal: semiparametric estimation of high dimensional
    undirected graphs, JMLR 10, 2009.
    E. Gross, S. Sullivant, The maximum likelihood threshold of a graph, Bernoulli 24, 2018 (edges and rows).
    J. Schäfer, K. Strimmer, A shrinkage approach to large-scale covariance matrix estimation, Statistical
    Applications in Genetics and Molecular Biology 4, 2005 (target D, of correlations).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from jtsolve.errors import InputError
from jtsolve.tables.margins import normal_scores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.table import ContinuousTable, DataTable

Margins = Literal["gaussian", "nonparanormal"]

_TRACE = 0.01
"""Shrinkage that makes a singular matrix regular; smaller values give the same graphs, more slowly."""
_SINGULAR = 1e-10
"""A smaller pivot of the correlation matrix marks a column as a linear combination of others."""


@dataclass(frozen=True, slots=True, eq=False)
class GaussianSample:
    """Numeric columns: their correlations and rows.

    Attributes:
        names: of the columns.
        correlation: shape (n, n).
        rows: N, in the likelihood and the tests.
        values: standardised, shape (n, rows); None if only the correlations are known.
    """

    names: tuple[str, ...]
    correlation: NDArray[np.float64]
    rows: int
    values: NDArray[np.float64] | None = None

    @property
    def n(self) -> int:
        """The number of columns."""
        return len(self.names)

    @classmethod
    def of(cls, table: ContinuousTable, margins: Margins = "gaussian") -> GaussianSample:
        """Returns the moments of a table.

        Raises:
            InputError: columns are linearly dependent.
        """
        table.require_rows("the selection of a graph")
        values = table.values if margins == "gaussian" else normal_scores(table.values)
        moments = cls(table.names, *_standardised(values))
        moments._require_independent()
        return moments

    def restricted(self, columns: Sequence[int]) -> GaussianSample:
        """Returns the moments of some columns, in this order."""
        at = list(columns)
        return GaussianSample(
            tuple(self.names[v] for v in at),
            np.ascontiguousarray(self.correlation[np.ix_(at, at)]),
            self.rows,
            None if self.values is None else np.ascontiguousarray(self.values[at]),
        )

    def of_rows(self, rows: NDArray[np.integer]) -> GaussianSample:
        """Returns the moments of some rows, positions of shape (m,).

        Raises:
            InputError: a column is constant on them.
        """
        assert self.values is not None, "rows are required"
        part = self.values[:, rows]
        flat = np.flatnonzero(np.ptp(part, axis=1) == 0)
        if len(flat):
            reason = f"it is constant on a subsample of {len(rows)} rows"
            remedy = "leave the column out, or choose the parameter by ebic"
            raise InputError("table", f"column '{self.names[flat[0]]}'", reason, remedy)
        return GaussianSample(self.names, *_standardised(part))

    def regular(self, free: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
        """Returns a positive definite correlation matrix and its shrinkage.

        Where the rows exceed the columns, these are the correlations. Otherwise they are shrunk towards 0: by
        a trace, where a graph has fewer edges at every vertex than there are rows, so that its likelihood has
        a maximum (Gross and Sullivant); else by the share that minimises the expected squared error (Schäfer
        and Strimmer), which is so large that hardly any edge remains distinct.

        Args:
            free: bool, shape (n, n): the edges that are not penalised.
        """
        if self.rows > self.n + 1 or self.values is None:
            return self.correlation, 0.0
        count = self.rows
        if int(free.sum(axis=0).max()) < count - 1:
            return self._shrunk(_TRACE), _TRACE
        squares = self.values**2
        variance = (squares @ squares.T - count * self.correlation**2) * count / (count - 1) ** 3
        off = ~np.eye(self.n, dtype=np.bool_)
        share = float(np.clip(variance[off].sum() / np.square(self.correlation[off]).sum(), _TRACE, 1.0))
        return self._shrunk(share), share

    def _shrunk(self, share: float) -> NDArray[np.float64]:
        shrunk: NDArray[np.float64] = (1 - share) * self.correlation
        np.fill_diagonal(shrunk, 1.0)
        return shrunk

    def _require_independent(self) -> None:
        """Raises InputError if the rows show a column to be a linear combination of others."""
        from scipy.linalg.lapack import dpstrf

        off = np.abs(self.correlation) - np.eye(self.n)
        i, j = np.unravel_index(np.argmax(off), off.shape)
        if off[i, j] > 1 - _SINGULAR:
            reason = f"its correlation with '{self.names[j]}' is {self.correlation[i, j]:.0f}"
            raise InputError("table", f"column '{self.names[i]}'", reason, "leave one of the two out")
        if self.rows > self.n:
            _, order, rank, _ = dpstrf(self.correlation, tol=_SINGULAR)
            if rank < self.n:
                name = self.names[order[rank] - 1]
                reason = "it is a linear combination of other columns"
                raise InputError("table", f"column '{name}'", reason, "leave it out")


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteSample:
    """Discrete columns: the codes of their states.

    Attributes:
        names: of the columns.
        codes: shape (n, rows).
        arities: the number of states of each column.
        weights: multiplicity of each row; None for 1.
    """

    names: tuple[str, ...]
    codes: NDArray[np.integer]
    arities: NDArray[np.int64]
    weights: NDArray[np.int64] | None = None

    @property
    def n(self) -> int:
        """The number of columns."""
        return len(self.names)

    @property
    def rows(self) -> int:
        """The number of rows, with their weights."""
        return int(self.codes.shape[1] if self.weights is None else self.weights.sum())

    @classmethod
    def of(cls, table: DataTable) -> DiscreteSample:
        """Returns the states of a table."""
        table.require_whole_weights("the selection of a graph")
        return cls(table.names, table.codes, table.arities, table.weights)

    def restricted(self, columns: Sequence[int]) -> DiscreteSample:
        """Returns the states of some columns, in this order."""
        at = list(columns)
        return DiscreteSample(
            tuple(self.names[v] for v in at), self.codes[at], self.arities[at], self.weights
        )


Sample: TypeAlias = GaussianSample | DiscreteSample


def _standardised(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], int, NDArray[np.float64]]:
    """Returns the correlations, the number of rows, and the values with mean 0 and variance 1."""
    centred = values - values.mean(axis=1, keepdims=True)
    centred /= np.sqrt(np.square(centred).mean(axis=1, keepdims=True))
    correlation = centred @ centred.T / values.shape[1]
    correlation = np.clip((correlation + correlation.T) / 2, -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    return correlation, int(values.shape[1]), centred
