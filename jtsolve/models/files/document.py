"""Model files: `jtsolve-model`, version 1. UTF-8 JSON; gzipped if the name ends in .gz.

Tables are base64 of little-endian 64-bit floats, the last member of a clique varying fastest, so that numbers
are exact. Reading is strict, and executes nothing.
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np

from jtsolve.core.files import read_file
from jtsolve.io.documents import decode_json, json_bytes
from jtsolve.models.files.parts import (
    ModelHead,
    TreeDocument,
    columns_from,
    file_error,
    tree_model,
    unpacked,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jtsolve.models.columns import RealColumn
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.models.files.parts import ColumnDocument
    from jtsolve.models.mixed import MixedTreeModel
    from jtsolve.models.mixture import Component, Mixture
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.models.protocol import Distribution

    AnyModel = JunctionTreeModel | FeatureTree | Mixture | MixedTreeModel

FORMAT = "jtsolve-model"
VERSION = 1


class ModelDocument(ModelHead, frozen=True, forbid_unknown_fields=True):
    """A jtsolve model file, version 1, of discrete variables: `tables` is aligned with `cliques`."""

    kind: Literal["discrete"]
    cliques: Annotated[list[list[str]], msgspec.Meta(min_length=1)]
    tree_edges: list[tuple[int, int]]
    tables: list[str]


class MixtureDocument(ModelHead, frozen=True, forbid_unknown_fields=True):
    """A jtsolve model file, version 1, of a mixture: `weights` is aligned with `components`."""

    kind: Literal["mixture"]
    weights: Annotated[list[float], msgspec.Meta(min_length=1)]
    components: Annotated[list[TreeDocument], msgspec.Meta(min_length=1)]


class CliqueDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A clique of a mixed model; see `models.inference.mixed.MixedClique`."""

    discrete: list[str]
    real: list[str]
    shared: int
    free: int
    parent: int
    weights: str
    intercepts: str
    slopes: str
    covariances: str


class MixedPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A component of a mixture of mixed models."""

    cliques: Annotated[list[CliqueDocument], msgspec.Meta(min_length=1)]


class MixedDocument(ModelHead, frozen=True, forbid_unknown_fields=True):
    """A jtsolve model file, version 1, of discrete and real variables: a strongly rooted junction tree."""

    kind: Literal["mixed"]
    cliques: Annotated[list[CliqueDocument], msgspec.Meta(min_length=1)]


class MixedMixtureDocument(ModelHead, frozen=True, forbid_unknown_fields=True):
    """A jtsolve model file, version 1, of a mixture of mixed models; see `MixtureDocument`."""

    kind: Literal["mixed-mixture"]
    weights: Annotated[list[float], msgspec.Meta(min_length=1)]
    components: Annotated[list[MixedPart], msgspec.Meta(min_length=1)]


class _Kind(msgspec.Struct):
    """The field that identifies the kind of document."""

    kind: Any = None


def model_to_json(model: Distribution) -> bytes:
    """Returns the model as UTF-8 JSON; equal models give equal bytes.

    The provenance of the components of a mixture is left out.
    """
    document = {
        "format": FORMAT,
        "version": VERSION,
        **model.to_document(),
        "provenance": _plain(model.provenance),
    }
    return json_bytes(document)


def read_model(path: str | Path) -> AnyModel:
    """Returns the model in a file.

    Raises:
        InputError: the file cannot be read, or violates the format; names the place.
        LimitError: its tables do not fit in memory.
    """
    source = str(path)
    data = read_file(path)
    try:
        kind = msgspec.json.decode(data, type=_Kind).kind
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        kind = None  # full decoding reports the error
    if kind == "features":
        from jtsolve.models.files.features import features_in

        return features_in(data, source)
    if kind == "mixed":
        mixed = decode_json(data, MixedDocument, source)
        return _mixed(mixed.variables, mixed.cliques, source, "$", mixed.provenance)
    if kind == "mixed-mixture":
        whole = decode_json(data, MixedMixtureDocument, source)
        each = [
            _mixed(whole.variables, part.cliques, source, f"$.components[{k}]", {})
            for k, part in enumerate(whole.components)
        ]
        return _weighted(whole, each, source)
    if kind == "mixture":
        document = decode_json(data, MixtureDocument, source)
        columns = columns_from(document.variables, source, "$")
        components = [
            tree_model(part, columns, source, f"$.components[{k}]", {})
            for k, part in enumerate(document.components)
        ]
        return _weighted(document, components, source)
    single = decode_json(data, ModelDocument, source)
    tree = TreeDocument(single.cliques, single.tree_edges, single.tables)
    return tree_model(tree, columns_from(single.variables, source, "$"), source, "$", single.provenance)


def _weighted(
    document: MixtureDocument | MixedMixtureDocument, components: Sequence[Component], source: str
) -> Mixture:
    from jtsolve.models.mixture import Mixture

    try:
        return Mixture(np.array(document.weights), tuple(components), MappingProxyType(document.provenance))
    except ValueError as error:
        raise file_error(source, "$.weights", str(error)) from None


def _real(entry: ColumnDocument, source: str, v: int) -> RealColumn:
    """Returns a real column, the v-th of the file."""
    from jtsolve.models.columns import RealColumn
    from jtsolve.tables.margins import Margin

    try:
        knots = entry.knots
        return RealColumn(
            entry.name, None if knots is None else Margin(*map(tuple, zip(*knots, strict=True)))
        )
    except (ValueError, TypeError) as error:
        raise file_error(source, f"$.variables[{v}].knots", str(error)) from None


def _mixed(
    variables: Sequence[ColumnDocument],
    listed: Sequence[CliqueDocument],
    source: str,
    at: str,
    provenance: dict[str, Any],
) -> MixedTreeModel:
    from jtsolve.models.inference.mixed import MixedClique
    from jtsolve.models.mixed import MixedTreeModel

    columns = tuple(
        _real(entry, source, v) if entry.states is None else columns_from([entry], source, "$")[0]
        for v, entry in enumerate(variables)
    )
    index = {column.name: v for v, column in enumerate(columns)}
    cliques = []
    for i, entry in enumerate(listed):
        place = f"{at}.cliques[{i}]"
        if unknown := [name for name in (*entry.discrete, *entry.real) if name not in index]:
            raise file_error(source, place, f"there is no variable '{unknown[0]}'")
        discrete, real = ([index[name] for name in names] for names in (entry.discrete, entry.real))
        dims = tuple(len(columns[v].states or ()) for v in discrete)
        if not 0 <= entry.free <= len(real):
            raise file_error(source, f"{place}.free", f"{entry.free} is not from 0 to {len(real)}")
        q, r, k = prod(dims), entry.free, len(real)
        shapes = {"weights": (q,), "intercepts": (q, r), "slopes": (q, r, k - r), "covariances": (q, r, r)}
        arrays = {
            key: unpacked(getattr(entry, key), shape, source, f"{place}.{key}")
            for key, shape in shapes.items()
        }
        cliques.append(
            MixedClique(tuple(discrete), tuple(real), entry.shared, r, entry.parent, dims, **arrays)
        )
    try:
        return MixedTreeModel(columns, tuple(cliques), MappingProxyType(provenance))
    except ValueError as error:
        raise file_error(source, f"{at}.cliques", str(error)) from None


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
