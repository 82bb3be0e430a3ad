"""Pictures of junction trees and their graphs: text, the DOT language, and SVG or PNG files."""

from jtsolve.draw.html import as_html
from jtsolve.draw.picture import draw_edges, draw_graph, draw_tree, edges_figure, graph_figure, tree_figure
from jtsolve.draw.text import Notes, edges_dot, graph_dot, graph_text, tree_dot, tree_text

__all__ = [
    "Notes",
    "as_html",
    "draw_edges",
    "draw_graph",
    "draw_tree",
    "edges_dot",
    "edges_figure",
    "graph_dot",
    "graph_figure",
    "graph_text",
    "tree_dot",
    "tree_figure",
    "tree_text",
]
