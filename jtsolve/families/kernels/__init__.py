"""Compiled kernels of the families: numpy and numba only."""
