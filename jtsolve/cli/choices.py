"""`jtsolve backends`, `scores`, `models`, `methods`: the values to choose from, and their options."""

from collections.abc import Callable
from importlib import import_module
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jtsolve.cli.output import emit

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend
    from jtsolve.core.choices import ChoiceField, Registry

_WIDTH = 100


def _listing(kind: str, place: str, what: str, *, plain: str) -> Callable[..., None]:
    """Returns the command that lists a registry, or explains the options of one of its values."""
    explained = Annotated[
        str | None, typer.Argument(metavar="[NAME]", help=f"Explain the options of one {what}.")
    ]

    def command(name: explained = None) -> None:
        module, _, registry = place.partition(":")
        _show(getattr(import_module(f"jtsolve.{module}"), registry), name)

    command.__name__, command.__doc__ = kind, f"{plain}, or explain the options of one."
    return command


backends = _listing(
    "backends", "backends.registry:REGISTRY", "backend", plain="List the backends with their limits"
)
scores = _listing("scores", "scoring.registry:REGISTRY", "score", plain="List the scores")
models = _listing(
    "models", "study.kinds:MODELS", "kind", plain="List the kinds of models of 'jtsolve fit --model'"
)
methods = _listing(
    "methods", "averaging.registry:METHODS", "method", plain="List the methods of 'jtsolve average'"
)


def _show(registry: "Registry[Any]", name: str | None) -> None:
    """Prints all values of a registry, or one with the meaning of its options."""
    values = registry.everything() if name is None else {name: registry.find(name)}
    paragraphs = []
    for value in values.values():
        about = registry.describe(value)
        after, more = _words(value) if hasattr(value, "capabilities") else ("", [])
        lines = [f"{about.name}{after}", f"  {about.summary}", *(f"  {line}" for line in more)]
        if name is None:
            defaults = ", ".join(f"{option.name}={option.default}" for option in about.options)
            lines.append(f"  options      {defaults or 'none'}")
        paragraphs.append("\n".join(lines))
        paragraphs += [] if name is None else map(_explained, about.options)
    emit("\n\n".join(paragraphs))


def _explained(option: "ChoiceField") -> str:
    """Returns an option, its values and its meaning."""
    given = "required" if option.default is None else f"default {option.default}"
    title = f"  {option.name}: {option.values}; {given}"
    return f"{title}\n{fill(option.meaning, _WIDTH, initial_indent='    ', subsequent_indent='    ')}"


def _words(backend: "Backend") -> tuple[str, list[str]]:
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
