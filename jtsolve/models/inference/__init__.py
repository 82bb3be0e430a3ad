"""Queries of a junction tree model: likelihood, marginals, most probable states, samples."""
