"""Writes Bayesian networks as BIF and XMLBIF, readable by `networks.bif`, pyAgrum and pgmpy.

Names and labels are reduced to letters, digits and underscores, since programs disagree on quoting. Numbers
have full precision; pyAgrum 3.3 reads BIF (and UAI) in single, XMLBIF in double precision.
Reference: F. Cozman, The Interchange Format for Bayesian Networks, 1998.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from jtsolve.networks.network import Network, NetworkNode

if TYPE_CHECKING:
    from collections.abc import Iterable


_PLAIN = re.compile(r"[A-Za-z0-9_]+")


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


def _block(network: Network, node: NetworkNode) -> list[str]:
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


def plain_names(names: Iterable[str], *, initial: str = "") -> list[str]:
    """Returns names of letters, digits and underscores; distinct names stay distinct.

    Args:
        names: any strings.
        initial: prefix for names that begin with a digit; empty for none.

    >>> plain_names(["age", "<= 1", "> 1", "> 1!"])
    ['age', 'le_1', 'gt_1', 'gt_1_2']
    """
    found: list[str] = []
    given = list(names)
    taken = {name for name in given if _is_plain(name, initial)}
    for name in given:
        if _is_plain(name, initial):
            found.append(name)
            continue
        words = re.sub(r"(?<!\w)-(?=[\d.])", " minus ", name.replace("<=", "le").replace(">", "gt"))
        plain = "_".join(re.findall(_PLAIN, words)) or "_"
        if initial and plain[0].isdigit():
            plain = initial + plain
        unique, number = plain, 1
        while unique in taken:
            number += 1
            unique = f"{plain}_{number}"
        taken.add(unique)
        found.append(unique)
    return found


def plain_network(network: Network) -> Network:
    """Returns the network with plain names of nodes, which begin with a letter, and of states."""
    names = plain_names((node.name for node in network.nodes), initial="V")
    nodes = [
        replace(node, name=name, states=tuple(plain_names(node.states)))
        for node, name in zip(network.nodes, names, strict=True)
    ]
    return Network(plain_names([network.name])[0], tuple(nodes))


def _is_plain(name: str, initial: str) -> bool:
    return _PLAIN.fullmatch(name) is not None and not (initial and name[0].isdigit())
