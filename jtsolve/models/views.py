"""Models as text, and as pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.core.files import write_atomically
from jtsolve.core.formats import PICTURE
from jtsolve.draw.branching import branching_dot, branching_text
from jtsolve.draw.picture import draw_graph, draw_tree
from jtsolve.draw.text import tree_text
from jtsolve.listing import table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jtsolve.models.answers import Description
    from jtsolve.models.protocol import Distribution


def model_text(described: Description, names: Sequence[str], title: str | None = None) -> str:
    """Returns a model as text: its sizes, its parts, and its trees.

    Args:
        described: the model.
        names: of the variables.
        title: of the model, or None.
    """
    facts = {} if title is None else {"model": title}
    shown = {
        key.replace("_", " "): fact
        for key, fact in (facts | described.facts).items()
        if not isinstance(fact, list)
    }
    texts = ["\n".join([table(["", ""], list(shown.items())), *filter(None, [described.remark])])]
    if described.parts:
        plain = [
            {key: fact for key, fact in part.items() if not isinstance(fact, list)}
            for part in described.parts
        ]
        rows = [[k, *part.values()] for k, part in enumerate(plain, start=1)]
        texts.append(table(["component", *(key.replace("_", " ") for key in plain[0])], rows))
    drawn = [tree_text(tree, names, notes) for tree, notes in described.trees]
    drawn += [branching_text(boxes) for boxes in described.boxes]
    if described.parts:
        drawn = [f"component {k}\n{text}" for k, text in enumerate(drawn, start=1)]
    return "\n\n".join([*texts, *drawn])


def draw_model(model: Distribution, path: str | Path, *, graph: bool) -> None:
    """Draws a model, or the graph of its variables, into a file.

    A .dot file of a feature tree shows the splits; other pictures show the junction tree.

    Args:
        model: the distribution.
        path: the file to write, atomically.
        graph: whether to draw the graph of the variables instead of the tree.

    Raises:
        ChoiceError: the suffix is not that of a picture, or the model is a mixture, or too large for a
            picture.
    """
    kind = PICTURE.format_to_write(path)
    described = model.describe()
    if graph or kind == "html":
        draw_graph(model.structure("a drawing"), model.names, path)
    elif described.boxes and kind == "dot":
        write_atomically(path, branching_dot(described.boxes[0]).encode())
    else:
        notes = described.trees[0][1] if len(described.trees) == 1 else None
        draw_tree(model.structure("a drawing"), model.names, path, notes=notes)
