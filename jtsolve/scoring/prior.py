"""A prior on structures that decomposes over cliques and separators: a penalty per edge and per parameter.

    ln prior(A) = − edge · |A| (|A| − 1) / 2 − parameter · (q − 1)   (nats, up to a constant)

Summed over cliques minus separators, |A|(|A| − 1)/2 is the number of edges, and q − 1 the number of free
parameters of a model of states (of a normal distribution: |A| + |A|(|A| + 1)/2). An edge penalty of
ln((1 − p)/p) is the prior under which every edge is there with probability p, restricted to chordal graphs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from jtsolve.errors import ChoiceError


@dataclass(frozen=True, slots=True)
class StructurePrior:
    """Penalties, in nats, for each edge and for each free parameter; negative ones reward.

    Raises:
        ChoiceError: a penalty is not finite.
    """

    edge: float = 0.0
    parameter: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("edge", self.edge), ("parameter", self.parameter)):
            if not isfinite(value):
                raise ChoiceError(f"the penalty per {name} is {value}; give a finite number of nats")

    def value(self, edges: int, parameters: float) -> float:
        """Returns ln prior(A) in nats for a set with so many pairs and free parameters."""
        return -self.edge * edges - self.parameter * parameters
