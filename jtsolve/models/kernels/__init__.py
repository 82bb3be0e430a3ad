"""Compiled messages between cliques, and likelihoods of rows."""
