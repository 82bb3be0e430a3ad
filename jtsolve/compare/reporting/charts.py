"""The charts of a report: solved within t, anytime curves, time against n, critical differences."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from jtsolve.compare.reporting.pictures import colours, inline_svg
from jtsolve.compare.reporting.ranks import rank_tests
from jtsolve.core.result import optimality_tolerance

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jtsolve.compare.reporting.ranks import RankTest
    from jtsolve.compare.reporting.tables import Comparison, ProblemSummary, Record
    from jtsolve.compare.spec import Row

COLOURS = 8
_EARLIEST = 1e-3
"""Seconds: earlier times are drawn here, since the axis is logarithmic."""
_WIDTH, _HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 12, 44
"""Margins, and all other lengths, are in points, which are the units of the SVG."""
_FONT = 12.5
_DASHES = ("solid", (0, (4, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
"""The first for the first eight backends, the second for the next eight, and so on."""


@dataclass(frozen=True, eq=False)
class Chart:
    """A picture, its caption, and the backends in it, each with its position in the comparison."""

    caption: str
    legend: Sequence[tuple[int, str]]
    figure: Any

    @cached_property
    def svg(self) -> str:
        """The picture as an element of the page."""
        return inline_svg(self.figure, self.caption, "chart")

    def file(self, kind: Literal["pdf", "svg"]) -> bytes:
        """Returns the picture as a file of its own, its legend beside it."""
        import matplotlib as mpl
        from matplotlib.lines import Line2D

        handles = [Line2D([], [], label=name, **_line(place)) for place, name in self.legend]
        beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        legends = [self.figure.legend(handles=handles, **beside)] if handles else []
        buffer = io.BytesIO()
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        with mpl.rc_context({"svg.hashsalt": self.caption}):
            self.figure.savefig(
                buffer, format=kind, metadata=dates[kind], bbox_inches="tight", bbox_extra_artists=legends
            )
        for legend in legends:
            legend.remove()
        return buffer.getvalue()


def width_name(treewidth: int | None) -> str:
    """Returns a treewidth in words."""
    return "any treewidth" if treewidth is None else f"treewidth {treewidth}"


def every(comparison: Comparison) -> list[Chart]:
    """Returns all charts of a report."""
    return [
        *(critical_difference(comparison, one) for one in rank_tests(comparison)[0]),
        *solved_within(comparison),
        *scaling(comparison),
        *anytime(comparison),
    ]


def solved_within(comparison: Comparison) -> list[Chart]:
    """Returns two charts: the runs of each backend with a proof by t, and with the best known score by t.

    Time counts from the start of the backend.
    """
    proofs: dict[str, list[float]] = {name: [] for name in comparison.backends}
    reached: dict[str, list[float]] = {name: [] for name in comparison.backends}
    for record in comparison.records:
        if record.is_proved:
            proofs[record.backend].append(_solving(record))
    for row in comparison.rows:
        best = comparison.problems[row.spec.problem].score
        if best is None or row.result is None or row.spec.id in comparison.faulty:
            continue
        hits = (
            t - (row.prepared or 0.0)
            for t, score, _ in row.result.trace
            if score is not None and score >= best - optimality_tolerance(best)
        )
        first = next(hits, None)
        if first is not None:
            reached[row.spec.backend].append(first)
    charts = [
        _cactus(comparison, proofs, "Proved within t: runs that ended with a proof, by the time they took"),
        _cactus(comparison, reached, "Best known within t: runs that had found the best known score by then"),
    ]
    return [chart for chart in charts if chart is not None]


def _cactus(comparison: Comparison, times: dict[str, list[float]], caption: str) -> Chart | None:
    shown = {name: sorted(max(t, _EARLIEST) for t in found) for name, found in times.items() if found}
    if not shown:
        return None
    axes = _axes("seconds", "runs")
    longest = max(_EARLIEST, *(row.seconds for row in comparison.rows))
    _scale_log(axes, "x", [longest, *(t for found in shown.values() for t in found)])
    _scale_linear(axes, "y", 0, max(map(len, shown.values())) * 1.04, whole=True)
    for name, found in shown.items():
        counts = [0, *range(1, len(found) + 1), len(found)]
        axes.plot(
            [found[0], *found, longest],
            counts,
            drawstyle="steps-post",
            **_line(comparison.backends.index(name)),
        )
    return Chart(caption, _legend(comparison, shown), axes.figure)


def anytime(comparison: Comparison) -> list[Chart]:
    """Returns, per problem, incumbents and bounds over time, as differences to the best known score."""
    charts = []
    for problem in comparison.problems.values():
        if problem.score is None:
            continue
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
    curves = [
        (row, is_bound, points)
        for row in rows
        for is_bound in (False, True)
        if (points := _changes(row, best, is_bound=is_bound))
    ]
    caption = f"{problem.instance}, {width_name(problem.treewidth)}: best {best:.3f}"
    axes = _axes("seconds", "nats from the best known")
    times = [point[0] for _, _, points in curves for point in points]
    _scale_log(axes, "x", [*times, *(max(row.seconds, _EARLIEST) for row in rows)])
    _scale_symlog(axes, [point[1] for _, _, points in curves for point in points])
    axes.axhline(0.0, color=colours()["soft"], linewidth=1, linestyle=(0, (4, 3)))
    for row, is_bound, points in curves:
        style = _line(comparison.backends.index(row.spec.backend))
        if is_bound:
            style |= {"linestyle": (0, (0.6, 1.7))}
        end = (max(row.seconds, points[-1][0]), points[-1][1])
        axes.plot(*zip(*points, end, strict=True), drawstyle="steps-post", **style)
        if not is_bound:
            axes.plot(*points[-1], **_dot(style["color"]))
    return Chart(caption, _legend(comparison, [row.spec.backend for row in rows]), axes.figure)


def _changes(row: Row, best: float, *, is_bound: bool) -> list[tuple[float, float]]:
    """Returns a run's incumbents or bounds less the best score, at the times where they change."""
    assert row.result is not None
    points: list[tuple[float, float]] = []
    last = None
    for seconds, score, bound in row.result.trace:
        value = bound if is_bound else score
        if value is not None and value != last:
            points.append((max(seconds, _EARLIEST), value - best))
            last = value
    return points


