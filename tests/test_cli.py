"""The command line: streams, exit codes, files, signals, limits."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from problems import gaussian, named

import jtsolve.cli.output
from jtsolve import __main__ as program
from jtsolve.backends.registry import REGISTRY
from jtsolve.cli import run
from jtsolve.core.problem import Constraints
from jtsolve.core.result import Outcome, Status, Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import SparseScores
from jtsolve.errors import InputError, InternalError
from jtsolve.io.instance import read_problem, write_problem
from jtsolve.io.result import read_result, result_to_json
from jtsolve.solving import solve
from jtsolve.verify.result import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from commands import Command

ROOT = Path(__file__).parents[1]

DRIVER = '''
import sys
from dataclasses import dataclass
from typing import ClassVar

from jtsolve.core.backend import Capabilities, Estimate
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.result import Outcome
from jtsolve.core.tree import JunctionTree

@dataclass(frozen=True, slots=True)
class Endless:
    """Runs until the report stops it."""

    found: bool = True
    name: ClassVar[str] = "endless"
    capabilities: ClassVar[Capabilities] = Capabilities()

    def estimate(self, problem, limits):
        return Estimate(10**6, 1.0)

    def solve(self, problem, limits, report):
        if self.found:
            full = JunctionTree(problem.n, ((1 << problem.n) - 1,), ())
            report(tree=full, bound=1000.0, done=0.5, note="on [and] on")
        print("ready", file=sys.stderr, flush=True)
        while report():
            pass
        return Outcome(None, stop=report.stop)

REGISTRY["endless"] = Endless()

from jtsolve.__main__ import main
main()
'''


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    write_problem(named(gaussian(7, 4), name="small"), path)
    return path


@pytest.fixture
def infeasible(tmp_path: Path) -> Path:
    path = tmp_path / "infeasible.json"
    constraints = Constraints(max_treewidth=0, min_separator_size=1)
    write_problem(named(gaussian(7, 3), constraints, "infeasible"), path)
    return path


@pytest.fixture
def solved(instance: Path, tmp_path: Path) -> Path:
    path = tmp_path / "solved.json"
    path.write_bytes(result_to_json(solve(read_problem(instance), REGISTRY["brute"])))
    return path


@pytest.fixture
def driver(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts the command line with the backend `endless` in a separate process."""
    script = tmp_path / "driver.py"
    script.write_text(DRIVER, encoding="utf-8")

    def start(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, str(script), *map(str, arguments)],
            env=environment(),
            text=True,
            encoding="utf-8",
            **pipes,
        )

    return start


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **more}


