"""Weighted MaxSAT with python-sat."""
