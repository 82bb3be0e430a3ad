"""Names that every program reads: letters, digits and underscores, for formats that have no way to quote."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from jtsolve.networks.bif import Network

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN = re.compile(r"[A-Za-z0-9_]+")


def plain_names(names: Iterable[str], *, initial: str = "") -> list[str]:
    """Returns names of letters, digits and underscores, different if the given ones are.

    Args:
        names: any texts.
        initial: put before a name that begins with a digit, if not empty.

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
