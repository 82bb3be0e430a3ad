"""Compiled message passing between cliques, likelihoods of rows, and sampling of rows."""

from jtsolve.core import compiling as compiling  # asks for memory before numba is loaded
