"""`jtsolve decode`: a checked result from the answer of an external solver."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.options import Instance, Json, ResultFile, file_argument
from jtsolve.cli.output import emit
from jtsolve.core.formats import RESULT
from jtsolve.core.outputs import claim_outputs

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend
    from jtsolve.encodings.answers import SolverAnswer


def decode(
    context: typer.Context,
    instance: Instance,
    model: Annotated[Path, file_argument("MODEL", "The solution that the solver wrote.")],
    treewidth: Annotated[
        int | None, typer.Option(metavar="K", min=0, help="The treewidth that was encoded.")
    ] = None,
    output: ResultFile = None,
    json: Json = False,
) -> None:
    """Turn a solver's answer to a formula of 'jtsolve convert' into a result.

    MODEL has v lines of a MaxSAT solver, a solution of HiGHS, CBC or SCIP, or lines of a name and a value.
    The tree is checked and its score computed from the instance; the bound is our own, not the solver's.
    """
    claim_outputs(output, kind=RESULT)

    from jtsolve.cli.summary import result_text
    from jtsolve.core.files import read_file, write_atomically
    from jtsolve.core.run import Limits, Run
    from jtsolve.encodings.answers import read_answer
    from jtsolve.errors import InputError, InternalError
    from jtsolve.io.instance import read_problem
    from jtsolve.io.result import result_to_document, result_to_json
    from jtsolve.solving import solve

    run = Run(Limits(threads=1, started=context.obj))
    problem = read_problem(instance).with_treewidth(treewidth)
    answer = read_answer(read_file(model), problem.with_star().n, str(model))
    try:
        result = solve(problem, _outside(answer), run)
    except InternalError as error:  # a fault found by the check is the file's here, not ours
        remedy = "solve the formula of this instance by 'jtsolve convert', with the same constraints"
        raise InputError(str(model), "", str(error), remedy) from None
    if output is not None:
        write_atomically(output, result_to_json(result))
    if json:
        emit(result_to_json(result))
    else:
        emit(result_text(result_to_document(result), "the result", {"answer": f"{model} ({answer.kind})"}))


def _outside(answer: "SolverAnswer") -> "Backend":
    """Returns a backend with a given answer: `solve` computes score and bound, and checks it."""
    from jtsolve.backends.support.starts import KnownTree
    from jtsolve.core.result import Outcome

    class Outside(KnownTree):
        name = "outside"

        def solve(self, *_: Any) -> Outcome:
            return Outcome(self.tree, stats={"kind": answer.kind})

    return Outside(answer.tree)
