"""Writes Bayesian networks as BIF, readable by `networks.bif`, pyAgrum and pgmpy.

Names outside the grammar are replaced; see `networks.names`. Numbers have full precision; pyAgrum 3.3 reads
BIF (and UAI) in single, XMLBIF in double precision.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from jtsolve.core.run import LOGGER
from jtsolve.errors import on_one_line
from jtsolve.networks import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.networks.network import Network, NetworkNode

_SHOWN = 8
_LONGEST_NAME = 60


def to_bif(network: Network) -> str:
    """Returns the network as BIF; warns of names that are replaced."""
    words = names.distinct_words(network.names, names.IDENTIFIER, initial="V")
    nodes = tuple(
        replace(node, name=word, states=tuple(names.distinct_words(node.states)))
        for node, word in zip(network.nodes, words, strict=True)
    )
    pairs = [*zip(network.names, words, strict=True)]
    for original, node in zip(network.nodes, nodes, strict=True):
        pairs += zip(original.states, node.states, strict=True)
    if changes := [f"'{label}' as {word}" for label, word in dict.fromkeys(pairs) if label != word]:
        more = f" and {len(changes) - _SHOWN} more" * (len(changes) > _SHOWN)
        LOGGER.warning(
            "BIF has only words for names: %s%s; the file keeps the originals as properties",
            ", ".join(changes[:_SHOWN]),
            more,
        )
    title = names.distinct_words([network.name], names.IDENTIFIER, initial="V")[0]
    lines = [f"network {title} {{", "}"]
    for original, node in zip(network.nodes, nodes, strict=True):
        states = ", ".join(node.states)
        lines += [f"variable {node.name} {{", f"  type discrete [ {len(node.states)} ] {{ {states} }};"]
        if node.name != original.name:
            lines += _original(names.NAME, original.name)
        for word, label in zip(node.states, original.states, strict=True):
            lines += _original(f"{names.STATE}{word}", label) if word != label else []
        lines.append("}")
    for node in nodes:
        lines += _block(nodes, node)
    return "\n".join(lines) + "\n"


def _original(key: str, text: str) -> list[str]:
    """Returns the property with an original name, below a comment with the name in plain text."""
    return [f"  // {on_one_line(text, _LONGEST_NAME)}", f"  property {key} {names.escaped(text)};"]


def _block(nodes: Sequence[NetworkNode], node: NetworkNode) -> list[str]:
    """Returns the lines of a node's table."""
    if not node.parents:
        return [f"probability ( {node.name} ) {{", f"  table {_numbers(node.table[0].tolist())};", "}"]
    parents = [nodes[p] for p in node.parents]
    lines = [f"probability ( {node.name} | {', '.join(parent.name for parent in parents)} ) {{"]
    for key, row in zip(product(*(parent.states for parent in parents)), node.table.tolist(), strict=True):
        lines.append(f"  ({', '.join(key)}) {_numbers(row)};")
    return [*lines, "}"]


def _numbers(row: list[float]) -> str:
    return ", ".join(map(repr, row))
