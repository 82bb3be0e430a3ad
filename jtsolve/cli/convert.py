"""`jtsolve convert`: an instance in another format, or as a formula for an external solver."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.options import Treewidth, file_argument
from jtsolve.core.formats import CONVERTED, FORMULA
from jtsolve.core.outputs import claim_outputs


def convert(
    source: Annotated[Path, file_argument("IN", "The instance to read.")],
    target: Annotated[Path, file_argument("OUT", "The file to write; its suffix selects the format.")],
    treewidth: Treewidth = None,
    prune_below: Annotated[
        float | None,
        typer.Option(
            metavar="SCORE",
            help="Leave out sets that are provably in no tree of at least this score (nats), that of a known "
            "tree that meets the instance's constraints. Every tree that reaches it stays.",
        ),
    ] = None,
) -> None:
    """Write an instance in another format, which the suffix of OUT selects.

    .json and .score are instances. .wcnf (weighted MaxSAT), .lp and .mps (integer programs) and .pbtxt (a
    model for CP-SAT) are formulas for a solver, whose answer 'jtsolve decode' turns into a checked result.
    """
    claim_outputs(target, kind=CONVERTED)

    from jtsolve.io.instance import read_problem, write_problem

    problem = read_problem(source).with_treewidth(treewidth)
    if prune_below is not None:
        from jtsolve.core.pruning import prune

        problem = prune(problem, prune_below).problem
    if (to := CONVERTED.format_to_write(target)) not in FORMULA.formats:
        write_problem(problem, target)
        return
    from jtsolve.core.files import write_atomically
    from jtsolve.core.run import Limits
    from jtsolve.encodings.formats import export

    write_atomically(target, export(problem.with_star(), to, Limits().memory_bytes).encode())
