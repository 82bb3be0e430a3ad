"""Objections and estimates of backends, computed once for a choice among them.

A backend that uses others derives its objections and its cost from theirs, and these do so in turn: without a
cache, a choice among all backends would query the innermost ones dozens of times for the same problem.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jtsolve.core.backend import Backend, Estimate
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits

T = TypeVar("T")

_ANSWERS: ContextVar[dict[Any, tuple[Problem, Any]] | None] = ContextVar("answers", default=None)
"""The cache in the body of `cached_estimates`; each entry holds its problem, whose identity is in the key."""


@contextmanager
def cached_estimates() -> Iterator[None]:
    """Caches the results of `objections_of` and `estimate_of` in the body."""
    token = _ANSWERS.set({} if (known := _ANSWERS.get()) is None else known)
    try:
        yield
    finally:
        _ANSWERS.reset(token)


def objections_of(backend: Backend, problem: Problem) -> tuple[str, ...]:
    """Returns every reason why a backend cannot accept a problem; see `Capabilities.objections`."""
    return _once((backend,), problem, lambda: backend.capabilities.objections(problem))


def estimate_of(backend: Backend, problem: Problem, limits: Limits) -> Estimate:
    """Returns the predicted cost of a problem, computed once; see `Backend.estimate`.

    Args:
        backend: that would solve it.
        problem: to solve.
        limits: of the run.
    """
    return _once((backend, limits), problem, lambda: backend.estimate(problem, limits))


def _once(question: tuple[Any, ...], problem: Problem, answer: Callable[[], T]) -> T:
    known = _ANSWERS.get()
    if known is None:
        return answer()
    key = (*question, id(problem))
    if key not in known:
        known[key] = problem, answer()  # the problem is held, so that no other gets its identity
    found: T = known[key][1]
    return found
