"""Pictures of junction trees and their graphs: text, the DOT language, and SVG or PNG files."""

from jtsolve.draw.html import as_html
from jtsolve.draw.picture import draw_graph, draw_tree, graph_figure, tree_figure
from jtsolve.draw.text import Notes, graph_dot, graph_text, tree_dot, tree_text

__all__ = [
    "Notes",
    "as_html",
    "draw_graph",
    "draw_tree",
    "graph_dot",
    "graph_figure",
    "graph_text",
    "tree_dot",
    "tree_figure",
    "tree_text",
]
