"""Trees of boxes with several lines, as text and in the DOT language of Graphviz."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtsolve.errors import printable

if TYPE_CHECKING:
    from collections.abc import Sequence


DOT_STYLE = '  node [shape=box, style=rounded, fontname="sans-serif"];'
"""The style of all nodes, as a line of DOT."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a tree.

    Attributes:
        lines: of its text.
        kids: positions of its children, later in the list of boxes.
        labels: of the edges to the children; may be empty.
    """

    lines: tuple[str, ...]
    kids: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()


def branching_text(boxes: Sequence[Box]) -> str:
    """Returns the boxes as lines of text, the first box as the root.

    >>> print(branching_text([Box(("rain?",), (1, 2), ("no", "yes")), Box(("dry",)), Box(("wet",))]))
    rain?
    ├─ no: dry
    └─ yes: wet
    """
    lines = []
    stack = [(0, "", "")]
    while stack:
        i, branch, indent = stack.pop()
        first, *others = boxes[i].lines
        lines.append(f"{branch}{first}")
        bar = "│ " if boxes[i].kids else "  "
        lines += [f"{indent}{bar if others else ''}{line}" for line in others]
        pairs = list(zip(boxes[i].kids, boxes[i].labels, strict=True))
        for k, (kid, label) in reversed(list(enumerate(pairs))):
            last = k == len(pairs) - 1
            words = f"{label}: " if label else ""
            sign, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
            stack.append((kid, indent + sign + words, indent + below))
    return "\n".join(lines)


def branching_dot(boxes: Sequence[Box]) -> str:
    """Returns the boxes in the DOT language of Graphviz."""
    lines = ["digraph feature_tree {", DOT_STYLE]
    for i, box in enumerate(boxes):
        lines.append(f"  n{i} [label={dot_label(box.lines)}];")
        for kid, label in zip(box.kids, box.labels, strict=True):
            lines.append(f"  n{i} -> n{kid} [label={dot_label([label])}];")
    return "\n".join([*lines, "}"])


def dot_label(lines: Sequence[str]) -> str:
    """Returns lines as a quoted label of DOT, with control characters escaped."""
    plain = [printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return '"' + "\\n".join(line.replace("\n", "\\n") for line in plain) + '"'
