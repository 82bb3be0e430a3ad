"""Data files: all formats and codings, and error messages."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
import zipfile
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from readers import read_numbers, read_states, tabulate

from jtsolve.errors import ChoiceError, InputError
from jtsolve.scoring.registry import REGISTRY as SCORES
from jtsolve.scoring.scorers import make_scorer
from jtsolve.tables.coding import range_labels
from jtsolve.tables.options import Coding, Discretisation
from jtsolve.tables.raw import GAP, RawColumn
from jtsolve.tables.reading import read_declarations
from jtsolve.tables.source import Blocks
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Callable

CSV = "colour,size\nred,10\nblue,9\nred,x\n"


@pytest.fixture
def states(tmp_path: Path) -> Callable[..., DataTable]:
    """Writes a file and reads it."""

    def read(
        content: str | bytes, coding: Coding | None = None, name: str = "t.csv", **more: Any
    ) -> DataTable:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_states(path, coding or Coding(), **more)

    return read


def rows_of(table: DataTable) -> list[tuple[str, ...]]:
    return [
        tuple(labels[code] for labels, code in zip(table.states, row, strict=True))
        for row in table.codes.T.tolist()
    ]


PLAIN = [("red", "10"), ("blue", "9"), ("red", "x")]


# Formats.


def zipped(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, CSV)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (CSV, "t.csv"),
        (CSV.replace(",", "\t"), "t.tsv"),
        (CSV.replace(",", ";"), "t.txt"),
        (CSV.replace(",", "   ").replace("red", "  red"), "t.data"),
        (CSV.replace("\n", "\r\n"), "t.csv"),
        (CSV.replace("\n", "\r"), "t.csv"),
        ("\ufeff" + CSV, "t.csv"),
        (CSV.encode("utf-16"), "t.csv"),
        (CSV.encode("utf-32"), "t.csv"),
        ("sep=;\n" + CSV.replace(",", ";"), "t.csv"),
        ('"sep=\t"\n' + CSV.replace(",", "\t"), "t.csv"),
        (bz2.compress(CSV.encode()), "t.csv.bz2"),
        (lzma.compress(CSV.encode()), "t.csv.xz"),
        (zipped("t.csv"), "t.zip"),
        (zipped("t.csv"), "t.csv"),
        ('"colour" "size"\n"1" "red" "10"\n"2" "blue" "9"\n"3" "red" "x"\n', "t.txt"),
        ("colour\tsize\nu\tred\t10\nv\tblue\t9\nw\tred\tx\n", "t.txt"),
        (CSV.replace("\n", "\n\n  \n").replace(",", " , "), "t.csv"),
        (CSV.rstrip("\n"), "t.csv"),
        (gzip.compress(CSV.encode(), mtime=0), "t.csv.gz"),
        ('"colour", "size"\n"red",10\n\nblue,"9"\nred,x\n', "t.csv"),
        (
            (
                "% remark\n@RELATION t\n\n@attribute colour {blue, 'red'}\n@attribute \"size\" string\n"
                "@data\nred,10\n% remark\nblue, '9'\n'red',x\n"
            ),
            "t.arff",
        ),
    ],
)
def test_text_formats_hold_the_same_table(
    content: str | bytes, name: str, states: Callable[..., DataTable]
) -> None:
    table = states(content, name=name)
    assert table.names == ("colour", "size")
    assert table.states == (("blue", "red"), ("9", "10", "x"))
    assert rows_of(table) == PLAIN
    assert table.provenance["rows"] == 3
    assert len(table.provenance["sha256_unpacked"]) == 64


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.feather"])
def test_columnar_formats_hold_typed_columns(name: str, states: Callable[..., DataTable]) -> None:
    frame = pl.DataFrame(
        {
            "word": ["b", "a", "b"],
            "kind": pl.Series(["x", "y", "x"], dtype=pl.Categorical),
            "whole": [10, 9, 10],
            "flag": [True, False, True],
            "half": [0.5, 1.0, 0.5],
        }
    )
    buffer = io.BytesIO()
    if name == "t.parquet":
        frame.write_parquet(buffer)
    else:
        frame.write_ipc(buffer)
    table = states(buffer.getvalue(), name=name)
    assert table.states == (("a", "b"), ("x", "y"), ("9", "10"), ("False", "True"), ("0.5", "1"))
    assert table.codes.tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1], [1, 0, 1], [0, 1, 0]]


def test_values_in_quotes_may_hold_separators_and_lines(states: Callable[..., DataTable]) -> None:
    table = states('a,b\n"x, ""y""",1\n"two\nlines",2\n')
    assert rows_of(table) == [('x, "y"', "1"), ("two\nlines", "2")]
    assert states('"a",b\n1,2\n', header=False).names == ("V1", "V2")


