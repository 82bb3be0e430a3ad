"""Agreement of the exact backends on random problems under every constraint.

    python benchmarks/agreement.py --journal agreement.jsonl --output docs/benchmarks/agreement
    python benchmarks/agreement.py --count 100000 --sizes 3,4,5,6,7 --magnitudes --in-turn 1 --journal m.jsonl

The problems are those of the tests (`tests/problems.py`), of 4 to 8 variables: independent normal scores,
integer scores with and without ties, scores of small data, sparse tables; without constraints, with each one,
and with two or three. A backend that does not support a constraint refuses the problem. `solve` checks every
tree and recomputes its score. A backend *disagrees* if another one finds a tree above its bound by more than
`optimality_tolerance`; a feasible problem called infeasible counts as the bound -inf. A run that reached the
time limit is `unfinished`, but its bound must still hold.

The journal has one line per run, and these runs are not repeated: the script can be stopped at any moment;
Ctrl-C and SIGTERM print the table so far. Parts (`--part 2/4`: the second of four) may run in parallel; their
concatenated journals give the whole table. With `--magnitudes`, the scores of a problem are multiplied by a
power of ten from 10^-9 to 10^9, and unproved runs are listed with the reason. With `--in-turn SHARE`, this
share of the problems is given to one solver backend, the others to none; every other time the backend has no
preparation, so that the proof is the solver's alone. The exit code is 1 after a disagreement or a rejected
answer.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE / "tests"))

from journals import read_lines  # noqa: E402
from problems import random_problem, repeatable  # noqa: E402 - found by the line above
from publishing import publish  # noqa: E402

from jtsolve.backends.registry import REGISTRY  # noqa: E402
from jtsolve.core import run as core  # noqa: E402
from jtsolve.core.problem import ALL_FEATURES, Problem, ProblemFeature  # noqa: E402
from jtsolve.core.result import Status, optimality_tolerance  # noqa: E402
from jtsolve.core.scores import DenseScores, SparseScores  # noqa: E402
from jtsolve.errors import InternalError  # noqa: E402
from jtsolve.solving import solve  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jtsolve.core.backend import Backend

SIZES = (4, 5, 6, 7, 8)
SOLVERS = ("cpsat", "ilp", "maxsat")
PLAIN = "-plain"
"""Marks a solver backend without first tree, relaxation and pruning."""
MOST_PLAIN = 5
"""Maximum number of variables for these."""
MAGNITUDES = tuple(10.0**power for power in range(-9, 10))
FEATURES = [feature for feature in ProblemFeature if feature in ALL_FEATURES]
SETS = tuple(frozenset(chosen) for count in (0, 1, 2, 3) for chosen in combinations(FEATURES, count))
SINGLE = 1 + len(FEATURES)
"""The number of `SETS` with one feature or none."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of one backend on one problem: a line of the journal.

    `outcome` is a status, `refused`, or `wrong` for a rejected answer. Score and bound are in nats; the score
    is null without a tree, the bound if the problem is proved infeasible. `reason` explains a missing proof.
    """

    seed: int
    number: int
    problem: str
    n: int
    features: tuple[str, ...]
    backend: str
    outcome: str
    score: float | None = None
    bound: float | None = None
    seconds: float = 0.0
    reason: str = ""


def features_of(seed: int, number: int) -> frozenset[ProblemFeature]:
    """Returns the constraints of a problem: even numbers have one or none, in turn, odd ones two or three."""
    if number % 2 == 0:
        return SETS[number // 2 % SINGLE]
    return repeatable(seed * 1_000_003 + number).choice(SETS[SINGLE:])


def size_of(number: int, sizes: Sequence[int]) -> int:
    """Returns the number of variables of a problem: sizes alternate, each under every constraint in turn."""
    return sizes[number // (2 * SINGLE) % len(sizes)] if number % 2 == 0 else sizes[number // 2 % len(sizes)]


def problem_of(
    seed: int, number: int, sizes: Sequence[int] = SIZES, magnitudes: Sequence[float] = (1.0,)
) -> Problem:
    """Returns a problem; the same for the same arguments everywhere."""
    n = size_of(number, sizes)
    problem = random_problem(seed * 1_000_003 + number, n, features_of(seed, number))
    return scaled(problem, repeatable(seed * 1_000_003 + number).choice(magnitudes))


def scaled(problem: Problem, factor: float) -> Problem:
    """Returns the problem with all scores multiplied by a factor."""
    scores = problem.scores
    if isinstance(scores, DenseScores):
        return replace(problem, scores=DenseScores(scores.n, scores.max_size, scores.values * factor))
    assert isinstance(scores, SparseScores)
    return replace(
        problem, scores=SparseScores(scores.n, {mask: s * factor for mask, s in scores.table.items()})
    )


def backend_of(name: str) -> Backend:
    """Returns a backend by its name in the journal."""
    if not name.endswith(PLAIN):
        return REGISTRY[name]
    plain: Any = REGISTRY[name.removesuffix(PLAIN)]
    backend: Backend = replace(plain, start=None, relaxation=None)
    return backend


def in_turn(names: Sequence[str], number: int, n: int, share: float = 1.0) -> list[str]:
    """Returns the backends for a problem if this share of problems is given to one solver backend."""
    solvers = [name for name in names if name in SOLVERS]
    solvers += [name + PLAIN for name in solvers] if n <= MOST_PLAIN else []
    # Random, since the constraints follow the number: a cycle of solvers would be in step with them.
    random = repeatable(number)
    turn = [random.choice(solvers)] if solvers and random.random() < share else []
    return [name for name in names if name not in SOLVERS] + turn


def run(seed: int, number: int, problem: Problem, name: str, limit: float, *, whole: core.Run) -> Run:
    """Runs one backend on one problem, in one thread, as a part of a whole run."""
    backend = backend_of(name)
    features = tuple(sorted(feature.value for feature in problem.constraints.features))
    row = Run(seed, number, problem.name, problem.n, features, name, "refused")
    if backend.capabilities.objections(problem):
        return row
    began, processor = time.perf_counter(), time.process_time()
    try:
        result = solve(problem, backend, whole.part(limit))
    except InternalError as error:
        return replace(row, outcome="wrong", reason=str(error), seconds=time.perf_counter() - began)
    proved = result.status in (Status.OPTIMAL, Status.INFEASIBLE)
    used = f"{time.process_time() - processor:.1f} s of processor time"
    return replace(
        row,
        outcome=result.status.value,
        score=result.score,
        bound=None if result.bound == -inf else result.bound,
        reason="" if proved else f"stop {result.stop.value}, gap {result.gap:.3g}, {used}",
        seconds=time.perf_counter() - began,
    )


def disagreements(runs: Iterable[Run]) -> list[Run]:
    """Returns the runs whose bound is below the score of another backend on the same problem."""
    by_problem: dict[tuple[int, int], list[Run]] = defaultdict(list)
    for one in runs:
        if one.outcome != "refused":
            by_problem[one.seed, one.number].append(one)
    found = []
    for group in by_problem.values():
        best = max((one.score for one in group if one.score is not None), default=-inf)
        slack = optimality_tolerance(best) if best > -inf else 0.0
        found += [
            one
            for one in group
            if one.outcome != "wrong" and (-inf if one.bound is None else one.bound) < best - slack
        ]
    return found


def counts(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Returns outcomes by backend."""
    against = Counter(one.backend for one in disagreements(runs))
    rows = []
    for name in dict.fromkeys(one.backend for one in runs):
        own = [one for one in runs if one.backend == name]
        count = Counter(one.outcome for one in own)
        ran = len(own) - count["refused"]
        rows.append(
            {
                "backend": name,
                "ran": ran,
                "refused": count["refused"],
                "optimal": count["optimal"],
                "infeasible": count["infeasible"],
                "unfinished": ran - count["optimal"] - count["infeasible"] - count["wrong"],
                "wrong": count["wrong"],
                "disagree": against[name],
                "seconds": f"{sum(one.seconds for one in own):.0f}",
            }
        )
    return rows


