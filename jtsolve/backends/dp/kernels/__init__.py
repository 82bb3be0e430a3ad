"""Compiled recurrences of the dynamic programming."""