def test_values_of_one_character_are_read_like_others(states: Callable[..., DataTable]) -> None:
    states = partial(states, blocks=Blocks(size=8))
    rows = [("x", "1", "?"), ("y", "1", "2"), ("x", "0", "2"), ("é", "0", "2"), ("long", "10", "2")] * 2
    rows += [("x", "1", "2")] * 3
    text = "a,b,c\n" + "".join(",".join(row) + "\n" for row in rows)
    coding = Coding(missing="state")
    table = states(text, coding)
    assert rows_of(table) == rows
    assert rows_of(states(text, replace(coding, columns=("c", "a")))) == [
        (row[2], row[0]) for row in rows_of(table)
    ]
    assert rows_of(states(text.replace(",", " "), coding)) == rows_of(table)
    assert states("a,b\n,ab\n,ac\n", Coding(missing="drop-columns")).states == (("ab", "ac"),)
    with pytest.raises(InputError, match="line 3"):
        states("a,b\n1,2\n1,,\n")


def test_a_file_without_a_header_gets_names(states: Callable[..., DataTable]) -> None:
    table = states("x,1\ny,2\n", header=False)
    assert table.names == ("V1", "V2")
    assert rows_of(table) == [("x", "1"), ("y", "2")]


def test_marks_in_names_are_not_the_separator(states: Callable[..., DataTable]) -> None:
    text = ";size;weight, kg;smoker\n0;1,80;80,5;yes\n1;1,65;60,2;no\n"
    assert states(text).names == ("size", "weight, kg", "smoker")
    assert states("a\tb;c\n1\t2\n").names == ("a", "b;c")
    assert states("a,b c\n\n1,x y z\n").names == ("a", "b c")
    assert states("a;b\n1;2,5\n").names == ("a", "b")


def test_a_single_column_needs_no_separator(states: Callable[..., DataTable]) -> None:
    assert rows_of(states("a\nx\n\ny\n")) == [("x",), ("y",)]
    assert rows_of(states("a b\nx y\n", separator=",")) == [("x y",)]


def test_dat_files_declare_numbers_of_states(states: Callable[..., DataTable]) -> None:
    table = states("# blip\nA B\n3 2\n0 1\n2 0\n", name="t.dat")
    assert table.states == (("0", "1", "2"), ("0", "1"))
    assert table.codes.tolist() == [[0, 2], [1, 0]]


def test_arff_declares_states_and_kinds(states: Callable[..., DataTable]) -> None:
    head = "@relation r\n@attribute a {x,y,'un\\'seen'}\n@attribute b integer\n@attribute c real\n@data\n"
    table = states(head + "x,30,1.5\ny,4,2\n?,4,2\n", Coding(missing="drop-rows"), "t.arff")
    assert table.states == (("x", "y", "un'seen"), ("4", "30"), ("1.5", "2"))
    assert table.provenance["missing_values"] == {"a": 1}


SHELTER = """% animals
@RELATION shelter
@ATTRIBUTE fur {false, true}  % skin
@ATTRIBUTE legs INTEGER [0,9]
@attribute 'the kind' { cat  bird\tfish }
@attribute seen date "yyyy-MM-dd"
@DATA
true,4,cat,2024-01-01 % checked
false 2 bird 2024-01-01
false,\t0,\tfish,\t'2024-01-01'% no
{0 true, 1 4, 3 2024-01-02}
"""


def test_arff_is_read_as_weka_reads_it(states: Callable[..., DataTable]) -> None:
    table = states(SHELTER, name="t.arff")
    assert table.names == ("fur", "legs", "the kind", "seen")
    assert table.states[:3] == (("false", "true"), ("0", "2", "4"), ("cat", "bird", "fish"))
    first, second = "2024-01-01", "2024-01-02"
    assert rows_of(table) == [
        ("true", "4", "cat", first),
        ("false", "2", "bird", first),
        ("false", "0", "fish", first),
        ("true", "4", "cat", second),
    ]


