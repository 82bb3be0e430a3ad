"""Results and rankings as text for people."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from jtsolve.core.result import gap_in_words
from jtsolve.draw.text import tree_text
from jtsolve.io.result import tree_of
from jtsolve.listing import headed, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jtsolve.io.ranking import RankingDocument
    from jtsolve.io.result import ResultDocument

_STOPS = {
    "finished": "finished",
    "time": "the time limit ended the run",
    "memory": "the memory limit ended the run",
    "steps": "the step limit ended the run",
    "interrupted": "interrupted",
    "lost": "the scheduler of the workers was lost",
}


def result_text(document: ResultDocument, source: str, facts: Mapping[str, str]) -> str:
    """Returns the facts of a result, one per line, and the tree.

    Args:
        document: the result.
        source: of the document, for messages.
        facts: further lines by heading.

    Raises:
        InputError: the cliques do not form a junction tree.
    """
    lines = {
        "status": f"{document.status.value} ({_STOPS[document.stop.value]})",
        "score": _nats(document.score),
        "bound": _nats(document.bound),
        "gap": gap_in_words(document.gap, document.score, document.stats),
        "treewidth": "none" if document.treewidth is None else str(document.treewidth),
        "time": _seconds(document.seconds["total"]),
        **facts,
    }
    if document.status.value == "infeasible":
        lines["reason"] = "'jtsolve explain' names the constraints in conflict"
    return "\n".join([*headed(document.instance.name, lines), *_drawn(document, source)])


def describe_ranking(document: RankingDocument, source: str, facts: Mapping[str, str]) -> str:
    """Returns the facts of a ranking, a line per tree with its changed edges, and the best tree.

    Args:
        document: the results.
        source: of the document, for messages.
        facts: further lines by heading.

    Raises:
        InputError: the cliques of a result do not form a junction tree.
    """
    requested = "all trees" if document.k is None else f"the best {document.k}"
    if document.within is not None:
        requested += f" within {document.within:g} nats of the best"
    found = len(document.results)
    progress = "complete" if document.complete else f"the first {document.proved} proved"
    lines = {
        "requested": requested,
        "found": f"{found} ({progress}; {_STOPS[document.stop.value]})",
        "others": "there are none" if document.bound is None else f"score at most {_nats(document.bound)}",
        "time": _seconds(document.seconds["total"]),
        **facts,
    }
    text = headed(document.instance.name, lines)
    if document.results:
        text += ["", _ranks(document, source), *_drawn(document.results[0], source)]
    return "\n".join(text)


def _ranks(document: RankingDocument, source: str) -> str:
    """Returns a line per tree: rank, score, distance to the best, status, and the edges that differ."""
    rows = []
    best: set[tuple[str, ...]] = set()
    for rank, result in enumerate(document.results, 1):
        tree_of(result, source)  # raises if it is no junction tree
        edges = {tuple(sorted(pair)) for clique in result.cliques for pair in combinations(clique, 2)}
        best = edges if rank == 1 else best
        changes = [f"{'+' if edge in edges else '-'}{edge[0]}–{edge[1]}" for edge in sorted(edges ^ best)]
        below = (document.results[0].score or 0.0) - (result.score or 0.0)
        rows.append([rank, f"{result.score:.6f}", f"{below:.4g}", result.status.value, " ".join(changes)])
    return table(["rank", "score", "below best", "status", "edges that differ from the best tree's"], rows)


def _drawn(document: ResultDocument, source: str) -> list[str]:
    """Returns a blank line and the tree, if there is one."""
    return ["", tree_text(*tree_of(document, source))] if document.cliques else []


def _nats(value: float | None) -> str:
    return "none" if value is None else f"{value:.6f} nats"


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"  # noqa: PLR2004 - three digits
