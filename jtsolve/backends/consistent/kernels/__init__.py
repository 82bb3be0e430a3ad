"""Compiled loops of FindConsistentTree."""

from jtsolve.core import compiling as compiling  # asks for memory before numba is loaded