def test_weights_of_arff_rows_weigh_them_unless_a_column_does(states: Callable[..., DataTable]) -> None:
    text = "@relation r\n@attribute a {x,y}\n@attribute n numeric\n@data\nx,5,{2}\ny,1\n{1 3}, {0.5}\n"
    table = states(text, name="t.arff")
    assert table.names == ("a", "n")
    assert table.weights is not None
    assert (table.weights * table.unit).tolist() == [2, 1, 0.5]
    table = states(text, Coding(weights="n"), "t.arff")
    assert table.names == ("a",)
    assert table.weights is not None
    assert table.weights.tolist() == [5, 1, 3]


def test_a_table_of_r_has_labels_of_rows_and_marks_in_its_values(states: Callable[..., DataTable]) -> None:
    table = states('"a" "b c"\n"r 1" "x \\"y\\"" 1\n"r 2" "no, z" NA\n', Coding(missing="state"), "t.txt")
    assert table.names == ("a", "b c")
    assert rows_of(table) == [('x "y"', "1"), ("no, z", "?")]
    assert "index" in table.provenance
    assert rows_of(states('"a"\n"1" "x"\n"2" "y"\n', name="t.txt")) == [("x",), ("y",)]
    with pytest.raises(InputError, match="line 2: it has 3 values"):
        states("a,b\n1,2,\n3,4,\n")


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (zipped("a.csv", "b.csv"), "t.zip", "the archive has 2 files"),
        (bz2.compress(CSV.encode())[:-4], "t.bz2", "bzip2 data: it is damaged or truncated"),
        (lzma.compress(CSV.encode())[:-4], "t.xz", "xz data: it is damaged or truncated"),
        (b"PK\x03\x04x", "t.csv", "zip data: it is damaged or truncated"),
        (CSV.encode(), "t.csv.xz", r"it is named \.xz, but is not xz data"),
        (zipped("a.csv"), "t.xlsx", r"a spreadsheet: such files are not read\. Fix: save it as \.csv"),
        (CSV.encode(), "t.sav", r"pass the frame of pandas.read_spss\('t.sav'\)"),
        (CSV.encode(), "t.csv.lz4", "packed data: such files are not read. Fix: unpack it"),
    ],
)
def test_packed_files_that_are_no_table_are_refused(
    content: bytes, name: str, message: str, states: Callable[..., DataTable]
) -> None:
    with pytest.raises(InputError, match=message):
        states(content, name=name)


@pytest.mark.parametrize("scheme", ["https", "s3", "hf", "SFTP"])
def test_an_address_is_no_file(scheme: str) -> None:
    with pytest.raises(InputError, match=rf"{scheme}://example\.org/t\.csv: it is an address"):
        read_states(Path(f"{scheme}://example.org/t.csv"))


def test_zstandard_is_read_or_refused_with_the_way(states: Callable[..., DataTable]) -> None:
    try:
        zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ImportError:
        with pytest.raises(InputError, match="unpack it with 'zstd -d'"):
            states(b"\x28\xb5\x2f\xfd", name="t.csv.zst")
    else:
        assert rows_of(states(zstd.compress(CSV.encode()), name="t.csv.zst")) == PLAIN
        with pytest.raises(InputError, match="Zstandard data: it is damaged"):
            states(zstd.compress(CSV.encode())[:-3], name="t.csv.zst")


# Missing values.

GAPPY = "a,b,w\nx,1,1\n?,2,2\ny,NA,3\nx,2,0\nx,2,4\n"


def test_missing_values_are_refused_with_their_counts(states: Callable[..., DataTable]) -> None:
    with pytest.raises(InputError, match=r"there are 1 in 'a', 1 in 'b'.*missing=\"state\" \(or drop-rows"):
        states(GAPPY)


