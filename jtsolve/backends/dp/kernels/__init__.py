"""Compiled recurrences of the dynamic programming."""

from jtsolve.core import compiling as compiling  # asks for memory before numba is loaded
