"""Model files of kind "features": the nodes of a feature tree, the root first."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from jtsolve.io.documents import decode_json
from jtsolve.models.features.context import Literal as FeatureLiteral
from jtsolve.models.features.nodes import Product, Split, TableLeaf, TreeLeaf
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.features.validity import leaf_columns
from jtsolve.models.files.parts import (
    ColumnDocument,
    ModelHead,
    TreeDocument,
    columns_from,
    file_error,
    tree_model,
    unpacked,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.models.columns import Column
    from jtsolve.models.features.nodes import Node


class SplitDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="node", tag="split"):
    """A split: literals (variable, state), their joint probability, and the kids where they fail and hold."""

    feature: Annotated[list[tuple[str, str]], msgspec.Meta(min_length=1)]
    probability: float
    kids: tuple[int, int]


class ProductDocument(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="node", tag="product"
):
    """A product of independent parts; without kids where every variable is fixed."""

    kids: list[int]


class TableLeafDocument(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="node", tag="table"
):
    """A leaf: a table over the open variables with the states left."""

    variables: list[ColumnDocument]
    values: str


class TreeLeafDocument(TreeDocument, frozen=True, forbid_unknown_fields=True, tag_field="node", tag="tree"):
    """A leaf: a junction tree over the open variables with the states left."""

    variables: list[ColumnDocument]


NodeDocument = SplitDocument | ProductDocument | TableLeafDocument | TreeLeafDocument


class FeaturesDocument(ModelHead, frozen=True, forbid_unknown_fields=True):
    """A jtsolve model file, version 1, of a feature tree: the first node is the root, kids come later."""

    kind: Literal["features"]
    nodes: Annotated[list[NodeDocument], msgspec.Meta(min_length=1)]


def features_in(data: bytes, source: str) -> FeatureTree:
    """Returns the feature tree in a file.

    Raises:
        InputError: it is not valid; names the place, and the path to the node.
        LimitError: its tables do not fit in memory.
    """
    document, at = decode_json(data, FeaturesDocument, source), "$.nodes"
    columns = columns_from(document.variables, source, "$")
    if len({column.name for column in columns}) < len(columns):
        raise file_error(source, "$.variables", "a name occurs twice")
    place = {column.name: v for v, column in enumerate(columns)}
    nodes = [_node(entry, columns, place, source, f"{at}[{i}]") for i, entry in enumerate(document.nodes)]
    try:
        tree = FeatureTree(columns, tuple(nodes), MappingProxyType(document.provenance))
    except ValueError as error:
        raise file_error(source, at, str(error)) from None
    for i, (node, entry) in enumerate(zip(nodes, document.nodes, strict=True)):
        if isinstance(node, TableLeaf) and isinstance(entry, TableLeafDocument):
            left = [column.states for column in leaf_columns(columns, node.variables, tree.contexts[i])]
            if [tuple(variable.states or ()) for variable in entry.variables] != left:
                reason = f"its variables have other states than the path leaves, {left}"
                raise file_error(source, f"{at}[{i}].variables", reason)
    return tree


def _node(
    entry: NodeDocument, columns: Sequence[Column], place: dict[str, int], source: str, at: str
) -> Node:
    """Returns a node of the file."""
    if isinstance(entry, ProductDocument):
        return Product(tuple(entry.kids))
    if isinstance(entry, SplitDocument):
        feature = []
        for name, state in entry.feature:
            if name not in place or state not in columns[place[name]].states:
                raise file_error(source, f"{at}.feature", f"there is no variable '{name}' of state '{state}'")
            feature.append(FeatureLiteral(place[name], columns[place[name]].states.index(state)))
        try:
            return Split(tuple(feature), entry.probability, entry.kids)
        except ValueError as error:
            raise file_error(source, f"{at}.feature", str(error)) from None
    own = columns_from(entry.variables, source, at)
    variables = tuple(place.get(column.name, -1) for column in own)
    if -1 in variables or tuple(sorted(set(variables))) != variables:
        raise file_error(source, f"{at}.variables", "they are not variables of the model in increasing order")
    if isinstance(entry, TableLeafDocument):
        dims = tuple(column.arity for column in own)
        return TableLeaf(variables, unpacked(entry.values, dims, source, f"{at}.values"))
    if not own:
        raise file_error(source, f"{at}.variables", "a junction tree needs some")
    return TreeLeaf(variables, tree_model(entry, own, source, at, {}))
