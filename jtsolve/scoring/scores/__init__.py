"""The scores, one module each, with formula and source."""
