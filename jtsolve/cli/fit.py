"""`jtsolve fit`: a model of a kind, from data."""

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
    from jtsolve.models.framed import Model as Framed

    remarks = model.provenance
    facts: dict[str, Any] = {"model": str(output), "rows": table.total, **Framed(model).facts()}
    facts["smoothing_ess"] = remarks["smoothing_ess"]
    if "tree_score" in remarks:
        facts |= {name: remarks[name] for name in ("status", "tree_score", "bound")}
        facts["gap"] = remarks["bound"] - remarks["tree_score"]
    chosen = ("stop", "sizes_tried", "validation_log_likelihood", "draws", "drawn_by", "hidden_tree")
    facts |= {name: remarks[name] for name in ("real", "spiked", *chosen) if name in remarks}
    if json:
        emit_json(facts)
    elif not quiet:
        from jtsolve.core.result import gap_in_words

        plain = {name: fact for name, fact in facts.items() if not isinstance(fact, list | dict)}
        words = {name: _words(name, fact) for name, fact in (plain | _of_parts(facts)).items()}
        if "gap" in facts:
            figures = {"rows": table.total, "independence": remarks.get("independence")}
            words["gap"] = gap_in_words(facts["gap"], facts["tree_score"], figures)
        emit_facts("fitted", words)


def _of_parts(facts: dict[str, Any]) -> dict[str, Any]:
    """Returns, in words, the facts that have several parts: of columns, mixtures, and validation rows."""
    found = {}
    if "real" in facts:
        found["real"] = ", ".join(facts["real"])
    if "spiked" in facts:
        found["cut_into_ranges"] = "; ".join(f"{name}: {why}" for name, why in facts["spiked"].items())
    if "parts" in facts:
        found["weights"] = ", ".join(f"{part['weight']:.4g}" for part in facts["parts"])
    if "sizes_tried" in facts:
        found["sizes_tried"] = "; ".join(
            ", ".join(f"{key} {value}" for key, value in one.items() if key != "validation_log_likelihood")
            + f": {one['validation_log_likelihood']:.4f} nats per row"
            for one in facts["sizes_tried"]
        )
    return found


def _words(name: str, fact: Any) -> str:
    """Returns a fact in words."""
    from jtsolve.listing import cell_as_text

    if name == "stop" and fact != "finished":
        return f"{fact}: the best model so far"
    if name == "validation_log_likelihood":
        return f"{fact:.4f} nats per row"
    return f"{fact:.6f} nats" if name in ("tree_score", "bound") else cell_as_text(fact)
