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


def backends(incomplete: str) -> list[tuple[str, str]]:
    """Returns backends and what they do."""
    from jtsolve import backends as sentences

    offered = {"auto": "Chooses by the problem.", **sentences()}
    return [(name, words) for name, words in offered.items() if name.startswith(incomplete)]


def scores() -> Iterable[str]:
    """Returns the names of scores."""
    from jtsolve.scoring.registry import REGISTRY

    return REGISTRY


def formulas() -> Iterable[str]:
    """Returns the formats of formulas."""
    from jtsolve.encodings.export import TARGETS

    return TARGETS
