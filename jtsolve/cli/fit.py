"""`jtsolve fit`: a model from data, on a given tree or on one that is looked for; or a mixture of such."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.fit_task import Fit
from jtsolve.cli.limits import make_limits
from jtsolve.cli.output import emit, require_writable
from jtsolve.cli.progress import is_watched
from jtsolve.errors import ChoiceError, InputError, LimitError

if TYPE_CHECKING:
    from jtsolve.core.backend import Limits
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.files.document import AnyModel
    from jtsolve.models.gaussian import GaussianTreeModel
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.models.queries import StateModel
    from jtsolve.tables.table import Table


def fit(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(readable=False, metavar="DATA", help="The data file.")],
    output: Annotated[
        Path, typer.Option(readable=False, metavar="MODEL", help="Write it here (.json, .json.gz).")
    ],
    tree: Annotated[
        Path | None, typer.Option(readable=False, metavar="RESULT", help="Take the tree of this result.")
    ] = None,
    score: Annotated[
        str, typer.Option(metavar="NAME", help="Look for a tree by this score; gaussian-… for numbers.")
    ] = "bdeu",
    treewidth: Annotated[
        int | None, typer.Option(metavar="K", min=0, help="Look for a tree of at most this treewidth.")
    ] = None,
    ess: Annotated[
        float | None, typer.Option(metavar="A", help="Equivalent sample size of the score bdeu.")
    ] = None,
    smoothing: Annotated[
        float | None,
        typer.Option(
            metavar="A", help="Equivalent sample size of the tables' prior; default: as the score's."
        ),
    ] = None,
    validate: Annotated[
        Path | None,
        typer.Option(readable=False, metavar="DATA", help="Choose the prior that suits these rows best."),
    ] = None,
    components: Annotated[
        str | None,
        typer.Option(metavar="K,K,…", help="A mixture of so many trees; of several, --validate chooses."),
    ] = None,
    restarts: Annotated[
        int, typer.Option(metavar="N", min=1, help="Begin a mixture so often; the likeliest is kept.")
    ] = 1,
    backend: Annotated[str, typer.Option(metavar="NAME", help="How to look for the tree.")] = "auto",
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the backend; may be repeated.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds for the search, reading included.")
    ] = None,
    memory_limit: Annotated[
        float | None, typer.Option(metavar="GB", help="Memory; the default is 80 % of what is free.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads; the default is all cores.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of everything random.")] = 0,
    weights: Annotated[
        str | None, typer.Option(metavar="NAME", help="The column that counts how often each row occurs.")
    ] = None,
    drop: Annotated[str | None, typer.Option(metavar="A,B,…", help="Columns to leave out.")] = None,
    missing: Annotated[
        str, typer.Option(metavar="HOW", help="refuse, state, drop-rows, drop-columns, impute-mode.")
    ] = "refuse",
    discretise: Annotated[
        str | None, typer.Option(metavar="HOW", help="Cut continuous columns: quantile:4 or width:4.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(readable=False, metavar="FILE", help="Declared states, or cuts (JSON).")
    ] = None,
    no_header: Annotated[bool, typer.Option("--no-header", help="The first line is a row.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Fit a model to data: the tables of a junction tree's cliques.

    The tree is that of --tree, or is looked for: --treewidth K, with --score and --backend. The model keeps
    how the columns are coded, so that it can be applied to new rows.

    --components K fits a mixture by expectation-maximisation; auto then takes the backend forward for the
    trees. Ctrl-C and the time limit end it with the best mixture so far.
    """
    from jtsolve.cli.scored import chosen_score, make_coding

    require_writable(output, data, *(path for path in (tree, validate, schema) if path is not None))
    if not output.name.endswith((".json", ".json.gz")):
        raise ChoiceError(f"{output}: a model is written as .json or .json.gz; give such a name")
    if (tree is None) == (treewidth is None):
        raise ChoiceError("give either --tree RESULT, or --treewidth K to look for a tree")
    if smoothing is not None and validate is not None:
        raise ChoiceError("--smoothing fixes the prior, and --validate chooses it; give one of the two")
    coding = make_coding(missing=missing, discretise=discretise, drop=drop, weights=weights, schema=schema)
    task = Fit(data, chosen_score(score, ess), coding, not no_header, smoothing, validate)
    limits = make_limits(time_limit, memory_limit, threads, seed, context.obj)
    shown = not (json or quiet) and is_watched()
    model: AnyModel
    table: Table
    if components is not None:
        model, table = _mixture(
            task, components, restarts, treewidth, (backend, option or []), limits, shown=shown
        )
    elif restarts > 1:
        raise ChoiceError("--restarts is for mixtures; add --components K, or leave it out")
    elif tree is not None:
        structure, table, facts = _given(task, tree)
        model = _model(task, structure, table, facts)
    else:
        structure, table, facts = _searched(
            task, treewidth or 0, (backend, option or []), limits, shown=shown
        )
        model = _model(task, structure, table, facts)

    from jtsolve.models.files.document import write_model

    write_model(model, output)
    _report(model, table, output, json=json, quiet=quiet)


def _mixture(
    task: Fit,
    components: str,
    restarts: int,
    treewidth: int | None,
    backend: tuple[str, list[str]],
    limits: "Limits",
    *,
    shown: bool,
) -> "tuple[StateModel, Table]":
    """Returns a mixture, and the data."""
    from jtsolve.cli.mixtures import Components, fit_components, read_sizes

    if treewidth is None:
        raise ChoiceError("--tree is for one tree, and a mixture learns its own; give --treewidth K instead")
    wanted = Components(read_sizes(components), restarts, treewidth, backend[0], tuple(backend[1]))
    return fit_components(task, wanted, limits, shown=shown)


