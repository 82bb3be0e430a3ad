"""Pictures of trees: text, DOT, SVG and PNG."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.figure import Figure

from jtsolve.cli import run
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members, varset
from jtsolve.data import example
from jtsolve.draw import graph, layout, packing, picture
from jtsolve.draw.picture import draw_graph, draw_tree
from jtsolve.draw.text import edges_dot, graph_text, tree_dot, tree_text
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


def test_components_are_drawn_apart_and_isolated_variables_are_listed() -> None:
    tree = JunctionTree(6, (0b1, 0b110, 0b1000, 0b110000), ((0, 1), (1, 2), (2, 3)))
    names = NAMES[:6]
    assert tree_text(tree, names) == "{B, C}\n\n{E, F}\n\nisolated: A, D"
    assert graph_text(tree, names) == "B: C\nC: B\nE: F\nF: E\nisolated: A, D"
    assert "--" not in tree_dot(tree, names)
    boxes = layout.best_layout(tree, names).boxes
    assert [(box.lines, box.depth) for box in boxes] == [(["B, C"], 0), (["E, F"], 0)]
    assert layout.best_layout(tree, names).remarks == ("isolated: A, D",)
    drawing = graph.arrange_edges(tree.graph_edges, names)
    assert (drawing.drawn, drawing.remarks) == ((1, 2, 4, 5), ("isolated: A, D",))


def test_the_tree_of_a_star_is_flat() -> None:
    star = JunctionTree(9, tuple(varset([0, v]) for v in range(1, 9)), tuple((v, v + 1) for v in range(7)))
    assert max(box.depth for box in layout.best_layout(star, NAMES).boxes) == 1


def test_cliques_in_any_order_are_shown_as_one_tree() -> None:
    trees = (((0, 1), (1, 2)), ((0, 1), (0, 2)), ((0, 2), (1, 2)))
    drawn = [JunctionTree(4, cliques, tree) for cliques in permutations((3, 5, 9)) for tree in trees]
    assert len({tree_text(tree, NAMES[:4]) for tree in drawn}) == 1


def test_edges_bend_round_nodes_that_they_do_not_join() -> None:
    centres, sizes = np.array([[0.0, 0.0], [2.0, 0.01], [4.0, 0.0]]), np.full((3, 2), 0.4)
    route = graph._route(centres, sizes, (0, 2), range(3))
    assert not route.behind
    assert (np.abs(route.at(np.linspace(0, 1, 99)) - centres[1]) > 0.2).any(axis=1).all()
    straight = graph._route(centres, sizes, (0, 1), range(3))
    assert straight.at(0.5).tolist() == [1.0, 0.005]


@pytest.mark.parametrize("n", [30, 1000])
def test_a_page_shows_a_graph_of_any_size_by_itself(n: int, tmp_path: Path) -> None:
    tree = random_tree(n, 3)
    names = [f"</script>&<b>{v}" for v in range(n)]
    draw_tree(tree, names, tmp_path / "g.html")
    page = (tmp_path / "g.html").read_text(encoding="utf-8")
    assert len(page) < 12_000 + 100 * n
    assert "http" not in page
    assert page.count("</script>") == 2
    held = json.loads(re.search(r'<script id="graph"[^>]*>(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert held["names"] == names
    assert [tuple(edge) for edge in held["edges"]] == list(tree.graph_edges)
    places = np.array([held["x"], held["y"]]).T
    ends = places[np.array(held["edges"])]
    lengths = np.hypot(*(ends[:, 0] - ends[:, 1]).T)
    assert np.median(lengths) < 0.5 * np.hypot(*np.ptp(places, axis=0))


def test_text_has_a_line_for_every_clique_and_needs_no_deep_stack() -> None:
    assert len(tree_text(path_tree(5000), [f"X{v}" for v in range(5000)]).splitlines()) == 4999
    tree = random_tree(100, 3)
    text, alone = tree_text(tree, [f"X{v}" for v in range(100)]).split("isolated: ")
    shown = [set(re.findall(r"X\d+", line.split("  sep ")[0])) for line in text.splitlines() if line]
    shown += [{name} for name in alone.split(", ")]
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
    assert tree_text(JunctionTree(1, (1,), ()), [name]) == f"isolated: {shown}"
    assert tree_text(JunctionTree(2, (3,), ()), [name, "Z"]) == f"{{{shown}, Z}}"


def test_dot_of_a_small_tree() -> None:
    tree = JunctionTree(4, (0b0011, 0b0110, 0b1000), ((0, 1), (1, 2)))
    lines = tree_dot(tree, ["A", "B", 'say "hi"', "back\\slash\n\x1b\x00"]).splitlines()
    assert lines[0] == "graph junction_tree {"
    assert lines[-1] == "}"
    assert r'  c0 [label="A\nB"];' in lines
    assert r'  c1 [label="B\nsay \"hi\""];' in lines
    assert r'  c2 [label="back\\slash\n\\u001b\\u0000"];' in lines
    assert '  c0 -- c1 [label="B"];' in lines
    assert sum("--" in line for line in lines) == 1


def test_drawings_are_files_of_their_kind(tmp_path: Path) -> None:
    tree = random_tree(12, 1)
    names = [f"variable_{v}" for v in range(12)]
    draw_tree(tree, names, tmp_path / "tree.svg")
    draw_tree(tree, names, tmp_path / "tree.png")
    assert ET.parse(tmp_path / "tree.svg").getroot().tag.endswith("svg")  # noqa: S314 - our own file
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")


def test_svg_is_the_same_every_time_and_has_every_text(tmp_path: Path) -> None:
    tree = JunctionTree(4, (0b0011, 0b0110, 0b1000), ((0, 1), (1, 2)))
    names = ["first", "$x_2$", "3", "fourth"]
    for name in ("one.svg", "two.svg"):
        draw_tree(tree, names, tmp_path / name)
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert "<dc:date>" not in text
    # matplotlib writes each line of text in a comment beside its outlines.
    assert set(re.findall(r"<!-- (.*?) -->", text)) == {
        "first, $x_2$",
        "$x_2$, 3",
        "isolated: fourth",
        "$x_2$",
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [2, 17, 60, 100])
def test_nothing_overlaps_in_a_drawing(n: int, seed: int) -> None:
    drawing = layout.best_layout(random_tree(n, seed), [f"name_{v}" * (1 + v % 3) for v in range(n)])
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
    # A star and its leaves are side by side, so neither direction is a long line.
    star = JunctionTree(41, tuple(varset([0, v]) for v in range(1, 41)), tuple((0, v) for v in range(1, 40)))
    assert layout.best_layout(star, [f"X{v}" for v in range(41)]).distortion < 3


def test_long_names_are_broken_between_words_and_nothing_is_lost() -> None:
    name = "a_rather_long_name_of_a_variable_in_some_data_set"
    pieces = layout._pieces(name)
    assert len(pieces) == 3
    assert "".join(piece.removesuffix(packing.BROKEN) for piece in pieces) == name
    assert all(piece.endswith("_" + packing.BROKEN) for piece in pieces[:-1])
    assert layout._pieces("x" * 30) == ["x" * 24 + packing.BROKEN, "x" * 6]
    assert layout._pieces("short") == ["short"]
    assert layout._pieces("x" * 24 + ",") == ["x" * 24 + ","]  # a comma does not begin a line


def test_a_tree_of_too_many_cliques_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match=r"151 cliques would be unreadable.*show\(\"graph.html\"\)"):
        draw_tree(path_tree(152), [f"X{v}" for v in range(152)], tmp_path / "t.svg")
    draw_tree(path_tree(151), [f"X{v}" for v in range(151)], tmp_path / "t.svg")


def test_characters_that_the_font_lacks_are_escaped_and_the_picture_says_so(tmp_path: Path) -> None:
    draw_tree(path_tree(3), ["年", "Größe", "возраст"], tmp_path / "tree.svg")
    text = (tmp_path / "tree.svg").read_text(encoding="utf-8")
    shown = {*re.findall(r"<!-- (.*?) -->", text)}
    assert {"\\u5e74,", "Größe", "Größe,", "возраст"} <= shown
    assert any(line.startswith("characters that the font DejaVu Sans lacks") for line in shown)


def test_text_loads_no_drawing() -> None:
    script = "import sys, jtsolve.draw.text; print(*sorted(m for m in sys.modules if 'jtsolve.draw' in m))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    assert loaded.stdout.split() == [
        "jtsolve.draw",
        "jtsolve.draw.branching",
        "jtsolve.draw.rooted",
        "jtsolve.draw.text",
    ]


def test_pictures_too_long_for_png_are_refused() -> None:
    with pytest.raises(ChoiceError, match="600 inches long: too large for PNG; draw it as SVG"):
        picture.render(Figure(figsize=(600, 1)), "png")


def test_a_drawing_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        draw_tree(path_tree(3), NAMES, tmp_path / "none" / "tree.svg")


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
    drawing = graph.arrange_edges(tree.graph_edges, names)
    assert set(drawing.edges) == set(tree.graph_edges)
    half, drawn = drawing.sizes / 2, list(drawing.drawn)
    assert (drawing.centres[drawn] - half[drawn] > -1e-9).all()
    assert (drawing.centres[drawn] + half[drawn] < np.array(drawing.extent) + 1e-9).all()
    for u in drawn:
        for v in drawn[: drawn.index(u)]:
            apart = np.abs(drawing.centres[u] - drawing.centres[v]) - half[u] - half[v]
            assert apart.max() > -1e-9
    assert (
        drawing.extent
        == graph.arrange_edges(tree.graph_edges, [f"name_{v}" * (1 + v % 3) for v in range(tree.n)]).extent
    )


def test_neighbours_are_nearer_than_others_in_a_drawing_of_the_graph() -> None:
    centres = graph.arrange_edges(path_tree(6).graph_edges, NAMES).centres
    steps = [np.hypot(*(centres[v + 1] - centres[v])) for v in range(5)]
    assert max(steps) < 1.5 * min(steps)
    assert np.hypot(*(centres[5] - centres[0])) > 3 * max(steps)


def test_a_graph_of_too_many_variables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match=r"401 variables.*show\(\"graph.html\"\)"):
        draw_graph(path_tree(401), [f"X{v}" for v in range(401)], tmp_path / "g.svg")
    assert not list(tmp_path.iterdir())


def test_the_graph_as_text_and_in_dot() -> None:
    tree = JunctionTree(4, (0b0011, 0b0110, 0b1000), ((0, 1), (1, 2)))
    names = ["A", "B", "a, c", 'say "hi"']
    text = graph_text(tree, names).splitlines()
    assert text == ["A: B", 'B: A, "a, c"', '"a, c": B', 'isolated: "say \\"hi\\""']
    lines = edges_dot(tree.graph_edges, names).splitlines()
    assert lines[0] == "graph markov_network {"
    assert [line for line in lines if "--" in line] == ["  v0 -- v1;", "  v1 -- v2;"]
    assert '  v3 [label="say \\"hi\\""];' in lines


def test_the_command_shows_the_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def show(*options: str | Path) -> str:
        network = example("survey-network")
        assert run(["show", str(network), "--graph", *map(str, options)], time.monotonic()) == 0
        return capsys.readouterr().out

    assert "Cough: Smoker\n" in show()
    for suffix in ("dot", "svg", "png", "html"):
        assert show("--output", tmp_path / f"graph.{suffix}") == ""
    assert (tmp_path / "graph.dot").read_text(encoding="utf-8").startswith("graph markov_network {")
    assert '"Cough"' in (tmp_path / "graph.html").read_text(encoding="utf-8")
    assert "<!-- Cough -->" in (tmp_path / "graph.svg").read_text(encoding="utf-8")
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert show("--json").startswith("{")


@pytest.mark.parametrize("name", ["t.gif", "t"])
def test_an_unknown_format_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match=r"written as \.svg, \.png, \.html or \.dot"):
        draw_tree(path_tree(3), NAMES[:3], tmp_path / name)
