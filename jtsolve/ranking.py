"""The best trees of a problem in order: what `k_best` returns, and the jtsolve-results document."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from jtsolve.documents import constraints_to_document, decode, lay_out
from jtsolve.errors import InputError
from jtsolve.files import read_file
from jtsolve.result import (
    BackendReference,
    InstanceReference,
    Result,
    ResultDocument,
    Status,
    Stop,
    plain_result,
)

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.problem import Constraints


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best trees of a problem, found one after the other.

    Args:
        results: one a tree, in the order found. Each is for the problem in which the graphs of the trees
            before it are forbidden, and its seconds are counted from the start of the first.
        last: of the last solve: the last of `results`, or one without a tree or with one beyond the gap.
        constraints: of the problem.
        stop: why the work ended.
        k: no more than so many trees were asked for; None for no limit.
        within: no trees were asked for that score lower than the best by more than this, in nats; or None.
    """

    results: tuple[Result, ...]
    last: Result
    constraints: Constraints
    stop: Stop
    k: int | None = None
    within: float | None = None

    @property
    def bound(self) -> float:
        """No other tree scores more, in nats; -inf if there is no other."""
        return min(result.bound for result in (*self.results, self.last))

    @property
    def proved(self) -> int:
        """How many of the first trees are proved to be the best ones, in order, to 10^-6 nats each."""
        return sum(1 for _ in takewhile(lambda result: result.status is Status.OPTIMAL, self.results))

    @property
    def exhausted(self) -> bool:
        """Whether it is proved that no other tree is left, or none within the gap."""
        if self.within is None or not self.results:
            return self.bound == -inf
        return self.bound < score_of(self.results[0]) - self.within

    @property
    def complete(self) -> bool:
        """Whether it is proved that these are the trees that were asked for."""
        return self.proved == len(self.results) and (len(self.results) == self.k or self.exhausted)


def score_of(result: Result) -> float:
    """Returns the score, in nats, of a result that has a tree."""
    assert result.score is not None, "asked of results with a tree only"
    return result.score


FORMAT = "jtsolve-results"
VERSION = 1


class RankingDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A jtsolve results file, version 1: the best trees in order.

    Each entry of `results` is a result document of its own; its constraints are those of `instance`, and the
    graphs of the trees before it as `forbidden_graphs`. The first `proved` of them are proved to be the best.
    No other tree scores more than `bound`, in nats; null if there is none. `complete` tells whether these are
    proved to be all the trees asked for: the `k` best, or those within so many nats of the best.
    """

    format: Literal["jtsolve-results"]
    version: Literal[1]
    instance: InstanceReference
    backend: BackendReference
    k: Annotated[int, msgspec.Meta(ge=1)] | None
    within: Annotated[float, msgspec.Meta(ge=0)] | None
    stop: Stop
    proved: Annotated[int, msgspec.Meta(ge=0)]
    complete: bool
    bound: float | None
    seconds: dict[str, float]
    results: list[ResultDocument]


def ranking_schema() -> dict[str, Any]:
    """Returns the JSON Schema of results files; docs/schema/results.schema.json is a copy."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **msgspec.json.schema(RankingDocument),
    }


def ranking_to_json(ranking: Ranking) -> bytes:
    """Returns the ranking as a JSON text, UTF-8, keys in a fixed order."""
    return (lay_out(_plain(ranking)) + "\n").encode()


def ranking_to_document(ranking: Ranking) -> RankingDocument:
    """Returns the ranking as `read_ranking` would, from a file of it."""
    return msgspec.convert(_plain(ranking), RankingDocument)


def read_ranking(path: str | Path) -> RankingDocument:
    """Returns the results in a file; what it says is not verified: `check_ranking` does that.

    Raises:
        InputError: the file cannot be read, or is not what the format asks for; names the place.
    """
    document = decode(read_file(path), RankingDocument, str(path))
    places = {"$": document.seconds} | {
        f"$.results[{i}]": result.seconds for i, result in enumerate(document.results)
    }
    for place, seconds in places.items():
        if "total" not in seconds:
            raise InputError(
                str(path),
                f"{place}.seconds",
                "the key 'total' is missing",
                "add the seconds from start to end",
            )
    return document


def _plain(ranking: Ranking) -> dict[str, Any]:
    """Returns the ranking as JSON values."""
    last = plain_result(ranking.last)
    return {
        "format": FORMAT,
        "version": VERSION,
        "instance": last["instance"]
        | {"constraints": constraints_to_document(ranking.constraints, ranking.last.names)},
        "backend": last["backend"],
        "k": ranking.k,
        "within": ranking.within,
        "stop": ranking.stop.value,
        "proved": ranking.proved,
        "complete": ranking.complete,
        "bound": None if ranking.bound == -inf else ranking.bound,
        "seconds": {"total": last["seconds"]["total"]},
        "results": [plain_result(result) for result in ranking.results],
    }
