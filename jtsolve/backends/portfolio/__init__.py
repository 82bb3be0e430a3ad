"""Several backends in parallel processes."""
