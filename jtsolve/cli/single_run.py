"""`jtsolve run`: one run of a comparison, from specification to row; for batch systems."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.options import file_argument, file_option
from jtsolve.cli.output import emit
from jtsolve.core.formats import RESULT
from jtsolve.core.outputs import claim_outputs


def run(
    context: typer.Context,
    spec: Annotated[Path, file_argument("SPEC", "The run specification (JSON).")],
    row: Annotated[Path | None, typer.Argument(hidden=True)] = None,
    trace: Annotated[Path | None, typer.Argument(hidden=True)] = None,
    output: Annotated[Path | None, file_option("Write the row here; default: print it.")] = None,
    inside: Annotated[bool, typer.Option("--inside", hidden=True)] = False,
) -> None:
    """Do one run of a comparison within its limits, and print its row as JSON.

    'jtsolve compare --plan' writes specifications. A crash, a kill or a refusal is a row
    too: exit code 0.
    """
    from jtsolve.compare.spec import read_spec, to_json
    from jtsolve.core.files import write_atomically
    from jtsolve.errors import ChoiceError

    if inside:
        from jtsolve.compare.running.supervise import run_inside

        assert row is not None, "the supervisor gives both"
        assert trace is not None, "the supervisor gives both"
        run_inside(read_spec(spec), row, trace, context.obj)
        return
    if row is not None:
        raise ChoiceError(f"'{row}': 'jtsolve run' runs one specification; its row is written to --output")
    claim_outputs(output, kind=RESULT)

    from jtsolve.compare.running.supervise import supervise

    answer = supervise(read_spec(spec))
    assert answer is not None, "nothing cancels it here"
    if output is None:
        emit(to_json(answer))
    else:
        write_atomically(output, to_json(answer))
