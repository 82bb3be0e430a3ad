"""`jtsolve convert`: an instance in another format."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.output import require_writable


def convert(
    source: Annotated[Path, typer.Argument(readable=False, metavar="IN", help="The instance to read.")],
    target: Annotated[
        Path, typer.Argument(readable=False, metavar="OUT", help="The file to write; its ending says how.")
    ],
) -> None:
    """Write an instance in another format.

    The ending of a file tells its format.
    """
    require_writable(target, source)

    from jtsolve.instance import read_problem, write_problem

    write_problem(read_problem(source), target)
