"""Compiled loops over the rows of tables."""
