"""Views of results, models and mixtures, for `jtsolve show`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from jtsolve.core.tree import JunctionTree
    from jtsolve.draw.text import Notes
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.models.files.document import AnyModel
    from jtsolve.models.gaussian import GaussianTreeModel
    from jtsolve.models.mixture import Mixture
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.networks.network import Network


@dataclass(frozen=True, slots=True)
class View:
    """The ways to show a file.

    Attributes:
        facts: as JSON values.
        text: returns the text for people.
        tree: returns the tree and the names of its variables; raises a `JtsolveError` if there is none.
        notes: for the picture.
        picture: draws something else than the tree, given a file and "svg" or "png"; or None.
        dot: returns something else than the tree in the DOT language; or None.
        of_graph: whether these are of the graph of the variables.
    """

    facts: Any
    text: Callable[[], str]
    tree: "Callable[[], tuple[JunctionTree, tuple[str, ...]]]"
    notes: "Notes | None"
    picture: 'Callable[[Path, Literal["svg", "png"]], None] | None' = None
    dot: Callable[[], str] | None = None
    of_graph: bool = False


def of_result(path: Path) -> View:
    """Returns the view of a result file."""
    import json

    from jtsolve.cli.summary import describe
    from jtsolve.core.files import read_file
    from jtsolve.io.result import read_result, tree_of

    document = read_result(path)
    return View(
        json.loads(read_file(path)),
        lambda: describe(document, str(path), {"backend": document.backend.name}),
        lambda: tree_of(document, str(path)),
        None,
    )


def of_ranking(path: Path) -> View:
    """Returns the view of a results file; its tree is the best one."""
    import json

    from jtsolve.cli.summary import describe_ranking
    from jtsolve.core.files import read_file
    from jtsolve.errors import InputError
    from jtsolve.io.ranking import read_ranking
    from jtsolve.io.result import tree_of

    document = read_ranking(path)

    def best() -> "tuple[JunctionTree, tuple[str, ...]]":
        if not document.results:
            raise InputError(str(path), "$.results", "there is no tree", "give results with one")
        return tree_of(document.results[0], str(path))

    return View(
        json.loads(read_file(path)),
        lambda: describe_ranking(document, str(path), {"backend": document.backend.name}),
        best,
        None,
    )


MOST_CELLS = 1 << 22
"""Cells of the tables of a network that are built to show it: a second, and 170 MB."""


def of_model(model: "AnyModel | Network", name: str) -> View:
    """Returns the view of a model: its size, and notes on each clique and separator."""
    from jtsolve.draw.text import Notes, tree_text
    from jtsolve.models.directed import from_network, moral_tree
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.models.gaussian import GaussianTreeModel
    from jtsolve.models.layout import table_cells
    from jtsolve.models.mixture import Mixture
    from jtsolve.networks.network import Network

    if isinstance(model, Network):
        structure = moral_tree(model)
        if table_cells(structure, model.arities) > MOST_CELLS:
            return _of_structure(model, structure, name)
        model = from_network(model)
    if isinstance(model, Mixture):
        return _of_mixture(model, name)
    if isinstance(model, FeatureTree):
        return _of_features(model, name)
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

    return View(
        facts,
        text,
        lambda: (tree, model.names),
        notes or Notes(("",) * len(tree.cliques), ("",) * len(tree.edges)),
    )


def _of_structure(network: "Network", tree: "JunctionTree", name: str) -> View:
    """Returns the view of a network whose tables are too large to build: its size, and a junction tree."""
    from math import prod

    from jtsolve.cli.models import table
    from jtsolve.core.varset import members
    from jtsolve.draw.text import Notes, tree_text

    cells = [prod(network.arities[v] for v in members(clique)) for clique in tree.cliques]
    facts: dict[str, Any] = {
        "model": name,
        "variables": len(network.nodes),
        "arcs": network.arc_count,
        "parameters": network.parameter_count,
        "cliques": len(tree.cliques),
        "treewidth": tree.treewidth,
        "cells": sum(cells),
    }
    notes = Notes(tuple(f"{size} cell{'s' * (size > 1)}" for size in cells), ("",) * len(tree.edges))

    def text() -> str:
        rows = [[key, fact] for key, fact in facts.items()]
        why = "The tables of the junction tree are too large to build for a picture: no entropies."
        return f"{table(['', ''], rows)}\n{why}\n\n{tree_text(tree, network.names, notes)}"

    return View({**facts, "names": list(network.names)}, text, lambda: (tree, network.names), notes)


def _of_features(model: "FeatureTree", name: str) -> View:
    """Returns the view of a feature tree: its size, and its nodes; its graph is that of a junction tree."""
    from jtsolve.cli.models import one_tree, table, without_contexts
    from jtsolve.draw.branching import branching_dot, branching_text, draw_branching
    from jtsolve.models.features.export import boxes
    from jtsolve.models.features.queries import entropy

    facts: dict[str, Any] = {
        "model": name,
        "variables": model.n,
        "splits": len(model.splits),
        "leaves": len(model.leaves),
        "a_nodes": model.a_nodes,
        "longest_path": model.longest_path,
        "cells": model.cells,
        "parameters": model.parameters,
        "entropy_nats": entropy(model),
    }

    def text() -> str:
        rows = [[key.replace("_", " "), fact] for key, fact in facts.items()]
        return f"{table(['', ''], rows)}\n\n{branching_text(boxes(model))}"

    def picture(path: Path, kind: 'Literal["svg", "png"]') -> None:
        draw_branching(boxes(model), path, format=kind)

    return View(
        {**facts, "names": list(model.names)},
        text,
        lambda: (one_tree(without_contexts(model), "a drawing").tree, model.names),
        None,
        picture,
        lambda: branching_dot(boxes(model)),
    )


def _of_mixture(mixture: "Mixture", name: str) -> View:
    """Returns the view of a mixture: its size, the weights, the components' trees and table sizes."""
    from jtsolve.cli.models import one_tree, table
    from jtsolve.draw.text import tree_text

    if mixture.feature_trees:
        return _of_feature_mixture(mixture, name)
    components = [
        {
            "weight": weight,
            "cliques": len(one.tree.cliques),
            "treewidth": one.tree.treewidth,
            "parameters": one.parameters,
        }
        for weight, one in zip(mixture.weights.tolist(), mixture.junction_trees, strict=True)
    ]
    facts: dict[str, Any] = {
        "model": name,
        "variables": mixture.n,
        "components": len(components),
        "treewidth": max(one.tree.treewidth for one in mixture.junction_trees),
        "parameters": mixture.parameters,
    }
    parts = [_discrete_tables(one) for one in mixture.junction_trees]
    more = [{**entry, **tables} for entry, (tables, _) in zip(components, parts, strict=True)]

    def text() -> str:
        size = table(["", ""], [[key, fact] for key, fact in facts.items()])
        rows = [[k, *entry.values()] for k, entry in enumerate(components, start=1)]
        weights = table(["component", *components[0]], rows)
        trees = [
            f"component {k}\n{tree_text(one.tree, one.names, notes)}"
            for k, (one, (_, notes)) in enumerate(zip(mixture.junction_trees, parts, strict=True), start=1)
        ]
        return "\n\n".join([size, weights, *trees])

    return View(
        {**facts, "parts": more, "names": list(mixture.names)},
        text,
        lambda: (one_tree(mixture, "a drawing").tree, mixture.names),
        None,
    )


