"""The common parts of model files: columns, the tables of a junction tree, and arrays as base64."""

from __future__ import annotations

import base64
import binascii
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members, varset
from jtsolve.errors import InputError
from jtsolve.io.documents import Name
from jtsolve.models.columns import Column
from jtsolve.models.layout import require_room, table_cells
from jtsolve.models.model import JunctionTreeModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


class ColumnDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A variable: its states, and the cuts between them if they are ranges; real variables have neither.

    Those have the knots of the map to their normal scores, if they have one: values and scores, increasing.

    Rows may lack a hidden one. `kind` is that of its values: texts, unless they are equal as numbers, truth
    values or instants. With `gap`, the last state is that for a missing value.
    """

    name: Name
    states: list[str] | None = None
    cuts: list[float] | None = None
    hidden: bool = False
    kind: Literal["text", "number", "boolean", "time"] = "text"
    gap: bool = False
    knots: list[tuple[float, float]] | None = None


class ModelHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of every model file besides its kind."""

    format: Literal["jtsolve-model"]
    version: Literal[1]
    variables: Annotated[list[ColumnDocument], msgspec.Meta(min_length=1)]
    provenance: dict[str, Any]


class TreeDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A junction tree; `tables` is aligned with `cliques`."""

    cliques: Annotated[list[list[str]], msgspec.Meta(min_length=1)]
    tree_edges: list[tuple[int, int]]
    tables: list[str]


def columns_from(variables: Sequence[ColumnDocument], source: str, at: str) -> tuple[Column, ...]:
    """Returns the columns of a discrete model, or of a part of one, at a place in the file.

    Args:
        variables: of the file.
        source: the file, for errors.
        at: the place of the model in the file, as a JSON path.

    Raises:
        InputError: states are missing or invalid.
    """
    columns = []
    for v, entry in enumerate(variables):
        if entry.states is None:
            raise file_error(source, f"{at}.variables[{v}]", "variables of a discrete model need states")
        try:
            cuts = None if entry.cuts is None else tuple(entry.cuts)
            columns.append(Column(entry.name, tuple(entry.states), cuts, entry.hidden, entry.kind, entry.gap))
        except ValueError as error:
            raise file_error(source, f"{at}.variables[{v}]", str(error)) from None
    return tuple(columns)


def tree_model(
    part: TreeDocument, columns: tuple[Column, ...], source: str, at: str, provenance: Mapping[str, Any]
) -> JunctionTreeModel:
    """Returns the discrete junction tree at a place in the file.

    Args:
        part: the tree and its tables.
        columns: of the model.
        source: the file, for errors.
        at: the place of the model in the file, as a JSON path.
        provenance: of the model.

    Raises:
        InputError: a name is unknown or repeated, the cliques do not form a junction tree, or a table is
            invalid.
        LimitError: the tables do not fit in memory.
    """
    index = {column.name: v for v, column in enumerate(columns)}
    if len(index) < len(columns):
        raise file_error(source, "$.variables", "a name occurs twice")
    for i, listed in enumerate(part.cliques):
        places = [index.get(name, -1) for name in listed]
        if -1 in places or sorted(set(places)) != places:
            reason = "its members are not variables in increasing order"
            raise file_error(source, f"{at}.cliques[{i}]", reason)
    cliques = tuple(varset(index[name] for name in clique) for clique in part.cliques)
    if len(set(cliques)) < len(cliques):
        raise file_error(source, f"{at}.cliques", "a clique occurs twice")
    if len(part.tables) != len(cliques):
        raise file_error(source, f"{at}.tables", f"{len(cliques)} cliques need as many tables")
    try:
        tree = JunctionTree(len(columns), cliques, tuple(part.tree_edges))
    except ValueError as error:
        raise file_error(source, f"{at}.cliques", str(error)) from None
    arities = tuple(column.arity for column in columns)
    require_room(table_cells(tree, arities), source, "more memory, or a model of smaller treewidth")
    place = {clique: i for i, clique in enumerate(cliques)}
    tables = []
    for clique in tree.cliques:
        position = place[clique]
        dims = tuple(arities[v] for v in members(clique))
        tables.append(unpacked(part.tables[position], dims, source, f"{at}.tables[{position}]"))
    try:
        return JunctionTreeModel(columns, tree, tuple(tables), MappingProxyType(dict(provenance)))
    except ValueError as error:
        raise file_error(source, f"{at}.tables", str(error)) from None


def unpacked(text: str, dims: tuple[int, ...], source: str, place: str) -> NDArray[np.float64]:
    """Returns an array of a file, of shape `dims`; its size is checked first.

    Args:
        text: base64.
        dims: the shape.
        source: the file, for errors.
        place: that of the array in the file, as a JSON path.

    Raises:
        InputError: the text is not base64, or of another size.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise file_error(source, place, "it is not base64") from None
    cells = int(np.prod(dims, dtype=np.float64))
    if len(data) != 8 * cells:
        raise file_error(source, place, f"it holds {len(data)} bytes, but {cells} numbers need {8 * cells}")
    return np.frombuffer(data, dtype="<f8").astype(np.float64).reshape(dims)


def file_error(source: str, place: str, reason: str) -> InputError:
    """Returns the error for a place in a file.

    Args:
        source: the file.
        place: that of the fault in the file, as a JSON path.
        reason: the fault.
    """
    return InputError(source, place, reason, "write the file again with jtsolve")
