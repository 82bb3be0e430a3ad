"""`jtsolve backends`, `scores`, `models`, `methods`: the values to choose from, and their options."""

from collections.abc import Callable
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from jtsolve.cli import completion
from jtsolve.cli.options import Json
from jtsolve.cli.output import emit

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend
    from jtsolve.core.choices import Option, Registry

T = TypeVar("T")

_WIDTH = 100


def backends(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Explain the options of one backend.",
            autocompletion=completion.among(completion.backends),
        ),
    ] = None,
    *,
    json: Json = False,
) -> None:
    """List the backends with their limits, or explain the options of one."""
    from jtsolve.backends.registry import REGISTRY

    _show(REGISTRY, name, json, _backend_facts, _backend_words)


def scores(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Explain the options of one score.",
            autocompletion=completion.among(completion.scores),
        ),
    ] = None,
    *,
    json: Json = False,
) -> None:
    """List the scores, or explain the options of one."""
    from jtsolve.scoring.registry import REGISTRY

    _show(REGISTRY, name, json, lambda _: {}, lambda _: ("", []))


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Explain the options of one kind.",
            autocompletion=completion.among(completion.models),
        ),
    ] = None,
    *,
    json: Json = False,
) -> None:
    """List the kinds of models that 'jtsolve fit --model' takes, or explain the options of one."""
    from jtsolve.study.kinds import MODELS

    _show(MODELS, name, json, lambda _: {}, lambda _: ("", []))


def methods(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Explain the options of one method.",
            autocompletion=completion.among(completion.methods),
        ),
    ] = None,
    *,
    json: Json = False,
) -> None:
    """List the methods of 'jtsolve average', or explain the options of one."""
    from jtsolve.study.averaging import METHODS

    _show(METHODS, name, json, lambda _: {}, lambda _: ("", []))


def _show(
    registry: "Registry[T]",
    name: str | None,
    json: bool,  # noqa: FBT001 - the flag of the commands
    facts: Callable[[T], dict[str, Any]],
    words: Callable[[T], tuple[str, list[str]]],
) -> None:
    """Prints all values of a registry, or one with the meaning of its options.

    Args:
        registry: of the values.
        name: of the one to explain; None for all.
        json: whether to print JSON.
        facts: returns further members of a value's JSON object.
        words: returns what to print after a value's name, and lines after its summary.
    """
    values = registry.everything() if name is None else {name: registry.find(name)}
    if json:
        from json import dumps

        found = []
        for value in values.values():
            about = registry.describe(value)
            options = [option._asdict() for option in about.options]
            found.append({"name": about.name, "summary": about.summary, **facts(value), "options": options})
        emit(dumps(found if name is None else found[0], indent=2, ensure_ascii=False))
        return
    paragraphs = []
    for value in values.values():
        about, (after, more) = registry.describe(value), words(value)
        lines = [f"{about.name}{after}", f"  {about.summary}", *(f"  {line}" for line in more)]
        if name is None:
            defaults = ", ".join(f"{option.name}={option.default}" for option in about.options)
            lines.append(f"  options      {defaults or 'none'}")
        paragraphs.append("\n".join(lines))
        paragraphs += [] if name is None else map(_explained, about.options)
    emit("\n\n".join(paragraphs))


def _explained(option: "Option") -> str:
    """Returns an option, its values and its meaning."""
    given = "required" if option.default is None else f"default {option.default}"
    title = f"  {option.name}: {option.values}; {given}"
    return f"{title}\n{fill(option.meaning, _WIDTH, initial_indent='    ', subsequent_indent='    ')}"


def _backend_facts(backend: "Backend") -> dict[str, Any]:
    """Returns the capabilities of a backend as JSON values."""
    capabilities = backend.capabilities
    return {
        "exact": capabilities.exact,
        "max_variables": capabilities.max_variables,
        "constraints": sorted(feature.value for feature in capabilities.features),
    }


def _backend_words(backend: "Backend") -> tuple[str, list[str]]:
    """Returns the capabilities of a backend in words."""
    capabilities = backend.capabilities
    kind = "exact" if capabilities.exact else "heuristic"
    most = "any number of" if capabilities.max_variables is None else f"at most {capabilities.max_variables}"
    return f": {kind}, {most} variables", [f"constraints  {_supported(backend)}"]


def _supported(backend: "Backend") -> str:
    """Returns the supported constraints, or those missing where these are fewer."""
    from jtsolve.core.problem import ALL_FEATURES

    supported = sorted(feature.value for feature in backend.capabilities.features)
    missing = sorted(feature.value for feature in ALL_FEATURES - backend.capabilities.features)
    if not missing:
        return "all"
    if len(missing) < len(supported):
        return f"all but {', '.join(missing)}"
    return ", ".join(supported) or "none"
