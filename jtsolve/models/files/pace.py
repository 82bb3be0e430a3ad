"""Tree decompositions in the format of the PACE challenges (`.td`): the tree without names and tables.

    c comment
    s td BAGS LARGEST-BAG VERTICES
    b BAG VERTEX …
    BAG BAG                           (an edge; all numbers from 1)

Reference: H. Dell, C. Komusiewicz, N. Talmon, M. Weller, The PACE 2017 challenge, IPEC 2017.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.core.varset import members

if TYPE_CHECKING:
    from jtsolve.core.tree import JunctionTree


def to_pace(tree: JunctionTree) -> str:
    """Returns the tree as a tree decomposition whose bags are the cliques.

    >>> from jtsolve.core.tree import JunctionTree
    >>> print(to_pace(JunctionTree(2, (0b11,), ())), end="")
    s td 1 2 2
    b 1 1 2
    """
    lines = [f"s td {len(tree.cliques)} {tree.treewidth + 1} {tree.n}"]
    lines += [
        f"b {i} {' '.join(str(v + 1) for v in members(clique))}" for i, clique in enumerate(tree.cliques, 1)
    ]
    lines += [f"{i + 1} {j + 1}" for i, j in tree.edges]
    return "\n".join(lines) + "\n"
