"""`jtsolve fit`: a model from data, on a given tree or the best one found; or a mixture."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.features import FeatureOptions, fit_features
from jtsolve.cli.fit_average import fit_average
from jtsolve.cli.fit_task import FitTask
from jtsolve.cli.hidden import fit_hidden
from jtsolve.cli.mixtures import MixtureOptions, fit_components, read_sizes
from jtsolve.cli.options import (
    LOCAL,
    ConstraintOptions,
    Data,
    DataOptions,
    Ess,
    Executor,
    Json,
    Keep,
    LimitOptions,
    Quiet,
    ScoreName,
    SearchOptions,
    Seed,
    cluster_named,
    flags_given,
    grouped,
    held,
    make_score,
)
from jtsolve.cli.output import emit, require_writable
from jtsolve.cli.scoring import DataFile, plan_table, score_plan, show_findings, silent
from jtsolve.errors import ChoiceError, InputError, LimitError
from jtsolve.progress import is_watched

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend, Limits
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.files.document import AnyModel
    from jtsolve.models.gaussian import GaussianTreeModel
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import Codes


@grouped
def fit(
    context: typer.Context,
    *,
    data: Data,
    output: Annotated[
        Path, typer.Option(readable=False, metavar="MODEL", help="Write it here (.json, .json.gz).")
    ],
    tree: Annotated[
        Path | None, typer.Option(readable=False, metavar="RESULT", help="Take the tree of this result.")
    ] = None,
    graph: Annotated[
        Path | None,
        typer.Option(readable=False, metavar="GRAPH", help="Take a triangulation of this graph."),
    ] = None,
    triangulate: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of --graph: min-fill (default) or mcs-m, which is minimal."),
    ] = None,
    treewidth: Annotated[
        int | None, typer.Option(metavar="K", min=0, help="Search for a tree of at most this treewidth.")
    ] = None,
    score: ScoreName = None,
    ess: Ess = None,
    smoothing: Annotated[
        float | None,
        typer.Option(
            metavar="A", help="Equivalent sample size of the tables' prior; default: as the score's."
        ),
    ] = None,
    validate: Annotated[
        Path | None,
        typer.Option(
            readable=False, metavar="DATA", help="Choose the prior under which these rows are likeliest."
        ),
    ] = None,
    unseen: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="Values of --validate alone: share (a state, by the prior's share), error."
        ),
    ] = "share",
    components: Annotated[
        str | None,
        typer.Option(metavar="K,K,…", help="A mixture of K trees; of several K, --validate chooses."),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="HOW", help="A feature tree: trees, lem or published; options as in lem:q=3,delta=0.01."
        ),
    ] = None,
    hidden: Annotated[
        str | None,
        typer.Option(
            metavar="K,K,…", help="A Chow–Liu tree of variables of K hidden states; --validate chooses K."
        ),
    ] = None,
    average: Annotated[
        int | None,
        typer.Option(
            metavar="M", min=1, help="A mixture of M trees drawn from the posterior, by default of bdeu."
        ),
    ] = None,
    restarts: Annotated[
        int, typer.Option(metavar="N", min=1, help="Start a mixture N times, and keep the likeliest.")
    ] = 1,
    search: SearchOptions,
    spend: LimitOptions,
    executor: Executor = LOCAL,
    keep: Keep = None,
    seed: Seed = 0,
    columns: DataOptions,
    constrain: ConstraintOptions,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model to data: the tables of a junction tree's cliques.

    The tree is that of --tree, that of a triangulation of --graph, or the best one found with --treewidth K,
    --score and --backend. A graph of 'jtsolve select' says whether the columns are numbers. The model keeps
    the coding of the columns, so that it can be applied to new rows.

    --components K fits a mixture by expectation-maximisation; its trees are learned by the backend forward
    unless you name another. With --features trees or lem it mixes feature trees.

    --features trees --treewidth K fits a feature tree: it branches where the data pay for it, with junction
    trees at the leaves, the first that of --tree if there is one. --features lem has tables at the leaves;
    --validate chooses thresholds as well. Ctrl-C and the time limit end both with the best model so far.

    --hidden K fits a hidden Chow–Liu tree by expectation-maximisation: above each column there is a variable
    of K states that no row shows, and these form the best forest of the data. It ends when the rows of
    --validate, or else the data, are no likelier. With --components M, M of them from other first tables are
    mixed with equal weights.

    --average M draws M trees of at most treewidth K from the posterior, that of the score bdeu unless you
    name another, and mixes them with equal weights: the predictive density of the posterior. Exit code 5:
    the chains that draw where exact draws do not fit have not converged.

    --executor dask scores and counts Parquet files by partitions; with --keep FOLDER, the same command need
    not score again. A mixture begins with one partition, and goes on with all.
    """
    require_writable(
        output, data, *(path for path in (tree, graph, validate, columns.schema) if path is not None)
    )
    if not output.name.endswith((".json", ".json.gz")):
        raise ChoiceError(f"{output}: a model is written as .json or .json.gz; give such a name")
    given = {"--components": components, "--features": features, "--graph": graph, "--tree": tree}
    given["--executor"] = None if executor == LOCAL else executor
    if hidden is not None:
        others = given | {"--components": None, "--treewidth": treewidth, "--average": average}
        _require_alone("--hidden learns its own forest", others, restarts, search)
    elif features is None:
        _require_structure(tree, graph, treewidth, columns, constrain)
    else:
        _require_features(components, tree, graph, executor)
    if average is not None:
        _require_alone("--average draws its trees from the posterior", given, restarts, search)
    if triangulate is not None and graph is None:
        raise ChoiceError("--triangulate is for --graph; leave it out")
    if smoothing is not None and validate is not None:
        raise ChoiceError("--smoothing fixes the prior, and --validate chooses it; give one of the two")
    structure_of_graph = None if graph is None else _triangulated(graph, triangulate or "min-fill")
    if structure_of_graph is not None and score is None and ess is None:
        score = structure_of_graph.score
    if average is not None:
        score = score or "bdeu"
    grown = (
        None if features is None else FeatureOptions(features, treewidth, tree, search.chosen(), constrain)
    )
    file = DataFile.of(data, make_score(score, ess), columns, quiet=quiet).on(
        context.with_resource(held(cluster_named(executor, spend.threads))), keep
    )
    task, limits = FitTask(file, smoothing, validate, unseen), spend.limits(context.obj, seed)
    shown = not (json or quiet) and is_watched()
    model: AnyModel
    table: AnyTable
    if components is not None and hidden is None:
        if treewidth is None and features is None:
            raise ChoiceError(
                "--tree is for one tree, and a mixture learns its own; give --treewidth K instead"
            )
        mixture = MixtureOptions(
            read_sizes(components), restarts, treewidth, search.chosen(), constrain, features
        )
        model, table = fit_components(task, mixture, limits, shown=shown)
    elif average is not None:
        assert treewidth is not None, "--tree has been refused"
        model, table = fit_average(task, average, treewidth, limits, constrain, shown=shown)
    elif hidden is not None:
        model, table = fit_hidden(task, hidden, components, limits, constrain, shown=shown)
    elif restarts > 1:
        raise ChoiceError("--restarts is for mixtures; add --components K, or leave it out")
    elif grown is not None:
        model, table = fit_features(task, grown, limits, shown=shown)
    else:
        given_tree = structure_of_graph if tree is None else _of_result(tree)
        model, table = _fit_tree(task, given_tree, treewidth, limits, search, constrain, shown=shown)

    _write(model, table, output, json=json, quiet=quiet)


