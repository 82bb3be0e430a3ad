"""Certificates of results that other backends found, and of the best trees in order."""

from __future__ import annotations

import signal
from dataclasses import replace
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np
import pytest
from problems import FEATURES, dense, gaussian, named, random_problem
from runs import ReportingRun
from verifiers import verify

from jtsolve.backends.brute import Brute
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.portfolio.backend import Portfolio
from jtsolve.backends.registry import REGISTRY
from jtsolve.cli import run
from jtsolve.core.problem import Constraints, ProblemFeature
from jtsolve.core.result import Status, Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.errors import ChoiceError, InternalError, LimitError
from jtsolve.io.certificate import CertificateDocument, read_certificate, write_certificate
from jtsolve.io.instance import write_problem
from jtsolve.io.ranking import RankingDocument, ranking_to_document
from jtsolve.io.result import result_to_document
from jtsolve.kbest import k_best
from jtsolve.proving import prove, prove_ranking, require_exact, with_own_certificate, written_certificate
from jtsolve.solving import solve
from jtsolve.verify.ranking import check_ranking
from jtsolve.verify.result import check

if TYPE_CHECKING:
    from pathlib import Path

Proved: TypeAlias = tuple[RankingDocument, CertificateDocument]
ALONE = Limits(threads=1)
CONNECTED = Constraints(max_treewidth=0, min_separator_size=1)
"""No tree of two variables meets it."""


@pytest.mark.parametrize("name", ["brute", "dp", "chowliu", "ilp", "maxsat", "cpsat"])
def test_the_optimum_of_every_exact_backend_gets_a_certificate(name: str) -> None:
    problem = named(gaussian(4, 5)).with_treewidth(1)
    result, certificate = prove(problem, solve(problem, REGISTRY[name], Run(ALONE)), Run(ALONE))
    assert result.status is Status.OPTIMAL
    assert check(problem, result) == ()
    assert verify(problem, result_to_document(result), certificate) == ()
    assert result.score is not None
    worse = msgspec.structs.replace(result_to_document(result), bound=result.score - 1e-3)
    assert verify(problem, worse, certificate)


@pytest.mark.parametrize("feature", FEATURES)
def test_results_under_every_constraint_get_a_certificate(feature: ProblemFeature) -> None:
    problem = random_problem(3, 4, frozenset({feature}))
    result, certificate = prove(problem, solve(problem, Brute(), Run(ALONE)), Run(ALONE))
    assert verify(problem, result_to_document(result), certificate) == ()


def test_infeasibility_gets_a_certificate() -> None:
    problem = replace(named(gaussian(0, 2)), constraints=CONNECTED)
    result, certificate = prove(problem, solve(problem, REGISTRY["dp"], Run(ALONE)), Run(ALONE))
    assert (result.status, result.bound) == (Status.INFEASIBLE, -inf)
    assert verify(problem, result_to_document(result), certificate) == ()


def test_a_proof_that_does_not_fit_the_limits_is_refused() -> None:
    problem = named(gaussian(0, 5))
    result = solve(problem, REGISTRY["dp"], Run(ALONE))
    with pytest.raises(LimitError, match=r"no certificate is written: .* stopped before a bound"):
        prove(problem, result, Run(Limits(time=1e-9, threads=1)))
    with pytest.raises(LimitError, match=r"'dp' stopped \(interrupted\)"):
        prove(problem, replace(result, stop=Stop.INTERRUPTED), Run(ALONE))
    with pytest.raises(LimitError, match="memory limit"):
        prove(problem, result, Run(Limits(memory=1000)))
    impossible = replace(
        named(gaussian(0, 5)), constraints=Constraints(max_treewidth=1, min_separator_size=2)
    )
    with pytest.raises(LimitError, match="stopped before a bound"):
        prove(impossible, solve(impossible, REGISTRY["dp"], Run(ALONE)), Run(Limits(time=1e-9, threads=1)))


