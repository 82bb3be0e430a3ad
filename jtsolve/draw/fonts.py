"""The font of pictures: DejaVu Sans, which comes with matplotlib. Characters that it lacks are escaped."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from jtsolve.errors import on_one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

FAMILY = "DejaVu Sans"


def printable_name(name: str) -> str:
    r"""Returns a name with escapes for characters that are unprintable or missing in the font.

    >>> printable_name("Größe 年")
    'Größe \\u5e74'
    """
    known = _characters()
    text = on_one_line(name, len(name))
    return "".join(c if c in known else c.encode("ascii", "backslashreplace").decode() for c in text)


def remarks(names: Iterable[str]) -> tuple[str, ...]:
    """Returns remarks on a picture of these names, one line each."""
    if all(printable_name(name) == name for name in names):
        return ()
    return (f"characters that the font {FAMILY} lacks are escaped; text and DOT have them",)


def width(text: str, points: float) -> float:
    """Returns the width of a line, in inches."""
    renderer, font = _renderer(points)
    return float(renderer.get_text_width_height_descent(text, font, ismath=False)[0]) / 72


@cache
def _characters() -> frozenset[str]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(map(chr, get_font(findfont(FAMILY)).get_charmap()))


@cache
def _renderer(points: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    renderer = RendererAgg(1, 1, 72)  # type: ignore[no-untyped-call, unused-ignore]
    return renderer, FontProperties(family=FAMILY, size=points)
