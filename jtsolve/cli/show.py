"""`jtsolve show`: a result or a model as text, in the DOT language, or drawn."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jtsolve.cli.output import emit, require_writable

if TYPE_CHECKING:
    from jtsolve.cli.views import Portrait


def show(
    result: Annotated[
        Path,
        typer.Argument(
            readable=False, metavar="RESULT", help="A result, a model, or a network (.bif, .uai)."
        ),
    ],
    dot: Annotated[bool, typer.Option("--dot", help="Print the tree in the DOT language.")] = False,
    svg: Annotated[
        Path | None, typer.Option(readable=False, metavar="FILE", help="Draw the tree as SVG.")
    ] = None,
    png: Annotated[
        Path | None, typer.Option(readable=False, metavar="FILE", help="Draw the tree as PNG.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what is known as JSON.")] = False,
) -> None:
    """Show a result or a model and its tree, or draw it.

    Of a model are shown the size of each table; for each separator S its entropy H, in nats, which is what
    the two sides of the tree tell one another, and the mutual information I of its two cliques' other
    members. Of a mixture are shown the weights and the components' trees; there is no one tree to draw. Of
    the results of solve --k-best are shown all scores, and the best tree.
    """
    for path in (svg, png):
        if path is not None:
            require_writable(path, result)
    portrait = _portrait(result)
    if json:
        from jtsolve.cli.models import json_text

        emit(json_text(portrait.facts))
    if not (dot or svg or png or json):
        emit(portrait.text())
    if not (dot or svg or png):
        return

    from jtsolve.draw import draw_tree, tree_dot

    tree, names = portrait.tree()
    if svg is not None:
        draw_tree(tree, names, svg, format="svg", notes=portrait.notes)
    if png is not None:
        draw_tree(tree, names, png, format="png", notes=portrait.notes)
    if dot:
        emit(tree_dot(tree, names, portrait.notes))


def _portrait(path: Path) -> "Portrait":
    """Returns what is to be shown of a file."""
    from jtsolve.cli.views import of_model, of_ranking, of_result
    from jtsolve.core.files import read_file

    kind = path.name.removesuffix(".gz").rpartition(".")[2].lower()
    # Model files say what they are at once; whatever is wrong is found when they are read.
    beginning = read_file(path)[:200]
    if kind in ("bif", "uai") or b'"jtsolve-model"' in beginning:
        from jtsolve.cli.models import load

        return of_model(load(path), path.name)
    if b'"jtsolve-results"' in beginning:
        return of_ranking(path)
    return of_result(path)
