"""Averages over all junction trees: exact sums, exact draws, chains, and the posterior that they give."""
