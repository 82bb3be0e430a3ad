"""HTML representations of values in notebooks; drawing is injected, so that core does not import it."""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which loads more slowly than the whole package may
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


_drawings: list[Callable[..., str]] = []


def show_with(drawing: Callable[..., str]) -> None:
    """Sets the function behind `as_html`, with its arguments."""
    _drawings[:] = [drawing]


def as_html(lines: Sequence[str], tree: Any = None, names: Sequence[str] = ()) -> str | None:
    """Returns text and a tree as HTML; None if no drawing is installed: notebooks then show the plain text.

    >>> as_html(["a < b"])
    '<div><p>a &lt; b</p></div>'

    Args:
        lines: of text.
        tree: the junction tree to draw below; None for none.
        names: of its variables.
    """
    return _drawings[0](lines, tree, names) if _drawings else None
