"""Pictures of trees: text, DOT, SVG and PNG."""

from __future__ import annotations

import random
import re
import shutil
import time
import xml.etree.ElementTree as ET
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib import get_data_path
from matplotlib.font_manager import fontManager

from jtsolve.cli import run
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members, varset
from jtsolve.data import example
from jtsolve.draw import (
    draw_graph,
    draw_tree,
    fonts,
    graph,
    graph_dot,
    graph_text,
    layout,
    picture,
    tree_dot,
    tree_text,
)
from jtsolve.draw.parts import parts
from jtsolve.draw.rooted import RootedTree
from jtsolve.errors import ChoiceError, InputError

if TYPE_CHECKING:
    from pathlib import Path

NAMES = "ABCDEFGHIJ"


def path_tree(n: int) -> JunctionTree:
    cliques = tuple(varset([v, v + 1]) for v in range(n - 1))
    return JunctionTree(n, cliques, tuple((v, v + 1) for v in range(n - 2)))


def random_tree(n: int, seed: int) -> JunctionTree:
    source = random.Random(seed)  # noqa: S311 - no secret
    cliques: list[list[int]] = []
    families = []
    for v in range(n):
        home = source.choice(cliques) if cliques and source.random() > 0.05 else []
        parents = source.sample(home, min(len(home), source.randint(1, 3)))
        families.append((v, varset(parents)))
        cliques.append([*parents, v])
    return JunctionTree.from_families(families)


def test_text_is_rooted_at_the_centre() -> None:
    assert tree_text(path_tree(6), NAMES).splitlines() == [
        "{C, D}",
        "├─ {B, C}  sep {C}",
        "│  └─ {A, B}  sep {B}",
        "└─ {D, E}  sep {D}",
        "   └─ {E, F}  sep {E}",
    ]


def test_of_two_centres_the_first_is_the_root() -> None:
    assert tree_text(path_tree(3), NAMES).startswith("{A, B}\n")


def test_text_of_one_clique_is_one_line() -> None:
    assert tree_text(JunctionTree(2, (0b11,), ()), NAMES) == "{A, B}"


def test_text_shows_empty_separators() -> None:
    assert tree_text(JunctionTree(2, (0b01, 0b10), ((0, 1),)), NAMES) == "{A}\n└─ {B}  sep ∅"


def test_text_has_a_line_for_every_clique_and_needs_no_deep_stack() -> None:
    assert len(tree_text(path_tree(5000), [f"X{v}" for v in range(5000)]).splitlines()) == 4999
    tree = random_tree(100, 3)
    lines = tree_text(tree, [f"X{v}" for v in range(100)]).splitlines()
    shown = [set(re.findall(r"X\d+", line.split("  sep ")[0])) for line in lines]
    assert sorted(map(sorted, shown)) == sorted(sorted(f"X{v}" for v in members(c)) for c in tree.cliques)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("river bank", "river bank"),
        ("a, b", '"a, b"'),
        ("{x}", '"{x}"'),
        ('the "x"', '"the \\"x\\""'),
        (" padded", '" padded"'),
        ("two\nlines", '"two\\nlines"'),
        ("µ", "µ"),
    ],
)
def test_text_quotes_names_that_could_mislead(name: str, shown: str) -> None:
    assert tree_text(JunctionTree(1, (1,), ()), [name]) == "{" + shown + "}"


def test_dot_of_a_small_tree() -> None:
    tree = JunctionTree(4, (0b0011, 0b0110, 0b1000), ((0, 1), (1, 2)))
    lines = tree_dot(tree, ["A", "B", 'say "hi"', "back\\slash\n"]).splitlines()
    assert lines[0] == "graph junction_tree {"
    assert lines[-1] == "}"
    assert r'  c0 [label="A\nB"];' in lines
    assert r'  c1 [label="B\nsay \"hi\""];' in lines
    assert r'  c2 [label="back\\slash\n"];' in lines
    assert '  c0 -- c1 [label="B"];' in lines
    assert [line for line in lines if "dashed" in line] == ['  c0 -- c2 [label="∅", style=dashed];']


