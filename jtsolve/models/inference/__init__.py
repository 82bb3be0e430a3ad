"""Exact inference: likelihood, evidence, marginals, most probable states, information, sampling."""
