"""Shared by several backends: a solver in a process of its own, deadlines, required edges."""
