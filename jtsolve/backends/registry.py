"""The registry of backends: the class of each, with the options that differ from the defaults of the class.

Another package offers a backend by an entry point of the group `jtsolve.backends`, with the name of the
backend; its object is the backend, or a class that is called for it. `auto` never chooses such a backend.

For other options, replace fields: `dataclasses.replace(REGISTRY["dp"], precision="int32")`.
"""

from __future__ import annotations

from jtsolve.core.backend import Backend, Capabilities
from jtsolve.core.choices import Entry, Registry

QUICK = "lns(start=forward,region=8,kicks=20,steps=20000)"
"""The first tree of exact backends."""
_WITH_RELAXATION = f"start={QUICK},relaxation=clutter"
_MERGING = (
    "forest=chowliu,greedy=forward(start=none),descent=lns(start=forward,region=8,kicks=0,steps=20000),"
    "improve=lns(start=forward,kicks=4),exact=clutter(start=none,simplex=20000,ties=false),otherwise=lns"
)


def _fault(backend: Backend) -> str | None:
    """Returns why a backend of another package cannot be used, or None."""
    if not isinstance(backend.capabilities, Capabilities):
        return "its capabilities are not `Capabilities` of jtsolve"
    return None


REGISTRY: Registry[Backend] = Registry(
    "backend",
    {
        "brute": Entry("jtsolve.backends.brute:Brute"),
        "chowliu": Entry("jtsolve.backends.chowliu:ChowLiu"),
        "clutter": Entry("jtsolve.backends.clutter.backend:ClutterCuts", f"start={QUICK}"),
        "consistent": Entry("jtsolve.backends.consistent.backend:FindConsistentTree"),
        "cpsat": Entry("jtsolve.backends.cpsat.backend:ConstraintProgramming", _WITH_RELAXATION),
        "dp": Entry("jtsolve.backends.dp.backend:DynamicProgramming", "start=forward,forest=chowliu"),
        "forward": Entry("jtsolve.backends.forward.backend:Forward", "start=chowliu"),
        "ilp": Entry("jtsolve.backends.ilp.backend:IntegerProgramming", _WITH_RELAXATION),
        "lns": Entry(
            "jtsolve.backends.lns.backend:LargeNeighbourhoodSearch",
            "exact=dp(start=none,forest=none),start=forward",
        ),
        "maxsat": Entry("jtsolve.backends.maxsat.backend:MaximumSatisfiability", _WITH_RELAXATION),
        "merging": Entry("jtsolve.backends.merging.backend:Merging", _MERGING),
        "portfolio": Entry(
            "jtsolve.backends.portfolio.backend:Portfolio",
            "members=merging+clutter(start=forward)+search(method=tabu)+search",
        ),
        "search": Entry("jtsolve.backends.search.backend:LocalSearch", "start=forward"),
    },
    annotations=("Backend",),
    group="jtsolve.backends",
    fault=_fault,
)