def scaling(comparison: Comparison) -> list[Chart]:
    """Returns time against n, one chart per treewidth; a hollow dot is a median over runs without a proof."""
    charts = []
    for treewidth in dict.fromkeys(key[1] for key in comparison.problems):
        records = [
            record
            for record in comparison.records
            if record.treewidth == treewidth
            and record.n is not None
            and record.score is not None
            and not record.faulty
        ]
        if len({record.n for record in records}) > 1:  # one size is no curve
            charts.append(_scaling(comparison, treewidth, records))
    return charts


def _solving(record: Record) -> float:
    """Returns the seconds of the backend; of the whole process if nobody noted when the backend started."""
    return record.seconds if record.solving is None else record.solving


def _scaling(comparison: Comparison, treewidth: int | None, records: Sequence[Record]) -> Chart:
    sizes = sorted({record.n for record in records if record.n is not None})
    caption = f"Solving time against n, {width_name(treewidth)}"
    axes = _axes("variables", "seconds")
    _scale_linear(axes, "x", sizes[0] - 0.5, sizes[-1] + 0.5, whole=True)
    _scale_log(axes, "y", [max(_solving(record), _EARLIEST) for record in records])
    shown = []
    for name in comparison.backends:
        groups = {n: [r for r in records if r.backend == name and r.n == n] for n in sizes}
        points = {
            n: max(_EARLIEST, median(_solving(r) for r in group)) for n, group in groups.items() if group
        }
        if not points:
            continue
        shown.append(name)
        style = _line(comparison.backends.index(name))
        axes.plot(list(points), list(points.values()), **style)
        for hollow in (False, True):
            those = [n for n in points if hollow != all(record.is_proved for record in groups[n])]
            axes.plot(those, [points[n] for n in those], **_dot(style["color"], hollow=hollow))
    return Chart(caption, _legend(comparison, shown), axes.figure)


_ROW = 22
_AXIS = 40
_SIDE = 130
_LONGEST_NAME = 11
"""Characters that fit beside the axis together with a rank."""


def critical_difference(comparison: Comparison, test: RankTest) -> Chart:
    """Returns the diagram of mean ranks: the best on the left, bars over those that do not differ."""
    k = len(test.ranks)
    half = (k + 1) // 2
    first_row = _AXIS + 14 + 9 * len(test.groups) + 12
    axes = _blank_axes(_WIDTH, first_row + _ROW * max(half - 1, 0) + 10)
    left, right = _SIDE, _WIDTH - _SIDE
    soft, ink = colours()["soft"], colours()["ink"]

    def place(rank: float) -> float:
        return left + (right - left) * (rank - 1) / (k - 1)

    def draw(x: Sequence[float], y: Sequence[float], **style: Any) -> None:
        axes.plot(x, y, **{"color": soft, "linewidth": 1, "solid_capstyle": "butt", **style})

    def write(x: float, y: float, text: str, side: str = "left") -> None:
        axes.text(x, y, text, color=soft, fontsize=_FONT, ha=side, va="baseline", parse_math=False)

    draw([left, right], [_AXIS, _AXIS])
    for rank in range(1, k + 1):
        draw([place(rank)] * 2, [_AXIS - 5, _AXIS])
        write(place(rank), _AXIS - 9, str(rank), "center")
    end = left + min(test.difference / (k - 1) * (right - left), _WIDTH - 90 - left)
    draw([left, left, left, end, end, end], [8, 14, 11, 11, 8, 14])
    write(end + 6, 15, f"CD {test.difference:.2f}")
    for level, group in enumerate(test.groups):
        ends = [place(test.ranks[group[0]]) - 4, place(test.ranks[group[-1]]) + 4]
        draw(ends, [_AXIS + 12 + 9 * level] * 2, color=ink, linewidth=4, solid_capstyle="round")
    for position, (name, mean) in enumerate(test.ranks.items()):
        on_left = position < half
        y = first_row + _ROW * (position if on_left else k - 1 - position)
        end = left if on_left else right
        draw([place(mean), place(mean), end], [_AXIS, y, y], **_line(comparison.backends.index(name)))
        shown = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
        write(end - 6 if on_left else end + 6, y + 4, f"{shown} {mean:.2f}", "right" if on_left else "left")
    caption = (
        f"Mean ranks, {width_name(test.treewidth)}, {test.instances} instances; "
        f"Friedman's test that all are equal: p = {test.p_value:.2g}"
    )
    return Chart(caption, (), axes.figure)