def test_drawings_are_files_of_their_kind(tmp_path: Path) -> None:
    tree = random_tree(12, 1)
    names = [f"variable_{v}" for v in range(12)]
    draw_tree(tree, names, tmp_path / "tree.svg", format="svg")
    draw_tree(tree, names, tmp_path / "tree.png", format="png")
    assert ET.parse(tmp_path / "tree.svg").getroot().tag.endswith("svg")  # noqa: S314 - our own file
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")


def test_svg_is_the_same_every_time_and_has_every_text(tmp_path: Path) -> None:
    tree = JunctionTree(4, (0b0011, 0b0110, 0b1000), ((0, 1), (1, 2)))
    names = ["first", "$x_2$", "3", "fourth"]
    for name in ("one.svg", "two.svg"):
        draw_tree(tree, names, tmp_path / name, format="svg")
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert "<dc:date>" not in text
    assert "stroke-dasharray" in text  # the empty separator
    # matplotlib writes each line of text in a comment beside its outlines.
    assert set(re.findall(r"<!-- (.*?) -->", text)) == {
        "first, $x_2$",
        "$x_2$, 3",
        "fourth",
        "$x_2$",
        "∅",
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [2, 17, 60, 100])
def test_nothing_overlaps_in_a_drawing(n: int, seed: int) -> None:
    drawing = layout.arrange(random_tree(n, seed), [f"name_{v}" * (1 + v % 3) for v in range(n)])
    assert_nothing_overlaps(drawing)


def test_nothing_overlaps_in_a_drawing_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_PAGE", 3.0)
    drawing = layout.arrange(path_tree(60), [f"name_{v}" for v in range(60)])
    assert sum(box.copy for box in drawing.boxes) > 2
    assert_nothing_overlaps(drawing)


def assert_nothing_overlaps(drawing: layout.TreeLayout) -> None:
    width, height = drawing.extent
    deep = 0 if drawing.across else 1
    places = []
    for i, box in enumerate(drawing.boxes):
        x, y = drawing.place(box.middle, box.start + box.size[deep] / 2)
        places.append((f"clique {i}", x, y, *box.size))
        if box.depth:
            place = drawing.place(box.middle, box.start - layout.PADDING - box.label_size[deep] / 2)
            places.append((f"label {i}", *place, *box.label_size))
    for k, (what, x, y, w, h) in enumerate(places):
        assert w / 2 <= x + 1e-9, what
        assert x + w / 2 <= width + 1e-9, what
        assert h / 2 <= y + 1e-9, what
        assert y + h / 2 <= height + 1e-9, what
        for other, x2, y2, w2, h2 in places[:k]:
            apart = abs(x - x2) >= (w + w2) / 2 - 1e-9 or abs(y - y2) >= (h + h2) / 2 - 1e-9
            assert apart, f"{what} overlaps {other}"


def test_a_layout_is_as_broad_as_needed_only() -> None:
    # A star and its leaves stand side by side, so neither direction is a long line.
    star = JunctionTree(41, tuple(varset([0, v]) for v in range(1, 41)), tuple((0, v) for v in range(1, 40)))
    assert 0.05 < layout.arrange(star, [f"X{v}" for v in range(41)]).ratio < 20


def test_long_names_are_broken_between_words_and_nothing_is_lost() -> None:
    name = "a_rather_long_name_of_a_variable_in_some_data_set"
    pieces = layout._pieces(name)
    assert len(pieces) == 3
    assert "".join(piece.removesuffix(layout._BROKEN) for piece in pieces) == name
    assert all(piece.endswith("_" + layout._BROKEN) for piece in pieces[:-1])
    assert layout._pieces("x" * 30) == ["x" * 24 + layout._BROKEN, "x" * 6]
    assert layout._pieces("short") == ["short"]
    assert layout._pieces("x" * 24 + ",") == ["x" * 24 + ","]  # a comma does not begin a line


def test_a_chain_of_300_variables_is_a_picture_of_the_shape_of_a_page() -> None:
    drawing = layout.arrange(path_tree(300), [f"column_{v}" for v in range(300)])
    assert 0.5 < drawing.ratio < 3
    assert max(drawing.extent) < layout._PAGE
    originals = [box.lines[:2] for box in drawing.boxes if not box.copy]
    assert len({tuple(lines) for lines in originals}) == 299
    for box in drawing.boxes:
        if box.copy:  # the clique that it continues says so
            number = box.lines[-1].strip("()")
            (above,) = (other for other in drawing.boxes if other.lines[-1] == f"→ ({number})")
            assert above.lines[:2] == box.lines[:2]
    assert not drawing.remarks


