"""`jtsolve check`: is a result right?"""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.output import FAULTY, complain, emit


def check(
    instance: Annotated[Path, typer.Argument(readable=False, metavar="INSTANCE", help="The instance file.")],
    result: Annotated[Path, typer.Argument(readable=False, metavar="RESULT", help="The result file.")],
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", readable=False, help="Verify the bound too, by this certificate."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the verdict as JSON, and nothing else.")
    ] = False,
) -> None:
    """Check a result against its instance.

    Verified are the tree, its score, the constraints, and that the claims agree with one another; with a
    certificate, as the backend clutter writes, also that no tree scores more than the bound.

    Exit code 0: it is right; 1: it is not, and every fault is named.
    """
    from jtsolve.certificate import verify
    from jtsolve.certificate_document import read_certificate
    from jtsolve.check import check as faults_of
    from jtsolve.instance import read_problem
    from jtsolve.result import read_result

    document = read_result(result)
    problem = read_problem(instance)
    faults = faults_of(problem, document)
    for fault in faults:
        complain(f"{result}: {fault}")
    if certificate is not None:
        wrong = verify(problem, document, read_certificate(certificate))
        for fault in wrong:
            complain(f"{certificate}: {fault}")
        faults += wrong
    if json:
        from json import dumps

        verdict = {"right": not faults, "faults": faults}
        if certificate is not None:
            verdict["bound_verified"] = not faults
        emit(dumps(verdict, indent=2, ensure_ascii=False))
    elif not faults:
        what = "a bound is not verified by checking" if certificate is None else "the bound is verified"
        emit(f"{result}: right ({document.status.value}; {what})")
    if faults:
        raise typer.Exit(FAULTY)
