"""An independent check of the k best trees: each result by `check`, then their order and bounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING

from jtsolve.core.ranking import Ranking
from jtsolve.core.result import Status, optimality_tolerance
from jtsolve.errors import InputError
from jtsolve.io.ranking import RankingDocument, ranking_to_document
from jtsolve.verify.constraints import contradictions, declared_constraints, edges_of_result
from jtsolve.verify.result import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jtsolve.core.problem import Problem


def check_ranking(problem: Problem, ranking: Ranking | RankingDocument) -> tuple[str, ...]:
    """Returns every fault of a ranking as one sentence.

    Every tree and score is verified in full. A certificate (`jtsolve.verify.certificate`) must prove the
    bound on trees that are not listed.
    """
    if isinstance(ranking, Ranking):
        ranking = ranking_to_document(ranking)
    if ranking.instance.name != problem.name or ranking.instance.digest != problem.digest():
        return ("The results are not for this problem: its name or digest differs.",)
    faults = [
        f"Result {number}: {fault}"
        for number, result in enumerate(ranking.results, 1)
        for fault in check(problem, result)
    ]
    faults.extend(_claims(ranking))
    if faults:
        return tuple(faults)
    try:
        return tuple(_sequence(problem, ranking))
    except InputError as error:
        return (f"The constraints cannot be read: {error}",)


def _sequence(problem: Problem, ranking: RankingDocument) -> Iterator[str]:
    """Checks that every result forbids exactly the graphs of those before it, besides the constraints."""
    expected = declared_constraints(problem, ranking)
    if not ranking.results:
        yield from contradictions(problem.constraints, expected, found=False)
    for number, result in enumerate(ranking.results, 1):
        if declared_constraints(problem, result) != expected:
            yield f"Result {number} was not made with the graphs of those before it forbidden, and no others."
        graphs = expected.forbidden_graphs | {edges_of_result(problem, result)}
        expected = replace(expected, forbidden_graphs=graphs)


def _claims(ranking: RankingDocument) -> Iterator[str]:
    """Checks the number of results, their scores and bounds, and the claimed proofs."""
    scores = [-inf if result.score is None else result.score for result in ranking.results]
    bounds = [inf if result.bound is None else result.bound for result in ranking.results]
    bound = -inf if ranking.bound is None else ranking.bound
    if ranking.k is not None and len(scores) > ranking.k:
        yield f"There are {len(scores)} results, but at most {ranking.k} were requested."
    for number, score in enumerate(scores, 1):
        if score == -inf:
            yield f"Result {number} has no tree."
        elif ranking.within is not None and score < scores[0] - ranking.within - optimality_tolerance(
            scores[0]
        ):
            yield f"Result {number} is {scores[0] - score} nats below the first, not within {ranking.within}."
    proved = sum(1 for _ in takewhile(lambda result: result.status is Status.OPTIMAL, ranking.results))
    if ranking.proved != proved:
        yield f"The ranking claims {ranking.proved} proved results, but the first {proved} are optimal."
    for number in range(1, len(scores)):
        if scores[number] > bounds[number - 1]:
            yield f"Result {number + 1} scores more than the bound of the one before it."
    if bound > min(bounds, default=inf):
        yield "The bound on other trees is above that of a result."
    gap_closed = ranking.within is not None and bool(scores) and bound < scores[0] - ranking.within
    complete = len(scores) == ranking.k or bound == -inf or gap_closed
    if ranking.complete != (complete and proved == len(scores)):
        yield f"The ranking claims complete = {ranking.complete}, which does not follow from its results."
    latest = max((result.seconds.get("total", inf) for result in ranking.results), default=0.0)
    if not latest <= ranking.seconds.get("total", -inf) < inf:
        yield "The seconds lack 'total', or end before a result."
