"""Verification of the runs of a comparison, and its tables, charts and page."""
