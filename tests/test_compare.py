"""The parts of a comparison: specifications, grids, single runs, the journal, the judge."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from comparisons import changed, make_instance, make_plan, make_row, make_spec
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import gaussian, named

from jtsolve.backends.registry import REGISTRY
from jtsolve.compare.folder import FILES, Folder
from jtsolve.compare.grid import (
    Grid,
    expand,
    find_files,
    labels,
    parse_numbers,
    parse_treewidths,
    split_backends,
)
from jtsolve.compare.reporting.judge import judge
from jtsolve.compare.running.run import file_digest, row_of
from jtsolve.compare.spec import RunStatus, new_row, read_row, read_spec, to_json
from jtsolve.core.problem import Constraints
from jtsolve.core.result import Status, Stop
from jtsolve.errors import ChoiceError, InputError, InternalError, LimitError, RefusedError
from jtsolve.io.instance import read_problem, write_problem
from jtsolve.verify.result import check

if TYPE_CHECKING:
    from jtsolve.compare.spec import InstanceFile, Row


@pytest.fixture
def small(tmp_path: Path) -> InstanceFile:
    return make_instance(tmp_path)


# Specifications


def test_a_specification_and_a_row_come_back_from_their_files(small: InstanceFile, tmp_path: Path) -> None:
    spec = make_spec(small, treewidth=2, seed=3, time_limit=1.5)
    path = tmp_path / "spec.json"
    path.write_bytes(to_json(spec))
    assert read_spec(path) == spec
    row = make_row(spec)
    path.write_bytes(to_json(row))
    assert read_row(path) == row


def test_the_name_of_a_run_changes_with_all_that_its_answer_may_depend_on(small: InstanceFile) -> None:
    spec = make_spec(small)
    changes: list[dict[str, Any]] = [
        {"backend": "lns"},
        {"seed": 1},
        {"treewidth": 2},
        {"time_limit": 1.0},
        {"memory_limit": None},
        {"threads": 2},
        {"instance": msgspec.structs.replace(small, sha256="0")},
        {"instance": msgspec.structs.replace(small, label="other")},
    ]
    ids = {msgspec.structs.replace(spec, **change).id for change in changes}
    assert len(ids | {spec.id}) == len(changes) + 1
    elsewhere = msgspec.structs.replace(spec, instance=msgspec.structs.replace(small, path="/elsewhere"))
    assert elsewhere.id == spec.id


def test_the_command_of_a_run_solves_the_same_by_hand(small: InstanceFile) -> None:
    spec = make_spec(small, "lns:steps=5", treewidth=2, seed=3, time_limit=1.5)
    options = "--backend lns:steps=5 --treewidth 2 --time-limit 1.5 --memory-limit 4 --threads 1 --seed 3"
    assert spec.command == f"jtsolve solve {small.path} {options}"


@pytest.mark.parametrize(
    ("change", "place"),
    [({"seed": -1}, "$.seed"), ({"time_limit": 0}, "$.time_limit"), ({"treewdith": 2}, "$")],
)
def test_a_specification_with_anything_wrong_is_refused(
    small: InstanceFile, tmp_path: Path, change: dict[str, Any], place: str
) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({**json.loads(to_json(make_spec(small))), **change}), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_spec(path)
    assert caught.value.place == place


# One run


def test_a_run_gives_a_right_result_and_the_facts(small: InstanceFile) -> None:
    row = row_of(make_spec(small, treewidth=2), time.monotonic())
    assert row.status is RunStatus.OPTIMAL
    assert row.result is not None
    assert check(read_problem(small.path).with_treewidth(2), row.result) == ()
    assert (row.n, row.exact, row.message) == (5, True, "")
    assert row.prepared is not None
    assert 0 < row.prepared <= row.result.seconds["total"]
    assert row.peak_memory is not None
    assert row.machine["jtsolve"]


def test_auto_is_a_backend_too(small: InstanceFile) -> None:
    row = row_of(make_spec(small, "auto"), time.monotonic())
    assert row.status is RunStatus.OPTIMAL
    assert row.exact is True


def test_a_failure_within_a_run_is_its_answer(small: InstanceFile, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[Exception, RunStatus, str]] = [
        (RefusedError("brute", ["No."]), RunStatus.REFUSED, "No."),
        (RefusedError("brute", ["The package x is not installed."]), RunStatus.NOT_INSTALLED, "package x"),
        (ModuleNotFoundError("No module named 'x'"), RunStatus.NOT_INSTALLED, "'x'"),
        (LimitError("needs 9 GB"), RunStatus.TOO_LARGE, "9 GB"),
        (InternalError("wrong answer"), RunStatus.WRONG, "wrong answer"),
        (ChoiceError("no such option"), RunStatus.BAD_INPUT, "no such option"),
        (MemoryError(), RunStatus.OUT_OF_MEMORY, "no memory left"),
        (ZeroDivisionError("one by none"), RunStatus.CRASHED, "one by none"),
    ]
    for error, status, words in cases:

        def fail(*_arguments: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(type(REGISTRY["brute"]), "solve", fail)
        row = row_of(make_spec(small), time.monotonic())
        assert (row.status, row.result) == (status, None)
        assert words in row.message
        assert row.n == 5


def test_a_refused_problem_is_a_row_too(tmp_path: Path) -> None:
    row = row_of(make_spec(make_instance(tmp_path, n=6)), time.monotonic())
    assert (row.status, row.exact) == (RunStatus.REFUSED, True)
    assert "at most 5 variables" in row.message


def test_a_file_that_has_changed_is_another_instance(small: InstanceFile) -> None:
    Path(small.path).write_text("{}", encoding="utf-8")
    row = row_of(make_spec(small), time.monotonic())
    assert row.status is RunStatus.BAD_INPUT
    assert "SHA-256 differs" in row.message
    Path(small.path).unlink()
    assert "cannot be read" in row_of(make_spec(small), time.monotonic()).message


# Grids


def test_a_grid_is_multiplied_out_in_order(tmp_path: Path) -> None:
    for label in ("b", "a"):
        make_instance(tmp_path, label)
    grid = Grid(["dp", "forward"], [2, None], [0, 1], time_limit=3.0, memory_limit=1.5, threads=3)
    files = find_files([str(tmp_path)])
    specs = expand(grid, files)
    one = [("dp", 0), ("dp", 1), ("forward", 0), ("forward", 1)]
    expected = [(label, width, *rest) for label in "ab" for width in (2, None) for rest in one]
    assert [(s.instance.label, s.treewidth, s.backend, s.seed) for s in specs] == expected
    assert {(s.time_limit, s.memory_limit, s.threads, s.grace) for s in specs} == {(3.0, 1.5, 3, 10.0)}
    assert specs[0].instance.sha256 == file_digest(files[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"backends": ["dq"]}, "no backend 'dq'"),
        ({"backends": ["dp:precision=int8"]}, "'precision'"),
        ({"backends": ["dp", "dp"]}, "occurs twice"),
        ({"treewidths": [2, 2]}, "occurs twice"),
        ({"seeds": [0, 0]}, "occurs twice"),
        ({"time_limit": 0.0}, "time_limit"),
        ({"memory_limit": math.inf}, "memory_limit"),
    ],
)
def test_an_invalid_grid_is_refused(small: InstanceFile, change: dict[str, Any], words: str) -> None:
    with pytest.raises(ChoiceError, match=words):
        expand(replace(Grid(["auto"]), **change), [Path(small.path)])


def test_texts_of_the_command_line_are_lists() -> None:
    assert split_backends("dp:precision=int32,start=none,lns:exact=dp") == [
        "dp:precision=int32,start=none",
        "lns:exact=dp",
    ]
    assert parse_numbers("0-2, 7", "seed") == [0, 1, 2, 7]
    assert parse_treewidths("none,1-2") == [None, 1, 2]
    for text in ("1-0", "x"):
        with pytest.raises(ChoiceError, match="is neither a seed nor a range"):
            parse_numbers(text, "seed")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 99), min_size=1))
def test_numbers_come_back_from_their_text(numbers: list[int]) -> None:
    assert parse_numbers(",".join(map(str, numbers)), "seed") == numbers


def test_only_the_instances_of_a_folder_are_used(tmp_path: Path) -> None:
    make_instance(tmp_path, "b")
    write_problem(named(gaussian(1, 4)), tmp_path / "a.json.gz")
    (tmp_path / "b.opt.json").write_text('{"format": "something"}', encoding="utf-8")
    (tmp_path / ".hidden.json").write_text('{"format": "jtsolve-instance"}', encoding="utf-8")
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe.json")
    found = find_files([str(tmp_path), str(tmp_path / "b.json")])
    assert [path.name for path in found] == ["a.json.gz", "b.json"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no instance in this folder"):
        find_files([str(tmp_path / "empty")])
    with pytest.raises(InputError, match="no such file"):
        find_files([str(tmp_path / "none")])


def test_labels_distinguish_files() -> None:
    paths = [Path("x/a/zoo.json"), Path("y/a/zoo.json"), Path("b/zoo.json.gz"), Path("iris.score")]
    assert labels(paths) == ["x/a/zoo", "y/a/zoo", "b/zoo", "iris"]
    assert labels([Path("iris.score.gz")]) == ["iris"]
    assert labels([Path("a/zoo.json"), Path("a/zoo.json.gz")]) == ["zoo.json", "zoo.json.gz"]


# The folder


@pytest.fixture
def rows(small: InstanceFile) -> list[Row]:
    return [make_row(make_spec(small, seed=seed)) for seed in range(3)]


def test_written_rows_come_back(tmp_path: Path, rows: list[Row]) -> None:
    folder = Folder(tmp_path / "run")
    folder.make()
    for row in rows:
        folder.write_row(row)
    assert folder.rows() == {row.spec.id: row for row in rows}


def test_a_damaged_row_is_reported_with_its_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.make()
    (folder.results / "1.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=r"1\.json"):
        folder.rows()


def test_two_processes_may_not_write_to_one_comparison(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.locked(), pytest.raises(ChoiceError, match="another process is writing"), folder.locked():
        raise AssertionError("two hold the lock")
    with folder.locked():
        pass


def test_rows_of_single_runs_count_unless_they_were_interrupted(tmp_path: Path, rows: list[Row]) -> None:
    folder = Folder(tmp_path)
    folder.write_plan(make_plan(rows))
    assert [path.name for path in folder.write_specs([row.spec for row in rows])] == [
        "00001.json",
        "00002.json",
        "00003.json",
    ]
    results = tmp_path / "results"
    (results / "1.json").write_bytes(to_json(rows[0]))
    (results / "2.json").write_bytes(to_json(rows[1]))
    (results / "3.json").write_bytes(to_json(changed(rows[2], stop=Stop.INTERRUPTED)))
    os.mkfifo(results / "4.json")
    folder.write_row(msgspec.structs.replace(rows[0], message="again"))
    assert set(folder.rows()) == {row.spec.id for row in rows[:2]}


def test_a_folder_without_a_comparison_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no comparison here"):
        Folder(tmp_path).plan()
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be created"):
        Folder(tmp_path / "file" / "run").make()


@pytest.mark.parametrize("name", FILES)
def test_a_folder_whose_files_are_none_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for make in (os.mkfifo, os.mkdir, lambda place: place.symlink_to(place)):
        make(path)
        with pytest.raises(InputError, match="it is no regular file"):
            Folder(tmp_path).make()
        path.rmdir() if path.is_dir() else path.unlink()


# The judge


def test_sound_runs_have_no_fault(tmp_path: Path) -> None:
    rows = [
        make_row(make_spec(make_instance(tmp_path, f"i{seed}", seed=seed), backend, treewidth=width))
        for seed in range(3)
        for backend in ("brute", "dp", "lns", "chowliu")
        for width in (1, 2, None)
    ]
    assert judge(rows) == ()
    assert sum(row.result is not None for row in rows) > 20


def test_a_wrong_tree_is_a_fault_and_condemns_only_its_run(small: InstanceFile) -> None:
    sound = make_row(make_spec(small, "dp"))
    row = make_row(make_spec(small))
    assert row.result is not None
    assert row.result.score is not None
    wrong = changed(row, score=row.result.score + 1, bound=row.result.score + 1, trace=[])
    faults = judge([sound, wrong])
    assert {(fault.kind, fault.runs) for fault in faults} == {("wrong answer", (wrong.spec.id,))}
    assert "brute on small" in faults[0].message
    humble = msgspec.structs.replace(row, status=RunStatus.FEASIBLE)
    assert [fault.kind for fault in judge([humble])] == ["wrong answer"]


def test_a_tree_wider_than_requested_is_a_fault(small: InstanceFile) -> None:
    row = make_row(make_spec(small))
    assert row.result is not None
    assert row.result.treewidth is not None
    narrow = msgspec.structs.replace(row, spec=make_spec(small, treewidth=row.result.treewidth - 1))
    assert {fault.kind for fault in judge([narrow])} == {"wrong answer"}


def test_an_answer_that_the_solver_rejected_is_a_fault(small: InstanceFile) -> None:
    row = new_row(make_spec(small), RunStatus.WRONG, "its bound is below its score")
    assert [fault.kind for fault in judge([row])] == ["wrong answer"]
    assert judge([new_row(make_spec(small), RunStatus.CRASHED, "gone")]) == ()


def test_a_pipe_in_the_place_of_an_instance_is_not_read(small: InstanceFile, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    row = make_row(make_spec(small))
    foreign = msgspec.structs.replace(row.spec, instance=msgspec.structs.replace(small, path=str(pipe)))
    (fault,) = judge([msgspec.structs.replace(row, spec=foreign)])
    assert "it is no regular file" in fault.message


def test_a_removed_instance_is_a_fault(small: InstanceFile) -> None:
    rows = [make_row(make_spec(small, seed=seed)) for seed in range(2)]
    Path(small.path).unlink()
    (fault,) = judge(rows)
    assert (fault.kind, fault.runs) == ("not verified", tuple(row.spec.id for row in rows))
    assert "2 results cannot be checked again" in fault.message


def optimum(row: Row) -> float:
    assert row.result is not None
    assert row.result.score is not None
    return row.result.score


def lower_bound(row: Row) -> Row:
    """A feasible result whose bound is below the optimum: it is sound by itself."""
    edgeless = make_row(msgspec.structs.replace(row.spec, treewidth=0))
    assert edgeless.result is not None
    score = optimum(edgeless)
    bound = (score + optimum(row)) / 2
    result = msgspec.structs.replace(
        edgeless.result,
        status=Status.FEASIBLE,
        bound=bound,
        gap=bound - score,
        trace=[],
        instance=row.result.instance if row.result else edgeless.result.instance,
    )
    spec = msgspec.structs.replace(row.spec, backend="forward")
    return msgspec.structs.replace(row, spec=spec, status=RunStatus.FEASIBLE, result=result)


def test_a_score_above_the_bound_of_another_run_is_a_fault(small: InstanceFile) -> None:
    row = make_row(make_spec(small))
    (fault,) = judge([row, lower_bound(row)])
    assert fault.kind == "score above bound"
    assert fault.runs == (row.spec.id, lower_bound(row).spec.id)


def test_a_tree_of_less_treewidth_counts_against_the_bound_of_a_looser_problem(small: InstanceFile) -> None:
    row = make_row(make_spec(small))
    narrow = make_row(make_spec(small, treewidth=4))
    (fault,) = judge([narrow, lower_bound(row)])
    assert fault.kind == "score above bound"
    # The converse is no fault: a larger treewidth permits more.
    tight = make_row(make_spec(small, treewidth=1))
    assert optimum(row) > optimum(tight)
    assert judge([row, tight]) == ()


def test_two_different_optima_are_a_fault(small: InstanceFile) -> None:
    row = make_row(make_spec(small))
    low = lower_bound(row)
    assert low.result is not None
    score = low.result.score
    claims = changed(low, status=Status.OPTIMAL, bound=score, gap=0.0)
    (fault,) = judge([claims, row])
    assert fault.kind == "two optima"


def test_infeasible_for_one_and_solved_by_another_is_a_fault(small: InstanceFile) -> None:
    row = make_row(make_spec(small, treewidth=2))
    claims = changed(
        make_row(make_spec(small, "dp", treewidth=3)),
        status=Status.INFEASIBLE,
        score=None,
        bound=None,
        gap=0.0,
        treewidth=None,
        cliques=[],
        separators=[],
        tree_edges=[],
        trace=[],
    )
    (fault,) = judge([row, claims])
    assert fault.kind == "infeasible but solved"
    tighter = msgspec.structs.replace(claims, spec=make_spec(small, "dp", treewidth=1))
    assert "made with max_treewidth 3" in judge([row, tighter])[0].message


def test_an_infeasible_problem_is_no_fault(tmp_path: Path) -> None:
    constraints = Constraints(max_treewidth=0, min_separator_size=1)
    instance = make_instance(tmp_path, n=3, constraints=constraints)
    rows = [make_row(make_spec(instance, name)) for name in ("brute", "dp")]
    assert {row.status for row in rows} == {RunStatus.INFEASIBLE}
    assert judge(rows) == ()


def test_the_same_scores_with_other_constraints_are_another_problem(tmp_path: Path) -> None:
    free = make_row(make_spec(make_instance(tmp_path, "free")))
    tight = make_instance(tmp_path, "tight", constraints=Constraints(max_treewidth=0))
    bound = make_row(make_spec(tight))
    assert judge([free, bound]) == ()
