"""Models and networks in files, by suffix, and as text for other programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jtsolve.core.files import read_file, write_atomically
from jtsolve.core.formats import MODEL, NETWORK, TABLE, kind_of_suffix
from jtsolve.core.varset import members
from jtsolve.models.layout import require_room

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.protocol import Distribution

_TEXT_PER_CELL = 60
"""Bytes for each cell of a table during the export."""


def open_model(path: str | Path) -> Distribution:
    """Returns the model or Bayesian network in a file; UAI networks are triangulated.

    The suffix names the format (`formats.MODEL`); for any other name, the first word of the content does.

    Raises:
        InputError: the file cannot be read, does not match its suffix, or holds no model.
        LimitError: the tables need more memory than there is.
    """
    kind = MODEL.format_to_read(path)
    if kind is None:
        begin = read_file(path)[:_BEGINNING]
        kind = next((one for one, pattern in _BEGINNINGS.items() if pattern.match(begin)), None)
        if kind is None or kind_of_suffix(path) not in (None, TABLE):  # as .txt is
            raise MODEL.refusal(path)
    if kind in NETWORK.read.values():
        from jtsolve.models.network import NetworkModel
        from jtsolve.networks.files import read_network

        return NetworkModel(read_network(path, kind))
    if kind == "uai":
        from jtsolve.models.files.uai import read_uai

        return read_uai(path)
    from jtsolve.models.files.document import read_model

    return read_model(path)


_BEGINNINGS = {
    "json": re.compile(rb"\s*\{"),
    "bif": re.compile(rb"(?:\s|//[^\n]*|/\*.*?\*/)*network\s[^{,]*\{", re.DOTALL),
    "bifxml": re.compile(rb"\s*<(\?xml|!|BIF)", re.IGNORECASE),
    "uai": re.compile(rb"\s*(MARKOV|BAYES)\b", re.IGNORECASE),
}
"""Beginning of the content, by format."""
_BEGINNING = 4096


def write_model(model: Distribution, path: str | Path) -> None:
    """Writes a model atomically, in the format that the suffix names; gzipped if it ends in .gz.

    Raises:
        ChoiceError: there is no such format, or it does not support the model.
        InputError: the file cannot be written.
        LimitError: see `exported`.
    """
    write_atomically(path, exported(model, MODEL.format_to_write(path)).encode())


def exported(model: Distribution, to: str) -> str:
    """Returns a model as text, in the format of jtsolve or of another program.

    Args:
        model: the distribution.
        to: one of `formats.MODEL.formats`.

    Raises:
        ChoiceError: there is no such format, or it does not support the model.
        LimitError: the format needs a junction tree, or a text, that does not fit in memory; raised before
            any work.
    """
    MODEL.require(to)
    if to == "td":
        return to_pace(model.structure(to))
    if to == "dot":
        return _dot(model)
    if to in ("bif", "bifxml"):
        from jtsolve.networks.write import to_bif
        from jtsolve.networks.xmlbif import to_bifxml

        return (to_bif if to == "bif" else to_bifxml)(model.network(to))
    cells = getattr(model, "cells", 0)
    require_room(cells, f"the tables as {to}", "a smaller model; bif, for a network", _TEXT_PER_CELL)
    if to == "uai":
        from jtsolve.models.files.uai import to_uai

        return to_uai(model.junction_tree(to))
    from jtsolve.models.files.document import model_to_json

    return model_to_json(model).decode()


def _dot(model: Distribution) -> str:
    from jtsolve.draw.branching import branching_dot
    from jtsolve.draw.text import tree_dot

    described = model.describe()
    if described.boxes and not described.parts:
        return branching_dot(described.boxes[0]) + "\n"
    return tree_dot(model.structure("dot"), model.names) + "\n"


def to_pace(tree: JunctionTree) -> str:
    """Returns the tree without names and tables, in the format of the PACE challenges.

        s td BAGS LARGEST-BAG VERTICES
        b BAG VERTEX …
        BAG BAG                           (an edge; all numbers from 1)

    Reference: H. Dell, C. Komusiewicz, N. Talmon, M. Weller, The PACE 2017 challenge, IPEC 2017.

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