def started(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Runs `python -m jtsolve` in a separate process."""
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "jtsolve", *map(str, arguments)],
        check=False,
        env=options.pop("env", environment()),
        **{"capture_output": True, **options},
    )


# Help, version, usage


def test_help_loads_nothing_heavy() -> None:
    lines = [
        "import sys, time",
        "from jtsolve.cli import run",
        "for arguments in (['--help'], ['solve', '--help'], ['show', '--help'], ['--version'], []):",
        "    run(arguments, time.monotonic())",
        "heavy = {'numba', 'numpy', 'matplotlib', 'networkx', 'rich', 'msgspec', 'jtsolve.core.problem'}",
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)",
    ]
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", "\n".join(lines)], check=False, capture_output=True, env=environment()
    )
    assert done.returncode == 0, done.stderr
    assert b"--memory-limit" in done.stdout


@pytest.mark.parametrize("name", ["solve", "check", "backends", "convert", "show"])
def test_every_command_has_help(command: Command, name: str) -> None:
    assert command(name, "--help") == 0
    assert command.out.startswith(f"Usage: jtsolve {name} ")
    assert command.err == ""


def test_version(command: Command) -> None:
    assert command("--version") == 0
    assert re.fullmatch(r"jtsolve \d+\.\d+\.\d+\n", command.out)


@pytest.mark.parametrize(
    "arguments",
    [
        ["solv"],
        ["solve"],
        ["solve", "x.json", "--treewidth", "-1"],
        ["solve", "x.json", "--treewidth", "two"],
        ["solve", "x.json", "--threads", "0"],
        ["solve", "x.json", "--seed", "-1"],
        ["solve", "x.json", "--time-limit", "soon"],
        ["solve", "x.json", "--unknown"],
        ["check"],
    ],
)
def test_wrong_use_ends_with_2_and_prints_no_answer(command: Command, arguments: list[str]) -> None:
    assert command(*arguments) == 2
    assert command.out == ""
    assert "Traceback" not in command.err
    assert command.err.count("Error") == 1


# solve


def test_solve_prints_a_summary_and_the_tree(command: Command, instance: Path) -> None:
    assert command("solve", instance) == 0
    assert command.err == ""
    facts = dict(line.split(maxsplit=1) for line in command.out.splitlines() if line.startswith("  "))
    assert command.out.startswith("small\n")
    assert facts["status"] == "optimal (finished)"
    best = solve(read_problem(instance), REGISTRY["brute"])
    assert facts["score"] == facts["bound"] == f"{best.score:.6f} nats"
    assert facts["gap"] == "0.000000 nats"
    assert facts["treewidth"] == str(best.treewidth)
    assert re.fullmatch(r"[\d.e+-]+ s", facts["time"])
    assert re.fullmatch(r"[\d.]+ GB at the peak, [\d.e-]+ GB predicted", facts["memory"])
    assert "auto chose" in facts["backend"]
    assert best.tree is not None
    assert command.out.count("{") == 2 * len(best.tree.cliques) - 1 - sum(not s for s in best.tree.separators)


def test_json_prints_the_result_and_nothing_else(command: Command, instance: Path, tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    arguments = ("--backend", "brute", "--json", "--treewidth", "2", "--seed", "3", "--threads", "1")
    assert command("solve", instance, *arguments, "--output", output) == 0
    assert command.err == ""
    assert command.out == output.read_text(encoding="utf-8")
    document = read_result(output)
    assert (document.status, document.backend.name, document.seed) == (Status.OPTIMAL, "brute", 3)
    assert document.instance.constraints.max_treewidth == 2
    assert document.environment["threads"] == 1
    assert check(read_problem(instance), document) == ()


def test_quiet_prints_nothing(command: Command, instance: Path, tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    assert command("solve", instance, "--quiet", "--output", output) == 0
    assert (command.out, command.err) == ("", "")
    assert read_result(output).status is Status.OPTIMAL
    assert command("solve", instance, "--quiet", "--backend", "no") == 2
    assert command.err.startswith("jtsolve: there is no backend 'no'")


def test_infeasible_ends_with_3(command: Command, infeasible: Path) -> None:
    assert command("solve", infeasible, "--backend", "brute") == 3
    assert "infeasible" in command.out
    assert "score      none" in command.out
    assert command("solve", infeasible, "--backend", "brute", "--json") == 3
    document = json.loads(command.out)
    assert (document["status"], document["bound"], document["cliques"]) == ("infeasible", None, [])


def test_no_tree_within_the_limits_ends_with_4(
    command: Command, instance: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up(*_arguments: object) -> Outcome:
        return Outcome(None, stop=Stop.MEMORY)

    monkeypatch.setattr(type(REGISTRY["forward"]), "solve", give_up)
    assert command("solve", instance, "--backend", "forward") == 4
    assert "unknown (the memory limit ended the run)" in command.out


def test_a_limit_below_the_need_ends_with_4_and_names_the_need(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "twelve.json"
    write_problem(named(gaussian(1, 12)), path)
    output = tmp_path / "result.json"
    arguments = ("--backend", "dp", "--treewidth", "3", "--memory-limit", "0.000001", "--output", output)
    assert command("solve", path, *arguments) == 4
    assert command.out == ""
    assert re.search(r"needs [\d.]+ GB", command.err)
    assert not output.exists()
    assert command("solve", path, "--memory-limit", "0.000001") == 4
    assert "this call needs" in command.err


def test_running_out_of_memory_is_reported(
    command: Command, instance: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhaust(*_arguments: object) -> Outcome:
        raise MemoryError

    monkeypatch.setattr(type(REGISTRY["forward"]), "solve", exhaust)
    assert command("solve", instance, "--backend", "forward") == 4
    assert "out of memory" in command.err


def test_a_wrong_answer_of_a_backend_ends_with_70(
    command: Command, instance: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lie(_backend: object, _problem: object, _limits: object, _report: object) -> Outcome:
        raise InternalError("backend 'forward' returned a wrong answer: a fault")

    monkeypatch.setattr(type(REGISTRY["forward"]), "solve", lie)
    assert command("solve", instance, "--backend", "forward", "--json") == 70
    assert (command.out, command.err) == (
        "",
        "jtsolve: backend 'forward' returned a wrong answer: a fault\n",
    )


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--backend", "forwrad"], ["no backend 'forwrad'", "did you mean 'forward'", "brute"]),
        (["--backend", "auto:seed=3"], ["'auto' has no options", "--backend NAME"]),
        (["--backend", "dp:precision"], ["not a key=value pair"]),
        (["--backend", "dp:precison=int32"], ["did you mean 'precision'", "now auto"]),
        (["--backend", "dp:precision=int8"], ["auto or float64 or int64 or int32"]),
        (["--backend", "dp:start=dq"], ["no backend 'dq'"]),
        (["--time-limit", "0"], ["'time' is 0.0"]),
        (["--time-limit", "nan"], ["'time' is nan"]),
        (["--memory-limit", "0"], ["memory limit is 0.0 GB"]),
        (["--memory-limit", "inf"], ["memory limit is inf GB"]),
        (["--memory-limit", "1e308"], ["memory limit is 1e+308 GB"]),
        (["--memory-limit", "nan"], ["memory limit is nan GB"]),
    ],
)
def test_unknown_choices_end_with_2(
    command: Command, instance: Path, arguments: list[str], parts: list[str]
) -> None:
    assert command("solve", instance, *arguments) == 2
    assert command.out == ""
    assert command.err.startswith("jtsolve: ")
    assert command.err.count("\n") == 1
    for part in parts:
        assert part in command.err


def test_a_refusal_gives_every_reason(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "six.json"
    write_problem(named(gaussian(1, 6), Constraints(max_cliques=2)), path)
    assert command("solve", path, "--backend", "dp") == 2
    assert "does not support the constraint max_cliques" in command.err
    assert command("solve", path, "--backend", "brute") == 2
    assert "at most 5 variables, not 6" in command.err


def test_options_reach_the_backend(command: Command, instance: Path) -> None:
    backend = "dp:forest=none,precision=int32,start=none"
    assert command("solve", instance, "--backend", backend, "--json") == 0
    options = json.loads(command.out)["backend"]["options"]
    assert options == {"precision": "int32", "start": None, "forest": None, "device": "auto"}


def test_a_missing_or_broken_instance_ends_with_2(command: Command, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{", encoding="utf-8")
    for path in (tmp_path / "none.json", tmp_path, broken):
        assert command("solve", path) == 2
        assert command.out == ""
        assert command.err.startswith(f"jtsolve: {path}: ")
        assert "Fix" in command.err


def test_output_that_cannot_be_written_is_found_before_the_run(
    command: Command, instance: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_arguments: object) -> Outcome:
        raise AssertionError("the run must not begin")

    monkeypatch.setattr(type(REGISTRY["brute"]), "solve", never)
    before = instance.read_bytes()
    cases: list[tuple[str | Path, str]] = [
        (tmp_path / "none" / "result.json", "its folder does not exist"),
        (tmp_path, "it is a directory"),
        (f"{tmp_path}/result.json/", "there is no such directory"),
        (instance, "the output would replace the input"),
        (tmp_path / "." / instance.name, "the output would replace the input"),
    ]
    for output, reason in cases:
        assert command("solve", instance, "--backend", "brute", "--output", output) == 2
        assert reason in command.err
        assert command.out == ""
    monkeypatch.setattr(os, "access", lambda *_arguments: False)
    assert command("solve", instance, "--backend", "brute", "--output", tmp_path / "new.json") == 2
    assert f"no permission to write to {tmp_path}" in command.err
    assert instance.read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_an_answer_is_printed_even_if_it_cannot_be_written(command: Command, instance: Path) -> None:
    assert command("solve", instance, "--json", "--output", "/dev/full") == 2
    assert json.loads(command.out)["status"] == "optimal"
    assert "/dev/full: it cannot be written (No space left on device)" in command.err


def test_the_output_replaces_an_older_one_and_leaves_nothing_else(
    command: Command, instance: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    output = folder / "result.json"
    output.write_text("old", encoding="utf-8")
    assert command("solve", instance, "--quiet", "--output", output) == 0
    assert [path.name for path in folder.iterdir()] == ["result.json"]
    assert read_result(output).status is Status.OPTIMAL


def test_no_option_lets_an_output_replace_an_input_or_another_output(
    command: Command, instance: Path, tmp_path: Path
) -> None:
    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    limits = written("limits.json", '{"max_treewidth": 1}')
    pair = '{"format": "jtsolve-graph", "version": 1, "variables": ["A", "B"], "edges": [["A", "B"]]}'
    graph = written("graph.json", pair)
    data = written("data.csv", "A,B\n" + "yes,no\nno,yes\nyes,yes\n" * 9)
    schema = written("schema.json", '{"A": ["no", "yes"]}')
    (tmp_path / "link.json").symlink_to(instance)
    other = tmp_path / "other.json"
    of_data = ("fit", data, "--treewidth", "1")
    for arguments, inputs in (
        (("solve", instance, "--certificate", tmp_path / "link.json"), [instance]),
        (("solve", instance, "--constraint", limits, "--output", limits), [limits]),
        (("solve", instance, "--constraint", f"within_graph={graph}", "--output", graph), [graph]),
        (("solve", instance, "--constraint", f"require_graph={graph}", "--certificate", graph), [graph]),
        ((*of_data, "--read", f"schema={schema}", "--output", schema), [schema]),
        (("solve", instance, "--certificate", other, "--output", other), []),
    ):
        before = {path: path.read_bytes() for path in inputs}
        assert command(*arguments, "--quiet") == 2, arguments
        assert ("would replace the input" if inputs else "both name this file") in command.err, arguments
        assert {path: path.read_bytes() for path in inputs} == before
        assert not other.exists()


def test_outputs_that_are_devices_may_be_the_same(command: Command, instance: Path) -> None:
    assert command("solve", instance, "--quiet", "--certificate", "/dev/null", "--output", "/dev/null") == 0


def test_names_with_any_bytes_are_written_and_read(command: Command, instance: Path, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/r\xff"))
    scores, result, model, data = (
        odd.with_suffix(suffix) for suffix in (".score", ".json", ".m.json", ".csv")
    )
    assert command("convert", instance, scores) == 0
    assert command("solve", scores, "--backend", "brute", "--quiet", "--output", result) == 0
    assert json.loads(result.read_bytes())["instance"]["name"] == "r\\udcff"
    assert command("check", scores, result) == 0
    data.write_text("A,B\n" + "yes,no\nno,yes\nyes,yes\n" * 9, encoding="utf-8")
    assert command("fit", data, "--treewidth", "1", "--quiet", "--output", model) == 0
    assert command("query", model) == 0
    assert command("compare", scores, "--backends", "dp", "--output", tmp_path / "runs") == 2
    assert "its path has a byte that is not UTF-8" in command.err


def test_circular_links_and_removed_folders_are_reported(
    command: Command, instance: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, gone = tmp_path / "loop", tmp_path / "gone"
    loop.symlink_to(loop)
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for output, reason in ((loop, "it cannot be written"), ("new.json", "its folder does not exist")):
        assert command("solve", instance, "--quiet", "--output", output) == 2
        assert reason in command.err
    assert command("solve", instance, "--quiet") == 0
    assert command("solve", "relative.json", "--quiet") == 2
    assert "there is no such file" in command.err


# Signals, limits and streams, in separate processes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_returns_the_best_tree_so_far(
    driver: Callable[..., subprocess.Popen[str]], instance: Path, tmp_path: Path, number: signal.Signals
) -> None:
    output = tmp_path / "result.json"
    with driver("solve", instance, "--backend", "endless", "--json", "--output", output) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        process.send_signal(number)
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    document = json.loads(out)
    assert (document["status"], document["stop"], document["bound"]) == ("feasible", "interrupted", 1000.0)
    assert output.read_text(encoding="utf-8") == out
    assert check(read_problem(instance), read_result(output)) == ()


@pytest.mark.parametrize("has_forest", [True, False])
def test_an_interruption_before_a_tree_gives_the_best_forest_or_ends_with_130(
    driver: Callable[..., subprocess.Popen[str]], instance: Path, tmp_path: Path, *, has_forest: bool
) -> None:
    output = tmp_path / "result.json"
    more = () if has_forest else ("--constraint", "min_separator_size=2")
    arguments = ("--backend", "endless:found=false", "--json", "--output", output, *more)
    with driver("solve", instance, *arguments) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    code, message = (0, "") if has_forest else (130, "jtsolve: interrupted before a tree was found\n")
    assert (process.returncode, err) == (code, message)
    assert json.loads(out)["status"] == ("feasible" if has_forest else "unknown")
    assert read_result(output).stop is Stop.INTERRUPTED


def test_the_time_limit_counts_from_the_start_of_the_process(
    driver: Callable[..., subprocess.Popen[str]], instance: Path
) -> None:
    with driver("solve", instance, "--backend", "endless", "--time-limit", "0.001", "--json") as process:
        out, _ = process.communicate()
    assert process.returncode == 0
    assert json.loads(out)["stop"] == "time"
    arguments = ("--backend", "endless:found=false", "--time-limit", "0.001")
    for more, code, status in (((), 0, "feasible"), (("--constraint", "min_separator_size=2"), 4, "unknown")):
        with driver("solve", instance, *arguments, *more) as process:  # the first has the forest
            out, _ = process.communicate()
        assert process.returncode == code
        assert f"{status} (the time limit ended the run)" in out


def test_progress_is_shown_on_a_terminal_and_json_stays_pure(
    driver: Callable[..., subprocess.Popen[str]], instance: Path
) -> None:
    for quiet in (False, True):
        terminal, end = pty.openpty()
        arguments = ["--time-limit", "2", "--quiet"] if quiet else []
        with driver("solve", instance, "--backend", "endless", "--json", *arguments, stderr=end) as process:
            os.close(end)
            shown = b""
            try:
                while chunk := os.read(terminal, 65536):
                    if b"no useful bound yet" in chunk and b"no useful bound yet" not in shown:
                        process.send_signal(signal.SIGINT)
                    shown += chunk
            except OSError:  # Linux raises it if the other end of the terminal is closed
                shown += b"."
            out, _ = process.communicate()
        os.close(terminal)
        assert process.returncode == 0
        assert json.loads(out)["status"] == "feasible"
        assert (b"on [and] on" in shown) is not quiet
        assert (b"no useful bound yet" in shown) is not quiet


def test_a_reader_that_closes_the_pipe_is_no_error(instance: Path) -> None:
    for arguments in (("solve", instance), ("solve", instance, "--json"), ("backends",), ("--help",)):
        reading, writing = os.pipe()
        os.close(reading)
        done = started(*arguments, capture_output=False, stdout=writing, stderr=subprocess.PIPE)
        os.close(writing)
        assert done.stderr == b""
        assert done.returncode == (1 if arguments == ("--help",) else 0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["solve", "--help"], ["backends"]])
def test_a_full_disk_behind_standard_output_is_reported(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with os.fdopen(os.open("/dev/full", os.O_WRONLY), "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(words, time.monotonic()) == 2
    said = capsys.readouterr().err
    assert said.startswith("jtsolve: standard output: it cannot be written (No space left on device)")
    assert said.count("\n") == 1


def test_a_terminal_without_unicode_still_shows_the_tree(tmp_path: Path) -> None:
    path = tmp_path / "names.json"
    write_problem(named(gaussian(3, 6), Constraints(max_treewidth=1)), path)
    done = started("solve", path, env=environment(PYTHONIOENCODING="ascii"))
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u2514" in done.stdout


def test_a_device_may_be_the_output(instance: Path, tmp_path: Path) -> None:
    words = ("solve", instance, "--quiet", "--output", "/dev/stdout")
    done = started(*words)
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "optimal"
    log = tmp_path / "log"
    log.write_text("earlier\n", encoding="utf-8")
    with log.open("a") as stream:
        assert started(*words, capture_output=False, stdout=stream).returncode == 0
    first, _, rest = log.read_text(encoding="utf-8").partition("\n")
    assert (first, json.loads(rest)["status"]) == ("earlier", "optimal")
    assert Path(os.devnull).is_char_device()


def test_no_library_writes_to_standard_output() -> None:
    path = Path(__file__).parents[1] / "instances" / "uci" / "voting.json.gz"  # its proof needs HiGHS
    done = started("solve", path, "--backend", "clutter", "--treewidth", "2", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "optimal"


# check


def test_check_accepts_a_right_result(command: Command, instance: Path, solved: Path) -> None:
    assert command("check", instance, solved) == 0
    assert command.out.startswith(f"{solved}: right (optimal")
    assert command.err == ""
    assert command("check", instance, solved, "--json") == 0
    assert json.loads(command.out) == {"right": True, "faults": []}


def test_check_names_every_fault(command: Command, instance: Path, solved: Path) -> None:
    document = json.loads(solved.read_text(encoding="utf-8"))
    document["score"] -= 1.0
    document["treewidth"] += 1
    solved.write_text(json.dumps(document), encoding="utf-8")
    assert command("check", instance, solved) == 1
    assert command.out == ""
    lines = command.err.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith(f"jtsolve: {solved}: ") for line in lines)
    assert any("The treewidth is" in line for line in lines)
    assert command("check", instance, solved, "--json") == 1
    verdict = json.loads(command.out)
    assert not verdict["right"]
    assert len(verdict["faults"]) == len(lines)


def test_check_of_another_file_ends_with_2(command: Command, instance: Path) -> None:
    assert command("check", instance, instance) == 2
    assert "jtsolve-result" in command.err


# backends


def test_backends_lists_the_registry(command: Command) -> None:
    assert command("backends") == 0
    assert [line.partition(":")[0] for line in command.out.splitlines() if line[:1].strip()] == [*REGISTRY]
    assert "dp: exact, at most 28 variables" in command.out
    assert "precision=auto, start=forward, forest=chowliu" in command.out


# convert


def test_convert_writes_another_format(command: Command, instance: Path, tmp_path: Path) -> None:
    packed, junctor = tmp_path / "small.json.gz", tmp_path / "small.score"
    assert command("convert", instance, packed) == 0
    assert (command.out, command.err) == ("", "")
    assert read_problem(packed).digest() == read_problem(instance).digest()
    assert command("convert", packed, junctor) == 0
    assert junctor.read_text(encoding="utf-8").startswith("4 4")


def test_convert_prunes_and_keeps_the_optimum(command: Command, instance: Path, tmp_path: Path) -> None:
    best = solve(read_problem(instance), REGISTRY["brute"])
    pruned = tmp_path / "pruned.json"
    assert command("convert", instance, pruned, "--prune-below", f"{best.score:.6f}") == 0
    assert (command.out, command.err) == ("", "")
    scores = read_problem(pruned).scores
    assert isinstance(scores, SparseScores)
    assert len(scores.table) < 16
    assert solve(read_problem(pruned), REGISTRY["brute"]).tree == best.tree
    assert command("convert", instance, tmp_path / "none.json", "--prune-below", "1000") == 2
    assert "no tree of the problem scores 1000" in command.err
    assert command("convert", instance, tmp_path / "none.json", "--prune-below", "nan") == 2
    assert not (tmp_path / "none.json").exists()


def test_convert_refuses_unwritable_formats(command: Command, instance: Path, tmp_path: Path) -> None:
    before = instance.read_bytes()
    assert command("convert", instance, instance) == 2
    assert "the output would replace the input" in command.err
    assert command("convert", instance, tmp_path / "small.txt") == 2
    assert command("convert", instance, tmp_path / "none" / "small.json") == 2
    assert "folder does not exist" in command.err
    assert instance.read_bytes() == before


# show


def test_show_prints_the_output_of_solve(command: Command, instance: Path, tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    assert command("solve", instance, "--output", output) == 0
    printed = command.out.splitlines()
    assert command("show", output) == 0
    shown = command.out.splitlines()
    same = slice(printed.index("") + 1, None)
    assert printed[same] == shown[shown.index("") + 1 :]
    assert shown[:6] == printed[:6]


def test_show_writes_pictures(command: Command, solved: Path, tmp_path: Path) -> None:
    starts = {"tree.svg": b"<?xml", "tree.png": b"\x89PNG", "tree.dot": b"graph junction_tree {"}
    for name, start in starts.items():
        assert command("show", solved, "--output", tmp_path / name) == 0
        assert (command.out, command.err) == ("", "")
        assert (tmp_path / name).read_bytes().startswith(start)


def test_show_of_a_result_without_a_tree(command: Command, infeasible: Path, tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    assert command("solve", infeasible, "--backend", "brute", "--output", output) == 3
    assert command("show", output) == 0
    assert "infeasible" in command.out
    assert command("show", output, "--output", tmp_path / "tree.dot") == 2
    assert "there is no tree (status infeasible)" in command.err
    assert command("show", output, "--output", tmp_path / "none" / "tree.svg") == 2


def test_show_refuses_other_files(command: Command, solved: Path) -> None:
    document = json.loads(solved.read_text(encoding="utf-8"))
    document |= {"cliques": [["A", "B"], ["C", "D"], ["B", "A"]], "tree_edges": [[0, 1], [1, 2]]}
    solved.write_text(json.dumps(document), encoding="utf-8")
    assert command("show", solved) == 2
    assert "$.cliques" in command.err
    assert "jtsolve check" in command.err


# The pieces


def test_the_program_ends_with_the_code_of_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminate: None
) -> None:
    del terminate
    monkeypatch.setattr(sys, "argv", ["jtsolve", "--version"])
    with pytest.raises(SystemExit) as end:
        program.main()
    assert end.value.code == 0
    with pytest.raises(SystemExit) as end:
        runpy.run_path(program.__file__, run_name="__main__")
    assert end.value.code == 0
    assert capsys.readouterr().out.count("jtsolve ") == 2


_WITHIN_THE_HOOK = """
repeat = signal.setitimer
def signalled(*_):
    signal.setitimer = repeat
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.01)
signal.setitimer = signalled
"""


@pytest.mark.parametrize("again", ["", _WITHIN_THE_HOOK])
def test_a_signal_within_a_destructor_is_not_lost(again: str) -> None:
    code = f"""
