"""Files of the best trees: `jtsolve-results`, version 1."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from jtsolve.core.files import read_file
from jtsolve.core.result import Stop
from jtsolve.errors import InputError
from jtsolve.io.constraints import constraints_to_document
from jtsolve.io.documents import decode_json, json_bytes
from jtsolve.io.result import BackendReference, InstanceReference, ResultDocument, plain_result, require_total

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.core.ranking import Ranking


FORMAT = "jtsolve-results"
VERSION = 1


class RankingDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A jtsolve results file, version 1: the best trees in order.

    Each entry of `results` is a complete result document; its constraints are those of `instance`, plus the
    graphs of the earlier trees as `forbidden_graphs`. The first `proved` results are proved to be the best.
    No other tree scores more than `bound`, in nats; null if no other exists. `complete` means that the
    results are proved to be all trees requested: the `k` best, or those within `within` nats of the best.
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


def ranking_to_json(ranking: Ranking) -> bytes:
    """Returns the ranking as JSON in UTF-8, with keys in a fixed order."""
    return json_bytes(_plain(ranking))


def ranking_to_document(ranking: Ranking) -> RankingDocument:
    """Returns the document that `read_ranking` would return."""
    return msgspec.convert(_plain(ranking), RankingDocument)


def read_ranking(path: str | Path) -> RankingDocument:
    """Returns the results in a file, unverified; see `check_ranking`.

    Raises:
        InputError: the file cannot be read or violates the format; names the place.
    """
    document = decode_json(read_file(path), RankingDocument, str(path))
    require_total(document.seconds, str(path), "$")
    for i, result in enumerate(document.results):
        require_total(result.seconds, str(path), f"$.results[{i}]")
        if result.score is None:
            raise InputError(
                str(path), f"$.results[{i}].score", "null; a ranking lists trees", "write its score"
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
