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

from jtsolve.core.files import pack, read_file, write_atomically
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members, varset
from jtsolve.errors import InputError
from jtsolve.io.documents import Name, decode, lay_out
from jtsolve.models.columns import Column
from jtsolve.models.gaussian import GaussianTreeModel
from jtsolve.models.layout import require_room, table_cells
from jtsolve.models.mixture import Mixture
from jtsolve.models.model import JunctionTreeModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    AnyModel = JunctionTreeModel | Mixture | GaussianTreeModel

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


class TreeDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A component of a mixture: a tree over all its variables; `tables` is aligned with `cliques`."""

    cliques: Annotated[list[list[str]], msgspec.Meta(min_length=1)]
    tree_edges: list[tuple[int, int]]
    tables: list[str]


class MixtureDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A jtsolve model file, version 1, of a mixture: `weights` is aligned with `components`."""

    format: Literal["jtsolve-model"]
    version: Literal[1]
    kind: Literal["mixture"]
    variables: Annotated[list[ColumnDocument], msgspec.Meta(min_length=1)]
    weights: Annotated[list[float], msgspec.Meta(min_length=1)]
    components: Annotated[list[TreeDocument], msgspec.Meta(min_length=1)]
    provenance: dict[str, Any]


class _Kind(msgspec.Struct):
    """What tells the two documents apart."""

    kind: Any = None


def model_schema() -> dict[str, Any]:
    """Returns the JSON Schema of model files; docs/schema/model.schema.json is a copy."""
    either, definitions = msgspec.json.schema_components(
        (ModelDocument, MixtureDocument), ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "anyOf": list(either),
        "$defs": definitions,
    }


def model_to_json(model: AnyModel) -> bytes:
    """Returns the model as a JSON text, UTF-8; equal models give equal bytes.

    The remarks on where a mixture is from are written, and those of its components are not.
    """
    contents = _of_mixture(model) if isinstance(model, Mixture) else _of_tree(model)
    document = {"format": FORMAT, "version": VERSION, **contents, "provenance": _plain(model.provenance)}
    return (lay_out(document) + "\n").encode()


def _of_mixture(mixture: Mixture) -> dict[str, Any]:
    return {
        "kind": "mixture",
        "variables": [_column(entry) for entry in mixture.columns],
        "weights": mixture.weights.tolist(),
        "components": [_of_parts(one.tree, one.names, one.tables) for one in mixture.components],
    }


def _of_tree(model: JunctionTreeModel | GaussianTreeModel) -> dict[str, Any]:
    if isinstance(model, GaussianTreeModel):
        kind, tables, mean = "gaussian", model.covariances, _packed(model.mean)
    else:
        kind, tables, mean = "discrete", model.tables, None
    return {
        "kind": kind,
        "variables": [_column(entry) for entry in model.columns],
        **_of_parts(model.tree, model.names, tables),
        "mean": mean,
    }


def _of_parts(
    tree: JunctionTree, names: Sequence[str], tables: Sequence[NDArray[np.float64]]
) -> dict[str, Any]:
    return {
        "cliques": [[names[v] for v in members(clique)] for clique in tree.cliques],
        "tree_edges": [list(edge) for edge in tree.edges],
        "tables": [_packed(table) for table in tables],
    }


