"""Networks in files: BIF and XMLBIF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.core.files import read_file, read_xml
from jtsolve.core.formats import NETWORK
from jtsolve.networks.bif import parse_bif
from jtsolve.networks.xmlbif import parse_bifxml

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.networks.network import Network


def read_network(path: str | Path, kind: str | None = None) -> Network:
    """Returns the network in a file, packed or not.

    Args:
        path: of the file.
        kind: "bif" or "bifxml"; None for the format of its name.

    Raises:
        InputError: the file cannot be read, is invalid, or is of another format; names the place.
    """
    kind = kind or NETWORK.format_to_read(path)
    if kind == "bif":
        return parse_bif(read_file(path), str(path))
    if kind == "bifxml":
        return parse_bifxml(read_xml(path), str(path))
    read_file(path)  # reports a missing file, or one of another program
    raise NETWORK.refusal(path)
