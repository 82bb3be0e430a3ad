"""Bayesian networks written as BIF and as XMLBIF, as `data.bif`, pyAgrum and pgmpy read them.

Names and labels become plain ones (`names`), since programs do not agree on quotes. Numbers have all their
digits. pyAgrum 3.3 reads the numbers of BIF and UAI files in single precision, those of XMLBIF in double
precision. References: F. Cozman, The Interchange Format for Bayesian Networks, 1998 (both).
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from jtsolve.networks.names import plain_network

if TYPE_CHECKING:
    from jtsolve.networks.bif import Network, Node


def to_bif(network: Network) -> str:
    """Returns the network as BIF."""
    network = plain_network(network)
    lines = [f"network {network.name} {{", "}"]
    for node in network.nodes:
        states = ", ".join(node.states)
        lines += [f"variable {node.name} {{", f"  type discrete [ {len(node.states)} ] {{ {states} }};", "}"]
    for node in network.nodes:
        lines += _block(network, node)
    return "\n".join(lines) + "\n"


def _block(network: Network, node: Node) -> list[str]:
    """Returns the lines of a node's table."""
    if not node.parents:
        return [f"probability ( {node.name} ) {{", f"  table {_numbers(node.table[0].tolist(), ', ')};", "}"]
    parents = [network.nodes[p] for p in node.parents]
    lines = [f"probability ( {node.name} | {', '.join(parent.name for parent in parents)} ) {{"]
    for key, row in zip(product(*(parent.states for parent in parents)), node.table.tolist(), strict=True):
        lines.append(f"  ({', '.join(key)}) {_numbers(row, ', ')};")
    return [*lines, "}"]


def to_bifxml(network: Network) -> str:
    """Returns the network as XMLBIF 0.3."""
    network = plain_network(network)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<BIF VERSION="0.3">', "<NETWORK>"]
    lines.append(f"<NAME>{escape(network.name)}</NAME>")
    for node in network.nodes:
        outcomes = "".join(f"<OUTCOME>{state}</OUTCOME>" for state in node.states)
        lines.append(f'<VARIABLE TYPE="nature"><NAME>{node.name}</NAME>{outcomes}</VARIABLE>')
    for node in network.nodes:
        given = "".join(f"<GIVEN>{network.nodes[p].name}</GIVEN>" for p in node.parents)
        table = _numbers(node.table.ravel().tolist(), " ")
        lines.append(f"<DEFINITION><FOR>{node.name}</FOR>{given}<TABLE>{table}</TABLE></DEFINITION>")
    return "\n".join([*lines, "</NETWORK>", "</BIF>"]) + "\n"


def _numbers(row: list[float], comma: str) -> str:
    return comma.join(map(repr, row))
