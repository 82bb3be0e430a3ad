"""The data check: each finding, its advice followed, and awkward tables that all end in an answer."""

from __future__ import annotations

import ast
import gzip
import json
import pickle
import re
import shlex
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import jtsolve as jt
from jtsolve.cli import app
from jtsolve.errors import ChoiceError, InputError, JtsolveError
from jtsolve.io.instance import read_problem
from jtsolve.io.result import read_result
from jtsolve.options import Door, worded
from jtsolve.tables.check import KINDS, Finding, examine, report_findings, sparse_cliques
from jtsolve.tables.options import Coding, Dialect, Discretisation
from jtsolve.tables.raw import RawColumn, RawTable
from jtsolve.tables.reading import read_checked, read_raw
from jtsolve.tables.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commands import Command

ROOT = Path(__file__).parents[1]
READERS = ("solve", "score", "fit", "average", "select")
COMMANDS = (*READERS, "check", "show", "query", "mpe", "sample")


def raw_table(**columns: Any) -> RawTable:
    """A table as read from text."""
    raw = []
    for name, values in columns.items():
        words = [str(value) for value in values]
        labels = tuple(dict.fromkeys(words))
        codes = np.array([labels.index(word) for word in words], dtype=np.int32)
        raw.append(RawColumn(name, labels, codes))
    return RawTable(tuple(columns), tuple(raw), typed=False)


def found(coding: Coding | None = None, size: int | None = 3, **columns: Any) -> list[Finding]:
    return list(examine(raw_table(**columns), coding or Coding(), "t.csv", size=size))


def kinds(coding: Coding | None = None, size: int | None = 3, **columns: Any) -> dict[str, tuple[str, ...]]:
    return {finding.kind: finding.columns for finding in found(coding, size, **columns)}


COIN = [0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 1, 1, 0, 1, 0]
DAYS = [str(date(2024, 1, 1) + timedelta(7 * i)) for i in range(20)]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("near-empty", ["x"] + ["?"] * 19),
        ("near-empty", ["?"] * 20),
        ("constant", ["x"] * 20),
        ("constant", ["x"] * 15 + [""] * 5),
        ("decimal-comma", [f"{i % 3},5" for i in range(20)]),
        ("date", DAYS),
        ("date", [f"{i}/3/24" for i in range(1, 21)]),
        ("date", [f"{i:02}:15" for i in range(20)]),
        ("date", [f"2024-01-{i:02} 10:00:00" for i in range(1, 21)]),
        ("date", [f"202401{i:02}" for i in range(1, 21)]),
        ("identifier", range(20)),
        ("identifier", range(100, 60, -2)),
        ("identifier", [f"{7919 * i % 100000:07}" for i in range(20)]),
        ("identifier", [f"row {i}" for i in range(20)]),
        ("mixed", [*[i % 4 for i in range(19)], "unknown"]),
        ("sentinel", [*[i % 4 for i in range(19)], -9]),
        ("sentinel", [*[i % 4 for i in range(19)], 99]),
        ("sentinel", [*["yes", "no"] * 9, "Don't know", "refused"]),
    ],
)
def test_each_fault_of_a_column_is_found(kind: str, values: Sequence[object]) -> None:
    assert kinds(x=values, coin=COIN) == {kind: ("x",)}


@pytest.mark.parametrize(
    "values",
    [
        COIN,
        [i % 7 for i in range(20)],
        ["1", "2", "3+"] * 6 + ["1", "2"],
        [2020, 2021] * 10,
        DAYS[:3] * 6 + DAYS[:2],
        ["a, b", "c"] * 10,
        [0.5 * (i % 9) for i in range(20)],
    ],
)
def test_ordinary_columns_are_no_fault(values: Sequence[object]) -> None:
    assert kinds(size=2, x=values, other=COIN[::-1]) == {}


