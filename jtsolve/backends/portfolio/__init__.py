"""Several backends at once, each in a process of its own."""
