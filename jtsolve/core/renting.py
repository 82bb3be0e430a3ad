"""Numpy or compiled kernels: the ski-rental rule.

Loading the compiler and cached kernels takes half a second of processor time, compiling them several seconds.
A package that offers the same results in numpy rents, at each call, until the rent paid in this process would
exceed the price; then it buys. So it never costs more than twice the cheaper of both, whether a process does
one small piece of work or a million. (Karlin, Manasse, Rudolph, Sleator, Competitive snoopy caching,
Algorithmica 3, 1988.)
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

PRICE = 0.3
"""Processor seconds to load the compiler and a few cached kernels."""


@dataclass(slots=True)
class Rental:
    """The choice for one module of kernels.

    Threads may share it: a lost update makes the rent a little longer.

    Args:
        module: the full name of the module of kernels; once it is loaded, nothing is rented.

    >>> rental = Rental("jtsolve.kernels")
    >>> [rental.rents(seconds) for seconds in (0.1, 0.1, 5.0, 0.1)]
    [True, True, False, False]
    """

    module: str
    _left: float = field(default=PRICE, init=False)

    def rents(self, seconds: float) -> bool:
        """Returns whether work of this many predicted seconds is done in numpy."""
        self._left -= seconds
        return self._left >= 0 and self.module not in sys.modules
