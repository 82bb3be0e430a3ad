"""Model files: `jtsolve-model`, version 1. JSON, UTF-8; packed if the name ends in .gz.

Tables are base64 of 64-bit floating-point numbers, least byte first, the last member of a clique fastest, so
that they come back to the bit. Reading is strict: nothing wrong in a file goes unnoticed, and nothing in it
is executed.
"""

from __future__ import annotations

import base64
import binascii
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np

from jtsolve.documents import Name, decode, lay_out
from jtsolve.errors import InputError
from jtsolve.files import pack, read_file, write_atomically
from jtsolve.models.columns import Column
from jtsolve.models.gaussian import GaussianTreeModel
from jtsolve.models.layout import require_room, table_cells
from jtsolve.models.model import JunctionTreeModel
from jtsolve.tree import JunctionTree
from jtsolve.varset import members, varset

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

FORMAT = "jtsolve-model"
VERSION = 1


class ColumnDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A variable: its states, and the cuts between them if they are ranges; a real number has none."""

    name: Name
    states: list[str] | None = None
    cuts: list[float] | None = None


class ModelDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A jtsolve model file, version 1.

    `tables` is aligned with `cliques`: probabilities of kind "discrete", covariances of kind "gaussian",
    whose expectations are `mean`.
    """

    format: Literal["jtsolve-model"]
    version: Literal[1]
    kind: Literal["discrete", "gaussian"]
    variables: Annotated[list[ColumnDocument], msgspec.Meta(min_length=1)]
    cliques: Annotated[list[list[str]], msgspec.Meta(min_length=1)]
    tree_edges: list[tuple[int, int]]
    tables: list[str]
    mean: str | None
    provenance: dict[str, Any]


def model_schema() -> dict[str, Any]:
    """Returns the JSON Schema of model files; docs/schema/model.schema.json is a copy."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **msgspec.json.schema(ModelDocument),
    }


def model_to_json(model: JunctionTreeModel | GaussianTreeModel) -> bytes:
    """Returns the model as a JSON text, UTF-8; equal models give equal bytes."""
    names = model.names
    if isinstance(model, GaussianTreeModel):
        kind, tables, mean = "gaussian", model.covariances, _packed(model.mean)
    else:
        kind, tables, mean = "discrete", model.tables, None
    document = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "variables": [_column(entry) for entry in model.columns],
        "cliques": [[names[v] for v in members(clique)] for clique in model.tree.cliques],
        "tree_edges": [list(edge) for edge in model.tree.edges],
        "tables": [_packed(table) for table in tables],
        "mean": mean,
        "provenance": _plain(model.provenance),
    }
    return (lay_out(document) + "\n").encode()


def write_model(model: JunctionTreeModel | GaussianTreeModel, path: str | Path) -> None:
    """Writes a model file, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    data = model_to_json(model)
    write_atomically(path, pack(data) if str(path).endswith(".gz") else data)


def read_model(path: str | Path) -> JunctionTreeModel | GaussianTreeModel:
    """Returns the model in a file.

    Raises:
        InputError: the file cannot be read, or is not what the format asks for; names the place.
        LimitError: its tables need more memory than there is.
    """
    source = str(path)
    document = decode(read_file(path), ModelDocument, source)
    tree = _tree(document, source)
    discrete = document.kind == "discrete"
    for v, entry in enumerate(document.variables):
        if (entry.states is not None) != discrete or (entry.cuts is not None and not discrete):
            word = "lack" if discrete else "have"
            raise _error(
                source, f"$.variables[{v}]", f"variables of a {document.kind} model do not {word} states"
            )
    if len(document.tables) != len(tree.cliques):
        raise _error(source, "$.tables", f"{len(tree.cliques)} cliques need as many tables")
    if (document.mean is None) != discrete:
        raise _error(source, "$.mean", "expectations are for gaussian models, which need them")
    return (_discrete if discrete else _gaussian)(document, tree, source)


