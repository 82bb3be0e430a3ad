"""XMLBIF, version 0.3 and its forerunners, as Weka, pyAgrum and pgmpy write it too.

    <VARIABLE TYPE="nature"><NAME>…</NAME><OUTCOME>…</OUTCOME>…</VARIABLE>
    <DEFINITION><FOR>…</FOR><GIVEN>…</GIVEN>…<TABLE>…</TABLE></DEFINITION>

In a table the variable varies fastest, and its first parent slowest. Names hold all characters of XML; an
element whose blanks at the ends count has the attribute xml:space="preserve".
Reference: F. Cozman, The Interchange Format for Bayesian Networks, 1998.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from graphlib import CycleError
from math import isfinite, prod
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np

from jtsolve.errors import ChoiceError, InputError, printable
from jtsolve.networks.network import Network, NetworkNode
from jtsolve.networks.rounding import LARGEST_TABLE, MOST, RowSums

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    return _Reader(root, source).network()


class _Reader:
    """Makes a network of the elements of a file, whose tags count without case and namespace."""

    def __init__(self, root: ET.Element, source: str) -> None:
        self._source = source
        self._sums = RowSums(source)
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2].upper()
        found = root if root.tag == "NETWORK" else root.find("NETWORK")
        if found is None:
            reason = f"its root is <{root.tag}>, without a <NETWORK>"
            raise InputError(source, "", reason, "give a network in XMLBIF")
        self._network = found

    def network(self) -> Network:
        """Returns the network."""
        states: dict[str, tuple[str, ...]] = {}
        for element in self._network.iter("VARIABLE"):
            name = self._only(element, "NAME", "a <VARIABLE>")
            if name in states:
                raise self._error(name, "it is declared twice", "rename one of the variables")
            kind = element.get("TYPE", element.get("type", "nature")).lower()
            if kind not in ("nature", "discrete"):
                raise self._error(name, f"it is a {kind} node", "give a network of nature nodes only")
            labels = tuple(_text(one) for one in element if one.tag in ("OUTCOME", "VALUE"))
            if not labels or len(set(labels)) < len(labels):
                raise self._error(name, "its outcomes are not distinct, or there are none", "correct them")
            states[name] = labels
        if not states:
            raise InputError(self._source, "", "there is no variable", "give a network in XMLBIF")
        found: dict[str, ET.Element] = {}
        for element in [*self._network.iter("DEFINITION"), *self._network.iter("PROBABILITY")]:
            name = self._only(element, "FOR", "a <DEFINITION>")
            if name in found or name not in states:
                reason = "it has two definitions" if name in found else "it is not declared"
                raise self._error(name, reason, "correct the file")
            found[name] = element
        places = {name: i for i, name in enumerate(states)}
        nodes = tuple(self._node(name, states, found.get(name), places) for name in states)
        self._sums.report()
        title = self._network.find("NAME")
        try:
            return Network("" if title is None else _text(title), nodes)
        except CycleError as error:
            cycle = " → ".join(nodes[i].name for i in error.args[1])
            raise InputError(self._source, "", f"the arcs have a cycle: {cycle}", "remove one") from None

    def _node(
        self,
        name: str,
        states: Mapping[str, tuple[str, ...]],
        element: ET.Element | None,
        places: Mapping[str, int],
    ) -> NetworkNode:
        if element is None:
            raise self._error(name, "it has no definition", "add its <DEFINITION>")
        parents = [_text(one) for one in element if one.tag == "GIVEN"]
        for parent in parents:
            if parent not in states or parents.count(parent) > 1:
                reason = f"its parent '{parent}' is not declared, or is given twice"
                raise self._error(name, reason, "correct its <GIVEN>")
        shape = (prod(len(states[parent]) for parent in parents), len(states[name]))
        if prod(shape) > LARGEST_TABLE:
            raise self._error(name, "its table has too many cells", "split the variable")
        words = self._only(element, "TABLE", f"the definition of '{name}'").split()
        try:
            values = np.array(words, dtype=np.float64)
        except ValueError as error:
            raise self._error(name, f"its table is not of numbers ({error})", "correct it") from None
        if values.size != prod(shape):
            reason = f"its table has {values.size} cells, but {prod(shape)} are needed"
            raise self._error(name, reason, "give one for each state and configuration of the parents")
        values = values.reshape(shape)
        if not all(isfinite(value) and 0 <= value <= 1 + MOST for value in values.ravel().tolist()):
            raise self._error(name, "its table has a number that is no probability", "correct it")
        totals = values.sum(axis=1)
        for total in totals.tolist():
            if not self._sums.accepts(total):
                raise self._error(name, f"a row of its table sums to {total:.9g}, not to 1", "correct it")
        values /= totals[:, None]
        values.flags.writeable = False
        return NetworkNode(name, states[name], tuple(places[parent] for parent in parents), values)

    def _only(self, element: ET.Element, tag: str, what: str) -> str:
        found = [_text(one) for one in element if one.tag == tag]
        if len(found) != 1:
            reason = f"{what} has {len(found)} elements <{tag}>"
            raise InputError(self._source, "", reason, "give one; the format is XMLBIF")
        return found[0]

    def _error(self, name: str, reason: str, remedy: str) -> InputError:
        return InputError(self._source, f"variable '{name}'", reason, remedy)


def _text(element: ET.Element) -> str:
    text = "".join(element.itertext())
    return text if element.get(_SPACE) == "preserve" else text.strip()
