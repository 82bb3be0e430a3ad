"""The documentation is true: its examples run, its command lines exist, and every backend has a page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import fuzz
import pytest
import typer
from documents import ROOT, blocks, run_examples

import backend_pages
import repository_pages
from jtsolve.backends.brute import Brute
from jtsolve.backends.registry import REGISTRY
from jtsolve.cli import app
from jtsolve.core import formats
from jtsolve.io.instance import read_problem, write_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(chain(ROOT.glob("*.md"), ROOT.glob("docs/*.md")))
}
WITH_EXAMPLES = [name for name, text in PAGES.items() if blocks(text)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the instances of a clone, in which the examples run and write files."""
    (tmp_path / "instances").symlink_to(ROOT / "instances", target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_run(name: str, folder: Path) -> None:
    tried, failures = run_examples(PAGES[name], name, folder)
    assert tried >= len(blocks(PAGES[name]))
    assert not failures, "\n".join(failures)


def test_formats_lists_the_suffixes_of_every_kind() -> None:
    def listed(suffixes: Iterable[str]) -> str:
        return " ".join(f".{suffix}" for suffix in suffixes)

    page = PAGES["docs/formats.md"]
    for kind in (formats.TABLE, formats.MODEL, formats.GRAPH, formats.INSTANCE):
        assert f"| {kind.what} | {listed(kind.read)} | {listed(kind.written)} |" in page
    assert f"| a picture | | {listed(formats.PICTURE.written)} |" in page


def test_pages_for_newcomers_have_examples() -> None:
    pages = {"README.md", "docs/tutorial.md", "docs/extending.md", "docs/scores.md", "docs/models.md"}
    assert pages <= set(WITH_EXAMPLES)


def test_the_backend_of_extending_passes_lint_and_the_contract_once_it_is_in_the_registry(
    tmp_path: Path,
) -> None:
    (program,) = (block.text for block in blocks(PAGES["docs/extending.md"]) if "# draws.py" in block.text)
    (tmp_path / "draws.py").write_text(program, encoding="utf-8")
    (tmp_path / "installed.py").write_text(_INSTALLED, encoding="utf-8")
    as_file = ["--stdin-filename", "jtsolve/backends/draws.py", "-"]
    for check in (["check"], ["format", "--check"]):
        _succeeds([sys.executable, "-m", "ruff", *check, *as_file], tmp_path, program)
    options = ["-q", "-p", "installed", "-n", "0", "-p", "no:cacheprovider", "--no-cov"]
    said = _succeeds([sys.executable, "-m", "pytest", *options, "tests/test_contract.py"], tmp_path)
    assert re.search(r"^draws +\d{2,} +\d{2,}$", said, re.MULTILINE), said


_INSTALLED = """
import re
from draws import Draws
from jtsolve.backends.registry import REGISTRY

for name in set(REGISTRY) - {"brute", "chowliu", "dp", "forward"}:  # quick, and the default of models
    del REGISTRY[name]
REGISTRY["draws"] = Draws()


def pytest_collection_modifyitems(items):
    kept = re.compile(r"draws|\\[free\\]|\\[max_treewidth\\]|traps|^\\w+$")  # no constraint that it refuses
    items[:] = [item for item in items if kept.search(item.name)]
"""


def _succeeds(command: list[str], path: Path, text: str = "") -> str:
    """Runs a command in the root, importing from `path` too; returns its output."""
    places = os.pathsep.join([str(path), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(  # noqa: S603 - our own command
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": places},
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("example", "fault"),
    [
        ("```console\n$ echo one\ntwo\n```\n", "and not\ntwo"),
        ("```console\n$ false\n```\n", "exit code 1"),
        ("```console\n$ true\njtsolve: wrong\n```\n", "exit code 0"),
        ("```python\n>>> 1 + 1\n3\n\n```\n", "Expected:\n    3"),
        ("```python\n>>> x = 1\n\n```\n\n```python\n>>> x\n2\n\n```\n", "Got:\n    1"),
        (
            "```python\n# part.py\nx = 1\n```\n\n```console\n$ python -c 'import part; exit(part.x)'\n```\n",
            "exit code 1",
        ),
    ],
)
def test_examples_that_are_wrong_are_found(example: str, fault: str, folder: Path) -> None:
    _, failures = run_examples(example, "page", folder)
    assert len(failures) == 1
    assert fault in failures[0]


def command_lines(text: str) -> list[str]:
    """Returns the command lines of jtsolve in a page, indented or behind a dollar sign."""
    joined = text.replace("\\\n", " ")
    found = re.findall(r"^(?:    |\$ )(?:.*&& )?(jtsolve [a-z].*)$", joined, re.MULTILINE)
    return [line for line in found if not line.startswith("jtsolve solve INSTANCE [")]


@pytest.mark.parametrize(
    ("page", "line"), [(page, line) for page, text in PAGES.items() for line in command_lines(text)]
)
def test_command_lines_have_commands_and_options_that_exist(page: str, line: str) -> None:
    assert unknown_words(line) == [], f"{page}: {line}"


def unknown_words(line: str) -> list[str]:
    """Returns the command or the options of a command line that do not exist."""
    command = typer.main.get_command(app())
    words = shlex.split(line, comments=True)[1:]
    while hasattr(command, "commands"):
        name = words.pop(0)
        if name not in command.commands:
            return [name]
        command = command.commands[name]
    known = {option for parameter in command.params for option in parameter.opts}
    return [word for word in words if word.startswith("--") and word not in known]


@pytest.mark.parametrize("script", sorted(ROOT.glob("benchmarks/*.py")), ids=lambda path: path.stem)
def test_the_options_in_a_benchmark_are_its_own_or_those_of_a_command(script: Path) -> None:
    source = script.read_text(encoding="utf-8")
    own = re.findall(r'add_argument\(\s*"(--[a-z-]+)"', source)
    assert set(re.findall(r'"(--[a-z-]+)"', source)) <= {*own, *options(typer.main.get_command(app()))}


def options(command: Any) -> Iterator[str]:
    """Yields the options of a command and of the commands in it."""
    for inner in getattr(command, "commands", {}).values():
        yield from options(inner)
    yield from chain.from_iterable(parameter.opts for parameter in command.params)


def test_the_options_that_the_fuzzer_mutates_exist() -> None:
    for start, options in fuzz.OPTIONS:
        words = chain(start, *options)
        assert unknown_words(shlex.join(["jtsolve", *words])) == [], start


def test_command_lines_that_do_not_exist_are_found() -> None:
    assert unknown_words("jtsolve improve FILE") == ["improve"]
    assert unknown_words("jtsolve data fetch zoo --gently") == ["--gently"]
    assert len(command_lines(PAGES["README.md"])) > 2


@pytest.mark.parametrize("name", REGISTRY)
def test_the_page_of_every_backend_is_complete(name: str) -> None:
    page = backend_pages.page(REGISTRY[name])
    for part in ("Supported problems", "How it works", "Time and memory", "Options", "References"):
        assert len(section(page, part)) > 4, part
    for option in REGISTRY.describe(name).options:
        assert re.search(
            rf"^`{option.name}`\n: \*.+\*; default `.+`\n\n  \S.{{8,}}",
            section(page, "Options"),
            re.MULTILINE,
        )
    assert ("exact" if REGISTRY[name].capabilities.exact else "heuristic") in section(
        page, "Supported problems"
    )
    assert re.search(r"\b(19|20)\d\d\b", section(page, "References"))


def section(page: str, title: str) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_pages_are_written_for_all_backends_and_none_remains_of_a_removed_one(tmp_path: Path) -> None:
    backend_pages.write_pages(tmp_path)
    (tmp_path / "gone.md").write_text("# gone\n", encoding="utf-8")
    backend_pages.write_pages(tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == {*REGISTRY, "index"}
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert all(f"[{name}]({name}.md)" in index for name in REGISTRY)


def test_defaults_of_backends_within_show_changes() -> None:
    page = backend_pages.page(REGISTRY.parse("lns:exact=dp,exact.precision=int32,start=forward"))
    assert "default `dp(precision=int32)`" in page
    assert "default `forward`" in page


@dataclass(frozen=True, slots=True)
class Secretive(Brute):
    """Does something.

    Args:
        shown: is described.
    """

    shown: bool = True
    hidden: int = 1
    name: ClassVar[str] = "secretive"


def test_an_option_without_a_description_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        f"{__name__}.__doc__", "`secretive`: something.\n\nTime: none.\n\nReferences:\n    Nobody, 2000."
    )
    with pytest.raises(backend_pages.UndescribedError, match="'hidden' is not described"):
        backend_pages.page(Secretive())


@pytest.mark.parametrize(
    ("documentation", "fault"),
    [
        ("`secretive`: nothing.\n\nTime: none.", "References"),
        ("`x`: y.\n\nReferences:\n    Nobody, 2000.", "cost"),
    ],
)
def test_a_module_without_cost_or_references_is_an_error(
    documentation: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.__doc__", documentation)
    with pytest.raises(backend_pages.UndescribedError, match=fault):
        backend_pages.page(Secretive())


def test_references_may_begin_on_the_line_of_their_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    documentation = (
        "`brute`: all graphs.\n\nTime: long.\n\nReferences: Somebody, A book,\n2000. One more, 2001."
    )
    monkeypatch.setattr("jtsolve.backends.brute.__doc__", documentation)
    assert "Somebody, A book,\n2000. One more, 2001." in section(
        backend_pages.page(REGISTRY["brute"]), "References"
    )


def test_docstrings_are_escaped_but_for_names_and_examples() -> None:
    lines = ["|C| ≤ w, `|S|`, a_ and *", ">>> 2 * 3", "s_v"]
    repository_pages.escape(None, "function", "f", None, None, lines)
    assert lines == [r"\|C\| ≤ w, `|S|`, a\_ and \*", ">>> 2 * 3", "s_v"]


def test_links_out_of_the_folder_lead_to_pages() -> None:
    page = ["see [x](../instances/README.md)"]
    repository_pages.adapt(None, "benchmarks", page)
    assert page == ["see [x](instances.md)"]


def test_the_modules_that_the_reference_lists_are_documented() -> None:
    page = ["- `jtsolve.errors`"]
    repository_pages.adapt(None, "api", page)
    assert ".. automodule:: jtsolve.errors\n   :members:" in page[0]


def test_every_page_is_in_the_table_of_contents() -> None:
    entries = set(re.findall(r"^([\w/]+)$", PAGES["docs/index.md"], re.MULTILINE))
    assert {name.removeprefix("docs/").removesuffix(".md") for name in PAGES if "/" in name} - {
        "index"
    } <= entries


def test_pages_read_as_plain_markdown() -> None:
    for name, text in PAGES.items():
        plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        assert not re.findall(r"\{[a-z:]+\}`", plain), name


def test_every_format_of_an_instance_is_written_and_read_back(tmp_path: Path) -> None:
    problem = read_problem(ROOT / "instances/uci/bridges.json.gz")
    for suffix in formats.INSTANCE.written:
        write_problem(problem, tmp_path / f"bridges.{suffix}.gz")
        assert read_problem(tmp_path / f"bridges.{suffix}.gz").scores.n == problem.scores.n


def test_no_change_is_in_the_change_log_twice() -> None:
    entries = re.findall(r"^- (.*(?:\n  .*)*)", PAGES["CHANGELOG.md"], re.MULTILINE)
    starts = Counter(" ".join(entry.split())[:50] for entry in entries)
    assert [start for start, count in starts.items() if count > 1] == []
