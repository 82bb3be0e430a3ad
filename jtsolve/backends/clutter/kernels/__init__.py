"""Compiled loops of the clutter cuts: set functions and minimum cuts."""
