"""Random graphs with supersets, and an oracle that decides edges from the true graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.core.graph import UndirectedGraph
from jtsolve.core.varset import varset
from jtsolve.selection.method import Decision
from jtsolve.selection.samples import GaussianSample

if TYPE_CHECKING:
    from jtsolve.selection.method import Task
    from jtsolve.selection.samples import Sample


@dataclass(frozen=True, slots=True)
class Oracle:
    """Keeps an edge iff the marginal graph of the true graph over the columns has it.

    That is what any consistent method finds from infinitely many rows of these columns: edges that only a
    path outside the columns makes are kept too.
    """

    name: ClassVar[str] = "oracle"
    truth: UndirectedGraph

    def objection(self, sample: Sample) -> str | None:
        del sample
        return None

    def decide(self, sample: Sample, task: Task, seed: int) -> Decision:
        del seed
        place = {name: v for v, name in enumerate(self.truth.names)}
        columns = [place[name] for name in sample.names]
        marginal = self.truth.marginal(varset(columns))
        found = np.array([[bool(marginal[u] >> v & 1) for v in columns] for u in columns])
        return Decision(found & task.candidates)


def population(graph: UndirectedGraph) -> GaussianSample:
    """Returns arbitrary correlations, for methods that ignore them."""
    return GaussianSample(graph.names, np.eye(graph.n), 1000)


def random_pair(generator: np.random.Generator, n: int) -> tuple[UndirectedGraph, UndirectedGraph]:
    """Returns a superset, strips of overlapping cliques with a few long edges, and a graph within it."""
    names = tuple(f"v{v}" for v in range(n))
    order = generator.permutation(n)
    width = int(generator.integers(2, 5))
    above = np.zeros((n, n), dtype=np.bool_)
    for k in range(n):
        near = [k + d for d in range(1, width + 1) if k + d < n]
        if generator.random() < 0.3 and k > width:
            near.append(int(generator.integers(k)))
        for other in near:
            above[order[k], order[other]] = above[order[other], order[k]] = True
    superset = UndirectedGraph.from_matrix(names, above)
    kept = [edge for edge in superset.edges if generator.random() < generator.choice([0.2, 0.5, 0.8])]
    return superset, UndirectedGraph.from_edges(names, kept)
