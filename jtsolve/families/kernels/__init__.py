"""Compiled kernels of the families: numpy and numba only."""

from jtsolve.core import compiling as compiling  # asks for memory before numba is loaded