def test_quantities_are_named_unless_they_are_cut_or_declared() -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {
        "age": rng.integers(18, 90, 300),
        "income": rng.normal(size=300),
        "coin": rng.integers(0, 2, 300),
    }
    assert kinds(**columns) == {"quantity": ("age", "income")}
    assert kinds(Coding(discretise=Discretisation("quantile", 4)), **columns) == {}
    assert kinds(Coding(states=("age", "income")), **columns) == {}
    assert kinds(Coding(schema={"age": (30.0,), "income": (0.0,)}), **columns) == {}


def test_columns_that_are_not_normal_are_named_where_they_are_read_as_real_numbers() -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {
        "normal": rng.normal(size=300),
        "age": rng.integers(18, 90, 300),
        "coin": rng.integers(0, 2, 300),
        "income": np.exp(rng.normal(10, 1, 300)),
        "huge": 1e200 * np.exp(rng.normal(size=300)),
    }
    findings = examine(raw_table(**columns), Coding(), "t", discrete=False)
    assert {one.kind: one.columns for one in findings} == {
        "two-valued": ("coin",),
        "skewed": ("income", "huge"),
    }
    assert "bdeu" in findings[0].advice
    assert "logarithms" in findings[1].advice


def test_where_no_clique_can_be_fed_the_advice_is_a_smaller_treewidth() -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{i}": list(map(str, rng.integers(0, 2, 100))) for i in range(30)}
    (finding,) = found(size=9, **columns)
    assert finding.kind == "crowded"
    assert worded(finding.advice, Door.SHELL) == "ask for a smaller --treewidth 5"
    assert found(size=6, **columns) == []


def test_states_that_the_rows_cannot_feed_are_named() -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {"town": [f"town {i}" for i in rng.integers(0, 30, 100)]}
    columns |= {name: list(map(str, rng.integers(0, 2, 100))) for name in "abc"}
    (finding,) = found(size=3, **columns)
    assert (finding.kind, finding.columns) == ("many-states", ("town",))
    assert "at least" in str(finding)
    assert kinds(size=2, **columns) == {}
    assert kinds(size=None, **columns) == {}
    assert kinds(size=3, town=columns["town"]) == {}


