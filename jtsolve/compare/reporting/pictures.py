"""Matplotlib figures as SVG inside the page: text stays text, and colours are those of its style sheet.

A figure is drawn in the colours of the light mode. Each is then replaced by its variable of the style sheet,
so that pictures follow the reader's light or dark mode.
"""

from __future__ import annotations

import io
import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from jtsolve.errors import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@cache
def colours() -> dict[str, str]:
    """Returns the colours of the light mode, such as "#1f6fb4", by the names of their variables."""
    css = (files("jtsolve.compare.reporting") / "templates" / "report.css").read_text(encoding="utf-8")
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", css[: css.index("@media")]))


def inline_svg(figure: Figure, title: str, kind: str) -> str:
    """Returns a figure as an element of the page, with a CSS class of the name `kind`.

    Equal figures give equal texts under one version of matplotlib.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    # Identifiers are digests salted with the title, so that the pictures of a page share none.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    # What comes before the first </defs> is for files: a prolog, metadata, and a style for every element.
    body = re.sub(r"<[^>]*>", _tidied, buffer.getvalue().partition("</defs>")[2].strip())
    body = re.sub(r">\s+<", "><", body).replace("<g/>", "")
    width, height = 72 * figure.get_size_inches()
    return (
        f'<svg class="{kind}" role="img" viewBox="0 0 {width:.1f} {height:.1f}" '
        f'style="max-width:{width * 1.4:.0f}px"><title>{escape(printable(title))}</title>{printable(body)}'
    )


_NEEDLESS = re.compile(
    r' id="[^"_]*_\d+"'  # names of groups
    r"|xlink:"  # SVG 2 knows href
    r'| clip-path="[^"]*"'  # nothing is drawn outside
    r'| transform="rotate\(-0 [^"]*"'
    r'|font-family: [^;"]*(; )?'  # the page has its own
    r"|(?<=\.\d\d)\d+"  # digits
)


def _tidied(tag: re.Match[str]) -> str:
    """Returns a tag in the page's colours, without needless attributes and digits."""
    text = re.sub(r"\s+", " ", _NEEDLESS.sub("", tag[0]))
    return re.sub(r"(?<=: )#[0-9a-f]{6}", lambda colour: _variables()[colour[0]], text)


@cache
def _variables() -> dict[str, str]:
    return {value: f"var(--{name})" for name, value in colours().items()}
