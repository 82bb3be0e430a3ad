"""Junction trees and their graphs as lines of text, and in the DOT language of Graphviz."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtsolve.core.varset import VarSet, members
from jtsolve.draw.branching import DOT_STYLE, Box, branching_text, dot_label
from jtsolve.draw.rooted import RootedForest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.tree import JunctionTree

EMPTY_SET = "∅"
_SYNTACTIC = re.compile(
    r"(?!(?:if|else|repeat|while|function|for|next|break|in|TRUE|FALSE|NULL|Inf|NaN|NA)$)"
    r"(?:[^\W\d_]|\.(?!\d))[\w.]*"
)
"""A name that needs no quotes in R."""


@dataclass(frozen=True, slots=True)
class Notes:
    """Short remarks beside cliques and separators.

    Attributes:
        cliques: one text for each of `tree.cliques`.
        separators: one text for each of `tree.edges`.
    """

    cliques: tuple[str, ...]
    separators: tuple[str, ...]


def tree_text(tree: JunctionTree, names: Sequence[str], notes: Notes | None = None) -> str:
    """Returns the tree as lines of text: each clique, then "sep" and its separator to the clique above.

    Components, which share no variable, are drawn apart; isolated variables are listed at the end.

    Args:
        tree: the tree.
        names: of the variables; ambiguous ones are quoted.
        notes: remarks beside cliques and separators, or None.

    >>> from jtsolve.core.tree import JunctionTree
    >>> print(tree_text(JunctionTree(3, [0b011, 0b110], [(0, 1)]), "ABC"))
    {A, B}
    └─ {B, C}  sep {B}
    """
    forest = RootedForest.of(tree)
    parts = []
    for order in forest.orders:
        place = {i: k for k, i in enumerate(order)}
        boxes = []
        for i in order:
            line = _braces(tree.cliques[i], names)
            if notes is not None:
                line += f"  {notes.cliques[i]}"
            if i != order[0]:
                line += f"  sep {_braces(forest.separator(tree, i), names)}"
            if i != order[0] and notes is not None:
                line += f"  {notes.separators[forest.edge[i]]}"
            kids = tuple(place[child] for child in forest.children[i])
            boxes.append(Box((line.rstrip(),), kids, ("",) * len(kids)))
        parts.append(branching_text(boxes))
    if forest.isolated:
        parts.append(isolated_text([names[tree.cliques[i].bit_length() - 1] for i in forest.isolated]))
    return "\n\n".join(parts)


def isolated_text(names: Sequence[str]) -> str:
    """Returns a line that lists variables without edges."""
    return f"isolated: {', '.join(map(quoted_name, names))}"


def generating_class(tree: JunctionTree, names: Sequence[str]) -> str:
    """Returns the maximal cliques, the generators of the log-linear model; unusual names are quoted.

    >>> from jtsolve.core.tree import JunctionTree
    >>> generating_class(JunctionTree(3, [0b011, 0b110], [(0, 1)]), ["A", "B", "see C"])
    '[A B][B "see C"]'
    """
    plain = [name if re.fullmatch(r"[^\s\[\]\"]+", quoted_name(name)) else json.dumps(name) for name in names]
    return "".join(f"[{' '.join(plain[v] for v in members(clique))}]" for clique in tree.cliques)


def r_formula(tree: JunctionTree, names: Sequence[str]) -> str:
    """Returns the generating class as a formula of R, for MASS::loglm, gRim::dmod or, with the counts, glm.

    >>> from jtsolve.core.tree import JunctionTree
    >>> r_formula(JunctionTree(3, [0b011, 0b110], [(0, 1)]), ["A", "B", "see C"])
    '~ A*B + B*`see C`'
    """
    escaped = [name.replace("\\", "\\\\").replace("`", "\\`") for name in names]
    plain = [
        name if _SYNTACTIC.fullmatch(name) else f"`{quoted}`"
        for name, quoted in zip(names, escaped, strict=True)
    ]
    return f"~ {' + '.join('*'.join(plain[v] for v in members(clique)) for clique in tree.cliques)}"


def tree_dot(tree: JunctionTree, names: Sequence[str], notes: Notes | None = None) -> str:
    """Returns the tree in the DOT language of Graphviz, without the edges of empty separators.

    Args:
        tree: the junction tree.
        names: of the variables.
        notes: a text for each clique and separator.
    """
    of_cliques = [""] * len(tree.cliques) if notes is None else notes.cliques
    of_edges = [""] * len(tree.edges) if notes is None else notes.separators
    lines = ["graph junction_tree {", DOT_STYLE]
    for i, (clique, note) in enumerate(zip(tree.cliques, of_cliques, strict=True)):
        lines.append(f"  c{i} [label={_dot_label(clique, names, note)}];")
    for (i, j), separator, note in zip(tree.edges, tree.separators, of_edges, strict=True):
        if separator:
            lines.append(f"  c{i} -- c{j} [label={_dot_label(separator, names, note)}];")
    return "\n".join([*lines, "}"])


def graph_text(tree: JunctionTree, names: Sequence[str]) -> str:
    """Returns the chordal graph as lines of text: each variable, a colon, and its neighbours.

    Isolated variables are listed at the end.

    >>> from jtsolve.core.tree import JunctionTree
    >>> print(graph_text(JunctionTree(3, [0b011, 0b110], [(0, 1)]), "ABC"))
    A: B
    B: A, C
    C: B
    """
    graph = tree.to_graph()
    lines = [
        f"{quoted_name(name)}: {', '.join(quoted_name(names[u]) for u in sorted(graph[v]))}"
        for v, name in enumerate(names)
        if graph[v]
    ]
    alone = [name for v, name in enumerate(names) if not graph[v]]
    return "\n".join([*lines, *([isolated_text(alone)] if alone else [])])


def edges_dot(
    edges: Sequence[tuple[int, int]], names: Sequence[str], strengths: Sequence[float] | None = None
) -> str:
    """Returns any graph in the DOT language of Graphviz.

    Args:
        edges: pairs of positions in `names`.
        names: of the vertices.
        strengths: of each edge, from -1 to 1, shown as colour and width.
    """
    nodes = [f"  v{v} [label={dot_label([name])}];" for v, name in enumerate(names)]
    styles = [""] * len(edges)
    if strengths is not None:
        styles = [
            f" [color={'blue' if value >= 0 else 'red'}, penwidth={0.5 + 4 * abs(value):.2f}, "
            f'tooltip="{value:.4f}"]'
            for value in strengths
        ]
    lines = [f"  v{u} -- v{v}{style};" for (u, v), style in zip(edges, styles, strict=True)]
    return "\n".join(["graph markov_network {", DOT_STYLE, *nodes, *lines, "}"])


def _braces(mask: VarSet, names: Sequence[str]) -> str:
    return "{" + ", ".join(quoted_name(names[v]) for v in members(mask)) + "}" if mask else EMPTY_SET


def _dot_label(mask: VarSet, names: Sequence[str], note: str) -> str:
    """Returns the label of a set, with one name per line and the note as the last line."""
    lines = [names[v] for v in members(mask)] or [EMPTY_SET]
    return dot_label([*lines, note] if note else lines)


def quoted_name(name: str) -> str:
    """Returns a name, quoted if it is ambiguous in a list or has unprintable characters."""
    if name.isprintable() and name.strip() == name and not set(name) & set('{},"'):
        return name
    return json.dumps(name, ensure_ascii=not name.isprintable())
