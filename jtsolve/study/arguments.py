"""Arguments of the Python functions, turned into the values underneath."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

from jtsolve.backends.registry import REGISTRY as BACKENDS
from jtsolve.errors import ChoiceError
from jtsolve.scoring.registry import REGISTRY as SCORES
from jtsolve.scoring.score import DEFAULT_SCORE

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend
    from jtsolve.core.choices import Registry
    from jtsolve.scoring.score import LocalScore

AUTO = "auto"


def chosen(registry: Registry[Any], given: Any, protocol: str) -> Any:
    """Returns a registered value: that of a text, or the value itself.

    Args:
        registry: of its kind.
        given: a text such as "lns:exact=dp", or a value.
        protocol: an attribute that such values have.

    Raises:
        ChoiceError: there is none of that name, or it is another kind of value.
    """
    if isinstance(given, str):
        return registry.parse(given)
    if not hasattr(given, protocol):
        raise ChoiceError(f"{given!r} is not a {registry.kind}; give a name: {', '.join(registry)}")
    return given


def backend_of(given: str | Backend) -> Backend | None:
    """Returns the backend; None for `auto`."""
    found: Backend | None = None if given == AUTO else chosen(BACKENDS, given, "capabilities")
    return found


def score_of(given: str | LocalScore | None, default: str = DEFAULT_SCORE) -> LocalScore:
    """Returns the score; None for the default."""
    found: LocalScore = chosen(SCORES, default if given is None else given, "name")
    return found


def treewidth_of(given: Any) -> int | None:
    """Returns a treewidth given as any whole number, or None."""
    if given is not None and (isinstance(given, bool) or not isinstance(given, Integral)):
        raise ChoiceError(f"treewidth={given!r} is not a whole number; give one, or None for no bound")
    return given if given is None else int(given)
