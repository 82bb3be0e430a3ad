"""FindConsistentTree: junction trees from tests of conditional independence (LPACJT)."""
