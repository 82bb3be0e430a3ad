"""Is anything lost or half-written? Kills at random moments, a full disk, a read-only folder, two writers.

    nice python benchmarks/kills.py --kills 100 --output kills

Of `score`, `fit`, `average` and `compare`, each with an older output at the same place:

- *killed*: SIGKILL, SIGTERM or SIGINT at a random moment of the command's run. The output has
  to be the older one or a complete new one. A comparison is then resumed: every row that it had is kept, no
  run is done twice, and all are there.
- *disk full*: no file may grow beyond 100 bytes. The command must report it, with exit code 2, and the older
  output stays.
- *read-only*: the folder cannot be written to; the same. As root, capabilities are dropped by `setpriv`.
- *two at once*: two processes with one output. Each succeeds or reports the reason, and the output is
complete.

Files that a SIGKILL leaves beside the output are counted; they never have its name. Exit code 1: a fault.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

FULL = 100
"""Bytes of the largest file on a full disk."""
OLD = '{"older": true}\n'
COMMANDS: dict[str, tuple[str, ...]] = {
    "score": ("score", "data.csv", "--max-size", "3", "--output", "out/it.json"),
    "fit": ("fit", "data.csv", "--treewidth", "2", "--quiet", "--output", "out/it.json"),
    "average": ("average", "i.json", "--quiet", "--output", "out/it.json"),
    "compare": (
        "compare",
        "i.json",
        "--backends",
        "dp",
        "--treewidths",
        "1,2",
        "--quiet",
        "--output",
        "out/run",
    ),
}
RUNS = 2
"""Runs of the comparison."""
Process = subprocess.Popen[bytes]


def prepare(folder: Path) -> None:
    """Writes the inputs into a folder."""
    random = Random(0)  # noqa: S311 - no secrets
    lines = ["a,b,c,d", *(",".join(str(random.randrange(2)) for _ in range(4)) for _ in range(300))]
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [*program(), "score", "data.csv", "--max-size", "3", "--output", "i.json"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode())


def program(*, powerless: bool = False) -> list[str]:
    """Returns the command line of the program; powerless: without root's right to write anywhere."""
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if powerless else []
    return [*drop, sys.executable, "-m", "jtsolve"]


def start(folder: Path, words: tuple[str, ...], *, full: bool = False, powerless: bool = False) -> Process:
    """Starts a command in a new session."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, FULL))

    return subprocess.Popen(
        [*program(powerless=powerless), *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=limited if full else None,  # noqa: PLW1509 - there is one thread
    )


def ended(process: Process) -> tuple[int, str]:
    """Waits for a process and returns its exit code and messages."""
    _, said = process.communicate()
    return process.returncode, said.decode(errors="replace")


def fresh(folder: Path, name: str) -> None:
    """Makes the folder of the output, with an older one where the command replaces it."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "out").mkdir()
    if name != "compare":
        (folder / "out" / "it.json").write_text(OLD)


def fault_of(folder: Path, name: str, keys: dict[str, list[str]]) -> str | None:
    """Returns the fault of an output that is neither the older one nor a complete new one."""
    if name == "compare":
        journal = folder / "out" / "run" / "journal.jsonl"
        lines = journal.read_text().splitlines(keepends=True) if journal.exists() else []
        for line in lines:
            if line.endswith("\n"):
                json.loads(line)
        return None
    text = (folder / "out" / "it.json").read_text()
    try:
        found = json.loads(text)
    except ValueError as error:
        return f"half-written: {error}"
    return None if text == OLD or sorted(found) == keys[name] else "it is neither old nor new"


def rows_in(folder: Path) -> list[str]:
    """Returns the complete lines of the comparison's journal."""
    journal = folder / "out" / "run" / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True) if journal.exists() else []
    return [line for line in lines if line.endswith("\n")]


def resumed_fault(folder: Path) -> str | None:
    """Resumes a killed comparison; returns the runs that were lost or repeated."""
    before = rows_in(folder)
    words = COMMANDS["compare"]
    if (folder / "out" / "run" / "plan.json").exists():
        words = (*words, "--resume")
    code, said = ended(start(folder, words))
    after = rows_in(folder)
    if code:
        return f"it cannot be resumed: exit {code}: {said[-300:]}"
    if after[: len(before)] != before:
        return "rows were lost"
    if len(after) != RUNS or not (folder / "out" / "run" / "report.html").exists():
        return f"{len(after)} rows of {RUNS}"
    return None


