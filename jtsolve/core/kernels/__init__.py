"""Compiled functions that the kernels of several packages use."""

from jtsolve.core import compiling as compiling  # asks for memory before numba is loaded
