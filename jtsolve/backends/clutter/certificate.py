"""Writes the proof of a branch and bound as a certificate, for `jtsolve.verify.certificate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.core.files import pack, write_atomically
from jtsolve.io.certificate import (
    FORMAT,
    Balance,
    CertificateDocument,
    Cut,
    ForbiddenGraph,
    Multipliers,
    NodeDocument,
)

if TYPE_CHECKING:
    from jtsolve.backends.clutter.branch_and_bound import ProofNode
    from jtsolve.backends.clutter.subproblem import Stage
    from jtsolve.core.problem import Problem


def write_certificate(path: str, problem: Problem, root: int, shift: int, first: ProofNode) -> None:
    """Writes the certificate of a tree of nodes to a file, packed if it is called .gz."""
    import msgspec

    nodes = [first]
    number = {id(first): 0}
    for node in nodes:  # grows while it is read: breadth first
        for child in (node.absent, node.present):
            if child is not None:
                number[id(child)] = len(nodes)
                nodes.append(child)
    document = CertificateDocument(
        format=FORMAT,
        version=1,
        digest=problem.digest(),
        variables=list(problem.names),
        root=root,
        shift=shift,
        nodes=[
            NodeDocument(
                stages=[_multipliers(stage) for stage in node.stages or ()],
                last=None if node.last is None or node.edge is not None else _multipliers(node.last),
                edge=node.edge,
                absent=None if node.absent is None else number[id(node.absent)],
                present=None if node.present is None else number[id(node.present)],
                graph=node.graph,
            )
            for node in nodes
        ],
    )
    data = msgspec.json.encode(document) + b"\n"
    write_atomically(path, pack(data) if path.endswith(".gz") else data)


def _multipliers(stage: Stage) -> Multipliers:
    return Multipliers(
        [Cut(weight, sets) for sets, weight in stage.cuts],
        [Balance(weight, limit, sets) for sets, limit, weight in stage.balances],
        [ForbiddenGraph(weight, edges) for edges, weight in stage.graphs],
    )
