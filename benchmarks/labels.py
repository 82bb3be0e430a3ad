"""Labels beside the right ends of lines, in place of a legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


def label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], size: float = 8) -> None:
    """Writes a label for each line to the right of the axes, in its colour, at the height of its end.

    Heights are found on the drawn scale, logarithmic or not, after the limits are set. Labels that would
    overlap are moved apart, and a thin line leads from each to its end.

    Args:
        axes: the axes of the lines.
        ends: (y, text, colour) of each line's end.
        size: of the font, in points.
    """
    axes.figure.canvas.draw()  # computes the layout, and with it the final size of the axes
    height = axes.get_window_extent().height
    gap = 1.15 * size * axes.figure.dpi / 72 / height
    to_axes = axes.transData + axes.transAxes.inverted()
    at = [float(to_axes.transform((axes.get_xlim()[1], y))[1]) for y, _, _ in ends]
    order = sorted(range(len(ends)), key=lambda i: at[i])
    places = spread([min(max(at[i], 0.0), 1.0) for i in order], gap)
    for i, place in zip(order, places, strict=True):
        _, text, colour = ends[i]
        axes.plot(
            [1, 1.03], [at[i], place], transform=axes.transAxes, color=colour, linewidth=0.7, clip_on=False
        )
        axes.text(
            1.04, place, text, transform=axes.transAxes, color=colour, fontsize=size, va="center_baseline"
        )


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Returns increasing heights moved as little as possible to be at least a gap apart.

    Heights that are too close form a group, which is spaced evenly around its mean; groups that meet are
    merged.

    >>> [round(height, 2) for height in spread([0.0, 0.5, 0.52, 1.0], 0.1)]
    [0.0, 0.46, 0.56, 1.0]
    """
    groups: list[tuple[float, int]] = []  # the middle and the size
    for height in heights:
        middle, count = height, 1
        while groups and middle - gap * (count - 1) / 2 < groups[-1][0] + gap * (groups[-1][1] + 1) / 2:
            before, size = groups.pop()
            middle, count = (before * size + middle * count) / (size + count), size + count
        groups.append((middle, count))
    return [middle + gap * (i - (count - 1) / 2) for middle, count in groups for i in range(count)]
