"""The registry: one line per backend, a value with its default options; and those of other packages.

Another package offers a backend by an entry point of the group `jtsolve.backends`: its name is the backend's,
its object the backend, or a class that is called for it.

For other options, replace fields: `dataclasses.replace(REGISTRY["dp"], precision="int32")`.

A backend that uses another takes it as a field; the defaults are assembled here, so that backends do not
import each other.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING
from warnings import warn

from jtsolve.backends.brute import Brute
from jtsolve.backends.chowliu import ChowLiu
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.consistent.backend import FindConsistentTree
from jtsolve.backends.cpsat.backend import ConstraintProgramming
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.forward.backend import Forward
from jtsolve.backends.ilp.backend import IntegerProgramming
from jtsolve.backends.lns.backend import LargeNeighbourhoodSearch
from jtsolve.backends.maxsat.backend import MaximumSatisfiability
from jtsolve.backends.merging.backend import Merging
from jtsolve.backends.portfolio.backend import Portfolio
from jtsolve.backends.search.backend import LocalSearch
from jtsolve.core.backend import Capabilities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jtsolve.core.backend import Backend

GROUP = "jtsolve.backends"
"""The group of entry points."""

_FORWARD = Forward(start=(ChowLiu(),))
_LNS = LargeNeighbourhoodSearch(exact=DynamicProgramming(), start=(_FORWARD,))
_QUICK = LargeNeighbourhoodSearch(
    exact=DynamicProgramming(), start=(_FORWARD,), region=8, kicks=20, steps=20_000
)
_CLUTTER = ClutterCuts(start=_QUICK)
_SEARCH = LocalSearch(start=(_FORWARD,))
_MERGING = Merging(
    forest=ChowLiu(),
    greedy=Forward(),
    descent=replace(_QUICK, kicks=0),
    improve=LargeNeighbourhoodSearch(exact=DynamicProgramming(), start=(_FORWARD,), kicks=4),
    exact=ClutterCuts(simplex=20_000, ties=False),
    otherwise=_LNS,
)

REGISTRY: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        Brute(),
        ChowLiu(),
        _CLUTTER,
        FindConsistentTree(),
        ConstraintProgramming(start=_QUICK, relaxation=_CLUTTER),
        DynamicProgramming(start=_FORWARD, forest=ChowLiu()),
        _FORWARD,
        IntegerProgramming(start=_QUICK, relaxation=_CLUTTER),
        _LNS,
        MaximumSatisfiability(start=_QUICK, relaxation=_CLUTTER),
        _MERGING,
        Portfolio(
            members=(_MERGING, replace(_CLUTTER, start=_FORWARD), replace(_SEARCH, method="tabu"), _SEARCH)
        ),
        _SEARCH,
    )
}


def installed_backends() -> Iterator[Backend]:
    """Yields the backends of other packages; one that cannot be used is left out with a warning."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            found = entry.load()
            backend = found() if isinstance(found, type) else found
            fault = _fault(backend, entry.name)
        except Exception as error:  # noqa: BLE001 - a fault in another package must not stop this one
            fault = repr(error)
        if fault is None:
            yield backend
        else:
            warn(f"the backend '{entry.name}' from {entry.value} is left out: {fault}", stacklevel=2)


def _fault(backend: Backend, name: str) -> str | None:
    """Returns why a backend of another package cannot be registered, or None."""
    if not isinstance(backend.capabilities, Capabilities):
        return "its capabilities are none of jtsolve's"
    if backend.name != name:
        return f"it is called '{backend.name}', unlike its entry point"
    return "there is one of this name" if name in REGISTRY else None


REGISTRY.update((backend.name, backend) for backend in installed_backends())
