"""Tree decompositions in the format of the PACE challenges (`.td`): the tree without names and tables.

    c comment
    s td BAGS LARGEST-BAG VERTICES
    b BAG VERTEX …
    BAG BAG                           (an edge; all numbers from 1)

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
"""Limit for the numbers of variables and bags: a short file must not exhaust the memory."""


def to_pace(tree: JunctionTree) -> str:
    """Returns the tree as a tree decomposition whose bags are the cliques.

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
    """Returns the junction tree of a tree decomposition; a bag contained in a neighbour is merged into it.

    Raises:
        InputError: the file cannot be read, or is not a tree decomposition.
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
                raise InputError(source, where, "a malformed or second header", "write 's td' once")
            header = _wholes(words[2:], 3, source, where)  # type: ignore[assignment]  # its length is 3
        elif header is None:
            raise InputError(source, where, "the header is missing before it", "begin with 's td'")
        elif words[0] == "b":
            bag, *vertices = _wholes(words[1:], None, source, where)
            if not 1 <= bag <= header[0] or bag in bags or not all(1 <= v <= header[2] for v in vertices):
                raise InputError(
                    source, where, "a repeated bag, or a number out of range", "correct the line"
                )
            bags[bag] = varset(v - 1 for v in vertices)
        else:
            i, j = _wholes(words, 2, source, where)
            if not (i in bags and j in bags):
                raise InputError(source, where, "an edge of an undeclared bag", "correct the line")
            edges.append((i - 1, j - 1))
    if header is None or len(bags) != header[0]:
        raise InputError(source, "", "the header or a bag is missing", "export the file again")
    nodes = [bags[i] for i in range(1, header[0] + 1)]
    return _tree(source, header, nodes, edges)


def _tree(
    source: str, header: tuple[int, int, int], nodes: list[int], edges: list[tuple[int, int]]
) -> JunctionTree:
    if not nodes or max(node.bit_count() for node in nodes) != header[1]:
        raise InputError(source, "line 's td'", "the size of the largest bag is wrong", "correct the header")
    if len(edges) != len(nodes) - 1 or len(reachable(len(nodes), edges)) < len(nodes):
        reason = "it is not a tree decomposition: the edges do not form a tree"
        raise InputError(source, "", reason, "export the file again")
    for v in range(header[2]):
        # In a tree, the bags that contain v are connected iff they outnumber the edges among them by one.
        bags = sum(node >> v & 1 for node in nodes) - sum((nodes[i] & nodes[j]) >> v & 1 for i, j in edges)
        if bags != 1:
            reason = f"it is not a tree decomposition: vertex {v + 1} is in no bag, or in disconnected ones"
            raise InputError(source, "", reason, "export the file again")
    return JunctionTree.from_nodes(header[2], nodes, edges)


def _wholes(words: list[str], count: int | None, source: str, where: str) -> tuple[int, ...]:
    """Returns `count` whole numbers, or at least one if it is None."""
    if not all(word.isdecimal() and len(word) <= len(str(MOST)) and int(word) <= MOST for word in words) or (
        len(words) != count if count is not None else not words
    ):
        reason = f"{count or 'some'} whole numbers up to {MOST} are expected"
        raise InputError(source, where, reason, "correct the line")
    return tuple(map(int, words))
