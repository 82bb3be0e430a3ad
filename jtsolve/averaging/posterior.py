"""The posterior over decomposable graphs, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from math import exp, isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jtsolve.averaging.document import posterior_to_json, read_posterior
from jtsolve.core.files import write_atomically
from jtsolve.core.formats import POSTERIOR, RASTER
from jtsolve.core.varset import VarSet, members
from jtsolve.errors import ChoiceError, no_such, use_one_of
from jtsolve.io.documents import names_of
from jtsolve.listing import headed, table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.averaging.parts import Intervals, Strengths, Traces
    from jtsolve.core.tree import JunctionTree

_MOST = 20
"""Cliques and separators that a text shows."""
_LEAST = 0.0005
"""Least probability of a number that a text shows."""

PICTURES = ("heat-map", "graph", "cliques", "traces")

ROUNDING = 1e-6
"""Tolerance of exact sums for the range of probabilities and for identities."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphPosterior:
    """Probabilities of edges, cliques and separators, averaged over all decomposable graphs of a problem.

    A graph has the probability e^score · prior / Z; each graph counts once, however many junction trees it
    has.

    Args:
        instance: the problem's name.
        digest: the problem's digest.
        names: the variables' names.
        log_evidence: ln Z in nats, where Z is the sum of e^score times prior weight over the graphs that
            meet the constraints; None if the method does not compute it.
        edges: shape (n, n): the probability of each edge; symmetric, 0 on the diagonal.
        cliques: the most probable maximal cliques with their probabilities, in decreasing order.
        separators: sets with their expected multiplicities as separators of the junction tree, in decreasing
            order; ∅ separates components.
        connected: the probability that the graph is connected.
        method: "exact" sums, "certified" intervals, or "chains".
        converged: whether the figures may be used: always for exact sums; for chains, if they agree.
            Intervals hold in any case, and have converged if none is wider than the tolerance.
        threshold: cliques and separators of a smaller probability or expectation are not listed.
        prior: the prior over graphs, in words and figures.
        best: the tree of the highest score, or None if there was no search.
        traces: the traces of the chains, and the accuracy of each edge; None for sums.
        bootstrap: strengths of edges in resampled data, or None.
        intervals: bounds of certified sums, whose other figures are midpoints; None for other methods.
        diagnostics: further figures, as JSON values.
        seconds: seconds of wall clock: "total" and its parts.
        environment: versions and machine.

    Raises:
        ValueError: the parts contradict each other.
    """

    instance: str
    digest: str
    names: tuple[str, ...]
    log_evidence: float | None
    edges: NDArray[np.float64]
    cliques: tuple[tuple[VarSet, float], ...]
    separators: tuple[tuple[VarSet, float], ...]
    connected: float
    method: Literal["exact", "certified", "chains"]
    converged: bool = True
    threshold: float = 0.01
    prior: Mapping[str, Any] = field(
        default_factory=lambda: MappingProxyType({"over": "graphs", "edge_odds": 1.0})
    )
    best: JunctionTree | None = None
    traces: Traces | None = None
    bootstrap: Strengths | None = None
    intervals: Intervals | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    seconds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    environment: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        n = len(self.names)
        edges = np.array(self.edges, dtype=np.float64)
        if edges.shape != (n, n):
            raise ValueError(f"{n} variables, but edge probabilities of shape {edges.shape}")
        if not (edges == edges.T).all():
            raise ValueError("the edge probabilities are not symmetric")
        if edges.diagonal().any():
            raise ValueError("a variable has an edge to itself")
        if self.method not in ("exact", "certified", "chains"):
            raise ValueError(f"there is no method '{self.method}'")
        if (self.method == "certified") != (self.intervals is not None):
            raise ValueError("certified sums, and no others, have intervals")
        if self.method == "exact" and not (self.converged and self.log_evidence is not None):
            raise ValueError("exact sums have converged, and compute the evidence")
        if self.log_evidence is not None and not isfinite(self.log_evidence):
            raise ValueError(f"the log evidence is {self.log_evidence}")
        probabilities = [*edges.flat, self.connected, *(p for _, p in self.cliques)]
        if not all(0 <= p <= 1 for p in probabilities):
            raise ValueError("a probability is not between 0 and 1")
        for listed, least in ((self.cliques, 1), (self.separators, 0)):
            values = [value for _, value in listed]
            if values != sorted(values, reverse=True) or not all(0 <= value <= n for value in values):
                raise ValueError("cliques and separators are listed in decreasing order, from n to 0")
            sets = [mask for mask, _ in listed]
            if len(set(sets)) < len(sets) or any(mask >> n or mask.bit_count() < least for mask in sets):
                raise ValueError("a listed set is listed twice, is empty, or holds an unknown variable")
        for mask, p in self.cliques:  # chains count cliques in some of the graphs only
            pairs = [float(edges[u, v]) for u in members(mask) for v in members(mask) if u < v]
            if self.method == "exact" and p > min(pairs, default=1.0) + ROUNDING:
                raise ValueError("a clique is likelier than one of its edges")
        shapes = [] if self.traces is None else [self.traces.errors.shape, self.traces.differences.shape]
        shapes += [] if self.bootstrap is None else [self.bootstrap.edges.shape]
        shapes += [] if self.intervals is None else [self.intervals.low.shape, self.intervals.high.shape]
        if any(shape != (n, n) for shape in shapes):
            raise ValueError(f"figures by edge of shapes {shapes} for {n} variables")
        if self.best is not None and self.best.n != n:
            raise ValueError(f"the best tree is over {self.best.n} variables, not {n}")
        edges.setflags(write=False)
        object.__setattr__(self, "edges", edges)

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.names)

    @property
    def warning(self) -> str | None:
        """Why the figures differ from the request, or None."""
        if self.converged:
            return None
        if self.intervals is None:
            return "the chains have not converged: their figures must not be used"
        _, _, undecided = self.intervals.decided
        return (
            f"the intervals hold, but one is {self.intervals.width:.2g} wide; {undecided} edges are open: "
            "more time or memory, a smaller treewidth, or chains may narrow them"
        )

    @property
    def expected_edges(self) -> float:
        """The expected number of edges."""
        return float(np.triu(self.edges).sum())

    def probability(self, score: float) -> tuple[float, float]:
        """Returns bounds on the probability of a graph.

        Args:
            score: ln of its weight, in nats: its score plus ln of the prior odds per edge.

        Raises:
            ChoiceError: the evidence is not known.
        """
        if self.log_evidence is None:
            raise ChoiceError("chains do not compute the evidence, which the probability of a graph needs")
        low, high = (self.log_evidence,) * 2 if self.intervals is None else self.intervals.log_evidence
        return min(1.0, exp(score - high)), min(1.0, exp(min(0.0, score - low)))

    def complete(self, names: Collection[str]) -> tuple[float, float]:
        """Returns bounds on the probability that all pairs of some variables are edges.

        Args:
            names: names of the variables.

        Raises:
            ChoiceError: a name is unknown, or the method does not estimate sets.
        """
        if unknown := sorted(set(names) - set(self.names)):
            raise ChoiceError(f"there is no variable '{unknown[0]}'; {use_one_of(unknown[0], self.names)}")
        at = sorted({self.names.index(name) for name in names})
        if len(at) < 2:  # noqa: PLR2004 - no pair
            return 1.0, 1.0
        if len(at) == 2:  # noqa: PLR2004 - an edge
            low, high = (
                (self.edges,) * 2 if self.intervals is None else (self.intervals.low, self.intervals.high)
            )
            return float(low[*at]), float(high[*at])
        if "complete" not in self.diagnostics:
            raise ChoiceError("chains count pairs and cliques only; use certified or exact sums")
        found = {tuple(row[0]): row[1:] for row in self.diagnostics["complete"]}
        rest = [0.0, max(self.threshold, self.diagnostics.get("total_variation", 0.0))]
        low, high = found.get(tuple(self.names[v] for v in at), rest)
        return low, high

    @property
    def median_graph(self) -> tuple[tuple[int, int], ...]:
        """The edges with a probability above 1/2: the graph with the fewest expected errors.

        It need not be chordal.
        """
        rows, columns = np.nonzero(np.triu(self.edges) > 0.5)  # noqa: PLR2004 - likelier than not
        return tuple(zip(rows.tolist(), columns.tolist(), strict=True))

    def __repr__(self) -> str:
        status = "" if self.converged else ", NOT CONVERGED"
        if self.intervals is not None:
            status = f", edges to ± {self.intervals.width / 2:.2g}"
        return f"GraphPosterior('{self.instance}': {self.n} variables, {self.method}{status})"

    def __str__(self) -> str:
        return _text(self)

    @classmethod
    def read(cls, path: str | Path) -> GraphPosterior:
        """Returns the posterior in a file.

        Raises:
            InputError: the file cannot be read, or violates the format.
        """
        return read_posterior(path, cls)

    def write(self, path: str | Path) -> None:
        """Writes the posterior to a file (.json), as `jtsolve average --output` does.

        Raises:
            ChoiceError: the name has another suffix.
            InputError: the file cannot be written.
        """
        POSTERIOR.format_to_write(path)
        write_atomically(path, posterior_to_json(self))

    def figure(self, picture: str = "heat-map") -> Any:
        """Returns a picture as a `matplotlib.figure.Figure`.

        Args:
            picture: "heat-map" of the edges, with those of the best tree ringed; "graph", with widths of
                edges by probability; "cliques", bars of the most probable cliques; "traces" of the chains.

        Raises:
            ChoiceError: the picture does not exist, or the method has no traces.
        """
        from jtsolve.averaging import pictures

        title = "" if self.converged or self.intervals is not None else "NOT CONVERGED"
        widths = (
            np.zeros_like(self.edges) if self.intervals is None else self.intervals.high - self.intervals.low
        )
        best = () if self.best is None else sorted(self.best.graph_edges)
        pairs = pictures.Pairs(self.names, self.edges, best, title, widths)
        if picture == "heat-map":
            return pictures.heat_map(pairs)
        if picture == "graph":
            return pictures.graph(pairs)
        if picture == "cliques":
            own = () if self.best is None else map(self._names, self.best.cliques)
            return pictures.clique_bars([(self._names(mask), p) for mask, p in self.cliques], own, title)
        if picture != "traces":
            raise ChoiceError(no_such("picture", picture, PICTURES))
        if self.traces is None:
            raise ChoiceError("sums have no traces; choose another picture: heat-map, graph, cliques")
        return self.traces.figure(self.names, title)

    def draw(self, path: str | Path, picture: str = "heat-map") -> None:
        """Writes a picture to a file (.svg, .png); see `figure`.

        Raises:
            ChoiceError: as in `figure`, or the suffix is not supported.
            InputError: the file cannot be written.
        """
        from jtsolve.averaging.pictures import render

        kind = RASTER.format_to_write(path)
        write_atomically(path, render(self.figure(picture), kind))

    def _repr_html_(self) -> str:
        from jtsolve.averaging.pictures import render

        lines = [repr(self), f"{self.expected_edges:.2f} edges expected; connected: {self.connected:.4f}"]
        picture = render(self.figure(), "svg").decode()
        text = "".join(f"<p>{escape(line)}</p>" for line in lines)
        return f"<div>{text}{picture[picture.index('<svg') :]}</div>"

    def _names(self, mask: VarSet) -> tuple[str, ...]:
        return tuple(self.names[v] for v in members(mask))


def _text(posterior: GraphPosterior) -> str:
    """Returns the facts of a posterior, one per line, then its edges, cliques and separators."""

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
    lines = headed(posterior.instance, facts)
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


def _distribution(diagnostics: Mapping[str, Any], name: str) -> str:
    """Returns the probabilities of numbers in words, and the largest of their errors if they are drawn."""
    shares = [f"{k}: {p:.3f}" for k, p in enumerate(diagnostics[name]) if p >= _LEAST]
    error = max(diagnostics.get(f"{name}_errors", [0.0]))
    return ", ".join(shares) + (f" (each ± {error:.3f} or less)" if error else "")
