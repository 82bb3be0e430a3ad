"""Compiled kernels of graph selection."""
