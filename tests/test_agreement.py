"""A sample of `benchmarks/agreement.py`: exact backends agree; and disagreement would be seen."""

from __future__ import annotations

import json
import signal
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import agreement
import pytest
from agreement import (
    FEATURES,
    PLAIN,
    SETS,
    SIZES,
    SOLVERS,
    Run,
    counts,
    disagreements,
    features_of,
    in_turn,
    main,
    problem_of,
    read_journal,
    run,
    summary,
)

from jtsolve.backends.registry import REGISTRY
from jtsolve.core import run as core
from jtsolve.solving import solve

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Result

QUICK = "brute,clutter,dp"
"""Backends that solve a problem of eight variables in milliseconds; others get fewer problems."""

PATIENT = ("--time-limit", "3600")
"""Seconds of a run, which compiles kernels first, however busy the machine is."""


def test_quick_exact_backends_agree_on_a_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = tmp_path / "runs.jsonl"
    assert (
        main(["--count", "60", "--seed", "7", *PATIENT, "--backends", QUICK, "--journal", str(journal)]) == 0
    )
    assert "60 problems" in capsys.readouterr().out
    runs = read_journal(journal)
    assert len(runs) == 180
    ended = Counter((one.backend, one.outcome in ("optimal", "infeasible")) for one in runs)
    assert all(ended[name, True] >= 20 for name in QUICK.split(","))
    assert {one.outcome for one in runs} == {"optimal", "infeasible", "refused"}


@pytest.mark.parametrize(
    "name", [name for name, backend in REGISTRY.items() if backend.capabilities.exact and name not in QUICK]
)
def test_the_other_exact_backends_agree_on_a_few(name: str, tmp_path: Path) -> None:
    journal = tmp_path / "runs.jsonl"
    assert main(["--count", "5", *PATIENT, "--backends", f"clutter,{name}", "--journal", str(journal)]) == 0
    assert any(one.backend == name and one.outcome == "optimal" for one in read_journal(journal))


def test_solvers_take_turns_with_and_without_preparation(tmp_path: Path) -> None:
    journal = tmp_path / "runs.jsonl"
    words = ["--count", "40", "--sizes", "3,3,6", "--magnitudes", "--in-turn", "1", "--journal", str(journal)]
    assert main([*words, "--backends", "brute,dp,ilp,maxsat"]) == 0
    runs = read_journal(journal)
    solvers = [one for one in runs if one.backend not in ("brute", "dp")]
    assert sorted(one.number for one in solvers) == list(range(40))
    assert {one.backend for one in solvers} == {"ilp", "maxsat", "ilp" + PLAIN, "maxsat" + PLAIN}
    assert all(one.n == 3 for one in solvers if one.backend.endswith(PLAIN))
    half = [in_turn(["dp", "ilp"], number, 3, 0.5) for number in range(100)]
    assert 30 < sum(names == ["dp"] for names in half) < 70


@pytest.mark.parametrize("name", [*SOLVERS, *(name + PLAIN for name in SOLVERS)])
def test_solvers_prove_optima_where_large_scores_cancel(name: str) -> None:
    for number in (89, 207, 226):  # the optimum is less than a hundredth of the largest score
        problem = problem_of(91, number, (3, 4, 5), (1e9,))
        assert run(91, number, problem, name, 3600.0, whole=core.Run()).outcome == "optimal"


def test_every_constraint_and_size_has_its_turn() -> None:
    numbers = range(3000)
    counts = Counter(feature for number in numbers for feature in features_of(0, number))
    assert min(counts[feature] for feature in FEATURES) > 200
    assert {features_of(0, number) for number in numbers} == set(SETS)
    sizes = Counter(problem_of(0, number).n for number in range(300))
    assert min(sizes[n] for n in SIZES) > 30


def test_a_problem_is_the_same_wherever_it_is_made() -> None:
    def plain(problem: Problem) -> tuple[str, object]:
        return problem.digest(), problem.constraints

    assert plain(problem_of(3, 17)) == plain(problem_of(3, 17))
    assert plain(problem_of(3, 17)) != plain(problem_of(4, 17))


