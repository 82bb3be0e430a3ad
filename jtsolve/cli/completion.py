"""What a shell offers after an option, when a user presses the tabulator: names, loaded then only."""

from collections.abc import Callable, Iterable


def among(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Returns a completion by names.

    >>> among(lambda: ["bic", "bdeu", "aic"])("b")
    ['bic', 'bdeu']
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def backends() -> Iterable[str]:
    """Returns the names of backends, and auto."""
    from jtsolve.backends.registry import REGISTRY

    return ["auto", *REGISTRY.names]


def scores() -> Iterable[str]:
    """Returns the names of scores."""
    from jtsolve.scoring.registry import REGISTRY

    return REGISTRY.names


def models() -> Iterable[str]:
    """Returns the names of kinds of models."""
    from jtsolve.study.kinds import MODELS

    return MODELS.names


def methods() -> Iterable[str]:
    """Returns the names of methods of averaging."""
    from jtsolve.averaging.registry import METHODS

    return METHODS.names


def formulas() -> Iterable[str]:
    """Returns the formats of formulas."""
    from jtsolve.encodings.export import TARGETS

    return TARGETS
