"""A sample of `benchmarks/forge.py`: no forgery is accepted, and accepted ones would be detected."""

from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING, Any

import forge
from problems import FEATURES, random_problem, repeatable

from jtsolve.backends.brute import chordal_trees, meets_constraints

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_no_forgery_of_a_sample_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal, findings = tmp_path / "journal.jsonl", tmp_path / "findings"
    words = ["--problems", "12", "--seed", "5", "--journal", str(journal), "--findings", str(findings)]
    assert forge.main(words) == 0
    assert not findings.exists()
    printed = capsys.readouterr().out
    assert "| all | 132 |" in printed
    text = journal.read_text(encoding="utf-8")
    journal.write_text("".join(text.splitlines(keepends=True)[:-1]) + '{"seed": 5', encoding="utf-8")
    assert len(forge.read_journal(journal)) == 11
    journal.write_text(text, encoding="utf-8")
    assert forge.main(words) == 0  # from the journal alone
    assert capsys.readouterr().out == printed
    rows = [row for listed in forge.read_journal(journal).values() for row in listed]
    assert sum(row.first for row in rows if row.kind != "honest") > 8
    assert sum(not row.true for row in rows) > 30


def test_the_truth_is_that_of_brute_force() -> None:
    for seed in range(30):
        random = repeatable(seed)
        features = frozenset(random.sample(FEATURES, 2))
        problem = random_problem(seed, 1 + seed % 4, features)
        trees = [tree for tree in chordal_trees(problem.n) if meets_constraints(problem, tree)]
        best = max((tree.score(problem.scores) for tree in trees), default=-inf)
        assert forge.best_score(problem, problem.constraints) == best


def test_a_verifier_that_accepts_a_false_claim_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(forge, "verify", lambda *_: ())
    findings = tmp_path / "findings"
    assert forge.main(["--problems", "20", "--findings", str(findings)]) == 1
    assert "disagree" in capsys.readouterr().err
    wrong = json.loads(next(findings.iterdir()).read_text(encoding="utf-8"))
    assert wrong.keys() == {"instance", "result", "certificate", "wrong"}
    monkeypatch.setattr(forge.SECOND, "verify", lambda *_: None)
    assert forge.main(["--problems", "3"]) == 1
    assert "accept a false claim" in capsys.readouterr().err


def test_every_mutation_changes_something(tmp_path: Path) -> None:
    cases = [forge.case_of(3, number, tmp_path) for number in range(25)]
    changed = set()
    for case in cases:
        other = cases[0] if cases[0].problem.n == case.problem.n else None
        for name, mutate in forge.MUTATIONS.items():
            for seed in range(4):
                forger = forge.Forger(repeatable(seed), case, other)
                mutate(forger)
                if (forger.result, forger.certificate) != (case.result, case.certificate):
                    changed.add(name)
    assert changed == set(forge.MUTATIONS)


def test_a_claim_with_contradictory_constraints_is_false(tmp_path: Path) -> None:
    case = forge.case_of(0, 0, tmp_path)
    result: dict[str, Any] = json.loads(json.dumps(case.result))
    assert forge.is_true(case.problem, result)
    result["instance"]["constraints"]["forbidden_edges"] = [["nobody", "nothing"]]
    assert not forge.is_true(case.problem, result)
