"""Pictures of junction trees, their graphs, and feature trees: as text, DOT, SVG or PNG."""
