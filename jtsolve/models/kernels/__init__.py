"""Compiled message passing between cliques, likelihoods of rows, and sampling of rows."""
