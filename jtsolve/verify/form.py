"""The form of certificates: the ranges of all numbers, checked first.

See docs/certificates.md, "Form".
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jtsolve.io.certificate import CertificateDocument, NodeDocument

ROOM = 1 << 61
"""Bound on sums of units, so that their differences fit 64 bits."""
MOST_WORK = 1 << 32
"""Bound on the steps of a verification: a few minutes."""
DEEPEST = 1 << 26
"""Bound on the decided pairs of a node, times the entries of the table, for the memory of waiting nodes."""
_LARGEST_SHIFT = 2000


class Wrong(Exception):  # noqa: N818 - a finding, not an error of ours
    """A fault of a certificate, in one sentence."""


def require(holds: bool, sentence: str) -> None:  # noqa: FBT001 - reads like an assertion
    """Checks a condition of a certificate.

    Raises:
        Wrong: the condition does not hold; the text is the sentence.
    """
    if not holds:
        raise Wrong(sentence)


def check_form(document: CertificateDocument, n: int) -> None:
    """Checks the numbers, and that each node has one end.

    Raises:
        Wrong: the first fault.
    """
    _positions([document.root], n, "variable")
    require(document.completions >= 0, "The number of rounds of completions is negative.")
    require(-_LARGEST_SHIFT <= document.shift <= _LARGEST_SHIFT, "The shift is out of range.")
    for names in document.sets:
        _increasing(names, n, "set")
    for cut in document.cuts:
        _positions(cut, len(document.sets), "set")
    for row in document.balances:
        _positions((at for at, _ in row.sets), len(document.sets), "set")
        _within([row.limit, *(coefficient for _, coefficient in row.sets)], -ROOM, "limit or coefficient")
    for graph in document.graphs:
        for edge in graph:
            _increasing(edge, n, "edge")
    for number, node in enumerate(document.nodes):
        _check_node(document, n, number, node)
    require(bool(document.nodes), "There are no nodes.")


def _check_node(document: CertificateDocument, n: int, number: int, node: NodeDocument) -> None:
    for part in [*node.stages, *([] if node.last is None else [node.last])]:
        for kind in ("cuts", "balances", "graphs"):
            listed = getattr(part, kind)
            _positions((at for at, _ in listed), len(getattr(document, kind)), "row")
            _within((weight for _, weight in listed), 0, "weight")
    ends = (node.edge is not None) + (node.last is not None) + node.graph
    require(ends == 1, f"Node {number} needs one end: an edge, last multipliers, or its graph.")
    branches = [at for at in (node.absent, node.present) if at is not None]
    two = 0 if node.edge is None else 2
    require(len(branches) == two, f"Node {number} has {len(branches)} branches, and needs {two}.")
    _positions(branches, len(document.nodes), "node")
    if node.edge is not None:
        _increasing(node.edge, n, "edge")


def _positions(found: Iterable[int], count: int, kind: str) -> None:
    require(all(0 <= at < count for at in found), f"The number of a {kind} is out of range.")


def _within(found: Iterable[int], least: int, kind: str) -> None:
    require(all(least <= value <= ROOM for value in found), f"A {kind} is out of range.")


def _increasing(names: Sequence[int], n: int, kind: str) -> None:
    _positions(names, n, "variable")
    require(all(u < v for u, v in pairwise(names)), f"The members of a {kind} are not in increasing order.")