@pytest.mark.parametrize(
    ("missing", "rows"),
    [
        ("state", [("x", "1"), ("?", "2"), ("y", "?"), ("x", "2"), ("x", "2")]),
        ("drop-rows", [("x", "1"), ("x", "2"), ("x", "2")]),
        ("impute-mode", [("x", "1"), ("x", "2"), ("y", "2"), ("x", "2"), ("x", "2")]),
    ],
)
def test_missing_values_are_treated_as_requested(
    missing: Any, rows: list[tuple[str, str]], states: Callable[..., DataTable]
) -> None:
    table = states(GAPPY, Coding(missing=missing, drop=("w",)))
    assert rows_of(table) == rows
    assert table.provenance["missing_values"] == {"a": 1, "b": 1}
    assert table.provenance["columns_dropped"] == ["w"]


def test_columns_with_missing_values_are_dropped(states: Callable[..., DataTable]) -> None:
    assert states(GAPPY, Coding(missing="drop-columns")).names == ("w",)
    with pytest.raises(
        InputError, match=r'every column has some. Fix: give missing="state" \(or drop-rows, '
    ):
        states(GAPPY, Coding(missing="drop-columns", drop=("w",)))


def test_modes_count_weights(states: Callable[..., DataTable]) -> None:
    text = "a,w\nx,1\nx,1\ny,3\n?,1\n"
    table = states(text, Coding(missing="impute-mode", weights="w"))
    assert rows_of(table)[3] == ("y",)
    assert rows_of(states(text, Coding(missing="impute-mode", drop=("w",))))[3] == ("x",)


def test_words_for_missing_values_may_be_chosen(states: Callable[..., DataTable]) -> None:
    assert states("a\n?\nx\n", Coding(missing_values=())).states == (("?", "x"),)
    assert states("a\nx\n-9\n", Coding(missing_values=("-9",), missing="state")).states == (("x", "?"),)
    declared = Coding(schema={"a": ("NA", "EU")})
    assert rows_of(states("a\nNA\nEU\n", declared)) == [("NA",), ("EU",)]
    table = states("a\n?\nx\n", Coding(schema={"a": ("x", "y")}, missing="state"))
    assert table.states == (("x", "y", "?"),)


def test_columns_of_missing_values_alone_are_refused(states: Callable[..., DataTable]) -> None:
    with pytest.raises(InputError, match=r"columns 'a', 'b': every value is missing"):
        states("a,b,c\n?,,1\n?,,2\n", Coding(missing="state"))
    assert states("a,b,c\n?,,1\n?,,2\n", Coding(missing="drop-columns")).names == ("c",)
    with pytest.raises(InputError, match="every row has some"):
        states("a,b\n?,1\n2,?\n", Coding(missing="drop-rows"))


# Columns and weights.


def test_columns_are_chosen_and_ordered(states: Callable[..., DataTable]) -> None:
    assert states(GAPPY, Coding(columns=("w", "a"), missing="state")).names == ("w", "a")


@pytest.mark.parametrize(
    ("coding", "message"),
    [
        (Coding(columns=("a", "z")), "there is none called 'z'.*use one of 'a', 'b', 'w'"),
        (Coding(drop=("z",)), "there is none called 'z'"),
        (Coding(weights="z"), "there is none called 'z'"),
        (Coding(schema={"z": ("1",)}), "there is none called 'z'"),
        (Coding(columns=("a", "a")), "named twice"),
        (Coding(columns=("a",), drop=("a",)), "none is left"),
    ],
)
def test_columns_that_cannot_be_chosen(
    coding: Coding, message: str, states: Callable[..., DataTable]
) -> None:
    with pytest.raises(InputError, match=message):
        states(GAPPY, coding)


def test_weights_count_rows_and_zero_leaves_one_out(states: Callable[..., DataTable]) -> None:
    table = states(GAPPY, Coding(weights="w", missing="drop-rows"))
    assert rows_of(table) == [("x", "1"), ("x", "2")]
    assert table.weights is not None
    assert table.weights.tolist() == [1, 4]
    assert table.total == table.provenance["rows"] == 5
    assert table.provenance["weights"] == "w"


def test_fractional_weights_are_counts_of_a_unit(states: Callable[..., DataTable]) -> None:
    table = states("a,b,w\nx,1,0.25\ny,?,1.5\nx,2,0\n", Coding(weights="w", missing="state"))
    assert table.weights is not None
    assert (table.weights * table.unit).tolist() == [0.25, 1.5]
    assert table.total == table.provenance["rows"] == 1.75
    assert table.provenance["missing_values"] == {"b": 1}
    whole = replace(table, weights=np.array([1, 6]), unit=0.25)
    assert table.digest() != whole.digest() != replace(whole, unit=1.0).digest()
    with pytest.raises(ChoiceError, match="a bootstrap needs whole weights, and these have fractions"):
        table.require_whole_weights("a bootstrap")
    with pytest.raises(InputError, match="unit of weights"):
        replace(table, weights=None)


