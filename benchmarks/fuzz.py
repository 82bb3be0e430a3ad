"""Fuzzing: mutated files and options for every reader and command.

    nice python benchmarks/fuzz.py --hours 2 --journal fuzz.jsonl --findings findings

Seeds are small valid files: instances of every format, results, rankings, certificates, models, networks,
graphs, posteriors, answers of solvers, constraints, data of every format, schemas, specifications, plans.
A case mutates one of them up to four times, according to its structure (values, keys and entries of JSON;
words and lines of text; bytes), and gives it to a command; one case in five mutates options instead. The
first cases are earlier findings.

A worker process has 1 GB beyond the memory of its imports, and 20 s of processor time per case. A *finding*
is an exception that no command turns into a message, exit code 70, a signal, a limit exceeded, a message of
more than 10,000 characters or with control characters, or a damaged result that `check` accepts. The journal
has a line per case; a run continues after the last one. Ctrl-C or SIGTERM ends a run. Each finding is written
to a file. The exit code is 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import copy
import faulthandler
import gzip
import io
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache
from math import inf, nan
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from journals import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

MEMORY = 10**9
SECONDS = 20
LONGEST = 10_000
NUMBERS = (0, 1, -1, 2, 0.5, -0.0, 1e308, -1e308, 1e-320, 1e8, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30)
WORDS = (
    "",
    "A",
    "\x1b[2J",
    "\0",
    "\u202e",
    "=1+1",
    "jtsolve-results",
    "x" * 100_000,
    "../../x",
    "none",
    "\ud800",
)
RAW = ("1e999", "-1e999", "NaN", "Infinity", "1" + "0" * 5000, "[" * 20_000, "{", '"\\ud800"', "1e-999")
TOKENS = re.compile(rb"[^\s,;:|=(){}\[\]\"]+")


@dataclass(frozen=True, slots=True)
class Seed:
    """A valid file, and commands that read it as FILE; a name in braces is another seed."""

    name: str
    data: bytes
    commands: tuple[tuple[str, ...], ...]


def tool(*words: str, expected: tuple[int, ...] = (0,)) -> None:
    """Runs a command that must succeed."""
    from jtsolve.cli import run

    said = io.StringIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(said):
        code = run(list(words), time.monotonic())
    if code not in expected:
        raise RuntimeError(f"{words}: {code}: {said.getvalue()}")


def make_seeds(folder: Path) -> list[Seed]:
    """Writes the valid files into a folder, and returns them."""
    import polars as pl

    table = {"a": ["x", "y", "x", "y"] * 5, "b": [0, 1, 1, 0] * 5, "c": [0.5, 1.5, 2.5, 0.5] * 5}
    frame = pl.DataFrame(table)
    frame.write_csv(folder / "data.csv")
    frame.write_parquet(folder / "data.parquet")
    frame.write_ipc(folder / "data.feather")
    (folder / "data.arff").write_text(
        "@relation r\n@attribute a {x,y}\n@attribute b {0,1}\n@data\n" + "x,0\ny,1\nx,1\n" * 5
    )
    (folder / "data.dat").write_text("a b\n2 2\n" + "0 0\n1 1\n0 1\n" * 5)
    (folder / "schema.json").write_text(
        '{"a": ["x", "y"], "c": [1, 2], "b": {"states": ["0", "1"], "class": true}}'
    )
    place = str(folder)
    data = ("--score", "bdeu", "--max-size", "3", "--discretise", "width:2")
    tool("score", f"{place}/data.csv", "--output", f"{place}/i.json", *data[2:])
    for suffix in ("json.gz", "score"):
        tool("convert", f"{place}/i.json", f"{place}/i.{suffix}")
    proof = ("--backend", "clutter", "--certificate", f"{place}/proof.json")
    tool("solve", f"{place}/i.json", *proof, "--output", f"{place}/result.json", "--quiet")
    tool("solve", f"{place}/i.json", "--k-best", "2", "--output", f"{place}/results.json", "--quiet")
    fit = ("--score", "bdeu", "--treewidth", "2", "--discretise", "width:2", "--quiet")
    tool("fit", f"{place}/data.csv", "--output", f"{place}/model.json", *fit)
    for to, name in (("bif", "net.bif"), ("uai", "net.uai")):
        tool("export", f"{place}/model.json", "--to", to, "--output", f"{place}/{name}")
    tool("fit", f"{place}/data.csv", "--model", "mixture:2", "--output", f"{place}/mixture.json", *fit)
    tool("fit", f"{place}/data.csv", "--model", "features", "--output", f"{place}/tree.json", *fit)
    tool("average", f"{place}/i.json", "--treewidth", "1", "--quiet", "--output", f"{place}/posterior.json")
    graph = ("--discretise", "width:2", "--quiet", "--output")
    select = ("select", f"{place}/data.csv", "--kind", "states", "--method", "pc", *graph)
    for suffix in ("json", "graphml", "csv"):
        tool(*select, f"{place}/graph.{suffix}")
    tool("convert", f"{place}/i.json", f"{place}/it.wcnf", "--treewidth", "1")
    (folder / "answer").write_text("c an answer\no 5\ns OPTIMUM FOUND\nv 1 -2 -3 4 5 6\n")
    (folder / "values").write_text("adjacent_0_1 1\nadjacent_0_2 0\nadjacent_1_2 0\n")
    (folder / "constraints.json").write_text(
        '{"max_separator_size": 1, "forbidden_edges": [["a", "b"]], "required_edges": [["b", "c"]]}'
    )
    grid = ("--backends", "dp,lns", "--treewidths", "1,2", "--seeds", "0-1", "--time-limit", "1")
    tool("compare", f"{place}/i.json", *grid, "--plan", "--quiet", "--output", f"{place}/run")
    shutil.copy(folder / "run" / "plan.json", folder / "plan.json")
    shutil.copy(folder / "run" / "specs" / "00001.json", folder / "spec.json")
    solve = ("solve", "FILE", "--time-limit", "2", "--memory-limit", "1", "--treewidth", "2")
    score = ("score", "FILE", "--max-size", "2", "--output", "OUT/s.json")
    check = ("check", "{i.json}", "FILE")
    model = (
        ("show", "FILE"),
        ("loglik", "FILE", "{data.csv}"),
        ("impute", "FILE", "{data.csv}", "--output", "OUT/rows.csv"),
        ("query", "FILE", "--target", "a", "--given", "b=0"),
        ("mpe", "FILE", "--best", "2"),
        ("sample", "FILE", "--rows", "5"),
        ("export", "FILE", "--to", "uai"),
        ("export", "FILE", "--to", "bif"),
    )
    within = ("solve", "{i.json}", "--time-limit", "2", "--quiet")
    graphs = (
        ("show", "FILE"),
        (*within, "--constraint", "within_graph=FILE"),
        (*within, "--constraint", "require_graph=FILE"),
        ("fit", "{data.csv}", "--graph", "FILE", *graph, "OUT/m.json"),
        (*select, "OUT/g.json", "--superset", "FILE"),
    )
    decode = ("decode", "{i.json}", "FILE", "--treewidth", "1", "--output", "OUT/r.json")
    uses: dict[str, tuple[tuple[str, ...], ...]] = {
        "i.json": (
            solve,
            ("check", "FILE", "{result.json}"),
            ("convert", "FILE", "OUT/e.wcnf"),
        ),
        **dict.fromkeys(("i.json.gz", "i.score"), (solve,)),
        "result.json": (check, ("show", "FILE")),
        "results.json": (check, ("show", "FILE")),
        "proof.json": (("check", "{i.json}", "{result.json}", "--certificate", "FILE"),),
        **dict.fromkeys(("model.json", "mixture.json", "tree.json", "net.bif", "net.uai"), model),
        **dict.fromkeys(("graph.json", "graph.graphml", "graph.csv"), graphs),
        **dict.fromkeys(("answer", "values"), (decode,)),
        "constraints.json": ((*within, "--constraint", "FILE"),),
        "posterior.json": (("show", "FILE"), ("select", "FILE", "--output", "OUT/g.json")),
        **dict.fromkeys(
            ("data.csv", "data.arff", "data.dat", "data.parquet", "data.feather"),
            (
                score,
                (*score, "--discretise", "quantile:2", "--missing", "state"),
                (*score, "--score", "bic"),
            ),
        ),
        "schema.json": (
            ("score", "{data.csv}", "--max-size", "2", "--output", "OUT/s.json", "--read", "schema=FILE"),
        ),
        "spec.json": (("run", "FILE", "--output", "OUT/row.json"),),
        "plan.json": (("report", "OUT"),),
    }
    return [Seed(name, (folder / name).read_bytes(), commands) for name, commands in uses.items()]


# Mutations.


def mutated_json(data: bytes, random: Random) -> bytes:
    """Returns a JSON text with values, keys or entries changed."""
    document = json.loads(data)
    for _ in range(random.randint(1, 3)):
        places = list(_places(document))
        if not places:
            break
        holder, key = random.choice(places)
        _change(holder, key, random, places)
    text = json.dumps(document, ensure_ascii=random.random() < 0.5)
    if random.random() < 0.1:
        spot = random.choice([m.span() for m in re.finditer(r"-?\d[\d.e+-]*", text)] or [(0, 0)])
        text = text[: spot[0]] + random.choice(RAW) + text[spot[1] :]
    if random.random() < 0.05:
        text = re.sub(r'("\w+": )', r"\1null, \1", text, count=1)
    return text.encode(errors="surrogatepass")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _change(holder: Any, key: Any, random: Random, places: list[tuple[Any, Any]]) -> None:
    kind = random.randrange(8)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key] = random.choice(NUMBERS)
    elif kind == 2:
        holder[key] = random.choice(WORDS)
    elif kind == 3:
        other, name = random.choice(places)
        with contextlib.suppress(KeyError, IndexError):
            holder[key] = copy.deepcopy(other[name])
    elif kind == 4 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif kind == 5:
        holder[key] = random.choice(([], {}, None, True, nan, inf, [[]], {"x": []}))
    elif kind == 6 and isinstance(holder, dict):
        holder[random.choice((*WORDS, "name", "kind", "constraints"))] = holder.pop(key)
    elif isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        with contextlib.suppress(OverflowError):
            holder[key] = random.choice((holder[key] + 1, -holder[key], holder[key] * 1e300, holder[key] / 3))


def mutated_words(data: bytes, random: Random) -> bytes:
    """Returns a text with words, lines or separators changed."""
    for _ in range(random.randint(1, 4)):
        spots = [match.span() for match in TOKENS.finditer(data)]
        if not spots:
            break
        start, end = random.choice(spots)
        kind = random.randrange(6)
        if kind < 3:
            new: Any = random.choice((*WORDS, *RAW, *NUMBERS))
            data = data[:start] + str(new).encode(errors="surrogatepass") + data[end:]
        elif kind == 3:
            data = data[:start] + data[end:]
        elif kind == 4:
            lines = data.split(b"\n")
            at = random.randrange(len(lines))
            lines[at : at + 1] = random.choice(([], [lines[at]] * 2, [b""], [lines[at][:-1]]))
            data = b"\n".join(lines)
        else:
            other = random.choice(spots)
            data = data[:start] + data[slice(*other)] + data[end:]
    return data


def mutated_bytes(data: bytes, random: Random) -> bytes:
    """Returns data with bytes changed, cut off or repeated."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 6)):
        if not changed:
            break
        at = random.randrange(len(changed))
        kind = random.randrange(5)
        if kind < 2:
            changed[at] = random.randrange(256)
        elif kind == 2:
            changed[at] ^= 1 << random.randrange(8)
        elif kind == 3 and random.random() < 0.2:
            del changed[at:]
        else:
            size = random.choice((1, 2, 4, 8))
            changed[at : at + size] = random.choice((b"\xff", b"\0", b"\x7f")) * size
    return bytes(changed)


