"""Whether an edge is significant: the likelihood-ratio test, corrected for the number of pairs.

Adding the edge uv to a decomposable model, S = N(u) ∩ N(v), gains G nats of log likelihood, and

    df = (r_u − 1)(r_v − 1) Π_{s ∈ S} r_s

parameters, r the numbers of states. If u and v are independent given S, 2G has asymptotically the χ²
distribution with df degrees of freedom (Wilks). At each step, up to n(n−1)/2 pairs are candidates: at the
level α / (n(n−1)/2) for each (Bonferroni), the step adds an edge between independent variables with a
probability of at most α.

References:
    Wilks, The large-sample distribution of the likelihood ratio for testing composite hypotheses, Annals of
    Mathematical Statistics 9, 1938. Dunn, Multiple comparisons among means, Journal of the American
    Statistical Association 56, 1961. Whittaker, Graphical Models in Applied Multivariate Statistics, 1990
    (edges of decomposable models). Press et al., Numerical Recipes, section 6.2 (incomplete gamma function).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, lgamma, log, log1p
from typing import TYPE_CHECKING

from jtsolve.core.varset import VarSet, members

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem, Variable

_TERMS = 10_000
"""Terms of a series or a fraction; both converge in some √a + 50."""
_PRECISION = 1e-15


@dataclass(frozen=True, slots=True)
class Significance:
    """The test for the edges of one problem.

    Args:
        states: the number of states of each variable.
        log_level: the logarithm of the level for one pair.
    """

    states: tuple[int, ...]
    log_level: float

    def accepts(self, u: int, v: int, shared: VarSet, gain: float) -> bool:
        """Tells whether an edge that gains so many nats is significant."""
        freedom = (self.states[u] - 1) * (self.states[v] - 1)
        for w in members(shared):
            freedom *= self.states[w]
        return gain > 0 and freedom > 0 and log_tail(2 * gain, freedom) <= self.log_level


def significance_of(problem: Problem, level: float) -> Significance:
    """Returns the test at a level α for a step; all numbers of states are known."""
    pairs = max(1, problem.n * (problem.n - 1) // 2)
    return Significance(tuple(map(state_count, problem.variables)), log(level) - log(pairs))


def state_count(variable: Variable) -> int:
    """Returns a variable's number of states; 0 if it is unknown.

    >>> from jtsolve.core.problem import Variable
    >>> state_count(Variable("a", ("no", "yes"))), state_count(Variable("b", 3)), state_count(Variable("c"))
    (2, 3, 0)
    """
    states = variable.states
    if states is None:
        return 0
    return states if isinstance(states, int) else len(states)


def log_tail(statistic: float, freedom: float) -> float:
    """Returns ln P(X > x), X with the χ² distribution: ln Q(freedom/2, x/2), Q the incomplete gamma function.

    >>> round(exp(log_tail(3.841459, 1)), 6)
    0.05
    """
    a, x = freedom / 2, statistic / 2
    if x <= 0:
        return 0.0
    front = a * log(x) - x - lgamma(a)
    if x < a + 1:
        term = total = 1 / a  # P(a,x) by its series
        for i in range(1, _TERMS):
            term *= x / (a + i)
            total += term
            if term < total * _PRECISION:
                break
        lower = exp(front + log(total))
        return log1p(-lower) if lower < 1 else -inf
    b = x + 1 - a  # Q(a,x) by its continued fraction, evaluated from the front (Lentz)
    c, d = inf, 1 / b
    fraction = d
    for i in range(1, _TERMS):
        numerator = -i * (i - a)
        b += 2
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        fraction *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return front + log(fraction)
