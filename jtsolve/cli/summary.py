"""Summaries of results and rankings for people."""

import sys
from collections.abc import Mapping
from json import dumps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jtsolve.io.ranking import RankingDocument
    from jtsolve.io.result import ResultDocument


def describe(document: "ResultDocument", source: str, facts: Mapping[str, str]) -> str:
    """Returns the facts of a result, one per line, and the tree.

    Args:
        document: the result.
        source: of the document, for messages.
        facts: further lines by heading.

    Raises:
        InputError: the cliques do not form a junction tree.
    """
    from jtsolve.core.result import gap_in_words

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
    return "\n".join([*_head(document.instance.name, lines), *_drawn(document, source)])


def describe_ranking(document: "RankingDocument", source: str, facts: Mapping[str, str]) -> str:
    """Returns the facts of a ranking, a line per tree with its changed edges, and the best tree.

    Args:
        document: the results.
        source: of the document, for messages.
        facts: further lines by heading.

    Raises:
        InputError: the cliques of a result do not form a junction tree.
    """
    wanted = "all trees" if document.k is None else f"the best {document.k}"
    if document.within is not None:
        wanted += f" within {document.within:g} nats of the best"
    found = len(document.results)
    known = "complete" if document.complete else f"the first {document.proved} proved"
    lines = {
        "asked for": wanted,
        "found": f"{found} ({known}; {_STOPS[document.stop.value]})",
        "others": "there are none" if document.bound is None else f"score at most {_nats(document.bound)}",
        "time": _seconds(document.seconds["total"]),
        **facts,
    }
    text = _head(document.instance.name, lines)
    if document.results:
        text += [
            "",
            f"  {'rank':>4} {'score':>16} {'below best':>11}  status    edges beside the best tree's",
        ]
        text += _ranks(document, source)
        text += _drawn(document.results[0], source)
    return "\n".join(text)


def _ranks(document: "RankingDocument", source: str) -> list[str]:
    """Returns a line per tree: rank, score, distance to the best, status, and the edges that differ."""
    from itertools import combinations

    from jtsolve.io.result import tree_of

    lines = []
    best: set[tuple[str, ...]] = set()
    for rank, result in enumerate(document.results, 1):
        tree_of(result, source)  # raises if it is no junction tree
        edges = {tuple(sorted(pair)) for clique in result.cliques for pair in combinations(clique, 2)}
        best = edges if rank == 1 else best
        changes = [
            f"{'+' if edge in edges else '-'}{_printable(edge[0])}–{_printable(edge[1])}"
            for edge in sorted(edges ^ best)
        ]
        below = (document.results[0].score or 0.0) - (result.score or 0.0)
        line = f"  {rank:>4} {result.score:>16.6f} {below:>11.4g}  {result.status.value:<8}"
        lines.append(f"{line}  {' '.join(changes)}".rstrip())
    return lines


def _head(name: str, lines: Mapping[str, str]) -> list[str]:
    """Returns the name and the facts, one per line."""
    name = name or "(without a name)"
    shown = [_printable(name)]
    for heading, fact in lines.items():
        shown += _wrapped(f"  {heading:<10} {fact}")
    return shown


def _wrapped(line: str) -> list[str]:
    """Returns a line in pieces for a terminal, where it would be cut within words."""
    from shutil import get_terminal_size
    from textwrap import wrap

    if sys.stdout is None or not sys.stdout.isatty():
        return [line]
    width = max(40, get_terminal_size().columns - 1)
    return wrap(line, width, subsequent_indent=" " * 13, break_long_words=False, break_on_hyphens=False)


def _printable(name: str) -> str:
    """Returns a name with control characters escaped."""
    return name if name.isprintable() else dumps(name)


def _drawn(document: "ResultDocument", source: str) -> list[str]:
    """Returns a blank line and the tree, if there is one."""
    if not document.cliques:
        return []
    from jtsolve.draw.text import tree_text
    from jtsolve.io.result import tree_of

    return ["", tree_text(*tree_of(document, source))]


_STOPS = {
    "finished": "finished",
    "time": "the time limit ended the run",
    "memory": "the memory limit ended the run",
    "steps": "the step limit ended the run",
    "interrupted": "interrupted",
    "lost": "the scheduler of the workers went away",
}


def _nats(value: float | None) -> str:
    return "none" if value is None else f"{value:.6f} nats"


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"  # noqa: PLR2004 - three digits
