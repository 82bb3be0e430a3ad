"""Shell completion of the values of options; registries are loaded only on completion."""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jtsolve.core.choices import Registry

REGISTRIES = {
    "backends": "jtsolve.backends.registry:REGISTRY",
    "scores": "jtsolve.scoring.registry:REGISTRY",
    "models": "jtsolve.study.kinds:MODELS",
    "methods": "jtsolve.averaging.registry:METHODS",
}
"""The registries of values with a name and options."""


def registry_of(kind: str) -> "Registry[Any]":
    """Returns one of `REGISTRIES`."""
    module, _, name = REGISTRIES[kind].partition(":")
    found: Registry[Any] = getattr(import_module(module), name)
    return found


def complete_from(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Returns a completion by names.

    >>> complete_from(lambda: ["bic", "bdeu", "aic"])("b")
    ['bic', 'bdeu']
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def of_kind(kind: str) -> Callable[[str], list[str]]:
    """Returns a completion by the names of a registry."""
    return complete_from(lambda: registry_of(kind).names)
