"""Formulas as files, answers of outside solvers, and the commands encode and decode."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from itertools import product
from typing import TYPE_CHECKING

import highspy
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from problems import from_data, gaussian, named, random_problem

from jtsolve.backends.brute import chordal_trees, meets_constraints
from jtsolve.cli import run
from jtsolve.core import formats
from jtsolve.core.problem import Constraints, ProblemFeature
from jtsolve.core.result import Status
from jtsolve.encodings.answers import read_answer
from jtsolve.encodings.formats import export, lp, mps, wcnf
from jtsolve.encodings.formula import Formula, LinearRow
from jtsolve.encodings.rounding import Unit
from jtsolve.errors import InputError, LimitError
from jtsolve.io.instance import write_problem
from jtsolve.io.result import read_result
from jtsolve.verify.result import check

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jtsolve.core.problem import Problem

FORMULA = Formula(
    names=("a", "b", "c"),
    largest=(1, 1, 1),
    clauses=((1, -2),),
    exactly_one=((1, 2),),
    rows=(
        LinearRow((1, 3), (1, -1), None, 0),
        LinearRow((3,), (1,), 1, None),
        LinearRow((2, 3), (1, 1), 1, 1),
    ),
    weights=np.array([1.5, -2.0, 1e-5]),
    constant=10.0,
)


def optimum(problem: Problem) -> float:
    return max(t.score(problem.scores) for t in chordal_trees(problem.n) if meets_constraints(problem, t))


def solved_by_highs(text: str, path: Path) -> highspy.Highs:
    path.write_text(text)
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(path)) == highspy.HighsStatus.kOk
    solver.run()
    return solver


@pytest.mark.parametrize(("write", "ending"), [(lp, "lp"), (mps, "mps")])
def test_a_linear_file_has_the_models_of_its_formula(
    write: Callable[..., str], ending: str, tmp_path: Path
) -> None:
    text = write(FORMULA, ("a remark",))
    solver = solved_by_highs(text, tmp_path / f"formula.{ending}")
    values = [round(value) for value in solver.getSolution().col_value]
    feasible = [v for v in product((0, 1), repeat=3) if FORMULA.broken(v) is None]
    best = max(feasible, key=FORMULA.objective)
    assert len(feasible) == 1
    assert values == list(best) == [1, 0, 1]
    value = solver.getObjectiveValue()
    assert abs(value) == pytest.approx(FORMULA.objective(best) - FORMULA.constant, abs=1e-12)
    assert "a remark" in text
    assert "10.0" in text


@pytest.mark.parametrize("target", ["lp", "mps"])
def test_a_solution_of_a_linear_file_is_the_optimum(target: str, tmp_path: Path) -> None:
    problem = random_problem(2, 5, frozenset([ProblemFeature.MIN_SEPARATOR_SIZE, ProblemFeature.MAX_CLIQUES]))
    path = tmp_path / f"instance.{target}"
    solver = solved_by_highs(export(problem, target), path)
    solver.writeSolution(str(tmp_path / "solution"), 0)
    answer = read_answer((tmp_path / "solution").read_bytes(), 5, "solution")
    assert answer.kind == "HiGHS"
    assert answer.tree.score(problem.scores) == pytest.approx(optimum(problem), abs=1e-6)


def test_the_cost_of_a_wcnf_file_gives_the_score() -> None:
    problem = named(from_data(1, 4))
    text = export(problem, "wcnf")
    remark = re.search(r"^c score in nats = (\S+) - cost \* 2\^-(\d+)$", text, re.MULTILINE)
    assert remark is not None
    lines = [line.split() for line in text.splitlines() if line[0] != "c"]
    hard = [list(map(int, line[1:-1])) for line in lines if line[0] == "h"]
    soft = [(int(line[0]), int(line[1])) for line in lines if line[0] != "h"]
    assert all(weight > 0 for weight, _ in soft)
    from pysat.examples.rc2 import RC2Stratified
    from pysat.formula import WCNF

    formula = WCNF()
    formula.extend(hard)
    for weight, literal in soft:
        formula.append([literal], weight=weight)
    with RC2Stratified(formula) as solver:
        solver.compute()
        score = float(remark[1]) - solver.cost * 2.0 ** -int(remark[2])
    assert score == pytest.approx(optimum(problem), abs=1e-6)


def test_weights_beyond_64_bits_are_refused() -> None:
    formula = Formula(("a",), (1,), (), (), (), np.array([4.0]))
    assert "4 1 0" in wcnf(formula, Unit(0, 0.0), ())
    with pytest.raises(LimitError, match="Ways out"):
        wcnf(formula, Unit(62, 0.0), ())


def test_a_formula_beyond_the_memory_is_refused() -> None:
    with pytest.raises(LimitError, match="GB are free"):
        export(named(gaussian(0, 5)), "wcnf", memory=1000)


HIGHS = """Model status
Optimal

# Primal solution values
Feasible
Objective 1.5
# Columns 4
adjacent_0_1 1
adjacent_0_2 -0
adjacent_1_2 0.999999
family_0 1
# Rows 0

# Dual solution values
None
"""
CBC = """Optimal - objective value 16.20652463
      0 adjacent_0_1                 1                       0
**    2 adjacent_1_2                 1                       0
      7 family_0                     1                       0
