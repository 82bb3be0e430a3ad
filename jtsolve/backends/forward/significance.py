"""The likelihood-ratio test of an edge, corrected for the number of pairs.

Adding the edge uv to a decomposable model, S = N(u) ∩ N(v), gains G nats of log likelihood, and

    df = (r_u − 1)(r_v − 1) Π_{s ∈ S} r_s

parameters, with r the numbers of states. If u and v are independent given S, 2G asymptotically has the χ²
distribution with df degrees of freedom (Wilks). A step has up to n(n−1)/2 candidates: testing each at the
level α / (n(n−1)/2) (Bonferroni), it adds an edge between independent variables with probability at most α.

References:
    Wilks, The large-sample distribution of the likelihood ratio for testing composite hypotheses, Annals of
    Mathematical Statistics 9, 1938. Dunn, Multiple comparisons among means, Journal of the American
    Statistical Association 56, 1961. Whittaker, Graphical Models in Applied Multivariate Statistics, 1990
    (edges of decomposable models).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtsolve.core.varset import VarSet, members

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem, Variable


@dataclass(frozen=True, slots=True)
class Significance:
    """The test for the edges of one problem.

    Args:
        states: the number of states of each variable.
        level: of the test of one pair.
    """

    states: tuple[int, ...]
    level: float

    def accepts(self, u: int, v: int, shared: VarSet, gain: float) -> bool:
        """Tells whether an edge with this gain, in nats, is significant."""
        from scipy.special import chdtrc

        freedom = (self.states[u] - 1) * (self.states[v] - 1)
        for w in members(shared):
            freedom *= self.states[w]
        return gain > 0 and freedom > 0 and bool(chdtrc(float(freedom), 2 * gain) <= self.level)


def significance_of(problem: Problem, level: float) -> Significance:
    """Returns the test at the level α per step; requires that all numbers of states are known."""
    pairs = max(1, problem.n * (problem.n - 1) // 2)
    return Significance(tuple(map(state_count, problem.variables)), level / pairs)


def state_count(variable: Variable) -> int:
    """Returns the number of states of a variable; 0 if unknown.

    >>> from jtsolve.core.problem import Variable
    >>> state_count(Variable("a", ("no", "yes"))), state_count(Variable("b", 3)), state_count(Variable("c"))
    (2, 3, 0)
    """
    states = variable.states
    if states is None:
        return 0
    return states if isinstance(states, int) else len(states)