@pytest.mark.parametrize("size", [2, 5, 40])
def test_parts_have_every_edge_once_and_no_more_cliques_than_asked(size: int) -> None:
    rooted = RootedTree.of(random_tree(100, 2))
    found = parts(rooted, rooted.order, size)
    assert found[0][0] == rooted.root
    assert all(len(part) <= size for part in found)
    below = [i for part in found for i in part[1:]]
    assert sorted([rooted.root, *below]) == list(range(len(rooted.order)))
    for number, part in enumerate(found):
        assert all(rooted.parent[i] in part[:k] for k, i in enumerate(part) if k)
        assert part[0] in {rooted.root, *(i for earlier in found[:number] for i in earlier)}


def test_cliques_beyond_the_limit_are_left_out_and_the_picture_says_how_many(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(layout, "_LARGEST", 5)
    drawing = layout.arrange(path_tree(10), NAMES)
    assert [box.lines for box in drawing.boxes] == [["E, F"], ["D, E"], ["C, D"], ["F, G"], ["G, H"]]
    draw_tree(path_tree(10), NAMES, tmp_path / "tree.svg", format="svg")
    assert "4 of 9 cliques are not shown" in (tmp_path / "tree.svg").read_text(encoding="utf-8")


def test_characters_that_no_font_has_are_escaped_and_the_picture_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = [font for font in fontManager.ttflist if font.fname.startswith(get_data_path())]
    monkeypatch.setattr(fontManager, "ttflist", own)
    draw_tree(path_tree(3), ["年", "Größe", "возраст"], tmp_path / "tree.svg", format="svg")
    text = (tmp_path / "tree.svg").read_text(encoding="utf-8")
    shown = {*re.findall(r"<!-- (.*?) -->", text)}
    assert {"\\u5e74,", "Größe", "Größe,", "возраст"} <= shown
    assert any(line.startswith("characters of no installed font are escaped") for line in shown)


def test_an_installed_font_is_taken_for_what_the_first_one_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    has = {"cjk.ttf": set("年齢x"), "more.ttf": set("齢"), "math.ttf": set("年齢")}
    installed = [
        SimpleNamespace(fname=name, name=name.removesuffix(".ttf"), style="normal", weight=400)
        for name in has
    ]
    monkeypatch.setattr(fonts, "_characters", lambda path: has.get(path, set("Aax →↩∅…")))
    monkeypatch.setattr("matplotlib.font_manager.fontManager.ttflist", installed)
    monkeypatch.setattr("matplotlib.font_manager.findfont", lambda _name: "dejavu.ttf")
    monkeypatch.setattr("matplotlib.get_data_path", lambda: "math")
    monkeypatch.setattr("pathlib.Path.exists", lambda _path: True)
    face = fonts.Typeface.of(["年齢 a", "A道"])
    assert face.families == ("DejaVu Sans", "cjk")
    assert face.lacking == {"道"}


def test_pictures_too_long_for_png_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "_PNG_SIDE", 200)
    tree = path_tree(10)
    with pytest.raises(ChoiceError, match="draw it as SVG"):
        draw_tree(tree, NAMES, tmp_path / "tree.png", format="png")
    assert not list(tmp_path.iterdir())


def test_a_drawing_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        draw_tree(path_tree(3), NAMES, tmp_path / "none" / "tree.svg", format="svg")


@pytest.mark.parametrize(
    "tree",
    [
        path_tree(2),
        path_tree(60),
        random_tree(40, 1),
        JunctionTree(1, (1,), ()),
        JunctionTree(8, (0xFF,), ()),
        JunctionTree(5, (1, 2, 4, 8, 16), ((0, 1), (1, 2), (2, 3), (3, 4))),
    ],
)
def test_no_two_variables_overlap_in_a_drawing_of_the_graph(tree: JunctionTree) -> None:
    names = [f"name_{v}" * (1 + v % 3) for v in range(tree.n)]
    drawing = graph.arrange_graph(tree, names)
    assert set(drawing.edges) == set(tree.graph_edges)
    half = drawing.sizes / 2
    assert (drawing.centres - half > -1e-9).all()
    assert (drawing.centres + half < np.array(drawing.extent) + 1e-9).all()
    for u in range(tree.n):
        for v in range(u):
            apart = np.abs(drawing.centres[u] - drawing.centres[v]) - half[u] - half[v]
            assert apart.max() > -1e-9
    assert (
        drawing.extent == graph.arrange_graph(tree, [f"name_{v}" * (1 + v % 3) for v in range(tree.n)]).extent
    )


