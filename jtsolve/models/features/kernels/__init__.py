"""Kernels of feature trees: counts of pairs, Chow–Liu forests, and partitions into independent parts."""

from jtsolve.core import compiling as compiling  # asks for memory before numba is loaded
