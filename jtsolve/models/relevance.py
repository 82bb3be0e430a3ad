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
from math import prod
from operator import or_
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.run import Run
from jtsolve.core.triangulation import triangulated
from jtsolve.core.varset import VarSet, members, varset
from jtsolve.errors import InputError, LimitError
from jtsolve.models.answers import Configuration, Explanation, Posterior
from jtsolve.models.columns import Column
from jtsolve.models.inference.evidence import likelihoods
from jtsolve.models.inference.marginals import marginals, require_small, targets_of
from jtsolve.models.inference.mpe import most_probable
from jtsolve.models.layout import require_room, table_cells
from jtsolve.models.triangulation import Factor, calibrated
from jtsolve.tables.values import kind_of_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.answers import Conditioned, Evidence
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.networks.network import Network


def network_variables(network: Network) -> tuple[Column, ...]:
    """Returns the variables of a network."""
    return tuple(Column(node.name, node.states, kind=kind_of_texts(node.states)) for node in network.nodes)


def factor_of(network: Network, v: int) -> Factor:
    """Returns P(v | parents), with an axis for each parent and a last one for v."""
    scope = (*network.nodes[v].parents, v)
    return Factor(scope, network.nodes[v].table.reshape([len(network.nodes[u].states) for u in scope]))


def relevant_posterior(
    network: Network,
    groups: Sequence[Sequence[str]],
    evidence: Evidence,
    *,
    run: Run | None = None,
) -> Posterior:
    """Returns the joint distribution of each group of variables given evidence.

    The groups share a junction tree if it fits in memory and has no more cells than separate ones.

    Args:
        network: the distribution.
        groups: the names in each group, at least one.
        evidence: hard and soft.
        run: receives progress.

    Raises:
        InputError: a variable or state is unknown, or the evidence is impossible.
        LimitError: the tables of the relevant part do not fit in memory; raised before they are built.
    """
    run = run or Run()
    entered = Entered.of(network, evidence)
    places = [targets_of(group, entered.columns) for group in groups]
    columns = tuple(tuple(entered.columns[v] for v in group) for group in places)
    for own in columns:
        require_small(prod(column.arity for column in own), len(own))
    wanted = list(map(varset, places))
    run.progress(note="ordering the elimination")
    parts = _plan(entered, wanted)
    for part in parts:
        part.require()
    # ln P(evidence) depends on the ancestors of the evidence only; they may not fit.
    log_probability: float | None = 0.0
    refusal = ""
    if entered.observed:
        above = entered.part(entered.observed, None)
        try:
            above.require()
            log_probability = above.compiled().log_probability
        except LimitError as error:
            log_probability, refusal = None, str(error)
    tables: dict[int, NDArray[np.float64]] = {}
    for done, part in enumerate(parts):
        run.progress(note="passing messages", done=done / len(parts))
        model = part.compiled().model
        single = dict(zip(model.names, marginals(model), strict=True))
        for k, (group, targets) in enumerate(zip(groups, wanted, strict=True)):
            if k not in tables and not targets & ~part.targets:
                tables[k] = single[group[0]] if len(group) == 1 else model.marginal(group)
    found = tuple(tables[k] for k in range(len(groups)))
    return Posterior(log_probability, refusal, columns, found)


def explanation(network: Network, evidence: Evidence, k: int = 1, *, run: Run | None = None) -> Explanation:
    """Returns the k most probable configurations given evidence, best first, and ln P(evidence).

    A maximum, unlike a sum, depends on every node; evidence still removes its variables from the tables.

    Args:
        network: the distribution.
        evidence: hard or soft.
        k: number of configurations.
        run: receives progress.

    Raises:
        InputError: a variable or state is unknown, or the evidence is impossible.
        LimitError: the tables do not fit in memory; raised before they are built.
    """
    run = run or Run()
    entered = Entered.of(network, evidence)
    run.progress(note="ordering the elimination")
    part = entered.part((1 << len(network.nodes)) - 1, None)
    log_probability = 0.0
    if entered.observed:
        above = entered.part(entered.observed, None)
        above.require()
        log_probability = above.compiled().log_probability
    with np.errstate(divide="ignore"):
        factors = [(factor.variables, np.log(factor.table)) for factor in part.renumbered]
    best = [
        Configuration(one.values, one.log_probability - log_probability)
        for one in most_probable(part.tree, part.columns, factors, k, run=run)
    ]
    return Explanation(best, log_probability)


def _plan(entered: Entered, wanted: Sequence[VarSet]) -> list[RelevantPart]:
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
            InputError: the evidence is impossible.
        """
        try:
            return calibrated(self.columns, self.renumbered, tree=self.tree)
        except InputError:
            listed = ", ".join(f"{name} = {what}" for name, what in self.whole.evidence.items())
            raise InputError(
                "evidence", "", f"the network gives {listed} probability 0", "check it, or drop some of it"
            ) from None
