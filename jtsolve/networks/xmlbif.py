"""XMLBIF, version 0.3 and earlier, as Weka, pyAgrum and pgmpy write it too.

    <VARIABLE TYPE="nature"><NAME>…</NAME><OUTCOME>…</OUTCOME>…</VARIABLE>
    <DEFINITION><FOR>…</FOR><GIVEN>…</GIVEN>…<TABLE>…</TABLE></DEFINITION>

In a table the variable varies fastest, and its first parent slowest. Names may contain all characters of XML.
The attribute xml:space="preserve" marks names with blanks at their ends.
Reference: F. Cozman, The Interchange Format for Bayesian Networks, 1998.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from math import prod
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np

from jtsolve.errors import ChoiceError, InputError, printable
from jtsolve.networks.building import NetworkBuilder
from jtsolve.networks.network import NetworkNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.networks.network import Network

_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that XML 1.0 cannot hold."""


def to_bifxml(network: Network) -> str:
    """Returns the network as XMLBIF 0.3.

    Raises:
        ChoiceError: a name has a character that XML cannot hold.
    """
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<BIF VERSION="0.3">', "<NETWORK>"]
    lines.append(_element("NAME", network.name))
    for node in network.nodes:
        outcomes = "".join(_element("OUTCOME", state) for state in node.states)
        lines.append(f'<VARIABLE TYPE="nature">{_element("NAME", node.name)}{outcomes}</VARIABLE>')
    for node in network.nodes:
        given = "".join(_element("GIVEN", network.nodes[p].name) for p in node.parents)
        table = " ".join(map(repr, node.table.ravel().tolist()))
        scope = f"{_element('FOR', node.name)}{given}"
        lines.append(f"<DEFINITION>{scope}<TABLE>{table}</TABLE></DEFINITION>")
    return "\n".join([*lines, "</NETWORK>", "</BIF>"]) + "\n"


def _element(tag: str, text: str) -> str:
    if _NO_XML.search(text):
        raise ChoiceError(f"XML cannot hold the name '{printable(text)}'; write .json instead")
    space = ' xml:space="preserve"' if text != text.strip() else ""
    return f"<{tag}{space}>{escape(text, {chr(13): '&#13;'})}</{tag}>"


def parse_bifxml(data: bytes, source: str) -> Network:
    """Returns the network in the content of an XMLBIF file, see `core.files.read_xml`.

    Raises:
        InputError: it is invalid; names the variable.
    """
    try:
        root = ET.fromstring(data)  # noqa: S314 - without entities
    except (ET.ParseError, ValueError, LookupError) as error:
        raise InputError(source, "", f"it is not XML ({error})", "download or export it again") from None
    for element in root.iter():  # tags are read without case and namespace
        element.tag = element.tag.rpartition("}")[2].upper()
    network = root if root.tag == "NETWORK" else root.find("NETWORK")
    if network is None:
        reason = f"its root is <{root.tag}>, without a <NETWORK>"
        raise InputError(source, "", reason, "give a network in XMLBIF")
    builder = NetworkBuilder(source)
    for element in network.iter("VARIABLE"):
        name = _only(element, "NAME", "a <VARIABLE>", source)
        kind = element.get("TYPE", element.get("type", "nature")).lower()
        if kind not in ("nature", "discrete"):
            reason = f"variable '{name}' is a {kind} node"
            raise InputError(source, "", reason, "give a network of nature nodes only")
        builder.declare(name, tuple(_text(one) for one in element if one.tag in ("OUTCOME", "VALUE")), "")
    tables: dict[str, ET.Element] = {}
    for element in [*network.iter("DEFINITION"), *network.iter("PROBABILITY")]:
        name = _only(element, "FOR", "a <DEFINITION>", source)
        if name in tables:
            raise InputError(source, "", f"variable '{name}' has two definitions", "remove one of them")
        tables[name] = element
    parents = {name: [_text(one) for one in table if one.tag == "GIVEN"] for name, table in tables.items()}
    shapes = builder.shapes({name: (own, "") for name, own in parents.items()})
    places = {name: i for i, name in enumerate(builder.states)}
    nodes = []
    for name, states in builder.states.items():
        words = _only(tables[name], "TABLE", f"the definition of '{name}'", source).split()
        values = _values(builder, name, words, shapes[name])
        nodes.append(NetworkNode(name, states, tuple(places[parent] for parent in parents[name]), values))
    title = network.find("NAME")
    return builder.network("" if title is None else _text(title), nodes)


def _values(
    builder: NetworkBuilder, name: str, words: Sequence[str], shape: tuple[int, int]
) -> NDArray[np.float64]:
    """Returns the table of a variable, read-only."""
    place = f"the table of '{name}'"
    values = np.array(builder.probabilities(words, place))
    if values.size != prod(shape):
        reason = f"it has {values.size} cells, but {prod(shape)} are needed"
        remedy = "give one for each state and configuration of the parents"
        raise InputError(builder.source, place, reason, remedy)
    values = builder.normalised(name, values.reshape(shape), place)
    values.flags.writeable = False
    return values


def _only(element: ET.Element, tag: str, parent: str, source: str) -> str:
    """Returns the text of the only child element with a tag; `parent` describes the element in errors."""
    found = [_text(one) for one in element if one.tag == tag]
    if len(found) != 1:
        reason = f"{parent} has {len(found)} elements <{tag}>"
        raise InputError(source, "", reason, "give one; the format is XMLBIF")
    return found[0]


def _text(element: ET.Element) -> str:
    text = "".join(element.itertext())
    return text if element.get(_SPACE) == "preserve" else text.strip()