def _require_features(components: str | None, tree: Path | None, graph: Path | None, executor: str) -> None:
    """Refuses what has no meaning for a feature tree."""
    if executor != LOCAL:
        raise ChoiceError("--features takes all rows in one place; leave --executor out")
    if components is not None and tree is not None:
        raise ChoiceError("--tree is for one tree, and a mixture learns its own; leave it out")
    if graph is not None:
        raise ChoiceError("--features begins with a tree or none; give --tree RESULT in place of --graph")


def _require_alone(reason: str, others: dict[str, Any], restarts: int, search: SearchOptions) -> None:
    """Raises ChoiceError if an option makes no sense, for a reason."""
    given = [name for name, value in others.items() if value is not None]
    given += [*(["--restarts"] if restarts > 1 else []), *flags_given(search)]
    if given:
        raise ChoiceError(f"{reason}; leave out {', '.join(given)}")


@dataclass(frozen=True, slots=True)
class Structure:
    """A tree from a file, and its variables.

    Attributes:
        tree: the junction tree.
        names: of its variables.
        path: of the file.
        place: of the variables in it, for messages.
        facts: remarks.
        score: the score that fits the columns, or None if the file does not say what they are.
    """

    tree: "JunctionTree"
    names: tuple[str, ...]
    path: Path
    place: str
    facts: dict[str, Any]
    score: str | None = None