def test_a_bound_below_a_tree_is_an_error_of_the_backend() -> None:
    problem = named(dense(2, 2, np.array([0.0, -10.0, -10.0, -15.0])))
    poor = solve(problem.with_treewidth(0), Brute(), Run(ALONE))
    with pytest.raises(InternalError, match=r"claims the bound -20\.0, but a tree scores -15"):
        prove(problem, poor, Run(ALONE))


def test_a_heuristic_has_no_bound_to_prove() -> None:
    with pytest.raises(ChoiceError, match=r"'forward' is a heuristic.*brute, chowliu, clutter"):
        require_exact(REGISTRY["forward"])
    require_exact(REGISTRY["dp"])
    with pytest.raises(ChoiceError, match="'portfolio' is a heuristic"):
        require_exact(Portfolio(members=(REGISTRY["forward"], REGISTRY["lns"])))


def test_a_portfolio_that_closed_the_gap_is_certified() -> None:
    problem = named(gaussian(3, 13, 3))  # in separate processes
    portfolio = REGISTRY["portfolio"]
    require_exact(portfolio)
    result = solve(problem, portfolio, Run(Limits(threads=2)))
    assert result.status is Status.OPTIMAL
    certified, certificate = prove(problem, result, Run(ALONE))
    assert verify(problem, result_to_document(certified), certificate) == ()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_portfolio_that_is_stopped_certifies_its_bound(threads: int, tmp_path: Path) -> None:
    """In turns and in processes; where a member proved the bound, nothing is proved again."""
    path = tmp_path / "c.json"
    values = np.random.default_rng(0).standard_normal(count_bounded_subsets(22, 4))  # a wide gap
    values[0] = 0.0
    problem = named(dense(22, 4, values))
    chosen, left = with_own_certificate(REGISTRY["portfolio"], path)
    assert left == path

    def interrupt(*, score: float | None, bound: float | None, **_: object) -> None:
        if score is not None and bound is not None and bound < inf and not interrupted:
            interrupted.append(bound)
            signal.raise_signal(signal.SIGINT)

    interrupted: list[float] = []
    result = solve(problem, chosen, ReportingRun(interrupt, Limits(threads=threads)))
    assert interrupted
    assert (result.status, result.stop) == (Status.FEASIBLE, Stop.INTERRUPTED)
    certified = written_certificate(result, path)
    assert certified is not None
    assert verify(problem, result_to_document(certified), read_certificate(path)) == ()
    weaker = {"members": {"clutter 1": {"certified": result.bound + 1}}}
    assert written_certificate(replace(result, stats=weaker), path) is None
    assert not path.exists()


