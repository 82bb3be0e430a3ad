"""`jtsolve check`, `explain`, `recommend`: verdicts on results, on constraints, and on backends."""

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import (
    BackendName,
    ConstraintOptions,
    Instance,
    Json,
    LimitOptions,
    Seed,
    Treewidth,
    expand_option_groups,
    file_argument,
    file_option,
    flags_given,
)
from jtsolve.cli.output import FAULTY, FOUND, INFEASIBLE, NO_TREE, emit, emit_json, print_faults
from jtsolve.core.formats import INSTANCE
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.options import BACKEND

if TYPE_CHECKING:
    from jtsolve.backends.clutter.backend import ProofForecast


@expand_option_groups
def check(
    *,
    instance: Annotated[Path, file_argument("INSTANCE", "The instance file; or a selected graph.")],
    result: Annotated[Path | None, file_argument("RESULT", "The result file.")] = None,
    certificate: Annotated[Path | None, file_option("Verify the bound, too, by this certificate.")] = None,
    constrain: ConstraintOptions,
    json: Json = False,
) -> None:
    """Check a result, or the results of solve --k-best, against its instance; or a selected graph alone.

    Verifies the tree, its score, the constraints, and that the claims agree; with a certificate, as 'solve
    --certificate' writes it, also that no tree, or no other one, scores more than the bound. A result of
    solve --forbid A,B is checked with --forbid A,B; so are the other constraint options. Of a graph of
    'jtsolve select': that every edge of the superset is decided once, and from columns that suffice.

    Exit code 0: the result is right; 1: it is not, and every fault is named.
    """
    facts: dict[str, Any]
    if result is not None:
        faults, right, facts = _of_result(instance, result, certificate, constrain)
    elif certificate is not None:
        raise ChoiceError("a certificate proves a result; give INSTANCE RESULT")
    elif given := flags_given(constrain):
        raise ChoiceError(f"{', '.join(given)}: for results only; give INSTANCE RESULT")
    else:
        faults, right, facts = *_of_graph(instance), {}
    if json:
        emit_json({"right": not faults, "faults": faults, **facts})
    elif not faults:
        emit(right)
    if faults:
        raise typer.Exit(FAULTY)


def _of_result(
    instance: Path, result: Path, certificate: Path | None, constrain: ConstraintOptions
) -> tuple[tuple[str, ...], str, dict[str, Any]]:
    """Returns the faults of a result, or results, after printing them; the words without any; and facts."""
    from jtsolve.io.certificate import read_certificate
    from jtsolve.io.documents import format_of
    from jtsolve.io.instance import read_problem
    from jtsolve.io.ranking import FORMAT, RankingDocument, read_ranking
    from jtsolve.io.result import ResultDocument, read_result
    from jtsolve.verify.certificate import verify
    from jtsolve.verify.constraints import tightened
    from jtsolve.verify.ranking import check_ranking
    from jtsolve.verify.result import check as faults_of

    document: ResultDocument | RankingDocument
    document = read_ranking(result) if format_of(result) == FORMAT else read_result(result)
    problem = constrain.restrictions().on(read_problem(instance))
    if isinstance(document, ResultDocument):
        faults, status = faults_of(problem, document), document.status.value
    else:
        faults, count = check_ranking(problem, document), len(document.results)
        status = f"{count} tree{'s' * (count != 1)}, {'' if document.complete else 'not '}complete"
    print_faults(result, faults)
    bound, facts = "a bound is not verified by checking", dict[str, Any]()
    if certificate is not None:
        found = verify(problem, document, read_certificate(certificate))
        wrong = tuple(fault for fault in found if fault not in faults)
        print_faults(certificate, wrong)
        faults += wrong
        bound, facts = "the bound is verified", {"bound_verified": not faults}
    under = ""
    if tighter := () if faults else tightened(problem, document):
        facts["tighter"] = tighter
        under = f" under a tighter {' and '.join(tighter)} than the instance's"
    return faults, f"{result}: right ({status}{under}; {bound})", facts


def _of_graph(path: Path) -> tuple[tuple[str, ...], str]:
    """Returns the faults of the selection in a graph file, after printing them, and the words without any."""
    from jtsolve.io.documents import format_of
    from jtsolve.io.graph import FORMAT, read_document
    from jtsolve.verify.selection import check_selection

    if format_of(path) != FORMAT:
        raise ChoiceError(
            f"{path} is not a graph of 'jtsolve select'; to check a result, give INSTANCE RESULT"
        )
    document = read_document(path)
    faults = check_selection(document)
    print_faults(path, faults)
    steps = 0 if document.selection is None else len(document.selection.steps)
    return faults, f"{path}: right ({len(document.edges)} edges in {steps} steps)"


