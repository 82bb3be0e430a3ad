"""Packages of solvers that some backends need."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jtsolve.core.backend import Capabilities, Rule
    from jtsolve.core.problem import Problem


def needs(module: str, package: str) -> Rule:
    """Returns a rule that objects if a module cannot be found, and names the package that has it."""
    return partial(_installed, module, package)


def _installed(module: str, package: str, _problem: Problem) -> str | None:
    if find_spec(module) is not None:
        return None
    return f"It needs {package}, which is not installed: pip install {package}."


def needed_packages(capabilities: Capabilities) -> tuple[str, ...]:
    """Returns the names of the packages that a backend needs."""
    return tuple(
        rule.args[1] for rule in capabilities.rules if isinstance(rule, partial) and rule.func is _installed
    )
