"""Models in files and as objects of other programs: round trips, other readers, and strictness."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import networkx as nx
import numpy as np
import pytest
import schemas
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import repeatable
from random_models import brute, chain, columns_for, models, projected, random_model, random_tree

from jtsolve.cli import run
from jtsolve.core.tree import JunctionTree
from jtsolve.core.triangulation import triangulated
from jtsolve.core.varset import members
from jtsolve.errors import ChoiceError, InputError, JtsolveError, LimitError
from jtsolve.io.documents import indented_json
from jtsolve.models.columns import Column
from jtsolve.models.files.document import model_to_json, read_model
from jtsolve.models.files.interop import (
    from_networkx,
    from_pgmpy,
    from_pyagrum,
    to_networkx,
    to_pgmpy,
    to_pyagrum,
)
from jtsolve.models.files.opening import to_pace, write_model
from jtsolve.models.files.uai import read_uai, to_uai
from jtsolve.models.framed import Model
from jtsolve.models.model import JunctionTreeModel
from jtsolve.models.network import from_network
from jtsolve.models.triangulation import Factor, calibrated
from jtsolve.networks.files import read_network
from jtsolve.networks.names import distinct_words
from jtsolve.networks.write import to_bif
from jtsolve.networks.xmlbif import to_bifxml
from jtsolve.tables.values import text_label

if TYPE_CHECKING:
    from jtsolve.networks.network import Network, NetworkNode

ROOT = Path(__file__).parents[1]


def library(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


def same(a: JunctionTreeModel, b: JunctionTreeModel, tolerance: float = 1e-12) -> None:
    """Both have the same columns in some order, and the same distribution."""
    order = [b.names.index(name) for name in a.names]
    joint = np.transpose(brute(b), order)
    for v, column in enumerate(a.columns):
        states = b.columns[order[v]].states
        joint = np.take(joint, [states.index(state) for state in column.states], axis=v)
    np.testing.assert_allclose(joint, brute(a), atol=1e-9)
    for column, single in zip(a.columns, a.marginals(), strict=True):
        v = b.names.index(column.name)
        assert set(b.columns[v].states) == set(column.states)
        other = dict(zip(b.columns[v].states, b.marginals()[v], strict=True))
        np.testing.assert_allclose([other[s] for s in column.states], single, atol=tolerance)


def dyadic_model(seed: int) -> JunctionTreeModel:
    """A model whose conditional probabilities are sixteenths: exact in single precision too."""
    generator = np.random.default_rng(seed)
    random = repeatable(seed)
    tree = random_tree(6, 2, random)
    factors = []
    seen = 0
    for clique in (tree.cliques[i] for i in _outwards(tree)):
        inside = list(members(clique))
        for v in inside:
            if seen >> v & 1:
                continue
            parents = [u for u in inside if seen >> u & 1]
            rows = np.array([_sixteenths(generator) for _ in range(2 ** len(parents))])
            factors.append(Factor((*parents, v), rows.reshape([2] * len(parents) + [2])))
            seen |= 1 << v
    return calibrated(columns_for([2] * 6), factors, tree=tree).model


def _sixteenths(generator: np.random.Generator) -> list[float]:
    k = int(generator.integers(1, 16))
    return [k / 16, 1 - k / 16]


def _outwards(tree: JunctionTree) -> list[int]:
    graph = nx.Graph(tree.edges)
    graph.add_nodes_from(range(len(tree.cliques)))
    return list(nx.bfs_tree(graph, 0))


# Our own format


@pytest.mark.parametrize("name", ["model.json", "model.json.gz"])
@pytest.mark.parametrize("seed", range(8))
def test_a_model_comes_back_from_its_file_to_the_bit(tmp_path: Path, seed: int, name: str) -> None:
    model = random_model(seed)
    write_model(model, tmp_path / name)
    found = read_model(tmp_path / name)
    assert isinstance(found, JunctionTreeModel)
    assert (found.columns, found.tree) == (model.columns, model.tree)
    assert (found.values == model.values).all()
    assert model_to_json(found) == model_to_json(model)


def test_cuts_and_remarks_are_kept(tmp_path: Path) -> None:
    columns = (Column("a", ("<= 1", "> 1"), (1.0,)),)
    remarks = {
        "n": np.int64(3),
        "x": float("inf"),
        "list": (1, np.float64(2)),
        "path": tmp_path,
        "d": {"k": None},
    }
    model = JunctionTreeModel(columns, JunctionTree(1, (1,), ()), (np.array([0.25, 0.75]),), remarks)
    write_model(model, tmp_path / "m.json")
    found = read_model(tmp_path / "m.json")
    assert found.columns == columns
    expected = {"n": 3, "x": "inf", "list": [1, 2.0], "path": str(tmp_path), "d": {"k": None}}
    assert dict(found.provenance) == expected


def test_model_files_follow_the_committed_schema_which_is_the_one_of_the_code(tmp_path: Path) -> None:
    committed = ROOT / "docs" / "schema" / "model.schema.json"
    assert committed.read_text(encoding="utf-8") == indented_json(schemas.MODEL) + "\n"
    write_model(random_model(2), tmp_path / "m.json")
    jsonschema.validate(json.loads((tmp_path / "m.json").read_bytes()), schemas.MODEL)


BASE = json.loads(model_to_json(chain(3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "format"),
        ({"version": 2}, "version"),
        ({"kind": "gaussian"}, "kind"),
        ({"unknown": 1}, "unknown"),
        ({"variables": [{"name": "V0"}, *BASE["variables"][1:]]}, "need states"),
        ({"variables": [BASE["variables"][0]] * 3}, "occurs twice"),
        ({"variables": [{"name": "V0", "states": ["x", "x"]}, *BASE["variables"][1:]]}, "distinct states"),
        ({"cliques": [["V0", "X"], ["V1", "V2"]]}, "not variables in increasing order"),
        ({"cliques": [["V1", "V0"], ["V1", "V2"]]}, "not variables in increasing order"),
        ({"cliques": [["V0", "V1"], ["V0", "V1"]]}, "clique occurs twice"),
        ({"cliques": [["V0", "V1"], ["V2"]], "tree_edges": []}, "tree edges"),
        ({"tables": BASE["tables"][:1]}, "as many tables"),
        ({"tables": ["AAAA", BASE["tables"][1]]}, "holds 3 bytes"),
        ({"tables": ["not base64!", BASE["tables"][1]]}, "not base64"),
        ({"tables": ["é", BASE["tables"][1]]}, "not base64"),
        ({"tables": [BASE["tables"][0]] * 2}, "agree"),
    ],
)
def test_a_file_with_anything_wrong_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(BASE | change), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_model(path)


def test_tables_beyond_the_memory_are_refused_before_they_are_read(tmp_path: Path) -> None:
    variables = [{"name": f"V{i}", "states": ["a", "b"]} for i in range(60)]
    change = {
        "variables": variables,
        "cliques": [[f"V{i}" for i in range(60)]],
        "tree_edges": [],
        "tables": [""],
    }
    (tmp_path / "m.json").write_text(json.dumps(BASE | change), encoding="utf-8")
    with pytest.raises(LimitError, match="GB of memory"):
        read_model(tmp_path / "m.json")


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_a_damaged_file_gives_an_error_of_ours_or_the_model(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    text = bytearray(model_to_json(chain(3)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_bytes(bytes(text) or b"x")
    try:
        read_model(path)
    except JtsolveError:
        return


# Bayesian networks


@given(models())
@settings(deadline=None, max_examples=40)
def test_a_network_has_the_distribution_of_the_model(model: JunctionTreeModel) -> None:
    joint = brute(model)
    network = model.network("a test")
    product = np.ones(joint.shape)
    for v, node in enumerate(network.nodes):
        dims = [model.columns[u].arity for u in (*node.parents, v)]
        table = node.table.reshape(dims)
        order = np.argsort((*node.parents, v))
        shape = [model.columns[u].arity if u in (*node.parents, v) else 1 for u in range(model.n)]
        product = product * np.transpose(table, order).reshape(shape)
    np.testing.assert_allclose(product, joint, atol=1e-12)
    if (joint > 0).all():
        same(model, from_network(network))


@pytest.mark.parametrize("seed", range(6))
def test_bif_files_are_read_by_our_reader_to_the_last_digit(tmp_path: Path, seed: int) -> None:
    model = random_model(seed)
    path = tmp_path / "model.bif"
    path.write_text(to_bif(model.network("a test")), encoding="utf-8")
    same(model, from_network(read_network(path)))


@pytest.mark.parametrize("seed", [2])
def test_bif_files_are_read_by_pgmpy_and_pyagrum_with_the_same_marginals(tmp_path: Path, seed: int) -> None:
    gum = library("pyagrum")
    readers = library("pgmpy.readwrite")
    model = dyadic_model(seed)  # pyAgrum reads the numbers of BIF in single precision
    path = tmp_path / "model.bif"
    path.write_text(to_bif(model.network("a test")), encoding="utf-8")
    same(model, from_pyagrum(gum.loadBN(str(path))).junction_tree("a test"), 1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(model, from_pgmpy(readers.BIFReader(str(path)).get_model()).junction_tree("a test"), 1e-9)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_xmlbif_files_are_read_by_pgmpy_and_pyagrum_with_the_same_marginals(
    tmp_path: Path, seed: int
) -> None:
    gum = library("pyagrum")
    readers = library("pgmpy.readwrite")
    model = random_model(seed)
    path = tmp_path / "model.bifxml"
    path.write_text(to_bifxml(model.network("a test")), encoding="utf-8")
    same(model, from_pyagrum(gum.loadBN(str(path))).junction_tree("a test"), 1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(model, from_pgmpy(readers.XMLBIFReader(str(path)).get_model()).junction_tree("a test"), 1e-9)


def test_bif_replaces_names_beyond_its_grammar_says_so_and_restores_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    columns = (
        Column("my size", ("<= -1", "> -1, <= 2", "> 2")),
        Column("2nd", ("a b", "a_b")),
        Column("ß", ("x",)),
    )
    joint = np.arange(1, 7, dtype=float).reshape(3, 2, 1) / 21
    model = JunctionTreeModel(columns, JunctionTree(3, (0b111,), ()), (joint,))
    path = tmp_path / "model.bif"
    text = to_bif(model.network("a test"))
    path.write_text(text, encoding="utf-8")
    assert "'<= -1' as le_minus_1" in caplog.text
    for words in (
        "variable my_size",
        "variable V2nd",
        "variable ss",
        "{ le_minus_1, gt_minus_1_le_2, gt_2 }",
    ):
        assert words in text
    same(model, from_network(read_network(path)))
    path.write_text(re.sub("property .*", "", text), encoding="utf-8")
    assert [node.name for node in read_network(path).nodes] == ["my_size", "V2nd", "ss"]
    assert distinct_words(["-1", "1", "-a", "1e5", "table", "大"]) == [
        "-1",
        "1",
        "a",
        "_1e5",
        "table_",
        "u5927",
    ]


TEXTS = st.text(st.characters(exclude_categories=["C"]), min_size=1).map(text_label).filter(bool)
NAMES = st.lists(TEXTS, min_size=3, max_size=3, unique=True)


@given(NAMES, NAMES)
@settings(deadline=None, max_examples=60)
def test_networks_in_files_keep_any_names(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], labels: list[str]
) -> None:
    columns = tuple(Column(name, tuple(labels)) for name in names)
    joint = np.arange(1, 28, dtype=float).reshape(3, 3, 3) / 378
    model = JunctionTreeModel(columns, JunctionTree(3, (0b111,), ()), (joint,))
    for kind in ("bif", "bifxml"):
        path = tmp_path_factory.getbasetemp() / f"names.{kind}"
        write_model(model, path)
        same(model, from_network(read_network(path)))


@given(NAMES)
def test_words_for_names_are_distinct_and_read_by_the_grammar(names: list[str]) -> None:
    words = distinct_words(names)
    assert len(set(words)) == len(names)
    assert all(re.fullmatch(r"-?[A-Za-z0-9_-]+", word) for word in words)


@pytest.mark.parametrize("kind", ["bif", "bifxml"])
def test_pyagrum_and_pgmpy_read_networks_with_names_beyond_the_grammar(tmp_path: Path, kind: str) -> None:
    gum, readers = library("pyagrum"), library("pgmpy.readwrite")
    columns = (Column("Größe (m)", ("<5", ">5", "+")), Column("type", ("1e5", "1-2", "table")))
    joint = np.arange(1, 10, dtype=float).reshape(3, 3) / 45
    model = JunctionTreeModel(columns, JunctionTree(2, (0b11,), ()), (joint,))
    path = tmp_path / f"m.{kind}"
    write_model(model, path)
    loaded = gum.loadBN(str(path))
    reader = readers.BIFReader if kind == "bif" else readers.XMLBIFReader
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = reader(str(path)).get_model()
    expected = {"Größe (m)", "type"} if kind == "bifxml" else {"Grosse_m", "type_"}
    assert set(loaded.names()) == set(other.nodes()) == expected
    if kind == "bifxml":
        same(model, from_pyagrum(loaded).junction_tree("a test"), 1e-9)
        same(model, from_pgmpy(other).junction_tree("a test"), 1e-9)


WEKA = """<?xml version="1.0"?>
<!DOCTYPE BIF [
  <!ELEMENT BIF ( NETWORK )*>
  <!ATTLIST BIF VERSION CDATA #REQUIRED>
  <!ELEMENT NETWORK ( NAME, ( PROPERTY | VARIABLE | DEFINITION )* )>
]>
<BIF VERSION="0.3">
<NETWORK>
<NAME>door</NAME>
<VARIABLE TYPE="nature"><NAME>Bell</NAME><OUTCOME>&lt;5</OUTCOME><OUTCOME> no </OUTCOME>
  <PROPERTY>position = (0,0)</PROPERTY></VARIABLE>
