"""qNML: the normalised maximum likelihood of a set's joint variable; a quotient of two for a family.

    s(A) = Σ_x m(x) ln (m(x) / N) − ln C(q, N)   (nats)

C(q,N) is the sum of the largest likelihoods of all sequences of N rows over q cells, so that exp s(A) sums to
1 over them. Silander et al. define families by a quotient, w(v,P) = s(P∪v) − s(P), where P∪v and P are each
taken as one variable with as many states as there are cells. So s is a function of sets, w telescopes along
every order, and qNML is a score of junction trees; it has no parameter to choose. (fNML normalises family by
family, is no such quotient, and is not offered.)

The normaliser is the sum of positive terms of Mononen and Myllymäki,

    C(q,N) = Σ_{k=0}^{N} t_k,   t_0 = 1,   t_{k+1} / t_k = (N − k) (q − 1 + k) / (N (k + 1)),

exact for any q, real numbers included. Its ratios fall, so that the terms beyond one are bounded by a
geometric series: the sum ends where they no longer count, after some √N terms for small q, and N at most. The
recurrence of Kontkanen and Myllymäki (2007), linear in q, would be out of reach for q = 10^20 cells; tests
compare with it.

References:
    T. Silander, J. Leppä-aho, E. Jääsaari, T. Roos, Quotient normalized maximum likelihood criterion for
    learning Bayesian network structures, AISTATS 2018.
    T. Mononen, P. Myllymäki, Computing the multinomial stochastic complexity in sub-linear time, PGM 2008.
    P. Kontkanen, P. Myllymäki, A linear-time algorithm for computing the multinomial stochastic complexity,
    Information Processing Letters 103, 2007.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, log
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.scoring.score import Entropy
from jtsolve.scoring.scores.ml import MaximumLikelihood

if TYPE_CHECKING:
    from jtsolve.scoring.score import Marginal

_BLOCK = 1 << 12
"""Terms that are summed at one time."""

_NEGLIGIBLE = 1e-17
"""The share of the sum below which what is left of it does not count."""


@dataclass(frozen=True, slots=True)
class Qnml:
    """Quotient normalised maximum likelihood: the largest likelihood, over its sum for all data."""

    name: ClassVar[str] = "qnml"

    @property
    def cell_terms(self) -> Entropy:
        """See `DiscreteScore`."""
        return Entropy()

    def rest(self, marginal: Marginal) -> float:
        """See `DiscreteScore`."""
        return MaximumLikelihood().rest(marginal) - log_normaliser(marginal.cells, marginal.rows)


@lru_cache(maxsize=1 << 16)
def log_normaliser(cells: float, rows: int) -> float:
    """Returns ln C(q,N) in nats, N the rows and q the cells, both at least 1.

    >>> round(exp(log_normaliser(2, 2)), 12)  # 0 0 and 1 1 have likelihood 1; 0 1 and 1 0 have 1/4
    2.5
    """
    total = last = 0.0  # in logarithms: of the sum, and of the last term in it
    for start in range(0, rows, _BLOCK):
        k = np.arange(start, min(start + _BLOCK, rows), dtype=np.float64)
        ratios = (rows - k) * (cells - 1 + k) / (rows * (k + 1))
        if ratios[0] == 0.0:  # one cell: t_0 alone
            return 0.0
        terms = last + np.cumsum(np.log(ratios))
        last = float(terms[-1])
        peak = max(total, float(terms.max()))
        total = peak + log(exp(total - peak) + float(np.exp(terms - peak).sum()))
        ratio = float(ratios[-1])
        if ratio < 1 and exp(last - total) * ratio / (1 - ratio) < _NEGLIGIBLE:
            break
    return total