def summary(runs: Sequence[Run]) -> str:
    """Returns the number of problems, by size and constraint."""
    problems = {(one.seed, one.number): one for one in runs}
    shared = Counter((one.seed, one.number) for one in runs if one.outcome in ("optimal", "infeasible"))
    several = sum(count > 1 for count in shared.values())
    sizes = Counter(one.n for one in problems.values())
    features = Counter(feature for one in problems.values() for feature in one.features)
    return (
        f"{len(problems)} problems, {several} of them settled by two backends or more. Variables: "
        + ", ".join(f"{n}: {sizes[n]}" for n in sorted(sizes))
        + ". Constraints: "
        + ", ".join(f"`{name}` {features[name]}" for name in sorted(features))
        + "."
    )


def read_journal(path: Path | None) -> list[Run]:
    """Returns the runs in a journal; see `journals.read_lines`."""
    return [Run(**{**row, "features": tuple(row["features"])}) for row in read_lines(path)]


def main(words: Sequence[str] | None = None) -> int:
    """Runs the remaining cases, prints the table, and returns the exit code."""
    exact = [name for name, backend in REGISTRY.items() if backend.capabilities.exact]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="problems")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backends", default=",".join(exact), help="names, joined by commas")
    parser.add_argument("--in-turn", type=float, help="share of problems for one solver backend")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of variables, in turn")
    parser.add_argument("--magnitudes", action="store_true", help="scores from 10^-9 to 10^9")
    parser.add_argument("--part", default="1/1", help="I/K: the I-th of K parts")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds of each run")
    parser.add_argument("--journal", type=Path, default=None, help="file to continue and append to")
    parser.add_argument("--output", type=Path, default=None, help="write NAME.csv")
    arguments = parser.parse_args(words)
    runs = read_journal(arguments.journal)
    seed, magnitudes = arguments.seed, MAGNITUDES if arguments.magnitudes else (1.0,)
    finished = {(one.number, one.backend) for one in runs if one.seed == seed}
    sizes, names = list(map(int, arguments.sizes.split(","))), arguments.backends.split(",")
    index, _, parts = arguments.part.partition("/")
    whole = core.Run(core.Limits(threads=1))
    with whole.interruptible():
        for number in range(int(index) - 1, arguments.count, int(parts)):
            n = size_of(number, sizes)
            mine = names if arguments.in_turn is None else in_turn(names, number, n, arguments.in_turn)
            left = [name for name in mine if (number, name) not in finished]
            if not left:
                continue
            problem = problem_of(seed, number, sizes, magnitudes)
            fresh = [run(seed, number, problem, name, arguments.time_limit, whole=whole) for name in left]
            if whole.stop is not None:
                break
            runs += fresh
            if arguments.journal is not None:
                with arguments.journal.open("a", encoding="utf-8") as journal:
                    journal.writelines(json.dumps(asdict(one)) + "\n" for one in fresh)
    rows = counts(runs)
    publish(rows, list(rows[0]) if rows else [], core.Run().threads, arguments.output)
    print(summary(runs))
    bad = disagreements(runs) + [one for one in runs if one.outcome == "wrong"]
    unproved = [one for one in runs if one.reason and one.outcome != "wrong"]
    for one in [*sorted(unproved, key=attrgetter("backend")), *bad]:
        print(one, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
