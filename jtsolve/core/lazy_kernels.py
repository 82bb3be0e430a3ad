"""The choice between numpy and compiled kernels: the ski-rental rule.

Loading the compiler and cached kernels takes half a second of processor time, compiling them several seconds.
A package with the same results in numpy works there until that has cost as much in this process; from
then on in kernels. So it never costs more than twice the cheaper of both, whether a process does one small
piece of work or a million. (Karlin, Manasse, Rudolph, Sleator, Competitive snoopy caching, Algorithmica 3,
1988.) Where the compiler exceeds the memory limit of the call, numpy does all.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import inf

from jtsolve.core.machine import allowed_memory, base_memory

_LOADING = 0.3
"""Processor seconds to load the compiler and a few cached kernels."""


@dataclass(slots=True)
class LazyKernels:
    """The choice for one module of kernels.

    Threads may share it: a lost update delays the kernels a little.

    Args:
        module: the full name of the module of kernels; once it is loaded, numpy is not preferred.
        seconds: of processor time in numpy before the kernels.

    >>> kernels = LazyKernels("jtsolve.kernels")
    >>> [kernels.prefer_numpy(seconds) for seconds in (0.1, 0.1, 5.0, 0.1)]
    [True, True, False, False]
    """

    module: str
    seconds: float = _LOADING

    def favours_numpy(self, seconds: float) -> bool:
        """Returns whether numpy takes no longer for work of this many predicted seconds."""
        return self.seconds >= seconds and self.module not in sys.modules

    def prefer_numpy(self, seconds: float) -> bool:
        """Returns whether to do work of this many predicted seconds in numpy, and counts it."""
        chosen = self.favours_numpy(seconds)
        self.seconds -= seconds
        return chosen or (
            self.module not in sys.modules and base_memory(kernels=True) > (allowed_memory() or inf)
        )
