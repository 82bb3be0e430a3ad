"""Shared by the commands on models: reading models, parsing evidence, printing tables."""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtsolve.errors import ChoiceError, InputError

if TYPE_CHECKING:
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.models.files.document import AnyModel
    from jtsolve.models.gaussian import GaussianTreeModel
    from jtsolve.models.inference.evidence import Evidence
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.models.queries import StateModel
    from jtsolve.networks.network import Network


def load(path: Path) -> "AnyModel":
    """Returns the model in a file; a Bayesian network or a Markov network is triangulated by min-fill.

    Raises:
        InputError: the file cannot be read, or does not match its suffix.
        LimitError: the tables need more memory than there is.
    """
    from jtsolve.models.directed import from_network
    from jtsolve.models.files.opening import open_model
    from jtsolve.networks.network import Network

    found = open_model(path)
    return from_network(found) if isinstance(found, Network) else found


def one_tree(model: "AnyModel", what: str) -> "JunctionTreeModel | GaussianTreeModel":
    """Returns a model that is a junction tree.

    Raises:
        ChoiceError: it is a mixture, or a feature tree.
    """
    from jtsolve.models.features.tree import FeatureTree
    from jtsolve.models.mixture import Mixture

    if isinstance(model, FeatureTree):
        raise ChoiceError(
            f"{what} is for models of one junction tree, and this one is a feature tree, with "
            f"{len(model.leaves)} leaves; 'jtsolve export --to json' writes it as it is"
        )

    if isinstance(model, Mixture):
        raise ChoiceError(
            f"{what} is for models of one junction tree, and this one is a mixture: a sum of "
            f"{len(model.components)} trees has no junction tree; fit one without --components"
        )
    return model


def without_contexts(model: "AnyModel") -> "AnyModel":
    """Returns a feature tree as the same distribution on a junction tree; other models as they are.

    Raises:
        LimitError: its tables would be too large.
    """
    from jtsolve.models.features.convert import junction_tree
    from jtsolve.models.features.tree import FeatureTree

    return junction_tree(model) if isinstance(model, FeatureTree) else model


def discrete(model: "AnyModel", what: str) -> "JunctionTreeModel":
    """Returns a model of states that is a junction tree.

    Raises:
        ChoiceError: it is one of real numbers, or a mixture.
    """
    from jtsolve.models.model import JunctionTreeModel

    one = one_tree(model, what)
    if not isinstance(one, JunctionTreeModel):
        raise ChoiceError(
            f"{what} is for models of states, and this one is of real numbers; fit it with a score of states"
        )
    return one


def features(model: "AnyModel", what: str) -> "FeatureTree":
    """Returns a model that is a feature tree; a junction tree of states as its feature graph.

    Raises:
        ChoiceError: it is one of real numbers, or a mixture.
    """
    from jtsolve.models.features.convert import feature_graph
    from jtsolve.models.features.tree import FeatureTree

    return model if isinstance(model, FeatureTree) else feature_graph(discrete(model, what))


def pairs(texts: Sequence[str] | None, names: Sequence[str], option: str) -> dict[str, str]:
    """Returns the pairs in "A=x,B=y"; a comma that is not followed by "variable=" belongs to the state.

    Raises:
        InputError: a part is not NAME=VALUE, or a name is unknown or repeated.
    """
    parts: list[str] = []
    for text in texts or []:
        first = len(parts)
        for piece in text.split(","):
            if len(parts) > first and not any(piece.strip().startswith(f"{name}=") for name in names):
                parts[-1] += f",{piece}"
            else:
                parts.append(piece)
    found: dict[str, str] = {}
    for part in parts:
        name = next(
            (n for n in sorted(names, key=len, reverse=True) if part.strip().startswith(f"{n}=")), None
        )
        if name is None:
            raise InputError(
                option,
                f"'{part.strip()}'",
                "it does not begin with a variable of the model and '='",
                "write NAME=VALUE; 'jtsolve show MODEL' lists the variables",
            )
        if name in found:
            raise InputError(option, f"'{name}'", "it is given twice", "give it once")
        found[name] = part.strip()[len(name) + 1 :].strip()
    return found


def evidence(
    model: "StateModel | Network", given: Sequence[str] | None, likelihood: Sequence[str] | None
) -> "Evidence":
    """Returns hard and soft evidence.

    Raises:
        InputError: a name or state is unknown, a number is malformed, or a variable is in both.
    """
    found: dict[str, str | list[float]] = {**pairs(given, model.names, "--given")}
    for name, text in pairs(likelihood, model.names, "--likelihood").items():
        if name in found:
            raise InputError("--likelihood", f"'{name}'", "its state is given", "leave out one of the two")
        found[name] = [number(word, "--likelihood", name) for word in text.split(":")]
    return found


def numbers(
    model: "GaussianTreeModel", given: Sequence[str] | None, likelihood: Sequence[str] | None
) -> dict[str, float]:
    """Returns the evidence on real variables.

    Raises:
        ChoiceError: there is soft evidence.
        InputError: a name is unknown or repeated, or a number is malformed.
    """
    if likelihood:
        raise ChoiceError(
            "soft evidence is for models of states, and this one is of real numbers; drop --likelihood"
        )
    return {
        name: number(text, "--given", name) for name, text in pairs(given, model.names, "--given").items()
    }


def number(text: str, option: str, name: str) -> float:
    """Returns the number in a text.

    Raises:
        InputError: there is none.
    """
    try:
        return float(text)
    except ValueError:
        raise InputError(option, f"'{name}'", f"'{text}' is not a number", "write a number") from None


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> str:
    """Returns a table as text, with numbers right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    cells = [[_shown(cell) for cell in row] for row in rows]
    grid = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for k, heading in enumerate(headings):
        right = bool(cells) and all(_is_number(row[k]) for row in cells)
        grid.add_column(heading, justify="right" if right else "left", overflow="fold")
    for row in cells:
        grid.add_row(*(_printable(cell) for cell in row))
    stream = io.StringIO()
    widest = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    width = max(60, min(200, sum(widest) + 3 * len(headings)))
    Console(file=stream, width=width, highlight=False, markup=False, emoji=False).print(grid)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).strip("\n")


def _shown(cell: Any) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _printable(text: str) -> str:
    """Returns text with control characters escaped."""
    return text if text.isprintable() else ascii(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == ""
    return True


def json_text(value: Any) -> str:
    """Returns a value as JSON; numbers that are not finite become null."""
    from jtsolve.io.documents import json_value, lay_out

    return lay_out(json_value(value))