def _discrete(document: ModelDocument, tree: JunctionTree, source: str) -> JunctionTreeModel:
    columns = []
    for v, entry in enumerate(document.variables):
        try:
            cuts = None if entry.cuts is None else tuple(entry.cuts)
            columns.append(Column(entry.name, tuple(entry.states or ()), cuts))
        except ValueError as error:
            raise _error(source, f"$.variables[{v}]", str(error)) from None
    arities = tuple(column.arity for column in columns)
    require_room(table_cells(tree, arities), source, "more memory, or a model of smaller treewidth")
    tables = []
    for i, position in enumerate(_order(document, tree)):
        dims = tuple(arities[v] for v in members(tree.cliques[i]))
        tables.append(_unpacked(document.tables[position], dims, source, f"$.tables[{position}]"))
    try:
        return JunctionTreeModel(tuple(columns), tree, tuple(tables), MappingProxyType(document.provenance))
    except ValueError as error:
        raise _error(source, "$.tables", str(error)) from None


def _gaussian(document: ModelDocument, tree: JunctionTree, source: str) -> GaussianTreeModel:
    names = tuple(entry.name for entry in document.variables)
    tables = []
    for i, position in enumerate(_order(document, tree)):
        size = tree.cliques[i].bit_count()
        tables.append(_unpacked(document.tables[position], (size, size), source, f"$.tables[{position}]"))
    mean = _unpacked(document.mean or "", (len(names),), source, "$.mean")
    try:
        return GaussianTreeModel(names, tree, mean, tuple(tables), MappingProxyType(document.provenance))
    except ValueError as error:
        raise _error(source, "$.tables", str(error)) from None


def _tree(document: ModelDocument, source: str) -> JunctionTree:
    """Returns the tree of a file.

    Raises:
        InputError: a name is unknown or there twice, or the cliques are no junction tree.
    """
    names = [entry.name for entry in document.variables]
    index = {name: v for v, name in enumerate(names)}
    if len(index) < len(names):
        raise _error(source, "$.variables", "a name is there twice")
    for i, clique in enumerate(document.cliques):
        places = [index.get(name, -1) for name in clique]
        if -1 in places or sorted(set(places)) != places:
            raise _error(source, f"$.cliques[{i}]", "the names are not variables, in their order")
    cliques = tuple(varset(index[name] for name in clique) for clique in document.cliques)
    if len(set(cliques)) < len(cliques):
        raise _error(source, "$.cliques", "a clique is there twice")
    try:
        return JunctionTree(len(names), cliques, tuple(document.tree_edges))
    except ValueError as error:
        raise _error(source, "$.cliques", str(error)) from None


def _order(document: ModelDocument, tree: JunctionTree) -> Sequence[int]:
    """Returns for each clique of the tree its position in the file."""
    index = {entry.name: v for v, entry in enumerate(document.variables)}
    position = {varset(index[name] for name in clique): i for i, clique in enumerate(document.cliques)}
    return [position[clique] for clique in tree.cliques]


def _column(entry: Column | str) -> dict[str, Any]:
    if isinstance(entry, str):
        return {"name": entry}
    cuts = {} if entry.cuts is None else {"cuts": list(entry.cuts)}
    return {"name": entry.name, "states": list(entry.states), **cuts}


def _packed(array: NDArray[np.float64]) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode("ascii")


def _unpacked(text: str, dims: tuple[int, ...], source: str, place: str) -> NDArray[np.float64]:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _error(source, place, "it is no base64") from None
    cells = int(np.prod(dims, dtype=np.float64))
    if len(data) != 8 * cells:
        raise _error(source, place, f"it holds {len(data)} bytes, but {cells} numbers take {8 * cells}")
    return np.frombuffer(data, dtype="<f8").astype(np.float64).reshape(dims)


def _plain(value: Any) -> Any:
    """Returns remarks as JSON has them; what JSON has not is written as text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else repr(value)
    if hasattr(value, "items"):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return _plain(value.item()) if hasattr(value, "item") else str(value)


def _error(source: str, place: str, reason: str) -> InputError:
    return InputError(source, place, reason, "write the file again with jtsolve")
