"""Fonts for names: DejaVu Sans, which comes with matplotlib, and installed ones for characters it lacks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_FIRST = "DejaVu Sans"
_ADVICE = "Noto Sans CJK"
_OF_OURS = "→↩∅…"
"""Characters of the notation."""


@dataclass(frozen=True, slots=True)
class Typeface:
    """The fonts of a picture.

    Attributes:
        families: names of the fonts, in the order in which a character is searched.
        lacking: characters of no font; they are shown escaped.
        renderer: measures text.
    """

    families: tuple[str, ...]
    lacking: frozenset[str]
    renderer: Any

    @classmethod
    def of(cls, names: Iterable[str]) -> Typeface:
        """Returns as few fonts as have the printable characters of the names.

        Installed fonts are read only if DejaVu Sans lacks a character.
        """
        from matplotlib import get_data_path
        from matplotlib.backends.backend_agg import RendererAgg
        from matplotlib.font_manager import findfont, fontManager

        lacking = {sign for sign in {*"".join(names), *_OF_OURS} if sign.isprintable()}
        lacking -= _characters(findfont(_FIRST))
        families = [_FIRST]
        for font in sorted(fontManager.ttflist, key=_unsuitable):
            # Fonts of formulas, which come with matplotlib, have other signs in the places of letters.
            if lacking and not font.fname.startswith(get_data_path()) and Path(font.fname).exists():
                covered = lacking & _characters(font.fname)
                if covered and font.name not in families:
                    families.append(font.name)
                    lacking -= covered
        renderer = RendererAgg(1, 1, 72)  # type: ignore[no-untyped-call, unused-ignore]
        return cls(tuple(families), frozenset(lacking), renderer)

    def shown(self, name: str) -> str:
        """Returns the name with escapes for characters that no font has."""
        return "".join(
            sign.encode("ascii", "backslashreplace").decode() if sign in self.lacking else sign
            for sign in name
        )

    def width(self, text: str, points: float) -> float:
        """Returns the width of a line, in inches."""
        from matplotlib.font_manager import FontProperties

        font = FontProperties(family=list(self.families), size=points)
        return float(self.renderer.get_text_width_height_descent(text, font, ismath=False)[0]) / 72

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the reader of the picture should know."""
        if not self.lacking:
            return ()
        return (f"characters of no installed font are escaped; install one that has them, such as {_ADVICE}",)


def _unsuitable(font: Any) -> tuple[bool, ...]:
    """Orders fonts: upright, regular, without serifs first."""
    regular = 400
    return font.style != "normal", font.weight != regular, "Sans" not in font.name, font.name


def _characters(path: str) -> set[str]:
    """Returns the characters that a font can draw as outlines."""
    from matplotlib.font_manager import get_font

    font = get_font(path)
    return set(map(chr, font.get_charmap())) if font.scalable else set()
