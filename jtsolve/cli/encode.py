"""`jtsolve encode`: an instance as a file for an external solver."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli import completion
from jtsolve.cli.options import Instance, Treewidth
from jtsolve.core.formats import FORMULA
from jtsolve.core.outputs import claim_outputs


def encode(
    instance: Instance,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="wcnf, lp, mps or cpsat-proto.",
            autocompletion=completion.among(completion.formulas),
        ),
    ],
    output: Annotated[Path, typer.Option(readable=False, metavar="FILE", help="Write the formula here.")],
    treewidth: Treewidth = None,
) -> None:
    """Write an instance as a formula for a MaxSAT, integer-programming or constraint solver.

    'jtsolve decode' turns the solver's answer into a checked result.
    """
    from jtsolve.core.files import write_atomically
    from jtsolve.core.run import Limits
    from jtsolve.encodings.export import export, make_target
    from jtsolve.io.instance import read_problem

    target = make_target(to)
    claim_outputs(output, kind=FORMULA, to=target)
    problem = read_problem(instance).with_treewidth(treewidth).with_star()
    text = export(problem, target, Limits().memory_bytes)
    write_atomically(output, text.encode())
