"""One study for every door: read, check, score, solve, fit and save, in terms of names."""
