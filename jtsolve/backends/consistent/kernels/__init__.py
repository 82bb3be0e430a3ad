"""Compiled loops of FindConsistentTree."""
