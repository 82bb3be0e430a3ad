"""Writes the proof of a branch and bound as a certificate, for `jtsolve.verify.certificate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.core.files import pack, write_atomically
from jtsolve.io.certificate import FORMAT, CertificateDocument, NodeDocument

if TYPE_CHECKING:
    from jtsolve.backends.clutter.branch_and_bound import ProofNode
    from jtsolve.core.problem import Problem


def write_certificate(path: str, problem: Problem, root: int, shift: int, first: ProofNode) -> None:
    """Writes the proof that starts at a node to a file, compressed if its name ends in .gz."""
    import msgspec

    nodes = [first]
    number = {id(first): 0}
    for node in nodes:  # grows during the loop: breadth first
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
                stages=node.stages or [],
                last=node.last if node.edge is None else None,
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
