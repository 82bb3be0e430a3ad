"""Overlaps of nodes removed by Graphviz, where it is installed: it moves single nodes, little.

Reference:
    E. R. Gansner, Y. Hu, Efficient, proximity-preserving node overlap removal, JGAA 14, 2010 (prism).
"""

from __future__ import annotations

import shutil
import subprocess
from logging import getLogger
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PROGRAM = "neato"
_SECONDS = 30
"""Longest run; graphs of 400 nodes, the most that are drawn, take two."""
_LOGGER = getLogger("jtsolve")


def separated(
    places: NDArray[np.float64], sizes: NDArray[np.float64], between: float
) -> NDArray[np.float64] | None:
    """Returns the places with nodes moved apart; None if Graphviz is not installed, or fails.

    Args:
        places: the centres of the nodes, in inches, shape (n, 2).
        sizes: width and height of each node, in inches, shape (n, 2).
        between: least space between two nodes, in inches.
    """
    program = shutil.which(_PROGRAM)
    if program is None:
        return None
    nodes = (
        f'{v} [pos="{x:.3f},{y:.3f}", width={w:.4f}, height={h:.4f}]'
        for v, ((x, y), (w, h)) in enumerate(zip(72 * places, sizes + between, strict=True))
    )
    text = "; ".join(['overlap=prism; overlap_scaling=0; node [shape=box, fixedsize=true, label=""]', *nodes])
    try:
        done = subprocess.run(  # noqa: S603 - found on the user's own path
            [program, "-n", "-Tplain"],
            input=f"graph {{{text}}}",
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
        words = [line.split() for line in done.stdout.splitlines()]
        found = {int(word[1]): (float(word[2]), float(word[3])) for word in words if word[0] == "node"}
        return np.array([found[v] for v in range(len(places))])
    except (OSError, subprocess.SubprocessError, ValueError, LookupError) as error:
        _LOGGER.warning("%s of Graphviz failed (%s); the picture is larger for it", program, error)
        return None
