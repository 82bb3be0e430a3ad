"""Compiled loops of the clutter LP: set functions and minimum cuts."""
