"""`jtsolve fit`: a model of a kind, from data."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli import completion
from jtsolve.cli.options import (
    SEARCH,
    BackendName,
    ConstraintOptions,
    Data,
    Executor,
    Json,
    LimitOptions,
    MatrixOptions,
    Quiet,
    ScoreName,
    Seed,
    Treewidth,
    declared,
    expand_option_groups,
    file_option,
)
from jtsolve.cli.output import emit_facts, emit_json
from jtsolve.core.formats import FITTED
from jtsolve.core.outputs import claim_outputs, note_input
from jtsolve.options import BACKEND, EXECUTOR, GRAPH, MODEL, SMOOTHING, TREE, VALIDATE

if TYPE_CHECKING:
    from jtsolve.models.files.document import AnyModel
    from jtsolve.tables.partitions import AnyTable

_REMARKS = (
    *("smoothing_ess", "status", "tree_score", "bound", "stop", "sizes_tried", "validation_log_likelihood"),
    *("draws", "drawn_by", "hidden_tree", "real", "spiked"),
)
"""Remarks on a fit in the provenance of a model."""


@expand_option_groups
def fit(
    context: typer.Context,
    *,
    data: Data,
    output: Annotated[Path, file_option("Write the model here (.json, .json.gz).")],
    model: Annotated[str, declared(MODEL, SEARCH, completion.of_kind("models"))] = MODEL.default,
    treewidth: Treewidth = None,
    tree: Annotated[Path | None, declared(TREE, SEARCH)] = None,
    graph: Annotated[Path | None, declared(GRAPH, SEARCH)] = None,
    backend: BackendName = BACKEND.default,
    smoothing: Annotated[float | None, declared(SMOOTHING, SEARCH)] = None,
    validate: Annotated[Path | None, declared(VALIDATE, SEARCH)] = None,
    constrain: ConstraintOptions,
    score: ScoreName = None,
    columns: MatrixOptions,
    spend: LimitOptions,
    seed: Seed = 0,
    executor: Executor = EXECUTOR.default,
    json: Json = False,
    quiet: Quiet = False,
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
    from jtsolve.study.arguments import backend_of, data_score, held_cluster, model_kind_of
    from jtsolve.study.data import Data as StudyData
    from jtsolve.study.fitting import default_score, fitted
    from jtsolve.study.study import Study
    from jtsolve.study.trees import structure_of

    kind, run = model_kind_of(model), spend.run(context.obj, seed, silent=True, quiet=quiet)
    structure = structure_of(tree, graph)
    with held_cluster(executor, spend.threads) as cluster:
        source = StudyData(data, columns.reading(), cluster)
        study = Study(
            source,
            data_score(score, source, default_score(kind, structure)),
            treewidth,
            constrain.restrictions(),
            backend_of(backend),
        )
        found = fitted(kind, study, run, structure=structure, validate=validate, smoothing=smoothing)
    write_model(found.model, output)
    _report(found.model, found.table, output, json=json, quiet=quiet)


def _report(model: "AnyModel", table: "AnyTable", output: Path, *, json: bool, quiet: bool) -> None:
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
    if json:
        emit_json(facts | more)
    elif not quiet:
        words |= {name: _words(fact) for name, fact in more.items()}
        if "parts" in facts:
            words["weights"] = ", ".join(f"{part['weight']:.4g}" for part in facts["parts"])
        if more.get("stop", "finished") != "finished":
            words["stop"] += ": the best model so far"
        if "gap" in more:
            figures = {"rows": table.total, "independence": remarks.get("independence")}
            words["gap"] = gap_in_words(more["gap"], more["tree_score"], figures)
        emit_facts("fitted", words)


def _words(fact: Any) -> str:
    """Returns a remark in words."""
    if isinstance(fact, Mapping):
        return ", ".join(f"{key.replace('_', ' ')} {_words(value)}" for key, value in fact.items())
    if isinstance(fact, list | tuple):
        return "; ".join(map(_words, fact))
    return f"{fact:.10g}" if isinstance(fact, float) else str(fact)
