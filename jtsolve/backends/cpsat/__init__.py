"""Constraint programming with CP-SAT."""
