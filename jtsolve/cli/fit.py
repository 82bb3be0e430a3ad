"""`jtsolve fit`: a model of a kind, from data."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from jtsolve import options as rows
from jtsolve.cli.options import (
    JSON,
    LIMITS,
    OF_TREE,
    QUIET,
    Data,
    Options,
    file_option,
    with_options,
)
from jtsolve.cli.output import facts_table
from jtsolve.core.formats import FITTED
from jtsolve.core.outputs import claim_outputs, note_input
from jtsolve.tables.options import DATA

if TYPE_CHECKING:
    from jtsolve.models.files.document import AnyModel
    from jtsolve.tables.partitions import AnyTable

_REMARKS = (
    *("smoothing_ess", "status", "tree_score", "bound", "stop", "sizes_tried", "validation_log_likelihood"),
    *("draws", "drawn_by", "hidden_tree", "real", "spiked"),
)
"""Remarks on a fit in the provenance of a model."""


@with_options(
    *(rows.MODEL, rows.TREEWIDTH, rows.TREE, rows.GRAPH, rows.BACKEND, rows.SMOOTHING, rows.VALIDATE),
    *(*OF_TREE, rows.SCORE, *DATA, *LIMITS, rows.SEED, rows.EXECUTOR, JSON, QUIET),
)
def fit(
    *,
    data: Data,
    output: Annotated[Path, file_option("Write the model here (.json, .json.gz).")],
    options: Options,
) -> None:
    """Fit a model to data.

    The kind of the model is a name with options, as in mixture:components=1,2,4; 'jtsolve models' explains
    them. By default it is one junction tree: that of --tree, that of a triangulation of --graph, or the best
    one of --treewidth K. The model keeps the coding of the columns, so that it can be applied to new rows.

    --validate DATA chooses the prior and, for kinds with several candidates, among these. The time limit and
    Ctrl-C end a fit with the best model so far. Exit code 5: the chains that draw trees for 'average' have
    not converged.
    """
    note_input(data)
    claim_outputs(output, kind=FITTED)

    from jtsolve.models.files.opening import write_model
    from jtsolve.study.solution import fitted_by

    options.silent = True
    found, _ = fitted_by(data, options.model, options.treewidth, options)
    write_model(found.model, output)
    _report(found.model, found.table, output, options)


def _report(model: "AnyModel", table: "AnyTable", output: Path, options: Options) -> None:
    """Prints a summary of the model."""
    from jtsolve.core.result import gap_in_words
    from jtsolve.listing import cell_as_text
    from jtsolve.models.framed import Model as Framed

    remarks = model.provenance
    facts: dict[str, Any] = {"model": str(output), "rows": table.total, **Framed(model).facts()}
    words = {name: cell_as_text(fact) for name, fact in facts.items() if not isinstance(fact, list | dict)}
    more = {name: remarks[name] for name in _REMARKS if name in remarks}
    if "tree_score" in remarks:
        more["gap"] = remarks["bound"] - remarks["tree_score"]
    words |= {name: _words(fact) for name, fact in more.items()}
    if "parts" in facts:
        words["weights"] = ", ".join(f"{part['weight']:.4g}" for part in facts["parts"])
    if more.get("stop", "finished") != "finished":
        words["stop"] += ": the best model so far"
    if "gap" in more:
        figures = {"rows": table.total, "independence": remarks.get("independence")}
        words["gap"] = gap_in_words(more["gap"], more["tree_score"], figures)
    options.show(facts | more, lambda: facts_table("fitted", words))


def _words(fact: Any) -> str:
    """Returns a remark in words."""
    if isinstance(fact, Mapping):
        return ", ".join(f"{key.replace('_', ' ')} {_words(value)}" for key, value in fact.items())
    if isinstance(fact, list | tuple):
        return "; ".join(map(_words, fact))
    return f"{fact:.10g}" if isinstance(fact, float) else str(fact)
