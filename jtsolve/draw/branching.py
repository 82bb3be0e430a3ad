"""Trees of boxes with several lines, as text and in the DOT language: feature trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a branching.

    Attributes:
        lines: of its text.
        kids: positions of the boxes below, later in the list.
        labels: one for each kid.
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
    lines = ["digraph feature_tree {", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    for i, box in enumerate(boxes):
        lines.append(f"  n{i} [label={_quoted(box.lines)}];")
        for kid, label in zip(box.kids, box.labels, strict=True):
            lines.append(f"  n{i} -> n{kid} [label={_quoted([label])}];")
    return "\n".join([*lines, "}"])


def _quoted(lines: Sequence[str]) -> str:
    """Returns lines as a label of DOT."""
    plain = [line.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "\\r") for line in lines]
    return '"' + "\\n".join(line.replace("\n", "\\n") for line in plain) + '"'
