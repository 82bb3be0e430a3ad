"""`jtsolve encode`: an instance as a file for an outside solver."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.output import require_writable


def encode(
    instance: Annotated[Path, typer.Argument(readable=False, metavar="INSTANCE", help="The instance file.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="wcnf, cpsat-proto (imset formulation); wcnf-family, lp, mps (family formulation).",
        ),
    ],
    output: Annotated[Path, typer.Option(readable=False, metavar="FILE", help="Write the formula here.")],
    treewidth: Annotated[
        int | None, typer.Option(metavar="K", min=0, help="Largest clique size minus one.")
    ] = None,
) -> None:
    """Write an instance as a formula for a MaxSAT, integer-programming or constraint solver.

    'jtsolve decode' makes a checked result of the solver's answer.
    """
    require_writable(output, instance)

    from jtsolve.core.backend import Limits
    from jtsolve.core.files import write_atomically
    from jtsolve.encodings.export import export, make_target
    from jtsolve.io.instance import read_problem

    target = make_target(to)
    problem = read_problem(instance).with_treewidth(treewidth)
    text = export(problem, target, Limits().memory_bytes)
    write_atomically(output, text.encode())
