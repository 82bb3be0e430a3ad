"""Integer linear programming through PuLP."""
