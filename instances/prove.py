"""Proves the optima of the instances: writes `NAME.opt.json` beside each `NAME.json.gz`.

    python instances/prove.py [NAME ...]

For each treewidth, `jtsolve solve` runs in a separate process and must prove the optimum. The file is written
after each, so that an interrupted run can be resumed. Optima recorded for the same scores are kept unless
`--again` is given; `--help` lists the other options. Afterwards,

    python instances/prove.py --table

updates the table of optima in instances/README.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

import msgspec

from jtsolve.core.files import read_file, write_atomically
from jtsolve.core.result import Status
from jtsolve.errors import JtsolveError
from jtsolve.io.documents import decode_json, indented_json
from jtsolve.io.instance import read_problem
from jtsolve.io.result import ResultDocument, read_result

INSTANCES = Path(__file__).parent / "uci"

TABLE_BEGIN = "<!-- optima: written by python instances/prove.py --table -->"
TABLE_END = "<!-- end of optima -->"

TREEWIDTHS: tuple[int | None, ...] = (1, 2, 3, 4, None)
"""None means unbounded, for instances in which every set has a score."""
MOST_FOR_4 = 19
"""Most variables for treewidth 4; 22 would take 40 GB."""


class Optimum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One proved optimum.

    Args:
        treewidth: the constraint, or None.
        score: of the tree, in nats.
        bound: on the score of all trees of at most this treewidth, in nats.
        cliques: of the tree, by name; they determine it.
        proved_by: the backend.
        versions: of the programs involved.
        command: to reproduce it, from the root of the repository.
        seconds: wall-clock time of the whole command.
        machine: processor, cores and threads.
    """

    treewidth: int | None
    score: float
    bound: float
    cliques: list[list[str]]
    proved_by: str
    versions: dict[str, str]
    command: str
    seconds: float
    machine: dict[str, Any]


