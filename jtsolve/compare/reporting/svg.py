"""Line charts as small SVG texts: axes with ticks, lines, points; colours come from the page's style sheet.

Made by hand, so that a chart is a few kilobytes, follows the reader's light or dark mode, and needs nothing
from outside. A series is known by a number, which is its colour and, beyond the colours, its dashes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Kind = Literal["linear", "log", "symlog"]
Point = tuple[float, float]

COLOURS = 8
WIDTH, HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 12, 44
_TICKS = 6
_DASHES = ("", "7 4", "2 3", "9 3 2 3")
_DECADE = 10


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis: a label, a range, and how values are laid out along it.

    `whole` marks whole numbers only. "symlog" is linear from −1 to 1 and logarithmic beyond, so that it has
    room for distances of either sign; it holds 0.
    """

    label: str
    low: float
    high: float
    kind: Kind = "linear"
    whole: bool = False

    @classmethod
    def over(cls, label: str, values: Iterable[float], kind: Kind = "linear") -> Scale:
        """Returns the axis that has room for the values, and is not empty."""
        known = [value for value in values if math.isfinite(value) and (kind != "log" or value > 0)]
        low, high = min(known, default=1.0), max(known, default=1.0)
        if kind == "log":
            below = [step for step in _round_steps(low) if step <= low]
            above = [step for step in _round_steps(high) if step >= high and step > below[-1]]
            return cls(label, below[-1], above[0], kind)
        if kind == "symlog":
            low, high = min(low, 0.0), max(high, 0.0)
            return cls(label, _unsquash(_squash(low) - 0.1), _unsquash(_squash(high) + 0.1), kind)
        if high == low:
            low, high = low - 0.5, high + 0.5
        return cls(label, low, high, kind)

    def place(self, value: float) -> float:
        """Returns where a value lies between the ends, 0 to 1; what is beyond them is at the end."""
        if self.kind == "log":
            part = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        elif self.kind == "symlog":
            part = (_squash(value) - _squash(self.low)) / (_squash(self.high) - _squash(self.low))
        else:
            part = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, part))

    def ticks(self) -> list[float]:
        """Returns round values to mark."""
        if self.kind == "log":
            return _log_ticks(self.low, self.high)
        if self.kind == "symlog":
            return _symlog_ticks(self.low, self.high)
        return _linear_ticks(self.low, self.high, least=1.0 if self.whole else 0.0)


def _squash(value: float) -> float:
    return value if abs(value) <= 1 else math.copysign(1 + math.log10(abs(value)), value)


def _unsquash(value: float) -> float:
    return value if abs(value) <= 1 else math.copysign(10 ** (abs(value) - 1), value)


def _linear_ticks(low: float, high: float, least: float = 0.0) -> list[float]:
    rough = max((high - low) / _TICKS, least)
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, _DECADE) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def _round_steps(value: float) -> list[float]:
    """Returns 1, 2 and 5 times the powers of ten around a value."""
    power = math.floor(math.log10(value))
    return [factor * 10.0**exponent for exponent in range(power - 1, power + 3) for factor in (1, 2, 5)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Returns the powers of ten, with 2 and 5 between them if they are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = max(1, math.ceil((last - first) / _TICKS))
    factors = (1, 2, 5) if last - first <= _TICKS // 2 else (1,)
    ticks = [factor * 10.0**power for power in range(first, last + 1, step) for factor in factors]
    return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def _symlog_ticks(low: float, high: float) -> list[float]:
    if max(abs(low), abs(high)) <= 1:
        return _linear_ticks(low, high)
    ticks = [0.0]
    for sign, end in ((1, high), (-1, -low)):
        powers = range(max(0, math.floor(math.log10(end)) + 1)) if end >= 1 else range(0)
        step = max(1, math.ceil(len(powers) / (_TICKS - 2)))
        ticks += [sign * 10.0**power for power in powers[::step]]
    return [tick for tick in sorted(ticks) if low <= tick <= high]


def number(value: float) -> str:
    """Returns a number for a tick, with a true minus sign.

    >>> number(1000000.0), number(-0.25), number(0.0001)
    ('10⁶', '−0.25', '10⁻⁴')
    """
    size = abs(value)
    power = round(math.log10(size)) if size else 0
    if size and (power > 4 or power < -2) and math.isclose(size, 10.0**power):  # noqa: PLR2004 - short as it is
        text = "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    else:
        text = f"{size:.4g}"
    return f"−{text}" if value < 0 else text


@dataclass(slots=True)
class Chart:
    """A chart to draw into; lengths are in units of the picture, y grows downwards."""

    title: str
    x: Scale
    y: Scale
    width: int = WIDTH
    height: int = HEIGHT
    parts: list[str] = field(default_factory=list)

    def at(self, point: Point) -> Point:
        """Returns the place of a pair of values."""
        across = self.width - _LEFT - _RIGHT
        down = self.height - _TOP - _BOTTOM
        return _LEFT + across * self.x.place(point[0]), _TOP + down * (1 - self.y.place(point[1]))

    def line(self, points: Sequence[Point], series: int, *, steps: bool = False, faint: bool = False) -> None:
        """Draws a line through the points; `steps` holds each value until the next point."""
        if steps:
            points = [
                spot for before, after in pairwise(points) for spot in (before, (after[0], before[1]))
            ] + list(points[-1:])
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(self.at, points))
        dashes = "1 3" if faint else _DASHES[series // COLOURS % len(_DASHES)]
        style = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(f'<polyline class="line s{series % COLOURS}" points="{text}"{style}/>')

    def dots(self, points: Iterable[Point], series: int, *, hollow: bool = False) -> None:
        """Draws a dot at each point."""
        kind = "hollow" if hollow else "dot"
        for x, y in map(self.at, points):
            self.parts.append(f'<circle class="{kind} s{series % COLOURS}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')

    def level(self, value: float) -> None:
        """Draws a horizontal line at a value."""
        y = self.at((self.x.low, value))[1]
        self.parts.append(f'<path class="level" d="M{_LEFT} {y:.1f}H{self.width - _RIGHT}"/>')

    def svg(self) -> str:
        """Returns the picture."""
        right, bottom = self.width - _RIGHT, self.height - _BOTTOM
        under: list[str] = []
        for tick in self.x.ticks():
            x = self.at((tick, self.y.low))[0]
            under.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
            under.append(text(x, bottom + 16, number(tick), "middle"))
        for tick in self.y.ticks():
            y = self.at((self.x.low, tick))[1]
            under.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
            under.append(text(_LEFT - 6, y + 4, number(tick), "end"))
        under.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>')
        middle = (_TOP + bottom) / 2
        under.append(text((_LEFT + right) / 2, self.height - 6, self.x.label, "middle"))
        turned = (
            f'<g transform="translate(13 {middle:.1f}) rotate(-90)">{text(0, 0, self.y.label, "middle")}</g>'
        )
        return picture(self.title, self.width, self.height, [*under, turned, *self.parts])


def text(x: float, y: float, content: str, anchor: str = "start", kind: str = "") -> str:
    """Returns a text at a place."""
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(content)}</text>'


def picture(title: str, width: float, height: float, parts: Iterable[str], kind: str = "chart") -> str:
    """Returns the SVG of a picture from its parts."""
    return (
        f'<svg class="{kind}" role="img" viewBox="0 0 {width:g} {height:g}" '
        f'style="max-width:{width * 1.4:g}px"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )
