"""The scores, one module each."""