def killed(folder: Path, name: str, seconds: float, random: Random, keys: dict[str, list[str]]) -> str | None:
    """Kills a command at a random moment, and returns the fault left behind."""
    fresh(folder, name)
    process = start(folder, COMMANDS[name])
    time.sleep(random.uniform(0.3, 1.1) * seconds)
    number = random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
    if number == signal.SIGKILL:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    code, said = ended(process)
    if code == 70 or "Traceback" in said:
        return f"{number.name}: exit {code}: {said[-300:]}"
    fault = fault_of(folder, name, keys)
    return fault or (resumed_fault(folder) if name == "compare" else None)


def refused(folder: Path, name: str, *, full: bool) -> str | None:
    """Runs a command on a full disk or in a read-only folder, and returns the fault."""
    fresh(folder, name)
    out = folder / "out"
    if not full:
        out.chmod(0o555)
    powerless = not full and os.geteuid() == 0
    code, said = ended(start(folder, COMMANDS[name], full=full, powerless=powerless))
    out.chmod(0o755)
    if code != 2 or "Traceback" in said or not said.startswith("jtsolve: "):
        return f"exit {code}: {said[-300:]}"
    return None if name == "compare" or (out / "it.json").read_text() == OLD else "the older output is lost"


def two_at_once(folder: Path, name: str, keys: dict[str, list[str]]) -> str | None:
    """Runs a command twice at a time with one output, and returns the fault."""
    fresh(folder, name)
    both = [start(folder, COMMANDS[name]) for _ in range(2)]
    ends = [ended(process) for process in both]
    if not any(code == 0 for code, _ in ends) or any(code not in (0, 2) for code, _ in ends):
        return f"{ends}"
    if name == "compare":
        return None if len(rows_in(folder)) == RUNS else f"{len(rows_in(folder))} rows of {RUNS}"
    return fault_of(folder, name, keys) or (
        None if (folder / "out" / "it.json").read_text() != OLD else "nothing was written"
    )


def main(words: list[str] | None = None) -> int:
    """Does it all, prints the table, and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--output", type=Path, default=None, help="write NAME.md")
    arguments = parser.parse_args(words)
    random = Random(arguments.seed)  # noqa: S311 - no secrets
    done: Counter[tuple[str, str]] = Counter()
    faults: list[str] = []
    left = 0

    def note(kind: str, name: str, fault: str | None) -> None:
        done[kind, name] += 1
        if fault is not None:
            faults.append(f"{kind}, {name}: {fault}")
            print(faults[-1], flush=True)

    with TemporaryDirectory(prefix="jtsolve-kills-") as place:
        folder = Path(place)
        prepare(folder)
        seconds: dict[str, float] = {}
        keys: dict[str, list[str]] = {}
        names = arguments.commands.split(",")
        for name in names:
            fresh(folder, name)
            began = time.monotonic()
            code, said = ended(start(folder, COMMANDS[name]))
            seconds[name] = time.monotonic() - began
            if code:
                raise RuntimeError(f"{name}: {said}")
            if name != "compare":
                keys[name] = sorted(json.loads((folder / "out" / "it.json").read_text()))
            note("disk full", name, refused(folder, name, full=True))
            if os.geteuid() or shutil.which("setpriv"):
                note("read-only", name, refused(folder, name, full=False))
            note("two at once", name, two_at_once(folder, name, keys))
        for k in range(arguments.kills):
            name = names[k % len(names)]
            note("killed", name, killed(folder, name, seconds[name], random, keys))
            left += sum(path.name != "it.json" for path in (folder / "out").iterdir() if path.is_file())
    kinds = list(dict.fromkeys(kind for kind, _ in done))
    lines = ["| command | " + " | ".join(kinds) + " |", "|---" + "|--:" * len(kinds) + "|"]
    lines += [f"| {name} | " + " | ".join(str(done[kind, name]) for kind in kinds) + " |" for name in names]
    lines += [
        "",
        f"{len(faults)} faults in {done.total()} cases; {left} temporary files left by SIGKILL.",
        "",
    ]
    print("\n".join(lines))
    if arguments.output is not None:
        arguments.output.with_suffix(".md").write_text("\n".join([*lines, *faults, ""]), encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