def _blank_axes(width: float, height: float) -> Any:
    """Returns the axes of a new figure that fill it; units are points, y grows downwards."""
    from matplotlib.figure import Figure

    axes = Figure(figsize=(width / 72, height / 72), facecolor="none").add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return axes


def _axes(x: str, y: str) -> Any:
    """Returns the axes of a new figure, with their labels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH / 72, _HEIGHT / 72), facecolor="none")
    across, down = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    axes = figure.add_axes((_LEFT / _WIDTH, _BOTTOM / _HEIGHT, across / _WIDTH, down / _HEIGHT))
    axes.patch.set_visible(False)
    soft = colours()["soft"]
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(soft)
    axes.set_axisbelow(True)
    axes.grid(color=colours()["rule"], linewidth=1)
    axes.tick_params(length=0, pad=6, labelsize=_FONT, labelcolor=soft)
    axes.set_xlabel(x, color=soft, fontsize=_FONT)
    axes.set_ylabel(y, color=soft, fontsize=_FONT)
    axes.yaxis.set_label_coords(-49 / across, 0.5)
    axes.xaxis.set_label_coords(0.5, -27 / down)
    return axes


def _scale_log(axes: Any, side: str, values: Sequence[float]) -> None:
    """Makes an axis logarithmic, for positive values."""
    from matplotlib.ticker import LogLocator

    low, high = min(values), max(values)
    # A range of 6.25 has two of the ticks 1, 2, 5, 10, … at least.
    margin = max(1.15, math.sqrt(6.25 * (low / high)))
    low, high = low / margin, high * margin
    subs = (1.0, 2.0, 5.0) if high / low < 1e3 else (1.0,)  # noqa: PLR2004 - as many labels as fit
    axes.set(**{f"{side}scale": "log", f"{side}lim": (low, high)})
    _set_ticks(axes, side, LogLocator(subs=subs, numticks=8))


def _scale_symlog(axes: Any, values: Sequence[float]) -> None:
    """Makes the y axis, which holds 0, linear from −1 to 1 and logarithmic beyond."""
    from matplotlib.ticker import SymmetricalLogLocator

    low, high = min(0.0, *values), max(0.0, *values)
    low = low * 1.25 if low < -1 else low - 0.1
    high = high * 1.25 if high > 1 else high + 0.1
    if max(-low, high) <= 1.1:  # noqa: PLR2004 - all values are in the linear part
        _scale_linear(axes, "y", low, high)
        return
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(low, high)
    _set_ticks(axes, "y", SymmetricalLogLocator(base=10, linthresh=1))


def _scale_linear(axes: Any, side: str, low: float, high: float, *, whole: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set(**{f"{side}lim": (low, high)})
    _set_ticks(axes, side, MaxNLocator(6, steps=[1, 2, 5, 10], integer=whole))


def _set_ticks(axes: Any, side: str, locator: Any) -> None:
    from matplotlib.ticker import NullLocator

    axis = getattr(axes, f"{side}axis")
    axis.set(major_locator=locator, minor_locator=NullLocator())
    axis.set_major_formatter(lambda value, _: number(value))


def number(value: float) -> str:
    """Returns the label of a tick, with a true minus sign.

    >>> number(1000000.0), number(-0.25), number(0.0001)
    ('10⁶', '−0.25', '10⁻⁴')
    """
    size = abs(value)
    power = round(math.log10(size)) if size else 0
    if size and (power > 3 or power < -2) and math.isclose(size, 10.0**power):  # noqa: PLR2004 - short in full
        text = "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    else:
        text = f"{size:g}"
    return f"−{text}" if value < 0 else text


def _line(place: int) -> dict[str, Any]:
    """Returns the style of the lines of the backend at a position of the comparison."""
    colour = colours()[f"c{place % COLOURS}"]
    return {
        "color": colour,
        "linestyle": _DASHES[place // COLOURS % len(_DASHES)],
        "linewidth": 1.8,
        "solid_joinstyle": "round",
        "clip_on": False,
    }


def _dot(colour: str, *, hollow: bool = False) -> dict[str, Any]:
    """Returns the style of points."""
    return {
        "linestyle": "none",
        "marker": "o",
        "markersize": 6,
        "markeredgecolor": colour,
        "markeredgewidth": 1.6 if hollow else 0,
        "markerfacecolor": colours()["card"] if hollow else colour,
        "clip_on": False,
        "zorder": 3,
    }


def _legend(comparison: Comparison, names: Iterable[str]) -> list[tuple[int, str]]:
    shown = set(names)
    return [(place, name) for place, name in enumerate(comparison.backends) if name in shown]