def _of_feature_mixture(mixture: "Mixture", name: str) -> View:
    """Returns the view of a mixture of feature trees: its size, the weights, and the trees."""
    from jtsolve.cli.models import one_tree, table
    from jtsolve.draw.branching import branching_text
    from jtsolve.models.features.export import boxes

    trees = mixture.feature_trees
    parts = [
        {"weight": weight, "splits": len(one.splits), "leaves": len(one.leaves), "parameters": one.parameters}
        for weight, one in zip(mixture.weights.tolist(), trees, strict=True)
    ]
    facts: dict[str, Any] = {
        "model": name,
        "variables": mixture.n,
        "components": len(trees),
        "parameters": mixture.parameters,
    }

    def text() -> str:
        size = table(["", ""], [[key, fact] for key, fact in facts.items()])
        weights = table(
            ["component", *parts[0]], [[k, *one.values()] for k, one in enumerate(parts, start=1)]
        )
        drawn = [f"component {k}\n{branching_text(boxes(one))}" for k, one in enumerate(trees, start=1)]
        return "\n\n".join([size, weights, *drawn])

    return View(
        {**facts, "parts": parts, "names": list(mixture.names)},
        text,
        lambda: (one_tree(mixture, "a drawing").tree, mixture.names),
        None,
    )


def _discrete_tables(model: "JunctionTreeModel") -> "tuple[dict[str, Any], Notes]":
    """Returns facts and notes on the size of each clique's table."""
    from jtsolve.core.varset import members
    from jtsolve.draw.text import Notes

    cells = [int(table.size) for table in model.tables]
    tables = [
        {"clique": [model.columns[v].name for v in members(clique)], "cells": size}
        for clique, size in zip(model.tree.cliques, cells, strict=True)
    ]
    sizes = tuple(f"{size} cell{'s' * (size > 1)}" for size in cells)
    return {"cells": sum(cells), "tables": tables}, Notes(sizes, ("",) * len(model.tree.edges))


def _gaussian_facts(model: "GaussianTreeModel") -> dict[str, Any]:
    from jtsolve.models.inference.gaussian import gaussian_entropy

    return {"entropy_nats": gaussian_entropy(model)}


def _discrete_facts(model: "JunctionTreeModel") -> "tuple[dict[str, Any], Notes]":
    from jtsolve.core.varset import members
    from jtsolve.models.inference.information import across_separators, entropy

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
    tables, notes = _discrete_tables(model)
    facts = {"entropy_nats": entropy(model), **tables, "separators": edges}
    texts = [
        f"H {passed.separator:.3f}, I " + ("?" if passed.neighbours is None else f"{passed.neighbours:.3f}")
        for passed in across
    ]
    return facts, replace(notes, separators=tuple(texts))