def _of_result(path: Path) -> Structure:
    """Returns the tree of a result."""
    from jtsolve.io.result import read_result, tree_of

    return Structure(*tree_of(read_result(path), str(path)), path, "$.cliques", {"tree": path.name})


def _triangulated(path: Path, heuristic: str) -> Structure:
    """Returns the tree of a triangulation of a graph; one selected from numbers asks for a Gaussian score."""
    from jtsolve.io.graph import arcs_of, graph_of, read_document
    from jtsolve.selection.supersets import triangulation

    document = read_document(path)
    graph = graph_of(document, str(path)).moral(arcs_of(document))
    tree = triangulation(graph, heuristic)
    kind = None if document.selection is None else document.selection.data.get("kind")
    of_numbers = document.strengths is not None or kind in ("gaussian", "nonparanormal")
    fill = len(tree.graph_edges) - graph.size
    facts = {"graph": path.name, "triangulation": heuristic, "edges": graph.size, "fill": fill}
    return Structure(tree, graph.names, path, "variables", facts, "gaussian-bic" if of_numbers else None)


def _require_structure(
    tree: Path | None,
    graph: Path | None,
    treewidth: int | None,
    columns: DataOptions,
    constrain: ConstraintOptions,
) -> None:
    """Refuses none or several sources of the tree, and options that a given tree leaves nothing for."""
    if [tree, graph, treewidth].count(None) != 2:  # noqa: PLR2004 - one of the three
        raise ChoiceError("give either --tree RESULT, --graph GRAPH, or --treewidth K to search for a tree")
    if treewidth is None and columns.columns is not None:
        raise ChoiceError("--tree or --graph says which columns are needed; leave out --columns")
    if treewidth is None and constrain.given:
        raise ChoiceError(f"the tree is searched no more; leave out {', '.join(flags_given(constrain))}")


def _given(
    task: FitTask, structure: Structure, limits: "Limits"
) -> "tuple[JunctionTree, AnyTable, Codes | None, dict[str, Any]]":
    """Returns the tree of a file, and the columns of the data that it is over."""
    coding = replace(task.data.coding, columns=structure.names)
    data = replace(task.data, coding=coding)
    table, rows = replace(task, data=data).read(limits, size=structure.tree.treewidth + 1)
    if table.names != structure.names:
        raise InputError(
            str(structure.path),
            structure.place,
            "--drop leaves out columns of the tree",
            "keep them, or solve again",
        )
    return structure.tree, table, rows, structure.facts


def _fit_tree(
    task: FitTask,
    given: Structure | None,
    treewidth: int | None,
    limits: "Limits",
    search: SearchOptions,
    constrain: ConstraintOptions,
    *,
    shown: bool,
) -> "tuple[JunctionTreeModel | GaussianTreeModel, AnyTable]":
    """Returns the model of a tree that is given, or of the best one of a treewidth, and the data."""
    if given is not None:
        tree, table, rows, facts = _given(task, given, limits)
    else:
        assert treewidth is not None, "one of the two is given"
        backend = search.chosen()
        tree, table, rows, facts = _searched(task, treewidth, backend, limits, constrain, shown=shown)
    return _model(task, tree, table, rows, facts), table


def _searched(
    task: FitTask,
    treewidth: int,
    backend: "Backend | None",
    limits: "Limits",
    constrain: ConstraintOptions,
    *,
    shown: bool,
) -> "tuple[JunctionTree, AnyTable, Codes | None, dict[str, Any]]":
    """Returns the best tree that the backend finds, the data, and the rows for validation."""
    from jtsolve.core.result import Status
    from jtsolve.progress import progress
    from jtsolve.scoring.problem import largest_scored, tabulation_for
    from jtsolve.solving import choose, findings_of, solve

    data, largest = task.data, largest_scored(backend, treewidth)
    with progress(f"reading {data.path.name}", shown=shown) as listener:
        table, rows = task.read(limits, listener, treewidth + 1)
    constraints = constrain.of(table.names)
    plan = plan_table(table, data.score, largest, limits, tabulation_for(backend), shown=shown)
    problem = score_plan(plan, data.name, silent, shown=shown)
    problem = replace(problem, constraints=constraints).with_treewidth(treewidth)
    backend = backend or choose(problem, limits).backend
    with progress(backend.name, shown=shown) as listener:
        result = solve(problem, backend, limits, listener)
    if result.tree is None:
        if result.status is Status.INFEASIBLE:
            raise ChoiceError("no tree meets the constraints; leave some out")
        raise LimitError("no tree was found within the limits; allow more time or memory")
    if not data.quiet:
        show_findings("check of the answer", findings_of(problem, result.tree))
    facts = {
        "score": data.score.name,
        "treewidth_allowed": treewidth,
        "backend": result.backend,
        "status": result.status.value,
        "tree_score": result.score,
        "bound": result.bound,
        **{name: result.stats[name] for name in ("independence",) if name in result.stats},
        "seed": limits.seed,
    }
    return result.tree, table, rows, facts


