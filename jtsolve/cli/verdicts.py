"""`jtsolve check`, `explain`: verdicts on results and on constraints."""

from pathlib import Path
from typing import Annotated, Any

import typer

from jtsolve.cli.options import (
    JSON,
    LIMITS,
    OF_TREE,
    Instance,
    Options,
    file_argument,
    file_option,
    with_options,
)
from jtsolve.cli.output import FAULTY, FOUND, INFEASIBLE, NO_TREE, print_faults
from jtsolve.core.formats import INSTANCE
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError
from jtsolve.options import BACKEND, SEED, TREEWIDTH


@with_options(*OF_TREE, JSON)
def check(
    *,
    instance: Annotated[Path, file_argument("INSTANCE", "The instance file; or a selected graph.")],
    result: Annotated[Path | None, file_argument("RESULT", "The result file.")] = None,
    certificate: Annotated[Path | None, file_option("Verify the bound, too, by this certificate.")] = None,
    options: Options,
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
        faults, right, facts = _of_result(instance, result, certificate, options)
    elif certificate is not None:
        raise ChoiceError("a certificate proves a result; give INSTANCE RESULT")
    elif given := options.flags(OF_TREE):
        raise ChoiceError(f"{', '.join(given)}: for results only; give INSTANCE RESULT")
    else:
        faults, right, facts = *_of_graph(instance), {}
    if options.json or not faults:
        options.show({"right": not faults, "faults": faults, **facts}, lambda: right)
    if faults:
        raise typer.Exit(FAULTY)


def _of_result(
    instance: Path, result: Path, certificate: Path | None, options: Options
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
    problem = options.restrictions().on(read_problem(instance))
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


@with_options(TREEWIDTH, BACKEND, *OF_TREE, *LIMITS, SEED, JSON)
def explain(
    *,
    instance: Instance,
    output: Annotated[
        Path | None,
        file_option("Write the problem under the conflict alone here, for 'solve --certificate' (.json)."),
    ] = None,
    options: Options,
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

    run, searcher = options.run(), backend_of(options.backend)
    problem = options.restrictions().on(read_problem(instance, run)).with_treewidth(options.treewidth)
    found = explained(problem, run, searcher)
    if output is not None and not found.is_feasible:
        from jtsolve.io.instance import write_problem

        write_problem(found.problem, output)
    options.show(found.to_document(), lambda: str(found))
    if not found.is_feasible:
        raise typer.Exit(INFEASIBLE)
    raise typer.Exit(FOUND if found.result is not None else NO_TREE)
