"""What `jtsolve show` shows of a result, and of a model: its size and what passes its separators."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jtsolve.draw import Notes
    from jtsolve.models.gaussian import GaussianTreeModel
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tree import JunctionTree


@dataclass(frozen=True, slots=True)
class Portrait:
    """What can be shown.

    Attributes:
        facts: as JSON values.
        text: returns the text for people.
        tree: returns the tree and the names of its variables; raises InputError if there is none.
        notes: for the picture.
    """

    facts: Any
    text: Callable[[], str]
    tree: "Callable[[], tuple[JunctionTree, tuple[str, ...]]]"
    notes: "Notes | None"


def of_result(path: Path) -> Portrait:
    """Returns what a result says."""
    import json

    from jtsolve.cli.summary import describe
    from jtsolve.files import read_file
    from jtsolve.result import read_result, tree_of

    document = read_result(path)
    return Portrait(
        json.loads(read_file(path)),
        lambda: describe(document, str(path), {"backend": document.backend.name}),
        lambda: tree_of(document, str(path)),
        None,
    )


def of_model(model: "JunctionTreeModel | GaussianTreeModel", name: str) -> Portrait:
    """Returns the size of a model, and for each clique and separator what there is to say."""
    from jtsolve.draw import Notes, tree_text
    from jtsolve.models.gaussian import GaussianTreeModel

    tree = model.tree
    facts: dict[str, Any] = {
        "model": name,
        "variables": model.n,
        "cliques": len(tree.cliques),
        "treewidth": tree.treewidth,
        "parameters": model.parameters,
    }
    if isinstance(model, GaussianTreeModel):
        notes = None
        facts |= _gaussian_facts(model)
    else:
        more, notes = _discrete_facts(model)
        facts |= more
    facts["names"] = list(model.names)

    def text() -> str:
        from jtsolve.cli.models import table

        rows = [[key.replace("_", " "), fact] for key, fact in facts.items() if not isinstance(fact, list)]
        return f"{table(['', ''], rows)}\n\n{tree_text(tree, model.names, notes)}"

    return Portrait(
        facts,
        text,
        lambda: (tree, model.names),
        notes or Notes(("",) * len(tree.cliques), ("",) * len(tree.edges)),
    )


def _gaussian_facts(model: "GaussianTreeModel") -> dict[str, Any]:
    from jtsolve.models.gaussian_queries import gaussian_entropy

    return {"entropy_nats": gaussian_entropy(model)}


def _discrete_facts(model: "JunctionTreeModel") -> "tuple[dict[str, Any], Notes]":
    from jtsolve.draw import Notes
    from jtsolve.models.information import across_separators, entropy
    from jtsolve.varset import members

    across = across_separators(model)
    edges = []
    for (i, j), separator, passed in zip(model.tree.edges, model.tree.separators, across, strict=True):
        names = [model.columns[v].name for v in members(separator)]
        edges.append(
            {
                "cliques": [i, j],
                "separator": names,
                "entropy": passed.separator,
                "mutual_information": passed.neighbours,
            }
        )
    cells = [int(table.size) for table in model.tables]
    facts = {
        "entropy_nats": entropy(model),
        "cells": sum(cells),
        "tables": [
            {"clique": [model.columns[v].name for v in members(clique)], "cells": size}
            for clique, size in zip(model.tree.cliques, cells, strict=True)
        ],
        "separators": edges,
    }
    texts = [
        f"H {passed.separator:.3f}, I " + ("?" if passed.neighbours is None else f"{passed.neighbours:.3f}")
        for passed in across
    ]
    return facts, Notes(tuple(f"{size} cell{'s' * (size > 1)}" for size in cells), tuple(texts))