@expand_option_groups
def explain(
    context: typer.Context,
    *,
    instance: Instance,
    treewidth: Treewidth = None,
    backend: BackendName = BACKEND.default,
    constrain: ConstraintOptions,
    spend: LimitOptions,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        file_option("Write the problem under the conflict alone here, for 'solve --certificate' (.json)."),
    ] = None,
    json: Json = False,
) -> None:
    """Explain why no tree meets the constraints, or the cost of each of them.

    Without a tree: a minimal conflict. Its constraints together exclude every tree, and without any one of
    them there is a tree. With a tree: the score of the best tree without the constraint minus that with it.
    Limits end the search with the smallest conflict so far. 'jtsolve score' turns data into an instance.

    Exit codes: 0 there is a tree; 3 there is none; 4 the limits ended the search for one.
    """
    claim_outputs(output, kind=INSTANCE)
    from jtsolve.conflict import explained
    from jtsolve.io.instance import read_problem
    from jtsolve.study.arguments import backend_of

    run, searcher = spend.run(context.obj, seed, silent=json), backend_of(backend)
    problem = constrain.restrictions().on(read_problem(instance, run)).with_treewidth(treewidth)
    found = explained(problem, run, searcher)
    if output is not None and not found.is_feasible:
        from jtsolve.io.instance import write_problem

        write_problem(found.problem, output)
    if json:
        emit_json(found.to_document())
    else:
        emit(str(found))
    if not found.is_feasible:
        raise typer.Exit(INFEASIBLE)
    raise typer.Exit(FOUND if found.result is not None else NO_TREE)


@expand_option_groups
def recommend(
    context: typer.Context,
    *,
    instance: Instance,
    treewidth: Treewidth = None,
    spend: LimitOptions,
    json: Json = False,
) -> None:
    """Recommend a backend: predicted time and memory of each, objections, and the choice of auto.

    Nothing is solved; a quick tree and a first bound predict the time of a proof, within a few seconds. Exit
    code 4: no backend accepts the instance within the limits.
    """
    from jtsolve.io.instance import read_problem
    from jtsolve.listing import table
    from jtsolve.solving import advise, choose_backend, forecast_of

    run = spend.run(context.obj)
    problem = read_problem(instance, run).with_treewidth(treewidth)
    advice, forecast = advise(problem.with_star(), run.limits), forecast_of(problem, run)
    chosen: str | None = None
    refusals: tuple[str, ...] = ()
    try:
        choice = choose_backend(problem, run, forecast=forecast)
        chosen, reason, refusals = choice.backend.name, choice.reason, choice.refusals
    except LimitError as error:
        reason = str(error)
    bound = problem.constraints.max_treewidth
    if json:
        facts = {
            "instance": problem.name,
            "n": problem.n,
            "treewidth": bound,
            "auto": chosen,
            "reason": reason,
            "not_taken": refusals,
            "first_ascent": None if forecast is None else forecast._asdict(),
            "backends": advice,
        }
        emit_json(facts)
    else:
        width = "" if bound is None else f", treewidth {bound}"
        rows = [
            [
                "*" * (one["name"] == chosen),
                one["name"],
                "exact" if one["exact"] else "heuristic",
                "" if one["seconds"] is None else f"{one['seconds']:.3g}",
                "" if one["memory"] is None else f"{one['memory'] / 1e9:.3g}",
            ]
            for one in advice
        ]
        title = f"{problem.name or '(without a name)'}: {problem.n} variables{width}\n"
        emit(table(["", "backend", "kind", "seconds", "GB"], rows, title=title))
        emit("\n".join(["", reason, *refusals, *([] if forecast is None else [_forecast_text(forecast)])]))
    if chosen is None:
        raise typer.Exit(NO_TREE)


def _forecast_text(forecast: "ProofForecast") -> str:
    """Returns a forecast of a proof as a sentence."""
    if forecast.left == 0:
        return "A quick tree and the first bound meet: the problem is as good as solved."
    gap = "there is no tree yet" if forecast.gap == inf else f"a gap of {forecast.gap:.4g} nats is left"
    return (
        f"After a quick tree and the first bound, {forecast.left:,} of {forecast.families:,} families may be "
        f"in better trees; {gap}: a proof may need about {forecast.seconds:.2g} s, less from a better one."
    )
