"""Summaries of results, rankings and posteriors for people."""

import sys
from collections.abc import Mapping
from json import dumps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.io.ranking import RankingDocument
    from jtsolve.io.result import ResultDocument


_MOST = 20
"""Cliques and separators of a posterior that are shown."""
_LEAST = 0.0005


def result_text(document: "ResultDocument", source: str, facts: Mapping[str, str]) -> str:
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
    text = _head(document.instance.name, lines)
    if document.results:
        text += ["", _ranks(document, source), *_drawn(document.results[0], source)]
    return "\n".join(text)


def _ranks(document: "RankingDocument", source: str) -> str:
    """Returns a line per tree: rank, score, distance to the best, status, and the edges that differ."""
    from itertools import combinations

    from jtsolve.io.result import tree_of
    from jtsolve.listing import table

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


def describe_posterior(posterior: "GraphPosterior") -> str:
    """Returns the facts of a posterior, one per line, then its edges, cliques and separators."""
    from jtsolve.io.documents import names_of
    from jtsolve.listing import table

    def printable(names: list[str]) -> str:
        return "{" + ", ".join(names) + "}"

    bounds = posterior.intervals

    def figure(name: str, value: float | None, digits: int, unit: str = "") -> str:
        """Returns a figure, or the interval that certified sums prove for it."""
        if bounds is None:
            return "not known" if value is None else f"{value:.{digits}f}{unit}"
        low, high = getattr(bounds, name)
        return f"{low:.{digits}f} to {high:.{digits}f}{unit}"

    status = "converged" if posterior.converged else "NOT CONVERGED: these figures must not be used"
    if bounds is not None:
        present, absent, others = bounds.decided
        decided = f"{present} above 0.99, {absent} below 0.01, {others} open"
        status = f"every edge to ± {bounds.width / 2:.2g}; {decided}"
    edges = figure("expected_edges", posterior.expected_edges, 2)
    facts = {
        "method": f"{posterior.method}; {status}",
        "evidence": figure("log_evidence", posterior.log_evidence, 6, " nats"),
        "prior": ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in posterior.prior.items()),
        "connected": figure("connected", posterior.connected, 4),
        "edges": f"{edges} expected, {len(posterior.median_graph)} likelier than not",
        "time": f"{posterior.seconds['total']:.3g} s",
    }
    for heading, name in (("treewidth", "treewidth"), ("sizes", "edges_in_graph")):
        if name in posterior.diagnostics:
            facts[heading] = _distribution(posterior.diagnostics, name)
    if (strengths := posterior.bootstrap) is not None:
        facts["bootstrap"] = (
            f"{strengths.resamples} of {strengths.wanted} resamples, trees by {strengths.backend}, "
            f"{strengths.optimal} of them optimal"
        )
    if "remark" in posterior.diagnostics:
        facts["remark"] = str(posterior.diagnostics["remark"])
    lines = _head(posterior.instance, facts)
    best = set() if posterior.best is None else set(posterior.best.graph_edges)
    pairs = [(u, v) for u in range(posterior.n) for v in range(u + 1, posterior.n)]
    pairs = [pair for pair in pairs if posterior.edges[pair] >= posterior.threshold]
    pairs.sort(key=lambda pair: -posterior.edges[pair])
    columns = {
        "probability": [f"{posterior.edges[pair]:.4f}" for pair in pairs],
        "edge": [f"{posterior.names[u]}–{posterior.names[v]}" for u, v in pairs],
        "best tree": ["*" * (pair in best) for pair in pairs],
    }
    if posterior.traces is not None:
        columns["error"] = [f"{posterior.traces.errors[pair]:.4f}" for pair in pairs]
    if bounds is not None:
        columns["least"], columns["most"] = (
            [f"{matrix[pair]:.4f}" for pair in pairs] for matrix in (bounds.low, bounds.high)
        )
    if strengths is not None:
        columns["bootstrap"] = [f"{strengths.edges[pair]:.3f}" for pair in pairs]
    lines += ["", table(list(columns), list(map(list, zip(*columns.values(), strict=True))))]
    for heading, what in (("probability", "clique"), ("expected", "separator")):
        listed = getattr(posterior, f"{what}s")
        own = set() if posterior.best is None else set(getattr(posterior.best, f"{what}s"))
        ends = None if bounds is None else getattr(bounds, f"{what}s")
        rows = [
            [f"{value:.4f}", printable(names_of(mask, posterior.names)), "*" * (mask in own)]
            for mask, value in listed[:_MOST]
        ]
        headings = [heading, what, "best tree"]
        if ends is not None:
            headings += ["least", "most"]
            rows = [[*row, f"{low:.4f}", f"{high:.4f}"] for row, (low, high) in zip(rows, ends, strict=False)]
        lines += ["", table(headings, rows)]
        if len(listed) > _MOST:
            lines.append(f"and {len(listed) - _MOST} more")
    return "\n".join(lines)


def _distribution(diagnostics: "Mapping[str, Any]", name: str) -> str:
    """Returns the probabilities of numbers in words, and the largest of their errors if they are drawn."""
    shares = [f"{k}: {p:.3f}" for k, p in enumerate(diagnostics[name]) if p >= _LEAST]
    error = max(diagnostics.get(f"{name}_errors", [0.0]))
    return ", ".join(shares) + (f" (each ± {error:.3f} or less)" if error else "")


def _head(name: str, lines: Mapping[str, str]) -> list[str]:
    """Returns the name and the facts, one per line."""
    name = name or "(without a name)"
    shown = [_printable(name)]
    for heading, fact in lines.items():
        shown += _wrapped(f"  {heading:<10} {fact}")
    return shown


def _wrapped(line: str) -> list[str]:
    """Returns a line wrapped between words, on a terminal."""
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
    "lost": "the scheduler of the workers was lost",
}


def _nats(value: float | None) -> str:
    return "none" if value is None else f"{value:.6f} nats"


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"  # noqa: PLR2004 - three digits
