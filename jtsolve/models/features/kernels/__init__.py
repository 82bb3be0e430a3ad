"""Kernels of feature trees: counts of pairs, Chow–Liu forests, and partitions into independent parts."""
