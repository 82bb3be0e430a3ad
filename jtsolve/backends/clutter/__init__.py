"""Branch and cut with clutter inequalities."""
