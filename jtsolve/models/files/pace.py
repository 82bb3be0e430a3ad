"""Tree decompositions in the format of the PACE challenges (`.td`): the tree alone, without names or tables.

    c a remark; s td BAGS LARGEST-BAG VARIABLES; b BAG VERTEX ...; then a line BAG BAG for each edge; all from
    1

Reference: H. Dell, C. Komusiewicz, N. Talmon, M. Weller, The PACE 2017 challenge, IPEC 2017.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.core.files import read_file
from jtsolve.core.tree import JunctionTree, reachable
from jtsolve.core.varset import members, varset
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MOST = 10_000_000
"""Of variables or bags: it keeps a short file from filling the memory."""


def to_pace(tree: JunctionTree) -> str:
    """Returns the tree as a tree decomposition, its bags the cliques in order.

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


def read_pace(path: str | Path) -> JunctionTree:
    """Returns the junction tree of a tree decomposition; a bag within a neighbour is merged into it.

    Raises:
        InputError: the file cannot be read, or is no tree decomposition.
    """
    source = str(path)
    header: tuple[int, int, int] | None = None
    bags: dict[int, int] = {}
    edges: list[tuple[int, int]] = []
    for number, line in enumerate(read_file(path).decode("ascii", "replace").splitlines(), 1):
        words = line.split()
        if not words or words[0] == "c":
            continue
        where = f"line {number}"
        if words[0] == "s":
            if header is not None or words[1:2] != ["td"]:
                raise InputError(source, where, "it is no header, or a second one", "write 's td' once")
            header = _wholes(words[2:], 3, source, where)  # type: ignore[assignment]  # three of them
        elif header is None:
            raise InputError(source, where, "the header is missing before it", "begin with 's td'")
        elif words[0] == "b":
            bag, *vertices = _wholes(words[1:], None, source, where)
            if not 1 <= bag <= header[0] or bag in bags or not all(1 <= v <= header[2] for v in vertices):
                raise InputError(source, where, "a bag twice, or a number out of range", "mend the line")
            bags[bag] = varset(v - 1 for v in vertices)
        else:
            i, j = _wholes(words, 2, source, where)
            if not (i in bags and j in bags):
                raise InputError(source, where, "an edge of a bag that is not there", "mend the line")
            edges.append((i - 1, j - 1))
    if header is None or len(bags) != header[0]:
        raise InputError(source, "", "the header, or a bag that it counts, is missing", "make the file again")
    nodes = [bags[i] for i in range(1, header[0] + 1)]
    return _tree(source, header, nodes, edges)


def _tree(
    source: str, header: tuple[int, int, int], nodes: list[int], edges: list[tuple[int, int]]
) -> JunctionTree:
    if not nodes or max(node.bit_count() for node in nodes) != header[1]:
        raise InputError(source, "line 's td'", "the size of the largest bag is another", "mend the header")
    if len(edges) != len(nodes) - 1 or len(reachable(len(nodes), edges)) < len(nodes):
        raise InputError(
            source, "", "it is no tree decomposition: the edges are no tree", "make the file again"
        )
    for v in range(header[2]):
        # In a tree the bags that hold v are connected iff they are one more than the edges among them.
        bags = sum(node >> v & 1 for node in nodes) - sum((nodes[i] & nodes[j]) >> v & 1 for i, j in edges)
        if bags != 1:
            reason = (
                f"it is no tree decomposition: vertex {v + 1} is in no bag, or its bags are not connected"
            )
            raise InputError(source, "", reason, "make the file again")
    return JunctionTree.from_nodes(header[2], nodes, edges)


def _wholes(words: list[str], count: int | None, source: str, where: str) -> tuple[int, ...]:
    """Returns whole numbers, as many as said, or at least one."""
    if not all(word.isdecimal() and len(word) <= len(str(MOST)) and int(word) <= MOST for word in words) or (
        len(words) != count if count is not None else not words
    ):
        raise InputError(
            source, where, f"it does not hold {count or 'some'} whole numbers up to {MOST}", "mend the line"
        )
    return tuple(map(int, words))
