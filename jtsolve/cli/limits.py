"""Limits as the command line gives them."""

import math
from typing import TYPE_CHECKING

from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.core.backend import Limits


def make_limits(
    time: float | None, gigabytes: float | None, threads: int | None, seed: int, started: float
) -> "Limits":
    """Returns the limits; checks what `Limits` cannot, since bytes are whole numbers."""
    from jtsolve.core.backend import Limits

    if gigabytes is not None and not (math.isfinite(gigabytes) and gigabytes * 1e9 >= 1):
        raise ChoiceError(f"the memory limit is {gigabytes} GB; give a finite number above 0")
    memory = None if gigabytes is None else int(gigabytes * 1e9)
    return Limits(time=time, memory=memory, threads=threads, seed=seed, started=started)
