"""Compiled loops of the clutter LP: set functions and minimum cuts."""

from jtsolve.core import compiling as compiling  # asks for memory before numba is loaded
