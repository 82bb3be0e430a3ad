"""`jtsolve convert`: an instance in another format, and, if asked, without hopeless sets."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.output import require_writable


def convert(
    source: Annotated[Path, typer.Argument(readable=False, metavar="IN", help="The instance to read.")],
    target: Annotated[
        Path, typer.Argument(readable=False, metavar="OUT", help="The file to write; its ending says how.")
    ],
    prune_below: Annotated[
        float | None,
        typer.Option(
            metavar="SCORE",
            help="Leave out the sets that are provably in no tree of this score (nats) or a higher one: the "
            "score of a tree that is known, under the instance's constraints. Every tree worth it stays.",
        ),
    ] = None,
) -> None:
    """Write an instance in another format.

    The ending of a file tells its format.
    """
    require_writable(target, source)

    from jtsolve.io.instance import read_problem, write_problem

    problem = read_problem(source)
    if prune_below is not None:
        from jtsolve.core.pruning import prune

        problem = prune(problem, prune_below)
    write_problem(problem, target)
