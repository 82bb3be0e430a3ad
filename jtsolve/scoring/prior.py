"""A structure prior that decomposes over cliques and separators: penalties per edge and per parameter.

    ln prior(A) = − edge · |A| (|A| − 1) / 2 − parameter · (q − 1)   (nats, up to a constant)

Summed over cliques minus separators, |A|(|A| − 1)/2 gives the number of edges, and q − 1 the number of free
parameters of a discrete model (for Gaussians, |A| + |A|(|A| + 1)/2). An edge penalty of ln((1 − p)/p) is the
prior of independent edges with probability p, restricted to chordal graphs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from jtsolve.errors import ChoiceError


@dataclass(frozen=True, slots=True)
class StructurePrior:
    """Penalties, in nats, for each edge and each free parameter; may be negative.

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
        """Returns ln prior(A) in nats, given the numbers of pairs and free parameters of A."""
        return -self.edge * edges - self.parameter * parameters
