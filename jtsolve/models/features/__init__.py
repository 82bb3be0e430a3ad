"""Feature trees: distributions that branch on conjunctions of literals and decompose in the branches."""