@pytest.mark.parametrize("score", ["bic", "aic", "mdl", "ml"])
def test_scores_of_fractions_of_rows_add_up_to_those_of_the_rows(score: str) -> None:
    codes = np.random.default_rng(0).integers(0, 2, (3, 40))
    states = (("0", "1"),) * 3
    parts = DataTable(("a", "b", "c"), states, np.repeat(codes, 2, axis=1), np.tile([1, 3], 40), unit=0.25)
    found = [
        tabulate(table, SCORES[score], 3).values
        for table in (DataTable(("a", "b", "c"), states, codes), parts)
    ]
    assert found[1] == pytest.approx(found[0])
    scorer = make_scorer(parts, SCORES[score], 3)
    low, high = scorer.extremes(3)
    assert low <= found[1].min() <= found[1].max() <= high
    with pytest.raises(ChoiceError, match="the score 'qnml' needs whole weights"):
        make_scorer(parts, SCORES["qnml"], 3)


@pytest.mark.parametrize("weights", ["1\n-1", "1\nx", "0\n0", "1\n?"])
def test_weights_have_to_be_numbers(weights: str, states: Callable[..., DataTable]) -> None:
    one, two = weights.split()
    with pytest.raises(InputError, match="weights must be numbers, none negative"):
        states(f"a,w\nx,{one}\ny,{two}\n", Coding(weights="w"))


# Numbers and ranges.

NUMBERS = "x,c\n" + "".join(f"{value / 4},{value % 2}\n" for value in range(40))


def test_continuous_columns_are_refused_with_a_hint(states: Callable[..., DataTable]) -> None:
    with pytest.raises(
        InputError, match=r"column 'x': numbers with .*discretise=\"quantile:4\".*score=\"cg\""
    ):
        states(NUMBERS)


def test_more_whole_numbers_than_states_are_a_continuum(states: Callable[..., DataTable]) -> None:
    text = "x\n" + "".join(f"{v}\n" for v in range(60))
    with pytest.raises(InputError, match=r"column 'x': numbers with .*discretise="):
        states(text, Coding(max_states=59))
    table = states(text, Coding(max_states=59, discretise=Discretisation("quantile", 2)))
    assert table.states == (("<= 29", "> 29"),)
    cut = Coding(max_states=60, discretise=Discretisation("quantile", 2))
    assert states(text, cut).states == (("<= 29", "> 29"),)
    assert len(states(text, replace(cut, states=("x",))).states[0]) == 60


def test_few_fractions_and_many_whole_numbers_are_states(states: Callable[..., DataTable]) -> None:
    assert len(states("x\n" + "".join(f"{v / 2}\n" for v in range(20))).states[0]) == 20
    assert len(states("x\n" + "".join(f"{v}\n" for v in range(500))).states[0]) == 500
    assert len(states("x\n" + "".join(f"{v / 2}\n" for v in range(40)) + "old\n").states[0]) == 41
    assert len(states("x\n" + 30 * "".join(f"{v / 2}\n" for v in range(40)) + "old\n").states[0]) == 41


@pytest.mark.parametrize(
    ("method", "labels", "counts"),
    [
        ("quantile:4", ("<= 2.25", "> 2.25, <= 4.75", "> 4.75, <= 7.25", "> 7.25"), [10, 10, 10, 10]),
        ("width:2", ("<= 4.875", "> 4.875"), [20, 20]),
    ],
)
def test_continuous_columns_are_cut(
    method: str, labels: tuple[str, ...], counts: list[int], states: Callable[..., DataTable]
) -> None:
    table = states(NUMBERS, Coding(discretise=Discretisation.parse(method)))
    assert table.states == (labels, ("0", "1"))
    assert np.bincount(table.codes[0]).tolist() == counts
    cuts = table.provenance["cuts"]["x"]
    again = states(NUMBERS, Coding(schema={"x": tuple(cuts)}))
    assert again.states == table.states
    assert again.codes.tolist() == table.codes.tolist()


