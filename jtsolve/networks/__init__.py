"""Bayesian networks: reading BIF, writing BIF and XMLBIF, and sampling."""
