"""Copies of arrays within kernels.

numba compiles `target[:] = source` with the general rules of broadcasting and their messages: 1.5 s, for each
kernel that has one.
"""

from __future__ import annotations

from jtsolve.core.compiling import kernel


@kernel(allocates=False)
def copy_onto(target, source):
    """Copies a vector to the beginning of another one."""
    for i in range(source.size):
        target[i] = source[i]