def mutated(seed: Seed, random: Random) -> bytes:
    """Returns the data of a seed, changed in a way that suits their format."""
    packed = seed.name.endswith(".gz")
    data = gzip.decompress(seed.data) if packed and random.random() < 0.7 else seed.data
    is_text = not seed.name.endswith((".parquet", ".feather")) and not (packed and data is seed.data)
    kind = random.random()
    if is_text and ".json" in seed.name and kind < 0.7:
        data = mutated_json(data, random)
    elif is_text and kind < 0.9:
        data = mutated_words(data, random)
    else:
        data = mutated_bytes(data, random)
    return gzip.compress(data) if packed and data[:2] != b"\x1f\x8b" and random.random() < 0.8 else data


LIMITS = (("--time-limit", "0.5"), ("--memory-limit", "1"), ("--threads", "2"), ("--seed", "3"))
SCORES = (("--score", "bdeu:ess=2"), ("--max-size", "2"))
COLUMNS = (
    ("--columns", "a,b"),
    ("--drop", "c"),
    ("--weights", "b"),
    ("--missing", "state"),
    ("--discretise", "mdlp:a"),
    ("--read", "missing_values=?,NA"),
    ("--read", "class_column=a"),
    ("--read", "states=b"),
    ("--read", "separator=comma,decimal=point,encoding=utf-8,max_states=10"),
)
ROWS = tuple(pair for pair in COLUMNS if pair[0] in {"--missing", "--read"})
CONSTRAINTS = (
    ("--forbid", "a,b"),
    ("--require", "b,c"),
    ("--constraint", "forbidden_cliques=a,b,c"),
    ("--constraint", "min_separator_size=1"),
    ("--constraint", "max_separator_size=1"),
    ("--constraint", "max_cliques=2"),
)
SOLVING = (
    ("--backend", "lns:exact=dp,exact.precision=float64,start=forward+chowliu"),
    ("--backend", "portfolio:members=forward+lns"),
    ("--backend", "cpsat:model=balancing"),
    ("--treewidth", "2"),
    ("--k-best", "2"),
    ("--within", "0.5"),
)
AVERAGING = (
    ("--method", "chains"),
    ("--method", "chains:rounds=3,temperatures=3"),
    ("--method", "exact:draws=10"),
    ("--method", "bootstrap:replicates=3"),
    ("--treewidth", "2"),
    ("--edge-odds", "0.5"),
    ("--trees", "3"),
)
FITTING = (
    ("--smoothing", "1"),
    ("--model", "mixture:components=1,2,restarts=2"),
    ("--model", "lem:delta=0.05"),
    ("--model", "average:draws=2"),
    ("--validate", "{data.csv}"),
)
SELECTION = (
    ("--method", "pc:depth=1"),
    ("--method", "glasso:criterion=ebic(gamma=0.5)"),
    ("--method", "neighbourhood:criterion=cv"),
    ("--kind", "states"),
    ("--screen", "pc:1,level=0.1"),
    ("--over", "junction-tree:1"),
)
EVIDENCE = (("--given", "b=0"), ("--likelihood", "a=0.2:0.8"), ("--memory-limit", "1"))
OPTIONS: tuple[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], ...] = (
    (("solve", "{i.json}"), (*SOLVING, *LIMITS, *CONSTRAINTS)),
    (("solve", "{data.csv}"), (*SOLVING, *LIMITS, *SCORES, *COLUMNS)),
    (
        ("score", "{data.csv}", "--max-size", "2", "--output", "OUT/i.json"),
        (*SCORES, *COLUMNS, *CONSTRAINTS),
    ),
    (
        ("fit", "{data.csv}", "--treewidth", "1", "--output", "OUT/m.json", "--discretise", "width:2"),
        (*FITTING, *LIMITS, SCORES[0], *COLUMNS),
    ),
    (("average", "{i.json}", "--treewidth", "1"), (*AVERAGING, *LIMITS, *CONSTRAINTS)),
    (("select", "{data.csv}", "--columns", "b,c", "--output", "OUT/g.json"), (*SELECTION, *LIMITS, *COLUMNS)),
    (("loglik", "{model.json}", "{data.csv}"), ROWS),
    (("impute", "{model.json}", "{data.csv}", "--output", "OUT/r.csv"), ROWS),
    (("query", "{model.json}"), (*EVIDENCE, ("--target", "a,b"))),
    (("mpe", "{model.json}"), (*EVIDENCE, ("--best", "3"))),
    (("sample", "{model.json}", "--rows", "5"), (*EVIDENCE, ("--seed", "3"))),
    (
        ("compare", "{i.json}", "--plan", "--quiet", "--output", "OUT/run"),
        (*LIMITS[:3], ("--backends", "dp,lns:exact=dp"), ("--seeds", "0-2"), ("--treewidths", "1,2")),
    ),
)


