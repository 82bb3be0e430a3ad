"""Averages over all decomposable graphs: exact and certified sums, draws, chains, and their posterior."""
