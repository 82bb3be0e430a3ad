"""Queries of Bayesian networks restricted to the part on which the answer depends.

P(targets | evidence) depends on the ancestors of targets and evidence only: summing out any other node, a
barren one, gives 1 (R. D. Shachter, Probabilistic inference and influence diagrams, Operations Research 36,
1988; M. Baker and T. E. Boult, Pruning Bayesian networks for efficient computation, UAI 1990). Among these,
it depends on the nodes that a path in the moral graph joins to a target once the observed nodes are removed,
since these are the nodes d-connected to it (S. L. Lauritzen, A. P. Dawid, B. N. Larsen, H.-G. Leimer,
Independence properties of directed Markov fields, Networks 20, 1990, proposition 3). They are the requisite
nodes of D. Geiger, T. Verma and J. Pearl (Identifying independence in Bayesian networks, Networks 20, 1990)
and of R. D. Shachter's Bayes-ball (UAI 1998). Only this part is triangulated, and its tables omit the
variables whose state is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING

from jtsolve.core.triangulation import triangulated
from jtsolve.core.varset import VarSet, members, varset
from jtsolve.errors import InputError, LimitError
from jtsolve.models.columns import Column
from jtsolve.models.inference.evidence import likelihoods
from jtsolve.models.layout import require_room, table_cells
from jtsolve.models.triangulation import Factor, calibrated
from jtsolve.tables.values import kind_of_texts, text_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.answers import Conditioned, Evidence
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.networks.network import Network


def network_variables(network: Network) -> tuple[Column, ...]:
    """Returns the variables of a network.

    Raises:
        InputError: a name or a state is blank, or two states differ only in what no table keeps.
    """
    try:
        return tuple(
            Column(text_label(node.name), states, kind=kind_of_texts(states))
            for node in network.nodes
            if (states := tuple(map(text_label, node.states)))
        )
    except ValueError as error:
        raise InputError(f"network '{network.name}'", "", str(error), "rename it there") from None


def factor_of(network: Network, v: int) -> Factor:
    """Returns P(v | parents), with an axis for each parent and a last one for v."""
    scope = (*network.nodes[v].parents, v)
    return Factor(scope, network.nodes[v].table.reshape([len(network.nodes[u].states) for u in scope]))


def plan_parts(entered: Entered, wanted: Sequence[VarSet]) -> list[RelevantPart]:
    """Returns one part for all targets, or one for each group, whichever is cheaper and fits."""
    union = reduce(or_, wanted)
    together = entered.part(entered.observed | union, union)
    most = together.cells if together.fits() else None
    apart: list[RelevantPart] = []
    for targets in dict.fromkeys(wanted):
        apart.append(entered.part(entered.observed | targets, targets))
        if most is not None and sum(part.cells for part in apart) >= most:
            return [together]
    return apart


@dataclass(frozen=True, slots=True, eq=False)
class Entered:
    """A network with evidence.

    Attributes:
        network: the network.
        columns: its variables.
        evidence: as the user gave it.
        likelihoods: of each state, by variable with evidence.
        codes: the known states, by variable.
    """

    network: Network
    columns: tuple[Column, ...]
    evidence: Evidence
    likelihoods: dict[int, NDArray[np.float64]]
    codes: dict[int, int]

    @classmethod
    def of(cls, network: Network, evidence: Evidence) -> Entered:
        """Returns a network with evidence; raises the errors of `relevant_posterior` for names and states."""
        columns = network_variables(network)
        known = likelihoods(columns, evidence)
        states = zip(known, evidence.values(), strict=True)
        codes = {v: columns[v].code(what) for v, what in states if isinstance(what, str)}
        return cls(network, columns, evidence, known, codes)

    @property
    def observed(self) -> VarSet:
        """The variables with evidence."""
        return varset(self.likelihoods)

    def log_probability(self) -> float:
        """Returns ln P(evidence), in nats.

        Raises:
            LimitError: the tables of its ancestors do not fit.
            InputError: it is impossible.
        """
        return self.part(self.observed, None).compiled().log_probability if self.observed else 0.0

    def part(self, roots: VarSet, targets: VarSet | None) -> RelevantPart:
        """Returns the part on which targets depend, among the roots and their ancestors.

        Args:
            roots: the targets and the variables with evidence.
            targets: None for all variables.
        """
        kept = self._ancestors(roots)
        factors = [self._factor(v) for v in members(kept)]
        factors += [
            Factor((v,), weight)
            for v, weight in self.likelihoods.items()
            if v not in self.codes and kept >> v & 1
        ]
        fixed = kept & varset(self.codes)
        free = kept & ~fixed
        if targets is not None:
            free = _joined(factors, targets & free)
            fixed &= targets
            factors = [factor for factor in factors if varset(factor.variables) & free]
        # A target whose state is known has a factor of its own, since the other tables omit it.
        factors += [Factor((v,), self.likelihoods[v]) for v in members(fixed)]
        return RelevantPart(self, free | fixed, free | fixed if targets is None else targets, tuple(factors))

    def _ancestors(self, roots: VarSet) -> VarSet:
        """Returns the roots and all their ancestors."""
        found = 0
        left = roots
        while left:
            found |= left
            left = varset(u for v in members(left) for u in self.network.nodes[v].parents) & ~found
        return found

    def _factor(self, v: int) -> Factor:
        """Returns the table of a node restricted to the known states."""
        whole = factor_of(self.network, v)
        at = tuple(self.codes.get(u, slice(None)) for u in whole.variables)
        return Factor(tuple(u for u in whole.variables if u not in self.codes), whole.table[at])


def _joined(factors: Sequence[Factor], start: VarSet) -> VarSet:
    """Returns the variables that are connected with the start through common factors."""
    scopes = [varset(factor.variables) for factor in factors]
    found, before = start, None
    while found != before:
        before = found
        left = []
        for scope in scopes:
            if scope & found:
                found |= scope
            else:
                left.append(scope)
        scopes = left
    return found


@dataclass(frozen=True, eq=False)
class RelevantPart:
    """A part of a network with evidence.

    Attributes:
        whole: the network with its evidence.
        variables: of the part; their positions within it are their ranks.
        targets: its queried variables.
        factors: by positions in the network.
    """

    whole: Entered
    variables: VarSet
    targets: VarSet
    factors: tuple[Factor, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the variables."""
        return tuple(self.whole.columns[v] for v in members(self.variables))

    @cached_property
    def renumbered(self) -> list[Factor]:
        """The factors, by positions in the part."""
        place = {v: k for k, v in enumerate(members(self.variables))}
        return [Factor(tuple(place[v] for v in one.variables), one.table) for one in self.factors]

    @cached_property
    def tree(self) -> JunctionTree:
        """A junction tree of the part."""
        scopes = [varset(factor.variables) for factor in self.renumbered]
        return triangulated([column.arity for column in self.columns], scopes)

    @cached_property
    def cells(self) -> int:
        """The number of cells of its tables."""
        return table_cells(self.tree, tuple(column.arity for column in self.columns))

    def require(self) -> None:
        """Checks that the tables fit.

        Raises:
            LimitError: they do not fit.
        """
        require_room(
            self.cells,
            f"the tables of the {len(self.columns)} variables on which the answer depends",
            "more evidence, which removes its variables from the tables; fewer targets at a time",
        )

    def fits(self) -> bool:
        """Returns whether the tables fit."""
        try:
            self.require()
        except LimitError:
            return False
        return True

    def compiled(self) -> Conditioned[JunctionTreeModel]:
        """Returns the distribution of the variables given the evidence in the part, and ln P(that evidence).

        Raises:
            LimitError: the tables do not fit.
            InputError: the evidence is impossible.
        """
        self.require()
        try:
            return calibrated(self.columns, self.renumbered, tree=self.tree)
        except InputError:
            listed = ", ".join(f"{name} = {what}" for name, what in self.whole.evidence.items())
            raise InputError(
                "evidence", "", f"the network gives {listed} probability 0", "check it, or drop some of it"
            ) from None
