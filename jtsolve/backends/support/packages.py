"""Optional packages that some backends need."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jtsolve.core.backend import Capabilities, Rule
    from jtsolve.core.problem import Problem


def needs(package: str, name: str) -> Rule:
    """Returns a rule that objects if a package is not installed."""
    return partial(_installed, package, name)


def _installed(package: str, name: str, _problem: Problem) -> str | None:
    if find_spec(package) is not None:
        return None
    return f"It needs {name}, which is not installed: pip install 'jtsolve[solvers]'."


def needed_packages(capabilities: Capabilities) -> tuple[str, ...]:
    """Returns the names of the packages that a backend needs."""
    return tuple(
        rule.args[1] for rule in capabilities.rules if isinstance(rule, partial) and rule.func is _installed
    )
