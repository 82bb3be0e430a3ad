"""`jtsolve check`: verifies a result, and its bound if there is a certificate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jtsolve.cli.options import (
    ConstraintOptions,
    Json,
    expand_option_groups,
    file_argument,
    file_option,
    flags_given,
)
from jtsolve.cli.output import FAULTY, emit, emit_json, print_faults
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.io.ranking import RankingDocument
    from jtsolve.io.result import ResultDocument


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
    if result is None:
        if certificate is not None:
            raise ChoiceError("a certificate proves a result; give INSTANCE RESULT")
        if given := flags_given(constrain):
            raise ChoiceError(f"{', '.join(given)}: for results only; give INSTANCE RESULT")
        _check_graph(instance, json=json)
        return

    from jtsolve.io.certificate import read_certificate
    from jtsolve.io.instance import read_problem
    from jtsolve.io.result import ResultDocument
    from jtsolve.verify.certificate import verify
    from jtsolve.verify.constraints import tightened
    from jtsolve.verify.ranking import check_ranking
    from jtsolve.verify.result import check as faults_of

    document = _read(result)
    problem = constrain.restrictions().on(read_problem(instance))
    if isinstance(document, ResultDocument):
        faults, status = faults_of(problem, document), document.status.value
    else:
        faults, status = check_ranking(problem, document), _status(document)
    print_faults(result, faults)
    if certificate is not None:
        found = verify(problem, document, read_certificate(certificate))
        wrong = tuple(fault for fault in found if fault not in faults)
        print_faults(certificate, wrong)
        faults += wrong
    tighter = () if faults else tightened(problem, document)
    if json:
        verdict = {"right": not faults, "faults": faults}
        if certificate is not None:
            verdict["bound_verified"] = not faults
        if tighter:
            verdict["tighter"] = tighter
        emit_json(verdict)
    elif not faults:
        what = "a bound is not verified by checking" if certificate is None else "the bound is verified"
        under = f" under a tighter {' and '.join(tighter)} than the instance's" if tighter else ""
        emit(f"{result}: right ({status}{under}; {what})")
    if faults:
        raise typer.Exit(FAULTY)


def _check_graph(path: Path, *, json: bool) -> None:
    """Checks the selection in a graph file."""
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
    if json:
        emit_json({"right": not faults, "faults": faults})
    elif document.selection is not None and not faults:
        emit(f"{path}: right ({len(document.edges)} edges in {len(document.selection.steps)} steps)")
    if faults:
        raise typer.Exit(FAULTY)


def _read(path: Path) -> "ResultDocument | RankingDocument":
    """Returns a result, or a ranking if the file begins as one."""
    from jtsolve.io.documents import format_of
    from jtsolve.io.ranking import FORMAT, read_ranking
    from jtsolve.io.result import read_result

    return read_ranking(path) if format_of(path) == FORMAT else read_result(path)


def _status(document: "RankingDocument") -> str:
    count = len(document.results)
    return f"{count} {'tree' if count == 1 else 'trees'}, {'' if document.complete else 'not '}complete"