def test_neighbours_are_nearer_than_others_in_a_drawing_of_the_graph() -> None:
    centres = graph.arrange_graph(path_tree(6), NAMES).centres
    steps = [np.hypot(*(centres[v + 1] - centres[v])) for v in range(5)]
    assert max(steps) < 1.5 * min(steps)
    assert np.hypot(*(centres[5] - centres[0])) > 3 * max(steps)


def test_a_graph_of_too_many_variables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match=r"401 variables.*--graph --dot"):
        draw_graph(path_tree(401), [f"X{v}" for v in range(401)], tmp_path / "g.svg", format="svg")
    assert not list(tmp_path.iterdir())


def test_the_graph_as_text_and_in_dot() -> None:
    tree = JunctionTree(4, (0b0011, 0b0110, 0b1000), ((0, 1), (1, 2)))
    names = ["A", "B", "a, c", 'say "hi"']
    assert graph_text(tree, names).splitlines() == ["A: B", 'B: A, "a, c"', '"a, c": B', '"say \\"hi\\"": ∅']
    lines = graph_dot(tree, names).splitlines()
    assert lines[0] == "graph markov_network {"
    assert [line for line in lines if "--" in line] == ["  v0 -- v1;", "  v1 -- v2;"]
    assert '  v3 [label="say \\"hi\\""];' in lines


def test_the_command_shows_the_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def show(*options: str | Path) -> str:
        network = example("survey-network")
        assert run(["show", str(network), "--graph", *map(str, options)], time.monotonic()) == 0
        return capsys.readouterr().out

    assert "Cough: Smoker\n" in show()
    assert show("--dot").startswith("graph markov_network {")
    assert show("--svg", tmp_path / "graph.svg", "--png", tmp_path / "graph.png") == ""
    assert "<!-- Cough -->" in (tmp_path / "graph.svg").read_text(encoding="utf-8")
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert show("--json").startswith("{")


def pretended(folder: Path, text: str) -> None:
    """Puts a program in the place of Graphviz."""
    program = folder / "neato"
    program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    program.chmod(0o755)


def test_without_graphviz_the_graph_is_scaled_until_nothing_overlaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    test_no_two_variables_overlap_in_a_drawing_of_the_graph(random_tree(40, 1))


def test_places_are_those_of_graphviz_spread_if_they_still_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretended(tmp_path, "printf 'graph 1 1 1\\nnode 1 9 5 1 1\\nnode 0 2 3 1 1\\nstop\\n'")
    monkeypatch.setenv("PATH", str(tmp_path))
    centres = graph.arrange_graph(path_tree(2), ["A", "B"]).centres
    assert (centres[1] - centres[0]).tolist() == pytest.approx([7, 2])
    pretended(tmp_path, "printf 'node 0 0 0 1 1\\nnode 1 0.01 0 1 1\\n'")
    test_no_two_variables_overlap_in_a_drawing_of_the_graph(path_tree(2))


@pytest.mark.parametrize("text", ["exit 1", "echo node 0 x 0", "echo node 0 1 1 1 1"])
def test_a_graphviz_that_fails_is_said_and_done_without(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pretended(tmp_path, text)
    monkeypatch.setenv("PATH", str(tmp_path))
    test_no_two_variables_overlap_in_a_drawing_of_the_graph(path_tree(3))
    assert "neato of Graphviz failed" in caplog.text


@pytest.mark.skipif(shutil.which("neato") is None, reason="Graphviz is not installed")
def test_graphviz_needs_less_room(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, names = random_tree(60, 2), [f"variable {v}" for v in range(60)]
    wide, high = graph.arrange_graph(tree, names).extent
    monkeypatch.setenv("PATH", "")
    assert wide * high < np.prod(graph.arrange_graph(tree, names).extent)
