"""Bayesian networks: BIF in and out, and rows drawn from them."""