def test_a_backend_that_writes_its_own_certificate_does(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    assert with_own_certificate(ClutterCuts(), path) == (ClutterCuts(certificate=str(path)), None)
    assert with_own_certificate(Brute(), path) == (Brute(), path)
    assert with_own_certificate(ClutterCuts(), None) == (ClutterCuts(), None)
    with pytest.raises(ChoiceError, match="two files"):
        with_own_certificate(ClutterCuts(certificate="a.json"), path)


# The best trees in order.


def proved(
    seed: int, *, k: int | None, within: float | None = None
) -> tuple[RankingDocument, CertificateDocument]:
    """Returns a ranking and its certificate, which both verifiers accept."""
    problem = random_problem(seed, 4, frozenset())
    ranking, certificate = prove_ranking(
        problem, k_best(problem, Brute(), Run(ALONE), k=k, within=within), Run(ALONE)
    )
    document = ranking_to_document(ranking)
    assert ranking.complete
    assert check_ranking(problem, document) == ()
    assert verify(problem, document, certificate) == ()
    return document, certificate


@pytest.mark.parametrize("k", [2, 5])
def test_that_no_other_tree_is_better_is_proved(k: int) -> None:
    document, certificate = proved(1, k=k)
    problem = random_problem(1, 4, frozenset())
    assert document.bound is not None
    change = msgspec.structs.replace
    assert verify(problem, change(document, bound=document.bound - 0.01), certificate)
    assert verify(problem, change(document, bound=None), certificate)
    assert verify(problem, change(document, results=document.results[1:]), certificate)


def test_all_trees_within_a_gap_are_proved_to_be_all() -> None:
    document, _ = proved(2, k=None, within=1.0)
    assert document.bound is not None
    best = document.results[0].score
    assert best is not None
    assert document.bound < best - 1.0


def test_that_there_is_no_other_tree_is_proved() -> None:
    problem = named(gaussian(0, 3))
    ranking, certificate = prove_ranking(problem, k_best(problem, Brute(), Run(ALONE), k=100), Run(ALONE))
    document = ranking_to_document(ranking)
    assert (len(document.results), document.bound) == (8, None)
    assert verify(problem, document, certificate) == ()
    missing = msgspec.structs.replace(document, results=document.results[:-1])
    assert verify(problem, missing, certificate)


def test_unknown_names_in_a_ranking_are_refused() -> None:
    document, certificate = proved(1, k=1)
    problem = random_problem(1, 4, frozenset())
    odd = msgspec.structs.replace(document.results[0], cliques=[["nobody"]])
    assert (
        "no variable 'nobody'"
        in verify(problem, msgspec.structs.replace(document, results=[odd]), certificate)[0]
    )


def test_a_ranking_without_trees_may_not_add_constraints() -> None:
    problem = named(gaussian(0, 2))
    tighter = replace(problem, constraints=CONNECTED)
    document = ranking_to_document(k_best(tighter, Brute(), Run(ALONE), k=2))
    assert (document.results, document.bound) == ([], None)
    assert check_ranking(tighter, document) == ()
    assert any("tighter min_separator_size" in fault for fault in check_ranking(problem, document))


# The command line.


def test_solve_writes_a_certificate_and_check_verifies_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instance, result, proof = (str(tmp_path / name) for name in ("i.json", "r.json", "c.json.gz"))
    write_problem(named(gaussian(1, 4)), instance)
    common = ["solve", instance, "--certificate", proof, "--output", result, "--quiet"]
    for more in (
        ["--backend", "dp"],
        ["--backend", "clutter"],
        ["--backend", "portfolio"],
        ["--k-best", "3"],
    ):
        assert run([*common, *more], monotonic()) == 0
        assert run(["check", instance, result, "--certificate", proof], monotonic()) == 0
        assert "the bound is verified" in capsys.readouterr().out


def test_an_answer_without_a_certificate_is_written_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    instance, result, proof = (str(tmp_path / name) for name in ("i.json", "r.json", "c.json"))
    write_problem(named(gaussian(1, 4)), instance)

    def refuse(*_: object) -> None:
        raise LimitError("no certificate is written")

    monkeypatch.setattr("jtsolve.proving.prove", refuse)
    words = ["solve", instance, "--backend", "dp", "--certificate", proof, "--output", result]
    assert run(words, monotonic()) == 4
    reported = capsys.readouterr()
    assert "optimal" in reported.out
    assert "no certificate is written" in reported.err
    assert run(["check", instance, result], monotonic()) == 0
    assert not (tmp_path / "c.json").exists()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--backend", "forward", "--certificate", "c.json"], "heuristic"),
        (["--backend", "lns", "--k-best", "2", "--certificate", "c.json"], "lns"),
        (["--certificate", "r.json", "--output", "r.json"], "both name"),
        (["--certificate", "."], "directory"),
    ],
)
def test_certificates_that_cannot_be_are_refused_before_the_work(
    tmp_path: Path,
    more: list[str],
    reason: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_problem(named(gaussian(1, 3)), "i.json")
    assert run(["solve", "i.json", *more], monotonic()) == 2
    assert reason in capsys.readouterr().err


def test_a_certificate_file_is_read_as_written(tmp_path: Path) -> None:
    _, certificate = proved(1, k=1)
    for name in ("c.json", "c.json.gz"):
        write_certificate(tmp_path / name, certificate)
        assert read_certificate(tmp_path / name) == certificate
