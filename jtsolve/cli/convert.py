"""`jtsolve convert`: an instance in another format, optionally pruned."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.core.formats import INSTANCE
from jtsolve.core.outputs import claim_outputs


def convert(
    source: Annotated[Path, typer.Argument(readable=False, metavar="IN", help="The instance to read.")],
    target: Annotated[
        Path,
        typer.Argument(
            readable=False, metavar="OUT", help="The file to write; its suffix selects the format."
        ),
    ],
    prune_below: Annotated[
        float | None,
        typer.Option(
            metavar="SCORE",
            help="Leave out sets that are provably in no tree of at least this score (nats), that of a known "
            "tree that meets the instance's constraints. Every tree that reaches it stays.",
        ),
    ] = None,
) -> None:
    """Write an instance in another format, which the suffix of OUT selects."""
    claim_outputs(target, kind=INSTANCE)

    from jtsolve.io.instance import read_problem, write_problem

    problem = read_problem(source)
    if prune_below is not None:
        from jtsolve.core.pruning import prune

        problem = prune(problem, prune_below).problem
    write_problem(problem, target)
