"""Data sets by name, Bayesian networks in BIF, and rows drawn from them."""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
import threading
import time
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from readers import read_states

import jtsolve.data.registry
from jtsolve.cli import run
from jtsolve.data.fetch import cache_folder, download
from jtsolve.data.registry import DataSet, data_set_named, registry
from jtsolve.errors import ChoiceError, InputError
from jtsolve.networks.files import read_network
from jtsolve.networks.network import Network, NetworkNode
from jtsolve.networks.sample import sample
from jtsolve.tables.options import Coding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NETWORKS = sorted(name for name, entry in registry().items() if entry.kind == "bnlearn")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own: none may touch that of the system."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("JTSOLVE_CACHE", str(folder))
    return folder


def command(*arguments: str | Path) -> int:
    return run([str(argument) for argument in arguments], time.monotonic())


def manifest(shared: Path) -> dict[str, dict[str, str]]:
    text = (shared / "data" / "MANIFEST.tsv").read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE)
    return {row["file"].removesuffix(".gz"): row for row in rows}


# The registry


def test_the_registry_agrees_with_the_manifest(shared: Path) -> None:
    known = manifest(shared)
    assert len(registry()) == 87
    for entry in registry().values():
        row = known[entry.file]
        repository, _, path = row["source"].partition(":")
        assert entry.url == f"https://raw.githubusercontent.com/{repository}/{row['commit']}/{path}"
        assert entry.sha256 == row["sha256_unpacked"]
        assert str(entry.columns) == row["cols"]
        assert str(entry.rows or "") == row["rows"]
        assert (entry.kind == "bnlearn") == (entry.rows is None)


def test_every_public_table_and_network_of_the_manifest_is_known(shared: Path) -> None:
    wanted = {file for file in manifest(shared) if file.startswith(("uci/", "networks/", "density/"))}
    wanted.add("gaussian/sachs-cyto.csv")  # the other sets of numbers are not public as tables
    assert {entry.file for entry in registry().values()} == wanted


