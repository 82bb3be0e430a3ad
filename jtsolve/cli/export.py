"""`jtsolve export`: a model in the formats of other programs."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli import completion
from jtsolve.cli.options import Model, TableMemory, file_option, limit_tables
from jtsolve.cli.output import emit
from jtsolve.core.formats import MODEL
from jtsolve.core.outputs import claim_outputs
from jtsolve.errors import ChoiceError


def export(
    model: Model,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help=f"{', '.join(MODEL.formats)}; default: that of the name of --output.",
            autocompletion=completion.complete_from(lambda: MODEL.formats),
        ),
    ] = None,
    output: Annotated[Path | None, file_option("Write it here; default: print it.")] = None,
    root: Annotated[
        int, typer.Option(metavar="N", min=1, help="For bif and bifxml: the root clique, counted from 1.")
    ] = 1,
    memory_limit: TableMemory = None,
) -> None:
    """Write a model as a Bayesian network (bif, bifxml), a Markov network (uai), a tree (td, dot), or json.

    bif has only words as names: others are replaced, with a warning, and kept as properties, from which
    jtsolve restores them; bifxml keeps all names; uai and td have none. pyAgrum reads the numbers of bif and
    uai in single precision: use bifxml for it. As bif, bifxml, uai or td, a feature tree becomes one junction
    tree, which is refused with its size if that is too large.
    """
    if to is not None:
        MODEL.require(to)
    if output is not None:
        to = MODEL.format_to_write(output, to)
        claim_outputs(output)
    if to is None:
        raise ChoiceError(
            f"name the format to print: --to {'|'.join(MODEL.formats)}; or give an --output with its suffix"
        )

    from jtsolve.core.files import write_atomically
    from jtsolve.models.framed import Model as Framed

    limit_tables(memory_limit)
    text = Framed.read(model).export(to, root - 1)
    if output is not None:
        write_atomically(output, text.encode())
    else:
        emit(text.encode())
