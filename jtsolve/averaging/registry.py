"""The registry of averaging methods.

>>> METHODS.parse("bootstrap:200,backend=forward,posterior=chains(rounds=400)").posterior.rounds
400
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.choices import Entry, Registry

if TYPE_CHECKING:
    from jtsolve.averaging.method import AveragingMethod

METHODS: Registry[AveragingMethod] = Registry(
    "method",
    {
        "auto": Entry("jtsolve.averaging.auto:Auto"),
        "exact": Entry("jtsolve.averaging.exact:Exact"),
        "certified": Entry("jtsolve.averaging.certified:Certified"),
        "chains": Entry("jtsolve.averaging.chains:Chains"),
        "bootstrap": Entry("jtsolve.averaging.bootstrap:Bootstrap"),
    },
    annotations=("AveragingMethod", "Exact", "Certified", "Chains"),
    within=(REGISTRY,),
)


def method_of(method: str | AveragingMethod) -> AveragingMethod:
    """Returns the method of a text such as "chains:rounds=400"; a method unchanged.

    Raises:
        ChoiceError: the method or an option does not exist, or an option's value is invalid.
    """
    return METHODS.parse(method) if isinstance(method, str) else method
