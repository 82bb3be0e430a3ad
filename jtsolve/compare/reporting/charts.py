"""The charts of a report: solved within t, anytime curves, time against n, critical differences."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from jtsolve.compare.reporting.svg import COLOURS, WIDTH, Chart, Scale, picture, text
from jtsolve.core.result import OPTIMALITY_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.compare.reporting.ranks import Ranking
    from jtsolve.compare.reporting.tables import Comparison, ProblemSummary
    from jtsolve.compare.spec import Row

_EARLIEST = 1e-3
"""Seconds: earlier points of time are drawn here, since the axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture, its caption, and the backends in it, each with its number."""

    caption: str
    svg: str
    legend: Sequence[tuple[int, str]]


def width_name(treewidth: int | None) -> str:
    """Returns a treewidth in words."""
    return "any treewidth" if treewidth is None else f"treewidth {treewidth}"


def solved_within(comparison: Comparison) -> list[Drawing]:
    """Returns how many runs of each backend had a proof within t, and how many the best known score."""
    proofs: dict[str, list[float]] = {name: [] for name in comparison.backends}
    reached: dict[str, list[float]] = {name: [] for name in comparison.backends}
    for record in comparison.records:
        if record.is_proved:
            proofs[record.backend].append(record.seconds)
    for row in comparison.rows:
        best = comparison.problems[row.spec.problem].score
        if best is None or row.result is None or row.spec.id in comparison.faulty:
            continue
        hits = (
            t
            for t, score, _ in row.result.trace
            if score is not None and score >= best - OPTIMALITY_TOLERANCE
        )
        first = next(hits, None)
        if first is not None:
            reached[row.spec.backend].append(first)
    drawings = [
        _cactus(comparison, proofs, "Proved within t: runs that ended with a proof, by the time they took"),
        _cactus(comparison, reached, "Best known within t: runs that had found the best known score by then"),
    ]
    return [drawing for drawing in drawings if drawing is not None]


def _cactus(comparison: Comparison, times: dict[str, list[float]], caption: str) -> Drawing | None:
    shown = {name: sorted(max(t, _EARLIEST) for t in found) for name, found in times.items() if found}
    if not shown:
        return None
    longest = max(row.seconds for row in comparison.rows)
    most = max(map(len, shown.values()))
    chart = Chart(
        caption,
        Scale.over("seconds", [longest, *(t for found in shown.values() for t in found)], "log"),
        Scale("runs", 0, most * 1.04, whole=True),
    )
    for name, found in shown.items():
        steps = [(found[0], 0.0), *((t, float(count)) for count, t in enumerate(found, 1))]
        chart.line([*steps, (longest, float(len(found)))], _number(comparison, name), steps=True)
    return Drawing(caption, chart.svg(), _legend(comparison, shown))


def anytime(comparison: Comparison) -> list[Drawing]:
    """Returns, per problem, incumbents and bounds over time, as differences to the best known score."""
    drawings = []
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
        drawings.append(_anytime(comparison, problem, rows))
    return drawings


def _anytime(comparison: Comparison, problem: ProblemSummary, rows: Sequence[Row]) -> Drawing:
    best = problem.score
    assert best is not None
    curves = [(row, curve) for row in rows for curve in _curves(row, best)]
    end = max((row.seconds for row in rows), default=1.0)
    times = [max(point[0], _EARLIEST) for _, (_, curve) in curves for point in curve]
    heights = [point[1] for _, (_, curve) in curves for point in curve]
    caption = f"{problem.instance}, {width_name(problem.treewidth)}: best {best:.3f}"
    chart = Chart(
        caption,
        Scale.over("seconds", [*times, end], "log"),
        Scale.over("nats from the best known", [0.0, *heights], "symlog"),
    )
    chart.level(0.0)
    for row, (is_bound, curve) in curves:
        points = [(max(seconds, _EARLIEST), value) for seconds, value in curve]
        points.append((max(row.seconds, points[-1][0]), points[-1][1]))
        series = _number(comparison, row.spec.backend)
        chart.line(points, series, steps=True, faint=is_bound)
        if not is_bound:
            chart.dots(points[-2:-1], series)
    return Drawing(caption, chart.svg(), _legend(comparison, [row.spec.backend for row in rows]))


def _curves(row: Row, best: float) -> list[tuple[bool, list[tuple[float, float]]]]:
    """Returns a run's incumbents and its bounds, less the best score; only steps where they change."""
    assert row.result is not None
    curves = []
    for is_bound in (False, True):
        points: list[tuple[float, float]] = []
        last = None
        for seconds, score, bound in row.result.trace:
            value = bound if is_bound else score
            if value is not None and value != last:
                points.append((seconds, value - best))
                last = value
        if points:
            curves.append((is_bound, points))
    return curves