"""
SCIP = """solution status: optimal solution found
objective value:                     -16.2
adjacent_0_1                    1 \t(obj:0)
adjacent_1_2                    1
family_0                        1
"""
PLAIN = "# Objective value = 3\nadjacent_0_1 1\nadjacent_1_2 1\n\nadjacent_0_2 0\nbefore_0_2 7\n"
ANSWERS = {
    "HiGHS": HIGHS,
    "CBC": CBC,
    "SCIP": SCIP,
    "names and values": PLAIN,
    "MaxSAT": "c hello\no 12\ns OPTIMUM FOUND\nv 1 -2 3\nv -4 0\n",
}


@pytest.mark.parametrize("kind", list(ANSWERS))
def test_answers_of_every_kind_are_read(kind: str) -> None:
    answer = read_answer(ANSWERS[kind].encode(), 3, "file")
    assert answer.kind == kind
    assert answer.tree.graph_edges == ((0, 1), (1, 2))


def test_digits_are_read() -> None:
    assert read_answer(b"s OPTIMUM FOUND\nv 1010\n", 3, "file").tree.graph_edges == ((0, 1), (1, 2))
    assert read_answer(b"v 1 0\n", 2, "file").tree.graph_edges == ((0, 1),)
    assert read_answer(b"v\nv 1\n", 1, "file").tree.graph_edges == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s UNSATISFIABLE\n", "no line begins with v"),
        ("c killed\n", "no status line"),
        ("v 10\n", "2 values for 3 pairs"),
        ("v 1 -2 x\n", "'x' is not a literal"),
        ("v 1 0 -2 3 0\n", "after the closing 0"),
        ("v 1 -1 2 3 0\n", "both true and false"),
        ("v 1 -2 0\n", "variable 3 has no value"),
        ("Infeasible - objective value 3\n", "no solution"),
        ("Optimal - objective value 3\n", "missing"),
        (HIGHS.replace("0.999999", "0.5"), "neither 0 nor 1"),
        (HIGHS.replace("family_0", "adjacent_1_2"), "twice"),
        (HIGHS[: HIGHS.index("adjacent_1_2")], "adjacent_1_2 is missing"),
        (PLAIN.replace("1_2 1", "1_2 nan"), "not a number"),
        (PLAIN.replace("1_2 1", "1_2 one"), "not a number"),
        (PLAIN.replace("before_0_2 7", "adjacent_2_3 1"), "only 3 variables"),
        (PLAIN.replace("adjacent_0_2 0", ""), "adjacent_0_2 is missing"),
        ("hello\n", "adjacent_0_1 is missing"),
        ("\n", "missing"),
    ],
)
def test_faults_of_an_answer_are_named(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as error:
        read_answer(text.encode(), 3, "answer.txt")
    assert "answer.txt" in str(error.value)


def test_a_graph_that_is_no_tree_and_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InputError, match="not chordal"):
        read_answer(b"v 101101\n", 4, "file")
    with pytest.raises(InputError, match="UTF-8"):
        read_answer(b"v 1\xff", 4, "file")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_damaged_answer_is_read_or_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([*ANSWERS.values(), "v 1010\n"])).encode()
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 8)))
    damaged = text[:at] + data.draw(
        st.one_of(st.binary(max_size=4), st.sampled_from([b"0", b" 1", b"\n", b"-9"]))
    )
    try:
        answer = read_answer(damaged + text[until:], 3, "file")
    except InputError:
        return
    assert answer.tree.n == 3


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    path = tmp_path / "instance.json"
    write_problem(named(from_data(3, 5), Constraints(max_cliques=3), name="two\nlines"), path)
    return path


def command(*words: str | Path) -> int:
    return run([str(word) for word in words], time.monotonic())


def test_a_solver_that_is_a_program_of_its_own_finds_the_optimum(instance: Path, tmp_path: Path) -> None:
    formula, answer, result = (tmp_path / name for name in ("formula.wcnf", "answer", "result.json"))
    assert command("convert", instance, formula, "--treewidth", "2") == 0
    solver = [sys.executable, "-m", "pysat.examples.rc2", "-l", "basic", "-vv", str(formula)]
    answer.write_bytes(subprocess.run(solver, capture_output=True, check=True).stdout)  # noqa: S603
    assert command("decode", instance, answer, "--treewidth", "2", "--output", result) == 0
    document = read_result(result)
    problem = named(from_data(3, 5), Constraints(max_cliques=3, max_treewidth=2), name="two\nlines")
    assert document.score == pytest.approx(optimum(problem), abs=1e-6)
    assert document.status in {Status.FEASIBLE, Status.OPTIMAL}
    assert document.backend.name == "outside"
    assert document.stats["kind"] == "MaxSAT"
    assert not check(problem, document)


@pytest.mark.parametrize("suffix", formats.FORMULA.written)
def test_every_target_is_written(suffix: str, instance: Path, tmp_path: Path) -> None:
    output = tmp_path / f"formula.{suffix}"
    assert command("convert", instance, output) == 0
    first = output.read_text().splitlines()[0]
    assert re.match(r"(c|\\|\*|#) jtsolve: instance \"two\\nlines\", sha256:", first)


def test_decode_prints_a_summary_or_json(
    instance: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = tmp_path / "answer"
    answer.write_text("v 1111111111\n")
    assert command("decode", instance, answer) == 0
    assert "treewidth  4" in capsys.readouterr().out
    assert command("decode", instance, answer, "--json") == 0
    assert capsys.readouterr().out.startswith("{")


def test_a_tree_that_breaks_a_constraint_is_refused(
    instance: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = tmp_path / "answer"
    answer.write_text("v 0000000000\n")
    assert command("decode", instance, answer) == 2
    streams = capsys.readouterr()
    assert "cliques" in streams.err
    assert str(answer) in streams.err
    assert not streams.out
    assert command("convert", instance, tmp_path / "formula.cnf") == 2
    assert ".score, .wcnf, .lp, .mps or .pbtxt" in capsys.readouterr().err
