"""Files of feature trees: to the bit and back, refused with the place where something is wrong."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
import schemas
from hypothesis import given, settings
from hypothesis import strategies as st
from random_features import random_features
from random_models import columns_for

from jtsolve.errors import InputError, JtsolveError
from jtsolve.models.features.nodes import TableLeaf
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.files.document import model_to_json, read_model
from jtsolve.models.files.opening import write_model

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["m.json", "m.json.gz"])
@pytest.mark.parametrize("seed", range(12))
def test_a_feature_tree_comes_back_from_its_file_to_the_bit(tmp_path: Path, seed: int, name: str) -> None:
    tree = random_features(seed)
    write_model(tree, tmp_path / name)
    found = read_model(tmp_path / name)
    assert isinstance(found, FeatureTree)
    assert found.columns == tree.columns
    assert found.contexts == tree.contexts
    assert model_to_json(found) == model_to_json(tree)
    jsonschema.validate(json.loads(model_to_json(tree)), schemas.MODEL)


BASE = json.loads(model_to_json(random_features(9, 5)))


def changed(kind: str, **change: Any) -> dict[str, Any]:
    """Returns the document with fields of its first node of a kind changed."""
    document: dict[str, Any] = copy.deepcopy(BASE)
    node = next(node for node in document["nodes"] if node["node"] == kind)
    node.update(change)
    return document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (BASE | {"version": 2}, "version"),
        (BASE | {"nodes": []}, "nodes"),
        (BASE | {"unknown": 1}, "unknown"),
        (BASE | {"variables": [BASE["variables"][0]] * 5}, "occurs twice"),
        (BASE | {"variables": [{"name": "V0"}, *BASE["variables"][1:]]}, "need states"),
        (changed("split", node="sum"), "nodes"),
        (changed("split", feature=[]), "feature"),
        (changed("split", feature=[["X", "s0"]]), r"nodes\[\d+\].feature.*no variable 'X'"),
        (changed("split", feature=[["V0", "s9"]]), "of state 's9'"),
        (changed("split", feature=[["V0", "s0"], ["V0", "s0"]]), "distinct variables"),
        (changed("split", probability=1.5), r"node \d+ \(the root.*1.5"),
        (changed("split", kids=[0, 0]), "not later nodes"),
        (changed("product", kids=[99]), "not later nodes"),
        (changed("table", values="é"), r"nodes\[\d+\].values.*not base64"),
        (changed("table", values="AAAA"), "holds 3 bytes"),
        (changed("table", variables=[{"name": "X", "states": ["a"]}]), "not variables of the model"),
        (changed("tree", variables=[]), "needs some"),
        (changed("tree", tables=[]), "as many tables"),
    ],
)
def test_a_file_with_anything_wrong_is_refused(
    tmp_path: Path, document: dict[str, Any], message: str
) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_model(path)


def test_the_states_of_a_table_are_those_of_the_path(tmp_path: Path) -> None:
    columns = columns_for([3])
    document = json.loads(model_to_json(FeatureTree(columns, (TableLeaf((0,), np.full(3, 1 / 3)),))))
    document["nodes"][0]["variables"][0]["states"] = ["s2", "s1", "s0"]
    (tmp_path / "m.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match="other states"):
        read_model(tmp_path / "m.json")


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_a_damaged_file_gives_an_error_of_ours_or_the_model(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    text = bytearray(json.dumps(BASE).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.getbasetemp() / "damaged-features.json"
    path.write_bytes(bytes(text) or b"x")
    try:
        read_model(path)
    except JtsolveError:
        return


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_nodes_that_were_mixed_up_give_an_error_of_ours_or_a_distribution(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    document = copy.deepcopy(BASE)
    nodes = document["nodes"]
    node = data.draw(st.sampled_from([node for node in nodes if "kids" in node]))
    small = st.integers(-1, len(nodes))
    node["kids"] = [data.draw(small) for _ in node["kids"]]
    path = tmp_path_factory.getbasetemp() / "mixed-features.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    try:
        found = read_model(path)
    except JtsolveError:
        return
    assert isinstance(found, FeatureTree)
    rows = np.indices([column.arity for column in found.columns]).reshape(found.n, -1).astype(np.int32)
    assert np.exp(found.log_likelihood(rows)).sum() == pytest.approx(1, abs=1e-12)