def test_typed_numbers_with_gaps_are_cut(states: Callable[..., DataTable]) -> None:
    frame = pl.DataFrame({"x": [*(v / 8 for v in range(30)), None, float("nan")]})
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    coding = Coding(discretise=Discretisation("width", 2), missing="state")
    table = states(buffer.getvalue(), coding, "t.parquet")
    assert table.states == (("<= 1.8125", "> 1.8125", "?"),)
    assert np.bincount(table.codes[0]).tolist() == [15, 15, 2]


def test_ties_leave_fewer_ranges() -> None:
    numbers = np.array([1.0] * 9 + [2.0])
    assert Discretisation("quantile", 4).cuts(numbers) == (1.0,)
    assert Discretisation("quantile", 4).cuts(np.array([3.0])) == ()
    assert range_labels(()) == ("any",)


@pytest.mark.parametrize("text", ["tree:4", "quantile", "quantile:1", "width:x", "width:-2"])
def test_other_ways_to_cut_are_refused(text: str) -> None:
    with pytest.raises(ChoiceError, match=rf"'{text}'; .*[gG]ive quantile:B or width:B"):
        Discretisation.parse(text)


def test_cuts_need_numbers(states: Callable[..., DataTable]) -> None:
    with pytest.raises(InputError, match="column 'a': 'x' is not a finite number"):
        states("a\n1\nx\n", Coding(schema={"a": (0.5,)}))


def test_numbers_are_read_for_gaussian_scores(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y,z\n1,0.5,a\n2,1e3,b\n,4,c\n")
    table = read_numbers(path, Coding(drop=("z",), missing="drop-rows"))
    assert table.values.tolist() == [[1.0, 2.0], [0.5, 1000.0]]
    assert read_numbers(path, Coding(columns=("x", "y"), missing="drop-columns")).names == ("y",)
    with pytest.raises(InputError, match="column 'z': 'a' is not a finite number"):
        read_numbers(path, Coding(missing="drop-rows"))
    with pytest.raises(ChoiceError, match='real numbers do not support missing="impute-mode"; do without'):
        read_numbers(path, Coding(missing="impute-mode"))
    path.write_text("x\n1\ninf\n")
    with pytest.raises(InputError, match="column 'x': 'inf' is not a finite number"):
        read_numbers(path)
    path.write_text("x\n1\n1\n")
    with pytest.raises(InputError, match=r"t\.csv: column 'x': every value is 1: a constant"):
        read_numbers(path)


# States.


def test_one_state_is_allowed_and_many_are_not(states: Callable[..., DataTable]) -> None:
    assert states("a,b\nx,1\nx,2\n").states == (("x",), ("1", "2"))
    text = "a\n" + "".join(f"r{i}\n" for i in range(70_000))
    with pytest.raises(InputError, match=r"column 'a': it has 70000 distinct values, more than 1000.*drop="):
        states(text)
    table = states(text, Coding(max_states=10**6))
    assert table.codes.dtype == np.int32
    assert table.codes[0, :3].tolist() == [0, 1, 11_112]
    assert len(set(table.codes[0].tolist())) == 70_000


def test_states_are_as_they_are_written(states: Callable[..., DataTable]) -> None:
    table = states("a\n1\n1.0\n01\nb\ninf\n-2\n")
    assert table.states == (("-2", "01", "1", "1.0", "b", "inf"),)


def test_declared_states_count_and_others_are_refused(states: Callable[..., DataTable]) -> None:
    table = states(CSV, Coding(schema={"colour": ("green", "red", "blue")}))
    assert table.states[0] == ("green", "red", "blue")
    assert table.codes[0].tolist() == [1, 2, 1]
    with pytest.raises(InputError, match="column 'colour': 'blue' is not among its declared states, 'red'"):
        states(CSV, Coding(schema={"colour": ("red",)}))
    many = tuple(map(str, range(100, 120)))
    with pytest.raises(InputError, match="'107' and 12 more"):
        states(CSV, Coding(schema={"colour": many}))


def test_codings_that_are_none_are_refused() -> None:
    with pytest.raises(
        ChoiceError, match="there is no treatment of missing values 'guess'; there are: refuse, state"
    ):
        Coding(missing="guess")  # type: ignore[arg-type]
    with pytest.raises(ChoiceError, match="the largest number of states is 0"):
        Coding(max_states=0)


# A schema.


def test_a_schema_declares_states_and_cuts(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"a": ["low", "high"], "b": [1, 2.5]}')
    assert dict(read_declarations(path)[0]) == {"a": ("low", "high"), "b": (1.0, 2.5)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is not an object"),
        ('{"a": "x"}', "'a': it is neither"),
        ('{"a": []}', "'a': it is neither"),
        ('{"a": ["x", 1]}', "'a': it is neither"),
        ('{"a": ["x", "x"]}', "'a': it is neither"),
        ('{"a": [NaN]}', "'a': it is neither"),
        ('{"a": [2, 1]}', "'a': the cuts do not increase"),
    ],
)
def test_schemas_that_are_none_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_declarations(path)