def _model(
    task: FitTask, tree: "JunctionTree", table: "AnyTable", rows: "Codes | None", facts: dict[str, Any]
) -> "JunctionTreeModel | GaussianTreeModel":
    """Returns the fitted model."""
    from jtsolve.core.version import __version__
    from jtsolve.models.learning.fit import fit as fit_tables
    from jtsolve.models.learning.fit import fit_gaussian, fit_validated
    from jtsolve.tables.table import ContinuousTable

    remarks = {**table.provenance, **facts, "jtsolve": __version__}
    if isinstance(table, ContinuousTable):
        return fit_gaussian(tree, replace(table, provenance=remarks), ess=task.smoothing or 0.0)
    table = replace(table, provenance=remarks)
    if rows is not None:
        return fit_validated(tree, table, rows)
    return fit_tables(tree, table, ess=task.ess)


def _write(model: "AnyModel", table: "AnyTable", output: Path, *, json: bool, quiet: bool) -> None:
    """Writes a model and prints its summary; raises ClusterLostError if the fit ended with its cluster."""
    from jtsolve.cluster import lost
    from jtsolve.core.result import Stop
    from jtsolve.models.files.opening import write_model

    write_model(model, output)
    _report(model, table, output, json=json, quiet=quiet)
    if model.provenance.get("stop") == Stop.LOST.value:
        raise lost()


def _report(model: "AnyModel", table: "AnyTable", output: Path, *, json: bool, quiet: bool) -> None:
    """Prints a summary of the model."""
    from jtsolve.cli.models import json_text
    from jtsolve.listing import table as text_table
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.models.mixture import Mixture

    facts: dict[str, Any] = {"model": str(output), "rows": table.total, "variables": model.n}
    parts = model.components if isinstance(model, Mixture) else (model,)
    if isinstance(model, Mixture):
        facts |= {"components": len(parts), "weights": model.weights.tolist()}
    grown = [one for one in parts if isinstance(one, FeatureTree)]
    if grown:
        facts |= {
            "splits": sum(len(one.splits) for one in grown),
            "leaves": sum(len(one.leaves) for one in grown),
            "longest_path": max(one.longest_path for one in grown),
        }
    trees = [one.tree for one in parts if not isinstance(one, FeatureTree)]
    if trees:
        facts |= {
            "cliques": sum(len(tree.cliques) for tree in trees),
            "treewidth": max(tree.treewidth for tree in trees),
        }
    if "hidden_tree" in model.provenance:
        facts["hidden_states"] = model.provenance["hidden_tree"]["states"]
    facts |= {"parameters": model.parameters, "smoothing_ess": model.provenance["smoothing_ess"]}
    remarks = model.provenance
    if "tree_score" in remarks:
        facts |= {name: remarks[name] for name in ("status", "tree_score", "bound")}
        facts["gap"] = remarks["bound"] - remarks["tree_score"]
    chosen = ("stop", "sizes_tried", "validation_log_likelihood", "draws", "drawn_by")
    facts |= {name: remarks[name] for name in chosen if name in remarks}
    if json:
        emit(json_text(facts))
    elif not quiet:
        from jtsolve.core.result import gap_in_words

        words = {name: _words(name, fact) for name, fact in facts.items()}
        if "gap" in facts:
            figures = {"rows": table.total, "independence": remarks.get("independence")}
            words["gap"] = gap_in_words(facts["gap"], facts["tree_score"], figures)
        rows = [[name.replace("_", " "), text] for name, text in words.items()]
        emit(text_table(["fitted", ""], rows))


def _words(name: str, fact: Any) -> str:
    """Returns a fact in words."""
    if name == "weights":
        return ", ".join(f"{weight:.4g}" for weight in fact)
    if name == "stop" and fact != "finished":
        return f"{fact}: the best model so far"
    if name == "sizes_tried":
        from jtsolve.models.learning.mixture_em import words_of

        return "; ".join(
            f"{words_of(one)}: {one['validation_log_likelihood']:.4f} nats per row" for one in fact
        )
    if name == "validation_log_likelihood":
        return f"{fact:.4f} nats per row"
    return f"{fact:.6f} nats" if name in ("tree_score", "bound") else str(fact)
