"""Compiled counting of marginal tables, and log determinants."""

from jtsolve.core import compiling as compiling  # asks for memory before numba is loaded