def option_words(random: Random) -> list[str]:
    """Returns a command with mutated options."""
    start, options = random.choice(OPTIONS)
    words = list(start)
    if LIMITS[0] in options and "--plan" not in start:
        words += ["--time-limit", "1"]
    for name, value in random.sample(options, random.randint(1, 4)):
        text = mutated_words(value.encode(), random) if random.random() < 0.6 else value.encode()
        if random.random() < 0.3:
            text = mutated_bytes(text, random)
        words += [name, text.decode("utf-8", "surrogateescape").replace("\0", "")[:100_000]]
    return words


# The first cases: earlier findings, by the seed that they replace.

CORPUS: tuple[tuple[str, bytes], ...] = (
    ("schema.json", b'{"x": [-0.5, 1%s]}' % (b"0" * 400)),
    ("schema.json", b'{"a": [0.5, 1e999]}'),
    ("schema.json", b'{"a": ["x"], "a": ["y"]}'),
    ("schema.json", b'{"a": ["\xff"]}'),
    ("schema.json", b"[" * 100_000),
    ("i.json.gz", gzip.compress(b'{"format":"jtsolve-instance","values":[' + b"0," * 10**8)),
    ("result.json", b'{"format": "jtsolve-result", "version": 1, "instance": {"name": "jtsolve-results"}}'),
    (
        "i.json",
        b'{"format":"jtsolve-instance","version":1,"variables":["\\u001b[2J' + b"x" * 10**6 + b'","x"]}',
    ),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One input: a command, and the file that it reads, if any."""

    number: int
    words: tuple[str, ...]
    name: str
    data: bytes


def case(number: int, seed: int, seeds: dict[str, Seed]) -> Case:
    """Returns a case; the same for the same seed and number everywhere."""
    if number < len(CORPUS):
        name, data = CORPUS[number]
        return Case(number, seeds[name].commands[0], name, data)
    random = Random(seed * 1_000_003 + number)  # noqa: S311 - no secrets
    if random.random() < 0.2:
        return Case(number, tuple(option_words(random)), "", b"")
    chosen = random.choice(list(seeds.values()))
    return Case(number, random.choice(chosen.commands), chosen.name, mutated(chosen, random))


# Workers.


def work(connection: Connection, place: str, seed: int) -> None:
    """Runs the cases with the given numbers, and sends the fault of each, or None."""
    import numpy as np  # noqa: F401 - loaded before the limit counts
    import polars as pl  # noqa: F401 - the same

    from jtsolve.core.machine import resident_memory

    out = Path(place) / f"out-{os.getpid()}"
    os.setsid()
    seeds = {one.name: one for one in load_seeds(Path(place))}
    log = os.open(f"{place}/log-{os.getpid()}", os.O_RDWR | os.O_CREAT)
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    faulthandler.enable(2)
    base = resident_memory()
    while (number := connection.recv()) is not None:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        os.ftruncate(log, 0)
        os.lseek(log, 0, os.SEEK_SET)
        one = case(number, seed, seeds)
        connection.send(judged(one, out, place, base))


def load_seeds(place: Path) -> list[Seed]:
    """Returns the seeds that `make_seeds` has written."""
    listed = json.loads((place / "seeds.json").read_text())
    return [
        Seed(name, (place / "seeds" / name).read_bytes(), tuple(map(tuple, commands)))
        for name, commands in listed.items()
    ]


@cache
def _truth(place: str, name: str) -> Any:
    return json.loads((Path(place) / "seeds" / name).read_bytes())


def judged(one: Case, out: Path, place: str, base: int) -> str | None:  # noqa: PLR0911 - a line a fault
    """Runs a case in this process, and returns its fault, or None."""
    from jtsolve.cli import run
    from jtsolve.core.machine import resident_memory

    file = out / one.name if one.name else None
    if file is not None:
        file.write_bytes(one.data)
    words = [
        re.sub(r"\{([\w.]+)\}", lambda m: f"{place}/seeds/{m[1]}", w)
        .replace("OUT", str(out))
        .replace("FILE", str(file))
        if not w.startswith("\x1b")
        else w
        for w in one.words
    ]
    said = io.StringIO()
    began = time.process_time()
    try:
        with contextlib.redirect_stderr(said):
            code = run(words, time.monotonic())
    except BaseException as error:  # noqa: BLE001 - each is a finding
        return f"{type(error).__name__}: {error}"[:500]
    seconds, text = time.process_time() - began, said.getvalue()
    if code == 70:
        return f"exit 70: {text[-600:]}"
    if code not in (0, 1, 2, 3, 4, 5):
        return f"exit {code}: {text[-300:]}"
    if seconds > SECONDS:
        return f"{seconds:.1f} s"
    if (held := resident_memory() - base) > MEMORY:
        return f"{held / 1e9:.2f} GB held"
    own = text.startswith("jtsolve:")
    if len(text) > LONGEST:
        return f"a message of {len(text)} characters: {text[:200]}"
    if own and not text.replace("\n", "").isprintable():
        return f"a message with control characters: {text[:300]!r}"
    if (
        code == 0
        and one.words[0] == "check"
        and one.name in ("result.json", "results.json")
        and _is_false(one, place)
    ):
        return "check accepts a damaged result"
    return None


def _is_false(one: Case, place: str) -> bool:
    """Returns whether an accepted result claims another score for a tree than the original."""
    with contextlib.suppress(ValueError):
        found = json.loads(one.data)
        right = _truth(place, one.name)
        if one.name == "result.json":
            right, found = [right], [found]
        else:
            right, found = right["results"], found["results"]
        known = {json.dumps([sorted(r["cliques"]), r["tree_edges"]]): r["score"] for r in right}
        for r in found:
            score = known.get(json.dumps([sorted(r["cliques"]), r["tree_edges"]]))
            if score is not None and r["score"] is not None and abs(score - r["score"]) > 1e-5:
                return True
    return False


class Worker:
    """A process that runs cases; a new one replaces it when it dies or exceeds its time."""

    def __init__(self, place: str, seed: int) -> None:
        self._place, self._seed = place, seed
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, inside = context.Pipe()
        self._process = context.Process(target=_limited, args=(inside, self._place, self._seed), daemon=True)
        self._process.start()
        inside.close()

    def do(self, number: int) -> str | None:
        """Returns the fault of a case, or None."""
        wrong: str | None
        self._connection.send(number)
        try:
            if self._connection.poll(20 * SECONDS):
                answer: str | None = self._connection.recv()
                return answer
            wrong = f"still running after {20 * SECONDS} s"
        except (EOFError, ConnectionError):
            self._process.join()
            log = Path(self._place) / f"log-{self._process.pid}"
            said = log.read_text(errors="replace")[-800:] if log.exists() else ""
            if self._process.exitcode == 2 and said.startswith("jtsolve: "):
                wrong = None  # polars aborted, which the command reports in a message
            else:
                wrong = f"the process ended with {self._process.exitcode}: {said}"
        self.end()
        self._start()
        return wrong

    def end(self) -> None:
        """Kills the process and its children."""
        if self._process.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        self._process.join()


def _limited(connection: Connection, place: str, seed: int) -> None:
    """Starts the work under a limit of address space far above the memory limit."""
    resource.setrlimit(resource.RLIMIT_AS, (12 * MEMORY, 12 * MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    work(connection, place, seed)


def fuzz(arguments: argparse.Namespace, place: str) -> list[dict[str, Any]]:
    """Runs cases until the time is over or a signal arrives, and returns the journal."""
    from jtsolve.core.run import Limits, Run

    (Path(place) / "seeds").mkdir()
    made = make_seeds(Path(place) / "seeds")
    listed = {one.name: one.commands for one in made}
    (Path(place) / "seeds.json").write_text(json.dumps(listed))
    seeds = {one.name: one for one in made}
    rows = read_lines(arguments.journal)
    run = Run(Limits(3600 * arguments.hours))
    worker = Worker(place, arguments.seed)
    with run.interruptible(), arguments.journal.open("a", encoding="utf-8") as journal:
        number = rows[-1]["number"] + 1 if rows else 0
        while run.stop is None and number < arguments.count:
            wrong = worker.do(number)
            one = case(number, arguments.seed, seeds)
            rows.append({"number": number, "name": one.name, "command": one.words[0], "wrong": wrong})
            journal.write(json.dumps(rows[-1]) + "\n")
            journal.flush()
            if wrong is not None:
                record(one, wrong, arguments.findings)
            number += 1
    worker.end()
    return rows


def record(one: Case, wrong: str, folder: Path) -> None:
    """Writes the files of a finding."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"number": one.number, "words": one.words, "file": one.name, "wrong": wrong}
    if len(one.data) < 10**6:
        facts["data"] = base64.b64encode(one.data).decode()
    (folder / f"{one.number:07d}.json").write_text(json.dumps(facts, indent=1))
    print(f"{one.number}: {' '.join(one.words)[:200]}: {wrong[-300:]}", flush=True)


def main(words: list[str] | None = None) -> int:
    """Fuzzes, prints the counts, and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=0.1)
    parser.add_argument("--count", type=int, default=10**9, help="cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journal", type=Path, default=Path("fuzz.jsonl"))
    parser.add_argument("--findings", type=Path, default=Path("findings"))
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="jtsolve-fuzz-", ignore_cleanup_errors=True) as place:
        rows = fuzz(arguments, place)
    counts = Counter(row["name"] or "options" for row in rows)
    bad = Counter(row["name"] or "options" for row in rows if row["wrong"] is not None)
    print("| input | cases | findings |\n|---|--:|--:|")
    print("\n".join(f"| {name} | {counts[name]} | {bad[name]} |" for name in sorted(counts)))
    print(f"| all | {len(rows)} | {sum(bad.values())} |")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