import os, signal, sys, time
from jtsolve import __main__ as program
{again}
class Closing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
def run(*_):
    one = Closing()
    del one
    time.sleep(100)
import jtsolve.cli
jtsolve.cli.run = run
program.main()
"""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_a_repeated_signal_reaches_the_current_handler(terminate: None) -> None:
    del terminate
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGALRM)
    received = []
    signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    signal.raise_signal(signal.SIGALRM)
    assert received == [signal.SIGTERM]


@pytest.mark.parametrize("module", ["jtsolve.cli", "jtsolve.cli.output", "jtsolve.errors"])
def test_a_signal_while_loading_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, terminate: None, module: str
) -> None:
    del terminate

    class Interrupting:
        """Sends the signal when the module is imported."""

        @staticmethod
        def find_spec(name: str, _path: object, _target: object = None) -> None:
            if name == module:
                signal.raise_signal(signal.SIGTERM)

    for loaded in [name for name in sys.modules if name.startswith(("jtsolve.cli", "jtsolve.errors"))]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "meta_path", [Interrupting, *sys.meta_path])
    with pytest.raises(SystemExit) as end:
        program.main()
    assert end.value.code == 130


class Panic(BaseException):
    """As polars and other modules in Rust raise it."""


@pytest.mark.parametrize("kind", [ImportError, Panic])
def test_a_signal_that_a_module_turns_into_another_error_is_still_an_interruption(
    monkeypatch: pytest.MonkeyPatch,
    terminate: None,
    capsys: pytest.CaptureFixture[str],
    kind: type[BaseException],
) -> None:
    del terminate

    def load(*_arguments: object, **_options: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt as error:
            raise kind("initialization failed") from error

    monkeypatch.setattr("jtsolve.cli.one_call", load)
    monkeypatch.setattr(sys, "argv", ["jtsolve", "solve", "a.json"])
    with pytest.raises(SystemExit) as end:
        program.main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "jtsolve: interrupted before a tree was found\n"


def test_a_signal_while_a_command_runs_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, terminate: None
) -> None:
    del terminate
    monkeypatch.setattr("jtsolve.cli.run", lambda *_arguments: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit) as end:
        program.main()
    assert end.value.code == 130


def test_streams_that_are_no_files_are_left_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    assert run(["--version"], 0.0) == 0
    assert stream.getvalue().startswith("jtsolve ")


def test_a_closed_pipe_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with io.TextIOWrapper(os.fdopen(writing, "wb"), encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        jtsolve.cli.output.emit("text")
        jtsolve.cli.output.emit(b"more")


def test_an_unexpected_error_ends_with_70_and_no_verdict(
    command: Command, instance: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object) -> Outcome:
        raise ZeroDivisionError("for once")

    monkeypatch.setattr(type(REGISTRY["forward"]), "solve", broken)
    assert command("solve", instance, "--backend", "forward") == 70
    assert command.out == ""
    assert command.err.startswith("jtsolve: this is a bug in jtsolve")
    assert command.err.endswith("ZeroDivisionError: for once\n\n")


def test_streams_that_are_closed_from_the_start(instance: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", None)
        with pytest.raises(InputError, match="it is closed"):
            jtsolve.cli.output.emit("text")

    def closed(arguments: str) -> tuple[int, bytes]:
        done = subprocess.run(  # noqa: S602 - only a shell starts a program without its streams
            f'"{sys.executable}" -m jtsolve {arguments}',
            shell=True,
            check=False,
            env=environment(),
            stderr=subprocess.PIPE,
        )
        return done.returncode, done.stderr

    assert closed(f'solve "{instance}" --backend brute --quiet >&-') == (0, b"")
    code, said = closed(f'solve "{instance}" --backend brute >&-')
    assert (code, said.count(b"\n")) == (2, 1)
    assert said.startswith(b"jtsolve: standard output: it is closed")
    assert closed("--version >&-") == (2, said)
    assert closed(f'solve "{instance}.none" 2>&-')[0] == 2


def test_names_keep_the_order_of_the_variables() -> None:
    from jtsolve.io.result import _variables

    order = _variables([["A", "D"], ["B", "C"], ["C", "D"]])
    assert sorted(order) == ["A", "B", "C", "D"]
    assert all(order.index(x) < order.index(y) for x, y in (("A", "D"), ("B", "C"), ("C", "D")))
    assert _variables([["A", "B"], ["B", "A", "C"]]) == ("A", "B", "C")


def test_a_summary_shows_whole_seconds_and_only_printable_text(solved: Path) -> None:
    import msgspec

    from jtsolve.io.summary import result_text

    document = msgspec.structs.replace(read_result(solved), seconds={"total": 12345.6})
    assert "  time       12346 s\n" in result_text(document, "x", {})
    unnamed = msgspec.structs.replace(document, instance=msgspec.structs.replace(document.instance, name=""))
    assert result_text(unnamed, "x", {}).startswith("(without a name)\n")
    red = msgspec.structs.replace(
        document, instance=msgspec.structs.replace(document.instance, name="\x1b[31m")
    )
    assert result_text(red, "x", {}).startswith('"\\u001b[31m"\n')


def test_limits_include_the_time_since_the_start() -> None:
    from jtsolve.cli.options import Options

    assert Options(time=2.0, memory=0.5, threads=3, seed=4, started=1.0).run().limits == Limits(
        time=2.0, memory=500_000_000, threads=3, seed=4, started=1.0
    )