class Optima(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file format: proved optima of one instance by increasing treewidth, the unbounded one last."""

    format: Literal["jtsolve-optima"]
    version: Literal[1]
    instance: str
    digest: str
    optima: list[Optimum]


def optima_path(instance: Path) -> Path:
    """Returns the path of an instance's optima.

    >>> optima_path(Path("uci/zoo.json.gz")).name
    'zoo.opt.json'
    """
    return instance.with_name(f"{instance.name.removesuffix('.json.gz')}.opt.json")


def read_optima(path: Path) -> Optima:
    """Returns the optima in a file.

    Raises:
        InputError: the file is missing or malformed.
    """
    return decode_json(read_file(path), Optima, str(path))


def treewidths_of(instance: Path) -> list[int | None]:
    """Returns the treewidths to prove: unbounded only if every set has a score, 4 only if it fits."""
    problem = read_problem(instance)
    left_out: set[int | None] = {None} if problem.scores.max_size < problem.n else set()
    left_out |= {4} if problem.n > MOST_FOR_4 else set()
    return [treewidth for treewidth in TREEWIDTHS if treewidth not in left_out]


def known_optima(instance: Path) -> Optima:
    """Returns the recorded optima of an instance, or none if its scores have changed since."""
    problem = read_problem(instance)
    path = optima_path(instance)
    if path.exists():
        optima = read_optima(path)
        if optima.digest == problem.digest():
            return optima
        print(f"{problem.name}: its scores have changed; all optima are proved again", flush=True)
    return Optima("jtsolve-optima", 1, problem.name, problem.digest(), [])


def add_optimum(optima: Optima, optimum: Optimum) -> Optima:
    """Returns the optima with one added or replaced."""
    kept = [entry for entry in optima.optima if entry.treewidth != optimum.treewidth]
    order = sorted([*kept, optimum], key=lambda entry: TREEWIDTHS.index(entry.treewidth))
    return msgspec.structs.replace(optima, optima=order)


def write_optima(optima: Optima, path: Path) -> None:
    """Writes a file of optima atomically."""
    write_atomically(path, (indented_json(msgspec.to_builtins(optima)) + "\n").encode())


def run_solve(instance: Path, treewidth: int | None, extra: list[str]) -> Optimum:
    """Runs `jtsolve solve` and returns the proved optimum.

    Raises:
        RuntimeError: the command failed, or proved no optimum.
    """
    asked = [] if treewidth is None else ["--treewidth", str(treewidth)]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        arguments = ["solve", str(instance), *asked, *extra, "--quiet", "--output", str(output)]
        ended = subprocess.run(  # noqa: S603 - our own program, no shell
            [sys.executable, "-m", "jtsolve", *arguments], check=False, stdin=subprocess.DEVNULL
        )
        if ended.returncode != 0:
            raise RuntimeError(f"{instance.name}, treewidth {treewidth}: exit code {ended.returncode}")
        result = read_result(output)
    if result.status is not Status.OPTIMAL:
        raise RuntimeError(
            f"{instance.name}, treewidth {treewidth}: {result.status.value}, not optimal; "
            "give more memory or time"
        )
    return optimum_of(result, treewidth, " ".join(["jtsolve", "solve", shown_path(instance), *asked, *extra]))


def optimum_of(result: ResultDocument, treewidth: int | None, command: str) -> Optimum:
    """Returns the entry for an optimal result."""
    assert result.score is not None
    assert result.bound is not None
    facts = result.environment
    return Optimum(
        treewidth=treewidth,
        score=result.score,
        bound=result.bound,
        cliques=result.cliques,
        proved_by=result.backend.name,
        versions={key: str(facts[key]) for key in ("jtsolve", "python", "numpy", "numba")},
        command=command,
        seconds=round(result.seconds["total"], 3),
        machine={key: facts[key] for key in ("processor", "cores", "threads")},
    )


def shown_path(instance: Path) -> str:
    """Returns the path relative to the root of the repository, the same on every machine."""
    root = Path(__file__).resolve().parents[1]
    resolved = instance.resolve()
    return resolved.relative_to(root).as_posix() if resolved.is_relative_to(root) else resolved.name


def prove(instance: Path, treewidths: list[int | None], extra: list[str], *, again: bool) -> None:
    """Proves and writes the missing optima, or all."""
    optima = known_optima(instance)
    for treewidth in treewidths_of(instance):
        there = any(entry.treewidth == treewidth for entry in optima.optima)
        if treewidth not in treewidths or (there and not again):
            continue
        optimum = run_solve(instance, treewidth, extra)
        optima = add_optimum(optima, optimum)
        write_optima(optima, optima_path(instance))
        print(
            f"{optima.instance}, treewidth {treewidth}: {optimum.score:.6f} by {optimum.proved_by}, "
            f"{optimum.seconds:.1f} s",
            flush=True,
        )


def optima_table(folder: Path) -> str:
    """Returns the optima of all instances in a folder as a Markdown table, by number of variables."""
    rows = []
    for path in folder.glob("*.json.gz"):
        problem = read_problem(path)
        found = {entry.treewidth: entry for entry in known_optima(path).optima}
        cells = [f"{found[k].score:.6f}" if k in found else "" for k in TREEWIDTHS]
        rows.append((problem.n, problem.name, problem.scores.max_size, " | ".join(cells)))
    headings = " | ".join(f"treewidth {k}" for k in TREEWIDTHS if k is not None)
    lines = [
        f"| instance | variables | largest scored set | {headings} | unbounded |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
        *(f"| {name} | {n} | {max_size} | {cells} |" for n, name, max_size, cells in sorted(rows)),
    ]
    return "\n".join(lines)


def with_table(text: str, table: str) -> str:
    """Returns a Markdown text with the table between the two markers replaced.

    Raises:
        ValueError: a marker is missing.

    >>> with_table(f"a {TABLE_BEGIN} old {TABLE_END} b", "| new |").splitlines()[1]
    '| new |'
    """
    before = text[: text.index(TABLE_BEGIN)]
    after = text[text.index(TABLE_END) :]
    return f"{before}{TABLE_BEGIN}\n{table}\n{after}"


def _treewidth(text: str) -> int | None:
    value = None if text == "none" else int(text)
    if value not in TREEWIDTHS:
        raise ValueError(text)
    return value


def main(arguments: list[str]) -> int:
    """Proves the optima of the named instances, or of all, smallest first; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=INSTANCES, help="where the instances are")
    parser.add_argument(
        "--treewidth", type=_treewidth, action="append", help="1, 2, 3, 4 or none; repeatable; default: all"
    )
    parser.add_argument("--threads", help="passed on to jtsolve solve")
    parser.add_argument("--memory-limit", help="in GB; passed on to jtsolve solve")
    parser.add_argument("--again", action="store_true", help="prove recorded optima again")
    parser.add_argument("--table", action="store_true", help="only rewrite the table in README.md")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of an instance; default: all")
    chosen = parser.parse_args(arguments)
    if chosen.table:
        readme = chosen.folder.parent / "README.md"
        text = with_table(readme.read_text(encoding="utf-8"), optima_table(chosen.folder))
        write_atomically(readme, text.encode())
        return 0
    paths = [chosen.folder / f"{name}.json.gz" for name in chosen.names] or sorted(
        chosen.folder.glob("*.json.gz"), key=lambda path: path.stat().st_size
    )
    extra = []
    for option, value in (("--threads", chosen.threads), ("--memory-limit", chosen.memory_limit)):
        extra += [] if value is None else [option, value]
    failures = 0
    for path in paths:
        try:
            prove(path, chosen.treewidth or list(TREEWIDTHS), extra, again=chosen.again)
        except (JtsolveError, RuntimeError) as error:
            print(error, file=sys.stderr, flush=True)
            failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
