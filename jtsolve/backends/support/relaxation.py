"""What a backend may offer others: a relaxation of the whole problem, with what it rules out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from jtsolve.core.backend import Limits, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet
    from jtsolve.families.families import Families


class Relaxation(NamedTuple):
    """What a relaxation says of a problem.

    Attributes:
        families: those of the families given that may be in a perfect order, from the root, of a tree that
            scores at least as much as `tree`.
        bound: no tree of the problem scores more, in nats.
        tree: the best tree known: that given, or a better one.
        clutters: cuts, each a collection of sets of which one is a single vertex: the sets that hold one of
            them are an up-set, into which every perfect order steps at some vertex (`encodings.clutter_clauses`).
    """

    families: Families
    bound: float
    tree: JunctionTree
    clutters: tuple[tuple[VarSet, ...], ...]


@runtime_checkable
class Relaxes(Protocol):
    """A backend that solves a relaxation, without branching."""

    def relaxation_memory(self, problem: Problem) -> int:
        """Returns the bytes that it takes beside the families."""
        ...

    def relax(
        self, problem: Problem, families: Families, tree: JunctionTree, limits: Limits, report: Report
    ) -> Relaxation:
        """Solves the relaxation of a problem of which a tree is known; reports trees and bounds as they come.

        Told to end, it returns what it has until then.
        """
        ...
