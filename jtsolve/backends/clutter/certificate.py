"""The proof of a branch and bound as a certificate, for `jtsolve.verify.certificate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from jtsolve.core.varset import varset
from jtsolve.io.certificate import (
    FORMAT,
    VERSION,
    Balance,
    CertificateDocument,
    Multipliers,
    NodeDocument,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from jtsolve.backends.clutter.branch_and_bound import ProofNode
    from jtsolve.backends.clutter.subproblem import Stage
    from jtsolve.core.problem import Problem

    Key = TypeVar("Key", bound=Hashable)


class Proof(NamedTuple):
    """A proof in the terms of docs/certificates.md.

    Attributes:
        root: the variable that comes first.
        shift: units are 2^-shift nats.
        first: the root node of a search that kept its stages.
        completions: rounds of the completion bound before the search.
    """

    root: int
    shift: int
    first: ProofNode
    completions: int = 0


def certificate_of(problem: Problem, proof: Proof) -> CertificateDocument:
    """Returns the certificate of a proof, with equal sets and rows listed once."""
    first = proof.first
    nodes = [first]
    number = {id(first): 0}
    for node in nodes:  # which grows: breadth first
        for child in (node.absent, node.present):
            if child is not None:
                number[id(child)] = len(nodes)
                nodes.append(child)
    stages = [stage for node in nodes for stage in (*(node.stages or ()), node.last) if stage is not None]
    used = {id(cut): cut for stage in stages for cut, _ in stage.cuts}  # stages share cuts
    named = {tuple(names) for cut in used.values() for names in cut}
    named |= {tuple(names) for stage in stages for row, _, _ in stage.balances for names, _ in row}
    # Sorted by mask, the sets of a cut are close together, which compresses well.
    sets = {names: at for at, names in enumerate(sorted(named, key=varset))}
    cuts: dict[tuple[int, ...], int] = {}
    place = {
        number: _at(cuts, tuple(sorted(sets[tuple(names)] for names in cut))) for number, cut in used.items()
    }
    balances: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
    graphs: dict[tuple[tuple[int, int], ...], int] = {}

    def multipliers(stage: Stage) -> Multipliers:
        return Multipliers(
            [(place[id(cut)], weight) for cut, weight in stage.cuts],
            [
                (_at(balances, (limit, tuple((sets[tuple(names)], c) for names, c in row))), w)
                for row, limit, w in stage.balances
            ],
            [(_at(graphs, tuple(edges)), w) for edges, w in stage.graphs],
        )

    documents = [
        NodeDocument(
            stages=[multipliers(stage) for stage in node.stages or ()],
            last=None if node.last is None or node.edge is not None else multipliers(node.last),
            edge=node.edge,
            absent=None if node.absent is None else number[id(node.absent)],
            present=None if node.present is None else number[id(node.present)],
            graph=node.graph,
        )
        for node in nodes
    ]
    return CertificateDocument(
        format=FORMAT,
        version=VERSION,
        digest=problem.digest(),
        variables=list(problem.names[: problem.n - problem.star]),
        root=proof.root,
        shift=proof.shift,
        sets=[list(names) for names in sets],
        cuts=[list(cut) for cut in cuts],
        balances=[Balance(limit, list(row)) for limit, row in balances],
        graphs=[list(edges) for edges in graphs],
        nodes=documents,
        completions=proof.completions,
    )


def _at(listed: dict[Key, int], row: Key) -> int:
    """Returns the position of a row; appends a new one."""
    return listed.setdefault(row, len(listed))
