"""Compiled kernels of the sums over decomposable graphs."""

from jtsolve.core import compiling as compiling  # asks for memory before numba is loaded
