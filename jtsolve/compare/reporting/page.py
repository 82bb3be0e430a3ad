"""The report as one self-contained HTML page, with its style, script and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jtsolve.compare.reporting import charts, exports
from jtsolve.errors import printable

if TYPE_CHECKING:
    from jtsolve.compare.folder import ComparisonPlan
    from jtsolve.compare.reporting.tables import Comparison


def html(comparison: Comparison, plan: ComparisonPlan) -> str:
    """Returns the page."""
    # Imported here: it takes half a second to load.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("jtsolve.compare.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(**_facts(comparison, plan))


def _facts(comparison: Comparison, plan: ComparisonPlan) -> dict[str, Any]:
    """Returns the variables of the template."""
    return {
        "comparison": comparison,
        "plan": plan,
        "machine": exports.machine_text(plan),
        "machines": sorted({_machine(row.machine) for row in comparison.rows}),
        "limits": sorted({_limits(spec) for spec in plan.specs}),
        "missing": comparison.planned - len(comparison.rows),
        "short": exports.short,
        "nats": exports.nats,
        "cell_text": exports.cell_text,
        "treewidth_text": exports.treewidth_text,
        "width_name": charts.width_name,
        "run_heads": exports.RUN_HEADS,
        "run_cells": exports.run_cells,
        "colours": charts.COLOURS,
        "proved": charts.proved_within(comparison),
        "anytime": charts.anytime(comparison),
    }


def _machine(machine: dict[str, Any]) -> str:
    return f"{machine.get('processor')}, {machine.get('cores')} cores, {machine.get('platform')}"


def _limits(spec: Any) -> str:
    time = "no limit" if spec.time_limit is None else f"{spec.time_limit:g} s and {spec.grace:g} s of grace"
    memory = "no limit" if spec.memory_limit is None else f"{spec.memory_limit:g} GB"
    return f"time {time}; memory {memory}; threads {spec.threads}"
