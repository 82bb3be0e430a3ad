"""The report as one self-contained HTML page, with its style, script and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jtsolve.compare.reporting import charts, exports
from jtsolve.compare.reporting.ranks import rank_tests
from jtsolve.draw.layout import LARGEST
from jtsolve.draw.picture import tree_figure
from jtsolve.errors import printable
from jtsolve.io.result import tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jtsolve.compare.folder import ComparisonPlan
    from jtsolve.compare.reporting.tables import Comparison, ProblemKey


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
    tests, untested = rank_tests(comparison)
    return {
        "comparison": comparison,
        "plan": plan,
        "machine": exports.machine_text(plan),
        "machines": sorted({_machine(row.machine) for row in comparison.rows}),
        "seeds": sorted({spec.seed for spec in plan.specs}),
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
        "rank_tests": tests,
        "untested": untested,
        "proved": charts.proved_within(comparison),
        "anytime": charts.anytime(comparison),
        "trees": list(_trees(comparison)),
    }


def _machine(machine: dict[str, Any]) -> str:
    return f"{machine.get('processor')}, {machine.get('cores')} cores, {machine.get('platform')}"


def _limits(spec: Any) -> str:
    time = "no limit" if spec.time_limit is None else f"{spec.time_limit:g} s and {spec.grace:g} s of grace"
    memory = "no limit" if spec.memory_limit is None else f"{spec.memory_limit:g} GB"
    return f"time {time}; memory {memory}; threads {spec.threads}"


def _trees(comparison: Comparison) -> Iterator[tuple[ProblemKey, str, str]]:
    """Yields each problem, a caption, and its best tree as SVG, empty if the tree is too large."""
    best: dict[ProblemKey, Any] = {}
    for row in comparison.rows:
        if row.result is None or row.result.score is None or row.spec.id in comparison.faulty:
            continue
        key = row.spec.problem
        if key not in best or row.result.score > best[key].result.score:
            best[key] = row
    for key in comparison.problems:
        if key not in best:
            continue
        row = best[key]
        count = len(row.result.cliques)
        caption = (
            f"{key[0]}, {charts.width_name(key[1])}: {row.result.score:.4f} nats, {row.result.status.value}, "
            f"by {row.spec.backend}, seed {row.spec.seed}; {count} cliques"
        )
        if count > LARGEST:
            yield key, f"{caption}; too many to draw here (the limit is {LARGEST})", ""
        else:
            figure = tree_figure(*tree_of(row.result, caption))
            yield key, caption, charts.inline_svg(figure, caption)
