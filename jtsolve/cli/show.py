"""`jtsolve show`: a result as text, in the DOT language, or drawn."""

from pathlib import Path
from typing import Annotated

import typer

from jtsolve.cli.output import emit, require_writable


def show(
    result: Annotated[Path, typer.Argument(readable=False, metavar="RESULT", help="The result file.")],
    dot: Annotated[bool, typer.Option("--dot", help="Print the tree in the DOT language.")] = False,
    svg: Annotated[
        Path | None, typer.Option(readable=False, metavar="FILE", help="Draw the tree as SVG.")
    ] = None,
    png: Annotated[
        Path | None, typer.Option(readable=False, metavar="FILE", help="Draw the tree as PNG.")
    ] = None,
) -> None:
    """Show a result and its tree, or draw it."""
    for path in (svg, png):
        if path is not None:
            require_writable(path, result)

    from jtsolve.cli.summary import describe
    from jtsolve.result import read_result, tree_of

    document = read_result(result)
    if not (dot or svg or png):
        emit(describe(document, str(result), {"backend": document.backend.name}))
        return
    tree, names = tree_of(document, str(result))

    from jtsolve.draw import draw_tree, tree_dot

    if svg is not None:
        draw_tree(tree, names, svg, format="svg")
    if png is not None:
        draw_tree(tree, names, png, format="png")
    if dot:
        emit(tree_dot(tree, names))
