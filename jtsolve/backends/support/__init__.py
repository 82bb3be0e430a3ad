"""Shared by several backends: worker processes, derived reports, first trees, a mutable junction tree."""
