"""`jtsolve export`: a model in the formats of other programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jtsolve.cli import completion
from jtsolve.cli.options import Model
from jtsolve.cli.output import emit, require_writable
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.models.files.document import AnyModel

FORMATS = ("json", "bif", "bifxml", "uai", "td", "dot", "log-linear", "circuit")


def export(
    model: Model,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help=f"{', '.join(FORMATS)}.",
            autocompletion=completion.among(lambda: FORMATS),
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(readable=False, metavar="FILE", help="Write it here; default: print it.")
    ] = None,
    root: Annotated[
        int, typer.Option(metavar="N", min=1, help="For bif and bifxml: the root clique, counted from 1.")
    ] = 1,
    json: Annotated[
        bool, typer.Option("--json", help="Print the text and its format as JSON, and nothing else.")
    ] = False,
) -> None:
    """Write a model as a Bayesian network (bif, bifxml), a Markov network (uai), a tree (td, dot), or json.

    bif and bifxml replace characters in names that other programs cannot read; uai and td have no names.
    pyAgrum reads the numbers of bif and uai in single precision: use bifxml for it. A feature tree is also
    written as a list of weighted features (log-linear) or an arithmetic circuit; as bif, bifxml, uai or td it
    becomes one junction tree, which is refused with its size if that is too large.
    """
    if output is not None:
        require_writable(output, model)
    if to not in FORMATS:
        raise ChoiceError(f"there is no format '{to}'; there are {', '.join(FORMATS)}")

    from jtsolve.cli.models import json_text, load
    from jtsolve.core.files import write_atomically

    text = _writer(to, root - 1)(load(model))
    if output is not None:
        write_atomically(output, text.encode())
    if json:
        emit(json_text({"format": to, "file": None if output is None else str(output), "text": text}))
    elif output is None:
        emit(text.encode())


def _writer(to: str, root: int) -> "Callable[[AnyModel], str]":
    """Returns the function that writes a model in a format."""
    from jtsolve.cli.models import discrete, features, one_tree, without_contexts
    from jtsolve.draw.branching import branching_dot
    from jtsolve.draw.text import tree_dot
    from jtsolve.models.directed import to_network
    from jtsolve.models.features.export import boxes, circuit_text, log_linear_text
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.models.files.document import model_to_json
    from jtsolve.models.files.pace import to_pace
    from jtsolve.models.files.uai import to_uai
    from jtsolve.networks.write import to_bif, to_bifxml

    def dot(model: "AnyModel") -> str:
        if isinstance(model, FeatureTree):
            return branching_dot(boxes(model)) + "\n"
        return tree_dot(one_tree(model, "dot").tree, model.names) + "\n"

    writers: dict[str, Callable[[AnyModel], str]] = {
        "json": lambda model: model_to_json(model).decode(),
        "bif": lambda model: to_bif(to_network(discrete(without_contexts(model), "bif"), root)),
        "bifxml": lambda model: to_bifxml(to_network(discrete(without_contexts(model), "bifxml"), root)),
        "uai": lambda model: to_uai(discrete(without_contexts(model), "uai")),
        "td": lambda model: to_pace(one_tree(without_contexts(model), "td").tree),
        "dot": dot,
        "log-linear": lambda model: log_linear_text(features(model, "log-linear")),
        "circuit": lambda model: circuit_text(features(model, "circuit")),
    }
    return writers[to]