def test_the_cuts_of_an_instance_are_a_schema(states: Callable[..., DataTable], tmp_path: Path) -> None:
    table = states(NUMBERS, Coding(discretise=Discretisation("quantile", 3)))
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(table.provenance["cuts"]))
    assert states(NUMBERS, Coding(schema=read_declarations(path)[0])).digest() == table.digest()


# Invalid files.


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("", "t.csv", "the file is empty"),
        (" \n\n", "t.csv", "only blanks"),
        ("a,b\n", "t.csv", "there are no rows below the header"),
        ('"a",b\n', "t.csv", "there are no rows below the header"),
        ("a,b\n1,2\n1\n", "t.csv", "line 3: it has 1 values, but there are 2 columns"),
        ("a,b\n1,2\n\n1,2,3\n", "t.csv", "line 4: it has 3 values, but there are 2 columns"),
        ('a,b\n"1",2\n"1"\n', "t.csv", "line 3: it has 1 values, but there are 2 columns"),
        ("a b\n1 2 3\n", "t.txt", "line 2: it has 3 values, but there are 2 columns"),
        ('a,b\n"1,2\n', "t.csv", "line 2: the quotes do not close"),
        ('a,b\n"1"x,2\n', "t.csv", "line 2: the quotes do not close"),
        ("a,a\n1,2\n", "t.csv", "the name of column 2: 'a' occurs twice.*header=False"),
        ("a,\n1,2\n", "t.csv", "the name of column 2: it is empty"),
        (b"a\nx\n\xe9\n", "t.csv", "line 3: a byte is not UTF-8"),
        (b"a\nx\n\0\n", "t.csv", "line 3: there are control characters"),
        (CSV.encode("utf-16-le"), "t.csv", 'line 1: there are control .*encoding="utf-16"'),
        (b"PAR1\x15\0\xff", "t.csv", "Parquet and Arrow files need their suffix"),
        ("A B\n0 1\n", "t.dat", "line 2: 'A' has 0 states"),
        ("A B\n2 x\n0 1\n", "t.dat", "line 2: the number of states of every column is expected"),
        ("A B\n", "t.dat", "line 2: the number of states of every column is expected"),
        ("# A\n", "t.dat", "line 2: the number of states of every column is expected"),
        ("A B\n2 2\n0 2\n", "t.dat", "column 'B': '2' is not among its declared states"),
        ("A B\n2 2\n0 x\n", "t.dat", "column 'B': 'x' is not among its declared states"),
        ("A B\n2 2\n0\n", "t.dat", "line 3: it has 1 values"),
        ("A B\n2 2\n", "t.dat", "there are no rows"),
        ("A A\n2 2\n0 1\n", "t.dat", "'A' occurs twice"),
        (
            "@relation r\n@attribute a {x,x}\n@data\nx\n",
            "t.arff",
            "line 2: the attribute .* is not supported",
        ),
        (
            "@relation r\n@attribute a relational\n@data\nx\n",
            "t.arff",
            "line 2: the attribute",
        ),
        ("@relation r\n@attribute\n@data\nx\n", "t.arff", "line 2: the attribute .* is not supported"),
        ("@relation r\n@attribute a {x,'y}\n@data\nx\n", "t.arff", "line 2: no value can be read"),
        ("@relation r\n@attribute a {x}\n@data\n{1 x}\n", "t.arff", "line 4: '1' is no position"),
        ("@relation r\n@attribute a {x}\n@data\n{0}\n", "t.arff", "line 4: a position has no value"),
        ("@relation r\n@attribute a string\n@data\n{}\n", "t.arff", "line 4: it omits 'a'"),
        ("@relation r\n@attribute a {x}\n@data\nx,{y}\n", "t.arff", "line 4: 'y' is no weight"),
        ("@relation r\n@attribute a {x}\n@data\nx,{1.2.3}\n", "t.arff", "line 4: '1.2.3' is no weight"),
        (f"@relation r\n@attribute a {{x}}\n@data\n{{{'9' * 5000} x}}\n", "t.arff", "is no position"),
        ("@relation r\n@attribute a {x}\n@data\n{x\n", "t.arff", "line 4: its braces enclose no row"),
        ("@relation r\n@attribute a {x}\n@data\nx,x\n", "t.arff", "line 4: it has 2 values"),
        ("@relation r\n@attribute a {x}\n@data\nx,\n", "t.arff", "line 4: no value can be read"),
        ("@relation r\n@attribute a {x}\n@data\n", "t.arff", "there are no rows"),
        ("@relation r\n@attribute a {x}\n@attribute a {x}\n@data\nx,x\n", "t.arff", "'a' occurs twice"),
        ("@relation r\n@attribute a {x}\n", "t.arff", "there are no rows"),
        ("relation r\n", "t.arff", "line 1: 'relation r' is not a header line"),
        ("@relation r\n@attribute a {x}\n@data\ny\n", "t.arff", "'y' is not among its declared states"),
        (b"PAR1", "t.parquet", "it cannot be read as parquet"),
        (b"ARROW1", "t.arrow", "it cannot be read as arrow"),
    ],
)
def test_faults_of_a_file_are_reported(
    content: str | bytes, name: str, message: str, states: Callable[..., DataTable]
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        states(content, name=name)
    assert name in str(caught.value)


def test_columns_that_hold_no_states_are_refused(states: Callable[..., DataTable]) -> None:
    for frame, message in (
        (pl.DataFrame({"a": [[1], [2]]}), r"column 'a': values of type List"),
        (pl.DataFrame({"a": [b"x"]}), "column 'a': values of type Binary"),
        (pl.DataFrame({"a": []}, schema={"a": pl.String}), "there are no rows"),
    ):
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        with pytest.raises(InputError, match=message):
            states(buffer.getvalue(), name="t.parquet")


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_states(tmp_path / "none.csv")


def test_files_are_read_in_pieces(states: Callable[..., DataTable]) -> None:
    generator = np.random.default_rng(3)
    rows = [f"{a},word {b}" for a, b in generator.integers(0, 50, (300, 2)).tolist()]
    text = "\n \na,b\n" + "\n\n".join(rows)
    whole = states(text)
    frame = pl.DataFrame({"a": [row.split(",")[0] for row in rows], "b": [row.split(",")[1] for row in rows]})
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    assert states(buffer.getvalue(), name="t.parquet", blocks=Blocks(rows=7)).digest() == whole.digest()
    for blocks in map(Blocks, (1, 20, 100)):
        assert states(text, blocks=blocks).digest() == whole.digest()
        with pytest.raises(InputError, match="line 603: it has 1 values"):
            states(text + "\n1\n", blocks=blocks)


def test_a_piece_may_hold_gaps_alone(states: Callable[..., DataTable]) -> None:
    frame = pl.DataFrame({"a": [None, None, "x", None]})
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    table = states(buffer.getvalue(), Coding(missing="state"), "t.parquet", blocks=Blocks(rows=2))
    assert rows_of(table) == [("?",), ("?",), ("x",), ("?",)]


@pytest.mark.parametrize("codes", [[0, 1, 2], [2, 0, 1]])
def test_a_recoded_column_shares_no_memory(codes: list[int]) -> None:
    column = RawColumn("a", ("x", "y", "z"), np.array([0, 2, GAP, 1], dtype=np.int8))
    recoded = column.recoded(np.array(codes, dtype=np.int32))
    assert recoded.codes.tolist() == [codes[0], codes[2], GAP, codes[1]]
    assert not np.shares_memory(recoded.codes, column.codes)
