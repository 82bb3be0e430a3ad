"""Models and networks in files, by suffix, and the texts that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jtsolve.core.files import write_atomically
from jtsolve.errors import ChoiceError
from jtsolve.models.layout import require_room

if TYPE_CHECKING:
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.models.protocol import Distribution

FORMATS = ("json", "bif", "bifxml", "uai", "td", "dot", "log-linear", "circuit")
_TEXT_PER_CELL = 60
"""Bytes for each cell of a table while the text is put together."""


def open_model(path: str | Path) -> Distribution:
    """Returns the Bayesian network in a .bif file, and the model in any other; .uai is triangulated.

    Raises:
        InputError: the file cannot be read, or does not match its suffix.
        LimitError: the tables need more memory than there is.
    """
    kind = _suffix(path)
    if kind == "bif":
        from jtsolve.models.network import NetworkModel
        from jtsolve.networks.bif import read_network

        return NetworkModel(read_network(path))
    if kind == "uai":
        from jtsolve.models.files.uai import read_uai

        return read_uai(path)
    from jtsolve.models.files.document import read_model

    return read_model(path)


def write_model(model: Distribution, path: str | Path) -> None:
    """Writes a model atomically, in the format that the suffix names; gzipped if it ends in .gz.

    Raises:
        ChoiceError: there is no such format, or it does not suit the model.
        InputError: the file cannot be written.
        LimitError: see `exported`.
    """
    kind = _suffix(path)
    if kind not in FORMATS:
        listed = ", ".join(f".{one}" for one in FORMATS)
        raise ChoiceError(f"{path}: a model is written as {listed}, also with .gz; give such a name")
    write_atomically(path, exported(model, kind).encode())


def exported(model: Distribution, to: str, root: int = 0) -> str:
    """Returns a model in our format, or one of other programs.

    Args:
        model: the distribution.
        to: one of `FORMATS`.
        root: the root clique of bif and bifxml, by its position.

    Raises:
        ChoiceError: there is no such format, or it does not suit the model.
        LimitError: the format needs a junction tree, or a text, too large for the memory; raised before any
            work.
    """
    if to not in FORMATS:
        raise ChoiceError(f"there is no format '{to}'; there are {', '.join(FORMATS)}")
    if to == "td":
        from jtsolve.models.files.pace import to_pace

        return to_pace(model.structure(to))
    if to == "dot":
        return _dot(model)
    if to in ("bif", "bifxml"):
        from jtsolve.networks.write import to_bif, to_bifxml

        return (to_bif if to == "bif" else to_bifxml)(model.network(to, root))
    if to in ("log-linear", "circuit"):
        from jtsolve.models.features.export import circuit_text, log_linear_text

        return (circuit_text if to == "circuit" else log_linear_text)(_features(model, to))
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


def _features(model: Distribution, what: str) -> FeatureTree:
    """Returns a feature tree; a junction tree of states as its feature graph."""
    from jtsolve.models.features.convert import feature_graph
    from jtsolve.models.features.tree import FeatureTree

    return model if isinstance(model, FeatureTree) else feature_graph(model.junction_tree(what))


def _suffix(path: str | Path) -> str:
    return Path(path).name.removesuffix(".gz").rpartition(".")[2].lower()
