"""qNML: quotient normalised maximum likelihood.

    s(A) = Σ_x m(x) ln (m(x) / N) − ln C(q, N)   (nats)

C(q,N) is the sum of the maximum likelihoods of all sequences of N rows over q cells, so that exp s(A) sums to
1 over them. Silander et al. define the weight of a family as a quotient, w(v,P) = s(P∪v) − s(P), in which P∪v
and P are each treated as one variable with q states. Hence s is a function of sets, w telescopes along every
elimination order, and qNML is a score of junction trees, without parameters. (fNML normalises each family and
is not such a quotient.)

The normaliser is the sum of positive terms of Mononen and Myllymäki,

    C(q,N) = Σ_{k=0}^{N} t_k,   t_0 = 1,   t_{k+1} / t_k = (N − k) (q − 1 + k) / (N (k + 1)),

exact for any real q. The ratios decrease, so that the remainder is bounded by a geometric series, and the sum
stops once it is negligible: after about √N terms for small q, and at most N. The recurrence of Kontkanen and
Myllymäki (2007) is linear in q and infeasible for q = 10^20; tests compare with it.

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
"""Terms summed at a time."""

_NEGLIGIBLE = 1e-17
"""Relative remainder at which the sum stops: below double precision."""


@dataclass(frozen=True, slots=True)
class Qnml:
    """Quotient normalised maximum likelihood: maximum likelihood, over its sum for all data."""

    name: ClassVar[str] = "qnml"
    cell_terms: ClassVar[Entropy] = Entropy()

    def rest(self, marginal: Marginal) -> float:
        """See `DiscreteScore`."""
        return MaximumLikelihood().rest(marginal) - log_normaliser(marginal.cells, int(marginal.rows))


@lru_cache(maxsize=1 << 16)
def log_normaliser(cells: float, rows: int) -> float:
    """Returns ln C(q,N) in nats, for q cells and N rows, both at least 1.

    >>> round(exp(log_normaliser(2, 2)), 12)  # 0 0 and 1 1 have likelihood 1; 0 1 and 1 0 have 1/4
    2.5
    """
    total = last = 0.0  # logarithms of the sum and of its last term
    for start in range(0, rows, _BLOCK):
        k = np.arange(start, min(start + _BLOCK, rows), dtype=np.float64)
        ratios = (rows - k) * (cells - 1 + k) / (rows * (k + 1))
        if ratios[0] == 0.0:  # one cell: only t_0
            return 0.0
        terms = last + np.cumsum(np.log(ratios))
        last = float(terms[-1])
        peak = max(total, float(terms.max()))
        total = peak + log(exp(total - peak) + float(np.exp(terms - peak).sum()))
        ratio = float(ratios[-1])
        if ratio < 1 and exp(last - total) * ratio / (1 - ratio) < _NEGLIGIBLE:
            break
    return total
