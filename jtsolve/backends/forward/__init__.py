"""Greedy forward selection of edges."""
