"""The charts of a report, by matplotlib: proofs within t, and anytime curves."""

from __future__ import annotations

import io
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.compare.reporting.tables import Comparison, ProblemSummary
    from jtsolve.compare.spec import Row

_EARLIEST = 1e-3
"""Lower limit of times in seconds, since the axis is logarithmic."""
_SIZE = (5.0, 3.6)
"""Size in inches, without the legend."""
COLOURS = ("#1f6fb4", "#d1570a", "#118a5b", "#b03a8c", "#b98500", "#2b9fc4", "#6f52a8", "#7a7a1f")
_DASHES = ("-", "--", ":", "-.")
"""Line styles: the first for the first eight backends, the second for the next eight, and so on."""


class Chart(NamedTuple):
    """A picture, as an element of the page, and its caption."""

    caption: str
    svg: str


def inline_svg(figure: Any, title: str) -> str:
    """Returns a figure as an SVG element with text as text; equal under one version of matplotlib."""
    import matplotlib as mpl

    buffer = io.StringIO()
    # Salted with the title, identifiers of different pictures on a page differ.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=nothing, bbox_inches="tight")
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def width_name(treewidth: int | None) -> str:
    """Returns a treewidth in words."""
    return "any treewidth" if treewidth is None else f"treewidth {treewidth}"


def proved_within(comparison: Comparison) -> list[Chart]:
    """Returns a chart of the proofs by their time, which counts from the start of the backend, if any."""
    times: dict[str, list[float]] = {name: [] for name in comparison.backends}
    for record in comparison.records:
        if record.is_proved:
            times[record.backend].append(record.seconds if record.solving is None else record.solving)
    caption = "Runs that ended with a proof, by the time they took"
    return [_cactus(comparison, times, caption)] if any(times.values()) else []


def _cactus(comparison: Comparison, times: dict[str, list[float]], caption: str) -> Chart:
    axes = _axes("seconds", "runs")
    longest = max(_EARLIEST, *(row.seconds for row in comparison.rows))
    _scale(axes, "x", [longest, *(t for found in times.values() for t in found)])
    for name, found in times.items():
        if found:
            ordered = sorted(max(t, _EARLIEST) for t in found)
            counts = [0, *range(1, len(ordered) + 1), len(ordered)]
            x = [ordered[0], *ordered, max(longest, ordered[-1])]
            axes.plot(x, counts, drawstyle="steps-post", **_line(comparison, name))
    axes.set_ylim(bottom=0)
    return _chart(axes, caption)


def anytime(comparison: Comparison) -> list[Chart]:
    """Returns, per problem, incumbents and bounds over time, as differences to the best known score."""
    charts = []
    for problem in comparison.problems.values():
        if problem.score is not None:
            rows = [
                row
                for row in comparison.rows
                if row.spec.problem == problem.key
                and row.result is not None
                and row.spec.id not in comparison.faulty
            ]
            charts.append(_anytime(comparison, problem, problem.score, rows))
    return charts


def _anytime(comparison: Comparison, problem: ProblemSummary, best: float, rows: Sequence[Row]) -> Chart:
    axes = _axes("seconds", "nats from the best known")
    _scale(
        axes, "x", [t for row in rows if row.result for t in (row.seconds, *(s[0] for s in row.result.trace))]
    )
    most = 0.0
    for row in rows:
        style = _line(comparison, row.spec.backend)
        for is_bound in (False, True):
            if points := _changes(row, best, is_bound=is_bound):
                most = max([most, *(abs(value) for _, value in points)])
                x, y = zip(*points, (max(row.seconds, points[-1][0]), points[-1][1]), strict=True)
                dotted = {"linestyle": ":", "label": "_"} if is_bound else {}
                axes.plot(x, y, drawstyle="steps-post", **style | dotted)
    axes.axhline(0.0, color="#566272", linewidth=1, linestyle="--")
    if most > 1:  # linear from −1 to 1, logarithmic beyond
        axes.set_yscale("symlog", linthresh=1)
    else:
        axes.set_ylim(-1.1, 1.1)
    return _chart(axes, f"{problem.instance}, {width_name(problem.treewidth)}: best {best:.3f}")


def _changes(row: Row, best: float, *, is_bound: bool) -> list[tuple[float, float]]:
    """Returns the incumbents or bounds of a run minus the best score, with the times of changes."""
    assert row.result is not None
    known = [
        (bound if is_bound else score, max(seconds, _EARLIEST)) for seconds, score, bound in row.result.trace
    ]
    steps = groupby(((value, t) for value, t in known if value is not None), itemgetter(0))
    return [(next(group)[1], value - best) for value, group in steps]


def _axes(x: str, y: str) -> Any:
    """Returns the axes of a new figure, with their labels."""
    from matplotlib.figure import Figure

    axes = Figure(figsize=_SIZE).add_subplot()
    axes.set(xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dde2e8")
    return axes


def _scale(axes: Any, side: str, seconds: Sequence[float]) -> None:
    """Makes an axis of times logarithmic."""
    low, high = (max(end, _EARLIEST) for end in (min(seconds), max(seconds)))
    axes.set(**{f"{side}scale": "log", f"{side}lim": (low / 1.2, high * 1.2)})


def _chart(axes: Any, caption: str) -> Chart:
    """Returns a chart with its legend beside it, a line for each backend."""
    names = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    axes.legend(names.values(), names.keys(), loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return Chart(caption, inline_svg(axes.figure, caption))


def _line(comparison: Comparison, backend: str) -> dict[str, Any]:
    """Returns the style of the lines of a backend."""
    place = comparison.backends.index(backend)
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": _DASHES[place // len(COLOURS) % len(_DASHES)],
        "label": backend.replace("$", r"\$"),
    }