def test_parts_and_finished_runs_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal, output = tmp_path / "runs.jsonl", tmp_path / "table"
    words = ["--count", "9", "--backends", "brute", "--journal", str(journal)]
    assert main([*words, "--part", "2/3"]) == 0
    assert [one.number for one in read_journal(journal)] == [1, 4, 7]
    text = journal.read_text()
    journal.write_text(text + text[:20])  # a line that was cut off
    assert len(read_journal(journal)) == 3
    assert journal.read_text() == text
    assert main([*words, "--output", str(output)]) == 0
    assert sorted(one.number for one in read_journal(journal)) == list(range(9))
    assert journal.read_text().startswith(text)
    printed = capsys.readouterr().out
    assert output.with_suffix(".csv").read_text().startswith("backend,ran,refused")
    assert "| brute | " in printed


def test_a_signal_ends_it_with_the_results_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "runs.jsonl"

    def third_is_interrupted(problem: Problem, *rest: Any) -> Result:
        if len(read_journal(journal)) == 2:
            signal.raise_signal(signal.SIGTERM)
        return solve(problem, *rest)

    monkeypatch.setattr(agreement, "solve", third_is_interrupted)
    words = ["--count", "6", "--backends", "brute", "--sizes", "3", "--journal", str(journal)]
    assert main(words) == 0
    assert [one.number for one in read_journal(journal)] == [0, 1]
    assert "2 problems" in capsys.readouterr().out


RUN = Run(0, 1, "p", 4, (), "first", "optimal", 10.0, 10.0)


@pytest.mark.parametrize(
    ("other", "wrong"),
    [
        (replace(RUN, backend="second", score=10.0 - 5e-7, bound=10.0 - 5e-7), []),
        (replace(RUN, backend="second", score=9.0, bound=9.0), ["second"]),
        (replace(RUN, backend="second", score=12.0, bound=12.0), ["first"]),
        (replace(RUN, backend="second", outcome="infeasible", score=None, bound=None), ["second"]),
        (replace(RUN, backend="second", outcome="feasible", score=9.0, bound=11.0), []),
        (replace(RUN, backend="second", outcome="feasible", score=9.0, bound=9.5), ["second"]),
        (replace(RUN, backend="second", outcome="unknown", score=None, bound=50.0), []),
        (replace(RUN, backend="second", outcome="refused", score=None, bound=None), []),
        (replace(RUN, backend="second", outcome="infeasible", score=None, bound=None, number=2), []),
    ],
)
def test_a_bound_below_the_tree_of_another_is_a_disagreement(other: Run, wrong: list[str]) -> None:
    assert [one.backend for one in disagreements([RUN, other])] == wrong


def test_the_table_counts_and_names_faults() -> None:
    runs = [
        RUN,
        replace(RUN, backend="second", score=9.0, bound=9.0, seconds=2.4, features=("max_cliques",)),
        replace(RUN, backend="second", outcome="wrong", score=None, bound=None, number=2),
        replace(RUN, backend="second", outcome="unknown", score=None, bound=50.0, number=3, n=5),
    ]
    rows = [list(row.values()) for row in counts(runs)]
    assert rows == [["first", 1, 0, 1, 0, 0, 0, 0, "0"], ["second", 3, 0, 1, 0, 1, 1, 1, "2"]]
    assert "3 problems, 1 of them settled by two backends or more. Variables: 4: 2, 5: 1." in summary(runs)


def test_a_wrong_backend_changes_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = tmp_path / "runs.jsonl"
    words = ["--count", "1", "--backends", "brute", "--journal", str(journal)]
    assert main(words) == 0
    row = json.loads(journal.read_text())
    with journal.open("a") as file:
        file.write(json.dumps({**row, "backend": "liar", "score": None, "bound": row["score"] - 1}) + "\n")
    assert main(words) == 1
    assert "backend='liar'" in capsys.readouterr().err