def _given(task: Fit, path: Path) -> "tuple[JunctionTree, Table, dict[str, Any]]":
    """Returns the tree of a result, and the columns of the data that it is over."""
    from jtsolve.io.result import read_result, tree_of

    tree, names = tree_of(read_result(path), str(path))
    table = task.read(replace(task.coding, columns=names))
    if table.names != names:
        raise InputError(
            str(path), "$.cliques", "--drop leaves out columns of the tree", "leave them in, or solve again"
        )
    return tree, table, {"tree": path.name}


def _searched(
    task: Fit, treewidth: int, backend: tuple[str, list[str]], limits: "Limits", *, shown: bool
) -> "tuple[JunctionTree, Table, dict[str, Any]]":
    """Returns the best tree that is found, and the data."""
    from jtsolve.backends.parse import make_backend, split_backend, split_options
    from jtsolve.cli.progress import progress
    from jtsolve.cli.solve import AUTO
    from jtsolve.core.problem import Problem, Variable
    from jtsolve.scoring.lazy import DataScores
    from jtsolve.scoring.scorer import make_scorer
    from jtsolve.scoring.tabulate import estimate, tabulate_with
    from jtsolve.solve import choose, solve
    from jtsolve.tables.table import DataTable

    name, options = split_backend(backend[0])
    chosen = None if name == AUTO else make_backend(name, options | split_options(backend[1]))
    if chosen is None and backend[1]:
        raise ChoiceError("--option is for a backend, but auto chooses that; name it: --backend NAME")
    table = task.read(task.coding)
    max_size = min(treewidth + 1, table.n)
    scorer = make_scorer(table, task.score, max_size)
    cost = estimate(scorer, max_size, limits.workers)
    states = list(table.states) if isinstance(table, DataTable) else [None] * table.n
    # A table of scores opens the exact backends; where it would take long, scores are computed when asked
    # for.
    is_small = cost.seconds <= _LONGEST_TABULATION and cost.memory <= limits.memory_bytes / 2
    scores = (
        tabulate_with(scorer, max_size, workers=limits.workers)
        if is_small
        else DataScores(table, task.score, max_size)
    )
    variables = tuple(map(Variable, table.names, states))
    problem = Problem(variables, scores, name=task.data.name, rows=table.total).with_treewidth(treewidth)
    chosen = chosen or choose(problem, limits).backend
    with progress(chosen.name, shown=shown) as listener:
        result = solve(problem, chosen, limits, listener)
    if result.tree is None:
        raise LimitError("no tree was found within the limits; allow more time or memory")
    facts = {
        "score": task.score.name,
        "treewidth_allowed": treewidth,
        "backend": result.backend,
        "status": result.status.value,
        "tree_score": result.score,
        "bound": result.bound,
        "seed": limits.seed,
    }
    return result.tree, table, facts


_LONGEST_TABULATION = 10.0
"""Seconds of scoring all small sets that come before the search."""


def _model(
    task: Fit, tree: "JunctionTree", table: "Table", facts: dict[str, Any]
) -> "JunctionTreeModel | GaussianTreeModel":
    """Returns the fitted model."""
    from jtsolve import __version__
    from jtsolve.models.columns import columns_of, read_codes
    from jtsolve.models.gaussian import fit_gaussian
    from jtsolve.models.learning.fit import fit as fit_tables
    from jtsolve.models.learning.fit import fit_validated
    from jtsolve.tables.table import DataTable

    remarks = {**table.provenance, **facts, "jtsolve": __version__}
    if not isinstance(table, DataTable):
        if task.validate is not None:
            raise ChoiceError("--validate is for models of states; give --smoothing A, or 0 for none")
        return fit_gaussian(tree, replace(table, provenance=remarks), ess=task.smoothing or 0.0)
    table = replace(table, provenance=remarks)
    if task.validate is not None:
        rows = read_codes(task.validate, columns_of(table), gaps=task.coding.gaps, header=task.header)
        return fit_validated(tree, table, rows)
    ess = task.smoothing if task.smoothing is not None else getattr(task.score, "ess", 1.0)
    return fit_tables(tree, table, ess=ess)


def _report(model: "AnyModel", table: "Table", output: Path, *, json: bool, quiet: bool) -> None:
    """Says what was fitted."""
    from jtsolve.cli.models import json_text
    from jtsolve.cli.models import table as text_table
    from jtsolve.models.mixture import Mixture

    trees = [one.tree for one in model.components] if isinstance(model, Mixture) else [model.tree]
    facts: dict[str, Any] = {"model": str(output), "rows": table.total, "variables": model.n}
    if isinstance(model, Mixture):
        facts |= {"components": len(trees), "weights": model.weights.tolist()}
    facts |= {
        "cliques": sum(len(tree.cliques) for tree in trees),
        "treewidth": max(tree.treewidth for tree in trees),
        "parameters": model.parameters,
        "smoothing_ess": model.provenance["smoothing_ess"],
    }
    for remark in ("stop", "sizes_tried"):
        if remark in model.provenance:
            facts[remark] = model.provenance[remark]
    if json:
        emit(json_text(facts))
    elif not quiet:
        rows = [[name.replace("_", " "), _words(name, fact)] for name, fact in facts.items()]
        emit(text_table(["fitted", ""], rows))


def _words(name: str, fact: Any) -> str:
    """Returns a fact as people read it."""
    if name == "weights":
        return ", ".join(f"{weight:.4g}" for weight in fact)
    if name == "stop" and fact != "finished":
        return f"{fact}: the best mixture so far"
    if name == "sizes_tried":
        return "; ".join(
            f"{size['components']}: {size['validation_log_likelihood']:.4f} nats per row" for size in fact
        )
    return str(fact)
