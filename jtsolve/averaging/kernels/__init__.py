"""Compiled kernels of the sums over decomposable graphs."""
