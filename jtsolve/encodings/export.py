"""A problem as a file for an outside solver: which formulation in which format."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from jtsolve.encodings import family, imset
from jtsolve.encodings.family import Order
from jtsolve.encodings.formats import cpsat_proto, lp, mps, wcnf
from jtsolve.encodings.rounding import rounded
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.families.families import choose_root, families_of

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem

Target: TypeAlias = Literal["wcnf", "wcnf-family", "lp", "mps", "cpsat-proto"]
TARGETS: tuple[Target, ...] = get_args(Target)
"""The imset formulation as WCNF, the family formulation as WCNF, LP and MPS, the imset one for CP-SAT."""

_FINEST = 30
"""The unit is not below 2^-30 nats, 10^-9: the sum of all weights has to fit 64 bits."""


def export(problem: Problem, target: Target, order: Order = "transitive", memory: int | None = None) -> str:
    """Returns a problem as the text of a file.

    Its remarks say what it is of; a solver's answer is read by `encodings.decoding`, which needs n alone.

    Args:
        problem: with the constraints that hold.
        target: formulation and format.
        order: of the family formulation in "lp" and "mps".
        memory: bytes that the formula may take, or None.

    Raises:
        ChoiceError: the target has no such order.
        LimitError: the formula would take more memory, or has weights beyond 64 bits.
    """
    formulation = imset if target in {"wcnf", "cpsat-proto"} else family
    if order != "transitive" and target not in {"lp", "mps"}:
        raise ChoiceError(f"the order '{order}' is for lp and mps only; '{target}' has the transitive one")
    need = formulation.predicted_memory(problem)
    if memory is not None and need > memory:
        raise LimitError(
            f"the formula would take about {need / 1e9:.3g} GB, and {memory / 1e9:.3g} GB are free. Ways "
            "out: a smaller --treewidth; jtsolve convert --prune-below, for fewer sets."
        )
    families, unit = rounded(families_of(problem, choose_root(problem, None)), _FINEST)
    encoding = imset.encode_imset(families) if formulation is imset else family.encode_family(families, order)
    formula = encoding.formula
    treewidth = problem.max_clique_size - 1
    remarks = (
        f"jtsolve: instance {dumps(problem.name)}, {problem.digest()}, treewidth at most {treewidth}",
        f"the score of a tree is within {unit.slack:.3g} nats of what the objective says",
        "adjacent_a_b, number b(b-1)/2 + a + 1 for a < b: an edge joins variables a and b, counted from 0",
    )
    if target in {"wcnf", "wcnf-family"}:
        return wcnf(formula, unit, remarks)
    if target == "cpsat-proto":
        return cpsat_proto(formula, unit, remarks)
    return lp(formula, remarks) if target == "lp" else mps(formula, remarks)


def make_target(text: str) -> Target:
    """Returns the target of a name.

    Raises:
        ChoiceError: there is none.
    """
    for target in TARGETS:
        if target == text:
            return target
    raise ChoiceError(f"'{text}' is no format of a formula; there are {', '.join(TARGETS)}")


def make_order(text: str) -> Order:
    """Returns the order of a name.

    Raises:
        ChoiceError: there is none.
    """
    for order in get_args(Order):
        if order == text:
            return cast("Order", order)
    raise ChoiceError(f"'{text}' is no order of the vertices; there are {', '.join(get_args(Order))}")
