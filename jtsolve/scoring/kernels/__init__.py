"""Compiled counting of marginal tables, and log determinants."""
