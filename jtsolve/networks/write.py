"""Writes Bayesian networks as BIF, readable by `networks.bif`, pyAgrum and pgmpy.

Names beyond the grammar are replaced; see `networks.names`. Numbers have full precision; pyAgrum 3.3 reads
BIF (and UAI) in single, XMLBIF in double precision.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from jtsolve.core.run import LOGGER
from jtsolve.errors import on_one_line
from jtsolve.networks import names

if TYPE_CHECKING:
    from jtsolve.networks.network import Network, NetworkNode

_SHOWN = 8
_LONGEST_NAME = 60


def to_bif(network: Network) -> str:
    """Returns the network as BIF; warns of names that are replaced."""
    renaming = names.in_words(network)
    if changes := renaming.changes:
        more = f" and {len(changes) - _SHOWN} more" * (len(changes) > _SHOWN)
        LOGGER.warning(
            "BIF has only words for names: %s%s; the file keeps the originals as properties",
            ", ".join(changes[:_SHOWN]),
            more,
        )
    network = renaming.network
    lines = [f"network {network.name} {{", "}"]
    for node in network.nodes:
        states = ", ".join(node.states)
        lines += [f"variable {node.name} {{", f"  type discrete [ {len(node.states)} ] {{ {states} }};"]
        if node.name in renaming.names:
            lines += _original(names.NAME, renaming.names[node.name])
        for word, original in renaming.states[node.name].items():
            lines += _original(f"{names.STATE}{word}", original)
        lines.append("}")
    for node in network.nodes:
        lines += _block(network, node)
    return "\n".join(lines) + "\n"


def _original(key: str, text: str) -> list[str]:
    """Returns the property with an original name, below a comment with it for people."""
    return [f"  // {on_one_line(text, _LONGEST_NAME)}", f"  property {key} {names.escaped(text)};"]


def _block(network: Network, node: NetworkNode) -> list[str]:
    """Returns the lines of a node's table."""
    if not node.parents:
        return [f"probability ( {node.name} ) {{", f"  table {_numbers(node.table[0].tolist())};", "}"]
    parents = [network.nodes[p] for p in node.parents]
    lines = [f"probability ( {node.name} | {', '.join(parent.name for parent in parents)} ) {{"]
    for key, row in zip(product(*(parent.states for parent in parents)), node.table.tolist(), strict=True):
        lines.append(f"  ({', '.join(key)}) {_numbers(row)};")
    return [*lines, "}"]


def _numbers(row: list[float]) -> str:
    return ", ".join(map(repr, row))
