"""Views of results, models and mixtures, for `jtsolve show`."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.core.tree import JunctionTree
    from jtsolve.draw.text import Notes
    from jtsolve.models.framed import Model
    from jtsolve.models.goodness import Goodness
    from jtsolve.study.trees import NamedTree


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
        of_graph: whether these are of the graph of the variables; the picture may then be "html", too.
    """

    facts: Any
    text: Callable[[], str]
    tree: "Callable[[], tuple[JunctionTree, tuple[str, ...]]]"
    notes: "Notes | None"
    picture: Callable[[Path, str], None] | None = None
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


def of_model(found: "Model", name: str) -> View:
    """Returns the view of a model: its size, and notes on each clique and separator."""
    from jtsolve.draw.branching import branching_dot, draw_branching
    from jtsolve.models.views import model_text

    described = found.model.describe()
    single = described.trees[0][1] if len(described.trees) == 1 else None
    boxes = described.boxes[0] if described.boxes and not described.parts else None

    def picture(path: Path, kind: str) -> None:
        assert boxes is not None, "of a feature tree"
        draw_branching(boxes, path, format=kind)

    return View(
        {"model": name, **found.facts()},
        lambda: model_text(described, found.names, name),
        lambda: (found.model.structure("a drawing"), found.names),
        single,
        None if boxes is None else picture,
        None if boxes is None else lambda: branching_dot(boxes),
    )


def of_fit(
    path: Path, named: "NamedTree", goodness: "Goodness", posterior: Path | None, picture: str | None
) -> View:
    """Returns the view of the goodness of fit of a tree to data: figures, worst cells and edges.

    Args:
        path: of the result or model.
        named: its tree.
        goodness: of it.
        posterior: a posterior over the same variables, or None.
        picture: "mosaic:A,B", or None for the tree.

    Raises:
        ChoiceError: there is no such picture.
        InputError: the posterior is malformed, or over other variables.
    """
    from jtsolve.averaging.document import read_posterior
    from jtsolve.listing import table
    from jtsolve.study.edges import edge_frame
    from jtsolve.tables.frames import FrameStyle
    from jtsolve.tables.options import names_in

    subject, _, variables = (picture or "").partition(":")
    if picture is not None and (subject != "mosaic" or not variables):
        raise ChoiceError(
            f"--picture {picture}: of data there is mosaic:A,B, the counts of variables A and B"
        )
    probabilities = None if posterior is None else read_posterior(posterior)
    edges = edge_frame(named, FrameStyle(), None, goodness.table, probabilities)

    def text() -> str:
        rows = [
            [
                *row[:2],
                "yes" if row[2] else "no: in several cliques",
                *("" if isnan(x) else x for x in row[3:]),
            ]
            for row in edges.rows()
        ]
        return f"{goodness.text()}\n\n{table(edges.columns, rows)}"

    return View(
        {
            "name": path.name,
            **goodness.facts(),
            "residuals": goodness.residuals().to_dicts(),
            "edges": edges.to_dicts(),
        },
        text,
        lambda: (named.tree, named.names),
        None,
        None if picture is None else lambda target, kind: goodness.mosaic(target, names_in(variables), kind),
    )
