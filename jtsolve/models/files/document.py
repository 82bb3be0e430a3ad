"""Model files: `jtsolve-model`, version 1. UTF-8 JSON; gzipped if the name ends in .gz.

Tables are base64 of little-endian 64-bit floats, the last member of a clique varying fastest, so that they
round-trip exactly. Reading is strict, and executes nothing.
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
    """A variable: its states, and the cuts between them if they are ranges; real variables have neither."""

    name: Name
    states: list[str] | None = None
    cuts: list[float] | None = None


class ModelDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A jtsolve model file, version 1.

    `tables` is aligned with `cliques`: probabilities for kind "discrete"; covariances for kind "gaussian",
    whose means are `mean`.
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
    """The field that tells the two documents apart."""

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
    """Returns the model as UTF-8 JSON; equal models give equal bytes.

    Of a mixture, the provenance of the components is not written.
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
    """Writes a model file atomically.

    Raises:
        InputError: the file cannot be written.
    """
    data = model_to_json(model)
    write_atomically(path, pack(data) if str(path).endswith(".gz") else data)


def read_model(path: str | Path) -> AnyModel:
    """Returns the model in a file.

    Raises:
        InputError: the file cannot be read, or violates the format; names the place.
        LimitError: its tables do not fit in memory.
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
        raise _error(source, "$.mean", "only gaussian models have means; write null")
    return _discrete(part, columns, source, "$", document.provenance)


def _kind(data: bytes) -> Any:
    """Returns the declared kind of model, or None."""
    try:
        return msgspec.json.decode(data, type=_Kind).kind
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None  # full decoding reports the error


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
    """Returns the columns of a discrete model."""
    columns = []
    for v, entry in enumerate(variables):
        if entry.states is None:
            raise _error(source, f"$.variables[{v}]", "variables of a discrete model need states")
        try:
            cuts = None if entry.cuts is None else tuple(entry.cuts)
            columns.append(Column(entry.name, tuple(entry.states), cuts))
        except ValueError as error:
            raise _error(source, f"$.variables[{v}]", str(error)) from None
    return tuple(columns)


def _discrete(
    part: TreeDocument, columns: tuple[Column, ...], source: str, at: str, provenance: Mapping[str, Any]
) -> JunctionTreeModel:
    """Returns the discrete model at a place in the file."""
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
            raise _error(source, f"$.variables[{v}]", "variables of a gaussian model have no states")
    if document.mean is None:
        raise _error(source, "$.mean", "a gaussian model needs means")
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
    """Returns a tree of the file.

    Raises:
        InputError: a name is unknown or repeated, the cliques do not form a junction tree, or a table is
            missing.
    """
    index = {name: v for v, name in enumerate(names)}
    if len(index) < len(names):
        raise _error(source, "$.variables", "a name occurs twice")
    for i, clique in enumerate(part.cliques):
        places = [index.get(name, -1) for name in clique]
        if -1 in places or sorted(set(places)) != places:
            raise _error(source, f"{at}.cliques[{i}]", "its members are not variables in increasing order")
    cliques = tuple(varset(index[name] for name in clique) for clique in part.cliques)
    if len(set(cliques)) < len(cliques):
        raise _error(source, f"{at}.cliques", "a clique occurs twice")
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
        raise _error(source, place, "it is not base64") from None
    cells = int(np.prod(dims, dtype=np.float64))
    if len(data) != 8 * cells:
        raise _error(source, place, f"it holds {len(data)} bytes, but {cells} numbers take {8 * cells}")
    return np.frombuffer(data, dtype="<f8").astype(np.float64).reshape(dims)


def _plain(value: Any) -> Any:
    """Returns provenance as JSON values; others become strings."""
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
