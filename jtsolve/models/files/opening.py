"""Models and networks in files, by suffix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jtsolve.models.files.document import read_model
from jtsolve.models.files.uai import read_uai
from jtsolve.networks.bif import read_network

if TYPE_CHECKING:
    from jtsolve.models.files.document import AnyModel
    from jtsolve.networks.network import Network


def open_model(path: str | Path) -> AnyModel | Network:
    """Returns the Bayesian network in a .bif file, and the model in any other; .uai is triangulated.

    Raises:
        InputError: the file cannot be read, or does not match its suffix.
        LimitError: the tables need more memory than there is.
    """
    kind = Path(path).name.removesuffix(".gz").rpartition(".")[2].lower()
    if kind == "bif":
        return read_network(path)
    return read_uai(path) if kind == "uai" else read_model(path)
