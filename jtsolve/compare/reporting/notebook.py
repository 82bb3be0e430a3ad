"""A comparison in a notebook: the table of backends, and the runs solved over time as inline SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from jtsolve.compare.reporting.charts import COLOURS, solved_within
from jtsolve.compare.reporting.exports import backends_table
from jtsolve.compare.reporting.pictures import colours

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jtsolve.compare.reporting.charts import Chart
    from jtsolve.compare.reporting.tables import Comparison


def notebook_html(comparison: Comparison, title: str) -> str:
    """Returns the comparison as HTML that brings the colours of its pictures along."""
    head, rows = backends_table(comparison)
    style = "; ".join(f"--{name}: {value}" for name, value in colours().items())
    faults = "".join(f"<p><b>{escape(fault.message)}</b></p>" for fault in comparison.faults)
    table = _row("th", head) + "".join(_row("td", row) for row in rows)
    pictures = "".join(_picture(chart) for chart in solved_within(comparison))
    return (
        f'<div style="{style}; background: #ffffff; font-family: sans-serif">'
        f"<p>{escape(title)}</p>{faults}<table>{table}</table>{pictures}</div>"
    )


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _picture(chart: Chart) -> str:
    legend = " ".join(
        f'<span style="color: var(--c{place % COLOURS})">■</span> {escape(name)}'
        for place, name in chart.legend
    )
    return f"<p>{escape(chart.caption)}<br>{legend}</p>{chart.svg}"