def test_the_list_shows_every_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("data", "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == list(registry())
    assert re.search(r"^ zoo +uci +101 +18 .*UCI", "\n".join(lines), re.MULTILINE)
    assert not any(
        "remembered" in entry.terms for entry in registry().values()
    )  # terms, not notes to ourselves


def test_an_unknown_name_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("data", "fetch", "mushrom") == 2
    assert "did you mean 'mushroom" in capsys.readouterr().err
    with pytest.raises(ChoiceError, match=r"no data set 'qqqq'; use one of .* 'jtsolve data list' shows all"):
        data_set_named("qqqq")


# From a folder


@pytest.mark.parametrize("name", list(registry()))
def test_every_set_is_verified_from_the_shared_folder(name: str, shared: Path, cache: Path) -> None:
    assert command("data", "fetch", name, "--from", shared / "data") == 0
    content = (cache / data_set_named(name).file).read_bytes()
    assert hashlib.sha256(content).hexdigest() == data_set_named(name).sha256


def test_a_local_set_is_copied_to_the_cache(
    shared: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("data", "fetch", "asia", "--from", shared / "data" / "networks") == 0
    path = cache / "networks" / "asia.bif"
    assert capsys.readouterr().out == f"{path}\n"
    assert len(read_network(path).nodes) == 8
    assert download(data_set_named("asia")) == path, "no network is needed for cached files"


def test_another_content_is_refused_and_nothing_written(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "zoo.data").write_text("frog,1\n")
    assert command("data", "fetch", "zoo", "--from", tmp_path) == 2
    assert "does not have the SHA-256" in capsys.readouterr().err
    assert not cache.exists()


def test_a_folder_without_the_set_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("data", "fetch", "zoo", "--from", tmp_path) == 2
    assert "is not in it, as uci/zoo.data" in capsys.readouterr().err
    assert command("data", "fetch", "zoo", "--from", tmp_path / "absent") == 2
    assert "no such folder" in capsys.readouterr().err


def test_a_cache_that_cannot_be_made_is_an_error(
    shared: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache.write_text("a file")
    assert command("data", "fetch", "zoo", "--from", shared / "data") == 2
    assert "JTSOLVE_CACHE" in capsys.readouterr().err


def test_the_cache_is_that_of_the_system_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JTSOLVE_CACHE")
    assert cache_folder().name == "jtsolve"


# From a server: one of this machine


CONTENT = b"a,b\n0,1\n"


class Handler(BaseHTTPRequestHandler):
    """Answers by the path."""

    def do_GET(self) -> None:
        bodies = {
            "/plain": CONTENT,
            "/packed": gzip.compress(CONTENT),
            "/wrong": b"sold",
            "/cut": b"\x1f\x8b",
            "/short": CONTENT,
        }
        body = bodies.get(self.path)
        self.send_response(404 if body is None else 200)
        more = 100 if self.path == "/short" else 0  # are promised and never come: the connection breaks
        self.send_header("Content-Length", str(len(body or b"") + more))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_arguments: object) -> None:
        """Says nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def served(url: str) -> DataSet:
    return DataSet("toy", "uci", "uci/toy.csv", url, hashlib.sha256(CONTENT).hexdigest(), 1, 2, "none")


@pytest.mark.parametrize("path", ["plain", "packed"])
def test_a_download_is_unpacked_verified_and_kept(
    path: str, server: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = served(f"{server}/{path}")
    monkeypatch.setattr(jtsolve.data.registry, "registry", lambda: {"toy": entry})
    assert command("data", "fetch", "toy") == 0
    (file,) = (cache / "uci").iterdir()
    assert file.read_bytes() == CONTENT


def test_a_spoilt_file_in_the_cache_is_fetched_again(server: str, cache: Path) -> None:
    (cache / "uci").mkdir(parents=True)
    (cache / "uci" / "toy.csv").write_text("spoilt")
    assert download(served(f"{server}/plain")).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("wrong", "SHA-256"),
        ("cut", "damaged or truncated"),
        ("short", "cannot be downloaded .*IncompleteRead"),
        ("absent", "cannot be downloaded .*404"),
    ],
)
def test_a_bad_download_is_an_error_and_leaves_nothing(
    path: str, reason: str, server: str, cache: Path
) -> None:
    with pytest.raises(InputError, match=reason):
        download(served(f"{server}/{path}"))
    assert list((cache / "uci").iterdir()) == []


def test_no_network_is_an_error_that_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(InputError, match=r"cannot be downloaded .*--from"):
        download(served("http://127.0.0.1:9/closed"))


# Networks


@pytest.mark.parametrize("name", NETWORKS)
def test_the_networks_have_the_counts_of_the_manifest(name: str, shared: Path) -> None:
    row = manifest(shared)[f"networks/{name}.bif"]
    network = read_network(shared / "data" / "networks" / f"{name}.bif.gz")
    counts = (
        f"{len(network.nodes)} nodes, {network.arc_count} arcs, {network.parameter_count} free parameters"
    )
    assert row["remarks"].startswith(f"{counts} ")
    for node in network.nodes:
        assert np.abs(node.table.sum(axis=1) - 1).max() < 1e-12
    place = {position: i for i, position in enumerate(network.order)}
    assert len(place) == len(network.nodes)
    assert all(place[p] < place[i] for i, node in enumerate(network.nodes) for p in node.parents)


TWO = """network "a toy" { property author me; }  // two variables
/* a table may come before
   its parents are declared */
probability ( wet | rain ) { property odd; (no) 0.9, 0.1; ( yes ) 0, 1e0; }
variable rain { type discrete [ 2 ] { yes, no }; property position = (1, 2); }
variable wet { type discrete [2] { dry, "very wet" }; }
probability(rain){ table 0.25, 0.75; }
"""


def test_a_network_is_read_in_any_layout(tmp_path: Path) -> None:
    path = tmp_path / "two.bif"
    path.write_text(TWO)
    network = read_network(path)
    rain, wet = network.nodes
    assert network.name == "a toy"
    assert (rain.name, rain.states, rain.parents, rain.table.tolist()) == (
        "rain",
        ("yes", "no"),
        (),
        [[0.25, 0.75]],
    )
    assert (wet.states, wet.parents, wet.table.tolist()) == (
        ("dry", "very wet"),
        (0,),
        [[0.0, 1.0], [0.9, 0.1]],
    )
    assert network.order == (0, 1)


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("network", "net", 1, "'net' found where 'network'"),
        ('"a toy"', "", 1, "the name of the network is missing before '{'"),
        ('"very wet"', '"very wet', 6, "a quotation is not closed"),
        ("variable wet", "variable rain", 6, "'rain' is declared twice"),
        ("variable wet", "variabel wet", 6, "'variabel' does not begin a block"),
        ("[2]", "[3]", 6, "has 2 states, but declares 3"),
        ('dry, "very wet"', "dry, dry", 6, "two states of the same label"),
        ("type discrete [ 2 ] { yes, no };", "", 5, "variable 'rain' has no type"),
        ("{ yes, no };", "{ yes, no }; type discrete [1] {a};", 5, "has two types"),
        ("discrete", "continuous", 5, "'continuous' found where 'discrete'"),
        ("probability(rain){ table 0.25, 0.75; }", "", None, "variable 'rain' has no table"),
        ("probability(rain)", "probability(wet)", 7, "'wet' has two tables"),
        ("probability(rain)", "probability(snow)", 7, "'snow' is not declared"),
        ("wet | rain", "wet | snow", 4, "variable 'snow' is not declared"),
        ("wet | rain", "wet | rain, rain", 4, "the same parent twice"),
        ("wet | rain", "wet", 4, "has 2 rows, but 1 are needed"),
        ("(no) 0.9, 0.1;", "", 4, "has 1 rows, but 2 are needed"),
        ("(no)", "(yes)", 4, "two rows of"),
        ("(no)", "(maybe)", 4, "'maybe' is not a state of 'rain'"),
        ("(no)", "(no, no)", 4, "names 2 states, but there are 1 parents"),
        ("(no) 0.9, 0.1;", "default 0.9, 0.2;", 4, "sums to 1.1"),
        ("(no)", "table", 4, "programs disagree on its order"),
        ("0.9, 0.1", "0.9", 4, "has 1 probabilities, but there are 2 states"),
        ("0.9, 0.1", "0.9, 0.2", 4, "sums to 1.1"),
        ("0.9, 0.1", "0.9, x", 4, "'x' is not a number"),
        ("0.9, 0.1", "nan, 0.1", 4, "nan is not a probability"),
        ("0.9, 0.1", "1.1, -0.1", 4, "1.1 is not a probability"),
        ("table 0.25, 0.75; }", "table 0.25, 0.75;", 7, "ends prematurely"),
        ("its parents are declared */", "", 2, "a comment is not closed"),
    ],
)
def test_a_fault_is_refused_with_its_line(
    old: str, new: str, line: int | None, reason: str, tmp_path: Path
) -> None:
    assert old in TWO
    path = tmp_path / "two.bif"
    path.write_text(TWO.replace(old, new, 1))
    with pytest.raises(InputError, match=re.escape(reason)) as error:
        read_network(path)
    assert error.value.place == ("" if line is None else f"line {line}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("network", "\ufeffnetwork"),
        ("yes, no", "yes no"),
        ("wet | rain", "wet rain"),
        ("wet | rain", "wet, rain"),
        ("(no) 0.9, 0.1;", "default 0.9 0.1;"),
        ("(no) 0.9, 0.1;", "default 0.9 0.1; (no) 0.9 0.1;"),
        ("| rain ) { property odd; (no) 0.9, 0.1; ( yes ) 0, 1e0; }", ", rain) { table 0 0.9 1 0.1; }"),
    ],
)
def test_a_network_is_read_in_the_style_of_the_authors_of_the_format(
    old: str, new: str, tmp_path: Path
) -> None:
    assert old in TWO
    path = tmp_path / "two.bif"
    path.write_text(TWO.replace(old, new, 1), encoding="utf-8")
    found = read_network(path)
    assert found.nodes[1].table.tolist() == [[0, 1], [0.9, 0.1]]


def test_rounded_rows_are_normalised_with_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "two.bif"
    path.write_text(TWO.replace("0.9, 0.1", "0.9, 0.099"))
    assert read_network(path).nodes[1].table[1].tolist() == pytest.approx([0.9 / 0.999, 0.099 / 0.999])
    assert "of 1 row sum to 0.999 at worst" in caplog.text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("network a { }", "there is no variable"),
        ("  // nothing", "line 1: the file ends prematurely"),
        ("network a { }\n\xff", "line 2: it is not UTF-8"),
        (
            (
                "network a { } variable x { type discrete [1] {s}; } variable y { type discrete [1] {s}; }\n"
                "probability (x | y) { (s) 1; }\nprobability (y | x) { (s) 1; }"
            ),
            "the arcs have a cycle: ",
        ),
    ],
)
def test_a_file_that_is_no_network_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.bif"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=reason):
        read_network(path)


def test_a_table_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.bif"
    states = ", ".join(f"s{k}" for k in range(12_000))
    large = [f"variable {name} {{ type discrete [12000] {{ {states} }}; }}" for name in ("rain", "wet")]
    tables = ["probability (rain) { table 1; }", "probability (wet | rain) { (s0) 1; }"]
    path.write_text("\n".join(["network a { }", *large, *tables]))
    with pytest.raises(InputError, match="'wet' has too many cells"):
        read_network(path)


def test_the_constructor_holds_the_invariants_of_a_network() -> None:
    node = NetworkNode("a", ("x", "y"), (), np.array([[0.5, 0.5]]))
    with pytest.raises(ValueError, match="unique names"):
        Network("", ())
    with pytest.raises(ValueError, match="unique names"):
        Network("", (node, node))
    with pytest.raises(ValueError, match=r"shape \(1, 2\), not \(2, 2\)"):
        Network("", (node, replace(node, name="b", parents=(0,))))


# Rows


def exact_marginals(network: Network) -> list[float]:
    """The probability of each node's first state, by enumeration of all joint states."""
    totals = [0.0] * len(network.nodes)
    for joint in product(*(range(len(node.states)) for node in network.nodes)):
        probability = 1.0
        for node, state in zip(network.nodes, joint, strict=True):
            table = node.table.reshape([*(len(network.nodes[p].states) for p in node.parents), -1])
            probability *= float(table[(*(joint[p] for p in node.parents), state)])
        for i, state in enumerate(joint):
            totals[i] += probability * (state == 0)
    return totals


def test_the_marginals_of_asia_are_those_of_enumeration(shared: Path) -> None:
    network = read_network(shared / "data" / "networks" / "asia.bif.gz")
    rows = 200_000
    codes = sample(network, rows, seed=1)
    exact = np.array(exact_marginals(network))
    deviation = np.sqrt(exact * (1 - exact) / rows)
    assert codes.shape == (rows, 8)
    assert (np.abs((codes == 0).mean(axis=0) - exact) < 4 * deviation).all()
    lung, tub, either = (
        next(i for i, n in enumerate(network.nodes) if n.name == name) for name in ("lung", "tub", "either")
    )
    assert ((codes[:, either] == 0) == ((codes[:, lung] == 0) | (codes[:, tub] == 0))).all()


def test_conditional_frequencies_are_the_tables(shared: Path) -> None:
    network = read_network(shared / "data" / "networks" / "sachs.bif.gz")
    codes = sample(network, 100_000, seed=2)
    tried = 0
    for i, node in enumerate(network.nodes):
        sizes = [len(network.nodes[p].states) for p in node.parents]
        for row, key in enumerate(product(*map(range, sizes))):
            chosen = codes[(codes[:, list(node.parents)] == key).all(axis=1), i]
            if len(chosen) > 500:
                frequencies = np.bincount(chosen, minlength=len(node.states)) / len(chosen)
                assert np.abs(frequencies - node.table[row]).max() < 5 * 0.5 / np.sqrt(len(chosen))
                tried += 1
    assert tried > 40


def test_a_state_of_probability_zero_is_never_drawn() -> None:
    node = NetworkNode("a", ("x", "y", "z"), (), np.array([[0.0, 1.0, 0.0]]))
    assert (sample(Network("", (node,)), 10_000, 3) == 1).all()


def test_equal_seeds_draw_equal_rows_and_others_do_not(shared: Path) -> None:
    draw = partial(sample, read_network(shared / "data" / "networks" / "cancer.bif.gz"), 1000)
    assert (draw(1) == draw(1)).all()
    assert (draw(1) != draw(2)).any()


def test_the_command_writes_the_drawn_rows(tmp_path: Path, shared: Path) -> None:
    source = shared / "data" / "networks" / "survey.bif.gz"
    path, packed = tmp_path / "survey.csv", tmp_path / "survey.csv.gz"
    for output in (path, packed):
        assert command("sample", source, "--rows", "500", "--seed", "7", "--output", output) == 0
    assert gzip.decompress(packed.read_bytes()) == path.read_bytes()
    network = read_network(source)
    header, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
    assert header == [node.name for node in network.nodes]
    labels = [
        [network.nodes[i].states[code] for i, code in enumerate(row)] for row in sample(network, 500, 7)
    ]
    assert rows == labels
    assert read_states(path, Coding()).n == len(header)


def test_the_command_refuses_bad_names_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.bif"
    path.write_text(TWO)
    assert command("sample", path, "--rows", "5", "--output", tmp_path / "rows.xls") == 2
    assert ".csv, .tsv, .tab, .parquet" in capsys.readouterr().err
    assert command("sample", tmp_path / "no.bif", "--rows", "5", "--output", tmp_path / "a.csv") == 2
    assert "no such file" in capsys.readouterr().err
    assert command("sample", path, "--rows", "0", "--output", tmp_path / "a.csv") == 2
    assert not (tmp_path / "a.csv").exists()
