"""Pictures of junction trees: text, the DOT language, and SVG or PNG files."""

from jtsolve.draw.html import as_html
from jtsolve.draw.picture import draw_tree, tree_figure
from jtsolve.draw.text import Notes, tree_dot, tree_text

__all__ = ["Notes", "as_html", "draw_tree", "tree_dot", "tree_figure", "tree_text"]
