"""The protocol of a backend that offers a relaxation of the whole problem to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet
    from jtsolve.families.families import Families


class Relaxation(NamedTuple):
    """The result of a relaxation.

    Attributes:
        families: the given families without those that no tree scoring at least as much as `tree` uses in a
            perfect order from the root.
        bound: on the score of every tree of the problem, in nats.
        tree: the best known tree: the given one, or a better one.
        clutters: cuts, each a collection of sets one of which is a single vertex: every perfect order enters
            the up-set of the sets that contain one of them (`encodings.family`).
    """

    families: Families
    bound: float
    tree: JunctionTree
    clutters: tuple[tuple[VarSet, ...], ...]


@runtime_checkable
class Relaxes(Protocol):
    """A backend that solves a relaxation, without branching."""

    def relaxation_memory(self, problem: Problem) -> int:
        """Returns the bytes that it needs besides the families."""
        ...

    def relax(
        self, problem: Problem, families: Families, tree: JunctionTree, limits: Limits, report: Report
    ) -> Relaxation:
        """Solves the relaxation of a problem with a known tree; reports trees and bounds as they come.

        Stopped by the report, it returns its result so far.

        Args:
            problem: to relax.
            families: of the problem.
            tree: the incumbent.
            limits: time, memory and threads.
            report: receives trees and bounds; ends the work.
        """
        ...

    def sparsest(
        self, problem: Problem, families: Families, tree: JunctionTree, limits: Limits, report: Report
    ) -> tuple[JunctionTree, str]:
        """Returns the sparsest optimal tree, and the criteria: "edges, parameters", "edges" or none.

        Args:
            problem: `tree` is one of its best trees, by proof.
            families: those that a relaxation left, or all.
            tree: one of the best.
            limits: of the whole run.
            report: ends the search, which then returns `tree`.
        """
        ...