def test_copies_and_functions_of_other_columns_are_named() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 9, 200)
    b = rng.integers(0, 9, 200)
    columns: dict[str, Any] = {"a": a, "b": b, "copy": [f"<{v}>" for v in a], "coarse": a // 3, "sign": a > 4}
    assert kinds(**columns) == {"duplicate": ("copy",), "function": ("coarse",)}
    renamed = [f"{9 - v}" for v in a]
    assert kinds(size=None, a=a, b=b, renamed=renamed) == {"duplicate": ("renamed",)}
    almost = [*(f"<{v}>" for v in a[:-1]), "<0>" if a[-1] else "<1>"]
    assert kinds(a=a, b=almost) == {}
    late = rng.integers(0, 9, 400)
    swapped = [*late[:300], *late[:299:-1]]  # as often, and alike for 300 rows
    assert kinds(size=None, a=late, b=swapped) == {}
    assert kinds(size=None, x=[0, 0, 0, 1, 2, 0, 0, 0] * 2, y=[*range(8), *range(8)]) == {}


def test_a_row_with_most_of_the_weight_is_named() -> None:
    assert kinds(Coding(weights="w"), size=2, a=[0, 1, 0], b=[0, 1, 1], w=[3, 900, 4]) == {"weight": ("w",)}
    assert kinds(Coding(weights="w"), size=2, a=[0, 1, 0], b=[0, 1, 1], w=[3, 4, 4]) == {}


def test_columns_that_count_rows_are_named() -> None:
    cells: dict[str, Any] = {"a": [0, 0, 1, 1] * 3, "b": [0, 1] * 6, "c": [0] * 4 + [1] * 4 + [2] * 4}
    times = [3, 900, 4, 4, 5, 2, 3, 3, 7, 1, 4, 4]
    for name in ("Freq", "n", "total"):
        named: dict[str, Any] = {**cells, name: times}
        assert kinds(size=2, **named)["count"] == (name,)
    assert "count" not in kinds(Coding(weights="Freq"), size=2, **cells, Freq=times)
    assert "count" not in kinds(size=2, a=[0, 0, 1, 1] * 3, b=[0, 1] * 6, n=times)
    assert "count" not in kinds(size=2, **cells, size_n=times)


def test_margins_in_a_long_table_of_counts_are_named() -> None:
    margins: dict[str, Any] = {"a": ["x", "y", "Summe"] * 3, "b": [*"ppp", *"qqq", *["Sum"] * 3]}
    counts = [3, 4, 7, 5, 6, 11, 8, 10, 18]
    assert kinds(Coding(weights="n"), size=2, **margins, n=counts) == {"margin": ("a", "b")}
    assert "margin" not in kinds(Coding(weights="n"), size=2, **margins, n=[3, 4, 8, 5, 6, 11, 8, 10, 20])


def test_a_header_that_is_a_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for text, expected in (("u,1\n", True), ("word,1\n", False), ("0,1\n", False), ("u,b\n", False)):
        path.write_text(text + "u,2\nv,3\nu,1\nv,2\n" * 5, encoding="utf-8")
        findings = examine(read_raw(Source(path)), Coding(), "t.csv")
        found = [finding for finding in findings if finding.kind == "header"]
        assert bool(found) == expected
        if found:
            assert worded(found[0].advice, Door.SHELL) == "give --read header=false"


def test_a_gap_state_makes_a_constant_two_valued() -> None:
    values = ["x"] * 15 + [""] * 5
    assert kinds(Coding(missing="state"), x=values, coin=COIN) == {}


def test_long_lists_are_cut_in_the_sentence_but_not_in_the_advice() -> None:
    columns: dict[str, Any] = {f"a {i}": ["same"] * 20 for i in range(6)} | {"c,d": ["x"] * 20, "coin": COIN}
    (finding,) = found(**columns)
    assert "and 3 more" in finding.sentence
    assert worded(finding.advice, Door.SHELL) == """leave out with --drop 'a 0,a 1,a 2,a 3,a 4,a 5,"c,d"'"""


def test_judging_names_the_largest_cliques() -> None:
    assert sparse_cliques([(["a", "b"], [2, 3])], rows=6) is None
    many = [([f"v{i}", "w"], [i + 2, 9]) for i in range(7)]
    finding = sparse_cliques(many, rows=10)
    assert finding is not None
    assert finding.sentence.startswith("{v6, w} has 72 cells; {v5, w}")
    assert "and 3 more, but there are 10 rows to fill them" in finding.sentence


def test_strictness_makes_findings_errors() -> None:
    report_findings((), "t.csv", None, strict=True)
    findings = found(x=["same"] * 20, coin=COIN, day=DAYS)
    with pytest.raises(InputError, match=r"t.csv: data check: 2 warnings: \(1\) constant .* \(2\) dates"):
        report_findings(findings, "t.csv", None, strict=True)


def test_every_kind_has_its_section() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    for kind in (*KINDS, "clique"):
        assert f"### {kind}\n" in page


@pytest.mark.parametrize(
    ("name", "dropped", "expected"),
    [
        ("house-votes-84.data", (), {}),
        ("lymphography.data", (), {}),
        ("nursery.data.gz", (), {}),
        ("poker-hand-training-true.data.gz", (), {}),
        ("primary-tumor.data", (), {}),
        ("tic-tac-toe.data", (), {}),
        ("zoo.data", ("V1",), {}),
        ("zoo.data", (), {"identifier": ("V1",)}),  # the animal's name
        ("agaricus-lepiota.data.gz", (), {"constant": ("V17",)}),  # veil-type: all partial
        (
            "adult.data.gz",
            (),
            # V11 has the code 99999 for gains beyond 41,310.
            {
                "quantity": ("V1", "V3", "V11", "V12", "V13"),
                "duplicate": ("V5",),
                "sentinel": ("V11",),
            },
        ),
    ],
)
def test_the_uci_sets_raise_no_false_alarm(
    name: str, dropped: tuple[str, ...], expected: dict[str, tuple[str, ...]], shared: Path
) -> None:
    path = shared / "data" / "uci" / name
    raw = read_raw(Source(path), dialect=Dialect(header=False))
    findings = examine(raw, Coding(drop=dropped), name, size=3)
    assert {finding.kind: finding.columns for finding in findings} == expected


def survey(path: Path) -> Path:
    """Smoking → cancer → cough, beside an identifier, a date, ages and incomes that mean nothing."""
    rng = np.random.default_rng(1)
    rows = 800
    smoker = rng.random(rows) < 0.5
    cancer = rng.random(rows) < np.where(smoker, 0.7, 0.15)
    cough = rng.random(rows) < np.where(cancer, 0.8, 0.1)
    columns = [
        range(1000, 1000 + rows),
        [date(2020, 1, 1) + timedelta(int(day)) for day in rng.integers(0, 600, rows)],
        rng.integers(18, 90, rows),
        rng.integers(15000, 99999, rows),
        *(np.where(column, "yes", "no") for column in (smoker, cancer, cough)),
    ]
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    path.write_text("\n".join(["ID,Date,Age,Income,Smoker,Cancer,Cough", *lines]) + "\n")
    return path


def test_the_survey_names_all_four_and_following_gives_the_true_graph(
    command: Command, tmp_path: Path
) -> None:
    path, output = survey(tmp_path / "survey.csv"), tmp_path / "r.json"
    arguments: list[str | Path] = ["solve", path, "--score", "bic", "--treewidth", "2", "--output", output]
    assert command(*arguments) == 0
    for name in ("ID", "Date", "Age", "Income"):
        assert f"'{name}' (" in command.err
    warnings = read_result(output).stats["warnings"]
    assert [entry["kind"] for entry in warnings] == ["date", "identifier", "quantity"]
    followed = [word for line in command.err.splitlines() if "Fix" in line for word in advised(line)]
    assert command(*arguments, *followed) == 0
    assert command.err == ""
    edges = {tuple(sorted(c)) for c in read_result(output).cliques if len(c) > 1}
    assert edges == {("Cancer", "Smoker"), ("Cancer", "Cough")}


def test_strict_ends_every_command_that_reads_data(command: Command, tmp_path: Path) -> None:
    path = survey(tmp_path / "survey.csv")
    for first in (
        ("solve", path, "--score", "bic", "--treewidth", "1"),
        ("score", path, "--score", "bic", "--max-size", "2", "--output", tmp_path / "i.json"),
        ("fit", path, "--score", "bic", "--treewidth", "1", "--output", tmp_path / "m.json"),
    ):
        assert command(*first, "--read", "strict=true") == 2
        assert "data check: 3 warnings" in command.err
    words = ("score", path, "--score", "bic", "--max-size", "2", "--output", tmp_path / "i.json", "--quiet")
    assert command(*words) == 0
    assert command.err == ""
    kept = read_problem(tmp_path / "i.json").provenance["warnings"]
    assert [entry["kind"] for entry in kept] == ["date", "identifier", "quantity"]


CSV = "a,b,c\n" + "".join(f"{i % 2},{(i // 2) % 3},{(i * i) % 2}\n" for i in range(24))
RNG = np.random.default_rng(7)
WIDE = ",".join(f"v{i}" for i in range(300))
AWKWARD: dict[str, bytes] = {
    "plain": CSV.encode(),
    "excel with a byte order mark, semicolons and decimal commas": "\ufeffgruppe;wert\r\n".encode()
    + "".join(f"{'ab'[i % 2]};{i * 37 % 100},{i % 10}\r\n" for i in range(50)).encode(),
    "thousands": b"g;x\n" + b"".join(b"%s;1.%03d,5\n" % (b"ab"[i % 2 : i % 2 + 1], i * 7) for i in range(50)),
    "carriage returns": CSV.replace("\n", "\r\n").encode(),
    "old macintosh": CSV.replace("\n", "\r").encode(),
    "utf-16": CSV.encode("utf-16"),
    "latin": ("größe,b\n" + "groß,x\nklein,y\n" * 9).encode("latin-1"),
    "quotes and commas in names": ('"a,b","say ""hi""",c\n' + "0,1,1\n1,0,1\n" * 9).encode(),
    "quoted values": b'a,b\n"x, y",1\n"z",0\n' * 1 + b'"x, y",1\nz,0\n' * 8,
    "nameless index": (",a,b\n" + "".join(f"{i},{i % 2},{i % 3}\n" for i in range(30))).encode(),
    "identifiers": ("id,a\n" + "".join(f"n{i},{i % 2}\n" for i in range(1200))).encode(),
    "dates": ("day,a\n" + "".join(f"{DAYS[i]},{i % 2}\n" for i in range(20))).encode(),
    "a constant": b"a,b\n" + b"0,same\n1,same\n" * 9,
    "duplicates": ("a,b\n" + "".join(f"{i % 3},{i % 3}\n" for i in range(30))).encode(),
    "fractions": ("x,y\n" + "".join(f"{u:.4f},{u * u:.4f}\n" for u in RNG.random(60))).encode(),
    "missing values": b"a,b\n0,1\n,1\n1,NA\n0,0\n" * 5,
    "an empty column": b"a,b\n0,\n1,\n1,\n" * 1 + b"0,\n1,\n" * 9,
    "mixed": (b"a,n\n" + b"0,1\n1,2\n0,3\n1,4\n" * 6 + b"1,unknown\n"),
    "one row": b"a,b\n0,1\n",
    "one column": b"a\n0\n1\n1\n",
    "no rows": b"a,b\n",
    "300 columns": f"{WIDE}\n".encode()
    + "".join(",".join(map(str, row)) + "\n" for row in RNG.integers(0, 2, (30, 300)).tolist()).encode(),
    "unicode": ("数,α\n" + "是,β\n否,γ\n" * 9).encode(),
    "repeated names": b"a,a,b\n" + b"0,1,0\n1,1,0\n" * 9,
    "blank separated": b"a b  c\n" + b"0 1  0\n1 1  1\n" * 9,
    "tabs": CSV.replace(",", "\t").encode(),
    "compressed": gzip.compress(CSV.encode()),
}


def advised(message: str) -> list[str]:
    """The first option of the advice in an error, with its value if it has one."""
    advice = message.partition("Fix: ")[2] or message.partition("Ways out: ")[2]
    option = re.search(r"--[a-z-]+", advice)
    assert option is not None, message
    value = re.match(r" ('[^']*'|[\w:,=-]*[\w])", advice[option.end() :])
    assert value is not None, message
    return [option[0], *shlex.split(value[1])]


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_tables_end_in_an_answer_if_the_advice_is_followed(
    name: str, command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(AWKWARD[name])
    arguments: list[str | Path] = ["solve", path, "--treewidth", "1", "--backend", "chowliu", "--json"]
    for _attempt in range(4):
        code = command(*arguments)
        if code == 0:
            break
        assert code == 2, command.err
        arguments += advised(command.err)
    assert code == 0, command.err
    assert json.loads(command.out)["status"] == "optimal"


def options_of(name: str) -> set[str]:
    """The options of a command."""
    import typer

    commands = typer.main.get_command(app()).commands  # type: ignore[attr-defined]  # a group
    chosen = commands[name]
    return {option for parameter in chosen.params for option in parameter.opts if option.startswith("--")}


def test_commands_that_read_data_have_the_same_options_for_it() -> None:
    data = {"--read", "--columns", "--drop", "--weights", "--missing", "--discretise"}
    for name in READERS:
        assert data <= options_of(name)
    for name in ("solve", "score", "fit", "average", "check"):
        assert {"--forbid", "--require", "--constraint"} <= options_of(name)


def strings(path: Path) -> list[str]:
    """The texts of a module that are no docstrings, f-strings with their fixed parts."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inside = {id(part) for node in joined for part in node.values}
    texts = [
        "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        for node in joined
    ]
    return texts + [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs | inside
    ]


def commands_of(module: Path) -> tuple[str, ...]:
    """The commands in which a message of a module may appear; all that have its options, if it is general."""
    inside = module.relative_to(ROOT / "jtsolve").parts
    if inside[0] == "cli" and inside[-1].removesuffix(".py") in {
        *READERS,
        "check",
        "show",
        "query",
        "mpe",
        "sample",
    }:
        return (inside[-1].removesuffix(".py"),)
    if inside[0] == "tables" or inside[-1] == "options.py":
        return tuple(name for name in READERS)
    return ()


def test_no_message_recommends_an_option_that_its_command_lacks() -> None:
    """Texts that name another command, such as 'jtsolve score --max-size', are measured by that command."""
    every = {name: options_of(name) | {"--help"} for name in COMMANDS}
    import typer

    group = typer.main.get_command(app())
    known = set().union(*(options_of(name) for name in group.commands if name != "data"))  # type: ignore[attr-defined]
    known |= {"--help", "--help-all", "--version", "--inside", "--show-completion"}
    subcommands = group.commands["data"].commands.values()  # type: ignore[attr-defined]
    known |= {option for one in subcommands for parameter in one.params for option in parameter.opts}
    of_scores = {"--score", "--max-size"}  # loglik has neither, and its tables are not scored
    for module in sorted((ROOT / "jtsolve").rglob("*.py")):
        for text in strings(module):
            for found in re.finditer(r"(?<![\w-])--[a-z][a-z-]*[a-z](?![A-Z])", text):
                option = found[0]
                before = re.search(r".*jtsolve ([a-z]+)", text[: found.start()], re.DOTALL)
                named = before or re.search(r"jtsolve ([a-z]+)", text)
                if option.endswith("-options") or "pip install" in text or "numba" in text:
                    continue
                assert option in known, (module, text)
                if named is not None and named[1] in every:
                    assert option in every[named[1]], (module, text)
                elif named is None:
                    for name in commands_of(module):
                        lacks = option not in every[name] and option not in of_scores
                        assert not (lacks and module.name != "options.py"), (module, name, text)


def test_an_unknown_encoding_and_a_wrong_one_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("a,b\né,1\n".encode("latin-1"))

    def read(encoding: str) -> object:
        return read_checked(path, Coding(), Dialect(encoding=encoding))

    for wrong in ("klingon", "zlib", "rot13", "a\0b", "\udc91"):
        with pytest.raises(ChoiceError, match="there is no encoding '"):
            read(wrong)
    with pytest.raises(InputError, match="not in its encoding"):
        read("utf-16")
    with pytest.raises(ChoiceError, match="there is no decimal mark 'dot'"):
        Coding(decimal="dot")  # type: ignore[arg-type]
    assert getattr(read("latin-1"), "states") == (("é",), ("1",))  # noqa: B009 - of either table
    for wide in ("utf-16", "utf-16-be", "utf-32"):
        path.write_text("a,b\né,1\n", encoding=wide)
        assert getattr(read(wide), "states") == (("é",), ("1",))  # noqa: B009


def test_decimal_commas_are_read_everywhere(command: Command, tmp_path: Path) -> None:
    path, model = tmp_path / "t.csv", tmp_path / "m.json"
    rows = [f"{'ab'[i % 2]};{i * 37 % 100},{i % 10}" for i in range(60)]
    path.write_text("\n".join(["g;x", *rows]) + "\n")
    more = ["--read", "decimal=comma"]
    cuts = ["--discretise", "quantile:2"]
    assert command("fit", path, "--treewidth", "1", *more, *cuts, "--output", model) == 0
    assert command("loglik", model, path, *more, *cuts, "--json") == 2  # the model has its own coding
    assert command("loglik", model, path, "--read", "states=g") == 2
    assert "there is no option 'states'; there are: missing_values, decimal" in command.err
    assert command("loglik", model, path, *more, "--json") == 0
    assert json.loads(command.out)["impossible_rows"] == 0
    of_file = command.out
    assert command("loglik", model, path, "--json") == 0
    assert command.out == of_file


def test_loglik_and_the_rows_for_validation_are_checked(command: Command, tmp_path: Path) -> None:
    path, model, rows = tmp_path / "t.csv", tmp_path / "m.json", tmp_path / "rows.csv"
    values = [f"{'ab'[i % 2]};{i * 37 % 100 / 10};1" for i in range(60)]
    path.write_text("\n".join(["g;x;w", *values]) + "\n")
    more = ["--discretise", "quantile:2", "--drop", "w"]
    assert command("fit", path, "--treewidth", "1", *more, "--output", model) == 0
    rows.write_text("g;x;w\n" + ";1,5;1\n" * 19 + "a;2,5;99\n")
    assert command("loglik", model, rows) == 2
    for warning in ("nearly empty: 'g' (1 of 20", "numbers with decimal commas", "--read decimal=comma"):
        assert warning in command.err
    assert command("loglik", model, rows, "--weights", "w", "--read", "decimal=comma") == 0
    assert "one row has 84 % of the weight" in command.err
    assert command("loglik", model, rows, "--read", "decimal=comma", "--drop", "g") == 0
    assert "data check" not in command.err
    assert command("loglik", model, rows, "--read", "decimal=comma,strict=true") == 2
    assert "1 warning: (1) columns that are nearly empty: 'g'" in command.err
    assert (
        command("loglik", model, path, "--read", "header=false") == 2
    )  # then columns are known by their place
    assert command("fit", path, "--treewidth", "1", *more, "--output", model, "--validate", rows) == 2
    assert "data check of rows.csv" in command.err


SHELL_ONLY = ("cli", "compare", "data", "draw")
"""Packages whose messages only commands print."""


def test_messages_name_options_by_reference() -> None:
    """Only commands are quoted as the shell writes them, `jtsolve score --max-size`."""
    for module in sorted((ROOT / "jtsolve").rglob("*.py")):
        if module.relative_to(ROOT / "jtsolve").parts[0] in {*SHELL_ONLY, "options.py", "__main__.py"}:
            continue
        for text in strings(module):
            assert "jtsolve " in text or not re.search(r"(?<![\w-])--[a-z]", text), (module, text)


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_tables_end_in_an_answer_from_python_too(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(AWKWARD[name])
    given: dict[str, Any] = {}
    for _attempt in range(4):
        try:
            result = jt.learn(path, treewidth=1, backend="chowliu", **given)
        except JtsolveError as error:
            advice = str(error).partition("Fix: ")[2] or str(error).partition("Ways out: ")[2]
            keyword, value = re.findall(r"(\w+)=(\"[^\"]*\"|\[[^\]]*\]|\w+)", advice)[0]
            given[keyword] = ast.literal_eval(value)
        else:
            break
    assert result.status == "optimal"


def test_findings_are_worded_for_their_reader(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = survey(tmp_path / "survey.csv")
    result = jt.learn(path, treewidth=1, score="bic")
    for advice in ('drop="Date"', 'drop="ID"', 'discretise="quantile:4"', 'states=["Age", "Income"]'):
        assert advice in caplog.text
        assert advice in result._repr_html_().replace("&quot;", '"')
    assert "--" not in caplog.text
    with pytest.raises(InputError, match=r'leave out with drop="Date"') as caught:
        jt.learn(path, strict=True)
    assert "--" not in str(pickle.loads(pickle.dumps(caught.value)))  # noqa: S301 - our own
    followed = jt.learn(path, drop=["ID", "Date"], discretise="quantile:4", strict=True)
    assert {tuple(sorted(pair)) for pair in followed.graph().edges} == {
        ("Cancer", "Smoker"),
        ("Cancer", "Cough"),
    }
