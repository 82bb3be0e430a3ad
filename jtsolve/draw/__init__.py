"""Pictures of junction trees, their graphs, and feature trees: as text, DOT, SVG or PNG."""

from jtsolve.draw.branching import Box, branching_dot, branching_text, draw_branching
from jtsolve.draw.html import as_html, branching_html
from jtsolve.draw.picture import draw_edges, draw_graph, draw_tree, edges_figure, graph_figure, tree_figure
from jtsolve.draw.text import Notes, edges_dot, graph_dot, graph_text, tree_dot, tree_text

__all__ = [
    "Box",
    "Notes",
    "as_html",
    "branching_dot",
    "branching_html",
    "branching_text",
    "draw_branching",
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