<VARIABLE TYPE="nature"><NAME>Dog</NAME><OUTCOME>barks</OUTCOME><OUTCOME>sleeps</OUTCOME></VARIABLE>
<!-- tables -->
<DEFINITION><FOR>Bell</FOR><TABLE>
0.2 <!-- rings --> 0.8
</TABLE></DEFINITION>
<DEFINITION><FOR>Dog</FOR><GIVEN>Bell</GIVEN><TABLE>
0.9 0.1
0.25 0.749
</TABLE></DEFINITION>
</NETWORK>
</BIF>
"""


def test_xmlbif_of_weka_is_read_and_rounded_rows_are_normalised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "door.xml"
    path.write_bytes(WEKA.encode("utf-16"))
    network = read_network(path)
    assert network.nodes[0].states == ("<5", "no")
    np.testing.assert_allclose(network.nodes[1].table, [[0.9, 0.1], [0.25 / 0.999, 0.749 / 0.999]])
    assert "of 1 row sum to 0.999 at worst" in caplog.text
    path.write_text(WEKA.replace('<VARIABLE TYPE="nature">', "<VARIABLE>").replace("OUTCOME", "VALUE"))
    assert read_network(path).nodes[0].states == ("<5", "no")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("<!ELEMENT BIF ( NETWORK )*>", '<!ENTITY x "y">', "it declares entities"),
        ("</BIF>", "", "it is not XML"),
        ("<NETWORK>", "<NET>", "it is not XML"),
        ("Dog</NAME>", "Bell</NAME>", "variable 'Bell' is declared twice"),
        ("nature", "decision", "is a decision node"),
        ("sleeps", "barks", "two states of the same label"),
        ("<FOR>Dog", "<FOR>Cat", "variable 'Cat' is not declared"),
        ("<FOR>Dog", "<FOR>Bell", "variable 'Bell' has two definitions"),
        ("<GIVEN>Bell", "<GIVEN>Cat", "variable 'Cat' is not declared"),
        ("<GIVEN>Bell", "<GIVEN>Dog", "the arcs have a cycle"),
        ("<GIVEN>Bell</GIVEN>", "", "the table of 'Dog': it has 4 cells, but 2 are needed"),
        ("0.9 0.1", "0.9 x", "'x' is not a number"),
        ("0.9 0.1", "0.9 0.2", "sums to 1.1, not to 1"),
        ("0.9 0.1", "1.9 -0.9", "1.9 is not a probability"),
        ("<FOR>Dog</FOR>", "", "a <DEFINITION> has 0 elements <FOR>"),
    ],
)
def test_a_fault_in_xmlbif_is_refused_with_its_variable(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    assert old in WEKA
    path = tmp_path / "door.xml"
    path.write_text(WEKA.replace(old, new, 1))
    with pytest.raises(InputError, match=re.escape(reason)):
        read_network(path)


EVIDENCE = [("2 0 1 2 0", {"V0": "s1", "V2": "s0"}), ("1\n1 1 1\n", {"V1": "s1"}), ("0", {}), ("1 0", {})]


@pytest.mark.parametrize(("text", "given"), EVIDENCE)
def test_evidence_of_the_uai_competitions_is_accepted(
    tmp_path: Path, text: str, given: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    model, path, file = Model(chain(3)), tmp_path / "m.uai.evid", tmp_path / "m.json"
    path.write_text(text, encoding="utf-8")
    model.write(file)
    expected = model.query("V1", given=given)["probability"].to_list()
    assert model.query("V1", given=path)["probability"].to_list() == expected
    assert model.sample(3, given=str(path)).shape == (3, 3)
    words = [word for name, state in given.items() for word in ("--given", f"{name}={state}")]
    said = []
    for evidence in (words, ["--given", str(path)]):
        assert run(["query", str(file), *evidence], 0.0) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2 0 1", "a number of pairs that differs from the first word"),
        ("2\n1 0 1\n1 1 0\n", "it has 2 sets of evidence"),
        ("1 9 0", "an observed variable is '9'"),
        ("1 0 2", "the state of 'V0' is '2'"),
        ("2 0 1 0 1", "'V0' is observed twice"),
    ],
)
def test_evidence_that_does_not_suit_the_model_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "m.evid"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=reason):
        Model(chain(3)).query("V1", given=path)


# Objects


@pytest.mark.parametrize("seed", range(5))
def test_models_go_to_networkx_and_back(seed: int) -> None:
    model = random_model(seed)
    graph = to_networkx(model)
    assert nx.is_tree(graph)
    found = from_networkx(nx.relabel_nodes(graph, {i: f"c{i}" for i in graph}))
    assert found.tree == model.tree
    assert (found.values == model.values).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.5])
def test_tables_of_other_programs_without_probabilities_are_refused(value: float) -> None:
    gum = library("pyagrum")
    network = gum.fastBN("a->b")
    network.cpt("a").fillWith([value, 0.5])
    with pytest.raises(InputError, match="the table of 'a' has numbers"):
        from_pyagrum(network)


@pytest.mark.parametrize("seed", range(4))
def test_models_go_to_pyagrum_and_pgmpy_and_back(seed: int) -> None:
    library("pyagrum")
    library("pgmpy.models")
    model = random_model(seed)
    same(model, from_pyagrum(to_pyagrum(model.network("a test"))).junction_tree("a test"), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = to_pgmpy(model.network("a test"))
        assert network.check_model()
        same(model, from_pgmpy(network).junction_tree("a test"), 1e-12)


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> None:
        raise ImportError

    monkeypatch.setattr("jtsolve.models.files.interop.import_module", missing)
    with pytest.raises(ChoiceError, match="pip install pyagrum"):
        to_pyagrum(chain(3).network("a test"))


@pytest.mark.parametrize("seed", range(50))
def test_queries_agree_with_pyagrum_on_larger_models(seed: int) -> None:
    gum = library("pyagrum")
    random = repeatable(seed)
    n = random.randint(15, 25)
    arities = [random.choice((2, 2, 3)) for _ in range(n)]
    tree = random_tree(n, 3, random)
    generator = np.random.default_rng(seed)
    scopes = [list(members(clique)) for clique in tree.cliques]
    factors = [Factor(tuple(s), np.exp(generator.normal(0, 2, [arities[v] for v in s]))) for s in scopes]
    model = calibrated(columns_for(arities), factors, tree=tree).model
    seen = {f"V{v}": f"s{random.randrange(arities[v])}" for v in random.sample(range(n), 4)}
    pair = [f"V{v}" for v in random.sample(range(n), 2)]
    pair = [name for name in pair if name not in seen] or ["V0"]
    found = model.condition(seen)
    engine = gum.LazyPropagation(to_pyagrum(model.network("a test")))
    engine.setEvidence(seen)
    engine.makeInference()
    # Asked for before targets are named: pyAgrum 3.3 then leaves out evidence on isolated variables.
    assert np.exp(found.log_probability) == pytest.approx(engine.evidenceProbability(), rel=1e-9)
    engine.addAllTargets()
    engine.addJointTarget(set(pair))
    engine.makeInference()
    for column, single in zip(model.columns, found.model.marginals(), strict=True):
        np.testing.assert_allclose(single, engine.posterior(column.name).tolist(), atol=1e-9)
    joint = engine.jointPosterior(set(pair))
    order = [list(reversed(joint.names)).index(name) for name in pair]
    expected = np.transpose(np.array(joint.tolist()), order)
    np.testing.assert_allclose(found.model.marginal(pair), expected, atol=1e-9)


# UAI


@pytest.mark.parametrize("seed", range(10))
def test_uai_files_come_back_with_numbers_for_names(tmp_path: Path, seed: int) -> None:
    model = random_model(seed)
    path = tmp_path / "model.uai"
    path.write_text(to_uai(model), encoding="utf-8")
    found = read_uai(path)
    for single, other in zip(found.marginals(), model.marginals(), strict=True):
        np.testing.assert_allclose(single, other, atol=1e-12)


POSTERIORS = """
import json, sys, pyagrum
network = pyagrum.loadMRF(sys.argv[1])
engine = pyagrum.ShaferShenoyMRFInference(network)
engine.makeInference()
print(json.dumps([engine.posterior(v).tolist() for v in range(network.size())]))
"""


@pytest.mark.parametrize("seed", range(3))
def test_uai_files_are_read_by_pyagrum_and_pgmpy_with_the_same_marginals(tmp_path: Path, seed: int) -> None:
    library("pyagrum")
    readers = library("pgmpy.readwrite")
    model = dyadic_model(seed)  # pyAgrum reads the numbers of UAI files in single precision
    assert any(clique.bit_count() > 1 for clique in model.tree.cliques)
    path = tmp_path / "model.uai"
    path.write_text(to_uai(model), encoding="utf-8")
    # In a separate process: pyAgrum 3.3 can crash when it loads a Markov network after other work.
    command = [sys.executable, "-c", POSTERIORS, str(path)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = (
            readers.UAIReader(str(path)).get_model()
            if all(c.bit_count() > 1 for c in model.tree.cliques)
            else None
        )
    for v, single in enumerate(model.marginals()):
        np.testing.assert_allclose(found[v], single, atol=1e-9)
    if network is not None:
        product = None
        for factor in network.factors:
            product = factor if product is None else product * factor
        assert product is not None
        for v, single in enumerate(model.marginals()):
            others = [name for name in product.variables if name != f"var_{v}"]
            values = product.marginalize(others, inplace=False).values
            np.testing.assert_allclose(values / values.sum(), single, atol=1e-9)


def test_a_bayes_file_is_a_product_of_factors(tmp_path: Path) -> None:
    path = tmp_path / "b.uai"
    path.write_text("BAYES 2 2 2 3 1 0 2 0 1 0 2 .25 .75 4 .5 .5 .1 .9 1 3.0", encoding="utf-8")
    np.testing.assert_allclose(read_uai(path).marginals()[1], [0.2, 0.8], atol=1e-15)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("HUGIN", "'HUGIN' found, not MARKOV or BAYES"),
        ("MARKOV", "the number of variables"),
        ("MARKOV 0", "'0'"),
        ("MARKOV 99999999999999", "from 1 to"),
        ("MARKOV -1", "'-1'"),
        ("MARKOV 1 2 1 2 0 0", "size of factor 0 is '2'"),
        ("MARKOV 2 2 2 1 2 0 0", "has a variable twice"),
        ("MARKOV 1 2 1 1 1", "a variable of factor 0 is '1'"),
        ("MARKOV 1 2 1 1 0 3 1 1 1", "declares another number"),
        ("MARKOV 1 2 1 1 0 2 1 nan", "'nan'"),
        ("MARKOV 1 2 1 1 0 2 1 -2", "'-2'"),
        ("MARKOV 1 2 1 1 0 2 1 x", "'x'"),
        ("MARKOV 1 2 1 1 0 2 1 1_0", "'1_0'"),
        ("MARKOV 1 2 1 1 0 2 1 1 5", "more after the end"),
        ("MARKOV 1 2 1 1 0 2 0 0", "0 everywhere"),
        ("MARKOV 1 2 1 1 0 2 1", "ends where"),
    ],
)
def test_an_invalid_uai_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "m.uai"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_uai(path)


# PACE


@pytest.mark.parametrize("seed", range(10))
def test_tree_decompositions_hold_the_tree(seed: int) -> None:
    tree = random_model(seed).tree
    header, *lines = to_pace(tree).splitlines()
    assert header == f"s td {len(tree.cliques)} {tree.treewidth + 1} {tree.n}"
    bags = [sum(1 << int(v) - 1 for v in line.split()[2:]) for line in lines if line.startswith("b ")]
    edges = [tuple(int(i) - 1 for i in line.split()) for line in lines if not line.startswith("b ")]
    assert JunctionTree(tree.n, tuple(bags), tuple((i, j) for i, j in edges)) == tree


# Triangulation


@pytest.mark.parametrize("seed", range(15))
def test_a_product_of_factors_becomes_its_distribution(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n = 6
    arities = generator.integers(1, 4, n).tolist()
    factors, joint = [], np.ones(arities)
    for _ in range(6):
        scope = tuple(generator.permutation(n)[: generator.integers(0, 4)].tolist())
        table = generator.random([arities[v] for v in scope]) * 5
        factors.append(Factor(scope, table))
        order = np.argsort(scope)
        shape = [arities[v] if v in scope else 1 for v in range(n)]
        joint = joint * np.transpose(table, order).reshape(shape)
    found = calibrated(columns_for(arities), factors)
    assert found.log_probability == pytest.approx(np.log(joint.sum()), rel=1e-12)
    np.testing.assert_allclose(brute(found.model), joint / joint.sum(), atol=1e-13)


def test_min_fill_adds_one_edge_to_a_square_and_none_to_a_chordal_graph() -> None:
    assert triangulated([2] * 4, [0b0011, 0b0110, 0b1100, 0b1001]).treewidth == 2
    tree = random_model(11, 8).tree
    assert triangulated([2] * 8, tree.cliques) == tree


@given(st.integers(2, 7), st.lists(st.integers(1, 127), max_size=8))
@settings(deadline=None, max_examples=80)
def test_every_scope_is_within_a_clique(n: int, scopes: list[int]) -> None:
    inside = [scope & ((1 << n) - 1) for scope in scopes]
    tree = triangulated([2] * n, inside)
    assert all(any(not scope & ~clique for clique in tree.cliques) for scope in inside)


def test_a_factor_outside_the_cliques_is_refused() -> None:
    columns = columns_for([2, 2])
    with pytest.raises(ValueError, match="no clique contains"):
        calibrated(columns, [Factor((0, 1), np.ones((2, 2)))], tree=JunctionTree(2, (1, 2), ((0, 1),)))


@pytest.mark.parametrize("name", ["alarm", "child", "insurance", "hailfinder"])
def test_published_networks_have_the_marginals_that_pyagrum_finds(shared: Path, name: str) -> None:
    gum = library("pyagrum")
    network = read_network(shared / "data" / "networks" / f"{name}.bif.gz")
    model = from_network(network)
    theirs = _in_pyagrum(gum, network)
    leaf = network.nodes[-1]
    for seen in ({}, {leaf.name: leaf.states[0]}):
        found = model.condition(seen)
        engine = gum.LazyPropagation(theirs)
        engine.setEvidence(seen)
        engine.makeInference()
        for column, single in zip(model.columns, found.model.marginals(), strict=True):
            np.testing.assert_allclose(single, engine.posterior(column.name).tolist(), atol=1e-9)


def _in_pyagrum(gum: Any, network: Network) -> Any:
    """The network itself, built node by node."""
    result = gum.BayesNet()
    for node in network.nodes:
        result.add(gum.LabelizedVariable(node.name, node.name, list(node.states)))
    for node in network.nodes:
        for parent in node.parents:
            result.addArc(network.nodes[parent].name, node.name)
        for row, key in zip(node.table, _keys(network, node), strict=True):
            result.cpt(node.name)[key] = row.tolist()
    return result


def _keys(network: Network, node: NetworkNode) -> list[dict[str, int]]:
    parents = [network.nodes[p] for p in node.parents]
    dims = [len(parent.states) for parent in parents]
    return [dict(zip((p.name for p in parents), cell, strict=True)) for cell in np.ndindex(*dims)]


def test_a_projection_onto_its_own_tree_is_the_model_itself() -> None:
    model = random_model(7, 5, zeros=False)
    np.testing.assert_allclose(brute(projected(brute(model), model.tree)), brute(model), atol=1e-12)
