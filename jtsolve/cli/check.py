"""`jtsolve check`: is a result right?"""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.output import FAULTY, complain, emit


def check(
    instance: Annotated[Path, typer.Argument(readable=False, metavar="INSTANCE", help="The instance file.")],
    result: Annotated[Path, typer.Argument(readable=False, metavar="RESULT", help="The result file.")],
    json: Annotated[
        bool, typer.Option("--json", help="Print the verdict as JSON, and nothing else.")
    ] = False,
) -> None:
    """Check a result against its instance.

    Verified are the tree, its score, the constraints, and that the claims agree with one another.

    Exit code 0: it is right; 1: it is not, and every fault is named.
    """
    from jtsolve.check import check as faults_of
    from jtsolve.instance import read_problem
    from jtsolve.result import read_result

    document = read_result(result)
    faults = faults_of(read_problem(instance), document)
    for fault in faults:
        complain(f"{result}: {fault}")
    if json:
        from json import dumps

        emit(dumps({"right": not faults, "faults": faults}, indent=2, ensure_ascii=False))
    elif not faults:
        emit(f"{result}: right ({document.status.value}; a bound is not verified by checking)")
    if faults:
        raise typer.Exit(FAULTY)
