"""The best trees in order: against brute force, ends, documents, and the check of them."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import msgspec
import pytest
import schemas
from hypothesis import HealthCheck, given, settings
from problems import gaussian, integers, named, random_problem, small_problems
from runs import ReportingRun

from jtsolve.backends.brute import Brute, chordal_trees, meets_constraints
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.problem import Constraints, Problem, ProblemFeature
from jtsolve.core.ranking import Ranking, score_of
from jtsolve.core.result import Status, Stop, require_tree
from jtsolve.core.run import Limits, Run
from jtsolve.errors import ChoiceError, InputError, LimitError, RefusedError
from jtsolve.io.documents import indented_json
from jtsolve.io.ranking import (
    RankingDocument,
    ranking_to_document,
    ranking_to_json,
    read_ranking,
)
from jtsolve.kbest import k_best, without
from jtsolve.verify.ranking import check_ranking

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend

SCHEMA = Path(__file__).parents[1] / "docs" / "schema" / "results.schema.json"
ABLE: list[Backend] = [Brute(), ClutterCuts(), DynamicProgramming()]


def true_scores(problem: Problem) -> list[float]:
    """Returns the scores of all trees of a problem, the best first."""
    trees = [tree for tree in chordal_trees(problem.n) if meets_constraints(problem, tree)]
    return sorted((tree.score(problem.scores) for tree in trees), reverse=True)


def agree(problem: Problem, backend: Backend, k: int | None, within: float | None = None) -> Ranking:
    """Compares a ranking with all trees."""
    ranking = k_best(problem, backend, k=k, within=within)
    assert check_ranking(problem, ranking) == ()
    expected = true_scores(problem)
    wanted = expected[:k]
    if within is not None and expected:
        wanted = [score for score in wanted if score >= expected[0] - within - 1e-9]
    assert [score_of(result) for result in ranking.results] == pytest.approx(wanted, abs=1e-6)
    assert len({result.tree for result in ranking.results}) == len(wanted)
    assert ranking.complete
    assert ranking.proved == len(wanted)
    assert ranking.stop is Stop.FINISHED
    assert ranking.bound >= (expected[len(wanted)] if len(wanted) < len(expected) else -inf) - 1e-9
    return ranking


@pytest.mark.parametrize("backend", ABLE, ids=lambda backend: backend.name)
def test_the_k_best_are_those_of_brute_force(backend: Backend) -> None:
    agree(named(gaussian(0, 4)), backend, 1)
    agree(named(gaussian(1, 4)), backend, 7)
    for seed in range(2):
        agree(named(integers(seed, 4, high=2)), backend, 7)
    agree(named(gaussian(0, 5, 3), Constraints(max_treewidth=2)), backend, 8)


@pytest.mark.parametrize("backend", ABLE, ids=lambda backend: backend.name)
def test_all_within_a_gap_are_those_of_brute_force(backend: Backend) -> None:
    for seed in range(2):
        problem = named(gaussian(seed, 4))
        scores = true_scores(problem)
        agree(problem, backend, None, within=scores[0] - scores[4] + 1e-4)
        agree(problem, backend, 2, within=scores[0] - scores[4] + 1e-4)
        agree(problem, backend, 30, within=0.0)
    agree(named(integers(1, 4, high=1)), backend, None, within=1.0)  # ties, some of them at the limit


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("backend", ABLE, ids=lambda backend: backend.name)
def test_fewer_trees_than_requested_are_all_trees(backend: Backend, n: int) -> None:
    for ranking in (
        agree(named(gaussian(1, n)), backend, 100),
        agree(named(gaussian(1, n)), backend, None, within=1e6),
    ):
        assert len(ranking.results) == (1, 2, 8)[n - 1]
        assert ranking.bound == -inf


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problem=small_problems(max_n=3, allowed=ProblemFeature))
def test_the_same_with_ties_and_constraints(problem: Problem) -> None:
    for backend in ClutterCuts(), DynamicProgramming():
        if not backend.capabilities.objections(problem):
            agree(problem, backend, 4)


def test_an_infeasible_problem_has_no_best_trees() -> None:
    ranking = agree(named(gaussian(0, 3), Constraints(max_treewidth=0, min_separator_size=1)), Brute(), 3)
    assert ranking.results == ()
    assert ranking.last.status is Status.INFEASIBLE


def test_graphs_that_the_problem_forbids_stay_forbidden() -> None:
    problem = named(gaussian(5, 4))
    best = require_tree(k_best(problem, Brute(), k=1).best)
    rest = named(gaussian(5, 4), Constraints(forbidden_graphs=frozenset({best.edge_sets})))
    ranking = agree(rest, ClutterCuts(), 3)
    assert [score_of(result) for result in ranking.results] == pytest.approx(true_scores(problem)[1:4])


def test_auto_selects_a_backend_that_can_forbid_graphs() -> None:
    ranking = k_best(random_problem(3, 7), k=2)
    backend = REGISTRY[ranking.last.backend]
    assert backend.capabilities.exact
    assert ProblemFeature.FORBIDDEN_GRAPHS in backend.capabilities.features


# Refusals.


@pytest.mark.parametrize(
    "wanted", [{}, {"k": 0}, {"within": -1.0}, {"within": float("nan")}, {"within": inf}]
)
def test_numbers_of_trees_out_of_range_are_refused(wanted: dict[str, Any]) -> None:
    with pytest.raises(ChoiceError, match=r"k is 0|within|give k"):
        k_best(named(gaussian(0, 3)), Brute(), **wanted)


def test_a_backend_that_cannot_forbid_graphs_is_refused_and_those_that_can_are_named() -> None:
    with pytest.raises(RefusedError) as refusal:
        k_best(named(gaussian(0, 3)), REGISTRY["search"], k=2)
    assert all(word in str(refusal.value) for word in ("forbidden_graphs", "brute", "clutter"))
    with pytest.raises(RefusedError, match="about 12 variables"):
        k_best(random_problem(3, 13), REGISTRY["dp"], k=2)
    with pytest.raises(RefusedError, match="at most 5 variables"):
        k_best(named(gaussian(0, 6)), Brute(), k=2)


def test_a_certificate_of_several_trees_is_refused() -> None:
    with pytest.raises(ChoiceError, match="certificate"):
        k_best(named(gaussian(0, 3)), ClutterCuts(certificate="proof.json"), k=2)


def test_too_little_memory_is_refused() -> None:
    with pytest.raises(LimitError, match="memory limit"):
        k_best(named(gaussian(0, 3)), ClutterCuts(), Run(Limits(memory=1000)), k=2)


def test_tables_for_the_next_tree_count_once() -> None:
    problem, other = (named(gaussian(seed, 10)).with_treewidth(2) for seed in (1, 2))
    backend, found = DynamicProgramming(), k_best(problem, DynamicProgramming(), k=2)
    graphs = {require_tree(result).edge_sets for result in found.results}
    needs = [backend.estimate(without(one, graphs), Limits()).memory for one in (problem, other)]
    assert needs[1] - needs[0] > 10**7


def test_threads_rank_trees_at_once() -> None:
    problems = [named(gaussian(seed, 7)).with_treewidth(2) for seed in range(4)]

    def scores(problem: Problem) -> list[float]:
        return [score_of(result) for result in k_best(problem, DynamicProgramming(), k=6).results]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(scores, 4 * problems)) == 4 * [scores(problem) for problem in problems]


# Ends.


@pytest.mark.parametrize("after", [1, 3])
def test_an_interrupt_keeps_the_trees_so_far(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = signal.getsignal(signal.SIGINT)
    problem = named(gaussian(2, 5))
    original, starts = Brute.solve, [0]

    def solve(self: Brute, *arguments: Any) -> Any:
        starts[0] += 1
        return original(self, *arguments)

    def interrupt(**_: object) -> None:
        if starts[0] == after and signal.getsignal(signal.SIGINT) is not handler:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Brute, "solve", solve)
    ranking = k_best(problem, Brute(), ReportingRun(interrupt), k=20)
    assert signal.getsignal(signal.SIGINT) is handler
    assert ranking.stop is Stop.INTERRUPTED
    assert len(ranking.results) == after
    assert ranking.proved == after - 1
    assert not ranking.complete
    assert ranking.bound >= true_scores(problem)[after - 1] - 1e-9
    assert check_ranking(problem, ranking) == ()


def test_a_time_limit_that_is_over_leaves_the_trees_so_far() -> None:
    problem = named(gaussian(2, 5))
    ranking = k_best(problem, ClutterCuts(), Run(Limits(time=1e-9)), k=5)
    assert ranking.stop is Stop.TIME
    assert not ranking.complete
    assert ranking.proved == 0
    assert check_ranking(problem, ranking) == ()


def test_an_interrupt_between_two_solves_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []
    original = ClutterCuts.solve

    def solve(self: ClutterCuts, *arguments: Any) -> Any:
        outcome = original(self, *arguments)
        ends.append(1)
        if len(ends) == 2:
            signal.raise_signal(signal.SIGTERM)
        return outcome

    monkeypatch.setattr(ClutterCuts, "solve", solve)
    ranking = k_best(named(gaussian(2, 4)), ClutterCuts(), k=5)
    assert (ranking.stop, len(ranking.results), ranking.proved) == (Stop.INTERRUPTED, 2, 2)
    assert not ranking.complete


def test_memory_for_the_first_trees_only_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ClutterCuts.solve

    def solve(self: ClutterCuts, problem: Problem, *arguments: Any) -> Any:
        if len(problem.constraints.forbidden_graphs) == 2:
            raise LimitError("no memory")
        return original(self, problem, *arguments)

    monkeypatch.setattr(ClutterCuts, "solve", solve)
    problem = named(gaussian(2, 4))
    ranking = k_best(problem, ClutterCuts(), k=5)
    assert (ranking.stop, len(ranking.results), ranking.proved) == (Stop.MEMORY, 2, 2)
    assert not ranking.complete
    assert check_ranking(problem, ranking) == ()


def test_trees_without_proof_are_kept_and_not_called_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Brute.solve

    def solve(self: Brute, *arguments: Any) -> Any:
        return replace(original(self, *arguments), bound=inf)

    monkeypatch.setattr(Brute, "solve", solve)
    problem = named(gaussian(2, 4))
    ranking = k_best(problem, Brute(), k=3)
    assert [score_of(result) for result in ranking.results] == pytest.approx(true_scores(problem)[:3])
    assert (ranking.proved, ranking.complete, ranking.stop) == (0, False, Stop.FINISHED)
    assert check_ranking(problem, ranking) == ()


# Documents.


def ranked() -> tuple[Problem, Ranking]:
    problem = named(gaussian(2, 4), Constraints(max_treewidth=2))
    return problem, k_best(problem, Brute(), k=4, within=5.0)


def test_written_files_are_read_again(tmp_path: Path) -> None:
    problem, ranking = ranked()
    path = tmp_path / "results.json"
    path.write_bytes(ranking_to_json(ranking))
    document = read_ranking(path)
    assert document == ranking_to_document(ranking)
    assert check_ranking(problem, document) == ()
    jsonschema.validate(json.loads(path.read_bytes()), schemas.RANKING)


def test_the_committed_schema_is_the_one_of_the_code() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == indented_json(schemas.RANKING) + "\n"


@pytest.mark.parametrize(
    ("change", "place", "reason"),
    [
        ({"format": "jtsolve-result"}, "$.format", 'not "jtsolve-results"'),
        ({"version": 2}, "$.version", "not 1"),
        ({"k": 0}, "$.k", ">= 1"),
        ({"within": -1.0}, "$.within", ">= 0"),
        ({"proved": None}, "$.proved", "expected 'int"),
        ({"extra": 1}, "$", "unknown field"),
        ({"seconds": {}}, "$.seconds", "'total' is missing"),
    ],
)
def test_values_outside_the_format_are_refused(
    change: dict[str, Any], place: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({**json.loads(ranking_to_json(ranked()[1])), **change}))
    with pytest.raises(InputError, match=r"results\.json") as error:
        read_ranking(path)
    assert error.value.place == place
    assert reason in error.value.reason


def test_a_result_within_lacks_its_seconds(tmp_path: Path) -> None:
    plain = json.loads(ranking_to_json(ranked()[1]))
    del plain["results"][1]["seconds"]["total"]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(plain))
    with pytest.raises(InputError, match=r"\$\.results\[1\]\.seconds"):
        read_ranking(path)


def test_a_ranking_lists_trees(tmp_path: Path) -> None:
    plain = json.loads(ranking_to_json(ranked()[1]))
    plain["results"][1]["score"] = None
    path = tmp_path / "results.json"
    path.write_text(json.dumps(plain))
    with pytest.raises(InputError, match=r"\$\.results\[1\]\.score"):
        read_ranking(path)


# The check.


def changed(document: RankingDocument, **change: Any) -> RankingDocument:
    return msgspec.structs.replace(document, **change)


def faults_of(**change: Any) -> tuple[str, ...]:
    problem, ranking = ranked()
    return check_ranking(problem, changed(ranking_to_document(ranking), **change))


def test_claims_that_do_not_follow_are_faults() -> None:
    problem, ranking = ranked()
    document = ranking_to_document(ranking)
    first, *others = document.results
    assert document.bound is not None
    twice = [first, first, *others[1:]]
    weaker = [msgspec.structs.replace(first, score=None, status=Status.UNKNOWN), *others]
    bad: list[tuple[dict[str, Any], str]] = [
        ({"k": 3}, "at most 3 were requested"),
        ({"within": 1e-3}, "nats below the first, not within 0.001"),
        ({"proved": 2}, "claims 2 proved results, but the first 4"),
        ({"complete": False}, "claims complete = False"),
        ({"bound": document.bound + 5}, "above that of a result"),
        ({"seconds": {"total": 0.0}}, "end before a result"),
        ({"seconds": {}}, "lack 'total'"),
        ({"results": [others[0], first, *others[1:]]}, "more than the bound of the one before"),
        ({"results": weaker}, "Result 1 has no tree"),
        ({"results": others}, "claims complete = True"),
        ({"results": twice}, "Result 2 was not made with the graphs of those before it forbidden"),
        ({"instance": msgspec.structs.replace(document.instance, digest="x")}, "not for this problem"),
        ({"instance": msgspec.structs.replace(document.instance, name="x")}, "not for this problem"),
    ]
    for change, sentence in bad:
        faults = check_ranking(problem, changed(document, **change))
        assert any(sentence in fault for fault in faults), (change, faults)


def test_constraints_are_those_of_the_problem_and_the_graphs_before() -> None:
    _, ranking = ranked()
    document = ranking_to_document(ranking)
    constraints = document.instance.constraints
    for other, sentence in (
        (msgspec.structs.replace(constraints, max_treewidth=3), "Result 1 was not made with"),
        (msgspec.structs.replace(constraints, forbidden_edges=[("A", "X")]), "cannot be read"),
    ):
        faults = faults_of(instance=msgspec.structs.replace(document.instance, constraints=other))
        assert any(sentence in fault for fault in faults)


def test_a_wrong_score_within_is_named_with_its_rank() -> None:
    document = ranking_to_document(ranked()[1])
    wrong = msgspec.structs.replace(document.results[2], cliques=document.results[1].cliques)
    faults = faults_of(results=[*document.results[:2], wrong, document.results[3]])
    assert faults
    assert any(fault.startswith("Result 3: ") for fault in faults)


def test_graphs_of_large_scores_leave_room_for_multipliers() -> None:
    # The room for multipliers once left none here, and the bound did not fall.
    ranking = k_best(random_problem(3, 7), ClutterCuts(), Run(Limits(time=600)), k=2)
    assert (ranking.proved, ranking.complete) == (2, True)
