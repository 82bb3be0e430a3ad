"""A large tree in parts: connected pieces of limited size that share the cliques at which they were cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.draw.rooted import RootedTree


def parts(rooted: RootedTree, shown: Sequence[int], size: int) -> list[list[int]]:
    """Returns the parts of a tree: cliques in preorder, a part's root first.

    The first part begins with the root. Every other one begins with a copy of a clique of an earlier part,
    followed by some of its children and their subtrees.

    Args:
        rooted: the tree.
        shown: the cliques to take; each comes after its parent.
        size: most cliques of a part, its root included; at least 2.
    """
    wanted = set(shown)
    found: list[list[int]] = []
    waiting = [(rooted.root, list(rooted.children[rooted.root]))]
    while waiting:
        top, children = waiting.pop(0)
        part = [top]
        left: dict[int, list[int]] = {}
        stack = [(top, child) for child in reversed(children)]
        while stack:
            parent, child = stack.pop()
            if child not in wanted:
                continue
            if len(part) == size:
                left.setdefault(parent, []).append(child)
                continue
            part.append(child)
            stack += [(child, grandchild) for grandchild in reversed(rooted.children[child])]
        found.append(part)
        waiting += left.items()
    return found