def scaling(comparison: Comparison) -> list[Drawing]:
    """Returns time against n, one chart a treewidth; a hollow dot is a median of runs without a proof."""
    drawings = []
    for treewidth in dict.fromkeys(key[1] for key in comparison.problems):
        records = [
            record
            for record in comparison.records
            if record.treewidth == treewidth
            and record.n is not None
            and record.score is not None
            and not record.faulty
        ]
        sizes = sorted({record.n for record in records if record.n is not None})
        if len(sizes) < 2:  # noqa: PLR2004 - one size is no curve
            continue
        caption = f"Time against n, {width_name(treewidth)}"
        chart = Chart(
            caption,
            Scale("variables", sizes[0] - 0.5, sizes[-1] + 0.5, whole=True),
            Scale.over("seconds", [record.seconds for record in records], "log"),
        )
        for name in comparison.backends:
            own = [record for record in records if record.backend == name]
            groups = {n: [record for record in own if record.n == n] for n in sizes}
            points = {n: (float(n), median(r.seconds for r in group)) for n, group in groups.items() if group}
            if not points:
                continue
            proved = {n for n in points if all(record.is_proved for record in groups[n])}
            series = _number(comparison, name)
            chart.line(list(points.values()), series)
            chart.dots([point for n, point in points.items() if n in proved], series)
            chart.dots([point for n, point in points.items() if n not in proved], series, hollow=True)
        names = [name for name in comparison.backends if any(record.backend == name for record in records)]
        drawings.append(Drawing(caption, chart.svg(), _legend(comparison, names)))
    return drawings


_ROW = 22
_AXIS = 40
_SIDE = 130
_LONGEST_NAME = 11
"""Beside the axis there is room for so many characters and a rank."""


def critical_difference(comparison: Comparison, ranking: Ranking) -> Drawing:
    """Returns the diagram of mean ranks: the best on the left, bars over those that do not differ."""
    k = len(ranking.ranks)
    left, right = float(_SIDE), float(WIDTH - _SIDE)
    half = (k + 1) // 2
    first_row = _AXIS + 14 + 9 * len(ranking.groups) + 12

    def place(rank: float) -> float:
        return left + (right - left) * (rank - 1) / (k - 1)

    parts = [f'<path class="axis" d="M{left} {_AXIS}H{right}"/>']
    for rank in range(1, k + 1):
        parts.append(f'<path class="axis" d="M{place(rank):.1f} {_AXIS - 5}V{_AXIS}"/>')
        parts.append(text(place(rank), _AXIS - 9, str(rank), "middle"))
    span = min(ranking.difference / (k - 1) * (right - left), WIDTH - 90 - left)
    parts.append(f'<path class="level" d="M{left} 8v6m0 -3H{left + span:.1f}m0 -3v6"/>')
    parts.append(text(left + span + 6, 15, f"CD {ranking.difference:.2f}"))
    for level, group in enumerate(ranking.groups):
        a, b = place(ranking.ranks[group[0]]) - 4, place(ranking.ranks[group[-1]]) + 4
        parts.append(f'<path class="bar" d="M{a:.1f} {_AXIS + 12 + 9 * level}H{b:.1f}"/>')
    for position, (name, mean) in enumerate(ranking.ranks.items()):
        on_left = position < half
        y = first_row + _ROW * (position if on_left else k - 1 - position)
        end = left if on_left else right
        series = _number(comparison, name) % COLOURS
        parts.append(f'<path class="line s{series}" d="M{place(mean):.1f} {_AXIS}V{y}H{end}"/>')
        shown = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
        place_of_text = (end - 6, "end") if on_left else (end + 6, "start")
        parts.append(text(place_of_text[0], y + 4, f"{shown} {mean:.2f}", place_of_text[1]))
    caption = (
        f"Mean ranks, {width_name(ranking.treewidth)}, {ranking.instances} instances; "
        f"Friedman's test that all are equal: p = {ranking.p_value:.2g}"
    )
    height = first_row + _ROW * max(half - 1, 0) + 10
    return Drawing(caption, picture(caption, WIDTH, height, parts), ())


def _number(comparison: Comparison, backend: str) -> int:
    return comparison.backends.index(backend)


def _legend(comparison: Comparison, names: Sequence[str] | dict[str, list[float]]) -> list[tuple[int, str]]:
    return [(_number(comparison, name), name) for name in comparison.backends if name in names]
