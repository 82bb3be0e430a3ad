"""The registry: one line per backend, a value with its default options.

For other options, replace fields: `dataclasses.replace(REGISTRY["dp"], precision="int32")`.

A backend that uses another takes it as a field; the defaults are assembled here, so that backends do not
import each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.backends.brute import Brute
from jtsolve.backends.chowliu import ChowLiu
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.consistent.backend import FindConsistentTree
from jtsolve.backends.cpsat.backend import ConstraintProgramming
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.forward.backend import Forward
from jtsolve.backends.ilp.backend import IntegerProgramming
from jtsolve.backends.ktree import KTree
from jtsolve.backends.lns.backend import LargeNeighbourhoodSearch
from jtsolve.backends.maxsat.backend import MaximumSatisfiability
from jtsolve.backends.portfolio.backend import Portfolio
from jtsolve.backends.search.backend import LocalSearch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jtsolve.core.backend import Backend

_LNS = LargeNeighbourhoodSearch(exact=DynamicProgramming(), start=(Forward(), KTree(steps=4)))
_QUICK = LargeNeighbourhoodSearch(
    exact=DynamicProgramming(), start=(Forward(),), region=8, kicks=20, steps=20_000
)
_CLUTTER = ClutterCuts(start=_QUICK)
_SEARCH = LocalSearch(start=(Forward(), KTree(steps=4)))

REGISTRY: Mapping[str, Backend] = {
    backend.name: backend
    for backend in (
        Brute(),
        ChowLiu(),
        _CLUTTER,
        FindConsistentTree(),
        ConstraintProgramming(start=_QUICK, relaxation=_CLUTTER),
        DynamicProgramming(start=Forward(), forest=ChowLiu()),
        Forward(),
        IntegerProgramming(start=_QUICK, relaxation=_CLUTTER),
        KTree(),
        _LNS,
        MaximumSatisfiability(start=_QUICK, relaxation=_CLUTTER),
        Portfolio(members=(_LNS, _LNS, _SEARCH)),
        _SEARCH,
    )
}
