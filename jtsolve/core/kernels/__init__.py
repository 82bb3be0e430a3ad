"""Compiled functions that the kernels of several packages use."""