def write_model(model: AnyModel, path: str | Path) -> None:
    """Writes a model file, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    data = model_to_json(model)
    write_atomically(path, pack(data) if str(path).endswith(".gz") else data)


def read_model(path: str | Path) -> AnyModel:
    """Returns the model in a file.

    Raises:
        InputError: the file cannot be read, or is not what the format asks for; names the place.
        LimitError: its tables need more memory than there is.
    """
    source = str(path)
    data = read_file(path)
    if _kind(data) == "mixture":
        return _mixture(decode(data, MixtureDocument, source), source)
    document = decode(data, ModelDocument, source)
    part = TreeDocument(document.cliques, document.tree_edges, document.tables)
    if document.kind == "gaussian":
        return _gaussian(document, part, source)
    columns = _columns(document.variables, source)
    if document.mean is not None:
        raise _error(source, "$.mean", "expectations are for gaussian models; write null")
    return _discrete(part, columns, source, "$", document.provenance)


def _kind(data: bytes) -> Any:
    """Returns the kind of model that a text says it has; None if it is not that far in order."""
    try:
        return msgspec.json.decode(data, type=_Kind).kind
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None  # decoding it in full says what is wrong


def _mixture(document: MixtureDocument, source: str) -> Mixture:
    columns = _columns(document.variables, source)
    components = tuple(
        _discrete(part, columns, source, f"$.components[{k}]", {})
        for k, part in enumerate(document.components)
    )
    try:
        return Mixture(np.array(document.weights), components, MappingProxyType(document.provenance))
    except ValueError as error:
        raise _error(source, "$.weights", str(error)) from None


def _columns(variables: Sequence[ColumnDocument], source: str) -> tuple[Column, ...]:
    """Returns the columns of a model of states."""
    columns = []
    for v, entry in enumerate(variables):
        if entry.states is None:
            raise _error(source, f"$.variables[{v}]", "variables of a model of states do not lack states")
        try:
            cuts = None if entry.cuts is None else tuple(entry.cuts)
            columns.append(Column(entry.name, tuple(entry.states), cuts))
        except ValueError as error:
            raise _error(source, f"$.variables[{v}]", str(error)) from None
    return tuple(columns)


def _discrete(
    part: TreeDocument, columns: tuple[Column, ...], source: str, at: str, provenance: Mapping[str, Any]
) -> JunctionTreeModel:
    """Returns the model of a tree with tables that stands at a place of the file."""
    names = [column.name for column in columns]
    tree = _tree(part, names, source, at)
    arities = tuple(column.arity for column in columns)
    require_room(table_cells(tree, arities), source, "more memory, or a model of smaller treewidth")
    tables = []
    for i, position in enumerate(_order(part, names, tree)):
        dims = tuple(arities[v] for v in members(tree.cliques[i]))
        tables.append(_unpacked(part.tables[position], dims, source, f"{at}.tables[{position}]"))
    try:
        return JunctionTreeModel(columns, tree, tuple(tables), MappingProxyType(dict(provenance)))
    except ValueError as error:
        raise _error(source, f"{at}.tables", str(error)) from None


def _gaussian(document: ModelDocument, part: TreeDocument, source: str) -> GaussianTreeModel:
    for v, entry in enumerate(document.variables):
        if entry.states is not None or entry.cuts is not None:
            raise _error(source, f"$.variables[{v}]", "variables of a gaussian model do not have states")
    if document.mean is None:
        raise _error(source, "$.mean", "a gaussian model needs its expectations")
    names = tuple(entry.name for entry in document.variables)
    tree = _tree(part, names, source, "$")
    tables = []
    for i, position in enumerate(_order(part, names, tree)):
        size = tree.cliques[i].bit_count()
        tables.append(_unpacked(part.tables[position], (size, size), source, f"$.tables[{position}]"))
    mean = _unpacked(document.mean, (len(names),), source, "$.mean")
    try:
        return GaussianTreeModel(names, tree, mean, tuple(tables), MappingProxyType(document.provenance))
    except ValueError as error:
        raise _error(source, "$.tables", str(error)) from None


def _tree(part: TreeDocument, names: Sequence[str], source: str, at: str) -> JunctionTree:
    """Returns a tree of a file.

    Raises:
        InputError: a name is unknown or there twice, the cliques are no junction tree, or tables lack.
    """
    index = {name: v for v, name in enumerate(names)}
    if len(index) < len(names):
        raise _error(source, "$.variables", "a name is there twice")
    for i, clique in enumerate(part.cliques):
        places = [index.get(name, -1) for name in clique]
        if -1 in places or sorted(set(places)) != places:
            raise _error(source, f"{at}.cliques[{i}]", "the names are not variables, in their order")
    cliques = tuple(varset(index[name] for name in clique) for clique in part.cliques)
    if len(set(cliques)) < len(cliques):
        raise _error(source, f"{at}.cliques", "a clique is there twice")
    if len(part.tables) != len(cliques):
        raise _error(source, f"{at}.tables", f"{len(cliques)} cliques need as many tables")
    try:
        return JunctionTree(len(names), cliques, tuple(part.tree_edges))
    except ValueError as error:
        raise _error(source, f"{at}.cliques", str(error)) from None


def _order(part: TreeDocument, names: Sequence[str], tree: JunctionTree) -> Sequence[int]:
    """Returns for each clique of the tree its position in the file."""
    index = {name: v for v, name in enumerate(names)}
    position = {varset(index[name] for name in clique): i for i, clique in enumerate(part.cliques)}
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
